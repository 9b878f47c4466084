"""Why a listener stops listening: an answer it cannot or must not follow further.

It never stops the bytes: whoever catches this goes on relaying.
"""

from __future__ import annotations


class Unreadable(Exception):
    """Raised by a framing or a decoder; its text is a plain reason, free of content."""
