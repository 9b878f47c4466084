"""Models of a rollout: its registration, outcome, calls and key, and its entry in lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from truezero.mistakes import shown
from truezero.models.base import (
    Count,
    ExecutionStatus,
    Health,
    JsonObject,
    Known,
    ModelNames,
    Name,
    Ordinal,
    PrintableText,
    Repeat,
    Repeats,
    RewardRange,
    Role,
    StrictRequest,
    Subcategory,
    TerminationReason,
    Text,
)
from truezero.models.gone import gone
from truezero.models.service import Problem

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
    "truncate_prompt",
    "cut_output",
    "swap_model",
    "abort",
    "slow",
    "replay",
]
MOST_REPLAYED = 10_000  # calls of one replay
LONGEST_STATED_S = 10**7  # a wait that a replayed call states, seconds
_Seconds = Annotated[float, Field(ge=0, le=3600)]
_Count = Annotated[int, Field(ge=0, le=10**9)]
_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:\-]{1,64}$")]  # a code, no sentence


class ReplayedCall(StrictRequest):
    """One call as a provider dealt with it, read from its exchange, without anything that was said.

    Placeholder text stands for answers and errors alike.
    """

    status: Annotated[int, Field(ge=200, le=599)] | None = Field(
        default=None, description="null: no head of a response came"
    )
    ending: Literal[
        "complete",
        "cut_upstream",
        "left_by_agent",
        "closed_at_outcome",
        "timed_out",
        "never_connected",
        "lost",
    ] = Field(default="complete", description="as the exchange's")
    first_byte_s: _Seconds | None = Field(default=None, description="seconds before the head")
    duration_s: _Seconds | None = Field(default=None, description="seconds before the last byte")
    subcategory: Subcategory | None = Field(default=None, description="why it failed")
    reason: _Word | None = Field(default=None, description="the finer name of the cause")
    error_code: _Word | None = Field(default=None, description="the provider's own code")
    worded: bool = Field(
        default=True, description="the error said more than its status and its code do"
    )
    retry_after_s: Annotated[float, Field(ge=0, le=LONGEST_STATED_S)] | None = Field(
        default=None, description="the wait that the provider asked for, seconds"
    )
    finish: Literal["stop", "length", "abort", "content_filter"] = Field(
        default="stop", description="why the model stopped"
    )
    answered_model: Name = Field(default=None, description="where it was not the model asked for")
    spoke: bool = Field(default=True, description="a part of an answer came")
    request_bytes: _Count = Field(default=0, description="length of the request body")
    input_tokens: _Count | None = Field(default=None, description="counted for that request")
    output_tokens: _Count | None = Field(default=None, description="counted for the answer")
    passed_on: bool = Field(default=False, description="the provider itself answers this call")


class Fault(StrictRequest):
    """A failure to inject into a rollout instead of the provider's answer, for a drill.

    The agent's inference calls are counted from 1; with only a kind, all of them fail. Kinds
    from `truncate_prompt` to `slow` are complete answers that spoil the measurement. `replay`
    plays `calls` in their order, the last of them over and over.
    """

    kind: FaultKind = Field(description="what the provider is made to do")
    at_call: int | None = Field(default=None, ge=1, le=10**6, description="first call that fails")
    every: int | None = Field(default=None, ge=1, le=10**6, description="then every n-th call")
    times: int | None = Field(
        default=None, ge=1, le=10**6, description="at most this many failures"
    )
    delay_s: float = Field(default=5.0, gt=0, le=3600, description="seconds before a `slow` answer")
    calls: list[ReplayedCall] = Field(
        default_factory=list, max_length=MOST_REPLAYED, description="what a `replay` plays"
    )

    @model_validator(mode="after")
    def _replays_something(self) -> Self:
        if (self.kind == "replay") is not bool(self.calls):
            raise ValueError("calls are those of a replay, which needs one at least")
        return self


class BatchPolicy(StrictRequest):
    """The judging policy of a batch and all its rollouts; null means the service's setting."""

    agents: Literal["trusted", "untrusted"] | None = Field(
        default=None,
        description="`untrusted`: agents may fail calls themselves to lose a score",
    )
    validity: Literal["invalid", "suspect", "none"] | None = Field(
        default=None, description="the mildest validity finding that makes a rollout not scoreable"
    )
    max_steps: Literal["score", "exclude"] | None = Field(
        default=None, description="whether rollouts that ran out of steps are scored"
    )
    budget: Literal["score", "exclude"] | None = Field(
        default=None, description="whether rollouts that spent a limit of their own are scored"
    )
    content_filter: Literal["failure", "answer"] | None = Field(
        default=None,
        description="what a content filter on a request is: a rejected request, which takes the "
        "reward away, or the `answer` of the system under test",
    )


class Limits(StrictRequest):
    """Limits on what calls may spend together; a null one is none."""

    calls: int | None = Field(default=None, ge=1, le=2**53, description="calls that were answered")
    tokens: int | None = Field(default=None, ge=1, le=2**53, description="input and output")
    cost_usd: float | None = Field(default=None, gt=0, le=1e9, description="US dollars")
    seconds: float | None = Field(default=None, gt=0, le=1e9, description="that calls took, summed")
    on_limit: Any = gone("calls beyond a limit are refused; raise it with `POST …/limits`")
    pause_s: Any = gone("calls wait only for what calls in flight have reserved, at most 60 s")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.calls is self.tokens is self.cost_usd is self.seconds is None:
            raise ValueError("one of calls, tokens, cost_usd and seconds is required")
        return self


class Spent(BaseModel):
    """The amounts spent by calls that limits count; those in flight are not among them."""

    calls: int = Field(
        description="calls that were answered, left by their agent, or failed by its own doing"
    )
    tokens: int = Field(description="input and output; if unknown, as reserved or relayed")
    cost_usd: float = Field(description="US dollars; a call without a known price adds nothing")
    seconds: float = Field(description="that they took, summed")


class Budget(BaseModel):
    """The limits of a rollout or batch, and what is spent of them."""

    limits: Limits | None = Field(description="null: none")
    spent: Spent | None = Field(description="null where nothing is counted: no limits apply")
    in_flight: int = Field(description="calls whose reservations are not settled")
    reached_at: float | None = Field(
        description="since when one is spent, in seconds since the epoch; null: none is"
    )


class RolloutRequest(StrictRequest):
    """`POST /rollouts`: register a rollout; the service generates a missing id.

    A list of models is the one under test and its fallbacks: reaching any of them counts.

    A rollout of a `batch` and `task` without `repeat` and `attempt` is the next attempt at the
    task's repeat that ended unmeasured; if all are measured or running, it is a new repeat. So the
    same loop, run again, fills what failed. A loop names `repeats`, how often it samples a task:
    each is begun once before any is tried again, and once all are measured or running, a further
    registration is 409 `measured`.
    """

    id: Name = Field(default=None, description="name of the rollout; generated if left out")
    batch: Name = Field(default=None, description="what it is counted and scored with")
    task: Name = Field(default=None, description="the task; its rollouts form a group")
    repeat: Repeat = None
    repeats: Repeats = None
    attempt: Ordinal = Field(default=None, description="which try of this sample, from 0")
    model: ModelNames = Field(
        default=None, description="model under test; a list: and its fallbacks"
    )
    upstream: Annotated[str | None, Field(min_length=1, max_length=64), PrintableText] = Field(
        default=None, description="upstream of the model under test; its key opens no other"
    )
    usage_channel: Literal["proxy", "none"] = Field(
        default="proxy", description="`none`: its calls do not pass the proxy and are not judged"
    )
    client_cache: bool = Field(
        default=False,
        description="its client has a cache of its own, whose answers make no call: "
        "`unearned` is not looked for",
    )
    reward_range: RewardRange = None
    score_key: Name = Field(
        default=None,
        description="key of the reward that is the score, of the batch; all its rollouts name the "
        "same, or none. Without it, it is `reward`, else the only key",
    )
    metadata: JsonObject = Field(default=None, description="yours; stored as it is")
    roles: list[Role] = Field(
        default_factory=list,
        max_length=16,
        description="roles beside the agent (`judge`, `user`, …) that get a key and base URLs of "
        "their own",
    )
    policy: BatchPolicy | None = Field(
        default=None, description="of the batch; all its rollouts name the same, or none"
    )
    limits: Limits | None = Field(
        default=None, description="on what this rollout's agent may spend"
    )
    batch_limits: Limits | None = Field(
        default=None,
        description="on what all rollouts of the batch may spend together; all name the same, or "
        "none",
    )
    fault: Fault | None = Field(
        default=None, description="injected instead of the provider's answer, for a drill"
    )


class RoleAccess(BaseModel):
    """The key, URLs and variables of a role other than the agent's; the agent must not see them."""

    # Keys, and URLs that hold them, are not in its `repr`, which may be logged.

    key: str = Field(
        repr=False, description="API key that identifies this rollout and role, `tz-…`"
    )
    base_urls: dict[str, str] = Field(repr=False, description="upstream → base_url for its clients")
    env: dict[str, str] = Field(
        repr=False, description="variables that point common clients at the proxy"
    )


class RolloutRegistered(BaseModel):
    """A registered rollout: where to point its agent, and with which key."""

    # Keys, and URLs that hold them, are not in its `repr`, which may be logged.

    id: str = Field(description="as given, or generated")
    key: str = Field(repr=False, description="API key that identifies this rollout, `tz-…`")
    admitted: bool = Field(description="false: an open breaker skips it; do not run the agent")
    error: str | None = Field(description="why it was not admitted: `skipped: …`")
    repeat: int | None = Field(
        default=None,
        description="which sample of its task it is: as given, or by what became of the earlier "
        "ones. Null if the task is run once",
    )
    attempt: int | None = Field(
        default=None, description="which try of this sample, likewise; null: the first of its task"
    )
    base_urls: dict[str, str] = Field(repr=False, description="upstream → base_url for its clients")
    env: dict[str, str] = Field(
        repr=False, description="variables that point common agents at the proxy"
    )
    roles: dict[str, RoleAccess] = Field(
        default_factory=dict, description="role → its key and base URLs"
    )
    warnings: list[str] = Field(
        default_factory=list,
        description="where agents are untrusted: `max_steps_without_effect` (running out of steps "
        "is their own doing, and is scored), `budget_without_effect` (so is spending a limit), "
        "`no_reference` (reference calls are off, or the "
        "service holds no key for the upstream: a failure counts as the agent's unless other "
        "rollouts fail alike)",
    )


class OutcomeRequest(StrictRequest):
    """`POST /rollouts/{id}/outcome`: what the runner observed; null where it did not count.

    A rollout that was not registered is registered with `batch`, `task`, `repeat`, `attempt`
    and `model`, also one that made no call; of a registered one they must be the same, or left out.
    """

    batch: Name = Field(default=None, description="as in the registration")
    task: Name = Field(default=None, description="as in the registration")
    repeat: Repeat = None
    attempt: Ordinal = Field(default=None, description="as in the registration")
    model: ModelNames = Field(default=None, description="as in the registration")
    status: ExecutionStatus = Field(description="whether the infrastructure worked")
    termination_reason: TerminationReason | None = Field(
        default=None, description="why the agent's loop stopped; only with status `success`"
    )
    prompts_executed: Count = Field(
        default=None, description="prompts given to the agent; 0: it never started"
    )
    tool_calls: Count = Field(default=None, description="tool calls the runner counted")
    total_tokens: Count = Field(default=None, description="tokens the runner counted")
    rewards: dict[str, float] | None = Field(
        default=None,
        description="by name; a bare number is the reward named `reward`. An outcome without any "
        "may be sent again with them, once",
    )
    eval: JsonObject = Field(default=None, description="the runner's own evaluation; kept as is")
    error: Text | None = Field(default=None, description="why the agent or its runner failed")
    verifier_error: Text | None = Field(default=None, description="why it was not verified")
    export_error: Text | None = Field(default=None, description="why its record is incomplete")

    @field_validator("rewards", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Store a bare number as the reward named `reward`."""
        if isinstance(value, dict | None):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"must be a number, or an object of numbers, not {shown(value)}")
        return {"reward": value}

    @field_validator("termination_reason")
    @classmethod
    def _only_of_success(cls, reason: str | None, known: ValidationInfo) -> str | None:
        status = known.data.get("status", "success")
        if reason is not None and status != "success":
            raise ValueError(f"is only allowed when status is success, not {status}")
        return reason


class RolloutItem(BaseModel):
    """A rollout as listed by `GET /rollouts`."""

    id: str = Field(description="the rollout")
    batch: str | None = Field(description="its batch")
    task: str | None = Field(description="its task")
    repeat: int | None = Field(default=None, description="which sample of the task")
    attempt: int | None = Field(description="which try of that sample")
    model: str | None = Field(description="the model that registration names")
    upstream: str | None = Field(description="the upstream that registration names")
    created_at: float = Field(description="seconds since the epoch")
    registered: bool = Field(description="false: created by its first call")
    health: Known[Health | None] = Field(description="of its last verdict; null before the first")
    subcategory: Known[Subcategory | None] = Field(description="why its deciding calls failed")
    fingerprint: str | None = Field(description="cause and status, such as `quota:429`")
    cause: str | None = Field(default=None, description="the cause that retries are counted by")
    provisional: bool | None = Field(description="whether the verdict can still change")
    scoreable: str | None = Field(default=None, description="`yes`, `no` or `unknown`")
    reward: float | None = Field(default=None, description="null where none counts")
    reported_reward: float | None = Field(
        default=None, description="as the runner reported it, also where it does not count"
    )
    total_tokens: int | None = Field(default=None, description="of its calls")
    cost_usd: float | None = Field(default=None, description="US dollars, of its calls")
    reported_at: float | None = Field(
        default=None, description="when its outcome was reported, in seconds since the epoch"
    )
    validity: list[str] = Field(
        default_factory=list, description="the worst level, and the checks that found something"
    )
    own_failures: bool = Field(
        default=False,
        description="no model answered, by the agent's own doing: its score counts, as no "
        "measurement of a model",
    )
    skipped: str | None = Field(
        default=None, description="which breaker did not admit it, and why; null: it was admitted"
    )


class RolloutPage(BaseModel):
    """A page of rollouts, oldest first unless asked otherwise."""

    items: list[RolloutItem] = Field(description="the rollouts")
    next: str | None = Field(description="value of `after` for the next page; null on the last")


# --- bulk registration ---


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


# --- digests of response ids ---


MOST_DIGESTS = 10_000
LONGEST_RESPONSE_ID = 1000  # characters
_ResponseId = Annotated[str, Field(min_length=1, max_length=LONGEST_RESPONSE_ID)]


class DigestRequest(StrictRequest):
    """`POST /digests`: ids of answers, as a trace that others keep has them."""

    response_ids: Annotated[list[_ResponseId], Field(max_length=MOST_DIGESTS)] = Field(
        description="`id` of chat completions, messages, responses and interactions, "
        "`responseId` of Gemini"
    )


class Digests(BaseModel):
    """The digests of response ids."""

    digests: dict[str, str] = Field(description="by id: the `response_digest` of its exchange")


# --- keys ---
#
# Compatible with the key API of LiteLLM's proxy: one key, one rollout.


# --- exchanges ---


class Exchange(BaseModel):
    """One call. Token fields are the provider's own numbers, `*_total` the normalised ones.

    Further fields hold what validity checks read (docs/concepts/validity.md).
    """

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="also the response header `x-truezero-exchange`")
    number: int | None = Field(
        default=None,
        description="its place among the rollout's calls, from 1: `call 3` on pages and in the "
        "command line is number 3",
    )
    status: int | None = Field(description="HTTP status; null where no response head came")
    ending: str | None = Field(
        description="how it stopped: `complete`, `cut_upstream`, `left_by_agent`, "
        "`left_while_held`, `closed_at_outcome`, `timed_out`, `never_connected`, `lost`; null "
        "while in flight"
    )
    upstream: str = Field(description="name of the upstream")
    api: str = Field(description="the provider's API, such as `openai.chat`")
    model: str | None = Field(description="the model, as the agent asked for it")
    role: str = Field(description="`agent`, or the role in the path (`judge`, `user`, …)")
    streamed: bool | None = Field(description="whether the response was a stream")
    started_at: float = Field(description="when it was sent, in seconds since the epoch")
    held_s: float | None = Field(
        default=None,
        description="seconds that it waited before that, for its turn or for a limit; null where "
        "none has to",
    )
    first_byte_s: float | None = Field(description="seconds to the response's first byte")
    first_token_s: float | None = Field(description="seconds to a stream's first output token")
    duration_s: float | None = Field(description="seconds to the last byte; null while in flight")
    input_tokens: int | None = Field(description="as the provider counts them")
    output_tokens: int | None = Field(description="as the provider counts them")
    cached_input_tokens: int | None = Field(description="input read from a cache")
    cache_write_tokens: int | None = Field(description="input written to a cache")
    reasoning_tokens: int | None = Field(description="output spent on reasoning")
    total_tokens: int | None = Field(description="as the provider counts them")
    input_total: int | None = Field(description="all input, cache reads and writes included")
    output_total: int | None = Field(description="all output, reasoning included")
    billed_as: str | None = Field(
        default=None,
        description="what the standard price of its tokens leaves out: a service tier (`priority`, "
        "`flex`, `batch`, `scale`, `provisioned`, `fast`, `other`), `tools` that the provider "
        "charges for, or both (`priority+tools`); its cost is null unless the provider states one",
    )
    usage_source: str = Field(
        description="where counts came from: `provider`, `partial` (cut short), `header`, `absent`"
    )
    finish_reason: str | None = Field(description="why the model stopped, in the provider's word")
    tool_calls: int | None = Field(description="tool calls in the answer; null if unreadable")
    content_seen: bool | None = Field(
        default=None, description="whether a text or a tool call came, reasoning aside"
    )
    pending: bool | None = Field(
        default=None, description="whether a response in the background was not complete yet"
    )
    answer_state: str | None = Field(
        default=None,
        description="what was found in a successful answer: `read`, `empty`, `unread`, `unseen`",
    )
    inferred: bool | None = Field(
        default=None, description="whether it was read by its shape, at a path of no known dialect"
    )
    response_digest: str | None = Field(
        default=None,
        description="salted digest of the answer's own id, as `POST /digests` makes it; of a call "
        "that fetches a response, of that one's",
    )
    weight_version: str | None = Field(
        default=None,
        description="version of the weights that answered; several, oldest first, with commas",
    )
    system_fingerprint: str | None = Field(
        default=None, description="of the engine's configuration, as the answer states it"
    )
    subcategory: Known[Subcategory | None] = Field(
        description="why the provider failed it; null: it did not"
    )
    transient: bool | None = Field(description="whether the cause passes by itself")
    rule: str | None = Field(description="the row of the cause table that says so")
    error_code: str | None = Field(description="the provider's own code, where allow-listed")
    retry_after_s: float | None = Field(description="the wait that the provider asks for, seconds")
    request_bytes: int = Field(description="length of the request body")
    response_bytes: int = Field(description="length of the response body, as received")
    attribution_source: str = Field(
        description="what named the rollout: `path`, `minted_key`, `header`, `borrowed_header`, "
        "`unattributed`, `reference`"
    )
    injected: bool = Field(description="whether a drill's fault took the provider's place")


class ExchangePage(BaseModel):
    """A page of exchanges, oldest first."""

    items: list[Exchange] = Field(description="the calls")
    next: str | None = Field(description="value of `after` for the next page; null on the last")
