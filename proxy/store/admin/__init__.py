"""Archive, back up and prune stored data while services run."""
