"""Cursors of pages: where a list goes on, as text that a caller hands back unread."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from proxy.routing.errors import Refusal


def encode(place: Sequence[Any]) -> str:
    """Return the cursor of a place: values that JSON has."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def decode(cursor: str) -> Any:
    """Return what a cursor holds, which may be anything.

    Raises:
        ValueError: it holds nothing.
    """
    return json.loads(base64.urlsafe_b64decode(cursor.encode()))


def name(value: Any) -> str:
    """Return a part of a cursor that is the name of something.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError("not a name")
    return value


def invalid() -> Refusal:
    """Return the refusal of what is no cursor of a list."""
    return Refusal(422, "invalid", "after: not a valid page cursor")
