"""The readers of usage, output and finish reasons, one for each API's format."""
