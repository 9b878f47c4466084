"""A batch as its export has it: rollouts with what they count, calls, and the card's digest."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from classifier.__main__ import records_of
from classifier.batches import Entry
from classifier.canonical_json import digest_of, record_digest, split
from classifier.codec import CodecError, Json, decode_diagnostics
from classifier.diagnostics import result_fields
from classifier.records import Kind, RolloutRecord
from classifier.repeat_counts import CountedRollout
from classifier.results import result
from classifier.rules import judge
from classifier.score_keys import ReportedScore, reported_score
from classifier.totals import tokens_known, using_tokens
from classifier.validity.serving import read_servings, servings_text
from classifier.verdicts import EVIDENCE, Health, Policy, Verdict
from classifier.whole_batch import PlannedRepeat, RegisteredModels, WholeBatch, whole_batch

COUNTED = "counted"  # the key of a rollout's record under which it says what it counts
REPEATS = "repeats"  # likewise, how many repeats its task is to have
_VERSION = "classifier"  # the version of the rules that judged it
_TO_MODELS = (Kind.INFERENCE, Kind.CONTINUATION)
_PLACED = ("rollout_id", "task", "repeat", "attempt")  # stand in the record itself
_DIAGNOSTICS = "diagnostics"
# The facts that a verdict made again of the calls has to have as well. Not the cost: prices change.
_DECIDING = (
    "health", "subcategory", "scoreable", "provisional", "reward", "validity", "input_tokens",
    "output_tokens", "total_tokens", "summed_calls", "tokens_known_calls",
)  # fmt: skip


# --- one rollout, as it counts -----------------------------------------------------------------


def encode_counted(rollout: CountedRollout, *, version: str | None) -> Json:
    """Encode what a rollout counts, without what is unknown.

    Arguments:
        version: of the rules that judged it; None if it is not judged.
    """
    entry = rollout.entry
    if entry.health is None:
        entry = entry._replace(scoreable="unknown", provisional=True)
    found = result_fields(entry.diagnostics)
    facts = {
        **{name: getattr(entry, name) for name in _facts(Entry)},
        **{name: getattr(rollout, name) for name in _facts(CountedRollout)},
        _DIAGNOSTICS: {name: fields for name, fields in found.items() if fields} or None,
        _VERSION: version,
    }
    flags = {name: bool(facts[name]) for name in _flags() if facts[name] is not None}
    return {name: value for name, value in (facts | flags).items() if value is not None}


@cache
def _flags() -> Sequence[str]:
    """Return the facts that are true or false; SQLite has numbers for them."""
    facts = {**_facts(Entry), **_facts(CountedRollout)}
    return [name for name, kinds in facts.items() if bool in kinds]


def decode_counted(rollout: RolloutRecord, source: Mapping[str, object]) -> CountedRollout:
    """Decode what a rollout counts.

    Raises:
        CodecError: a fact is missing or of another type.
    """
    placed = (rollout.id, rollout.task, rollout.repeat, rollout.attempt)
    facts = {name: _fact(source, name, kinds) for name, kinds in _facts(Entry).items()}
    diagnostics = decode_diagnostics(_object(source, _DIAGNOSTICS, {}))
    entry = Entry(*placed, **facts, diagnostics=diagnostics)
    if entry.health is not None and entry.reward is None:
        entry = entry._replace(unnamed=_reported(rollout).unnamed)
    own = {name: _fact(source, name, kinds) for name, kinds in _facts(CountedRollout).items()}
    counted = CountedRollout(entry, **own)
    _check(counted)
    return counted


def _check(counted: CountedRollout) -> None:
    """Raise ``ValueError`` if a text is none that the service writes."""
    entry = counted.entry
    if entry.health is not None:
        Health(entry.health)
    if entry.scoreable not in ("yes", "no", "unknown"):
        raise CodecError(f"{COUNTED}.scoreable", "is none of yes, no, unknown")
    if entry.validity is not None and len(entry.validity.split()) < 2:
        raise CodecError(f"{COUNTED}.validity", "names no check")
    if counted.servings is not None and not read_servings(counted.servings):
        raise CodecError(f"{COUNTED}.servings", "names no way of serving")


@cache
def _facts(kind: type) -> Mapping[str, Sequence[type]]:
    """Return the types of what is encoded of a tuple."""
    left_out = {*_PLACED, _DIAGNOSTICS, "unnamed", "entry"}
    hints = get_type_hints(kind).items()
    return {name: get_args(hint) or (hint,) for name, hint in hints if name not in left_out}


def _fact(source: Mapping[str, object], name: str, kinds: Sequence[type]) -> Any:
    value = source.get(name)
    if type(value) in kinds or (type(value) is int and float in kinds):
        return value
    names = " nor ".join("null" if each is NoneType else each.__name__ for each in kinds)
    raise CodecError(f"{COUNTED}.{name}", f"is not {names}")


def _object(source: Mapping[str, object], name: str, default: object = None) -> Json:
    value = source.get(name, default)
    if not isinstance(value, dict):
        raise CodecError(f"{COUNTED}.{name}", "is not an object")
    return value


def _reported(rollout: RolloutRecord) -> ReportedScore:
    """Return the score that a rollout's runner reported, also if it does not count."""
    outcome = rollout.outcome
    if outcome is None:
        return ReportedScore()
    return reported_score(outcome.rewards, outcome.eval, rollout.score_key)


def counted_by(rollout: RolloutRecord, verdict: Verdict) -> CountedRollout:
    """Return what a rollout counts by a verdict; its reward is what was reported."""
    reported, calls = _reported(rollout), using_tokens(rollout.exchanges)
    entry = Entry.of(result(rollout, verdict))._replace(
        reward=reported.score,
        unnamed=reported.unnamed,
        lane=verdict.lane,
        summed_calls=len(calls),
        tokens_known_calls=sum(map(tokens_known, calls)),
        cost_known_calls=sum(x.usage.cost_usd is not None for x in calls),
        lost_s=verdict.lost_s,
        held_s=verdict.held_s,
    )
    return CountedRollout(
        entry,
        at=rollout.began_at or 0.0,
        skipped=rollout.skipped is not None,
        retry=verdict.retry.eligible,
        servings=servings_text(verdict.servings),
        fallbacks="\n".join(rollout.fallbacks) or None,
        transient=verdict.transient,
        cause=None if verdict.health is Health.HEALTHY else verdict.cause,
    )


# --- all of them -------------------------------------------------------------------------------


class Changed(NamedTuple):
    """A verdict that these rules do not give to the calls that the export has."""

    rollout_id: str
    facts: str  # how they differ
    version: str | None  # of the rules that gave it


@dataclass(slots=True, kw_only=True)
class ExportedBatch:
    """The rollouts of a batch, taken from its export one after another.

    Arguments:
        policy: judges rollouts of which the export does not say what they count, as one of 0.2.
        judged_anew: judge the others as well, and note in ``changed`` what differs.
    """

    policy: Policy = EVIDENCE
    judged_anew: bool = False
    rollouts: list[CountedRollout] = field(default_factory=list)
    registered: Counter[RegisteredModels] = field(default_factory=Counter)
    planned: list[PlannedRepeat] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    reward_range: tuple[float, float] | None = None
    score_key: str | None = None
    calls: int = 0
    request_ids: int = 0
    _digests: bytearray = field(default_factory=bytearray)  # of each record 32 bytes, no object

    @classmethod
    def of(
        cls,
        export: Iterable[Mapping[str, Any]],
        policy: Policy = EVIDENCE,
        *,
        judged_anew: bool = False,
    ) -> ExportedBatch:
        """Read an export.

        Arguments:
            export: its records, those of one rollout together.

        Raises:
            ValueError: a record cannot be read or has no canonical form, or those of a rollout
                are not together.
        """
        batch = cls(policy=policy, judged_anew=judged_anew)
        for records in _by_rollout(export):
            batch.add(records)
        return batch

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Add the records of whole rollouts.

        Raises:
            ValueError: a record cannot be read or has no canonical form.
        """
        self._digests += b"".join(map(record_digest, records))
        said = {each.get("id"): each for each in records if each.get("record") == "rollout"}
        for rollout in records_of(records):
            own = said.get(rollout.id, {})
            task, repeat, repeats = rollout.task, rollout.repeat, own.get(REPEATS)
            if task is not None and repeat is not None and isinstance(repeats, int):
                self.planned.append(PlannedRepeat(task, repeat, repeats))
            self._add(rollout, own.get(COUNTED))

    def _add(self, rollout: RolloutRecord, said: object) -> None:
        self.registered[RegisteredModels(rollout.model, rollout.fallbacks, rollout.agents)] += 1
        if rollout.reward_range is not None:
            self.reward_range = rollout.reward_range[0], rollout.reward_range[1]
        self.score_key = self.score_key or rollout.score_key
        calls = [x for x in rollout.exchanges if x.kind in _TO_MODELS and not x.injected]
        self.calls += len(calls)
        self.request_ids += sum(x.provider_request_id is not None for x in calls)
        if said is None:
            self.rollouts.append(counted_by(rollout, judge(rollout, policy=self.policy)))
            return
        source = _object({COUNTED: said}, COUNTED)
        counted = decode_counted(rollout, source)
        self.rollouts.append(counted)
        if self.judged_anew:
            self._judge_anew(rollout, counted, source.get(_VERSION))

    def _judge_anew(self, rollout: RolloutRecord, counted: CountedRollout, version: object) -> None:
        verdict = judge(rollout, policy=self.policy)
        given, anew = counted.entry, counted_by(rollout, verdict).entry
        if given.provisional and anew.provisional:
            return
        facts = [
            f"{name} {_shown(one)} in the export, {_shown(other)} by its calls"
            for name in _DECIDING
            if (one := getattr(given, name)) != (other := getattr(anew, name))
        ]
        if facts:
            by = str(version) if version != verdict.classifier else None
            self.changed.append(Changed(rollout.id, "; ".join(facts), by))

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the export, in hex: of its records, in whatever order they come."""
        return digest_of(split(self._digests))

    @property
    def began(self) -> tuple[float, float] | None:
        """The epoch seconds at which the first and the last rollout began; None without any."""
        began = [each.at for each in self.rollouts]
        return (min(began), max(began)) if began else None

    def whole(self) -> WholeBatch:
        """Count all rollouts."""
        return whole_batch(self.rollouts, self.planned)


def _shown(value: object) -> str:
    return json.dumps(value)


def _by_rollout(export: Iterable[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the records of an export's rollouts, those of each together."""
    ended: set[str] = set()
    for owner, group in groupby(export, key=lambda r: r.get("rollout_id") or r.get("id")):
        if owner in ended:
            raise ValueError(f"records of rollout {owner!r} are not together")
        ended.add(str(owner))
        yield list(group)
