"""Move, copy, prune and archive stored data while services run."""
