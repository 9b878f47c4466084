"""How long a provider may be silent before a call that its agent abandoned was stalled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceLimits:
    """Seconds without content, by what was waited for; pings and comments are no content.

    ``stall_s`` between two content events of a stream, ``first_content_s`` before its first:
    models that reason in secret are silent for minutes. ``whole_answer_s`` until an answer that
    is not streamed is whole.
    """

    stall_s: float = 60.0
    first_content_s: float = 300.0
    whole_answer_s: float = 600.0

    def limit(self, *, streamed: bool, has_content: bool) -> float:
        """Return the limit of one answer, in seconds."""
        if not streamed:
            return self.whole_answer_s
        return self.stall_s if has_content else self.first_content_s
