"""The dashboard: pages for people, rendered on the server."""
