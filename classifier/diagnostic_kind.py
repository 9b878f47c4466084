"""What a kind of diagnostic is, the register of kinds, and words that several of them use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self, TypeVar

from classifier.verdicts import Verdict, plural


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
    @abstractmethod
    def summary(cls, count: int) -> str:
        """Return one sentence for a batch in which ``count`` rollouts have it."""

    @abstractmethod
    def check_line(self, name: str) -> str:
        """Return one line about the measurement called ``name``."""


Kind = TypeVar("Kind", bound=type[Diagnostic])
# By result field, in the order of declaration; classifier.diagnostics declares all.
REGISTRY: dict[str, type[Diagnostic]] = {}


def declare(kind: Kind) -> Kind:
    """Register a kind; ``ValueError`` where another one owns its result field."""
    if kind.field in REGISTRY:
        raise ValueError(f"{kind.field} belongs to {REGISTRY[kind.field].__name__}")
    REGISTRY[kind.field] = kind
    return kind


# What each rule proved, in words for a check line; rules 3 to 9 of docs/concepts/judging.md.
_PROVED = {
    "all_failed": "no model ever answered",
    "main_model_failed": "the model under test never answered",
    "interrupted": "the agent was cut off",
    "zero_signal": "nothing shows that a model was asked",
    "empty_answers": "every answer was empty",
    "never_answered": "no answer came while the agent waited",
    "unexplained_rejections": "it ended in rejections that nothing explains",
}


def proved(rule: str) -> str:
    """Return what a rule proved, in words for a check line."""
    return _PROVED.get(rule, rule.replace("_", " "))


def rollouts(count: int) -> str:
    """Return a number of rollouts in words."""
    return plural(count, "rollout")
