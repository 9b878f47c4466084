"""Models of a rollout: its registration, its outcome and its entry in lists."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from truezero.models.base import (
    Count,
    ExecutionStatus,
    Health,
    JsonObject,
    ModelNames,
    Name,
    Ordinal,
    PrintableText,
    Repeat,
    Repeats,
    Role,
    StrictRequest,
    Subcategory,
    TerminationReason,
    Text,
)

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
]


class Fault(StrictRequest):
    """A failure to inject into a rollout instead of the provider's answer, for a drill.

    The agent's inference calls are counted from 1; with only a kind, all of them fail. Kinds
    from `truncate_prompt` on are complete answers that spoil the measurement.
    """

    kind: FaultKind = Field(description="what the provider is made to do")
    at_call: int | None = Field(default=None, ge=1, le=10**6, description="first call that fails")
    every: int | None = Field(default=None, ge=1, le=10**6, description="then every n-th call")
    times: int | None = Field(
        default=None, ge=1, le=10**6, description="at most this many failures"
    )
    delay_s: float = Field(default=5.0, gt=0, le=3600, description="seconds before a `slow` answer")

    def strikes(self, call: int) -> bool:
        """Return whether the agent's inference call of this number, counted from 1, fails."""
        offset = call - (self.at_call or 1)
        failures, rest = divmod(offset, self.every or 1)
        return offset >= 0 and rest == 0 and (self.times is None or failures < self.times)


class BatchPolicy(StrictRequest):
    """How a batch is judged, where not as the service is set; one for all of its rollouts."""

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
    content_filter: Literal["failure", "answer"] | None = Field(
        default=None,
        description="what a content filter on a request is: a rejected request, which takes the "
        "reward away, or the `answer` of the system under test",
    )


class RolloutRequest(StrictRequest):
    """`POST /rollouts`: register a rollout; the service generates a missing id.

    A list of models is the one under test and its fallbacks: reaching any of them counts.
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
    fault: Fault | None = Field(
        default=None, description="injected instead of the provider's answer, for a drill"
    )


class RoleAccess(BaseModel):
    """What proves a role other than the agent's; not for the agent to see."""

    key: str = Field(description="API key that identifies this rollout and role, `tz-…`")
    base_urls: dict[str, str] = Field(description="upstream → base_url for its clients")
    env: dict[str, str] = Field(description="variables that point common clients at the proxy")


class RolloutRegistered(BaseModel):
    """A registered rollout: where to point its agent, and with which key."""

    id: str = Field(description="as given, or generated")
    key: str = Field(description="API key that identifies this rollout, `tz-…`")
    admitted: bool = Field(description="false: an open breaker skips it; do not run the agent")
    error: str | None = Field(description="why it was not admitted: `skipped: …`")
    base_urls: dict[str, str] = Field(description="upstream → base_url for its clients")
    env: dict[str, str] = Field(description="variables that point common agents at the proxy")
    roles: dict[str, RoleAccess] = Field(
        default_factory=dict, description="role → its key and base URLs"
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
        default=None, description="by name; a bare number is the reward named `reward`"
    )
    eval: JsonObject = Field(default=None, description="the runner's own evaluation; kept as is")
    error: Text | None = Field(default=None, description="why the agent or its runner failed")
    verifier_error: Text | None = Field(default=None, description="why it was not verified")
    export_error: Text | None = Field(default=None, description="why its record is incomplete")

    @field_validator("rewards", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Store a bare number as the reward named `reward`."""
        plain_number = isinstance(value, int | float) and not isinstance(value, bool)
        return {"reward": value} if plain_number else value

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
    health: Health | None = Field(description="of its last verdict; null before the first")
    subcategory: Subcategory | None = Field(description="why its deciding calls failed")
    fingerprint: str | None = Field(description="cause and status, such as `quota:429`")
    cause: str | None = Field(default=None, description="the cause that retries are counted by")
    provisional: bool | None = Field(description="whether the verdict can still change")
    scoreable: str | None = Field(default=None, description="`yes`, `no` or `unknown`")
    reward: float | None = Field(default=None, description="null where none counts")
    total_tokens: int | None = Field(default=None, description="of its calls")
    cost_usd: float | None = Field(default=None, description="US dollars, of its calls")
    reported_at: float | None = Field(
        default=None, description="when its outcome was reported, in seconds since the epoch"
    )
    validity: list[str] = Field(
        default_factory=list, description="the worst level, and the checks that found something"
    )


class RolloutPage(BaseModel):
    """A page of rollouts, oldest first unless asked otherwise."""

    items: list[RolloutItem] = Field(description="the rollouts")
    next: str | None = Field(description="value of `after` for the next page; null on the last")
