"""What was found beside health: findings, where checks could look, and roles."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

Level = Literal["info", "suspect", "invalid"]
CheckName = Literal[
    "prompt_truncated",
    "output_truncated",
    "reasoning_ate_budget",
    "engine_aborted",
    "model_substituted",
    "serving_changed",
    "tool_calls_unparsed",
    "starved",
    "usage_mismatch",
    "judge_failed",
    "duplicate_identity",
]
Validity = Level | CheckName


class ValidityFinding(BaseModel):
    """What one check found of a rollout: the model was reached, and the measurement spoilt."""

    check: CheckName = Field(description="name of the check")
    level: Level = Field(description="how much it says of the measurement")
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


class RoleVerdict(BaseModel):
    """The small verdict on the calls of one role: a judge's, a simulated user's."""

    health: Literal["healthy", "api_error", "suspected_api_error", "not_judged", "undecided"] = (
        Field(description="whether the role's model was reached")
    )
    rule: str = Field(description="the first rule that fired")
    subcategory: str | None = Field(default=None, description="why the deciding calls failed")
    cause: str | None = Field(default=None, description="the same with upstream and code")
    error: str | None = Field(default=None, description="as a sentence; null if healthy")
    total_requests: int = Field(default=0, description="calls in this role")
    failed_requests: int = Field(default=0, description="of those, calls that failed")
    evidence: list[str] = Field(default_factory=list, description="ids of deciding exchanges")


class BatchFinding(BaseModel):
    """What a check found by comparing the rollouts of a batch with each other."""

    check: CheckName = Field(description="name of the check")
    level: Level = Field(description="how much it says of the measurement")
    rollouts: int = Field(description="rollouts that differ from the rest")
    of: int = Field(description="rollouts whose calls could be compared")
    examples: list[str] = Field(description="ids of such rollouts, at most ten")
    sentence: str = Field(description="the finding as a sentence")
    about: dict[str, Any] = Field(
        default_factory=dict, description="names and numbers behind the sentence"
    )


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
