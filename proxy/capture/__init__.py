"""Observe one call and describe it as an exchange. No I/O."""
