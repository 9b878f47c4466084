"""Models of a judged rollout: its verdict, validity findings, result and retry advice."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from truezero.models.base import ExecutionStatus, Health, Known, Subcategory, TerminationReason

# --- validity ---


Level = Literal["info", "suspect", "invalid"]
CheckName = Literal[
    "prompt_truncated",
    "output_truncated",
    "reasoning_ate_budget",
    "engine_aborted",
    "model_substituted",
    "serving_changed",
    "tool_calls_unparsed",
    "error_as_answer",
    "answers_identical",
    "starved",
    "usage_mismatch",
    "judge_failed",
    "duplicate_identity",
    "unearned",
    "other_models",
    "requests_abandoned",
]
Validity = Level | CheckName
EarlierCheck = Literal["lane_drifted"]
"""A check of earlier releases, which verdicts on record may name."""
LATER_CHECKS: frozenset[str] = frozenset(("other_models", "requests_abandoned", "unearned"))
"""The checks that 0.2.0's client rejects, as every name that it does not know."""


class ValidityFinding(BaseModel):
    """A check's finding on a rollout: the model was reached, but the measurement is spoilt."""

    check: Known[CheckName] = Field(description="name of the check")
    level: Known[Level] = Field(description="how much it says of the measurement")
    calls: int = Field(description="calls that show it")
    of: int = Field(description="calls that the check could look at")
    evidence: list[str] = Field(description="ids of those exchanges, at most ten")
    sentence: str = Field(description="the finding as a sentence")
    about: dict[str, Any] = Field(
        default_factory=dict, description="names and numbers behind the sentence"
    )


class Coverage(BaseModel):
    """On how many calls a check could look, `of` those that it is about."""

    looked: int = Field(description="calls that the check could look at")
    of: int = Field(description="calls that it is about")


AttributedTo = Literal["agent", "operator", "provider", "proxy", "unknown"]


class RoleVerdict(BaseModel):
    """The small verdict on the calls of one role: a judge's, a simulated user's."""

    health: Known[Health] = Field(description="whether the role's model was reached")
    rule: str = Field(description="the first rule that fired")
    subcategory: str | None = Field(default=None, description="why the deciding calls failed")
    cause: str | None = Field(default=None, description="the same with upstream and code")
    error: str | None = Field(default=None, description="as a sentence; null if healthy")
    total_requests: int = Field(default=0, description="calls in this role")
    failed_requests: int = Field(default=0, description="of those, calls that failed")
    evidence: list[str] = Field(default_factory=list, description="ids of deciding exchanges")
    attributed_to: Known[AttributedTo | None] = Field(
        default=None,
        description="whose failures decided, where agents are untrusted; `agent` where its output "
        "made the role's calls fail",
    )


class BatchFinding(BaseModel):
    """A check's finding from comparing the rollouts of a batch with each other."""

    check: Known[CheckName] = Field(description="name of the check")
    level: Known[Level] = Field(description="how much it says of the measurement")
    rollouts: int = Field(description="rollouts that differ from the rest")
    of: int = Field(description="rollouts whose calls could be compared")
    examples: list[str] = Field(description="ids of such rollouts, at most ten")
    sentence: str = Field(description="the finding as a sentence")
    about: dict[str, Any] = Field(
        default_factory=dict, description="names and numbers behind the sentence"
    )


class Proof(BaseModel):
    """That the model under test answered."""

    source: Known[Literal["wire", "reported"]] = Field(
        description="`wire`: its output was read in calls; `reported`: only the runner counted "
        "tokens or tool calls"
    )
    first: str | None = Field(default=None, description="id of the first call with output of it")
    last: str | None = Field(default=None, description="id of the last one")


class VerdictReference(BaseModel):
    """A series of reference calls: the proxy's own questions to the lane of a failed call."""

    exchange_id: str = Field(description="the failed call that it was asked beside")
    series: str = Field(description="id of the series, which several calls may share")
    result: Known[
        Literal["failed_alike", "answered", "partly", "otherwise", "no_reference"] | None
    ] = Field(description="how the call compares with the series; null while that runs")
    started_at: float = Field(description="seconds since the epoch")
    ended_at: float | None = Field(default=None, description="the same; null while it runs")
    calls: int = Field(default=0, description="questions that were asked")
    answered: int = Field(default=0, description="of those, questions that were answered")
    not_run: str | None = Field(default=None, description="why nothing was asked, or none counts")


# Fields that a verdict and a result have alike.
Findings = Annotated[
    list[ValidityFinding],
    Field(default_factory=list, description="what spoilt the measurement; the worst first"),
]
Coverages = Annotated[
    dict[str, Coverage],
    Field(default_factory=dict, description="by check, on how many calls it could look"),
]
Roles = Annotated[
    dict[str, RoleVerdict],
    Field(default_factory=dict, description="verdicts on the calls of other roles"),
]
ProviderSeconds = Annotated[
    float | None, Field(description="seconds in which answers were waited for")
]

Sentence = Annotated[
    str | None,
    Field(
        description="the verdict in one line: does the reward count, why, whose failure, what "
        "next; null in verdicts that an earlier release gave"
    ),
]
Proven = Annotated[
    Proof | None,
    Field(description="that the model under test answered; null if nothing shows it"),
]


# --- verdicts ---


ErrorCategory = Literal["api_error", "suspected_api_error"]
_CATEGORY = "`health` where it takes the reward away, else null"


class RetryAdvice(BaseModel):
    """The advice on whether to run the rollout again."""

    eligible: bool = Field(description="whether another attempt can succeed without a repair")
    after_s: float | None = Field(description="minimum wait in seconds; null: none is known")
    reason: str = Field(description="why, or why not, as a sentence")


class Verdict(BaseModel):
    """A judgement on whether the model was reached, with its rule and the calls that prove it.

    Counts and sums are of calls in the role `agent`. An SDK's retries of one request are one
    call. A sum is null where no call stated a figure.
    """

    rollout_id: str = Field(description="the rollout that was judged")
    batch: str | None = Field(description="its batch; null if it has none")
    health: Known[Health] = Field(description="whether the model was reached")
    error_category: Known[ErrorCategory | None] = Field(description=_CATEGORY)
    subcategory: Known[Subcategory | None] = Field(description="why the deciding calls failed")
    transient: bool | None = Field(description="whether the cause passes by itself")
    fingerprint: str | None = Field(
        description="cause and status, such as `quota:429`: what breakers and lists group by"
    )
    cause: str | None = Field(description="the same with upstream and provider code")
    lane: str | None = Field(description="`upstream/model/key digest` of the deciding calls")
    layer: str | None = Field(
        description="kind of evidence: `proxy_proven` (calls failed), `zero_signal` (calls are "
        "missing or empty), `audit` (a harness's record)"
    )
    rule: str = Field(description="the first rule that fired (docs/concepts/judging.md)")
    policy: str = Field(description="`evidence`, or `seed`: by status codes alone")
    error: str | None = Field(description="the verdict as a sentence; null if healthy")
    total_requests: int = Field(description="calls by the agent")
    failed_requests: int = Field(description="of those, calls that the provider failed")
    recovered_requests: int = Field(description="failed calls that a later call made good")
    status_counts: dict[str, int] = Field(
        description="failed answers by HTTP status, an SDK's retries counted each"
    )
    dominant_status: int | None = Field(description="the most frequent status of failed calls")
    input_tokens: int | None = Field(description="input tokens, cached ones included")
    output_tokens: int | None = Field(description="output tokens, reasoning included")
    total_tokens: int | None = Field(description="input and output tokens")
    tokens_unknown_calls: int | None = Field(
        default=None,
        description="calls by the agent that used tokens and did not say how many: the counts are "
        "lower bounds where it is not 0; null if the verdict was stored before 0.3",
    )
    tool_calls: int | None = Field(description="tool calls in the model's answers")
    cost_usd: float | None = Field(
        description="US dollars, of calls of every role; null if no call's cost is known"
    )
    cost_unknown_calls: int | None = Field(
        default=None,
        description="calls of every role that used tokens and whose cost is unknown: `cost_usd` is "
        "a lower bound where it is not 0; null if the verdict was stored before 0.3",
    )
    lost_s: float | None = Field(
        description="seconds in which a failed call, or the next try of it, was waited for, and "
        "none was answered or waited at the proxy"
    )
    scoreable: str = Field(
        description="whether the reward counts as a measurement: `yes`, `no` or `unknown`"
    )
    doomed: bool = Field(description="whether the rollout can no longer succeed: stop the agent")
    provisional: bool = Field(description="whether the verdict can still change")
    retry: RetryAdvice = Field(description="whether to run the rollout again")
    warnings: list[str] = Field(
        description="names of what a reader should know; none changes `health`"
    )
    evidence: list[str] = Field(description="ids of the exchanges that prove the verdict")
    classifier: str = Field(
        description="version of the rules; a stored verdict keeps the one that judged it"
    )
    late_calls: int = Field(0, description="calls after the rollout had ended; they change nothing")
    judged_at: float | None = Field(
        None, description="seconds since the epoch; null while provisional"
    )
    attributed_to: Known[AttributedTo | None] = Field(
        default=None,
        description="whose failures decided it; the agent's leave it healthy, `unknown`: reference "
        "calls do not say",
    )
    corroborated: bool | None = Field(
        default=None,
        description="whether reference calls, or other rollouts where none were asked, failed "
        "alike (true) or were answered (false)",
    )
    validity: Findings
    validity_coverage: Coverages
    roles: Roles
    provider_s: ProviderSeconds = None
    agent_s: float | None = Field(
        default=None,
        description="the rest of the wall time, beside `provider_s`, `lost_s` and `held_s`",
    )
    held_s: float | None = Field(
        default=None,
        description="seconds in which a call waited at the proxy, for its turn or for a limit, and "
        "none was answered meanwhile; null where none has to",
    )
    excluded_by: list[str] = Field(
        default_factory=list,
        description="for what a rollout's score is left out: `cancelled`, by the policy "
        "`max_steps` and names of checks, and `budget` where a limit refused calls; of one that "
        "failed none",
    )
    proof: Proven = None
    references: list[VerdictReference] = Field(
        default_factory=list, description="the proxy's own questions, asked beside failed calls"
    )
    sentence: Sentence = None

    @property
    def spoilt(self) -> str | None:
        """The sentence if the score does not count although the model was reached, else None."""
        if self.health != "healthy" or self.scoreable != "no":
            return None
        from classifier.sentences import told  # noqa: PLC0415  an old service has none

        return told(self)


class Result(BaseModel):
    """The record a runner stores: status, rewards and API errors, independent of each other.

    It also has the verdict's `health`, `subcategory`, `fingerprint`, `scoreable`, counts and
    sums, and the runner's counts.
    """

    model_config = ConfigDict(extra="allow")

    rollout_id: str = Field(description="the rollout")
    status: Known[ExecutionStatus] = Field(
        description="whether the infrastructure worked, as reported"
    )
    termination_reason: Known[TerminationReason | None] = Field(
        description="why the agent's loop stopped, as reported; only with status `success`"
    )
    rewards: dict[str, float] | None = Field(
        description="as reported; null where the verdict's `scoreable` is `no`"
    )
    eval: dict[str, Any] | None = Field(description="the runner's own evaluation, as reported")
    error: str | None = Field(description="the runner's error, else why `rewards` do not count")
    error_category: Known[ErrorCategory | None] = Field(description=_CATEGORY)
    api_error_info: dict[str, Any] | None = Field(
        description="what failed and how often, where `health` is `api_error`"
    )
    suspected_api_error_info: dict[str, Any] | None = Field(
        description="what is missing, where `health` is `suspected_api_error`"
    )
    validity: Findings
    validity_coverage: Coverages
    roles: Roles
    provider_s: ProviderSeconds = None
    proof: Proven = None
    sentence: Sentence = None
