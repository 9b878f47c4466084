"""Attribute each failed call to the agent, the operator, the provider or the proxy.

The verdict owns the score, so whoever is scored must not own the verdict: what an agent fails by
itself takes no reward away. Two tables of named rows, first match wins; reference calls decide what
they leave open about an untrusted agent's failure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from classifier.evidence import BROKEN_FILTER, Evidence, Strength
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    canonical,
    ended_at,
    filtered,
    state_of,
    unsized,
)
from classifier.neighbours import BURST_S, corroborated
from classifier.records import (
    ABANDONED,
    HARNESS,
    USED_UP,
    WRONG_SHAPE,
    Ending,
    Exchange,
    KeySource,
    Kind,
    Neighbours,
)
from classifier.reference_rules import Failure, compare
from classifier.references import ReferenceSeries
from classifier.verdicts import NO_REFERENCE, AttributedTo, Comparison, Subcategory

# --- facts ---


BURST = 20  # starts within BURST_S
_BURST_SHARE = 0.8  # of the lane's
_TOO_MANY = 429  # RFC 6585 §4
_OPEN = 10  # calls at once, beyond which half of the lane's are a burst
_NOBODY = Neighbours()
# What ran out or was away on the proxy's side, by the rule of the call's cause.
_OURS = frozenset(("proxy.upstream_credentials_unavailable", "proxy.resources_exhausted"))
OPERATORS = frozenset((Subcategory.AUTH, Subcategory.QUOTA, Subcategory.MODEL_NOT_FOUND))
_PERIODS = frozenset(("daily", "weekly", "monthly", "in_flight"))  # reasons of a quota's cause


class Attributed(NamedTuple):
    """The party that one failed call is attributed to, and the row that says so.

    ``corroborated``: by reference calls, else by other rollouts' calls.
    """

    to: AttributedTo
    row: str
    corroborated: bool | None = None


Lane = tuple[str, str | None]  # upstream and canonical model
Request = tuple[str | None, str | None]  # digests of its line and body, and of what it selects


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionContext:
    """The facts of a rollout that help to attribute one of its failed calls.

    ``answered`` are the lanes that answered it, each with the spellings of the model's name that
    it was called by, ``first_lane`` the first of them, with tools where any call has some;
    ``first_key`` is the digest of the first key that was answered, ``selections`` the digests of
    what its answered calls selected, ``requests`` those that were answered. ``spans`` are the
    calls' starts and ends by lane, each in order. ``registered`` are the canonical registered
    models, ``names`` these and those that answered for them, of which ``named`` says whether any
    call named one. ``series`` are the references with the end of the call that each was asked
    beside, in order.
    """

    upstream: str | None
    upstream_seen: bool
    registered: frozenset[str | None]
    names: frozenset[str | None]
    named: bool
    answered: Mapping[Lane, set[str | None]]
    first_lane: Lane | None
    first_key: str | None
    selections: frozenset[str | None]
    requests: frozenset[Request]
    spans: Mapping[Lane, tuple[Sequence[float], Sequence[float]]]
    neighbours: Mapping[str, Neighbours]
    references: Mapping[str, ReferenceSeries]
    series: Sequence[tuple[float, ReferenceSeries]]

    @classmethod
    def of(cls, facts: Evidence) -> AttributionContext:
        """Gather it from a rollout's evidence."""
        rollout, exchanges = facts.rollout, facts.exchanges
        answers = [x for x in exchanges if state_of(x) is CallState.ANSWERED]
        registered = frozenset(map(canonical, rollout.models))
        # A deployment's or alias's name is one by the answers that it gave.
        aliases = {canonical(x.model) for x in exchanges if x.model and _names_one(x, registered)}
        names = registered | aliases
        answered: dict[Lane, set[str | None]] = {}
        for answer in answers:
            answered.setdefault(_lane(answer), set()).add(answer.model)
        references = rollout.references
        return cls(
            upstream=rollout.upstream,
            upstream_seen=any(x.upstream == rollout.upstream for x in exchanges),
            registered=registered,
            names=names,
            named=any(x.model and _names_one(x, names) for x in exchanges),
            answered=answered,
            first_lane=_first_lane(facts.calls),
            first_key=next((x.key_digest for x in answers), None),
            selections=frozenset(x.selector_digest for x in answers),
            requests=frozenset(_request(x) for x in answers if x.request_digest),
            spans=_spans(exchanges),
            neighbours=rollout.neighbours,
            references=references,
            series=[(ended_at(x), references[x.id]) for x in exchanges if x.id in references],
        )

    def outside(self, exchange: Exchange) -> bool:
        """Return True if a call goes to an upstream or model other than those registered.

        A registered upstream binds if any call went to it, registered models if any call named one.
        """
        if self.upstream not in (None, exchange.upstream):
            return self.upstream_seen
        return self.named and not _names_one(exchange, self.names)

    def near(self, failed: Exchange) -> Neighbours:
        """Return what other rollouts got around a call."""
        return self.neighbours.get(failed.id, _NOBODY)

    def reference(self, failed: Exchange) -> ReferenceSeries | None:
        """Return the series asked beside a call, else the one asked last before it ended.

        A streak is asked about at its beginning and its end; what is between has the first one.
        """
        own = self.references.get(failed.id)
        if own is not None or not self.series:
            return own
        at = bisect_right(self.series, ended_at(failed), key=lambda each: each[0])
        near = self.series[max(at - 1, 0)][1]
        return near if near.upstream == failed.upstream else None


def _lane(exchange: Exchange) -> Lane:
    return exchange.upstream, canonical(exchange.model)


def _request(exchange: Exchange) -> Request:
    return exchange.request_digest, exchange.selector_digest


def _names_one(exchange: Exchange, names: frozenset[str | None]) -> bool:
    """Return True if a call asked for a registered model or was answered by one.

    A call of which no model was read may have gone to one, so the answer is True.
    """
    called = [name for name in (exchange.model, exchange.answered_model) if name]
    if not called:
        return True
    sizeless = {unsized(name) for name in names}
    return any(canonical(name) in names or unsized(name) in sizeless for name in called)


def _first_lane(calls: Iterable[LogicalCall]) -> Lane | None:
    calls = list(calls)
    tools = any(call.asked.has_tools for call in calls)
    first = (
        _lane(call.asked)
        for call in calls
        if call.state is CallState.ANSWERED and (call.asked.has_tools or not tools)
    )
    return next(first, None)


def _spans(exchanges: Iterable[Exchange]) -> dict[Lane, tuple[list[float], list[float]]]:
    spans: dict[Lane, tuple[list[float], list[float]]] = {}
    for exchange in exchanges:  # by their ends
        starts, ends = spans.setdefault(_lane(exchange), ([], []))
        starts.append(exchange.timing.started_at)
        ends.append(ended_at(exchange))
    for starts, _ in spans.values():
        starts.sort()
    return spans


def _subcategory(exchange: Exchange) -> Subcategory | None:
    return None if exchange.cause is None else exchange.cause.subcategory


def _refused_by_harness(exchange: Exchange) -> bool:
    return exchange.cause is not None and exchange.cause.reason in HARNESS


def _explained_rejection(exchange: Exchange) -> bool:
    if _refused_by_harness(exchange):
        return False
    return exchange.cause is not None and Strength.of(exchange.cause) is Strength.EXPLAINED


# --- tables ---


Predicate = Callable[[Exchange, AttributionContext], bool]


def _ours(failed: Exchange, _: AttributionContext) -> bool:
    return failed.cause is not None and failed.cause.rule in _OURS


def _by_a_broken_filter(failed: Exchange, _: AttributionContext) -> bool:
    return failed.cause is not None and failed.cause.rule == BROKEN_FILTER


def _respelled(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the model is not found by this spelling, and answered by another one.

    A registered name, or one that is equal to it, is the operator's to spell.
    """
    if _subcategory(failed) is not Subcategory.MODEL_NOT_FOUND or failed.model is None:
        return False
    if _names_one(failed, setting.registered):
        return False
    own = setting.answered.get(_lane(failed))
    return failed.model not in own if own else setting.near(failed).respelled


def _withheld(failed: Exchange, _: AttributionContext) -> bool:
    """Return True if the call timed out because the agent held back its request or did not read."""
    waited = failed.ending in (Ending.TIMED_OUT, *ABANDONED) or failed.status == 408
    return bool(failed.held) and waited


def _rejected_by_an_answering_lane(failed: Exchange, setting: AttributionContext) -> bool:
    return _explained_rejection(failed) and _lane(failed) in setting.answered


def _other_lane(failed: Exchange, setting: AttributionContext) -> bool:
    if setting.first_lane is None:
        return False
    upstream, model = setting.first_lane
    if setting.upstream is None and failed.upstream != upstream:
        return True
    names_one = failed.kind in (Kind.INFERENCE, Kind.OTHER) and not setting.names
    return names_one and canonical(failed.model) != model


def _other_selection(failed: Exchange, setting: AttributionContext) -> bool:
    return bool(setting.selections) and failed.selector_digest not in setting.selections


def _own_burst(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the agent itself ran into the limit: most calls of the lane are its own."""
    limited = _refused_by_harness(failed) and failed.status == _TOO_MANY
    if not limited and _subcategory(failed) is not Subcategory.RATE_LIMIT:
        return False
    until, (starts, _) = ended_at(failed), setting.spans[_lane(failed)]
    own = bisect_left(starts, until) - bisect_left(starts, until - BURST_S)
    return _in_burst(failed, setting) and own > _BURST_SHARE * (own + setting.near(failed).starts)


def _in_burst(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the call is one of 20 that the agent started within ten seconds."""
    starts, _ = setting.spans[_lane(failed)]
    at = bisect_left(starts, failed.timing.started_at)
    first, last = max(0, at - BURST + 1), min(at, len(starts) - BURST)
    return any(starts[n + BURST - 1] - starts[n] < BURST_S for n in range(first, last + 1))


def _crowds(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the agent started 20 calls in ten seconds, or holds most of the open ones."""
    starts, ends = setting.spans[_lane(failed)]
    began, until = failed.timing.started_at, ended_at(failed)
    at_start = bisect_right(starts, began) - bisect_right(ends, began)
    at_end = bisect_right(starts, until) - bisect_right(ends, until) + 1  # and the one that failed
    own = max(at_start, at_end)
    return _in_burst(failed, setting) or (own > _OPEN and own > setting.near(failed).open)


def _unnamed_model(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if no such model is there, and none but the agent ever named it."""
    unknown = _subcategory(failed) is Subcategory.MODEL_NOT_FOUND and not setting.names
    return unknown and _lane(failed) not in setting.answered


def _closed_on(failed: Exchange, _: AttributionContext) -> bool:
    """Return True if a WebSocket was closed in answer to what the agent had sent."""
    return failed.cause is not None and failed.cause.rule.startswith("websocket.close_")


class Row(NamedTuple):
    """A row of a table: its name, the failures for which it holds, and whose those are."""

    name: str
    holds: Predicate
    to: AttributedTo = AttributedTo.AGENT


# The first that holds; where none does, `_rest`.
ALWAYS: tuple[Row, ...] = (
    Row("broken_filter", _by_a_broken_filter, AttributedTo.PROVIDER),
    Row("own_resources", _ours, AttributedTo.PROXY),
    Row("outside_binding", lambda failed, its: its.outside(failed)),
    Row("model_ambiguous", lambda failed, _: bool(failed.model_ambiguous)),
    Row("withheld", _withheld),
    Row("respelled", _respelled),
    Row("explained_rejection", _rejected_by_an_answering_lane),
)
# Where agents are untrusted; what none of them decides, `_by_reference` does.
UNTRUSTED_ROWS: tuple[Row, ...] = (
    Row("filtered", lambda failed, _: filtered(failed)),
    Row("own_key", lambda failed, _: failed.key_source is KeySource.OVERRIDE),
    Row("other_key", lambda failed, its: its.first_key not in (None, failed.key_digest)),
    Row("other_lane", _other_lane),
    Row("other_selection", _other_selection),
    Row("own_burst", _own_burst),
    Row("unnamed_model", _unnamed_model),
    Row("closed_on", _closed_on),
)

# Behind all of them: a limit of the operator's, about which no provider is asked.
HARNESS_ROWS: tuple[Row, ...] = (
    Row("harness", lambda failed, _: _refused_by_harness(failed), AttributedTo.OPERATOR),
)


def attribute(
    facts: Evidence, rows: Sequence[Row] = UNTRUSTED_ROWS, *, asked: bool = True
) -> dict[str, Attributed]:
    """Return whose failure each failed call was, and each that its agent held up, by exchange id.

    Arguments:
        rows: say which failures are an untrusted agent's without reference calls; none for a role.
        asked: reference calls decide what no row does; else it is the provider's or operator's.
    """
    held = [x for x in facts.exchanges if x.held and state_of(x) is CallState.UNANSWERED]
    if not (facts.failures or held):
        return {}
    setting = AttributionContext.of(facts)
    table = (*ALWAYS, *(rows if facts.untrusted else ()), *HARNESS_ROWS)
    asked = asked and facts.untrusted
    return {x.id: _attributed(x, setting, table, asked) for x in (*facts.failures, *held)}


def _attributed(
    failed: Exchange, setting: AttributionContext, table: Sequence[Row], asked: bool
) -> Attributed:
    near = corroborated(setting.near(failed))
    for row in table:
        if row.holds(failed, setting):
            return Attributed(row.to, row.name, row.name == "broken_filter" or near)
    return (asked and _by_reference(failed, setting, near)) or _rest(failed, near)


def _rest(failed: Exchange, corroborated: bool | None) -> Attributed:
    if _subcategory(failed) in OPERATORS:
        return Attributed(AttributedTo.OPERATOR, "account", corroborated)
    if failed.cause is not None and failed.cause.reason == WRONG_SHAPE:
        return Attributed(AttributedTo.OPERATOR, WRONG_SHAPE, corroborated)
    if _explained_rejection(failed):
        return Attributed(AttributedTo.OPERATOR, "never_accepted", corroborated)
    return Attributed(AttributedTo.PROVIDER, "rest", corroborated)


# --- references ---


DOUBTS = frozenset(("pending", "inconclusive", "partly"))
"""Rows that leave open whose failure it was."""


def _by_reference(
    failed: Exchange, setting: AttributionContext, near: bool | None
) -> Attributed | None:
    """Attribute a failure by the reference calls asked beside it; None if it is the rest's."""
    series = setting.reference(failed)
    if failed.injected:
        return None
    result = Comparison.NO_REFERENCE if series is None else compare(series, failure_of(failed))
    match result:
        case None:
            return Attributed(AttributedTo.UNKNOWN, "pending")
        case Comparison.NO_REFERENCE:
            return None if near else Attributed(AttributedTo.AGENT, NO_REFERENCE, near)
        case Comparison.FAILED_ALIKE:
            return _rest(failed, True)
        case Comparison.OTHERWISE:
            return Attributed(AttributedTo.UNKNOWN, "inconclusive")
        case Comparison.ANSWERED if series is not None and series.calls[0].answered:
            limited = _of_a_limit(failed, setting, near, series)
            if limited is not None:
                return limited
    by_chance = _struck_others(failed, setting) or _request(failed) in setting.requests
    if result is Comparison.PARTLY or by_chance:
        return Attributed(AttributedTo.PROVIDER, "partly")
    return Attributed(AttributedTo.AGENT, "request", False)


def failure_of(failed: Exchange) -> Failure:
    """Return a failed call, or one that its agent gave up, as a series is compared with it."""
    return Failure(
        _subcategory(failed),
        silent=failed.timed_out,
        filtered=filtered(failed),
        waited_s=failed.timing.duration_s,
    )


def _of_a_limit(
    failed: Exchange, setting: AttributionContext, near: bool | None, series: ReferenceSeries
) -> Attributed | None:
    """Attribute a limit, of which an answered question says nothing: it is a small one.

    One of another way to the model (OpenRouter's ``:free``) is met by whoever chooses it. None if
    it is no limit that a small question passes and a large one does not.
    """
    cause = failed.cause
    if cause is None or cause.subcategory is not Subcategory.RATE_LIMIT:
        quota = cause is not None and cause.subcategory is Subcategory.QUOTA
        if cause is None or not quota or cause.reason not in _PERIODS:
            return None
    if _named_otherwise(failed, series):
        return Attributed(AttributedTo.AGENT, "other_spelling", False)
    if _crowds(failed, setting):
        return Attributed(AttributedTo.AGENT, "crowded", False)
    if cause.reason == USED_UP:
        return Attributed(AttributedTo.PROVIDER, USED_UP, near)
    return Attributed(AttributedTo.UNKNOWN, "inconclusive")


def _named_otherwise(failed: Exchange, series: ReferenceSeries) -> bool:
    """Return True if it asked for another name than the one that answered, but for a prefix."""
    answered = series.calls[0].model or series.model
    if failed.model is None or answered is None:
        return False
    return _unprefixed(failed.model) != _unprefixed(answered)


def _unprefixed(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def _struck_others(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if two other rollouts were struck at once.

    An agent repeats a trick in each rollout, and others are answered in between: no blip is that.
    """
    near = setting.near(failed)
    return near.at_once >= 2 and not near.answered_between
