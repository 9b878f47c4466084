"""Texts for people: counts with their nouns, and texts from elsewhere made safe to print.

Ids, models and error codes come from agents and providers, and imported names from anywhere. ESC
moves the cursor and rewrites what was printed, bidi overrides reverse what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# C0, DEL and C1; what turns the direction of a text (Unicode UAX #9, `Bidi_Control`); separators
# of lines and paragraphs; zero-width joiners and marks; surrogates that no encoding takes.
_HIDDEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def visible(text: str) -> str:
    """Return a text of one line with each character that is not shown as its escape."""
    return _HIDDEN.sub(_escaped, text)


def visible_lines(text: str) -> str:
    """Return the same for a text of several lines."""
    return "\n".join(map(visible, text.split("\n")))


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return ``1 call``, ``1,234 calls``; ``many`` where it is not ``one`` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def repeat_name(task: str | None, repeat: int | None) -> str | None:
    """Return what a repeat is called: by its task, and its number if it has one; None without."""
    return task if task is None or repeat is None else f"{task} (repeat {repeat})"


def percent(share: float) -> str:
    """Format as ``97.4%``, never rounded up."""
    tenths = int(share * 1000)
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10}%"


def measured_words(scored: int, repeats: int, own_failures: int = 0) -> str:
    """Say how many repeats were measured: ``41 of 60 measured (68.3%)``.

    Arguments:
        scored: repeats with a score that counts.
        own_failures: those of them that count although no model answered.
    """
    share = f" ({percent(scored / repeats)})" if repeats else ""
    verb = "count" if own_failures else "measured"
    return f"{scored:,} of {repeats:,} {verb}{share}"


def sum_words(known: str | None, calls: int | None, unknown: int | None, why: str) -> str:
    """Say what a sum is at least: ``at least 252 tokens; 4 of 5 calls did not say``.

    Arguments:
        known: the sum of what is known; None if nothing is.
        calls: those that the sum is about, of which ``unknown`` are not in it; None: not counted.
        why: the reason for which they are not.
    """
    if not calls or not unknown:
        return known or "unknown"
    least = "unknown" if known is None else f"at least {known}"
    return f"{least}; {unknown:,} of {plural(calls, 'call')} {why}"


def not_measurements(scores: int) -> str:
    """Say that so many zeros, or scores above 0, are no measurements, behind their number."""
    return "is not a measurement" if scores == 1 else "are not measurements"


_NOT_SCORED: Final = {
    "no_reward": "no reward was reported",
    "score_key": "no reward is known to be the score",
}


def parts_words(parts: Mapping[str, Any]) -> str:
    """Say where the planned repeats of a batch are: each is in one part, and 0 is left out.

    Arguments:
        parts: as REST has them.
    """
    own = parts["own_failures"]
    not_scored = {_NOT_SCORED.get(why, why): n for why, n in parts["not_scored"].items()}
    told = [
        f"{parts['measured']:,} measured",
        own and plural(own, "agent's own failure", "agents' own failures"),
        _apart(parts["not_measured"], "not measured"),
        _apart(not_scored, "not scored"),
        *(
            parts[name] and f"{parts[name]:,} {name.replace('_', ' ')}"
            for name in ("skipped", "running", "never_started")
        ),
    ]
    return ", ".join(filter(None, told))


def _apart(causes: Mapping[str, int], what: str) -> str:
    """Return a part of repeats with its causes, empty without any."""
    named = ", ".join(f"{n:,} {cause.replace('_', ' ')}" for cause, n in causes.items())
    return f"{sum(causes.values()):,} {what} ({named})" if causes else ""


def exclusion_words(bias: bool | None, p: float | None) -> str:
    """Say if what a batch leaves out strikes hard tasks, by the test of ``exclusion_p``."""
    if bias is None or p is None:
        return "Whether the missing repeats look random is unknown: too few repeated tasks."
    if bias:
        return f"The missing repeats do not look random (p = {p:.2g})."
    return f"The missing repeats look random (p = {p:.2g})."


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_REFERENCES: Final = {
    "failed_alike": "failed alike",
    "answered": "was answered",
    "partly": "was answered in part",
    "otherwise": "does not say whose failure it was",
    "no_reference": "could not be asked",
}


def reference_words(result: str | None, *, answered: int, calls: int) -> str:
    """Say how the proxy's own question ended, asked beside a failed call.

    Arguments:
        result: how the two compare, as in a verdict's ``references``; None while it runs.
        answered: questions of the series that were answered, of ``calls``.
    """
    words = "is being asked" if result is None else _REFERENCES[result]
    counts = f" ({answered} of {plural(calls, 'question')} answered)" if calls else ""
    return f"the proxy's own question {words}{counts}"
