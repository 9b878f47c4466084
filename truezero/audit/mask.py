"""The mask for traces that others keep: which of their rollouts are measurements, with the reason.

truezero keeps no tokens. A gateway, a harness or a trainer keeps them, and does not know which of
its rollouts met a failing engine. `mask` joins its records with what was recorded on the wire and
sets the mask, the valid flag or the reward that the records have themselves::

    records = [json.loads(line) for line in open("trace.jsonl")]
    with truezero.Client() as client:
        masked = mask(records, fetch(client, "step-12", records))
    rows, again = masked.records, masked.resample

A call is joined by the id of its answer, else by its place in its rollout, its model and its sizes:
Harbor and verifiers keep no ids, nor does rLLM's gateway of a stream. What cannot be joined, and
what is not judged yet, stays unknown: its records keep what they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from truezero import Client, models
from truezero.audit.formats import traces_of
from truezero.audit.runs import RecordedCall
from truezero.audit.trace_format import Record, TraceFormat
from truezero.audit.values import total
from truezero.integrations.attempts import failure_kind, no_measurement, undecided
from truezero.models import LONGEST_RESPONSE_ID
from truezero.printable import plural

UNATTRIBUTED = "unattributed"
"""The rollout of calls that named none; many traces may share it."""

CLOCK_S = 2.0
"""Seconds that the clock of a gateway may differ from the service's."""

_JSON_FORMAT = "truezero.trace_verdicts/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireVerdicts:
    """The facts of the wire that a mask needs, as REST has them.

    ``verdicts`` and ``calls`` (oldest first) by truezero's rollout id. ``digests`` are those of
    the records' response ids, which only the service can make. ``shared`` are rollouts under which
    the calls of many traces came: their own verdict says nothing of one of them.
    """

    verdicts: Mapping[str, Record] = field(default_factory=dict)
    calls: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    shared: Collection[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return them as JSON, to mask with where no service is."""
        return {"format": _JSON_FORMAT, **asdict(self), "shared": sorted(self.shared)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> WireVerdicts:
        """Read what `to_json` returned.

        Raises:
            ValueError: it is something else.
        """
        if stored.get("format") != _JSON_FORMAT:
            raise ValueError(f"its format is not {_JSON_FORMAT}")
        fields = ("verdicts", "calls", "digests", "shared")
        return cls(**{name: stored[name] for name in fields})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The facts of the wire about one rollout of a trace.

    ``measured`` is None if it cannot tell. ``kind`` names the failure (`rate_limit`), None
    without one. ``rollout`` is the trace's name of it, ``truezero`` that of the service.
    ``by`` is "verdict", or "calls" where no verdict is on this rollout alone. ``joined`` counts
    calls found in both, ``missing`` are ids of exchanges that the trace lacks, by why: `retry`,
    `side`; ``unseen`` counts calls of the trace that the wire lacks, ``unjoined`` those that
    cannot be looked for. ``retries`` are those that the trace counts. ``endings`` counts how an
    engine ended calls without their answer: `aborted`; `unavailable` while it drained, was paused,
    loaded or was full; `cut` in the middle.
    """

    rollout: str | None
    truezero: str | None
    measured: bool | None
    reason: str
    kind: str | None = None
    by: str | None = None
    resample: bool = False
    joined: int = 0
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unseen: int = 0
    unjoined: int = 0
    retries: int | None = None
    weight_versions: tuple[str, ...] = ()
    system_fingerprints: tuple[str, ...] = ()
    endings: Mapping[str, int] = field(default_factory=dict)

    @property
    def spans_versions(self) -> bool:
        """True if more than one version of the weights answered its calls."""
        return len(self.weight_versions) > 1

    def note(self) -> dict[str, Any]:
        """Return what a record says of its rollout; without what is empty."""
        facts = asdict(self) | {"spans_versions": self.spans_versions}
        always = ("measured", "reason", "kind", "resample")
        return {name: value for name, value in facts.items() if name in always or value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The records with their mask, in their order, and what was found of each rollout.

    ``absent`` are rollouts of the wire of which there is no trace; ``shared_missing`` exchanges of
    shared rollouts that no trace has, by why.
    """

    format: str
    records: list[dict[str, Any]]
    traces: list[Trace]
    absent: list[Trace] = field(default_factory=list)
    shared_missing: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def resample(self) -> list[str]:
        """Names of the rollouts that were not measured and are advised to be run again.

        Those of which there is no trace have truezero's.
        """
        again = [each for each in (*self.traces, *self.absent) if each.resample]
        return [name for each in again if (name := each.rollout or each.truezero)]

    @property
    def kept(self) -> list[dict[str, Any]]:
        """The records without those of rollouts that were not measured."""
        form = traces_of(self.records)
        lost = {each.rollout for each in self.traces if each.measured is False}
        named = [(each, form.rollouts(each)) for each in self.records]
        return [each for each, names in named if not names or not lost.issuperset(names)]


def response_ids(records: Sequence[Record]) -> list[str]:
    """Return the response ids that records name, each once: the service has digests for them."""
    form = traces_of(records)
    rollouts = (calls for record in records for calls in form.rollouts(record).values())
    named = dict.fromkeys(call.response_id for calls in rollouts for call in calls)
    return [each for each in named if each and _can_be_sent(each)]


def _can_be_sent(response_id: str) -> bool:
    """Return True unless the service would refuse it: it is too long, or no text."""
    try:
        response_id.encode()
    except UnicodeEncodeError:
        return False
    return len(response_id) <= LONGEST_RESPONSE_ID


def fetch(
    client: Client, batch: str, records: Sequence[Record], *, shared: Collection[str] = ()
) -> WireVerdicts:
    """Return what a service recorded of a batch: its verdicts and its calls.

    Arguments:
        records: to be masked; the service makes the digests of their response ids.
        shared: rollouts, of this batch or of none, under which the calls of many traces came.

    Raises:
        ServiceError: the service is unreachable, or refuses.
        ValueError: the records are of no known format, or of several.
    """
    in_batch = [item.id for item in client.iter_rollouts(batch=batch)]
    ids = dict.fromkeys((*in_batch, *shared))
    return WireVerdicts(
        digests=client.digests(response_ids(records)),
        shared=shared,
        verdicts={
            name: client.verdict(name).model_dump(mode="json") for name in ids if name not in shared
        },
        calls={
            name: [call.model_dump(mode="json") for call in client.exchanges(name)] for name in ids
        },
    )


def mask(
    records: Sequence[Record], verdicts: WireVerdicts, *, rollouts: Mapping[str, str] | None = None
) -> Masked:
    """Set the mask of each record by what was seen on the wire.

    Arguments:
        records: as their package hands them out, all of one format.
        rollouts: the trace's name of a rollout → truezero's, where they differ and no answer's
            id joins them.

    Raises:
        ValueError: the records are of no known format, or of several.
    """
    form, wire = traces_of(records), _Wire(verdicts)
    calls = _by_rollout(form, records)
    joins = [_joined(name, of_it, wire, rollouts or {}) for name, of_it in calls.items()]
    unclaimed = _unclaimed(joins, wire)
    traces = [_judged(join, wire, unclaimed) for join in joins]
    notes = {trace.rollout: trace.note() for trace in traces}
    known = {*wire.shared, *(trace.truezero for trace in traces)}
    absent = [_Join(rollout=None, wire=name) for name in wire.verdicts if name not in known]
    return Masked(
        format=form.title,
        records=[form.mask(record, notes) for record in records],
        traces=traces,
        absent=[_judged(join, wire, ()) for join in absent],
        shared_missing=_missing(wire.shared_calls, [x for join in joins for x in join.exchanges]),
    )


def summary(masked: Masked) -> list[str]:
    """Return what was found, in sentences: counts first, then each rollout that is not measured."""
    counts = Counter(each.measured for each in masked.traces)
    joined = sum(each.joined for each in masked.traces)
    missing = Counter[str]()
    for lacking in (*(each.missing for each in masked.traces), masked.shared_missing):
        missing.update({why: len(ids) for why, ids in lacking.items()})
    unseen = sum(each.unseen for each in masked.traces)
    unjoined = sum(each.unjoined for each in masked.traces)
    rollouts = f"{plural(len(masked.traces), 'rollout')} of {masked.format}"
    retries = plural(missing["retry"], "retry", "retries")
    sides = plural(missing["side"], "side call")
    lines = [
        f"{rollouts}: {counts[True]} measured, {counts[False]} masked, {counts[None]} unknown",
        f"{plural(joined, 'call')} joined; the trace lacks {retries} and {sides} of the wire",
    ]
    if unseen:
        lines.append(f"{plural(unseen, 'call')} of the trace did not pass truezero")
    if unjoined:
        lines.append(f"{plural(unjoined, 'call')} of the trace cannot be looked for on the wire")
    for trace in (*masked.traces, *masked.absent):
        name = trace.rollout or trace.truezero or "a rollout without a name"
        if trace.measured is not True:
            state = "unknown" if trace.measured is None else "masked"
            again = "; resample it" if trace.resample else ""
            lines.append(f"{name}: {state}: {trace.reason}{again}")
        if trace.spans_versions:
            lines.append(f"{name}: spans weight versions {', '.join(trace.weight_versions)}")
    if masked.absent:
        lines.append(f"the trace lacks {plural(len(masked.absent), 'rollout')} of the wire")
    return lines


# --- joining -----------------------------------------------------------------------------------


class _Wire:
    """The calls of the wire, found by the digest of their answer's id."""

    def __init__(self, wire: WireVerdicts) -> None:
        self.verdicts, self.calls, self.digests = wire.verdicts, wire.calls, wire.digests
        self.shared = tuple(dict.fromkeys((*wire.shared, UNATTRIBUTED)))
        self.shared_calls = [call for name in self.shared for call in self.calls.get(name, ())]
        failed = (call for call in self.shared_calls if call.get("subcategory") is not None)
        self.shared_failures = sorted(failed, key=lambda call: call["started_at"])
        self._by_digest: dict[str, list[tuple[str, Record]]] = {}
        for rollout, calls in self.calls.items():
            for call in filter(_is_inference, calls):
                if (digest := call.get("response_digest")) is not None:
                    self._by_digest.setdefault(digest, []).append((rollout, call))

    def digest(self, call: RecordedCall) -> str | None:
        """Return the digest of a call's response id; None if the service was not asked for it."""
        return None if call.response_id is None else self.digests.get(call.response_id)

    def found(self, call: RecordedCall, within: str | None) -> tuple[str, Record] | None:
        """Return the one call of the wire with an answer's id, and its rollout.

        Arguments:
            within: the rollout that it is of, if that is known.
        """
        several = self._by_digest.get(self.digest(call) or "", ())
        own = [each for each in several if within in (None, each[0])]
        return own[0] if len(own) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Join:
    rollout: str | None
    wire: str | None  # its rollout there, if all calls under it are this trace's
    pairs: Sequence[tuple[RecordedCall, Record | None]] = ()

    @property
    def exchanges(self) -> list[Record]:
        return [exchange for _, exchange in self.pairs if exchange is not None]

    @property
    def alone(self) -> list[RecordedCall]:
        return [call for call, exchange in self.pairs if exchange is None]


def _by_rollout(
    form: TraceFormat, records: Iterable[Record]
) -> dict[str | None, list[RecordedCall]]:
    """Return the calls of each rollout, in their order."""
    traces: dict[str | None, list[RecordedCall]] = {}
    for record in records:
        for rollout, calls in form.rollouts(record).items():
            traces.setdefault(rollout, []).extend(calls)
    for calls in traces.values():  # spans come in any order
        if all(call.ended_at is not None for call in calls):
            calls.sort(key=lambda call: call.ended_at or 0.0)
    return traces


def _joined(
    name: str | None, calls: Sequence[RecordedCall], wire: _Wire, rollouts: Mapping[str, str]
) -> _Join:
    """Join the calls of one trace with those of the wire."""
    own = rollouts.get(name or "", name)
    own = own if own in wire.calls or own in wire.verdicts else None
    matches = [wire.found(call, own) for call in calls]
    if own is None:
        owners = {match[0] for match in matches if match is not None}.difference(wire.shared)
        own = owners.pop() if len(owners) == 1 else None
    pairs = [(call, match and match[1]) for call, match in zip(calls, matches, strict=True)]
    if own is None or own in wire.shared:
        return _Join(rollout=name, wire=None, pairs=pairs)
    return _Join(rollout=name, wire=own, pairs=_by_order(pairs, wire.calls.get(own, ()), wire))


def _by_order(
    pairs: Sequence[tuple[RecordedCall, Record | None]], exchanges: Sequence[Record], wire: _Wire
) -> list[tuple[RecordedCall, Record | None]]:
    """Join the rest by order, model and sizes: each with the next free call that is like it.

    A call goes behind the partner of the one before it, and before that of the one after it.
    """
    places = {exchange["id"]: place for place, exchange in enumerate(exchanges)}
    known = [None if partner is None else places.get(partner["id"]) for _, partner in pairs]
    joined, at = list(pairs), 0
    for number, (call, partner) in enumerate(pairs):
        place = known[number]
        if partner is None:
            end = min((p for p in known[number:] if p is not None), default=len(exchanges))
            free = (p for p in range(at, end) if p not in known)
            place = next((p for p in free if _alike(call, exchanges[p], wire)), None)
        if place is not None:
            joined[number], at = (call, exchanges[place]), max(at, place + 1)
    return joined


def _alike(call: RecordedCall, exchange: Record, wire: _Wire) -> bool:
    """Return True if both sizes are known and equal, and neither model nor id say otherwise."""
    if call.input_tokens is None or call.output_tokens is None or not _is_answer(exchange):
        return False
    if call.model and exchange.get("model") and not _same_model(call.model, exchange):
        return False
    digest, other = wire.digest(call), exchange.get("response_digest")
    if digest is not None and other is not None and digest != other:
        return False
    sent = (exchange.get("input_total"), exchange.get("input_tokens"))
    made = (exchange.get("output_total"), exchange.get("output_tokens"))
    return call.input_tokens in sent and call.output_tokens in made


def _same_model(model: str, exchange: Record) -> bool:
    """Return True if a trace names the model as it was asked or answered, a provider before it."""
    named = {exchange.get("model"), exchange.get("answered_model")}
    return model in named or model.rpartition("/")[2] in named


def _is_inference(exchange: Record) -> bool:
    return exchange.get("kind") in (None, "inference")


def _is_answer(exchange: Record) -> bool:
    return _is_inference(exchange) and exchange.get("subcategory") is None


def _missing(exchanges: Iterable[Record], taken: Iterable[Record]) -> dict[str, list[str]]:
    """Return the inference calls that no trace has: failed ones are `retry`, others `side`."""
    ids = {exchange["id"] for exchange in taken}
    missing: dict[str, list[str]] = {}
    for exchange in filter(_is_inference, exchanges):
        if exchange["id"] not in ids:
            why = "side" if exchange.get("subcategory") is None else "retry"
            missing.setdefault(why, []).append(exchange["id"])
    return missing


# --- judging -----------------------------------------------------------------------------------


def _judged(join: _Join, wire: _Wire, unclaimed: Sequence[Record]) -> Trace:
    """Say what the wire says of one trace."""
    exchanges = wire.calls.get(join.wire or "", ())
    seen = exchanges if join.wire is not None else join.exchanges
    failures = [] if join.wire is not None else _own_failures(join, wire)
    ended = {each["id"]: each for each in (*seen, *failures)}
    verdict = wire.verdicts.get(join.wire or "")
    found = (
        _by_calls(join, failures, unclaimed)
        if verdict is None
        else _by_verdict(models.Verdict.model_validate(verdict))
    )
    unseen = sum(wire.digest(call) is not None for call in join.alone)
    return Trace(
        rollout=join.rollout,
        truezero=join.wire,
        joined=len(join.exchanges),
        missing=_missing(exchanges, join.exchanges),
        unseen=unseen,
        unjoined=len(join.alone) - unseen,
        retries=total(call.retries for call, _ in join.pairs),
        weight_versions=_versions(seen, join),
        system_fingerprints=_distinct(each.get("system_fingerprint") for each in seen),
        endings=dict(Counter(filter(None, map(_engine_ending, ended.values())))),
        **found,
    )


def _found(
    by: str | None,
    measured: bool | None,
    reason: str,
    kind: str | None = None,
    *,
    resample: bool = False,
) -> dict[str, Any]:
    """Return the fields of a `Trace` that say what its rollout is."""
    return {
        "by": by, "measured": measured, "reason": reason, "kind": kind, "resample": resample,
    }  # fmt: skip


def _by_verdict(verdict: models.Verdict) -> dict[str, Any]:
    """Return what a rollout's own verdict says."""
    if verdict.provisional:
        return _found("verdict", None, "its verdict is not final yet")
    if verdict.scoreable == "yes":
        return _found("verdict", True, "its model was reached")
    kind, known = failure_kind(verdict), no_measurement(verdict) or undecided(verdict)
    reason = known or f"it is {verdict.health}"
    if verdict.scoreable != "no":
        return _found("verdict", None, reason, kind)
    return _found("verdict", False, reason, kind, resample=verdict.retry.eligible)


def _by_calls(
    join: _Join, failures: Sequence[Record], unclaimed: Sequence[Record]
) -> dict[str, Any]:
    """Judge a rollout whose calls came among those of others, by its calls alone.

    It is measured if the wire has each of its calls, the last was answered, and no later failure
    may be one that the trace lacks; it is not if the engine aborted an answer, or the last call
    failed and the wire shows that failure.
    """
    aborted = next((each for each in join.exchanges if _engine_ending(each) == "aborted"), None)
    if aborted is not None:
        reason = f"the engine aborted an answer (exchange {aborted['id']})"
        return _found("calls", False, reason, "engine_aborted", resample=True)
    if failures:
        last = failures[-1]
        status = "no answer" if last.get("status") is None else f"status {last['status']}"
        kind = last["subcategory"]
        reason = f"its last call failed: {kind}, {status} (exchange {last['id']})"
        if kind == "rejected_request":  # whose fault that is, a verdict has to say
            return _found(None, None, reason, kind)
        again = all(each.get("transient") for each in failures)
        return _found("calls", False, reason, kind, resample=again)
    if join.pairs and join.pairs[-1][0].error is not None:
        return _found(None, None, "its last call failed, and not on the wire")
    if not join.exchanges:
        return _found(None, None, "no call of it is known on the wire")
    alone = [call for call in join.alone if call.error is None]  # what failed was made good later
    if alone:
        return _found(None, None, f"{plural(len(alone), 'call')} of it cannot be found on the wire")
    ended = _ended(join)
    later = next((each for each in unclaimed if each["started_at"] >= ended - CLOCK_S), None)
    if later is not None:
        reason = f"a failed call that no trace has may be its own (exchange {later['id']})"
        return _found(None, None, reason)
    if all(each.get("answer_state") == "read" for each in filter(_is_answer, join.exchanges)):
        return _found("calls", True, "each of its calls was answered")
    return _found(None, None, "an answer to it could not be read")


def _own_failures(join: _Join, wire: _Wire) -> list[Record]:
    """Return the failures on shared rollouts that a trace ended in, oldest first.

    Those are its last call's partner, if that failed; else those with the status and the model
    of a last call that failed, which came while it ran (without a time there are none); and those
    that go on with the conversation of its last answer, which its gateway did not keep.
    """
    last, partner = join.pairs[-1] if join.pairs else (None, None)
    if partner is not None and not _is_answer(partner):
        return [partner]
    lost = None if last is None or partner is not None else last.error
    answered, ended = {each["id"] for each in join.exchanges}, _ended(join)
    return [
        each
        for each in wire.shared_failures
        if (each.get("continues") in answered and each["started_at"] >= ended - CLOCK_S)
        or (
            last is not None
            and lost is not None
            and lost.status in (None, each.get("status"))
            and _came_while(last, each)
        )
    ]


def _unclaimed(joins: Sequence[_Join], wire: _Wire) -> list[Record]:
    """Return the failures on shared rollouts that no trace has a call for, retries included."""
    claims = (x for join in joins for x in (*join.exchanges, *_own_failures(join, wire)))
    claimed = {each["id"] for each in claims}
    calls = [call for join in joins for call, _ in join.pairs]
    retried = [call for call in calls if call.error is not None or call.retries]
    return [
        each
        for each in wire.shared_failures
        if each["id"] not in claimed and not any(_came_while(call, each) for call in retried)
    ]


def _came_while(call: RecordedCall, exchange: Record) -> bool:
    """Return True if a call of the same model came while a trace's call ran."""
    if call.started_at is None or call.ended_at is None:
        return False
    began, ended = call.started_at - CLOCK_S, call.ended_at + CLOCK_S
    named = call.model is None or _same_model(call.model, exchange)
    return named and began <= exchange["started_at"] <= ended


def _ended(join: _Join) -> float:
    """Return when the last call of a trace ended that is on the wire, in seconds; 0 without one."""
    ends = (each["started_at"] + (each.get("duration_s") or 0.0) for each in join.exchanges)
    return max(ends, default=0.0)


def _engine_ending(exchange: Record) -> str | None:
    """Return how an engine ended a call without its answer; None if it did not.

    A finish reason `abort` is an engine's; a 503 has one that drains, is paused, loads or is full.
    """
    stated = (exchange.get("finish_reason") or "").casefold().rpartition(":")[2]
    if exchange.get("reason") == "aborted" or stated in ("abort", "aborted"):
        return "aborted"
    if exchange.get("ending") == "cut_upstream":
        return "cut"
    if exchange.get("subcategory") == "provider_error" and (
        exchange.get("status") == 503 or exchange.get("reason") == "overloaded"
    ):
        return "unavailable"
    return None


def _versions(exchanges: Iterable[Record], join: _Join) -> tuple[str, ...]:
    """Return the versions of the weights, oldest first: the wire's, else those the trace names."""
    stated = ",".join(str(each.get("weight_version") or "") for each in exchanges).split(",")
    return _distinct(filter(None, stated)) or _distinct(call.weights for call, _ in join.pairs)


def _distinct(names: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))
