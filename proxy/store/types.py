"""What goes into the store and comes out of it, apart from the classifier's records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from sqlalchemy import Executable, RowMapping

from classifier.breakers import Admission, BreakerState
from classifier.records import Exchange
from classifier.verdicts import noun

Row = RowMapping
Write: TypeAlias = tuple[Executable, Any]  # a statement, and its values
Admit = Callable[[list[BreakerState]], Admission]
Feed = Callable[[list[BreakerState]], list[BreakerState]]


@dataclass(frozen=True, slots=True)
class Gap:
    """Calls of one rollout that were served but not recorded; ``since`` in epoch seconds."""

    count: int
    since: float


@noun
class CommitBatch:
    """What one commit takes: calls begun, calls ended, gaps by rollout.

    ``late``: the database did not take them when they began and ended.
    """

    opened: Sequence[Exchange] = ()
    recorded: Sequence[Exchange] = ()
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A rollout as its runner registers it.

    ``repeat`` is which sample of its task it is, of ``repeats`` that its batch is to have.
    ``metadata`` and ``fault`` are JSON text, ``fallbacks`` names of models, one a line.
    """

    id: str
    batch: str | None = None
    task: str | None = None
    repeat: int | None = None
    repeats: int | None = None
    attempt: int | None = None
    model: str | None = None
    upstream: str | None = None
    usage_channel: str = "proxy"
    metadata: str | None = None
    fault: str | None = None
    fallbacks: str | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """All but the id, as columns of `rollouts`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "id"}


POLICY_COLUMNS = ("agents", "validity", "max_steps", "content_filter")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    """A batch's policy: ``stated`` by a registration, by ``default`` as the service's is.

    Both by the names of ``POLICY_COLUMNS``.
    """

    stated: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The result of a registration: a conflict, or the sentence that says why it is skipped.

    ``differing``: what its batch's policy says, where the registration says otherwise.
    """

    conflict: bool = False
    differing: Mapping[str, str | None] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The result of a report.

    ``outcome`` is the one that stands now (JSON text), None where no such rollout is known.
    ``conflict``: the rollout has other attributes than the report says. ``closing``: the number
    with which its calls are to be ended, None where they have been.
    """

    outcome: str | None = None
    conflict: bool = False
    closing: int | None = field(default=None, compare=False)  # of no account to the outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCounts:
    """Counts over the whole store: rollouts by health, open and half-open breakers by phase."""

    verdicts: Mapping[str, int]
    breakers: Mapping[str, int]


def as_json(value: object) -> str:
    """JSON text as it is stored: one spelling for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
