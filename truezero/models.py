"""The REST contract, in and out: the service's routes and the runner's client use these models.

Nothing here decides; unknown is null, never 0.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

ExecutionStatus = Literal[
    "success",
    "agent_error",
    "environment_error",
    "user_error",
    "task_timeout",
    "unknown_execution_error",
    "evaluation_failed",
    "setup_failed",
]
TerminationReason = Literal["agent_stop", "user_stop", "max_steps", "unknown"]
Health = Literal["healthy", "api_error", "suspected_api_error", "not_judged", "undecided"]
Subcategory = Literal[
    "auth", "quota", "model_not_found", "rate_limit", "provider_error", "rejected_request"
]

FaultKind = Literal[
    "auth",
    "quota",
    "model_not_found",
    "rate_limit",
    "overloaded",
    "stream_error",
    "truncation",
    "empty",
    "hang",
    "reset",
]

_LONGEST = 200  # characters of an id or name
_NAME = Field(default=None, min_length=1, max_length=_LONGEST)
_COUNT = Field(default=None, ge=0, le=2**53)  # what every JSON reader keeps exactly


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _plain_json(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """What every JSON reader can read back: no NaN, no half of a surrogate pair."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    return value


def _encodable(text: str) -> str:
    text.encode()
    return text


Text = Annotated[str, AfterValidator(_encodable)]


class Fault(_Request):
    """A failure to be played to a rollout's agent in place of its provider, for a drill.

    The agent's inference calls are counted from 1; with nothing but a kind all of them fail.
    """

    kind: FaultKind
    at_call: int | None = Field(default=None, ge=1, le=10**6, description="the first that fails")
    every: int | None = Field(default=None, ge=1, le=10**6, description="from there each so many")
    times: int | None = Field(default=None, ge=1, le=10**6, description="how many fail at most")

    def strikes(self, call: int) -> bool:
        """Whether the agent's inference call of this number fails, counted from 1."""
        since = call - (self.at_call or 1)
        turn, rest = divmod(since, self.every or 1)
        return since >= 0 and rest == 0 and (self.times is None or turn < self.times)


class RolloutRequest(_Request):
    """`POST /rollouts`: announce a rollout; without an id one is made."""

    id: str | None = _NAME
    batch: str | None = _NAME
    task: str | None = _NAME
    attempt: int | None = _COUNT
    model: str | None = _NAME
    upstream: str | None = Field(default=None, min_length=1, max_length=64)
    usage_channel: Literal["proxy", "none"] = "proxy"
    metadata: dict[str, Any] | None = None
    fault: Fault | None = Field(default=None, description="played to the agent, for a drill")

    @field_validator("id", "batch", "task", "model", "upstream")
    @classmethod
    def _printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("holds control characters")
        return value

    @field_validator("metadata")
    @classmethod
    def _writable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return _plain_json(value)


class RolloutRegistered(BaseModel):
    """What a runner gets for a rollout: where to point its agent, and with what key."""

    id: str
    key: str = Field(description="an API key of ours that proves this rollout, `tz-…`")
    admitted: bool
    error: str | None = Field(description="why it was not admitted: `skipped: …`")
    base_urls: dict[str, str] = Field(description="upstream → base_url for its clients")
    env: dict[str, str] = Field(description="variables that point common agents at us")


_DURATION = re.compile(r"(\d{1,9})(s|m|h|d|w|mo)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "mo": 2_592_000}


def _in_seconds(value: object) -> object:
    """LiteLLM's way to write a time: `30s`, `20m`, `1h`, `7d`, `2w`, `1mo` (30 days)."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError("is a number with one of s, m, h, d, w, mo behind it")
    return int(found[1]) * _SECONDS[found[2]]


Duration = Annotated[int, BeforeValidator(_in_seconds), Field(ge=0, le=10**9)]


class KeyRequest(BaseModel):
    """`POST /key/generate`, as LiteLLM's proxy takes it: one key, one rollout.

    ``key_alias`` becomes the rollout's id and task, ``team_id`` its batch. Budgets, rate
    limits and lists of models are taken and not enforced; fields unknown here are passed over.
    """

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    key_alias: str | None = _NAME
    team_id: str | None = _NAME
    user_id: str | None = _NAME
    duration: Duration | None = Field(
        default=None, description="`20m`: the key's life", json_schema_extra={"type": "string"}
    )
    models: list[str] | None = None
    metadata: dict[str, Any] | None = None
    key: None = Field(default=None, description="a key of one's own choice cannot be had")

    @field_validator("key_alias", "team_id", "user_id")
    @classmethod
    def _printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("holds control characters")
        return value

    @field_validator("metadata")
    @classmethod
    def _writable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return _plain_json(value)


class KeyFacts(BaseModel):
    """What LiteLLM's proxy tells of a key, and the rollout behind it.

    A limit that is not enforced here is null, whatever was asked for.
    """

    key_name: str = Field(description="the key's last four characters: `tz-...a1b2`")
    key_alias: str | None
    token_id: str = Field(description="the rollout's id, which is no secret")
    rollout_id: str
    team_id: str | None
    user_id: str | None
    models: list[str]
    metadata: dict[str, Any]
    expires: datetime | None
    created_at: datetime
    blocked: bool = Field(description="it opens nothing any more: deleted, expired, or over")
    spend: float | None = Field(description="US dollars; null where a call's cost is unknown")
    max_budget: None = None
    tpm_limit: None = None
    rpm_limit: None = None


class KeyMinted(KeyFacts):
    """The answer to `POST /key/generate`."""

    key: str
    base_urls: dict[str, str] = Field(description="upstream → base_url; with the key or without")


class KeyInfo(BaseModel):
    """The answer to `GET /key/info`."""

    key: str
    info: KeyFacts


class KeyDeletion(_Request):
    """`POST /key/delete`: keys, or the aliases they were made under."""

    keys: list[str] | None = None
    key_aliases: list[str] | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not (self.keys or self.key_aliases):
            raise ValueError("keys or key_aliases: at least one is needed")
        return self


class KeysDeleted(BaseModel):
    """The answer to `POST /key/delete`: the keys or aliases that were named."""

    deleted_keys: list[str]


class OutcomeRequest(_Request):
    """`POST /rollouts/{id}/outcome`: what the runner saw; a count it did not keep is null."""

    status: ExecutionStatus
    termination_reason: TerminationReason | None = None
    prompts_executed: int | None = _COUNT
    tool_calls: int | None = _COUNT
    total_tokens: int | None = _COUNT
    rewards: dict[str, float] | None = None
    eval: dict[str, Any] | None = None
    error: Text | None = None
    verifier_error: Text | None = None
    export_error: Text | None = None

    @field_validator("rewards", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """A bare number is the reward called `reward`."""
        plain_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"reward": value} if plain_number else value

    @field_validator("termination_reason")
    @classmethod
    def _only_of_success(cls, reason: str | None, known: ValidationInfo) -> str | None:
        status = known.data.get("status", "success")
        if reason is not None and status != "success":
            raise ValueError(f"is only known where status is success, not with {status}")
        return reason

    @field_validator("eval")
    @classmethod
    def _writable(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        return _plain_json(value)


class RetryAdvice(BaseModel):
    """Whether to run the rollout again; `after_s` is the least wait in seconds."""

    eligible: bool
    after_s: float | None
    reason: str


class Verdict(BaseModel):
    """Could the model be reached? With the rule that fired and the calls that prove it."""

    rollout_id: str
    batch: str | None
    health: Health
    error_category: Literal["api_error", "suspected_api_error"] | None
    subcategory: Subcategory | None
    transient: bool | None
    fingerprint: str | None
    cause: str | None
    lane: str | None
    layer: str | None
    rule: str
    policy: str
    error: str | None
    total_requests: int
    failed_requests: int
    recovered_requests: int
    status_counts: dict[str, int]
    dominant_status: int | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    tool_calls: int | None
    cost_usd: float | None
    lost_s: float | None
    scoreable: str
    doomed: bool
    provisional: bool
    retry: RetryAdvice
    warnings: list[str]
    evidence: list[str]
    classifier: str


class Result(BaseModel):
    """The record a runner stores: three independent facts, and the verdict beside them."""

    model_config = ConfigDict(extra="allow")

    rollout_id: str
    status: ExecutionStatus
    termination_reason: TerminationReason | None
    rewards: dict[str, float] | None
    eval: dict[str, Any] | None
    error: str | None
    error_category: Literal["api_error", "suspected_api_error"] | None
    api_error_info: dict[str, Any] | None
    suspected_api_error_info: dict[str, Any] | None


class Exchange(BaseModel):
    """One call; token fields are the provider's own numbers, totals the normalised ones."""

    model_config = ConfigDict(extra="allow")

    id: str
    status: int | None
    ending: str | None = Field(description="null while in flight")
    upstream: str
    api: str
    model: str | None
    role: str
    streamed: bool | None
    started_at: float = Field(description="seconds since the epoch")
    first_byte_s: float | None
    first_token_s: float | None
    duration_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    total_tokens: int | None
    input_total: int | None
    output_total: int | None
    usage_source: str
    finish_reason: str | None
    tool_calls: int | None
    subcategory: Subcategory | None
    transient: bool | None
    rule: str | None
    error_code: str | None
    retry_after_s: float | None
    request_bytes: int
    response_bytes: int
    attribution_source: str
    injected: bool


class ExchangePage(BaseModel):
    """Exchanges, oldest first; `next` continues as `?after=`, null at the end."""

    items: list[Exchange]
    next: str | None


class RolloutItem(BaseModel):
    """A rollout as a list shows it."""

    id: str
    batch: str | None
    task: str | None
    attempt: int | None
    model: str | None
    upstream: str | None
    created_at: float
    registered: bool
    health: Health | None
    subcategory: Subcategory | None
    fingerprint: str | None
    provisional: bool | None


class RolloutPage(BaseModel):
    """Rollouts, oldest first; `next` continues as `?after=`, null at the end."""

    items: list[RolloutItem]
    next: str | None


class RetryItem(RetryAdvice):
    """A rollout that should be run again."""

    rollout_id: str
    task: str | None
    attempt: int | None


class BatchSummary(BaseModel):
    """A batch: counts of rollouts, every attempt included, and scores over its slots.

    `score_all` counts a slot without a measurement 0, as everybody does; `score_effective`
    leaves it out; `score_worst` and `score_best` count it 0 and 1. A score over nothing
    is null.
    """

    batch: str
    rollouts: int
    pending: int = Field(description="rollouts whose verdict is still provisional")
    skipped: int = Field(description="rollouts that an open breaker did not admit")
    health: dict[str, int]
    subcategory: dict[str, int]
    fingerprint: dict[str, int]
    summaries: list[str]
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    cost_usd: float | None
    total: int
    scoreable: int
    scored: int
    coverage: float | None
    score_all: float | None
    score_effective: float | None
    score_worst: float | None
    score_best: float | None
    score_first: float | None = Field(description="first attempts only")
    score_retried: float | None = Field(description="slots that a later attempt fills")
    retried: int
    retried_after_score: list[str] = Field(description="run again although a score was there")
    valid: bool
    retry: list[RetryItem]


class Check(BaseModel):
    """Whether a batch is a valid measurement, with a line for each thing against it."""

    batch: str
    valid: bool
    lines: list[str]


class BreakerLane(BaseModel):
    """One lane's breaker; times in seconds since the epoch."""

    lane: str = Field(description="upstream/model/key digest")
    phase: Literal["closed", "open", "half_open"]
    fingerprint: str | None
    streak: int
    threshold: int
    opened_at: float | None
    retry_at: float | None = Field(description="when the provider said a spent quota returns")
    tripped_by: list[str] = Field(description="the rollouts of the streak, oldest first")
    canary: str | None


class Breaker(BaseModel):
    """A batch's breakers; a threshold of 0 turns them off."""

    batch: str
    threshold: int
    lanes: list[BreakerLane]


class Fingerprint(BaseModel):
    """One cause and how often it struck; times in seconds since the epoch."""

    fingerprint: str
    subcategory: Subcategory | None
    rollouts: int
    batches: int
    first_seen: float
    last_seen: float


class Fingerprints(BaseModel):
    """Causes across batches, the most frequent first."""

    items: list[Fingerprint]


class Alive(BaseModel):
    """`GET /healthz`."""

    status: Literal["ok"]
    version: str


class Ready(BaseModel):
    """`GET /readyz`: 503 while the database or the recorder cannot do their work."""

    status: Literal["ready", "not_ready"]
    database: bool
    recorder: bool
    gaps: int = Field(description="calls served but not recorded since start")
    waiting: int = Field(description="exchanges not yet written")


class Problem(BaseModel):
    """An error in problem JSON (RFC 9457); `code` is for programs, `detail` for people."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
