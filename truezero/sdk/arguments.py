"""Keyword arguments of the SDK's methods: the fields of a request's body or query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from truezero import models


class PolicyFacts(TypedDict, total=False):
    """The judging policy of a batch, where it differs from the service's settings."""

    agents: Literal["trusted", "untrusted"] | None
    validity: Literal["invalid", "suspect", "none"] | None
    max_steps: Literal["score", "exclude"] | None
    budget: Literal["score", "exclude"] | None
    content_filter: Literal["failure", "answer"] | None


class LimitFacts(TypedDict, total=False):
    """Limits on what calls may spend together."""

    calls: int | None
    tokens: int | None
    cost_usd: float | None
    seconds: float | None


class LaneFacts(TypedDict, total=False):
    """Attributes that the rollouts of a batch often share."""

    model: str | Sequence[str] | None
    upstream: str | None
    usage_channel: Literal["proxy", "none"]
    client_cache: bool
    reward_range: tuple[float, float] | None
    score_key: str | None
    policy: PolicyFacts | None
    limits: LimitFacts | None
    batch_limits: LimitFacts | None
    metadata: dict[str, Any] | None


class RunFacts(LaneFacts, total=False):
    """Attributes that distinguish one run of a task from another."""

    id: str | None
    repeat: int | None
    repeats: int | None
    attempt: int | None
    roles: list[str]


class RolloutFacts(RunFacts, total=False):
    """Attributes accepted by `POST /rollouts`."""

    batch: str | None
    task: str | None


class DrillFacts(RolloutFacts, total=False):
    """The same, with a failure to inject into the agent's calls."""

    fault: Mapping[str, Any] | None


class OutcomeFacts(TypedDict, total=False):
    """Fields accepted by `POST /rollouts/{id}/outcome`; ``status`` is success by default.

    ``batch``, ``task``, ``repeat``, ``attempt`` and ``model`` register a rollout that was not.
    """

    batch: str | None
    task: str | None
    repeat: int | None
    attempt: int | None
    model: str | Sequence[str] | None
    status: models.ExecutionStatus
    termination_reason: models.TerminationReason | None
    prompts_executed: int | None
    tool_calls: int | None
    total_tokens: int | None
    rewards: float | Mapping[str, float] | None
    eval: dict[str, Any] | None
    error: str | None
    verifier_error: str | None
    export_error: str | None


class RolloutFilters(TypedDict, total=False):
    """Filters and order of `GET /rollouts`; of several values any may apply."""

    batch: str | Sequence[str]
    task: str | Sequence[str]
    repeat: int | Sequence[int]
    attempt: int | Sequence[int]
    model: str | Sequence[str]
    upstream: str | Sequence[str]
    role: str | Sequence[str]
    health: models.Health | Sequence[models.Health]
    subcategory: models.Subcategory | Sequence[models.Subcategory]
    fingerprint: str | Sequence[str]
    cause: str | Sequence[str]
    rule: str | Sequence[str]
    validity: models.Validity | Sequence[models.Validity]
    reward: models.RewardKind | Sequence[models.RewardKind]
    reported: models.ReportedKind | Sequence[models.ReportedKind]
    scoreable: models.Scoreable | Sequence[models.Scoreable]
    unearned: bool
    false_zero: bool
    false_one: bool
    measured: bool
    superseded: bool
    running: bool
    skipped: bool
    text: str
    since: float | str
    until: float | str
    failed_since: float | str
    failed_until: float | str
    sort: models.Sort
    order: models.Order


class GroupFilters(TypedDict, total=False):
    """The arguments of `GET /batches/{id}/groups`; ``method`` is gone, and without effect."""

    min_valid: int
    settled: bool | None
    task: str | None
    method: object
