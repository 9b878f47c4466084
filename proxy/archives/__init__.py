"""The files that an archive is written to and read from."""
