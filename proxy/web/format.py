"""Numbers, times and verdicts as people read them; unknown is a dash, never 0.

It asks nobody: what it is given, it words.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "–"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def number(value: float | None) -> str:
    """``12,345``."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """``1.2M``: for sums of which the first digits count."""
    if value is None:
        return UNKNOWN
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{0 if unit == 'k' else 1}f}{unit}"
    return number(value)


def percent(share: float | None) -> str:
    """``97.4%``; whole where it is whole, and never rounded up to 100."""
    if share is None:
        return UNKNOWN
    tenths = int(share * 1000)
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10}%"


def score(value: float | None) -> str:
    """``0.438``, three digits, as leaderboards print it."""
    return UNKNOWN if value is None else f"{value:.3f}"


def reward(value: float | None) -> str:
    """A reward, as short as it is."""
    return UNKNOWN if value is None else f"{value:g}"


def dollars(value: float | None) -> str:
    """``$12.30``; four digits below ten cents."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def seconds(value: float | None) -> str:
    """``0.42 s``, ``12.4 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 2 h``."""
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


def ago(at: float | None, now: float) -> str:
    """``just now``, ``4 min ago``, ``3 h ago``, ``12 d ago``."""
    if at is None:
        return UNKNOWN
    past = max(0.0, now - at)
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if past >= size:
            return f"{past // size:.0f} {unit} ago"
    return "just now" if past < 10 else f"{past:.0f} s ago"


def moment(at: float | None) -> str:
    """``2026-09-21 14:03:21 UTC``."""
    return UNKNOWN if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: float) -> str:
    """A time as HTML's ``datetime`` takes it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def clock(at: float, step_s: float = 1) -> str:
    """``14:03``, with seconds where the steps are short, with the day where they are long."""
    written = datetime.fromtimestamp(at, UTC)
    if step_s >= 3 * _HOUR:
        return f"{written:%b} {written.day}"
    return f"{written:%H:%M:%S}" if step_s < _MINUTE else f"{written:%H:%M}"


def shell(text: str) -> str:
    """A word as a shell takes it."""
    return shlex.quote(text)


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 rollout``, ``2 rollouts``."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


# --- verdicts ----------------------------------------------------------------------------------

RULES: Mapping[str, str] = {
    "not_judged": "no prompt was executed",
    "undecided": "evidence is missing, or no call has ended yet",
    "all_failed": "every call of the agent failed, and no output token came",
    "main_model_failed": "every call to the model under test failed; others went through",
    "interrupted": "the last calls failed and nothing after them succeeded",
    "zero_signal": "a prompt was executed, yet no call, token or tool call was seen",
    "empty_answers": "calls succeeded, but none of them carried any output",
    "healthy": "none of the rules that take a score away applies",
}

WARNINGS: Mapping[str, str] = {
    "calls_lost": "calls were in flight when the proxy died",
    "calls_unrecorded": "calls were served that could not be recorded",
    "calls_in_flight": "calls are still in flight",
    "calls_never_answered": "calls were left before they were answered",
    "calls_bypass_the_proxy": "the runner saw activity that never passed the proxy",
    "ended_on_rejection": "the last request was rejected: the agent's own doing",
    "ended_on_failure": "the last call failed, and the agent went on with another model",
    "context_length": "the agent overran the model's context",
    "content_filter": "a content filter stopped a request",
    "refusals": "the model refused at least once",
    "truncated_by_max_tokens": "answers were cut short by their own token limit",
    "empty_answers": "some answers carried no output",
    "left_by_agent": "the agent hung up on calls",
    "request_repeated": "the same failing request was sent many times",
    "usage_missing": "some answers told no token counts",
    "usage_partial": "some token counts are those of answers cut short",
    "answers_unread": "some answers could not be followed",
    "faults_injected": "failures were played to this agent in a drill",
}


def sentence(verdict: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> str:
    """A verdict in one plain sentence."""
    said = _SENTENCES[verdict["health"]](verdict, outcome)
    return f"Doomed: {said[0].lower()}{said[1:]}" if _doomed(verdict) else said


def _doomed(verdict: Mapping[str, Any]) -> bool:
    return bool(verdict["doomed"] and verdict["provisional"])


def _healthy(verdict: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> str:
    if verdict["provisional"]:
        return "So far the model answers."
    rewards = ((outcome or {}).get("rewards") or {}).values()
    if verdict["scoreable"] == "yes" and rewards and not any(rewards):
        return "The model was reached: this zero is true."
    return "The model was reached: what it scored counts."


_PROVED: Mapping[str, str] = {
    "all_failed": "No call of this agent was ever answered",
    "main_model_failed": "The model under test never answered",
    "interrupted": "The provider cut this agent off",
}


def _failed(verdict: Mapping[str, Any], _outcome: Mapping[str, Any] | None) -> str:
    proved = _PROVED.get(verdict["rule"], "The provider failed this rollout")
    cause = (verdict["subcategory"] or "").replace("_", " ")
    what = (verdict["error"] or "").partition(": ")[2] or verdict["fingerprint"]
    return f"{proved} ({cause}: {what}), so its score does not count."


def _suspected(verdict: Mapping[str, Any], _outcome: Mapping[str, Any] | None) -> str:
    return f"Nobody can tell that a model was asked: {RULES.get(verdict['rule'], verdict['rule'])}."


def _not_judged(_verdict: Mapping[str, Any], _outcome: Mapping[str, Any] | None) -> str:
    return "No prompt was executed, so there is nothing to judge."


def _undecided(verdict: Mapping[str, Any], outcome: Mapping[str, Any] | None) -> str:
    if verdict["total_requests"] == 0 and outcome is None:
        return "No call has ended yet."
    return "Evidence is missing, so nobody can tell yet."


_SENTENCES = {
    "healthy": _healthy,
    "api_error": _failed,
    "suspected_api_error": _suspected,
    "not_judged": _not_judged,
    "undecided": _undecided,
}
