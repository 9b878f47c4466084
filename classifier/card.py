"""The measurement card of a batch: what its score stands on, computed from its export alone.

Clock, host and path have no part in it: another machine makes the same card of the same export.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from classifier import batches, codec
from classifier.__main__ import records_of
from classifier.batch_summary import Check, Excused, NamedSlots, check_of
from classifier.batches import Entry, Scores, TaskRepeat
from classifier.canonical_json import canonical_json, digest_of, record_digest, rounded, split
from classifier.records import Exchange, Kind, RolloutRecord
from classifier.results import result
from classifier.rules import judge
from classifier.statistics import Exclusion, exclusion
from classifier.totals import sum_known
from classifier.validity.serving import ServingGroup, Way, compare_ways
from classifier.verdicts import EVIDENCE, Policy

T = TypeVar("T")
CARD = "urn:truezero:measurement-card:v1"
SELF_REPORTED = "self-reported"
PROVIDER_REQUEST_IDS = "provider request ids"
GONE = ("calls", "leaves")  # of the roots: 0.2's Merkle root; null for one release
_INFERENCE = (Kind.INFERENCE, Kind.CONTINUATION)
# What a card cannot show, in words: it is printed with every card.
DOES_NOT_PROVE = (
    "that the batch is all that was run: other batches may have been left unpublished",
    "that the provider ran the model that it names; the card says which name it answered with",
    "that the rewards are right: the runner reported them, and the card counts them",
    "that the calls took place: only the provider can confirm them, by their request ids",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The facts on a card that its export does not hold: whoever makes the card states them.

    ``origins`` are the hosts behind the upstreams' names. ``harness`` is the name and version of
    what ran the agents, if anybody named it. ``policy`` holds for rollouts whose batch sets none.
    """

    batch: str
    truezero: str
    classifier: str
    policy: Policy = EVIDENCE
    origins: Mapping[str, str] = field(default_factory=dict)
    harness: str | None = None

    def encode(self) -> codec.Json:
        """Encode it as it stands on the card."""
        return {
            "batch": self.batch,
            "truezero": self.truezero,
            "classifier": self.classifier,
            "harness": self.harness,
            "origins": dict(self.origins),
            "policy": {name: getattr(self.policy, name) for name in _POLICY},
        }

    @classmethod
    def decode(cls, source: Mapping[str, Any]) -> Stated:
        """Decode what stands on a card.

        Raises:
            ValueError: something of it is missing or of another type.
        """
        try:
            policy = {name: source["policy"][name] for name in _POLICY}
            origins = {str(name): str(host) for name, host in source["origins"].items()}
            return cls(
                batch=source["batch"], truezero=source["truezero"],
                classifier=source["classifier"], harness=source["harness"], origins=origins,
                policy=Policy(**policy),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"stated: {error} is missing or wrong") from None


# What of a policy decides which rewards count.
_POLICY = ("name", "agents", "validity", "max_steps", "budget", "content_filter", "stall_s")


class _CardRollout(NamedTuple):
    """The part of a judged rollout that a card counts."""

    began_at: float
    entry: Entry
    attributed_to: str | None
    findings: tuple[tuple[str, str], ...]  # check and level
    servings: tuple[Way, ...]
    fallbacks: tuple[str, ...]
    agents: str
    references: tuple[tuple[str, str], ...]  # series of reference calls, and how each compares
    tokens_unknown_calls: int
    cost_unknown_calls: int
    reward_range: tuple[float, float] | None


class CardMaker:
    """Makes a batch's card of its export, one rollout after another."""

    def __init__(self, stated: Stated) -> None:
        self._stated = stated
        self._digests = bytearray()  # one after another: of each record 32 bytes, and no object
        self._judged: list[_CardRollout] = []
        self._ways = _Ways()
        self._shared: dict[Any, Any] = {}  # of texts that rollouts have in common, one each

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add the records of whole rollouts.

        Raises:
            ValueError: a record cannot be read or has no canonical form.
        """
        self._digests += b"".join(map(record_digest, records))
        for rollout in records_of(records):
            self._judged.append(self._slim(_card_rollout(rollout, self._stated.policy)))
            for exchange in rollout.exchanges:
                if exchange.kind in _INFERENCE and not exchange.injected:
                    self._ways.add(exchange)

    def _slim(self, judged: _CardRollout) -> _CardRollout:
        entry = judged.entry
        return judged._replace(
            entry=entry._replace(
                task=self._once(entry.task),
                fingerprint=self._once(entry.fingerprint),
                lane=self._once(entry.lane),
            ),
            findings=self._once(judged.findings),
            servings=self._once(judged.servings),
            agents=self._once(judged.agents),
        )

    def _once(self, value: T) -> T:
        kept: T = self._shared.setdefault(value, value)
        return kept

    def card(self) -> dict[str, Any]:
        """Return the card of what was added."""
        judged = sorted(self._judged, key=lambda each: (each.began_at, each.entry.rollout_id))
        slots = batches.task_repeats(each.entry for each in judged)
        ranges = (each.reward_range for each in judged if each.reward_range is not None)
        scores = batches.scores(slots, reward_range=next(ranges, None))
        repeats = (batches.repeat_of(slot) for slot in slots)
        found = exclusion(repeat for repeat in repeats if repeat is not None)
        check = _check(judged, slots, found)
        measured = {
            "score": _score(scores),
            "zeros": _zeros(slots, judged),
            "exclusion": {"bias": found.bias, "p": found.p, "fisher_p": found.fisher_p},
            "retried_after_score": list(scores.retried_after_score),
            "valid": check.valid,
            "problems": {"total": check.total, "first": list(check.lines[:_PROBLEMS])},
            "validity": _validity(judged),
            "agents": _tally(each.agents for each in judged),
            "references": _references(judged),
            "calls": self._ways.encode(self._stated.origins),
            "tokens": _sums(
                judged,
                ("input_tokens", "output_tokens", "total_tokens"),
                sum(each.tokens_unknown_calls for each in judged),
            ),
            "cost": _sums(judged, ("cost_usd",), sum(each.cost_unknown_calls for each in judged)),
        }
        request_ids = self._ways.request_ids
        roots = {
            "export": digest_of(split(self._digests)),
            **dict.fromkeys(GONE),
            "request_ids": request_ids,
            "provenance": PROVIDER_REQUEST_IDS if request_ids else SELF_REPORTED,
        }
        card: dict[str, Any] = rounded(
            {
                "type": CARD,
                "stated": {**self._stated.encode(), "origins": self._ways.origins(self._stated)},
                "measured": measured,
                "roots": roots,
                "does_not_prove": list(DOES_NOT_PROVE),
            }
        )
        return card


def card_of(export: Iterable[Mapping[str, Any]], stated: Stated) -> dict[str, Any]:
    """Make the card of a batch, reading its export once.

    Arguments:
        export: the records of the batch's export, those of one rollout together.

    Raises:
        ValueError: a record cannot be read or has no canonical form, or those of a rollout are
            not together.
    """
    maker = CardMaker(stated)
    for records in _by_rollout(export):
        maker.add(records)
    return maker.card()


def card_bytes(card: Mapping[str, Any]) -> bytes:
    """Return a card's canonical bytes: those that are written and compared."""
    return canonical_json(card)


# --- what is counted ---


def _by_rollout(export: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the records of an export's rollouts, those of each together."""
    ended: set[str] = set()
    for owner, group in groupby(export, key=lambda r: r.get("rollout_id") or r.get("id")):
        if owner in ended:
            raise ValueError(f"records of rollout {owner!r} are not together")
        ended.add(str(owner))
        yield list(group)


def _card_rollout(rollout: RolloutRecord, policy: Policy) -> _CardRollout:
    """Judge a rollout; its reward is what was reported, also if it does not count."""
    verdict, outcome = judge(rollout, policy=policy), rollout.outcome
    reported = None if outcome is None else batches.reward_in(outcome.rewards, outcome.eval)
    entry = Entry.of(result(rollout, verdict))
    return _CardRollout(
        rollout.began_at or 0.0,
        entry._replace(reward=reported, lane=verdict.lane),
        verdict.attributed_to and verdict.attributed_to.value,
        tuple((finding.check, finding.level.value) for finding in verdict.validity),
        verdict.servings,
        rollout.fallbacks,
        rollout.agents or policy.agents,
        tuple((each.series, each.result.value) for each in verdict.references if each.result),
        verdict.tokens_unknown_calls or 0,
        verdict.cost_unknown_calls or 0,
        None
        if rollout.reward_range is None
        else (rollout.reward_range[0], rollout.reward_range[1]),
    )


def _check(judged: Sequence[_CardRollout], slots: Sequence[TaskRepeat], found: Exclusion) -> Check:
    lines = [line for slot in slots for line in batches.problems(slot.counted, slot.name)]
    lines += [batches.picked(slot.name) for slot in slots if batches.scored_before(slot)]
    ways: dict[Way, set[ServingGroup]] = {}
    for each in judged:
        for way in each.servings:
            ways.setdefault(way, set()).add(ServingGroup(1, (each.entry.rollout_id,)))
    declared = [name for each in judged for name in each.fallbacks]
    return check_of(
        lines,
        _counted(slots),
        found,
        compare_ways(ways, declared=declared),
        excused=Excused(sum(map(batches.excused, slots)), len(slots)),
        unearned=sum(bool(each.entry.unearned) for each in judged),
    )


_PROBLEMS = 20  # of thousands, these are named


def _counted(slots: Iterable[TaskRepeat]) -> dict[str, NamedSlots]:
    """Name what counts in spite of a finding, by the finding's level."""
    names: dict[str, list[str]] = {}
    for slot in slots:
        if (level := batches.counted_with(slot)) is not None:
            names.setdefault(level, []).append(batches.counted_check(slot.counted))
    return {level: NamedSlots(checks, len(checks)) for level, checks in names.items()}


def _zeros(slots: Sequence[TaskRepeat], judged: Iterable[_CardRollout]) -> dict[str, Any]:
    zeros = batches.reported_zeros(slots)
    whose = {each.entry.rollout_id: each.attributed_to for each in judged}
    return {
        "reported": zeros.reported,
        "not_measured": len(zeros.not_measured),
        "by_cause": zeros.by_cause,
        "by_whom": _tally(whose[entry.rollout_id] or "unknown" for entry in zeros.not_measured),
    }


def _score(scores: Scores) -> dict[str, Any]:
    return {
        "repeats": scores.total,
        "measured": scores.scored,
        "coverage": scores.coverage,
        "score": scores.score_effective,
        "interval": scores.score_ci,
        "least": scores.score_worst,
        "most": scores.score_best,
        "failures_as_0": scores.score_all,
        "first_attempts": scores.score_first,
    }


def _tally(values: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(value for value in values if value is not None).items()))


def _validity(judged: Iterable[_CardRollout]) -> dict[str, dict[str, int]]:
    """Count rollouts by check and level."""
    found: dict[str, Counter[str]] = {}
    for each in judged:
        for check, level in each.findings:
            found.setdefault(check, Counter())[level] += 1
    return {check: dict(levels) for check, levels in found.items()}


def _references(judged: Iterable[_CardRollout]) -> dict[str, int]:
    """Count series of reference calls by how failures compare with them; shared ones once each."""
    return _tally(result for _, result in {pair for each in judged for pair in each.references})


class _Ways:
    """Counts calls by who was asked, who answered and who served."""

    def __init__(self) -> None:
        self.request_ids = 0
        self._calls: Counter[tuple[str, ...]] = Counter()
        self._failed: Counter[tuple[str, ...]] = Counter()
        self._began: list[float] = []
        self._ended: list[float] = []

    def add(self, exchange: Exchange) -> None:
        """Count a call."""
        names = (exchange.model, exchange.answered_model, exchange.served_by)
        way = (exchange.upstream, *(name or "" for name in names))
        self._calls[way] += 1
        self._failed[way] += exchange.failed
        self.request_ids += exchange.provider_request_id is not None
        began = exchange.timing.started_at
        self._began = [min((*self._began, began))]
        self._ended = [max((*self._ended, began + (exchange.timing.duration_s or 0)))]

    def origins(self, stated: Stated) -> dict[str, str]:
        """Return the hosts of the upstreams that were called; others are nobody's business."""
        called = {upstream for upstream, *_ in self._calls}
        return {name: host for name, host in stated.origins.items() if name in called}

    def encode(self, origins: Mapping[str, str]) -> dict[str, Any]:
        """Return the counts, the times of the first and the last call among them."""
        return {
            "total": self._calls.total(),
            "failed": self._failed.total(),
            "first_at": next(iter(self._began), None),
            "last_at": next(iter(self._ended), None),
            "by_model": [
                {
                    "upstream": upstream,
                    "origin": origins.get(upstream),
                    "asked": asked or None,
                    "answered": answered or None,
                    "served_by": served_by or None,
                    "calls": calls,
                    "failed": self._failed[upstream, asked, answered, served_by],
                }
                for (upstream, asked, answered, served_by), calls in sorted(self._calls.items())
            ],
        }


def _sums(
    judged: Sequence[_CardRollout], names: Sequence[str], unknown_calls: int
) -> dict[str, Any]:
    """Sum up what is known, beside the number of calls of which it is not."""
    sums: dict[str, Any] = {}
    for name in names:
        sums[name] = sum_known(getattr(each.entry, name) for each in judged)
        sums[f"{name}_unknown"] = unknown_calls
    return sums


# --- verification --------------------------------------------------------------------------------


def differences(card: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """Name what differs between a card and the card made again of its export.

    Returns:
        Lines such as ``measured.score.score: 0.7 on the card, 0.634 by the export``; none if both
        are equal.
    """
    return list(_differences("", card, again))


def _differences(place: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            yield from _differences(
                f"{place}.{key}" if place else str(key), one.get(key, _ABSENT),
                other.get(key, _ABSENT),
            )  # fmt: skip
    elif _ABSENT in (one, other) or canonical_json(one) != canonical_json(other):
        yield f"{place}: {_shown(one)} on the card, {_shown(other)} by the export"


class _Absent:
    """A key that is not there; null may be."""


_ABSENT = _Absent()


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = canonical_json(value).decode(errors="replace")
    return text if len(text) <= 60 else f"{text[:57]}..."
