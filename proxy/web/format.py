"""Text for numbers, times and verdicts; unknown is a dash, never 0."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from classifier.sentences import LEFT_OPEN, MISSING
from classifier.verdicts import (
    NO_REFERENCE,
    PROVOKED_SUSPECTED,
)
from truezero import printable
from truezero.printable import plural

UNKNOWN = "–"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def number(value: float | None) -> str:
    """Format as ``12,345``."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Format as ``1.2M``."""
    if value is None:
        return UNKNOWN
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{0 if unit == 'k' else 1}f}{unit}"
    return number(value)


def percent(share: float | None) -> str:
    """Format as ``97.4%``, never rounded up to 100."""
    return UNKNOWN if share is None else printable.percent(share)


def score(value: float | None) -> str:
    """Format as ``0.438``, three digits as on leaderboards; a large one as briefly as possible."""
    if value is None:
        return UNKNOWN
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.4g}"


def reward(value: float | None) -> str:
    """Format a reward as briefly as possible."""
    return UNKNOWN if value is None else f"{value:g}"


def dollars(value: float | None) -> str:
    """Format as ``$12.30``; four digits below ten cents; a cost is never shown as nothing."""
    if value is None:
        return UNKNOWN
    if 0 < value < 0.00005:
        return "<$0.0001"
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def seconds(value: float | None) -> str:
    """Format as ``0.42 s``, ``12.4 s``, ``3 min 20 s``, ``2 h 5 min`` or ``3 d 2 h``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) and value < _MINUTE:
        return f"{value} s"
    if value < _MINUTE:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    for big, small, size, part in (
        ("min", "s", _MINUTE, 1), ("h", "min", _HOUR, _MINUTE), ("d", "h", _DAY, _HOUR),
    ):  # fmt: skip
        if value < size * 60 or big == "d":
            whole, rest = divmod(int(value), size)
            return f"{whole} {big} {rest // part} {small}" if rest // part else f"{whole} {big}"
    return UNKNOWN


def took(value: float) -> str:
    """Format as ``71.9 ms``, three digits; from a second on as `seconds` does."""
    return f"{1000 * value:.3g} ms" if value < 0.9995 else seconds(value)


def ago(at: float | None, now: float) -> str:
    """Format as ``just now``, ``4 min ago``, ``3 h ago`` or ``12 d ago``."""
    if at is None:
        return UNKNOWN
    past = max(0.0, now - at)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if past >= size:
            return f"{past // size:.0f} {unit} ago"
    return "just now" if past < 10 else f"{past:.0f} s ago"


def moment(at: float | None) -> str:
    """Format as ``2026-09-21 14:03:21 UTC``."""
    return UNKNOWN if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: float) -> str:
    """Format for HTML's ``datetime`` attribute."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def local(at: float) -> str:
    """Format as a ``datetime-local`` field takes it: ``2026-09-21T14:03:21``, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"


def clock(at: float, step_s: float = 1) -> str:
    """Format as ``14:03``; with seconds for short steps, as a date for long ones."""
    written = datetime.fromtimestamp(at, UTC)
    if step_s >= 12 * _HOUR:
        return f"{written:%b} {written.day}"
    return f"{written:%H:%M:%S}" if step_s < _MINUTE else f"{written:%H:%M}"


def zeros(found: Mapping[str, Any]) -> str:
    """Name the reported zeros that are none: ``19 of 34 zeros``, ``none of 24 zeros``."""
    reported, none = found["reported"], found["not_measured"]
    if not reported:
        return "no zeros"
    return f"{number(none) if none else 'none'} of {plural(reported, 'zero')}"


def shell(text: str) -> str:
    """Quote a word for a shell."""
    return shlex.quote(text)


# --- verdicts ----------------------------------------------------------------------------------

RULES: Mapping[str, str] = {
    "not_judged": "no prompt was executed, or the agent failed before it made a call",
    "undecided": "evidence is missing, no call has ended yet, or no output of the model was read",
    "all_failed": "every call of the agent failed without an output token",
    "main_model_failed": "every call to the model under test failed, while other models answered",
    "interrupted": "the last calls failed and none succeeded after them",
    "zero_signal": "no inference call, token or tool call was recorded, and no error was reported",
    "unread_answers": "calls succeeded, but nothing that came could be read as an answer",
    "empty_answers": "calls succeeded, but none returned a text or a tool call",
    "never_answered": "the agent gave up every call to the model under test before an answer",
    "unexplained_rejections": "the last requests were rejected alike, and nothing explains why",
    "own_failures": "no model answered, which was the agent's own doing: the score counts",
    "healthy": "output of the model was read, and no rule finds that it failed",
}

WARNINGS: Mapping[str, str] = {
    **MISSING,
    "calls_in_flight": "calls are still in flight",
    "calls_never_answered": "the agent disconnected before calls were answered",
    "calls_bypass_the_proxy": "the runner reported activity that bypassed the proxy",
    "error_before_any_call": "the runner reported an error, and the agent had made no call",
    "bound_model_not_seen": "no call asked for the registered model",
    "ended_on_rejection": "the last request was rejected for a reason: the agent's own doing",
    "ended_on_unexplained_rejection": "the last request was rejected without a reason",
    "ended_on_unread_answers": "the last responses could not be read as answers",
    "ended_on_lost_state": "at the end the conversation's own state was rejected: a signature, a "
    "tool call without its result, or an earlier turn that the provider no longer had",
    "ended_on_failure": "the last call failed and the agent continued with another model",
    "context_length": "the agent exceeded the model's context length",
    "content_filter": "a content filter blocked a request",
    "refusals": "the model refused at least once",
    "truncated_by_max_tokens": "responses were truncated by their token limit",
    "empty_answers": "some responses had no output",
    "left_by_agent": "the agent disconnected during calls",
    "closed_at_outcome": "calls were still in flight when the rollout ended",
    "request_repeated": "the same failing request was sent many times",
    "usage_missing": "some responses had no token counts",
    "usage_partial": "some token counts are of truncated responses",
    "answers_unread": "some responses could not be read, or led elsewhere",
    "questions_not_read": "calls that ask a model went to a path that is not read",
    "faults_injected": "failures were injected for a drill",
    "failed_by_agent": "the agent failed its own calls, which are left out: the reward counts",
    PROVOKED_SUSPECTED: "an untrusted agent may have failed its own calls: the reward counts",
    NO_REFERENCE: "the proxy could not ask the provider itself: calls of other rollouts decided",
    **LEFT_OPEN,
}


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading: its letters and digits, in lower case, joined by dashes."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
