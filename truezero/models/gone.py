"""Fields of the last release: null in answers and without effect in requests, for one release."""

from __future__ import annotations

from typing import Any

from pydantic import Field


def gone(instead: str) -> Any:
    """Return a field that is null, deprecated in the OpenAPI document; reading it warns.

    Arguments:
        instead: what to use now, a clause without a full stop.
    """
    return Field(None, deprecated=instead, description=f"gone, always null: {instead}")
