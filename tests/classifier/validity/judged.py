"""Rollouts for checks: calls with the facts that a check reads, and what judging finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from classifier import judge
from classifier.records import Exchange, RolloutRecord, Usage, UsageSource
from classifier.verdicts import ValidityFinding
from tests.builders import calls, rollout

_USAGE = frozenset(field.name for field in fields(Usage))


def call(text: str = "200+tool", **facts: Any) -> Exchange:
    """One call as ``tests.builders`` writes it, with these facts; those of ``Usage`` too.

    ``input`` and ``output`` set both the stated count and the normalised total.
    """
    (built,) = calls(text)
    for side in ("input", "output"):
        if side in facts:
            facts[f"{side}_tokens"] = facts[f"{side}_total"] = facts.pop(side)
    counts = {name: facts.pop(name) for name in list(facts) if name in _USAGE}
    if counts:
        stated = {"total_tokens": None, "source": UsageSource.PROVIDER} | counts
        facts["usage"] = replace(built.usage, **stated)
    return replace(built, **facts)


def record(exchanges: Iterable[Exchange], **said: Any) -> RolloutRecord:
    """A rollout of these calls, one a second, named x0, x1 and so on."""
    built = tuple(
        replace(x, id=f"x{at}", timing=replace(x.timing, started_at=x.timing.started_at + at))
        for at, x in enumerate(exchanges)
    )
    return replace(rollout(**said), exchanges=built)


def found(check: str, judged: RolloutRecord) -> ValidityFinding | None:
    """What the check finds of a rollout; its calls in any order give the same."""
    verdict = judge(judged)
    turned = judge(replace(judged, exchanges=judged.exchanges[::-1]))
    assert turned.validity == verdict.validity
    assert turned.validity_coverage == verdict.validity_coverage
    finding = next((each for each in verdict.validity if each.check == check), None)
    if finding is not None:
        ids: Mapping[str, object] = {x.id: x for x in judged.exchanges}
        assert 0 < finding.calls <= finding.of, finding
        assert set(finding.evidence) <= ids.keys(), finding
        assert len(finding.evidence) <= 10, finding
        assert finding.sentence, finding
    return finding


def level(check: str, judged: RolloutRecord) -> str | None:
    """The finding's level, None where there is none."""
    finding = found(check, judged)
    return None if finding is None else finding.level.value
