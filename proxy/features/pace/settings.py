"""The settings of pace, and what an upstream may say of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field, field_validator


class PaceSettings(BaseModel):
    """The settings of turns: whether calls wait for theirs, how long, and whose are how many."""

    pace: Literal["off", "learn"] = Field(
        "off",
        description="`learn`: calls to a model wait for their turn, so that they stay within the "
        "rate limits that providers state and answer with; `pace` below an upstream, `off`, "
        "`learn` or a table of `requests_per_minute`, `tokens_per_minute` and `concurrency`, "
        "overrides it",
    )
    pace_patience_s: float = Field(
        30.0,
        gt=0,
        description="how long a call waits for its turn at most, before it is sent in any case, "
        "in seconds",
    )
    pace_weights: dict[str, float] = Field(
        default_factory=dict,
        description="turns of batches, by name or by its beginning and `*`: twice the weight is "
        "twice as many; 1 for the others",
    )

    @field_validator("pace_weights")
    @classmethod
    def _positive(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if not 0 < weight < float("inf"):
                raise ValueError(f"{name!r}: a weight must be greater than 0")
        return weights


SETTINGS = PaceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPace:
    """The limits within which an operator has an upstream called, of each model and key.

    None is no limit of theirs; what the provider states and its 429s count all the same.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: float | None = None


def read_pace(upstream: str, value: object) -> GivenPace | None:
    """Read ``"off"``, which is None, ``"learn"``, or a table of limits.

    Raises:
        ValueError: it is none of them.
    """
    if isinstance(value, str):
        if value not in ("off", "learn"):
            raise ValueError(f"upstreams.{upstream}.pace: {value!r} is neither 'off' nor 'learn'")
        return GivenPace() if value == "learn" else None
    if not isinstance(value, Mapping):
        raise ValueError(f"upstreams.{upstream}.pace: unknown key or bad value")
    limits: dict[str, float] = {}
    for key, limit in value.items():
        if key not in GivenPace.__dataclass_fields__:
            known = ", ".join(GivenPace.__dataclass_fields__)
            raise ValueError(f"upstreams.{upstream}.pace: {key!r} is none of {known}")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise ValueError(f"upstreams.{upstream}.pace.{key}: must be a number greater than 0")
        limits[key] = float(limit)
    return GivenPace(**limits)


UPSTREAM_OPTIONS = {"pace": read_pace}


def paced_upstreams(
    pace: str, stated: Iterable[tuple[str, Mapping[str, object]]]
) -> dict[str, GivenPace]:
    """Return the given limits of the upstreams whose calls wait, by name.

    Arguments:
        pace: the setting: ``learn`` for all that say nothing themselves, or ``off``.
        stated: upstreams' names, with their options.
    """
    found = {}
    for name, options in stated:
        own = options.get("pace")
        if isinstance(own, GivenPace):
            found[name] = own
        elif "pace" not in options and pace == "learn":
            found[name] = GivenPace()
    return found
