"""REST: each handler parses, calls one function of `proxy.control` and renders."""
