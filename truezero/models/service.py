"""Models of the service's own state: health checks, errors and upstreams."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from truezero.models.base import Known, PrintableText, StrictRequest
from truezero.models.gone import gone


class Alive(BaseModel):
    """`GET /healthz`: the process is up."""

    status: Literal["ok"] = Field(description="always `ok`")
    version: str = Field(description="release of the service")


class Ready(BaseModel):
    """`GET /readyz`: 503 while the database or the recorder is unavailable."""

    status: Literal["ready", "not_ready"] = Field(description="`ready` if both work")
    database: bool = Field(description="whether the database answers")
    recorder: bool = Field(description="whether calls can be written")
    gaps: int = Field(description="calls served but not recorded since start")
    waiting: int = Field(description="exchanges not yet written")


class Problem(BaseModel):
    """Problem JSON (RFC 9457); `code` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="`about:blank`")
    title: str = Field(description="the HTTP status in words")
    status: int = Field(description="the HTTP status")
    detail: str = Field(description="what is wrong, as a sentence")
    code: str = Field(description="a stable word; also the header `x-truezero-refusal`")


# --- upstreams ---
#
# Their calls over a window of time.


class UpstreamCalls(BaseModel):
    """The statistics of some calls.

    Latencies are seconds to two digits, null for windows of more than a day.
    """

    calls: int = Field(description="ended calls")
    refused: int = Field(
        description="of them, the agents' own bad requests, which are in no error rate"
    )
    failed: dict[str, int] = Field(description="failed calls by subcategory")
    error_rate: float | None = Field(
        description="share of the calls that were not refused; null where there are none"
    )
    failing: bool = Field(False, description="all their lanes with a word are down")
    failing_since: float | None = Field(
        description="if so, since when, to the second; null where it is longer than is kept"
    )
    answered_at: float | None = Field(
        None, description="if so, when the last answered call began; null: no answer is known"
    )
    last_at: float = Field(
        description="minute in which the last of them began, in seconds since the epoch"
    )
    timed_calls: int = Field(description="answered calls that the latencies are of")
    sampled_calls: None = gone("`timed_calls`")
    first_byte_p50_s: float | None = Field(description="median seconds to the first byte")
    first_byte_p95_s: float | None = Field(description="95th percentile of the same")
    duration_p50_s: float | None = Field(description="median seconds to the end")
    duration_p95_s: float | None = Field(description="95th percentile of the same")


class UpstreamModel(UpstreamCalls):
    """The statistics of the calls to one model; `model` is null for calls that named none."""

    model: str | None = Field(description="that answered, else that was asked for")


class UpstreamKey(BaseModel):
    """One key, as a salted digest, and the calls that asked a model with it."""

    key: str = Field(description="salted digest")
    key_from: str | None = Field(
        None, description="the setting that it is from, or `an agent's own`; null: not known"
    )
    calls: int = Field(description="ended calls that asked a model")
    failed: int = Field(description="of them, failed by the provider")
    sampled_calls: None = gone("`calls`")
    sampled_failed: None = gone("`failed`")
    failing: bool = Field(False, description="all its lanes with a word are down")
    failing_since: float | None = Field(
        None, description="if so, since when, to the second; null where it is longer than is kept"
    )
    answered_at: float | None = Field(
        None, description="if so, when the last answered call began; null: no answer is known"
    )


class UpstreamStep(BaseModel):
    """One step of time from `at`, in seconds since the epoch."""

    at: float = Field(description="begin of the step")
    calls: int = Field(description="ended calls that began in it")
    failed: dict[str, int] = Field(description="failed calls by subcategory")
    first_byte_p50_s: float | None = Field(description="median seconds to the first byte")
    first_byte_p95_s: float | None = Field(description="95th percentile of the same")


class Questions(BaseModel):
    """The proxy's own reference calls among an upstream's calls, and what they cost."""

    calls: int = Field(description="reference calls that have ended")
    failures: int = Field(description="of them, failed ones")
    total_tokens: int | None = Field(description="tokens read and written; null: none is known")
    cost_usd: float | None = Field(description="US dollars; null: no price is known")


class UpstreamItem(UpstreamCalls):
    """The statistics of the calls to one upstream, also by model, by key and over time."""

    upstream: str = Field(description="its name in a base URL")
    origin: str = Field(description="where it is; empty where it is not configured any more")
    models: list[UpstreamModel] = Field(description="the busiest first")
    keys: list[UpstreamKey] = Field(description="the busiest first")
    points: list[UpstreamStep] = Field(description="every step of the window, oldest first")
    questions: Questions = Field(description="the proxy's own among its calls")


class UpstreamReport(BaseModel):
    """`GET /upstreams`: the busiest first; times in seconds since the epoch.

    Every call is counted. Latencies and keys are of calls that asked a model for an answer.
    """

    since: float = Field(description="begin of the first step")
    until: float = Field(description="end of the last step")
    step_s: int = Field(description="seconds of one step")
    calls: int = Field(description="ended calls that began in the window")
    asked: int = Field(description="of them, those that asked a model for an answer")
    open: dict[str, int] = Field(
        default_factory=dict, description="calls in flight now, by upstream"
    )
    sampled_calls: None = gone("`asked`")
    items: list[UpstreamItem] = Field(description="the busiest first")


# --- references ---
#
# A question of the proxy's own, asked because somebody wants to see it.


class ReferenceRequest(StrictRequest):
    """`POST /upstreams/{upstream}/reference`: the model that is asked."""

    model: Annotated[str, Field(min_length=1, max_length=200), PrintableText] = Field(
        description="as an agent would ask for it"
    )


class ReferenceCall(BaseModel):
    """One reference call; times in seconds since the epoch."""

    exchange_id: str = Field(description="of its exchange, under the rollout id `_reference`")
    started_at: float = Field(description="when it was asked")
    ended_at: float = Field(description="when it was answered or had failed")
    answered: bool | None = Field(
        description="null: no evidence (a cache, another model, a service that stopped)"
    )
    subcategory: str | None = Field(default=None, description="why it failed")
    reason: str | None = Field(default=None, description="the same, finer")
    explained: bool = Field(default=False, description="the question itself was refused")
    timed_out: bool = Field(default=False, description="it ended in silence or a time-out")
    retry_after_s: float | None = Field(default=None, description="the wait that was stated")
    status: int | None = Field(default=None, description="HTTP status of the answer")
    answered_model: str | None = Field(default=None, description="the model that the answer names")
    input_tokens: int | None = Field(default=None, description="tokens read; null: not known")
    output_tokens: int | None = Field(default=None, description="tokens written; the same")
    cost_usd: float | None = Field(default=None, description="US dollars; the same")


class ReferenceSeries(BaseModel):
    """A series of at most three reference calls, which ends with the first that fails."""

    series: str = Field(description="its id")
    upstream: str = Field(description="its name in a base URL")
    model: str = Field(description="as it was asked for")
    api: str = Field(description="the dialect, such as `openai.chat`; empty if none is known")
    started_at: float = Field(description="seconds since the epoch")
    ended_at: float | None = Field(description="the same")
    not_run: str | None = Field(
        description="why nothing was asked: `no_key`, `off`, `too_dear`, …; null if it was"
    )
    calls: list[ReferenceCall] = Field(description="in order")


# --- status ---
#
# The health of lanes in a word.


LaneWord: TypeAlias = Literal["healthy", "degraded", "down", "unknown"]


class ReferenceResult(BaseModel):
    """The last reference call to an upstream and model."""

    at: float = Field(description="when it ended, in seconds since the epoch")
    answered: bool | None = Field(description="null: it is no evidence")
    subcategory: str | None = Field(description="why it failed; null where it did not")


class LaneStatus(BaseModel):
    """The health of one lane. The short form has `upstream` to `cause`, without `key` and `server`.

    Rollouts are weighed, not calls: each has one vote a minute. A degraded lane fails for more than
    5 % of the votes, a down one for more than half, both beyond doubt (Wilson's lower bound). An
    unknown one has a `reason`.
    """

    upstream: str = Field(description="its name in a base URL")
    model: str | None = Field(description="as it is asked for; null: no call named one")
    key: str | None = Field(None, description="salted digest of the key")
    server: str | None = Field(
        None, description="provider, region or engine that answers name; null: all of them"
    )
    key_from: str | None = Field(
        None, description="the setting that the key is from, or `an agent's own`; null: not known"
    )
    word: Known[LaneWord] = Field(description="`healthy`, `degraded`, `down` or `unknown`")
    reason: str | None = Field(None, description="why it is unknown, in words; else null")
    since: float | None = Field(
        description="if it fails: when the first failed call after the last answered one began; "
        "null where that is longer ago than is kept"
    )
    answered_at: float | None = Field(None, description="when its last answered call began")
    cause: str | None = Field(description="most frequent subcategory of its failures since then")
    calls: int = Field(
        0, description="ended calls since `weighed_from`, within the hour where that is null"
    )
    failed: dict[str, int] = Field(
        default_factory=dict,
        description="of them, failed ones by subcategory, without rejected requests",
    )
    votes: float = Field(0.0, description="votes of rollouts since then, one a minute at most")
    failed_votes: float = Field(
        0.0, description="of them, those for a failure that the agent did not cause"
    )
    failed_share_low: float | None = Field(
        None, description="lower bound of the share of failed votes, at 97.5 %"
    )
    weighed_from: float | None = Field(None, description="the minute of the first vote")
    last_at: float | None = Field(None, description="when its last ended call began")
    open: int = Field(0, description="calls in flight")
    open_since: float | None = Field(None, description="when the oldest of them began")
    waiting: int = Field(
        0, description="calls in flight for over 30 s and three times the lane's p99"
    )
    next_at: float | None = Field(
        default=None,
        description="when one that waits for it may try it; null: nobody has to wait",
    )
    drifts: None = gone("nothing takes its place")
    reference: ReferenceResult | None = Field(None, description="null: none within the hour")


class LaneRequest(StrictRequest):
    """`POST /turns`: the lane that a rollout is about to call; null stands for any."""

    upstream: Annotated[str, Field(max_length=64), PrintableText] | None = Field(
        default=None, description="its name in a base URL"
    )
    model: Annotated[str, Field(max_length=200), PrintableText] | None = Field(
        default=None, description="as it is asked for"
    )


LaneState: TypeAlias = Literal["answering", "probing", "waiting"]


class LaneTurn(BaseModel):
    """The answer to a rollout that asks to start on a lane; times in seconds since the epoch.

    While a lane is down, one at a time is let go as its probe, after 1, 2, 4 and up to 60 seconds.
    """

    state: Known[LaneState] = Field(
        description="`answering`: start; `probing`: start, the others wait for what becomes of it; "
        "`waiting`: ask again"
    )
    ask_s: float = Field(
        default=0.0, description="after how many seconds to ask again, if it waits"
    )
    since: float | None = Field(
        default=None, description="since when it answers nobody; null: it does"
    )
    cause: str | None = Field(
        default=None, description="most frequent subcategory of its failures since"
    )
    next_at: float | None = Field(
        default=None, description="when the next one is let go, if it waits"
    )
    sentence: str | None = Field(default=None, description="the same for people; null: it answers")


class StatusReport(BaseModel):
    """`GET /status`: each lane that was called within the last hour, those that fail first.

    The short form has only models and upstreams that everybody has.
    """

    word: Known[LaneWord] = Field(
        "unknown", description="the worst word of a lane beside `unknown`"
    )
    at: float = Field(description="when it was computed, in seconds since the epoch")
    lanes: int = Field(0, description="lanes in all; the first 200 are listed")
    items: list[LaneStatus] = Field(description="those that are down first, then degraded ones")
