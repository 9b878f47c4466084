"""REST: each handler parses, asks the control desk once, and renders."""
