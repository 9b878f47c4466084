"""Models of what is made of a batch: a comparison with another, its usage, what to run again."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, Field

from truezero.models.base import StrictRequest
from truezero.models.lists import LONGEST_PAGE

Change = Literal[
    "broken", "fixed", "unmeasured_b", "unmeasured_a", "unmeasured_both", "only_a", "only_b",
    "unchanged",
]  # fmt: skip
UsageDimension = Literal["model", "upstream", "role", "task"]
USAGE_DIMENSIONS: tuple[UsageDimension, ...] = get_args(UsageDimension)
RerunName = Literal["transient", "fix_first", "skipped", "undecided", "unmeasured"]
RERUN_NAMES: tuple[RerunName, ...] = get_args(RerunName)
_Interval = tuple[float, float] | None


class TaskScore(BaseModel):
    """How a task did in one batch; no repeat: the batch does not have it."""

    score: float | None = Field(description="mean over its measured repeats")
    measured: int = Field(description="repeats with a score")
    repeats: int = Field(description="repeats of the task; 0: the batch does not have it")
    rollout_ids: list[str] = Field(description="the attempt that counts of each repeat")


class TaskChange(BaseModel):
    """One task in both batches."""

    task: str = Field(description="name of the task")
    change: Change = Field(
        description="`broken`: it scored lower in b; `fixed`: higher; `only_a`: b does not have it"
    )
    difference: float | None = Field(description="score in b minus score in a; null if unmeasured")
    a: TaskScore = Field(description="how it did in batch a")
    b: TaskScore = Field(description="how it did in batch b")


class ComparedBatch(BaseModel):
    """One of two batches by itself, over all that it measured."""

    batch: str = Field(description="name of the batch")
    total: int = Field(description="slots: repeats of tasks, and rollouts without a task")
    scoreable: int = Field(description="slots whose rollout reached a model")
    scored: int = Field(description="of those, slots with a reward")
    coverage: float | None = Field(description="share of the slots that were measured")
    score_effective: float | None = Field(description="mean reward over what was measured")
    score_ci: _Interval = Field(description="95 % interval of `score_effective`")


class BatchComparison(BaseModel):
    """Two batches compared over the tasks that both measured; each task weighs the same."""

    a: ComparedBatch = Field(description="the batch that is compared with")
    b: ComparedBatch = Field(description="the batch that is compared")
    compared: int = Field(description="tasks that both measured: what the next four are over")
    score_a: float | None = Field(description="mean over them of the scores in a")
    score_b: float | None = Field(description="mean over them of the scores in b")
    difference: float | None = Field(description="`score_b` minus `score_a`")
    difference_ci: _Interval = Field(
        description="95 % interval of `difference`: Newcombe's where scores are 0 or 1, else "
        "Student's t over tasks; null where nothing tells the spread"
    )
    counts: dict[str, int] = Field(description="tasks by change")
    without_task: int = Field(description="slots that name no task, and compare with nothing")
    tasks: list[TaskChange] = Field(description="by change, broken ones first, then by name")
    next: str | None = Field(description="value of `after` for the next page; null on the last")


class UsageSums(BaseModel):
    """What ended inference calls add up to; a sum that no call tells anything of is null."""

    calls: int = Field(description="ended calls")
    failures: int = Field(description="of those, failed ones")
    billable_calls: int = Field(description="those that used tokens, as far as is known")
    tokens_known_calls: int = Field(description="of `billable_calls`, those with token counts")
    cost_known_calls: int = Field(description="of `billable_calls`, those in `cost_usd`")
    input_tokens: int | None = Field(description="cached ones included")
    output_tokens: int | None = Field(description="reasoning included")
    total_tokens: int | None = Field(description="input and output, or as the provider says")
    cost_usd: float | None = Field(description="US dollars")
    seconds: float | None = Field(description="that the calls took, summed over calls at once")


class UsageItem(UsageSums):
    """The calls with one model, upstream, role and task; a name that was not asked for is null."""

    model: str | None = Field(default=None, description="that answered, else that was asked for")
    upstream: str | None = Field(default=None, description="upstream that was called")
    role: str | None = Field(default=None, description="`agent`, or as the call named it")
    task: str | None = Field(default=None, description="task of the rollout")


class BatchUsage(BaseModel):
    """What a batch used, the most expensive first; calls of every role count."""

    batch: str = Field(description="name of the batch")
    by: list[UsageDimension] = Field(description="what calls are added up by")
    items: list[UsageItem] = Field(description="sums, the most expensive first")
    sum: UsageSums = Field(description="over all of them")


class RerunParameters(StrictRequest):
    """Which page is asked for of what is to be run again; without either it is all of it."""

    after: str | None = Field(default=None, description="the `next` of the page before")
    limit: Annotated[int, Field(ge=1, le=LONGEST_PAGE)] | None = Field(
        default=None, description=f"items on a page; {LONGEST_PAGE} with `after`, else all"
    )


class RerunItem(BaseModel):
    """One repeat of a task to run again."""

    task: str | None = Field(description="name of the task")
    repeat: int | None = Field(description="which sample of the task")
    rollout_id: str | None = Field(description="its last attempt; null if it was never started")
    attempt: int = Field(description="the number that the next attempt has")
    after_s: float | None = Field(description="not before so many seconds")


class RerunGroup(BaseModel):
    """What has one cause."""

    cause: str = Field(description="a fingerprint with its lane, a check, or a short name")
    fix: str | None = Field(description="what to do first; null where nothing is to be done")
    count: int = Field(description="repeats with this cause")
    items: list[RerunItem] = Field(description="those repeats, or those of the page, oldest first")


class RerunKind(BaseModel):
    """The causes of one kind, the most frequent first."""

    count: int = Field(description="repeats in this list")
    groups: list[RerunGroup] = Field(description="by cause, the most frequent first")


class Reruns(BaseModel):
    """Every repeat of a task without a score, once, by what is to be done about it."""

    batch: str = Field(description="name of the batch")
    running: int = Field(description="repeats under way, in none of the lists")
    transient: RerunKind = Field(description="the provider failed for a while: run it again")
    fix_first: RerunKind = Field(description="it would fail again until its cause is fixed")
    skipped: RerunKind = Field(description="not admitted by an open breaker")
    undecided: RerunKind = Field(description="evidence is missing")
    unmeasured: RerunKind = Field(description="the provider did not fail, and there is no score")
    next: str | None = Field(
        default=None, description="value of `after` for the next page; null on the last"
    )

    def kind(self, name: RerunName) -> RerunKind:
        """Return one of the lists by its name."""
        found: RerunKind = getattr(self, name)
        return found
