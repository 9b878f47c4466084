from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from classifier import judge
from classifier.records import Exchange, RolloutRecord
from classifier.validity.answers import (
    ENGINE_ABORTED,
    PROMPT_TRUNCATED,
)
from classifier.verdicts import ValidityFinding
from tests.builders import rollout
from tests.classifier.validity.judged import call, found, record

# --- Prompts that were read in part only ----------------------------------------------------------


def conversation(counts: Sequence[int | None], grown: int = 2000, **facts: Any) -> list[Exchange]:
    """Calls that go on with each other, of so many input tokens, each so many bytes longer."""
    text = facts.pop("text", "200+tool")
    return [
        call(
            text,
            input=count,
            continues=f"x{at - 1}" if at else None,
            request_bytes=40_000 + at * grown,
            **facts,
        )
        for at, count in enumerate(counts)
    ]


def falling(times: int) -> RolloutRecord:
    """A conversation whose count falls at every second call."""
    return record(_sawtooth(times))


def _sawtooth(times: int) -> Iterable[Exchange]:
    return conversation([9_000 if at % 2 else 4_000 for at in range(times)], grown=6_000)


def test_every_second_call_may_fall() -> None:
    finding = found(PROMPT_TRUNCATED, falling(40))
    assert finding is not None
    assert (finding.calls, finding.of, len(finding.evidence)) == (19, 39, 10)
    assert judge(falling(40)).health.value == "healthy"


# --- An engine that stopped in the middle of an answer --------------------------------------------


def finding(*reasons: str | None) -> ValidityFinding | None:
    record = rollout(" ".join(["200+tool"] * len(reasons)))
    calls = zip(record.exchanges, reasons, strict=True)
    exchanges = tuple(replace(call, finish_reason=reason) for call, reason in calls)
    verdict = judge(replace(record, exchanges=exchanges))
    assert verdict.health.value == "healthy"
    return next((found for found in verdict.validity if found.check == ENGINE_ABORTED), None)
