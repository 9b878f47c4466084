"""The dashboard: pages for people, rendered on the server; each asks and then shows."""
