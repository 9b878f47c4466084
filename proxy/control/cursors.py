"""Cursors of pages: where a list goes on, as text that a caller hands back unread."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

from proxy.routing.errors import Refusal

_LONGEST = 16_384  # characters; the longest names that can be take half of it
_GREATEST = 2.0**63


def encode(place: Sequence[Any]) -> str:
    """Return the cursor of a place: values that JSON has."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode(cursor: str) -> Any:
    """Return what a cursor holds, which may be anything.

    Raises:
        ValueError: it holds nothing.
    """
    if len(cursor) > _LONGEST:
        raise ValueError("too long")
    try:
        return json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except RecursionError:
        raise ValueError("nested too deep") from None


def name(value: Any) -> str:
    """Return a part of a cursor that is the name of something.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or "\x00" in value or not _encodable(value):
        raise ValueError("not a name")
    return value


def number(value: Any) -> float:
    """Return a part of a cursor that is a time, an amount or a count.

    Raises:
        ValueError: it is none that a database holds.
    """
    if not isinstance(value, int | float) or not -_GREATEST < value < _GREATEST:
        raise ValueError("not a number")
    return float(value)


def whole(value: Any) -> int:
    """Return a part of a cursor that is a whole number.

    Raises:
        ValueError: it is none that a database holds.
    """
    return math.floor(number(value))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        return False
    return True


def invalid() -> Refusal:
    """Return the refusal of what is no cursor of a list."""
    return Refusal(422, "invalid", "after: not a valid page cursor")
