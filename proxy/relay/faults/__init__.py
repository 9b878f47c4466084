"""Injected provider failures for drills."""
