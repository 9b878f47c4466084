"""The setting of the operator's rows, `[[causes]]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, cast

from pydantic import BaseModel, Field, field_validator, model_validator

from classifier.cause_rows import CauseRow
from classifier.operator_causes import operator_rows
from classifier.verdicts import plural


class _AllSettings(Protocol):
    """The settings that these are part of, as far as they are asked."""

    def allow_list(self) -> Mapping[str, object]: ...


class CauseSettings(BaseModel):
    """The operator's rows; each may name an upstream, which must be known."""

    causes: list[Any] = Field(
        default_factory=list, description="the operator's own rows on what errors mean"
    )

    @field_validator("causes", mode="before")
    @classmethod
    def _valid(cls, tables: Any) -> Any:
        operator_rows(tables)
        return tables

    @model_validator(mode="after")
    def _of_known_upstreams(self) -> Self:
        known = cast(_AllSettings, self).allow_list() if self.causes else {}
        for number, row in enumerate(self.cause_rows, start=1):
            if unknown := row.upstreams - known.keys():
                raise ValueError(f"causes: row {number}: upstream: {min(unknown)!r} is not known")
        return self

    @property
    def cause_rows(self) -> tuple[CauseRow, ...]:
        """The operator's own rows on what errors mean, in their order."""
        return operator_rows(self.causes)


SETTINGS = CauseSettings


def announcements(settings: CauseSettings) -> Sequence[str]:
    """Return how many rows there are, which is said as the service starts."""
    rows = settings.cause_rows
    return [f"{plural(len(rows), 'row')} of [[causes]] before the cause table"] if rows else []
