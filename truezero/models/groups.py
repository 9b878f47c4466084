"""Models of groups: the rollouts of one task, compared with each other for training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from truezero.models.base import PrintableText, StrictRequest

AdvantageMethod = Literal["grpo", "rloo", "mean"]


class Group(BaseModel):
    """The repeats of one task, in the order of their numbers: lists have one place for each.

    Of several attempts at a repeat, the one that counts is listed: the first that is scoreable
    with a reward, else the last. A masked repeat shifts no baseline.
    """

    task: str = Field(description="the task")
    method: AdvantageMethod = Field(description="how advantages were computed")
    wanted: int = Field(description="repeats asked for at registration, else those seen")
    settled: bool = Field(description="whether all of them have a final verdict")
    revision: int = Field(description="how often it has settled; 0 before the first time")
    final: bool = Field(
        description="whether it is not expected to settle again: nothing is advised to be run "
        "again, or the batch has ended"
    )
    rollout_ids: list[str] = Field(description="the rollout that counts of each repeat")
    repeats: list[int | None] = Field(description="numbers of the repeats, in order")
    rewards: list[float | None] = Field(description="null where masked")
    valid: list[bool] = Field(description="false where masked: not measured, or without a reward")
    baseline: float | None = Field(description="mean of the valid rewards")
    std: float | None = Field(
        description="their standard deviation (ddof 1); null with fewer than two"
    )
    advantages: list[float | None] = Field(
        description="null where masked, and with fewer than two valid; 0 without a spread"
    )
    resample: int = Field(description="masked repeats that their verdicts advise to run again")
    drop: bool = Field(
        description="even with those and the ones to come, fewer than `min_valid` can be valid"
    )


class GroupPage(BaseModel):
    """A page of groups, by the names of their tasks."""

    items: list[Group] = Field(description="the groups")
    ended: bool = Field(
        description="whether the batch has ended: every run of it was declared over, and every "
        "rollout has its final verdict or was given up"
    )
    next: str | None = Field(description="value of `after` for the next page; null on the last")


_RUN = Annotated[str, Field(min_length=1, max_length=200), PrintableText]


class BatchBegin(StrictRequest):
    """`POST /batches/{id}/begin`: somebody is going to start rollouts of the batch."""

    run: _RUN = Field(description="your name for it; the same when it is resumed")


class BatchEnd(StrictRequest):
    """`POST /batches/{id}/end`: nobody starts rollouts of the batch any more."""

    run: _RUN | None = Field(default=None, description="the run that is over; null: all of them")


class BatchRuns(BaseModel):
    """Whether a batch goes on."""

    batch: str = Field(description="name of the batch")
    open_runs: int = Field(description="runs that were begun and not declared over")
    ended: bool = Field(
        description="whether all were declared over, and every rollout has its final verdict or "
        "was given up"
    )
