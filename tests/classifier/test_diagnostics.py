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
    OwnFailureInfo,
    check_lines,
    declare,
    diagnose,
    kinds,
    summaries,
)
from classifier.records import RolloutRecord
from tests.builders import rollout
from tests.classifier.entries_summary import summarize


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

        def check_line(self, name: str) -> str:
            return f"{name}: waited {self.lost_s:g} s"

    yield SlowInfo
    REGISTRY.pop("slow_info")


def test_a_new_kind_is_one_declaration(slow_kind: type[Diagnostic]) -> None:
    seen = rollout("429 200")
    record = result(seen, judge(seen))
    assert encode_result(record)["slow_info"] == {"lost_s": 1.0}
    batch = summarize([Entry.of(record)])
    assert batch.summaries == ("1 waited for a provider",)
    assert batch.check.lines == ("task-7: waited 1 s",)
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


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        (
            "401*4",
            {},
            (
                "task-7: not a measurement: no model ever answered "
                "(auth, permanent, HTTP 401 on 4 of 4 calls)"
            ),
        ),
        (
            "200+side 503*2",
            {},
            (
                "task-7: not a measurement: the model under test never answered "
                "(provider_error, transient, HTTP 503 on 2 of 2 calls to gpt-5)"
            ),
        ),
        (
            "200 429",
            {},
            (
                "task-7: not a measurement: the agent was cut off "
                "(rate_limit, transient, HTTP 429 on the last 1 of 2 calls)"
            ),
        ),
        (
            "",
            {},
            (
                "task-7: suspect measurement: nothing shows that a model was asked "
                "(a prompt was executed, yet no call, token or tool call was seen)"
            ),
        ),
        (
            "200+empty*2",
            {},
            (
                "task-7: suspect measurement: every answer was empty "
                "(2 answered of 2 calls, none carried any output)"
            ),
        ),
        ("200 lost", {}, "task-7: not decided: evidence is missing (calls lost)"),
        ("200", {"gaps": 3}, "task-7: not decided: evidence is missing (calls unrecorded)"),
        (
            "",
            {"unattributed_calls": 3},
            "task-7: not decided: evidence is missing (calls unattributed)",
        ),
        ("", {"prompts_executed": 0}, "task-7: not a measurement: no prompt was executed"),
        (
            "",
            {"error": "exit code 127"},
            "task-7: not a measurement: the agent made no call before its error",
        ),
        (
            "200+side left*2",
            {},
            (
                "task-7: suspect measurement: no answer came while the agent waited "
                "(the agent gave up each of its 2 calls before an answer came)"
            ),
        ),
        (
            "200+tool 400*2",
            {},
            (
                "task-7: suspect measurement: it ended in rejections that nothing explains "
                "(HTTP 400 without a reason on 2 of the last 2 calls, and no answer after them)"
            ),
        ),
        (
            "200+tool 400",
            {},
            (
                "task-7: suspect measurement: "
                "its last request was rejected, and nothing explains why"
            ),
        ),
        (
            "302+empty",
            {},
            "task-7: not decided: evidence is missing (calls never answered, nothing read)",
        ),
    ],
)
def test_a_check_line_says_what_is_wrong_and_why(
    text: str, said: dict[str, Any], line: str
) -> None:
    assert check_lines(judge(rollout(text, **said)), "task-7") == [line]


def aborted(**said: Any) -> RolloutRecord:
    record = rollout("200 200+judge 200", **said)
    *before, last = record.exchanges
    return replace(record, exchanges=(*before, replace(last, finish_reason="abort")))


def test_a_spoilt_measurement_is_named_where_its_score_does_not_count() -> None:
    verdict = judge(aborted())
    assert (verdict.scoreable, verdict.excluded_by) == ("no", ("engine_aborted",))
    assert check_lines(verdict, "task-7") == [
        (
            "task-7: not a measurement: the engine aborted 1 of 2 answers, the last one among them "
            "(engine_aborted)"
        ),
    ]
    assert summaries([verdict, verdict]) == [
        "2 rollouts reached a model, but their scores do not count: see validity_info"
    ]
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


def test_a_dead_judges_cause_is_in_the_line() -> None:
    assert check_lines(judge(rollout("200 429+judge+quota*3")), "t") == [
        (
            "t: not a measurement: role judge did not reach its model in 3 of 3 calls (quota) "
            "(judge_failed)"
        ),
    ]


def test_a_summary_is_one_sentence_for_each_kind_there_is() -> None:
    verdicts = [judge(rollout(text)) for text in ("401", "429", "200", "", "200 lost")]
    assert summaries(verdicts) == [
        "2 rollouts failed on provider errors: see api_error_info",
        "1 rollout suggests a provider failure: see suspected_api_error_info",
        "1 rollout lacks evidence: see undecided_info",
    ]
    assert summaries([judge(rollout("200"))]) == []


# --- The register of kinds ------------------------------------------------------------------------


def test_two_kinds_cannot_own_one_field() -> None:
    with pytest.raises(ValueError, match="api_error_info"):
        declare(type(ApiErrorInfo.__name__, (ApiErrorInfo,), {}))


@pytest.mark.parametrize(
    ("provoked", "said"),
    [(True, "provoked, it is suspected"), (False, "the agent failed its own calls")],
)
def test_failures_beside_the_model_are_not_counted_out_of_none(provoked: bool, said: str) -> None:
    info = OwnFailureInfo(
        provoked=provoked, corroborated=None, status_counts={}, total_requests=0, failed_requests=0
    )
    line = f"t1: its reward counts: {said} (none of its calls asked the model)"
    assert info.check_line("t1") == line
