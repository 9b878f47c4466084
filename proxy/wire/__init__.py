"""Pure readers of the wire: bytes in, facts out; no clock, no socket, no log."""
