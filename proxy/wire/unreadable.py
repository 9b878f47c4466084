"""The exception for a response that cannot be read further; its bytes are relayed all the same."""

from __future__ import annotations


class Unreadable(Exception):
    """A framing or an encoding cannot be read; the text is a reason without content."""
