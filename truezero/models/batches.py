"""Models of a batch: its summary, its circuit breakers and the causes of its failures."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from truezero.models.base import Subcategory
from truezero.models.rollouts import RetryAdvice
from truezero.models.validity import BatchFinding


class RetryItem(RetryAdvice):
    """A rollout to run again."""

    rollout_id: str
    task: str | None
    repeat: int | None = None
    attempt: int | None


class Exclusions(BaseModel):
    """Whether what a batch leaves out of its score biases it."""

    exclusion_bias: bool | None = Field(
        default=None,
        description="whether exclusions strike hard tasks; null with too few repeated tasks",
    )
    exclusion_p: float | None = Field(
        default=None, description="of the permutation test over tasks, after Holm"
    )
    exclusion_fisher_p: float | None = Field(
        default=None, description="of zeros among excluded and kept rewards; decides nothing"
    )


class PassAt(BaseModel):
    """The chance that at least one of `k` repeats of a task passes, by the unbiased estimator."""

    k: int
    estimate: float | None = Field(
        description="mean over the tasks with at least `k` measured repeats; null without any"
    )
    tasks: int = Field(description="tasks with at least `k` measured repeats")
    of: int = Field(description="tasks with at least `k` repeats, measured or not")


class BatchSummary(Exclusions):
    """A batch: counts of rollouts, every attempt included, and scores over its slots.

    A slot without a measurement counts as 0 in `score_all`, is left out of
    `score_effective`, and counts as 0 and 1 in `score_worst` and `score_best`. A score
    over no slots is null.
    """

    batch: str
    rollouts: int
    pending: int = Field(description="rollouts whose verdict is still provisional")
    skipped: int = Field(description="rollouts not admitted by an open breaker")
    health: dict[str, int]
    subcategory: dict[str, int]
    fingerprint: dict[str, int]
    summaries: list[str]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None = Field(description="US dollars, of calls of every role")
    calls: int | None = Field(
        default=None,
        description="the agents' calls that used tokens: what the sums of tokens and cost are of",
    )
    tokens_known_calls: int | None = Field(
        default=None, description="of `calls`, those with token counts"
    )
    cost_known_calls: int | None = Field(
        default=None, description="of `calls`, those whose cost is in `cost_usd`"
    )
    diagnostics: dict[str, int] | None = Field(
        default=None, description="rollouts by the field of a result that says what is wrong"
    )
    validity: dict[str, int] | None = Field(
        default=None, description="rollouts by the worst level of what was found beside health"
    )
    validity_checks: dict[str, int] | None = Field(
        default=None, description="rollouts by the check that found something"
    )
    validity_across: list[BatchFinding] | None = Field(
        default=None, description="what differs between its rollouts, the worst first"
    )
    total: int
    scoreable: int
    scored: int
    coverage: float | None
    score_all: float | None
    score_effective: float | None
    score_ci: tuple[float, float] | None = Field(
        default=None,
        description="95 % interval of `score_effective`, over tasks: Wilson's where rewards are "
        "0 or 1, else Student's t; null where nothing tells the spread",
    )
    pass_at: list[PassAt] | None = Field(
        default=None,
        description="for 1, 2, 4, … repeats and the most that a task has; null without repeats, "
        "or where rewards are not 0 or 1",
    )
    score_worst: float | None
    score_best: float | None
    score_first: float | None = Field(description="first attempts only")
    score_retried: float | None = Field(description="slots filled by a later attempt")
    retried: int
    retried_after_score: list[str] = Field(description="run again although already scored")
    valid: bool
    retry: list[RetryItem]


class Check(Exclusions):
    """Whether a batch is a valid measurement, with one line for each objection.

    What is suspect and counts all the same has lines too, and leaves the batch valid.
    """

    batch: str
    valid: bool
    lines: list[str]


class BreakerLane(BaseModel):
    """The breaker of one lane; times in seconds since the epoch."""

    lane: str = Field(description="upstream/model/key digest")
    phase: Literal["closed", "open", "half_open"]
    fingerprint: str | None
    streak: int
    threshold: int
    opened_at: float | None
    retry_at: float | None = Field(description="when the quota resets, according to the provider")
    tripped_by: list[str] = Field(description="rollouts of the streak, oldest first")
    canary: str | None


class Breaker(BaseModel):
    """The breakers of a batch; a threshold of 0 disables them."""

    batch: str
    threshold: int
    lanes: list[BreakerLane]


class Fingerprint(BaseModel):
    """A cause and how often it occurred; times in seconds since the epoch."""

    fingerprint: str
    subcategory: Subcategory | None
    rollouts: int
    batches: int
    first_seen: float
    last_seen: float


class Fingerprints(BaseModel):
    """Causes across batches, most frequent first."""

    items: list[Fingerprint]
