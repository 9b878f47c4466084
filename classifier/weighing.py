"""Weigh a finding by whose failures it stands on: the agent's take no reward away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from classifier.attribution import Attributed, attribute
from classifier.evidence import Evidence, unprompted
from classifier.findings import Finding
from classifier.policy import UNTRUSTED
from classifier.verdicts import PROVOKED_SUSPECTED, UNCORROBORATED, AttributedTo, Health

FAILED_BY_AGENT = "failed_by_agent"
FAILED_BY_PROXY = "calls_failed_by_proxy"
# What weighing adds to a verdict's warnings, at most one of them.
WEIGHED = (FAILED_BY_AGENT, PROVOKED_SUSPECTED, UNCORROBORATED, FAILED_BY_PROXY)

Find = Callable[[Evidence], Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
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


def weigh(facts: Evidence, find: Find) -> Weighed:
    """Return what a rollout's rules find once the agent's own failures are left out.

    Arguments:
        find: the first rule that fires on evidence.
    """
    agents_are = facts.rollout.agents or facts.policy.agents
    untrusted = agents_are == UNTRUSTED
    found = find(facts)
    if found.health is Health.HEALTHY and not (untrusted or facts.tail.calls):
        return Weighed(finding=found, facts=facts)  # nothing hangs on a failure
    attributed = attribute(facts, agents=agents_are)
    agents = _ids_of(attributed, AttributedTo.AGENT)
    kept = _without(facts, agents) if agents else facts
    if agents.isdisjoint(found.evidence):
        weighed = Weighed(finding=found, facts=kept)
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
) -> Weighed:
    """Find anew without the agent's failures, on which the first finding stood."""
    finding = find(kept)
    if not kept.calls and not unprompted(facts.outcome) and _counts(facts):
        finding = Finding(health=Health.HEALTHY, rule="healthy")
    weighed = Weighed(finding=finding, facts=kept)
    if finding.health is not Health.HEALTHY:
        return weighed
    always = frozenset(call for call, each in attributed.items() if each.always)
    agents = _ids_of(attributed, AttributedTo.AGENT)
    by_table = _without(facts, agents & always) if agents & always else facts
    clear = find(by_table).health is Health.HEALTHY or not by_table.calls
    warning = FAILED_BY_AGENT if clear else PROVOKED_SUSPECTED
    return _kept(weighed, warning, found.evidence, attributed)


def _counts(facts: Evidence) -> bool:
    """Whether what was seen is all there will be: nothing was lost, and the runner reported."""
    return facts.outcome is not None and not facts.rollout.gaps


def _kept(
    weighed: Weighed,
    warning: str,
    decided: Iterable[str],
    attributed: Mapping[str, Attributed],
) -> Weighed:
    return replace(
        weighed,
        finding=Finding(health=Health.HEALTHY, rule="healthy", evidence=weighed.finding.evidence),
        attributed_to=AttributedTo.AGENT,
        corroborated=_together(attributed[call] for call in decided if call in attributed),
        warnings=(warning,),
    )


def _agent_can_cause(finding: Finding, facts: Evidence) -> bool:
    """Whether an agent can bring a finding about by itself, without one failure of a call."""
    if finding.health is Health.NOT_JUDGED:
        return not unprompted(facts.outcome)
    return finding.health is Health.SUSPECTED_API_ERROR


def _decided(
    weighed: Weighed, attributed: Mapping[str, Attributed], find: Find, *, untrusted: bool
) -> Weighed:
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
        return replace(weighed, finding=finding)
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
