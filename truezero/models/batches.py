"""Models of a batch: its summary, groups, lists and reports, its breakers and causes of failure."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from truezero.models.base import Health, Known, PrintableText, StrictRequest, Subcategory
from truezero.models.gone import gone
from truezero.models.verdicts import BatchFinding, EarlierCheck, RetryAdvice, Validity


class RetryItem(RetryAdvice):
    """A rollout to run again."""

    rollout_id: str = Field(description="the attempt that failed")
    task: str | None = Field(description="its task")
    repeat: int | None = Field(default=None, description="which sample of the task")
    attempt: int | None = Field(description="which try of that sample")


class Exclusions(BaseModel):
    """The tests of whether a batch's score is biased by what it leaves out."""

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


class ReportedZeros(BaseModel):
    """The repeats that the runner scored 0, and those of them that are no measurement."""

    reported: int = Field(description="repeats measured as 0, or not measured and reported as 0")
    not_measured: int = Field(description="of the zeros, those not measured")
    by_cause: dict[str, int] = Field(
        description="of `not_measured`, how many by each cause; or `suspected`, the check that "
        "found something, `excluded` by a policy, or health",
    )


class ReportedOnes(BaseModel):
    """The repeats that the runner scored above 0, and those of them that are no measurement."""

    reported: int = Field(
        description="repeats measured above 0, or not measured and reported above 0"
    )
    not_measured: int = Field(description="of them, those not measured")
    by_cause: dict[str, int] = Field(
        description="of `not_measured`, how many by each cause; as of `zeros`"
    )


class BatchParts(BaseModel):
    """The planned repeats of a batch, each in exactly one part."""

    measured: int = Field(description="repeats that a model answered, and whose reward counts")
    own_failures: int = Field(
        description="repeats that count though no model answered, by the agent's own doing"
    )
    not_measured: dict[str, int] = Field(
        description="repeats whose reward does not count, by cause; as of `zeros`"
    )
    not_scored: dict[str, int] = Field(
        description="repeats whose reward would count, by the reason for which they have none; "
        "`no_reward`, or `score_key`: rewards were reported, and none is known to be "
        "the score",
    )
    skipped: int = Field(description="repeats that an open breaker did not admit")
    running: int = Field(description="repeats that have not ended")
    never_started: int = Field(description="planned repeats of which no rollout was registered")


class BatchSummary(Exclusions):
    """A batch: counts of its rollouts, each attempt included, and scores over its repeats.

    A repeat that was not measured counts as 0 in `score_all`, not at all in `score_effective`, and
    as 0 and 1 in `score_worst` and `score_best`. A score over no repeats is null.
    """

    batch: str = Field(description="name of the batch")
    rollouts: int = Field(description="rollouts, each attempt at each repeat")
    pending: int = Field(description="of `running`, those with a verdict, which can change")
    running: int | None = Field(
        default=None,
        description="rollouts that have not ended: their verdict can change, or there is none yet",
    )
    skipped: int = Field(description="rollouts that an open breaker did not admit")
    as_of: float | None = Field(
        default=None,
        description="when the figures were counted, seconds since the epoch",
    )
    outdated: int | None = Field(
        default=None,
        description="rollouts under way whose last calls are not in these counts yet",
    )
    verdicts: dict[str, int] | None = Field(
        default=None,
        description="rollouts by verdict, each in one class; `healthy`, `own_failures`, the cause "
        "of a failure, `suspected_api_error`, `undecided`, `not_judged`, `skipped`, "
        "`unjudged`",
    )
    health: dict[str, int] = Field(description="judged rollouts by health")
    subcategory: dict[str, int] = Field(description="rollouts that failed, by cause")
    fingerprint: dict[str, int] = Field(description="rollouts that failed, by cause and status")
    summaries: list[str] = Field(description="the batch in sentences")
    input_tokens: int | None = Field(description="tokens read by models, of `tokens_known_calls`")
    output_tokens: int | None = Field(
        description="tokens written by models, of `tokens_known_calls`"
    )
    total_tokens: int | None = Field(
        description="both, or as the provider says, of `tokens_known_calls`"
    )
    cost_usd: float | None = Field(
        description="US dollars for calls of every role, of `cost_known_calls`"
    )
    calls: int | None = Field(
        default=None,
        description="the agents' calls that used tokens: what the sums of tokens and cost are of",
    )
    tokens_known_calls: int | None = Field(
        default=None,
        description="of `calls`, those with token counts",
    )
    cost_known_calls: int | None = Field(
        default=None,
        description="of `calls`, those whose cost is in `cost_usd`",
    )
    lost_s: float | None = Field(
        default=None,
        description="time waited for a failed call or its next try, while none was answered or "
        "waited at the proxy; null: unknown",
    )
    held_s: float | None = Field(
        default=None,
        description="time waited for a turn or a limit, while no call was answered; null if none "
        "has to",
    )
    diagnostics: dict[str, int] | None = Field(
        default=None,
        description="rollouts by the field of a result that says what is wrong",
    )
    validity: dict[str, int] | None = Field(
        default=None,
        description="rollouts by the worst level of what was found beside health",
    )
    validity_checks: dict[str, int] | None = Field(
        default=None,
        description="rollouts by the check that found something",
    )
    unearned: int | None = Field(
        default=None,
        description="rollouts with a reward above the least and no answered call",
    )
    validity_across: list[BatchFinding] | None = Field(
        default=None, description="what differs between its rollouts, the worst first"
    )
    total: int = Field(description="the planned repeats, by an older name")
    scoreable: int = Field(description="repeats whose reward counts, if they have one")
    own_failures: int | None = Field(
        default=None,
        description="repeats that count though no model answered, by the agent's own doing",
    )
    scored: int = Field(description="repeats with a reward that counts")
    coverage: float | None = Field(description="share of the planned repeats that were measured")
    repeats_planned: int | None = Field(
        default=None,
        description="repeats that tasks were registered for, else those that they have; a rollout "
        "without a task is one by itself; the sum of `parts`",
    )
    never_started: int | None = Field(
        default=None,
        description="planned repeats of which no rollout was registered",
    )
    parts: BatchParts | None = Field(
        default=None, description="the planned repeats, each in exactly one part"
    )
    no_score: str | None = Field(
        default=None,
        description="why the batch has no score although rewards were reported, and the fix: then "
        "every score of it is null",
    )
    score_key: str | None = Field(
        default=None, description="key of the reward that is the score, as registered"
    )
    score_reported: float | None = Field(
        default=None,
        description="mean of the rewards that the runner reported, counted or not: what a harness "
        "prints without truezero; over repeats that have one; of several attempts the "
        "last one",
    )
    score_all: float | None = Field(
        description="mean reward if each planned repeat that was not measured is 0"
    )
    score_effective: float | None = Field(description="mean reward over what was measured")
    score_ci: tuple[float, float] | None = Field(
        default=None,
        description="its 95 % interval over tasks: Wilson's for rewards of 0 or 1, else Student's "
        "t; null if nothing tells the spread",
    )
    pass_at: list[PassAt] | None = Field(
        default=None,
        description="chance that one of k repeats of a task passes; for 1, 2, 4, … and the most "
        "that a task has; null without repeats, or if rewards are not 0 or 1",
    )
    score_worst: float | None = Field(
        description="score over all repeats if each that was not measured were 0, or the least of "
        "`reward_range`; null if a reward lies outside of 0 to 1 and no range was "
        "registered",
    )
    score_best: float | None = Field(description="the same with 1, or the greatest; null likewise")
    reward_least: float | None = Field(default=None, description="least reward that counts")
    reward_greatest: float | None = Field(default=None, description="greatest reward that counts")
    reward_range: tuple[float, float] | None = Field(
        default=None,
        description="least and greatest reward, as registered",
    )
    score_first: float | None = Field(description="mean reward over first attempts")
    score_retried: float | None = Field(
        description="mean reward over the repeats that a later attempt filled"
    )
    retried: int = Field(description="repeats with more than one attempt")
    retried_after_score: list[str] = Field(
        description="run again although already scored: the first 100"
    )
    retried_after_score_total: int | None = Field(
        default=None,
        description="repeats that were run again although they had a score: the first one counts",
    )
    zeros: ReportedZeros | None = Field(
        default=None,
        description="reported zeros, and how many of them are none",
    )
    ones: ReportedOnes | None = Field(
        default=None,
        description="reported scores above 0, and how many of them are none; null of an older "
        "service",
    )
    valid: bool = Field(description="whether the batch is a valid measurement")
    retry: list[RetryItem] = Field(description="the first 100 rollouts to run again")
    retry_total: int | None = Field(
        default=None,
        description="rollouts whose verdict advises to run them again, and that were not yet",
    )


class Check(Exclusions):
    """The validity of a batch as a measurement, with one line for each objection.

    What is suspect and counts all the same has lines too, and leaves the batch valid.
    """

    batch: str = Field(description="name of the batch")
    valid: bool = Field(description="whether every repeat is a measurement, and unbiased")
    repeats: int | None = Field(
        default=None,
        description="repeats that were tried; a loop that samples a task names how "
        "many, or a repeat that failed is tried again in place of the next one",
    )
    tries: int | None = Field(default=None, description="at them, by all their attempts")
    lines: list[str] = Field(
        description="one sentence for each objection, the worst first; of those about rollouts "
        "the first 100"
    )
    lines_total: int | None = Field(default=None, description="of them in all")
    score_effective: float | None = Field(
        default=None, description="mean reward over what was measured"
    )
    score_reported: float | None = Field(
        default=None,
        description="mean of the rewards that the runner reported, counted or not: what a harness "
        "prints without truezero; over repeats that have one; of several attempts the "
        "last one",
    )


class BreakerLane(BaseModel):
    """The breaker of one lane; times in seconds since the epoch."""

    lane: str = Field(description="upstream/model/key digest")
    phase: Known[Literal["closed", "open", "half_open"]] = Field(
        description="`open`: rollouts are skipped; `half_open`: one probe is allowed"
    )
    fingerprint: str | None = Field(description="the failure that is counted")
    streak: int = Field(description="rollouts in a row that it ended")
    threshold: int = Field(description="length of the streak that opens the breaker")
    opened_at: float | None = Field(description="null while closed")
    retry_at: float | None = Field(description="when the quota resets, according to the provider")
    tripped_by: list[str] = Field(description="rollouts of the streak, oldest first")
    canary: str | None = Field(description="the rollout that probes the lane, while half-open")
    probe_at: float | None = Field(
        default=None,
        description="when the next rollout is admitted as a probe; null: only after a reset, or "
        "the breaker is not open",
    )
    failed_probes: int = Field(default=0, description="probes that failed since it opened")
    skipped: list[str] = Field(
        default_factory=list, description="rollouts that it did not admit, the first 100"
    )
    skipped_total: int = Field(default=0, description="of them in all, 1000 at most")
    names: dict[str, str] = Field(
        default_factory=dict,
        description="by id, the task of rollouts that are named here, and its repeat; of each list "
        "the first 100",
    )
    answered_at: float | None = Field(
        default=None,
        description="when it last stayed shut although the streak was long enough, because a "
        "reference call to the lane was answered",
    )


class Breaker(BaseModel):
    """The breakers of a batch; a threshold of 0 disables them."""

    batch: str = Field(description="name of the batch")
    threshold: int = Field(description="length of the streak that opens a breaker; 0: never")
    lanes: list[BreakerLane] = Field(description="lanes with a streak or an open breaker")


class Fingerprint(BaseModel):
    """A cause and how often it occurred; times in seconds since the epoch."""

    fingerprint: str = Field(description="cause and status, such as `quota:429`")
    subcategory: Known[Subcategory | None] = Field(description="null: no call failed")
    rollouts: int = Field(description="affected rollouts")
    batches: int = Field(description="batches they are in")
    first_seen: float = Field(description="when the first of them was judged")
    last_seen: float = Field(description="when the last of them was judged")


class Fingerprints(BaseModel):
    """Causes across batches, most frequent first."""

    items: list[Fingerprint] = Field(description="the causes")


class UnexplainedError(BaseModel):
    """Failed calls with one error that nothing explains, or answers that could not be read.

    Times are starts of calls, in seconds since the epoch.
    """

    upstream: str = Field(description="the upstream that answered")
    status: int | None = Field(description="HTTP status; null: no answer came")
    error_code: str | None = Field(description="a name of the error, if it has one")
    subcategory: Known[Subcategory | None] = Field(
        description="what the calls count as now; null: an answer that could not be read"
    )
    rule: str | None = Field(description="what says so; null likewise")
    calls: int = Field(description="calls with it")
    first_seen: float = Field(description="when the first of them began")
    last_seen: float = Field(description="when the last of them began")
    exchange_id: str | None = Field(description="the last of them that names a rollout")
    rollout_id: str | None = Field(description="its rollout")
    row: str | None = Field(
        description="a row of `[[causes]]` that explains them, to be completed; null: an answer "
        "that could not be read"
    )


class UnexplainedErrors(BaseModel):
    """Errors that nothing explains, the most frequent first."""

    since: float = Field(description="seconds since the epoch")
    until: float = Field(description="seconds since the epoch")
    total: int = Field(description="how many there are, listed or not")
    items: list[UnexplainedError] = Field(description="the most frequent")


# --- groups ---
#
# The rollouts of one task, compared with each other for training.


NO_ADVANTAGES = "trainers compute advantages, from `rewards`, `baseline` and `std`"


class Group(BaseModel):
    """The repeats of one task, in the order of their numbers: lists have one place for each.

    Of several attempts at a repeat, the one that counts is listed: the first that is scoreable
    with a reward, else the last. A masked repeat shifts no baseline.
    """

    task: str = Field(description="the task")
    method: None = gone(NO_ADVANTAGES)
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
    advantages: None = gone(NO_ADVANTAGES)
    resample: int = Field(description="masked repeats that their verdicts advise to run again")
    drop: bool = Field(
        description="even with those and the ones to come, fewer than `min_valid` can be valid"
    )
    no_score: str | None = Field(
        default=None, description="why rewards of a repeat hold no score, and the fix"
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
    """The open runs of a batch, and whether the batch has ended."""

    batch: str = Field(description="name of the batch")
    open_runs: int = Field(description="runs that were begun and not declared over")
    ended: bool = Field(
        description="whether all were declared over, and every rollout has its final verdict or "
        "was given up"
    )


# --- lists ---
#
# Asked for alike in REST, pages, CSV and the command line.


RewardKind = Literal["zero", "nonzero", "null", "missing"]
ReportedKind = Literal["zero", "nonzero", "null"]
Scoreable = Literal["yes", "no", "unknown"]
Sort = Literal[
    "created_at", "task", "reward", "cost_usd", "total_tokens", "id", "batch", "repeat", "attempt",
    "model", "upstream", "registered", "health", "subcategory", "fingerprint", "cause",
    "provisional", "scoreable", "reported_at", "validity",
    "reported_reward",
]  # fmt: skip
Order = Literal["asc", "desc"]

NO_BATCH = "-"  # as a `batch`: rollouts without one
LONGEST_PAGE = 1000

_YEAR_9999 = 253_370_764_800.0  # in epoch seconds; Python's calendar ends soon after

T = TypeVar("T")


def _each(given: Any) -> Any:
    """Split what was joined by commas, which no value of a closed choice contains."""
    if not isinstance(given, list):
        return given
    return [part for one in given for part in (one.split(",") if isinstance(one, str) else [one])]


def _moment(given: Any) -> Any:
    """Read a time in seconds since the epoch, or as ISO 8601 (in UTC, unless it says otherwise)."""
    try:
        at = _seconds(given)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("takes seconds since the epoch or a time in ISO 8601") from None
    if not 0 <= at < _YEAR_9999:
        raise ValueError("takes a time from 1970 to 9998")
    return at


def _seconds(given: Any) -> float:
    with suppress(TypeError, ValueError):
        return float(given)
    at = datetime.fromisoformat(given)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


_Exact = Annotated[str, Field(max_length=300), PrintableText]
_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Several = Annotated[list[T], BeforeValidator(_each)]
Moment = Annotated[
    float,
    Field(allow_inf_nan=False),
    BeforeValidator(_moment),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time"}]}),
]


class ListParameters(StrictRequest):
    """The filters, order and page of a list of rollouts.

    A filter that is given several times takes any of its values; different ones must all apply.
    """

    batch: list[_Exact] = Field(
        default_factory=list, description=f"`{NO_BATCH}`: rollouts without one"
    )
    task: list[_Exact] = Field(default_factory=list, description="name of the task")
    repeat: _Several[_Number] = Field(default_factory=list, description="which sample of the task")
    attempt: _Several[_Number] = Field(default_factory=list, description="which try of that sample")
    model: list[_Exact] = Field(
        default_factory=list, description="registered for it, or a call was made to it"
    )
    upstream: list[_Exact] = Field(
        default_factory=list, description="registered for it, or a call was made to it"
    )
    role: list[_Exact] = Field(default_factory=list, description="a call was made in it")
    health: _Several[Health] = Field(default_factory=list, description="of the last verdict")
    subcategory: _Several[Subcategory] = Field(
        default_factory=list, description="why its deciding calls failed"
    )
    fingerprint: list[_Exact] = Field(
        default_factory=list, description="cause and status, such as `quota:429`"
    )
    cause: list[_Exact] = Field(default_factory=list, description="the cause, as a verdict has it")
    rule: list[_Exact] = Field(
        default_factory=list,
        description="the rule that fired; `own_failures`: no model answered, by the agent's own "
        "doing, and the score counts",
    )
    validity: _Several[Validity | EarlierCheck] = Field(
        default_factory=list, description="the worst level found, or a check that found something"
    )
    reward: _Several[RewardKind] = Field(
        default_factory=list,
        description="`null`: reported, but none counts; `missing`: no outcome yet",
    )
    reported: _Several[ReportedKind] = Field(
        default_factory=list,
        description="the reward that the runner reported, also if it does not count; `null`: an "
        "outcome without one",
    )
    scoreable: _Several[Scoreable] = Field(
        default_factory=list, description="whether its score counts"
    )
    unearned: bool | None = Field(
        default=None,
        description="`true`: a reward above the least was reported, and no call to the model under "
        "test was answered; `false`: all others",
    )
    false_zero: bool | None = Field(
        default=None,
        description="`true`: its repeat reads as 0, by its reported reward, and was not measured; "
        "`false`: all others",
    )
    false_one: bool | None = Field(
        default=None,
        description="`true`: its repeat reads as above 0, by its reported reward, and was not "
        "measured; `false`: all others",
    )
    measured: bool | None = Field(
        default=None, description="`true`: it has a reward that counts; `false`: all others"
    )
    superseded: bool | None = Field(
        default=None,
        description="`true`: another attempt counts for its repeat; `false`: all others, one for "
        "each repeat",
    )
    running: bool | None = Field(
        default=None,
        description="`true`: it has not ended: its verdict can change, or there is none yet; "
        "`false`: all others",
    )
    skipped: bool | None = Field(
        default=None,
        description="`true`: an open breaker did not admit it; `false`: all others",
    )
    text: Annotated[str, Field(max_length=200), PrintableText] | None = Field(
        default=None,
        description="part of the id, batch, task, model, fingerprint, subcategory or cause, in any "
        "case",
    )
    since: Moment | None = Field(
        default=None, description="registered or first called then or later"
    )
    until: Moment | None = Field(default=None, description="registered or first called before then")
    failed_since: Moment | None = Field(
        default=None, description="a call of it failed that began then or later"
    )
    failed_until: Moment | None = Field(
        default=None, description="likewise, before then; with `failed_since` the same call"
    )
    sort: Sort = Field(
        default="created_at", description="rollouts for which it is unknown come last"
    )
    order: Order = Field(default="asc", description="of `sort`, then of `created_at`")
    after: str | None = Field(default=None, description="the `next` of the page before")
    limit: Annotated[int, Field(ge=1, le=LONGEST_PAGE)] | None = Field(
        default=None, description="100 by default; CSV and JSON lines hold all rows"
    )


class BatchItem(BaseModel):
    """A batch as listed by `GET /batches`: the figures of `GET /batches/{batch}` in brief."""

    batch: str = Field(description="name of the batch")
    first_at: float = Field(description="when its first rollout began, seconds since the epoch")
    last_at: float = Field(description="when its last rollout began, seconds since the epoch")
    rollouts: int = Field(description="rollouts, each attempt at each repeat")
    pending: int = Field(description="of `running`, those with a verdict, which can change")
    running: int | None = Field(
        default=None,
        description="rollouts that have not ended: their verdict can change, or there is none yet",
    )
    skipped: int = Field(description="rollouts that an open breaker did not admit")
    health: dict[str, int] = Field(description="judged rollouts by health")
    total: int = Field(description="the planned repeats, by an older name")
    scoreable: int = Field(description="repeats whose reward counts, if they have one")
    scored: int = Field(description="repeats with a reward that counts")
    coverage: float | None = Field(description="share of the planned repeats that were measured")
    repeats_planned: int | None = Field(
        default=None,
        description="repeats that tasks were registered for, else those that they have; a rollout "
        "without a task is one by itself; the sum of `parts`",
    )
    never_started: int | None = Field(
        default=None,
        description="planned repeats of which no rollout was registered",
    )
    no_score: str | None = Field(
        default=None, description="why it has no score although rewards were reported"
    )
    score_reported: float | None = Field(
        default=None,
        description="mean of the rewards that the runner reported, counted or not: what a harness "
        "prints without truezero; over repeats that have one; of several attempts the "
        "last one",
    )
    score_all: float | None = Field(
        description="mean reward if each planned repeat that was not measured is 0"
    )
    score_effective: float | None = Field(description="mean reward over what was measured")
    score_ci: tuple[float, float] | None = Field(
        default=None,
        description="its 95 % interval over tasks: Wilson's for rewards of 0 or 1, else Student's "
        "t; null if nothing tells the spread",
    )
    score_worst: float | None = Field(
        description="score over all repeats if each that was not measured were 0, or the least of "
        "`reward_range`; null if a reward lies outside of 0 to 1 and no range was "
        "registered",
    )
    score_best: float | None = Field(description="the same with 1, or the greatest; null likewise")
    cost_usd: float | None = Field(
        description="US dollars for calls of every role, of `cost_known_calls`"
    )
    calls: int | None = Field(
        default=None,
        description="the agents' calls that used tokens: what the sums of tokens and cost are of",
    )
    cost_known_calls: int | None = Field(
        default=None,
        description="of `calls`, those whose cost is in `cost_usd`",
    )
    zeros: ReportedZeros | None = Field(
        default=None,
        description="reported zeros, and how many of them are none",
    )
    ones: ReportedOnes | None = Field(
        default=None, description="reported scores above 0, and how many of them are none"
    )
    valid: bool = Field(description="whether the batch is a valid measurement")


class BatchPage(BaseModel):
    """A page of batches, the newest first: those whose last rollout began last."""

    items: list[BatchItem] = Field(description="the batches")
    next: str | None = Field(description="value of `after` for the next page; null on the last")


# --- reports ---
#
# A comparison with another batch, usage, and what to run again.


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
    """The score of a task in one batch; `repeats` is 0 if the batch does not have the task."""

    score: float | None = Field(description="mean over its measured repeats")
    measured: int = Field(description="repeats with a score")
    repeats: int = Field(description="repeats of the task; 0: the batch does not have it")
    rollout_ids: list[str] = Field(description="the attempt that counts of each repeat")


class TaskChange(BaseModel):
    """One task in both batches."""

    task: str = Field(description="name of the task")
    change: Known[Change] = Field(
        description="`broken`: it scored lower in b; `fixed`: higher; `only_a`: b does not have it"
    )
    difference: float | None = Field(description="score in b minus score in a; null if unmeasured")
    a: TaskScore = Field(description="how it did in batch a")
    b: TaskScore = Field(description="how it did in batch b")


class ComparedBatch(BaseModel):
    """One of two batches by itself, over all that it measured."""

    batch: str = Field(description="name of the batch")
    total: int = Field(description="the planned repeats, by an older name")
    scoreable: int = Field(description="repeats whose reward counts, if they have one")
    scored: int = Field(description="repeats with a reward that counts")
    coverage: float | None = Field(description="share of the planned repeats that were measured")
    score_effective: float | None = Field(description="mean reward over what was measured")
    score_ci: _Interval = Field(
        description="its 95 % interval over tasks: Wilson's for rewards of 0 or 1, else Student's "
        "t; null if nothing tells the spread",
    )


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
    """The sums over ended inference calls; a sum is null if no call states a figure."""

    calls: int = Field(description="ended calls")
    failures: int = Field(description="of those, failed ones")
    billable_calls: int = Field(description="those that used tokens, as far as is known")
    tokens_known_calls: int = Field(description="of `billable_calls`, those with token counts")
    cost_known_calls: int = Field(description="of `billable_calls`, those in `cost_usd`")
    special_calls: int = Field(
        description="of `billable_calls`, those whose cost is unknown for a service tier that is "
        "not the standard one or for paid tools (`billed_as` of an exchange)"
    )
    input_tokens: int | None = Field(description="cached ones included")
    output_tokens: int | None = Field(description="reasoning included")
    total_tokens: int | None = Field(description="input and output, or as the provider says")
    cost_usd: float | None = Field(
        description="US dollars; a lower bound where `cost_known_calls` is less than "
        "`billable_calls`"
    )
    seconds: float | None = Field(description="that the calls took, summed over calls at once")


class UsageItem(UsageSums):
    """The calls with one model, upstream, role and task; a name that was not asked for is null."""

    model: str | None = Field(default=None, description="that answered, else that was asked for")
    upstream: str | None = Field(default=None, description="upstream that was called")
    role: str | None = Field(default=None, description="`agent`, or as the call named it")
    task: str | None = Field(default=None, description="task of the rollout")


class BatchUsage(BaseModel):
    """The usage of a batch, the most expensive first; calls of every role count."""

    batch: str = Field(description="name of the batch")
    by: list[Known[UsageDimension]] = Field(description="what calls are added up by")
    items: list[UsageItem] = Field(description="sums, the most expensive first")
    sum: UsageSums = Field(description="over all of them")


class RerunParameters(StrictRequest):
    """The page of the repeats to run again; without `after` and `limit` it holds all of them."""

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
    model: str | None = Field(default=None, description="model to register it with, as before")
    upstream: str | None = Field(default=None, description="upstream to register it with")
    repeats: int | None = Field(default=None, description="repeats that its task is to have")


class RerunGroup(BaseModel):
    """The repeats to run again that have one cause."""

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
        reruns: RerunKind = getattr(self, name)
        return reruns


# --- measurement card ----------------------------------------------------------------------------


class MeasurementCard(BaseModel):
    """The facts that a batch's score stands on; its bytes are canonical JSON (RFC 8785)."""

    type: Literal["urn:truezero:measurement-card:v2"] = Field(description="name of the format")
    stated: dict[str, Any] = Field(
        description="batch, versions, policy, hosts: what the export does not hold"
    )
    measured: dict[str, Any] = Field(
        description="score, zeros that are none, models, tokens, cost, validity"
    )
    roots: dict[str, Any] = Field(
        description="digest of the export, and how many calls have a provider's request id; null "
        "until `truezero card show --json` has read the export"
    )
    does_not_prove: list[str] = Field(description="what no card can show")
