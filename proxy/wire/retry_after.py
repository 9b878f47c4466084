"""Read how long a provider asks to wait: Retry-After and the vendors' reset headers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from proxy.wire.dialect import Headers

LONGEST_S: Final = 366 * 86_400.0  # no allotment takes more than a year to come back
_WAITS: Final = frozenset((b"retry-after", b"retry-after-ms"))
_UNITS: Final[Mapping[str, float]] = {
    "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0,
    "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|μs|ns|d|h|m|s)")
_RESET: Final = re.compile(r"ratelimit(?:bysize)?-(?:.*-)?reset(?:-|$)|ratelimit-unified-reset$")
_EPOCH_S: Final = 1e9  # smaller numbers are waits, from here on points in time
_EPOCH_MS: Final = 1e11


def retry_after(headers: Headers, *, now: float) -> float | None:
    """Return how long to wait, in seconds, from 0 to `LONGEST_S`; None where no header states it.

    ``retry-after-ms`` and ``retry-after`` come first. Otherwise the longest reset among the
    rate-limit windows that are used up: a window whose ``…-remaining`` header is above
    zero is not what stopped the call. Names are lower-case, ``now`` is epoch seconds.

    Sources: openai-python ``_base_client.py`` (retry-after-ms, HTTP-date),
    platform.openai.com/docs/guides/rate-limits (Go durations), console.groq.com,
    docs.claude.com/en/api/rate-limits (RFC 3339), openrouter.ai/docs/limits (epoch ms).
    """
    stated = {
        name.decode("latin-1"): value.decode("latin-1").strip()
        for name, value in headers
        if b"ratelimit" in name or name in _WAITS
    }
    if not stated:
        return None
    if (ms := _number(stated.get("retry-after-ms"))) is not None:
        return plausible_wait(ms / 1000)
    if (wait := _moment(stated.get("retry-after"), now)) is not None:
        return wait
    waits = [_moment(v, now) for k, v in stated.items() if _RESET.search(k) and _used_up(k, stated)]
    return max((w for w in waits if w is not None), default=None)


def _used_up(name: str, stated: Mapping[str, str]) -> bool:
    remaining = _number(stated.get(name.replace("reset", "remaining")))
    return remaining is None or remaining <= 0


def _moment(value: str | None, now: float) -> float | None:
    """Return the seconds until what a header states: a wait, a duration, a date, an epoch."""
    if not value:
        return None
    if (number := _number(value)) is not None:
        return _from_number(number, now)
    if (wait := parse_duration(value)) is not None:
        return wait
    at = _date(value)
    return None if at is None else plausible_wait(at - now)


def _from_number(number: float, now: float) -> float | None:
    if number >= _EPOCH_MS:
        return plausible_wait(number / 1000 - now)
    return plausible_wait(number - now if number >= _EPOCH_S else number)


def _number(value: str | None) -> float | None:
    if value is None or not re.fullmatch(r"\d{1,18}(?:\.\d{1,18})?", value, re.ASCII):
        return None
    return float(value)


def parse_duration(value: str) -> float | None:
    """Parse a Go duration (``6m0s``, ``20ms``) or plain seconds."""
    text = value.strip()
    if (number := _number(text)) is not None:
        return plausible_wait(number)
    parts = _PART.findall(text)
    if not parts or "".join(a + b for a, b in parts) != text:
        return None
    return plausible_wait(sum(float(amount) * _UNITS[unit] for amount, unit in parts))


def _date(value: str) -> float | None:
    """Return epoch seconds of an RFC 3339 or HTTP date; a date without a zone is UTC."""
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(value)
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return zoned.timestamp()
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def plausible_wait(seconds: float) -> float | None:
    """Return a wait in seconds, from 0 to `LONGEST_S`; None where it is not finite."""
    return min(max(0.0, seconds), LONGEST_S) if math.isfinite(seconds) else None
