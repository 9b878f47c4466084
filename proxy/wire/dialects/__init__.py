"""How each API writes usage, output and finish reasons."""
