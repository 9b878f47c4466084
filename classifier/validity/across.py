"""Compare the rollouts of a batch: the models, providers and engines that served them.

A substitution that is constant within a rollout may be an alias, as far as one rollout can tell.
Where the rollouts of a batch got different models for one name, their scores do not compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple, TypeAlias

from classifier.model_names import canonical
from classifier.records import Exchange
from classifier.validity import model_substituted, serving_changed
from classifier.validity.measurement import tally
from classifier.validity.model_substituted import Served, distinct
from classifier.verdicts import Level, plural

_LIMIT = 10
# Upstream, model asked for, model that answered, provider or region, fingerprint; None is unknown.
Way: TypeAlias = tuple[str | None, ...]
_WAY = ("upstream", "model", "answered_model", "served_by", "system_fingerprint")  # of an exchange
_PLACES = {name: place for place, name in enumerate(_WAY)}


class Alike(NamedTuple):
    """Rollouts that were served alike: how many, and the ids of the first of them."""

    rollouts: int
    examples: tuple[str, ...]


_Ways: TypeAlias = list[tuple[Way, frozenset[Alike]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """One way in which calls of a rollout's main lane were served; None is unknown."""

    rollout_id: str
    upstream: str
    asked: str | None = None
    answered: str | None = None
    served_by: str | None = None
    system_fingerprint: str | None = None

    @property
    def way(self) -> Way:
        """All but the rollout."""
        return (
            self.upstream, self.asked, self.answered, self.served_by, self.system_fingerprint,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinding:
    """What a check finds of a batch and not of one rollout.

    ``rollouts`` of the ``of`` rollouts whose calls could be compared differ from the rest;
    ``examples`` are ids of such, at most ten.
    """

    check: str
    level: Level
    rollouts: int
    of: int
    examples: tuple[str, ...]
    sentence: str
    about: dict[str, object] = field(default_factory=dict)


def ways_of(answers: Iterable[Exchange]) -> list[Way]:
    """Return the ways in which some calls of a rollout were served, each once."""
    return list(tally(answers, *_WAY))


def servings_of(rollout_id: str, answers: Iterable[Exchange]) -> list[Serving]:
    """Return the same, with the rollout's id."""
    return [
        Serving(
            rollout_id=rollout_id,
            upstream=upstream or "",
            asked=asked,
            answered=answered,
            served_by=served_by,
            system_fingerprint=fingerprint,
        )
        for upstream, asked, answered, served_by, fingerprint in ways_of(answers)
    ]


def compare(servings: Iterable[Serving], *, declared: Collection[str] = ()) -> list[BatchFinding]:
    """Return what differs between the rollouts of a batch, the worst first.

    Arguments:
        servings: of the main lanes of all its rollouts, in any order.
        declared: models that registrations name as fallbacks of the one under test.
    """
    ways: dict[Way, set[Alike]] = {}
    for each in servings:
        ways.setdefault(each.way, set()).add(Alike(1, (each.rollout_id,)))
    return compare_ways(ways, declared=declared)


def compare_ways(
    ways: Mapping[Way, Collection[Alike]], *, declared: Collection[str] = ()
) -> list[BatchFinding]:
    """Return the same of rollouts by way: a batch of thousands has few ways.

    Arguments:
        ways: no rollout is in two of the groups of which each is served in all of these ways.
    """
    ordered = sorted(ways.items(), key=lambda pair: [fact or "" for fact in pair[0]])
    known = [(way, frozenset(rollouts)) for way, rollouts in ordered]
    found = [*_substituted(known, {canonical(name) for name in declared}), *_changed(known)]
    return sorted(found, key=lambda finding: finding.level is not Level.SUSPECT)


_ByName: TypeAlias = dict[str, set[Alike]]


def _counts(named: _ByName) -> Counter[str]:
    return Counter({name: _size(rollouts) for name, rollouts in sorted(named.items())})


def _all(named: _ByName, names: Iterable[str]) -> set[Alike]:
    return {rollouts for name in names for rollouts in named[name]}


def _size(groups: Iterable[Alike]) -> int:
    return sum(group.rollouts for group in groups)


def _examples(groups: Iterable[Alike]) -> tuple[str, ...]:
    return tuple(nsmallest(_LIMIT, (name for group in groups for name in group.examples)))


def _substituted(known: _Ways, declared: set[str | None]) -> Iterator[BatchFinding]:
    """Yield the names that another model answered to, or more than one."""
    lanes: dict[tuple[str, str], _ByName] = {}
    for (upstream, asked, answered, *_), rollouts in known:
        if asked is not None and answered is not None:
            lanes.setdefault((upstream or "", asked), {}).setdefault(answered, set()).update(
                rollouts
            )
    for (upstream, asked), named in lanes.items():
        served = Served(upstream=upstream, asked=asked, answered=_counts(named))
        level = model_substituted.level_of(served, declared, main=True)
        if level is not None:
            yield _substitution(served, level, named)


def _substitution(served: Served, level: Level, named: _ByName) -> BatchFinding:
    strange = set(served.strange)
    concerned = _all(named, strange)
    of = _size(_all(named, named))
    models = served.models
    who = f"{', '.join(distinct(strange))} answered"
    if len(models) > 1:
        who = f"{' and '.join(models)} answered, {', '.join(distinct(strange))}"
    return BatchFinding(
        check=model_substituted.MODEL_SUBSTITUTED,
        level=level,
        rollouts=_size(concerned),
        of=of,
        examples=_examples(concerned),
        sentence=f"{served.asked} was asked for; {who} in {_size(concerned):,} of "
        f"{plural(of, 'rollout')}",
        about={"asked": served.asked, "answered": models},
    )


def _changed(known: _Ways) -> Iterator[BatchFinding]:
    """Yield the models behind which the provider or the engine differs between rollouts."""
    for field_, what in serving_changed.FIELDS.items():
        lanes: dict[tuple[str | None, str | None], _ByName] = {}
        for way, rollouts in known:
            value = way[_PLACES[field_]]
            if value is not None:
                lane = (way[0], canonical(way[1]))
                lanes.setdefault(lane, {}).setdefault(value, set()).update(rollouts)
        for (_, model), named in lanes.items():
            if len(named) > 1:
                yield _change(field_, what, model, named)


def _change(field_: str, what: str, model: str | None, named: _ByName) -> BatchFinding:
    usual = _counts(named).most_common(1)[0][0]
    others = _all(named, named.keys() - {usual})
    of = _size(_all(named, named))
    return BatchFinding(
        check=serving_changed.SERVING_CHANGED,
        level=Level.INFO,
        rollouts=_size(others),
        of=of,
        examples=_examples(others),
        sentence=f"{model or 'one model'} was served by {plural(len(named), what)} over "
        f"{plural(of, 'rollout')}, by another than the usual in {_size(others):,}",
        about={"model": model, field_: sorted(named)[:_LIMIT]},
    )
