"""All checks of one rollout, and what a finding does to its score."""

from __future__ import annotations

from dataclasses import replace

from classifier import judge
from classifier.__main__ import judge_export
from classifier.codec import decode_verdict, encode_verdict
from classifier.evidence import Evidence
from classifier.records import RolloutRecord
from classifier.totals import TimeAccount
from classifier.validity import CHECKS, examine, invalidates
from classifier.validity.measurement import Measurement
from classifier.verdicts import EVIDENCE, Level, ValidityFinding
from tests.builders import STARTED
from tests.classifier.test_export import exported
from tests.classifier.validity.judged import call
from tests.classifier.validity.judged import record as judged_record
from tests.opcodes import opcodes

ABORTED = ValidityFinding(
    check="engine_aborted", level=Level.SUSPECT, calls=1, of=2, evidence=(), sentence=""
)


def test_the_policy_says_from_which_level_a_finding_takes_a_score() -> None:
    for validity, levels in (
        ("invalid", [Level.INVALID]),
        ("suspect", [Level.SUSPECT, Level.INVALID]),
        ("none", []),
    ):
        found = [replace(ABORTED, level=level) for level in Level]
        spoilt = [f.level for f in found if invalidates(f, validity=validity, untrusted=False)]
        assert spoilt == levels, validity


def test_what_untrusted_agents_can_cause_takes_no_score() -> None:
    for check in CHECKS:
        found = replace(ABORTED, check=check.name, level=Level.INVALID)
        assert invalidates(found, validity="suspect", untrusted=False), check.name
        counted = not check.agent_can_cause
        assert invalidates(found, validity="suspect", untrusted=True) == counted, check.name


def spoilt() -> RolloutRecord:
    """A rollout of which most checks find something."""
    calls = [
        call("200+tool@gpt-5>gpt-5", input=9_000, request_bytes=60_000, served_by="A"),
        call(
            "200@gpt-5>gpt-4o", input=4_000, output=90, request_bytes=62_000, served_by="A",
            continues="x0", finish_reason="length", output_limit=4_096, written_call=True,
            begun_elsewhere=True, cached_input_tokens=0,
        ),
        call("200+reasoned@gpt-5>gpt-5", finish_reason="length", served_by="B"),
        call("200@gpt-5>gpt-5", finish_reason="abort", written_call=True, prompt_words=9_000,
             input=2_000, cached_input_tokens=0, request_bytes=60_000),
        call("401+judge"),
    ]  # fmt: skip
    record = judged_record(calls, status="task_timeout", total_tokens=5_000_000)
    return replace(record, began_at=STARTED, ended_at=STARTED + 5)


def test_the_worst_findings_come_first_and_an_export_tells_the_same() -> None:
    verdict = judge(spoilt())
    assert [(each.check, each.level.value) for each in verdict.validity] == [
        ("prompt_truncated", "invalid"),
        ("output_truncated", "invalid"),
        ("engine_aborted", "invalid"),
        ("judge_failed", "invalid"),
        ("reasoning_ate_budget", "suspect"),
        ("model_substituted", "suspect"),
        ("tool_calls_unparsed", "suspect"),
        ("usage_mismatch", "suspect"),
        ("duplicate_identity", "suspect"),
        ("serving_changed", "info"),
    ]
    (imported,) = judge_export(exported(spoilt()))
    assert imported == verdict
    assert decode_verdict(encode_verdict(verdict)).validity == verdict.validity


def test_before_the_outcome_the_same_is_found_of_what_came_so_far() -> None:
    running = replace(spoilt(), outcome=None, ended_at=None)
    found = {each.check for each in judge(running).validity}
    ended = {each.check for each in judge(spoilt()).validity}
    assert ended - found == {"usage_mismatch"}
    assert found <= ended


def healthy(count: int) -> RolloutRecord:
    """A conversation of so many calls, every fact of which is known."""
    return judged_record(
        call(
            "200+tool>gpt-5-2025-08-07",
            input=9_000 + at * 300,
            cached_input_tokens=8_000,
            request_bytes=40_000 + at * 1_200,
            continues=f"x{at - 1}" if at else None,
            prompt_words=4_000,
            output_limit=8_000,
            served_by="Azure",
            system_fingerprint="fp_1",
            written_call=False,
            begun_elsewhere=False,
            fallback=False,
            output_digest=f"{at:032x}",
        )
        for at in range(count)
    )


def test_healthy_calls_cost_the_checks_little() -> None:
    small, large = (Evidence.of(healthy(count), EVIDENCE) for count in (10, 40))
    costs = []
    for facts in (small, large):
        measured = Measurement.of(facts, roles={}, time=TimeAccount())
        assert examine(measured).findings == ()
        costs.append(opcodes(lambda seen=measured: examine(seen)))  # type: ignore[misc]
    assert (costs[1] - costs[0]) / 30 < 60, "instructions a call; judging takes ten times as many"
