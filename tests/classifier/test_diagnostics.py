"""One declaration makes a kind known everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import pytest

from classifier import Verdict, judge, result
from classifier.batches import Entry
from classifier.codec import encode_result
from classifier.diagnostics import (
    REGISTRY,
    ApiErrorInfo,
    Diagnostic,
    declare,
    diagnose,
    kinds,
)
from classifier.records import RolloutRecord
from tests.builders import rollout, summarized


@pytest.fixture
def slow_kind() -> Iterator[type[Diagnostic]]:
    @declare
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SlowInfo(Diagnostic):
        field: ClassVar[str] = "slow_info"
        category: ClassVar[str] = "slow"
        lost_s: float

        @classmethod
        def of(cls, verdict: Verdict) -> Self | None:
            return cls(lost_s=verdict.lost_s) if verdict.lost_s else None

        @classmethod
        def summary(cls, count: int) -> str:
            return f"{count} waited for a provider"

    yield SlowInfo
    REGISTRY.pop("slow_info")


def test_a_new_kind_is_one_declaration(slow_kind: type[Diagnostic]) -> None:
    seen = rollout("429 200")
    record = result(seen, judge(seen))
    assert encode_result(record)["slow_info"] == {"lost_s": 1.0}
    batch = summarized([Entry.of(record)])
    assert batch.summaries == ("1 waited for a provider",)
    assert batch.check.lines == ("task-7: counts: the model answered 1 of 2 calls",)
    assert batch.check.valid is False


def test_a_kind_that_does_not_apply_leaves_its_field_empty(slow_kind: type[Diagnostic]) -> None:
    seen = rollout("200")
    assert encode_result(result(seen, judge(seen)))["slow_info"] is None


def test_every_unhealthy_health_has_a_kind() -> None:
    assert [kind.field for kind in kinds()] == [
        "api_error_info",
        "suspected_api_error_info",
        "undecided_info",
        "not_judged_info",
        "unscoreable_info",
        "validity_info",
        "own_failure_info",
    ]
    unasked = judge(rollout(prompts_executed=0))
    for verdict in (judge(rollout("401")), judge(rollout()), judge(rollout("lost")), unasked):
        assert [d.category for d in diagnose(verdict)] == [verdict.health.value]
    assert diagnose(judge(rollout("200"))) == ()
    assert diagnose(judge(rollout("200 400", running=True))) == ()


def aborted(**said: Any) -> RolloutRecord:
    record = rollout("200 200+judge 200", **said)
    *before, last = record.exchanges
    return replace(record, exchanges=(*before, replace(last, finish_reason="abort")))


def test_a_spoilt_measurement_is_named_where_its_score_does_not_count() -> None:
    verdict = judge(aborted())
    assert (verdict.scoreable, verdict.excluded_by) == ("no", ("engine_aborted",))
    assert verdict.sentence == (
        "does not count: the engine aborted 1 of 2 answers, the last one among them "
        "(engine_aborted); run it again after 1 s"
    )
    counts = replace(aborted(), validity="none")
    assert (judge(counts).excluded_by, diagnose(judge(counts))) == ((), ())
    assert diagnose(judge(aborted(running=True))) == ()


def test_out_of_steps_is_the_policys_reason_and_no_finding() -> None:
    record = rollout("200", termination_reason="max_steps")
    verdict = judge(replace(record, max_steps="exclude"))
    assert (verdict.scoreable, verdict.excluded_by) == ("no", ("max_steps",))
    assert diagnose(verdict) == ()
    untrusted = judge(replace(record, max_steps="exclude", agents="untrusted"))
    assert (untrusted.scoreable, untrusted.excluded_by) == ("yes", ()), "its own doing"
    both = judge(replace(aborted(termination_reason="max_steps"), max_steps="exclude"))
    assert both.excluded_by == ("max_steps", "engine_aborted")
    (info,) = diagnose(both)
    assert info.field == "validity_info"


# --- The register of kinds ------------------------------------------------------------------------


def test_two_kinds_cannot_own_one_field() -> None:
    with pytest.raises(ValueError, match="api_error_info"):
        declare(type(ApiErrorInfo.__name__, (ApiErrorInfo,), {}))
