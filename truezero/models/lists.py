"""Lists of rollouts: what can be asked of them, in REST, pages, CSV and the command line alike."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from truezero.models.base import Health, PrintableText, StrictRequest, Subcategory
from truezero.models.validity import Validity

RewardKind = Literal["zero", "nonzero", "null", "missing"]
Scoreable = Literal["yes", "no", "unknown"]
Sort = Literal["created_at", "task", "reward", "cost_usd", "total_tokens"]
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
    """What a list of rollouts is asked for.

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
    validity: _Several[Validity] = Field(
        default_factory=list, description="the worst level found, or a check that found something"
    )
    reward: _Several[RewardKind] = Field(
        default_factory=list,
        description="`null`: reported, but none counts; `missing`: no outcome yet",
    )
    scoreable: _Several[Scoreable] = Field(
        default_factory=list, description="whether its score counts"
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
        default=None, description="100 by default; CSV, JSON lines and Parquet hold all rows"
    )


class BatchItem(BaseModel):
    """A batch as listed by `GET /batches`: the figures of `GET /batches/{batch}` in brief."""

    batch: str = Field(description="name of the batch")
    first_at: float = Field(description="when its first rollout began, seconds since the epoch")
    last_at: float = Field(description="when its last rollout began, seconds since the epoch")
    rollouts: int = Field(description="every attempt included")
    pending: int = Field(description="rollouts whose verdict is still provisional")
    skipped: int = Field(description="rollouts not admitted by an open breaker")
    health: dict[str, int] = Field(description="rollouts by health")
    total: int = Field(description="slots: the samples that were to be measured")
    scoreable: int = Field(description="slots whose rollout reached a model")
    scored: int = Field(description="of those, slots with a reward")
    coverage: float | None = Field(description="share of the slots that were measured")
    score_all: float | None = Field(description="mean reward, what was not measured counted as 0")
    score_effective: float | None = Field(description="mean reward over what was measured")
    score_ci: tuple[float, float] | None = Field(
        default=None, description="95 % interval of `score_effective`, over tasks"
    )
    score_worst: float | None = Field(description="lower bound: the rest would all be 0")
    score_best: float | None = Field(description="upper bound: the rest would all be 1")
    cost_usd: float | None = Field(description="US dollars, of calls of every role")
    calls: int | None = Field(default=None, description="the agents' calls that used tokens")
    cost_known_calls: int | None = Field(
        default=None, description="of `calls`, those whose cost is in `cost_usd`"
    )
    valid: bool = Field(description="whether the batch is a valid measurement")


class BatchPage(BaseModel):
    """A page of batches, the newest first: those whose last rollout began last."""

    items: list[BatchItem] = Field(description="the batches")
    next: str | None = Field(description="value of `after` for the next page; null on the last")
