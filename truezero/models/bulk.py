"""Registrations by the thousand in one call, answered one by one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from truezero.models.base import StrictRequest
from truezero.models.rollouts import RolloutRegistered
from truezero.models.service import Problem

MOST_REGISTRATIONS = 10_000

# Each is read by itself: a wrong one is no reason to refuse the others.
_Registrations = Annotated[
    list[Any],
    Field(
        min_length=1,
        max_length=MOST_REGISTRATIONS,
        description="registrations as of `POST /rollouts`",
        json_schema_extra={"items": {"$ref": "#/components/schemas/RolloutRequest"}},
    ),
]


class BulkRequest(StrictRequest):
    """`POST /rollouts/bulk`: register many rollouts."""

    rollouts: _Registrations


class BulkItem(BaseModel):
    """The answer to one of many registrations: what `POST /rollouts` would have answered."""

    status: int = Field(description="HTTP status: 201, or that of `problem`")
    rollout: RolloutRegistered | None = Field(description="null where it was refused")
    problem: Problem | None = Field(description="why it was refused; null where it was not")


class BulkRegistered(BaseModel):
    """The answers to many registrations, in their order."""

    items: list[BulkItem] = Field(description="one for each registration")
