"""REST: each handler parses, calls one control service and renders."""
