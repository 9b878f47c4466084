"""Rate limits that providers state in the heads of their answers.

Read by the words of a header's name, so that one reader serves every dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from proxy.wire.dialect import Headers
from proxy.wire.provider_error import stated_wait


class Unit(StrEnum):
    """The unit in which a limit counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"  # of input and output together
    INPUT = "input"
    OUTPUT = "output"


class Allowance(NamedTuple):
    """One limit as an answer states it.

    ``name`` tells it from the lane's others. ``limit`` and ``remaining`` are in its unit, None if
    not stated. ``reset_s``: seconds until all of it is there again. ``period_s``: seconds in which
    ``limit`` comes back, where the name says so.
    """

    name: str
    unit: Unit
    limit: float | None
    remaining: float | None
    reset_s: float | None
    period_s: float | None


# The words of the headers' names. Sources: platform.openai.com/docs/guides/rate-limits,
# docs.claude.com/en/api/rate-limits, inference-docs.cerebras.ai/support/rate-limits,
# docs.fireworks.ai/serverless/rate-limits, console.groq.com/docs/rate-limits, and the trio
# RateLimit-Limit, -Remaining, -Reset (draft-ietf-httpapi-ratelimit-headers).
_NAME: Final = re.compile(
    rb"(?:x-|anthropic-|fireworks-)?(ratelimit|ratelimitbysize|tokenlimit)-(.+)"
)
_ROLES: Final = frozenset((b"limit", b"remaining", b"reset"))
_UNITS: Final[Mapping[bytes, Unit]] = {
    b"requests": Unit.REQUESTS, b"req": Unit.REQUESTS, b"tokens": Unit.TOKENS,
    b"input": Unit.INPUT, b"prompt": Unit.INPUT, b"output": Unit.OUTPUT, b"generated": Unit.OUTPUT,
}  # fmt: skip
_PERIODS: Final[Mapping[bytes, float]] = {
    b"second": 1.0, b"minute": 60.0, b"hour": 3_600.0, b"day": 86_400.0,
}  # fmt: skip
_QUALIFIERS: Final = frozenset((b"project", b"query"))  # a limit of its own, beside the account's
_NUMBER: Final = re.compile(rb"\s*(\d{1,15}(?:\.\d{1,9})?)")
_MOST: Final = 12  # limits of one answer; more are no provider's


def allowances(headers: Headers, *, now: float) -> list[Allowance]:
    """Return the limits that an answer states; a name with a word that is not known is left out.

    Arguments:
        headers: with lower-case names.
        now: seconds since the epoch, for resets that are points in time.
    """
    stated: dict[tuple[str, Unit, float | None], dict[bytes, bytes]] = {}
    for name, value in headers:
        if b"limit-" in name and (read := _words(name)) is not None:
            limit, role = read
            stated.setdefault(limit, {})[role] = value
    return [
        Allowance(
            name,
            unit,
            _number(values.get(b"limit")),
            _number(values.get(b"remaining")),
            stated_wait(values.get(b"reset", b"").decode("latin-1").strip(), now),
            period_s,
        )
        for (name, unit, period_s), values in list(stated.items())[:_MOST]
    ]


def codex_wait_s(event: Mapping[str, object], now: float) -> float | None:
    """Return the wait that an event ``codex.rate_limits`` states, in seconds; None if it has none.

    It says how much is used of two windows, and when each begins anew (openai/codex,
    codex-api/src/rate_limits.rs): what is used up is to be waited for.

    Arguments:
        now: seconds since the epoch.
    """
    windows = event.get("rate_limits")
    if not isinstance(windows, Mapping):
        return None
    waits = [0.0]
    for name in ("primary", "secondary"):
        window = windows.get(name)
        if not isinstance(window, Mapping):
            continue
        used, reset_at = window.get("used_percent"), window.get("reset_at")
        if isinstance(used, int | float) and isinstance(reset_at, int | float) and used >= 100:
            waits.append(float(reset_at) - now)
    return max(waits) or None


def _words(name: bytes) -> tuple[tuple[str, Unit, float | None], bytes] | None:
    """Return the limit that a header is about, and which of its three values it states."""
    matched = _NAME.fullmatch(name)
    if matched is None:
        return None
    role, units, period_s, rest = None, [], None, []
    for word in matched[2].split(b"-"):
        if word in _ROLES and role is None:
            role = word
        elif word in _UNITS:
            units.append(_UNITS[word])
        elif word in _PERIODS:
            period_s = _PERIODS[word]
        elif word in _QUALIFIERS:
            rest.append(word)
        else:
            return None
    if role is None:
        return None
    finer = [unit for unit in units if unit is not Unit.TOKENS]
    counted = Unit.REQUESTS if matched[1] == b"ratelimit" else Unit.TOKENS
    unit = (finer or units or [counted])[0]
    named = [word.decode() for word in rest] + ([] if period_s is None else [f"{period_s:g}s"])
    return (" ".join([unit.value, *named]), unit, period_s), role


def _number(value: bytes | None) -> float | None:
    """Return a header's number, or the first one of a list (``100, 100;w=60``)."""
    matched = None if value is None else _NUMBER.match(value)
    return None if matched is None else float(matched[1])
