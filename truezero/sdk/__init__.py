"""The client library of a runner."""
