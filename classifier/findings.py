"""What a rule finds: which one fired, and on what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from classifier.evidence import Evidence
from classifier.records import Exchange
from classifier.verdicts import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Which rule fired, and on what.

    ``failures`` decided it, by their ends, and ``strongest`` of them name it (all of them
    where it is empty); ``share`` says how many calls that is; ``evidence`` are exchange ids.
    """

    health: Health
    rule: str
    failures: Sequence[Exchange] = ()
    strongest: Sequence[Exchange] = ()
    share: str = ""
    evidence: tuple[str, ...] = ()
    sentence: str | None = None


Rule = Callable[[Evidence], Finding | None]


def ids(exchanges: Iterable[Exchange]) -> tuple[str, ...]:
    """Return the ids of exchanges, in their order."""
    return tuple(exchange.id for exchange in exchanges)
