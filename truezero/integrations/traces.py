"""The mask for traces that others keep: which of their rollouts are measurements, with the reason.

truezero keeps no tokens. A gateway, a harness or a trainer keeps them, and does not know which of
its rollouts met a failing engine. `mask` joins its records with what was recorded on the wire and
sets the mask, the valid flag or the reward that the records have themselves::

    records = [json.loads(line) for line in open("trace.jsonl")]
    with truezero.Client() as client:
        masked = mask(records, fetch(client, "step-12", records))
    rows, again = masked.records, masked.resample

A call is joined by the id of its answer, else by the id of its request, else by its place in its
rollout, its model and its sizes. What cannot be joined, and what is not judged yet, stays unknown:
its records keep what they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from truezero import Client
from truezero.integrations.trace_formats import Record, TraceCall, TraceFormat, format_of
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
        form = format_of(self.records)
        lost = {each.rollout for each in self.traces if each.measured is False}
        named = [(each, form.rollouts(each)) for each in self.records]
        return [each for each, names in named if not names or not lost.issuperset(names)]


def response_ids(records: Sequence[Record]) -> list[str]:
    """Return the response ids that records name, each once: the service has digests for them."""
    form = format_of(records)
    named = (call.response_id for record in records for call in form.calls(record))
    return list(dict.fromkeys(each for each in named if each and _can_be_sent(each)))


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
    form = format_of(records)
    traces = _by_rollout(form, records)
    wire = _Wire(verdicts)
    joins = [_joined(name, calls, wire, rollouts or {}) for name, calls in traces.items()]
    unclaimed = _unclaimed(joins, wire)
    judged = {join.rollout: _judged(join, wire, unclaimed) for join in joins}
    taken = {exchange["id"] for join in joins for _, exchange in join.pairs}
    traced = {join.wire for join in joins}
    others = [name for name in wire.verdicts if name not in traced and name not in wire.shared]
    notes = {name: trace.note() for name, trace in judged.items()}
    return Masked(
        format=form.name,
        records=[form.write(record, notes) for record in records],
        traces=list(judged.values()),
        absent=[_judged(_Join(rollout=None, wire=name), wire, ()) for name in others],
        shared_missing=_missing(
            [call for name in wire.shared for call in wire.calls.get(name, ())], taken
        ),
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
    """The calls of the wire, by the digest of their answer's id and by their request's id."""

    def __init__(self, verdicts: WireVerdicts) -> None:
        self.verdicts = verdicts.verdicts
        self.calls = verdicts.calls
        self.shared = frozenset((*verdicts.shared, UNATTRIBUTED))
        self._digests = verdicts.digests
        self._by_digest: dict[str, list[tuple[str, Record]]] = {}
        self._by_request: dict[str, list[tuple[str, Record]]] = {}
        for rollout, calls in verdicts.calls.items():
            for call in calls:
                for index, key in (
                    (self._by_digest, call.get("response_digest")),
                    (self._by_request, call.get("provider_request_id")),
                ):
                    if key is not None and call.get("kind", "inference") == "inference":
                        index.setdefault(key, []).append((rollout, call))

        shared = (call for name in self.shared for call in self.calls.get(name, ()))
        failed = (call for call in shared if call.get("subcategory") is not None)
        self.shared_failures = sorted(failed, key=lambda call: call["started_at"])

    def digest(self, response_id: str | None) -> str | None:
        """Return the digest of a response id; None if the service was not asked for it."""
        return None if response_id is None else self._digests.get(response_id)

    def found(self, call: TraceCall, within: str | None) -> tuple[str, Record] | None:
        """Return the one call of the wire with an answer's or a request's id, and its rollout.

        Arguments:
            within: the rollout that it is of, where that is known.
        """
        digest = self.digest(call.response_id)
        by_id = (
            self._by_digest.get(digest or "", ()),
            self._by_request.get(call.request_id or "", ()),
        )
        for several in by_id:
            own = [each for each in several if within is None or each[0] == within]
            if len(own) == 1:
                return own[0]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Join:
    rollout: str | None
    wire: str | None  # its rollout there, where all calls under it are this trace's
    calls: Sequence[TraceCall] = ()
    partners: Sequence[Record | None] = ()  # of each call

    @property
    def pairs(self) -> list[tuple[TraceCall, Record]]:
        paired = zip(self.calls, self.partners, strict=True)
        return [(call, partner) for call, partner in paired if partner is not None]

    @property
    def alone(self) -> list[TraceCall]:
        paired = zip(self.calls, self.partners, strict=True)
        return [call for call, partner in paired if partner is None]


def _by_rollout(form: TraceFormat, records: Iterable[Record]) -> dict[str | None, list[TraceCall]]:
    """Return the calls of each rollout, in their order; of one without calls none."""
    traces: dict[str | None, list[TraceCall]] = {}
    for record in records:
        for rollout in form.rollouts(record):
            traces.setdefault(rollout, [])
        for call in form.calls(record):
            traces.setdefault(call.rollout, []).append(call)
    for calls in traces.values():  # spans come in any order
        if all(call.ended_at is not None for call in calls):
            calls.sort(key=lambda call: call.ended_at or 0.0)
    return traces


def _joined(
    name: str | None, calls: Sequence[TraceCall], wire: _Wire, rollouts: Mapping[str, str]
) -> _Join:
    """Join the calls of one trace with those of the wire."""
    own = rollouts.get(name or "", name)
    own = own if own in wire.calls or own in wire.verdicts else None
    matches = [wire.found(call, own) for call in calls]
    if own is None:
        owners = {each[0] for each in matches if each is not None} - wire.shared
        own = owners.pop() if len(owners) == 1 else None
    partners = [None if each is None else each[1] for each in matches]
    if own is not None and own not in wire.shared:
        partners = _by_order(calls, partners, wire.calls.get(own, ()), wire)
    return _Join(
        rollout=name,
        wire=None if own in wire.shared else own,
        calls=calls,
        partners=partners,
    )


def _by_order(
    calls: Sequence[TraceCall],
    partners: Sequence[Record | None],
    exchanges: Sequence[Record],
    wire: _Wire,
) -> list[Record | None]:
    """Join the rest by order, model and sizes: each with the next free call that is like it.

    A call goes behind the partner of the one before it, and before that of the one after it.
    """
    places = {exchange["id"]: place for place, exchange in enumerate(exchanges)}
    taken = {partner["id"] for partner in partners if partner is not None}
    joined, at = list(partners), 0
    for number, call in enumerate(calls):
        partner = joined[number]
        if partner is not None:
            at = max(at, places.get(partner["id"], at) + 1)
            continue
        known = (places.get(each["id"]) for each in partners[number + 1 :] if each is not None)
        end = min((place for place in known if place is not None), default=len(exchanges))
        for place in range(at, end):
            exchange = exchanges[place]
            if exchange["id"] not in taken and _alike(call, exchange, wire):
                joined[number], at = exchange, place + 1
                taken.add(exchange["id"])
                break
    return joined


def _alike(call: TraceCall, exchange: Record, wire: _Wire) -> bool:
    """Return True if both sizes are known and equal, and neither model nor id say otherwise."""
    if call.input_tokens is None or call.output_tokens is None or not _is_answer(exchange):
        return False
    if call.model and exchange.get("model") and not _same_model(call.model, exchange):
        return False
    digest, other = wire.digest(call.response_id), exchange.get("response_digest")
    if digest is not None and other is not None and digest != other:
        return False
    sent = (exchange.get("input_total"), exchange.get("input_tokens"))
    made = (exchange.get("output_total"), exchange.get("output_tokens"))
    return call.input_tokens in sent and call.output_tokens in made


def _same_model(model: str, exchange: Record) -> bool:
    """Return True if a trace names the model as it was asked or answered, a provider before it."""
    named = {exchange.get("model"), exchange.get("answered_model")}
    return model in named or model.rpartition("/")[2] in named


def _is_answer(exchange: Record) -> bool:
    return exchange.get("kind", "inference") == "inference" and exchange.get("subcategory") is None


def _missing(exchanges: Iterable[Record], taken: Collection[str]) -> dict[str, list[str]]:
    """Return the inference calls that no trace has: failed ones are `retry`, others `side`."""
    missing: dict[str, list[str]] = {}
    for exchange in exchanges:
        if exchange["id"] in taken or exchange.get("kind", "inference") != "inference":
            continue
        why = "side" if exchange.get("subcategory") is None else "retry"
        missing.setdefault(why, []).append(exchange["id"])
    return missing


# --- judging -----------------------------------------------------------------------------------


def _judged(join: _Join, wire: _Wire, unclaimed: Sequence[Record]) -> Trace:
    """Say what the wire says of one trace."""
    exchanges = wire.calls.get(join.wire or "", ())
    partners = [exchange for _, exchange in join.pairs]
    seen = list(exchanges) if join.wire is not None else partners
    failures = [] if join.wire is not None else _own_failures(join, wire)
    ended = {each["id"]: each for each in (*seen, *failures)}
    verdict = wire.verdicts.get(join.wire or "")
    unseen = sum(1 for call in join.alone if _was_looked_for(call, wire))
    facts: dict[str, Any] = {
        "rollout": join.rollout,
        "truezero": join.wire,
        "joined": len(join.pairs),
        "missing": _missing(exchanges, {each["id"] for each in partners}),
        "unseen": unseen,
        "unjoined": len(join.alone) - unseen,
        "retries": _sum(call.retries for call in join.calls),
        "weight_versions": _versions(seen, join.calls),
        "system_fingerprints": _distinct(each.get("system_fingerprint") for each in seen),
        "endings": dict(Counter(filter(None, map(_engine_ending, ended.values())))),
    }
    if verdict is not None:
        return Trace(**facts, by="verdict", **_by_verdict(verdict))
    return Trace(**facts, **_by_calls(join, failures, unclaimed))


def _by_verdict(verdict: Record) -> dict[str, Any]:
    """Return what a rollout's own verdict says."""
    scoreable = verdict["scoreable"]
    if verdict.get("provisional"):
        return {"measured": None, "reason": "its verdict is not final yet"}
    if scoreable == "yes":
        return {"measured": True, "reason": "its model was reached"}
    excluded = verdict.get("excluded_by") or ()
    kind = verdict.get("subcategory") or verdict.get("error_category") or next(iter(excluded), None)
    reason = verdict.get("error") or ", ".join(excluded) or f"it is {verdict['health']}"
    if scoreable != "no":
        return {"measured": None, "reason": reason, "kind": kind}
    again = bool(verdict["retry"]["eligible"])
    return {"measured": False, "reason": reason, "kind": kind, "resample": again}


def _by_calls(
    join: _Join, failures: Sequence[Record], unclaimed: Sequence[Record]
) -> dict[str, Any]:
    """Judge a rollout whose calls came among those of others, by its calls alone.

    It is measured if the wire has each of its calls, the last was answered, and no later failure
    may be one that the trace lacks; it is not if the engine aborted an answer, or the last call
    failed and the wire shows that failure.
    """
    aborted = next((each for _, each in join.pairs if _engine_ending(each) == "aborted"), None)
    if aborted is not None:
        reason = f"the engine aborted an answer (exchange {aborted['id']})"
        return _unmeasured("engine_aborted", reason, again=True)
    if failures:
        last = failures[-1]
        status = "no answer" if last.get("status") is None else f"status {last['status']}"
        reason = f"its last call failed: {last['subcategory']}, {status} (exchange {last['id']})"
        if last["subcategory"] == "rejected_request":  # whose fault that is, a verdict has to say
            return {"measured": None, "kind": last["subcategory"], "reason": reason}
        again = all(each.get("transient") for each in failures)
        return _unmeasured(last["subcategory"], reason, again=again)
    if join.calls and join.calls[-1].failed:
        return {"measured": None, "reason": "its last call failed, and not on the wire"}
    if not join.pairs:
        return {"measured": None, "reason": "no call of it is known on the wire"}
    alone = [call for call in join.alone if not call.failed]  # what failed was made good later
    if alone:
        lacking = plural(len(alone), "call")
        return {"measured": None, "reason": f"{lacking} of it cannot be found on the wire"}
    ended = _ended(join)
    later = next((each for each in unclaimed if each["started_at"] >= ended - CLOCK_S), None)
    if later is not None:
        reason = f"a failed call that no trace has may be its own (exchange {later['id']})"
        return {"measured": None, "reason": reason}
    answers = [each for _, each in join.pairs if _is_answer(each)]
    if all(each.get("answer_state") == "read" for each in answers):
        return {"measured": True, "by": "calls", "reason": "each of its calls was answered"}
    return {"measured": None, "reason": "an answer to it could not be read"}


def _unmeasured(kind: str, reason: str, *, again: bool) -> dict[str, Any]:
    return {"measured": False, "by": "calls", "kind": kind, "reason": reason, "resample": again}


def _own_failures(join: _Join, wire: _Wire) -> list[Record]:
    """Return the failures on shared rollouts that a trace ended in, oldest first.

    Those are its last call's partner, where that failed; else those with the status and the model
    of a last call that failed, which came while it ran (without a time there are none); and those
    that go on with the conversation of its last answer, which its gateway did not keep.
    """
    last = join.calls[-1] if join.calls else None
    partner = join.partners[-1] if join.partners else None
    if partner is not None and not _is_answer(partner):
        return [partner]
    answered = {each["id"] for _, each in join.pairs}
    ended = _ended(join)
    return [
        each
        for each in wire.shared_failures
        if (each.get("continues") in answered and each["started_at"] >= ended - CLOCK_S)
        or (
            partner is None
            and last is not None
            and last.failed
            and (last.status is None or each.get("status") == last.status)
            and _came_while(last, each)
        )
    ]


def _unclaimed(joins: Sequence[_Join], wire: _Wire) -> list[Record]:
    """Return the failures on shared rollouts that no trace has a call for, retries included."""
    claimed = {each["id"] for join in joins for _, each in join.pairs}
    claimed |= {each["id"] for join in joins for each in _own_failures(join, wire)}
    retried = [call for join in joins for call in join.calls if call.failed or call.retries]
    return [
        each
        for each in wire.shared_failures
        if each["id"] not in claimed and not any(_came_while(call, each) for call in retried)
    ]


def _came_while(call: TraceCall, exchange: Record) -> bool:
    """Return True if a call of the same model came while a trace's call ran."""
    if call.ended_at is None or call.took_s is None:
        return False
    began, ended = call.ended_at - call.took_s - CLOCK_S, call.ended_at + CLOCK_S
    named = call.model is None or _same_model(call.model, exchange)
    return named and began <= exchange["started_at"] <= ended


def _ended(join: _Join) -> float:
    """Return when the last call of a trace ended that is on the wire, in seconds; 0 without one."""
    ends = (each["started_at"] + (each.get("duration_s") or 0.0) for _, each in join.pairs)
    return max(ends, default=0.0)


def _was_looked_for(call: TraceCall, wire: _Wire) -> bool:
    """Return True if a call without a partner has an id whose digest is known."""
    return wire.digest(call.response_id) is not None


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


def _versions(exchanges: Iterable[Record], calls: Iterable[TraceCall]) -> tuple[str, ...]:
    """Return the versions of the weights, oldest first: the wire's, else those the trace names."""
    stated = [
        part
        for each in exchanges
        for part in str(each.get("weight_version") or "").split(",")
        if part
    ]
    return _distinct(stated) or _distinct(call.weights for call in calls)


def _distinct(names: Iterable[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
