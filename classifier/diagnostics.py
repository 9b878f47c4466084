"""Diagnostics: kinds of objections to a measurement, one class each, read from a verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, fields
from itertools import chain
from typing import ClassVar, Self, TypeVar

from classifier.declarations import record
from classifier.sentences import doubt, spoilt_by, told, why_not_judged
from classifier.verdicts import (
    ANSWERS_UNSEEN,
    NOTHING_READ,
    OWN_FAILURES,
    PROVOKED_SUSPECTED,
    AttributedTo,
    Health,
    Verdict,
    plural,
)

# --- register of kinds ---


class Diagnostic(ABC):
    """One thing wrong with one measurement.

    A kind is a frozen dataclass with ``@declare`` above it. ``field`` is the place in a
    result that it owns, ``category`` the health it belongs to.
    """

    __slots__ = ()

    field: ClassVar[str]
    category: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Make the diagnostic of a verdict; None when this kind does not apply."""

    @classmethod
    def _of(cls, verdict: Verdict, **own: object) -> Self:
        """Take the verdict's fields of the same names, besides those of its own."""
        names = (each.name for each in fields(cls))  # type: ignore[arg-type]  # every kind is one
        return cls(**{name: getattr(verdict, name) for name in names if name not in own}, **own)

    @classmethod
    @abstractmethod
    def summary(cls, count: int) -> str:
        """Return one sentence for a batch in which ``count`` rollouts have it."""


Kind = TypeVar("Kind", bound=type[Diagnostic])
# By result field, in the order of declaration; classifier.diagnostics declares all.
REGISTRY: dict[str, type[Diagnostic]] = {}


def declare(kind: Kind) -> Kind:
    """Register a kind; ``ValueError`` where another one owns its result field."""
    if kind.field in REGISTRY:
        raise ValueError(f"{kind.field} belongs to {REGISTRY[kind.field].__name__}")
    REGISTRY[kind.field] = kind
    return kind


def tells_of_missing(warning: str) -> bool:
    """Return True if a verdict's warning says which evidence is missing."""
    return warning.startswith("calls_") or warning in (ANSWERS_UNSEEN, NOTHING_READ)


def rollouts(count: int) -> str:
    """Return a number of rollouts in words."""
    return plural(count, "rollout")


# --- kinds ---


def kinds() -> tuple[type[Diagnostic], ...]:
    """Return every kind, in the order of declaration."""
    return tuple(REGISTRY.values())


def diagnose(verdict: Verdict) -> tuple[Diagnostic, ...]:
    """Return all that is wrong with this measurement; empty when nothing is."""
    diagnostics = (kind.of(verdict) for kind in kinds())
    return tuple(diagnostic for diagnostic in diagnostics if diagnostic is not None)


def result_fields(diagnostics: Iterable[Diagnostic]) -> dict[str, dict[str, object] | None]:
    """Return every kind's result field, None if the kind does not apply."""
    fields: dict[str, dict[str, object] | None] = dict.fromkeys(REGISTRY)
    return fields | {
        diagnostic.field: asdict(diagnostic)  # type: ignore[call-overload]  # every kind is a dataclass
        for diagnostic in diagnostics
    }


def why_unscored(verdict: Verdict) -> str | None:
    """Return why a verdict takes the rewards away, as a sentence; None if it does not."""
    return told(verdict) if verdict.scoreable == "no" and not verdict.error else verdict.error


def _detail(verdict: Verdict) -> str:
    """Return the verdict's sentence without its category."""
    return (verdict.error or "").partition(": ")[2]


@declare
@record
class ApiErrorInfo(Diagnostic):
    """A provider failure that the wire proves; counts are of logical calls."""

    field: ClassVar[str] = "api_error_info"
    category: ClassVar[str] = Health.API_ERROR.value

    rule: str
    subcategory: str | None
    transient: bool | None
    fingerprint: str | None
    cause: str | None
    lane: str | None
    dominant_status: int | None
    status_counts: dict[str, int]
    total_requests: int
    failed_requests: int
    recovered_requests: int
    lost_s: float | None
    evidence: tuple[str, ...]
    detail: str

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply to every proven api_error."""
        if verdict.health is not Health.API_ERROR:
            return None
        subcategory = verdict.subcategory and verdict.subcategory.value
        return cls._of(verdict, subcategory=subcategory, detail=_detail(verdict))

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``3 rollouts failed on provider errors: see api_error_info``."""
        return f"{rollouts(count)} failed on provider errors: see {cls.field}"


@declare
@record
class SuspectedApiErrorInfo(Diagnostic):
    """A provider failure that the calls suggest and do not prove."""

    field: ClassVar[str] = "suspected_api_error_info"
    category: ClassVar[str] = Health.SUSPECTED_API_ERROR.value

    rule: str
    fingerprint: str | None
    lane: str | None
    total_requests: int
    failed_requests: int
    output_tokens: int | None
    tool_calls: int | None
    evidence: tuple[str, ...]
    detail: str

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply to every suspected_api_error."""
        if verdict.health is not Health.SUSPECTED_API_ERROR:
            return None
        return cls._of(verdict, detail=_detail(verdict))

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``1 rollout suggests a provider failure: see …``."""
        verb = "suggests" if count == 1 else "suggest"
        return f"{rollouts(count)} {verb} a provider failure: see {cls.field}"


@declare
@record
class UndecidedInfo(Diagnostic):
    """Evidence is missing, so that neither health nor failure is proven."""

    field: ClassVar[str] = "undecided_info"
    category: ClassVar[str] = Health.UNDECIDED.value

    missing: tuple[str, ...]
    evidence: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply to every undecided rollout."""
        if verdict.health is not Health.UNDECIDED:
            return None
        return cls._of(verdict, missing=tuple(filter(tells_of_missing, verdict.warnings)))

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``2 rollouts lack evidence: see undecided_info``."""
        return f"{rollouts(count)} {'lacks' if count == 1 else 'lack'} evidence: see {cls.field}"


@declare
@record
class NotJudgedInfo(Diagnostic):
    """No model was asked: the runner's own error says why."""

    field: ClassVar[str] = "not_judged_info"
    category: ClassVar[str] = Health.NOT_JUDGED.value

    total_requests: int
    reason: str

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply where no prompt was executed, or an error came before any call.

        Of a rollout that a breaker did not admit, the reason is the breaker's.
        """
        if verdict.health is not Health.NOT_JUDGED:
            return None
        return cls._of(verdict, reason=why_not_judged(verdict))

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``1 rollout asked no model: see not_judged_info``."""
        return f"{rollouts(count)} asked no model: see {cls.field}"


@declare
@record
class UnscoreableInfo(Diagnostic):
    """No failure is shown, and yet nobody can say whether a model had its say."""

    field: ClassVar[str] = "unscoreable_info"
    category: ClassVar[str] = Health.HEALTHY.value

    reason: str

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply to a healthy rollout that is over and not known to be scoreable."""
        over = verdict.health is Health.HEALTHY and not verdict.provisional
        if not over or verdict.scoreable != "unknown":
            return None
        return cls(reason=doubt(verdict))

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``1 rollout may not be scoreable: see unscoreable_info``."""
        return f"{rollouts(count)} may not be scoreable: see {cls.field}"


@declare
@record
class ValidityInfo(Diagnostic):
    """A model was reached, and the score does not count for what was found beside health."""

    field: ClassVar[str] = "validity_info"
    category: ClassVar[str] = Health.HEALTHY.value

    checks: tuple[str, ...]
    detail: str
    evidence: tuple[str, ...]

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply to a healthy rollout that is over and whose score findings take away."""
        if verdict.health is not Health.HEALTHY or verdict.provisional:
            return None
        spoilt = [finding for finding in verdict.validity if finding.check in verdict.excluded_by]
        if not spoilt:
            return None
        return cls(
            checks=tuple(finding.check for finding in spoilt),
            detail="; ".join(spoilt_by(verdict)),
            evidence=tuple(
                dict.fromkeys(chain.from_iterable(finding.evidence for finding in spoilt))
            ),
        )

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``1 rollout reached a model, but its score does not …: see …``."""
        does_not = "its score does not" if count == 1 else "their scores do not"
        return f"{rollouts(count)} reached a model, but {does_not} count: see {cls.field}"


@declare
@record
class OwnFailureInfo(Diagnostic):
    """The agent's own failures would have removed its reward, which counts all the same.

    ``provoked``: only because agents are untrusted; else the wire proves that they are its own.
    """

    field: ClassVar[str] = "own_failure_info"
    category: ClassVar[str] = Health.HEALTHY.value

    provoked: bool
    corroborated: bool | None
    status_counts: dict[str, int]
    total_requests: int
    failed_requests: int
    rule: str = Health.HEALTHY.value

    @classmethod
    def of(cls, verdict: Verdict) -> Self | None:
        """Apply where the agent's failures were left out of the verdict."""
        if verdict.attributed_to is not AttributedTo.AGENT:
            return None
        return cls._of(verdict, provoked=PROVOKED_SUSPECTED in verdict.warnings)

    @property
    def unanswered(self) -> bool:
        """True if no model answered: a class of its own, neither measured nor left out."""
        return self.rule == OWN_FAILURES

    @classmethod
    def summary(cls, count: int) -> str:
        """Return, for example, ``2 rollouts failed by their own agents: see own_failure_info``."""
        return f"{rollouts(count)} failed by their own agents: see {cls.field}"
