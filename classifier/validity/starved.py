"""The task timed out while the agent waited for the provider.

Agents spend most of their time waiting for a model, so that alone is worth knowing and no more. It
is suspect where the time was lost to failures, or where so little came that the provider was slow
whatever the model wrote: engines and APIs write tens to hundreds of tokens a second
(artificialanalysis.ai/models, output speed).
"""

from __future__ import annotations

from classifier.evidence import Evidence
from classifier.logical_calls import output_tokens
from classifier.records import Exchange, ExecutionStatus
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

STARVED = "starved"
_MOST = 0.5  # of the wall time
_SLOW = 5.0  # output tokens a second
_LONGEST_CALLS = 10


def starved(measured: Measurement) -> Looked | None:
    """Say how much of a timed-out task's time went into waiting for the provider."""
    facts = measured.facts
    outcome = facts.outcome
    timed_out = outcome is not None and outcome.status is ExecutionStatus.TASK_TIMEOUT
    if not timed_out or not facts.calls:
        return None
    time = measured.time
    provider, lost, agent = time.provider_s, time.lost_s, time.agent_s
    of = len(facts.calls)
    if provider is None or lost is None or agent is None:
        return Looked(coverage=Coverage(looked=0, of=of))
    coverage = Coverage(looked=of, of=of)
    wall = provider + lost + agent
    if provider + lost <= wall * _MOST:
        return Looked(coverage=coverage)
    made = _made(facts)
    slow = made is not None and made < provider * _SLOW
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=STARVED,
            level=Level.SUSPECT if slow or lost > wall * _MOST else Level.INFO,
            calls=of,
            of=of,
            evidence=ids_of(_longest(facts)),
            sentence=_sentence(provider, lost, wall, made),
            about={"provider_s": provider, "lost_s": lost, "agent_s": agent, "output_tokens": made},
        ),
    )


def _made(facts: Evidence) -> int | None:
    """Sum the output tokens; None where a call wrote some that were not counted."""
    if any(output_tokens(x) is None and _may_have_written(x) for x in facts.exchanges):
        return None
    return sum(output_tokens(x) or 0 for x in facts.exchanges)


def _may_have_written(call: Exchange) -> bool:
    return call.status is not None and call.cause is None and call.output_seen is not False


def _longest(facts: Evidence) -> list[Exchange]:
    """Return the calls that took longest, in their order."""
    longest = sorted(facts.exchanges, key=lambda x: -(x.timing.duration_s or 0.0))[:_LONGEST_CALLS]
    ids = {x.id for x in longest}
    return [x for x in facts.exchanges if x.id in ids]


def _sentence(provider: float, lost: float, wall: float, made: int | None) -> str:
    told = f"the task timed out after {wall:,.0f} s, of which the provider took {provider:,.0f} s"
    if lost:
        told += f" and its failures {lost:,.0f} s"
    return told if made is None else f"{told} for {plural(made, 'token')} of output"
