"""Attribute each failed call to the agent, the operator, the provider or the proxy.

The verdict owns the score, so whoever is scored must not own the verdict: what an agent fails by
itself takes no reward away. Two tables of named rows, first match wins; a row sees one failed call
and what its rollout shows beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from classifier.evidence import Evidence, Finding, Strength, unprompted
from classifier.logical_calls import (
    CallState,
    LogicalCall,
    canonical,
    ended_at,
    filtered,
    state_of,
    unsized,
)
from classifier.records import ABANDONED, Ending, Exchange, KeySource, Kind, Neighbours
from classifier.references import ReferenceNeed
from classifier.verdicts import (
    NOTHING_READ,
    PROVOKED_SUSPECTED,
    UNCORROBORATED,
    UNTRUSTED,
    AttributedTo,
    Health,
    Subcategory,
)

# --- neighbours ---
#
# The calls of other rollouts on the lane of a failed call, around its end.


NEAR_S = 60.0  # of a failure's end
BURST_S = 10.0  # before a failure's end, for starts
# Statuses that one request by itself may bring about: another request's failure is no proof.
_OF_THE_REQUEST = frozenset((500, *range(400, 500))) - {401, 402, 403, 404, 408, 429}
# Failures that a listing of models can share; which model a listing asks for is the agent's.
_OPERATOR_KEYS = frozenset((KeySource.OPERATOR, KeySource.ADDED))
_LISTED = frozenset((Subcategory.AUTH, Subcategory.QUOTA, Subcategory.PROVIDER_ERROR))


def neighbours_of(failure: Exchange, others: Iterable[Exchange]) -> Neighbours:
    """Count the neighbours of a failed or abandoned call.

    Arguments:
        others: calls of any rollout; those of other times and lanes are passed over.
    """
    at = ended_at(failure)
    alike: dict[str, float] = {}  # by rollout, the end that is nearest
    answered: dict[str, list[float]] = {}
    starts, listing_failed = 0, False
    spellings: set[str | None] = set()  # of the model, that others were answered under
    for other in others:
        if not _same_key(failure, other) or other.injected:
            continue
        ended = ended_at(other)
        if other.kind is Kind.PROBE:
            listing_failed |= abs(ended - at) <= NEAR_S and _listed_alike(failure, other)
            continue
        if other.rollout_id == failure.rollout_id or not _same_lane(failure, other):
            continue
        starts += at - BURST_S <= other.timing.started_at <= at
        if abs(ended - at) > NEAR_S:
            continue
        if state_of(other) is CallState.ANSWERED:
            answered.setdefault(other.rollout_id, []).append(ended)
            spellings.add(other.model)
        elif _alike(failure, other):
            nearest = alike.get(other.rollout_id)
            if nearest is None or abs(ended - at) < abs(nearest - at):
                alike[other.rollout_id] = ended
    together = [at, *sorted(alike.values(), key=lambda ended: abs(ended - at))[:2]]
    first, last = min(together), max(together)
    return Neighbours(
        alike=len(alike),
        answered=len(answered),
        answered_between=any(first <= end <= last for ends in answered.values() for end in ends),
        listing_failed=listing_failed,
        starts=starts,
        respelled=bool(spellings) and failure.model not in spellings,
    )


def corroborated(failure: Neighbours | None) -> bool | None:
    """Return True if other rollouts prove a failure, False if they contradict it, else None."""
    if failure is None:
        return None
    if failure.listing_failed or (failure.alike >= 2 and not failure.answered_between):
        return True
    return False if failure.answered else None


def _same_key(failure: Exchange, other: Exchange) -> bool:
    """Return True if an agent's call went to the same upstream as a failure, with the same key.

    Any key that was answered counts as the same, unless the operator gave the failed call's key.
    """
    if failure.upstream != other.upstream or other.role != "agent":
        return False
    return other.key_digest == failure.key_digest or (
        failure.key_source not in _OPERATOR_KEYS and state_of(other) is CallState.ANSWERED
    )


def _same_lane(failure: Exchange, other: Exchange) -> bool:
    if other.kind is not Kind.INFERENCE or other.model_ambiguous:
        return False
    return canonical(other.model) == canonical(failure.model)


def _alike(failure: Exchange, other: Exchange) -> bool:
    """Return True if another call failed alike. One request sent by two rollouts proves nothing."""
    if failure.cause is None or other.cause is None:
        return failure.cause is None and other.cause is None and failure.ending is other.ending
    if failure.cause.subcategory is not other.cause.subcategory:
        return False
    if failure.status not in _OF_THE_REQUEST:
        return other.status not in _OF_THE_REQUEST
    same = other.request_digest is not None and other.request_digest == failure.request_digest
    return other.status == failure.status and not same


def _listed_alike(failure: Exchange, listing: Exchange) -> bool:
    if failure.cause is None or listing.cause is None or listing.method != "GET":
        return False
    subcategory = failure.cause.subcategory
    return subcategory in _LISTED and listing.cause.subcategory is subcategory


# --- attribution ---


BURST = 20  # starts within BURST_S
_BURST_SHARE = 0.8  # of the lane's
_POISONED = 3  # failures of one request
_POISONED_S = 30.0  # from the first to the last of them
# What a request by itself does not bring about.
_NO_POISON = frozenset((401, 402, 403, 404, 408, 429, 502, 503, 504, 529))
OUTAGE_STATUSES = frozenset((502, 503, 504, 529))
# What ran out or was away on the proxy's side, by the rule of the call's cause.
_OURS = frozenset(("proxy.upstream_credentials_unavailable", "proxy.resources_exhausted"))
_OPERATORS = frozenset((Subcategory.AUTH, Subcategory.QUOTA, Subcategory.MODEL_NOT_FOUND))


class Attributed(NamedTuple):
    """The party that one failed call is attributed to, and the row that says so.

    ``always``: whatever the agents' policy is. ``corroborated``: by other rollouts' calls.
    """

    to: AttributedTo
    row: str
    always: bool = True
    corroborated: bool | None = None


Lane = tuple[str, str | None]  # upstream and canonical model


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionContext:
    """The facts of a rollout that help to attribute one of its failed calls.

    ``answered`` are the lanes that answered it, under the ``spellings`` of the model's name that
    they were called by, ``first_lane`` the first of them, with tools
    where any call has some; ``first_key`` is the digest of the first key that was answered,
    ``selections`` the digests of what its answered calls selected. ``poison`` are digests of
    requests that failed by themselves, ``starts`` by lane, in order. ``names`` are the canonical
    registered models, of which ``named`` says whether any call named one.
    """

    upstream: str | None
    upstream_seen: bool
    names: frozenset[str | None]
    named: bool
    answered: frozenset[Lane]
    spellings: Mapping[Lane, frozenset[str | None]]
    first_lane: Lane | None
    first_key: str | None
    selections: frozenset[str | None]
    poison: frozenset[str]
    starts: Mapping[Lane, Sequence[float]]
    neighbours: Mapping[str, Neighbours]

    @classmethod
    def of(cls, facts: Evidence) -> AttributionContext:
        """Gather it from a rollout's evidence."""
        rollout, exchanges = facts.rollout, facts.exchanges
        answers = [x for x in exchanges if state_of(x) is CallState.ANSWERED]
        names = frozenset(map(canonical, rollout.models))
        # A deployment's or alias's name is one by the answers that it gave.
        names |= {canonical(x.model) for x in exchanges if x.model and _names_one(x, names)}
        return cls(
            upstream=rollout.upstream,
            upstream_seen=any(x.upstream == rollout.upstream for x in exchanges),
            names=names if rollout.models else frozenset(),
            named=any(x.model and _names_one(x, names) for x in exchanges),
            answered=frozenset(map(_lane, answers)),
            spellings=_spellings(answers),
            first_lane=_first_lane(facts.calls),
            first_key=next((x.key_digest for x in answers), None),
            selections=frozenset(x.selector_digest for x in answers),
            poison=_poison(facts.failures, answers),
            starts=_starts(exchanges),
            neighbours=rollout.neighbours,
        )

    def outside(self, exchange: Exchange) -> bool:
        """Return True if a call goes to an upstream or model other than those registered."""
        if self.upstream is not None and exchange.upstream != self.upstream:
            return True
        return bool(self.names) and not _names_one(exchange, self.names)

    def bound(self, exchange: Exchange) -> bool:
        """Return True if the registration binds in the part from which a call differs.

        A registered upstream binds if any call went to it, registered models if any call named one.
        """
        if self.upstream is not None and exchange.upstream != self.upstream:
            return self.upstream_seen
        return self.named

    def corroborated(self, exchange: Exchange) -> bool | None:
        """Return True if other rollouts prove a failure, False if they contradict it, else None."""
        return corroborated(self.neighbours.get(exchange.id))


def _lane(exchange: Exchange) -> Lane:
    return exchange.upstream, canonical(exchange.model)


def _spellings(answers: Iterable[Exchange]) -> dict[Lane, frozenset[str | None]]:
    found: dict[Lane, set[str | None]] = {}
    for answer in answers:
        found.setdefault(_lane(answer), set()).add(answer.model)
    return {lane: frozenset(names) for lane, names in found.items()}


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


def _poison(failures: Iterable[Exchange], answers: Sequence[Exchange]) -> frozenset[str]:
    """Return requests that failed again and again while other requests were answered."""
    by_digest: dict[str, list[float]] = {}
    for exchange in failures:
        if exchange.request_digest and _may_be_poison(exchange):
            by_digest.setdefault(exchange.request_digest, []).append(ended_at(exchange))
    ends = [(ended_at(x), x.request_digest) for x in answers]
    return frozenset(
        digest
        for digest, times in by_digest.items()
        if len(times) >= _POISONED
        and max(times) - min(times) >= _POISONED_S
        and any(min(times) < end < max(times) and other != digest for end, other in ends)
    )


def _may_be_poison(exchange: Exchange) -> bool:
    """Return True if the request itself may cause this: a 500, or a 4xx without a reason.

    Incomplete responses and the statuses of keys, models, limits and outages never count.
    """
    status, cause = exchange.status, exchange.cause
    if status is None or status in _NO_POISON or cause is None:
        return False
    if exchange.ending is not Ending.COMPLETE:
        return False
    return status == 500 or (400 <= status < 500 and cause.reason is None)


def _starts(exchanges: Iterable[Exchange]) -> dict[Lane, list[float]]:
    starts: dict[Lane, list[float]] = {}
    for exchange in exchanges:
        starts.setdefault(_lane(exchange), []).append(exchange.timing.started_at)
    return {lane: sorted(times) for lane, times in starts.items()}


def _subcategory(exchange: Exchange) -> Subcategory | None:
    return None if exchange.cause is None else exchange.cause.subcategory


def _explained_rejection(exchange: Exchange) -> bool:
    return exchange.cause is not None and Strength.of(exchange.cause) is Strength.EXPLAINED


Find = Callable[[Evidence], Finding]
Predicate = Callable[[Exchange, AttributionContext], bool]


def _ours(failed: Exchange, _: AttributionContext) -> bool:
    return failed.cause is not None and failed.cause.rule in _OURS


def _outside_binding(failed: Exchange, setting: AttributionContext) -> bool:
    return setting.outside(failed) and setting.bound(failed)


def _respelled(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the model is not found by this spelling, and answered by another one.

    Names are equal for lanes and bindings, never as an excuse.
    """
    if _subcategory(failed) is not Subcategory.MODEL_NOT_FOUND or failed.model is None:
        return False
    own = setting.spellings.get(_lane(failed))
    if own:
        return failed.model not in own
    near = setting.neighbours.get(failed.id)
    return near is not None and near.respelled


def _withheld(failed: Exchange, _: AttributionContext) -> bool:
    """Return True if the call timed out because the agent held back its request or did not read."""
    waited = failed.ending in (Ending.TIMED_OUT, *ABANDONED) or failed.status == 408
    return bool(failed.held) and waited


def _rejected_by_an_answering_lane(failed: Exchange, setting: AttributionContext) -> bool:
    return _explained_rejection(failed) and _lane(failed) in setting.answered


def _other_key(failed: Exchange, setting: AttributionContext) -> bool:
    return setting.first_key is not None and failed.key_digest != setting.first_key


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
    if _subcategory(failed) is not Subcategory.RATE_LIMIT:
        return False
    until = ended_at(failed)
    starts = setting.starts.get(_lane(failed), ())
    own = bisect_left(starts, until) - bisect_left(starts, until - BURST_S)
    near = setting.neighbours.get(failed.id)
    return own >= BURST and own > _BURST_SHARE * (own + (near.starts if near else 0))


def _hung_up(failed: Exchange, setting: AttributionContext) -> bool:
    return failed.ending in ABANDONED and setting.corroborated(failed) is not True


def _unproven(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the agent could have caused the failure and nothing clears it.

    Other rollouts clear it if they prove the failure. A failure that is plainly the operator's
    is cleared too, unless other rollouts contradict it.
    """
    found = setting.corroborated(failed)
    if found is True or not _could_cause(failed, setting):
        return False
    return found is False or not _plainly_the_operators(failed, setting)


def _could_cause(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if an agent can cause it. It cannot cause an outage of its given upstream."""
    outage = failed.status in OUTAGE_STATUSES or failed.ending in (
        Ending.NEVER_CONNECTED,
        Ending.CUT_UPSTREAM,
    )
    if not outage or _subcategory(failed) is not Subcategory.PROVIDER_ERROR:
        return True
    if failed.held or setting.outside(failed):
        return True
    given = failed.upstream == setting.upstream
    return not given and all(upstream != failed.upstream for upstream, _ in setting.answered)


def _plainly_the_operators(failed: Exchange, setting: AttributionContext) -> bool:
    """Return True if the operator's key, account or model failed a request that chose nothing.

    With the operator's key the account is the operator's, whatever else the request chooses.
    """
    if _subcategory(failed) not in _OPERATORS or setting.outside(failed):
        return False
    return failed.key_source is KeySource.OPERATOR or failed.selector_digest is None


def _closed_on(failed: Exchange, _: AttributionContext) -> bool:
    """Return True if a WebSocket was closed in answer to what the agent had sent."""
    return failed.cause is not None and failed.cause.rule.startswith("websocket.close_")


# The first that holds; where none does, `_rest`.
ALWAYS: tuple[tuple[str, AttributedTo, Predicate], ...] = (
    ("own_resources", AttributedTo.PROXY, _ours),
    ("outside_binding", AttributedTo.AGENT, _outside_binding),
    ("model_ambiguous", AttributedTo.AGENT, lambda failed, _: bool(failed.model_ambiguous)),
    ("withheld", AttributedTo.AGENT, _withheld),
    ("respelled", AttributedTo.AGENT, _respelled),
    ("explained_rejection", AttributedTo.AGENT, _rejected_by_an_answering_lane),
)
# The agent's too where agents are untrusted.
UNTRUSTED_ROWS: tuple[tuple[str, Predicate], ...] = (
    ("filtered", lambda failed, _: filtered(failed)),
    ("own_key", lambda failed, _: failed.key_source is KeySource.OVERRIDE),
    ("other_key", _other_key),
    ("other_lane", _other_lane),
    ("other_selection", _other_selection),
    ("poison_request", lambda failed, setting: failed.request_digest in setting.poison),
    ("own_burst", _own_burst),
    ("closed_on", _closed_on),
    ("hung_up", _hung_up),
    ("unproven", _unproven),
)


def attribute(facts: Evidence, *, agents: str) -> dict[str, Attributed]:
    """Return whose failure each failed call was, and each that its agent held up, by exchange id.

    Arguments:
        agents: "trusted" or "untrusted".
    """
    held = [x for x in facts.exchanges if x.held and state_of(x) is CallState.UNANSWERED]
    if not (facts.failures or held):
        return {}
    setting = AttributionContext.of(facts)
    return {
        failed.id: _attributed(failed, setting, agents)._replace(
            corroborated=setting.corroborated(failed)
        )
        for failed in (*facts.failures, *held)
    }


def _attributed(failed: Exchange, setting: AttributionContext, agents: str) -> Attributed:
    for row, to, holds in ALWAYS:
        if holds(failed, setting):
            return Attributed(to, row)
    if agents == UNTRUSTED:
        for row, holds in UNTRUSTED_ROWS:
            if holds(failed, setting):
                return Attributed(AttributedTo.AGENT, row, always=False)
    return _rest(failed)


def _rest(failed: Exchange) -> Attributed:
    if _subcategory(failed) in _OPERATORS:
        return Attributed(AttributedTo.OPERATOR, "account")
    if _explained_rejection(failed):
        return Attributed(AttributedTo.OPERATOR, "never_accepted")
    return Attributed(AttributedTo.PROVIDER, "rest")


# --- references ---


_SILENCE = frozenset(("stalled", "timeout"))  # reasons of a cause
_TIMED_OUT = frozenset((408, 504, 524))
_BY_REFERENCE = frozenset(("hung_up", "unproven", "account", "never_accepted", "rest"))


def wanted(facts: Evidence, find: Find) -> list[ReferenceNeed]:
    """Return the failed calls whose series a verdict needs and has not got, oldest first.

    Arguments:
        find: the first rule that fires on evidence.
    """
    agents_are = facts.rollout.agents or facts.policy.agents
    if agents_are != UNTRUSTED or not facts.failures:
        return []
    attributed = attribute(facts, agents=agents_are)
    fixed = frozenset(x for x, each in attributed.items() if each.row not in _BY_REFERENCE)
    finding = find(_without(facts, fixed) if fixed else facts)
    deciding = [x for x in facts.failures if x.id in finding.evidence]
    asked = deciding if len(deciding) < 2 else [deciding[0], deciding[-1]]
    return [_need(x) for x in asked if x.id not in facts.rollout.references]


def _need(failed: Exchange) -> ReferenceNeed:
    return ReferenceNeed(
        exchange_id=failed.id,
        upstream=failed.upstream,
        model=failed.model,
        api=failed.api,
        side_by_side=silent(failed),
        injected=failed.injected,
    )


def silent(failed: Exchange) -> bool:
    """Return True if a call failed by silence or a time-out."""
    reason = None if failed.cause is None else failed.cause.reason
    return failed.ending is Ending.TIMED_OUT or reason in _SILENCE or failed.status in _TIMED_OUT


# --- weighing ---
#
# A finding is weighed by whose failures it stands on: the agent's take no reward away.


FAILED_BY_AGENT = "failed_by_agent"
FAILED_BY_PROXY = "calls_failed_by_proxy"
# What weighing adds to a verdict's warnings, at most one of them.
WEIGHED = (NOTHING_READ, FAILED_BY_AGENT, PROVOKED_SUSPECTED, UNCORROBORATED, FAILED_BY_PROXY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedFinding:
    """A finding, and what it stands on.

    ``facts`` are the evidence without the agent's failures. ``attributed_to`` is whose
    failures decided, or would have: the agent's, where they were left out. ``keeps``: the
    reward counts, whatever else is not known.
    """

    finding: Finding
    facts: Evidence
    attributed_to: AttributedTo | None = None
    corroborated: bool | None = None
    warnings: tuple[str, ...] = ()
    keeps: bool = False


def weigh(facts: Evidence, find: Find) -> AttributedFinding:
    """Return what a rollout's rules find once the agent's own failures are left out.

    Arguments:
        find: the first rule that fires on evidence.
    """
    agents_are = facts.rollout.agents or facts.policy.agents
    untrusted = agents_are == UNTRUSTED
    found = find(facts)
    if found.health is Health.HEALTHY and not (untrusted or facts.tail.calls):
        return AttributedFinding(finding=found, facts=facts)  # nothing hangs on a failure
    attributed = attribute(facts, agents=agents_are)
    agents = _ids_of(attributed, AttributedTo.AGENT)
    kept = _without(facts, agents) if agents else facts
    if agents.isdisjoint(found.evidence):
        weighed = AttributedFinding(finding=found, facts=kept)
    else:
        weighed = _of_the_agent(facts, kept, found, attributed, find)
    if untrusted and _agent_can_cause(weighed.finding, kept):
        weighed = _kept(weighed, PROVOKED_SUSPECTED, (), attributed)
    if weighed.attributed_to is AttributedTo.AGENT:
        return replace(weighed, keeps=True)
    return _decided(replace(weighed, keeps=untrusted), attributed, find, untrusted=untrusted)


def _ids_of(attributed: Mapping[str, Attributed], to: AttributedTo) -> frozenset[str]:
    return frozenset(call for call, each in attributed.items() if each.to is to)


def _without(facts: Evidence, calls: Collection[str]) -> Evidence:
    exchanges = tuple(x for x in facts.rollout.exchanges if x.id not in calls)
    return Evidence.of(replace(facts.rollout, exchanges=exchanges), facts.policy)


def _of_the_agent(
    facts: Evidence,
    kept: Evidence,
    found: Finding,
    attributed: Mapping[str, Attributed],
    find: Find,
) -> AttributedFinding:
    """Find anew without the agent's failures, on which the first finding stood."""
    finding = find(kept)
    left_nothing = finding.unproven or (not kept.calls and not unprompted(facts.outcome))
    if left_nothing and _counts(facts):
        finding = Finding(health=Health.HEALTHY, rule="healthy")
    weighed = AttributedFinding(finding=finding, facts=kept)
    if finding.health is not Health.HEALTHY:
        return weighed
    always = frozenset(call for call, each in attributed.items() if each.always)
    agents = _ids_of(attributed, AttributedTo.AGENT)
    by_table = _without(facts, agents & always) if agents & always else facts
    clear = find(by_table).health is Health.HEALTHY or not by_table.calls
    warning = FAILED_BY_AGENT if clear else PROVOKED_SUSPECTED
    return _kept(weighed, warning, found.evidence, attributed)


def _counts(facts: Evidence) -> bool:
    """Return True if the evidence is complete: nothing was lost, and the runner has reported."""
    return facts.outcome is not None and not facts.rollout.gaps


def _kept(
    weighed: AttributedFinding,
    warning: str,
    decided: Iterable[str],
    attributed: Mapping[str, Attributed],
) -> AttributedFinding:
    return replace(
        weighed,
        finding=Finding(health=Health.HEALTHY, rule="healthy", evidence=weighed.finding.evidence),
        attributed_to=AttributedTo.AGENT,
        corroborated=_together(attributed[call] for call in decided if call in attributed),
        warnings=(warning,),
    )


def _agent_can_cause(finding: Finding, facts: Evidence) -> bool:
    """Return True if an agent can cause a finding by itself, without any failed call."""
    if finding.health is Health.NOT_JUDGED:
        return not unprompted(facts.outcome)
    if finding.unproven:
        return facts.outcome is not None
    return finding.health is Health.SUSPECTED_API_ERROR


def _decided(
    weighed: AttributedFinding, attributed: Mapping[str, Attributed], find: Find, *, untrusted: bool
) -> AttributedFinding:
    """Name whose failures decided; undecided where they are the proxy's own."""
    finding = weighed.finding
    ours = _ids_of(attributed, AttributedTo.PROXY)
    if finding.health.unhealthy and not ours.isdisjoint(finding.evidence):
        finding = find(_without(weighed.facts, ours))
        if finding.health is not Health.API_ERROR:
            hanging = tuple(call for call in weighed.finding.evidence if call in ours)
            return replace(
                weighed,
                finding=Finding(health=Health.UNDECIDED, rule="undecided", evidence=hanging),
                attributed_to=AttributedTo.PROXY,
                warnings=(FAILED_BY_PROXY,),
                keeps=False,
            )
    if finding.health is not Health.API_ERROR:
        warnings = (NOTHING_READ,) if finding.unproven else ()
        return replace(weighed, finding=finding, warnings=warnings)
    deciding = [attributed[x.id] for x in finding.strongest or finding.failures]
    proven = _together(deciding)
    to = Counter(each.to for each in deciding).most_common(1)[0][0]
    doubtful = untrusted and to is AttributedTo.OPERATOR and proven is None
    return replace(
        weighed,
        finding=finding,
        attributed_to=to,
        corroborated=proven,
        warnings=(UNCORROBORATED,) if doubtful else (),
    )


def _together(attributed: Iterable[Attributed]) -> bool | None:
    """Return True where any is proven, False where any is contradicted and none is proven."""
    found = {each.corroborated for each in attributed}
    return next((value for value in (True, False) if value in found), None)
