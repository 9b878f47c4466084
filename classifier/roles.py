"""The small verdicts on the calls of roles other than the agent: judges, simulated users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from classifier.evidence import Evidence
from classifier.findings import Finding
from classifier.fingerprints import cause_name
from classifier.policy import Policy
from classifier.records import ExecutionStatus, Outcome, RolloutRecord
from classifier.totals import dominant
from classifier.verdicts import Health, RoleVerdict

AGENT = "agent"
_ENDED = Outcome(status=ExecutionStatus.SUCCESS)


def role_verdicts(
    rollout: RolloutRecord, policy: Policy, find: Callable[[Evidence], Finding]
) -> dict[str, RoleVerdict]:
    """Judge the calls of each role by itself, as an agent's; roles in alphabetic order.

    What the registration and the outcome say is of the agent, and does not count here. A role
    that made no inference call has no verdict.

    Arguments:
        find: the first rule that fires on evidence.
    """
    roles = sorted({x.role for x in rollout.exchanges} - {AGENT})
    found = {role: _of(role, rollout, policy, find) for role in roles}
    return {role: verdict for role, verdict in found.items() if verdict is not None}


def _of(
    role: str, rollout: RolloutRecord, policy: Policy, find: Callable[[Evidence], Finding]
) -> RoleVerdict | None:
    calls = tuple(replace(x, role=AGENT) for x in rollout.exchanges if x.role == role)
    record = RolloutRecord(
        id=rollout.id,
        exchanges=calls,
        outcome=None if rollout.outcome is None else _ENDED,
        content_filter="failure",  # a judge without an answer has not judged
    )
    facts = Evidence.of(record, policy)
    if not facts.calls:
        return None
    finding = find(facts)
    top = None
    if finding.health is Health.API_ERROR:
        top = dominant(finding.strongest or finding.failures)
    verdict = RoleVerdict(
        health=finding.health,
        rule=finding.rule,
        total_requests=len(facts.calls),
        failed_requests=sum(bool(call.failures) for call in facts.calls),
        evidence=finding.evidence[-10:],
        error=finding.sentence,
    )
    if top is None:
        return verdict
    cause, status = top.cause, top.status
    failed = "no answer" if status is None else f"HTTP {status}"
    return replace(
        verdict,
        subcategory=cause.subcategory,
        cause=cause_name(
            cause.subcategory, top.example.upstream, status, cause.code or cause.reason
        ),
        error=f"{failed} {finding.share}",
    )
