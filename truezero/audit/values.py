"""Values in the JSON of other programs; what is of another type is taken as missing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

Json = dict[str, Any]


def mapping(value: object) -> Json:
    """Return an object, empty where it is none."""
    return dict(value) if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Return a list, empty where it is none."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[Json]:
    """Return the objects in a list."""
    return [dict(each) for each in items(value) if isinstance(each, Mapping)]


def text(value: object) -> str | None:
    """Return a text that is not empty."""
    return value if isinstance(value, str) and value else None


def number(value: object) -> float | None:
    """Return a finite number; true is 1, false is 0."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def score(value: object) -> float | None:
    """Return a number, also one that is written as a text."""
    if not isinstance(value, str):
        return number(value)
    try:
        return number(float(value))
    except ValueError:
        return None


def count(value: object) -> int | None:
    """Return a number of things, which is whole and not negative."""
    whole = number(value)
    if isinstance(value, bool) or whole is None or whole < 0 or whole != int(whole):
        return None
    return int(whole)


def total(values: Iterable[int | None]) -> int | None:
    """Add up what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def length(value: object) -> int | None:
    """Return how many values a list has; None of an empty one, which stands for one not kept."""
    return len(items(value)) or None


def began(ended_at: float | None, milliseconds: object) -> float | None:
    """Return when something began that took so long, in seconds since the epoch."""
    took = number(milliseconds)
    return None if ended_at is None or took is None else ended_at - took / 1000


def instant(value: object) -> float | None:
    """Return an ISO time or a number of seconds as seconds since the epoch."""
    if isinstance(value, str) and value:
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return number(value)
