"""Models of a batch: its summary, its circuit breakers and the causes of its failures."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from truezero.models.base import Subcategory
from truezero.models.validity import BatchFinding
from truezero.models.verdicts import RetryAdvice


class RetryItem(RetryAdvice):
    """A rollout to run again."""

    rollout_id: str = Field(description="the attempt that failed")
    task: str | None = Field(description="its task")
    repeat: int | None = Field(default=None, description="which sample of the task")
    attempt: int | None = Field(description="which try of that sample")


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

    k: int = Field(description="repeats drawn")
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

    batch: str = Field(description="name of the batch")
    rollouts: int = Field(description="rollouts, every attempt included")
    pending: int = Field(description="rollouts whose verdict is still provisional")
    skipped: int = Field(description="rollouts not admitted by an open breaker")
    outdated: int | None = Field(
        default=None,
        description="rollouts under way whose last calls are not in these counts yet",
    )
    health: dict[str, int] = Field(description="rollouts by health")
    subcategory: dict[str, int] = Field(description="rollouts by subcategory")
    fingerprint: dict[str, int] = Field(description="rollouts by fingerprint")
    summaries: list[str] = Field(description="the batch in sentences")
    input_tokens: int | None = Field(description="of `tokens_known_calls`")
    output_tokens: int | None = Field(description="of `tokens_known_calls`")
    total_tokens: int | None = Field(description="of `tokens_known_calls`")
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
    total: int = Field(description="slots: the samples that were to be measured")
    scoreable: int = Field(description="slots whose rollout reached a model")
    scored: int = Field(description="of those, slots with a reward")
    coverage: float | None = Field(description="share of the slots that were measured")
    score_all: float | None = Field(description="mean reward, what was not measured counted as 0")
    score_effective: float | None = Field(description="mean reward over what was measured")
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
    score_worst: float | None = Field(description="lower bound: the rest would all be 0")
    score_best: float | None = Field(description="upper bound: the rest would all be 1")
    score_first: float | None = Field(description="first attempts only")
    score_retried: float | None = Field(description="slots filled by a later attempt")
    retried: int = Field(description="slots with more than one attempt")
    retried_after_score: list[str] = Field(
        description="run again although already scored: the first 100"
    )
    retried_after_score_total: int | None = Field(default=None, description="of them in all")
    valid: bool = Field(description="whether the batch is a valid measurement")
    retry: list[RetryItem] = Field(description="the first 100 rollouts to run again")
    retry_total: int | None = Field(default=None, description="of them in all")


class Check(Exclusions):
    """Whether a batch is a valid measurement, with one line for each objection.

    What is suspect and counts all the same has lines too, and leaves the batch valid.
    """

    batch: str = Field(description="name of the batch")
    valid: bool = Field(description="whether every slot is a measurement, and unbiased")
    lines: list[str] = Field(
        description="one sentence for each objection, the worst first; of those about rollouts "
        "the first 100"
    )
    lines_total: int | None = Field(default=None, description="of them in all")


class BreakerLane(BaseModel):
    """The breaker of one lane; times in seconds since the epoch."""

    lane: str = Field(description="upstream/model/key digest")
    phase: Literal["closed", "open", "half_open"] = Field(
        description="`open`: rollouts are skipped; `half_open`: one probe is allowed"
    )
    fingerprint: str | None = Field(description="the failure that is counted")
    streak: int = Field(description="rollouts in a row that it ended")
    threshold: int = Field(description="length of the streak that opens the breaker")
    opened_at: float | None = Field(description="null while closed")
    retry_at: float | None = Field(description="when the quota resets, according to the provider")
    tripped_by: list[str] = Field(description="rollouts of the streak, oldest first")
    canary: str | None = Field(description="the rollout that probes the lane, while half-open")


class Breaker(BaseModel):
    """The breakers of a batch; a threshold of 0 disables them."""

    batch: str = Field(description="name of the batch")
    threshold: int = Field(description="length of the streak that opens a breaker; 0: never")
    lanes: list[BreakerLane] = Field(description="lanes with a streak or an open breaker")


class Fingerprint(BaseModel):
    """A cause and how often it occurred; times in seconds since the epoch."""

    fingerprint: str = Field(description="cause and status, such as `quota:429`")
    subcategory: Subcategory | None = Field(description="null: no call failed")
    rollouts: int = Field(description="affected rollouts")
    batches: int = Field(description="batches they are in")
    first_seen: float = Field(description="when the first of them was judged")
    last_seen: float = Field(description="when the last of them was judged")


class Fingerprints(BaseModel):
    """Causes across batches, most frequent first."""

    items: list[Fingerprint] = Field(description="the causes")
