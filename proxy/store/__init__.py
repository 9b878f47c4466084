"""Storage: all SQL of the service, by subject."""
