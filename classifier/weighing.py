"""Weigh a verdict by whose failures it rests on: failures of the agent's own cost it no reward.

`classifier.attribution` says whose each failed call was. Reference calls ask about the failures
that decide a verdict, and about an end without output; a warning says what they leave open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from classifier.attribution import (
    ALWAYS,
    DOUBTS,
    UNTRUSTED_ROWS,
    Attributed,
    Row,
    attribute,
    failure_of,
)
from classifier.evidence import Evidence, Finding, Strength, unprompted
from classifier.logical_calls import CallState, filtered, is_abort, says_nothing
from classifier.records import Ending, Exchange
from classifier.reference_rules import Failure, as_slow, compare
from classifier.references import CUT_SHORT, OTHER_WORDS, UNASKABLE, WORDLESS, ReferenceSeries
from classifier.verdicts import (
    NO_REFERENCE,
    NOTHING_READ,
    PROVOKED_SUSPECTED,
    REFERENCE_INCONCLUSIVE,
    REFERENCE_PARTLY,
    REFERENCE_PENDING,
    AttributedTo,
    Comparison,
    Health,
    Subcategory,
    VerdictReference,
)

Find = Callable[[Evidence], Finding]

FAILED_BY_AGENT = "failed_by_agent"
FAILED_BY_PROXY = "calls_failed_by_proxy"
# What weighing adds to a verdict's warnings.
WEIGHED = (
    NOTHING_READ, FAILED_BY_AGENT, PROVOKED_SUSPECTED, FAILED_BY_PROXY, NO_REFERENCE,
    REFERENCE_PENDING, REFERENCE_PARTLY, REFERENCE_INCONCLUSIVE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedFinding:
    """A finding, and whose failures it rests on.

    ``facts`` are the evidence without the agent's failures. ``attributed_to`` says whose failures
    decided; the agent, if its failures would have decided and were left out. ``keeps``: the reward
    counts, whatever else is unknown. ``doubtful``: reference calls leave open whose failures
    decided. ``pending``: one is still to be asked.
    """

    finding: Finding
    facts: Evidence
    attributed_to: AttributedTo | None = None
    corroborated: bool | None = None
    warnings: tuple[str, ...] = ()
    keeps: bool = False
    doubtful: bool = False
    pending: bool = False


def weigh(facts: Evidence, find: Find, rows: Sequence[Row] = UNTRUSTED_ROWS) -> AttributedFinding:
    """Return what a rollout's rules find once the agent's own failures are left out.

    Arguments:
        find: the first rule that fires on evidence.
        rows: as of `attribute`.
    """
    untrusted = facts.untrusted
    found = find(facts)
    if found.health is Health.HEALTHY and not (untrusted or facts.tail.calls):
        return AttributedFinding(finding=found, facts=facts)  # nothing hangs on a failure
    attributed = attribute(facts, rows)
    agents = _ids_of(attributed, AttributedTo.AGENT)
    kept = _without(facts, agents)
    if agents.isdisjoint(found.evidence):
        weighed = AttributedFinding(finding=found, facts=kept)
    else:
        weighed = _of_the_agent(facts, kept, found, attributed, find)
    if untrusted and weighed.finding.health is not Health.API_ERROR and _spoilt_for_all(kept):
        weighed = replace(
            weighed,
            attributed_to=AttributedTo.UNKNOWN,
            warnings=(REFERENCE_INCONCLUSIVE,),
            doubtful=True,
        )
        return _with_references(weighed, facts, find, rows)
    lost = _lost_last(facts) if untrusted and weighed.finding.health is Health.HEALTHY else None
    if lost is not None:
        weighed = _of_lost_state(weighed, lost, attributed)
        return _with_references(weighed, facts, find, rows)
    if untrusted and _agent_can_cause(weighed.finding, kept):
        weighed = _kept(weighed, PROVOKED_SUSPECTED, (), attributed)
    weighed = replace(weighed, keeps=untrusted or weighed.attributed_to is AttributedTo.AGENT)
    if weighed.attributed_to is not AttributedTo.AGENT:
        weighed = _decided(weighed, attributed, find)
    return _with_references(weighed, facts, find, rows) if untrusted else weighed


def _with_references(
    weighed: AttributedFinding, facts: Evidence, find: Find, rows: Sequence[Row]
) -> AttributedFinding:
    """Mark a finding as pending while a reference call runs, or warn if none can be asked."""
    known = [facts.rollout.references.get(x.id) for x in _asked_about(facts, find, rows)]
    if any(each is not None and each.running for each in known):
        return replace(
            weighed,
            attributed_to=AttributedTo.UNKNOWN,
            corroborated=None,
            warnings=(REFERENCE_PENDING,),
            keeps=False,
            doubtful=True,
            pending=True,
        )
    if weighed.attributed_to is None or all(x and x.not_run not in UNASKABLE for x in known):
        return weighed
    return replace(weighed, warnings=(*weighed.warnings, NO_REFERENCE))


def _ids_of(attributed: Mapping[str, Attributed], to: AttributedTo) -> frozenset[str]:
    return frozenset(call for call, each in attributed.items() if each.to is to)


def _apart(attributed: Mapping[str, Attributed]) -> frozenset[str]:
    """Return the failures that are no evidence: the proxy's own, and refusals by the harness."""
    harness = {call for call, each in attributed.items() if each.row == "harness"}
    return _ids_of(attributed, AttributedTo.PROXY) | harness


def _without(facts: Evidence, calls: Collection[str]) -> Evidence:
    if not calls:
        return facts
    exchanges = tuple(x for x in facts.rollout.exchanges if x.id not in calls)
    return Evidence.of(replace(facts.rollout, exchanges=exchanges), facts.policy)


def _of_the_agent(
    facts: Evidence,
    kept: Evidence,
    found: Finding,
    attributed: Mapping[str, Attributed],
    find: Find,
) -> AttributedFinding:
    """Apply the rules again without the agent's failures, on which the first finding rested."""
    finding = find(kept)
    left_nothing = finding.unproven or (not kept.calls and not unprompted(facts.outcome))
    complete = facts.outcome is not None and not facts.rollout.gaps
    if left_nothing and complete:
        finding = Finding(health=Health.HEALTHY, rule="healthy")
    weighed = AttributedFinding(finding=finding, facts=kept)
    if finding.health is not Health.HEALTHY:
        return weighed
    always = {row.name for row in ALWAYS}
    agents = _ids_of(attributed, AttributedTo.AGENT)
    by_table = _without(facts, {call for call in agents if attributed[call].row in always})
    clear = find(by_table).health is Health.HEALTHY or not by_table.calls
    warning = FAILED_BY_AGENT if clear else PROVOKED_SUSPECTED
    return _kept(weighed, warning, found.evidence, attributed)


def _of_lost_state(
    weighed: AttributedFinding, lost: Exchange, attributed: Mapping[str, Attributed]
) -> AttributedFinding:
    """Attribute an end on lost state; the reward counts if the agent caused it."""
    if attributed[lost.id].to is not AttributedTo.AGENT:
        return _named(weighed, [attributed[lost.id]])
    return replace(_kept(weighed, PROVOKED_SUSPECTED, (lost.id,), attributed), keeps=True)


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
    return finding.health is Health.SUSPECTED_API_ERROR and not _left_to_references(finding, facts)


def _left_to_references(finding: Finding, facts: Evidence) -> bool:
    """Return True if reference calls decide a suspicion, as they decide rejected requests."""
    decided = frozenset(finding.evidence)
    return facts.untrusted and any(x.id in decided for x in facts.failures)


def _decided(
    weighed: AttributedFinding, attributed: Mapping[str, Attributed], find: Find
) -> AttributedFinding:
    """Attribute a finding that stands; undecided if it rests on failures that are no evidence."""
    finding = weighed.finding
    apart = _apart(attributed)
    if finding.health.unhealthy and not apart.isdisjoint(finding.evidence):
        finding = find(_without(weighed.facts, apart))
        if finding.health is not Health.API_ERROR:
            hanging = tuple(call for call in weighed.finding.evidence if call in apart)
            ours = any(attributed[call].to is AttributedTo.PROXY for call in hanging)
            return replace(
                weighed,
                finding=Finding(health=Health.UNDECIDED, rule="undecided", evidence=hanging),
                attributed_to=AttributedTo.PROXY if ours else AttributedTo.OPERATOR,
                warnings=(FAILED_BY_PROXY,) if ours else (),
                keeps=False,
            )
    decided = [x.id for x in finding.strongest or finding.failures]
    if finding.health is Health.SUSPECTED_API_ERROR and _left_to_references(finding, weighed.facts):
        decided = [call for call in finding.evidence if call in attributed]
    if not decided:
        warnings = (NOTHING_READ,) if finding.unproven else ()
        return replace(weighed, finding=finding, warnings=warnings)
    return _named(replace(weighed, finding=finding), [attributed[call] for call in decided])


def _named(weighed: AttributedFinding, deciding: Sequence[Attributed]) -> AttributedFinding:
    """Attribute a finding to the deciding calls: certain ones outweigh those left open."""
    certain = [each for each in deciding if each.row not in DOUBTS]
    partly = [each for each in deciding if each.row == "partly"]
    warnings: tuple[str, ...] = ()
    if not certain:
        warnings = (REFERENCE_PARTLY if partly else REFERENCE_INCONCLUSIVE,)
    some = certain or partly or deciding
    return replace(
        weighed,
        attributed_to=Counter(each.to for each in some).most_common(1)[0][0],
        corroborated=_together(some),
        warnings=warnings,
        doubtful=not certain,
    )


def _together(attributed: Iterable[Attributed]) -> bool | None:
    """Return True where any is proven, False where any is contradicted and none is proven."""
    found = {each.corroborated for each in attributed}
    return next((value for value in (True, False) if value in found), None)


# --- what is asked about ---


def wanted(facts: Evidence, find: Find, rows: Sequence[Row] = UNTRUSTED_ROWS) -> list[Exchange]:
    """Return the calls beside which a verdict still needs reference calls, oldest first.

    Arguments:
        find: the first rule that fires on evidence.
        rows: as of `attribute`.
    """
    asked = _asked_about(facts, find, rows)
    return [x for x in asked if x.id not in facts.rollout.references]


def _asked_about(facts: Evidence, find: Find, rows: Sequence[Row]) -> list[Exchange]:
    """Return the first and the last failure that would take the reward away, and a bad last call.

    A content filter that ends a rollout is asked about even if agents are trusted.
    """
    ended = facts.tail.failures[-1:] if not facts.tail.continued else ()
    stopped = [x for x in ended if filtered(x)]
    if not facts.untrusted:
        return stopped
    last = _without_output(facts)
    ends = [] if last is None else [last]
    if not facts.failures:
        return ends
    attributed = attribute(facts, rows, asked=False)
    kept = _without(facts, _ids_of(attributed, AttributedTo.AGENT) | _apart(attributed))
    finding = find(kept)
    deciding = [x for x in facts.failures if x.id in finding.evidence]
    lost = _lost_last(kept) if finding.health is Health.HEALTHY else None
    asked = [*deciding[:1], *deciding[1:][-1:], *ends, *([] if lost is None else [lost]), *stopped]
    return list({x.id: x for x in asked}.values())


def _without_output(facts: Evidence) -> Exchange | None:
    """Return the main lane's last call if it was abandoned, aborted by its engine, or says nothing.

    None if the cause of a failure is known.
    """
    last = facts.main[-1] if facts.main else None
    if last is None or last.last.cause is not None:
        return None
    call = last.last
    left = last.state is CallState.UNANSWERED and _left(call) and not call.output_seen
    aborted = last.state is CallState.ANSWERED and is_abort(call.finish_reason)
    return call if left or aborted or says_nothing(call) else None


def _left(call: Exchange) -> bool:
    return call.ending is Ending.LEFT_BY_AGENT and not call.held


def _lost_last(facts: Evidence) -> Exchange | None:
    """Return the last call that failed by the conversation's state, if the rollout ended on it."""
    tail = facts.tail
    ended = tail.strength is Strength.LOST_STATE and not tail.continued
    return tail.strongest[-1] if ended else None


def _spoilt_for_all(facts: Evidence) -> bool:
    """Return True if the last call had no output or was abandoned, and so was a question beside it.

    A question that was not asked, or that is no evidence for another reason, says nothing.
    """
    last = _without_output(facts)
    series = None if last is None else facts.rollout.references.get(last.id)
    if last is None or series is None or series.running or is_abort(last.finish_reason):
        return False
    no_better = {WORDLESS} if last.output_reads_as is None else {WORDLESS, OTHER_WORDS, CUT_SHORT}
    waited_s = (last.timing.duration_s or 0.0) if _left(last) else 0.0
    return any(
        call.reason in no_better if call.answered is None
        else as_slow(call, waited_s) if call.answered
        else not call.explained
        for call in series.calls
    )  # fmt: skip


def references_of(facts: Evidence) -> list[VerdictReference]:
    """Return the reference calls beside a rollout's calls, as its verdict reports them."""
    found = facts.rollout.references
    calls = [x for x in facts.rollout.exchanges if x.id in found]
    return [found[x.id].beside(x.id, _compared(found[x.id], x)) for x in calls]


def _compared(series: ReferenceSeries, call: Exchange) -> Comparison | None:
    """Compare a failed call, or one that its engine aborted midway, with a series."""
    if call.cause is None and is_abort(call.finish_reason):
        return compare(series, Failure(Subcategory.PROVIDER_ERROR, silent=True))
    return compare(series, failure_of(call))
