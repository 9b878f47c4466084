"""Processes, listeners and start-up."""
