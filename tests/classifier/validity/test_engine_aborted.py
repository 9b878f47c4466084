"""An engine that stopped in the middle of an answer."""

from __future__ import annotations

from dataclasses import replace

from classifier import judge
from classifier.validity.answers import ENGINE_ABORTED
from classifier.verdicts import Coverage, Level, ValidityFinding
from tests.builders import rollout


def finding(*reasons: str | None) -> ValidityFinding | None:
    record = rollout(" ".join(["200+tool"] * len(reasons)))
    calls = zip(record.exchanges, reasons, strict=True)
    exchanges = tuple(replace(call, finish_reason=reason) for call, reason in calls)
    verdict = judge(replace(record, exchanges=exchanges))
    assert verdict.health.value == "healthy"
    return next((found for found in verdict.validity if found.check == ENGINE_ABORTED), None)


def test_an_abort_is_found_and_the_last_one_is_invalid() -> None:
    for reasons, level, calls in (
        (("stop", "stop"), None, 0),
        (("abort", "stop"), Level.SUSPECT, 1),
        (("stop", "abort"), Level.INVALID, 1),
        (("abort", "ABORT"), Level.INVALID, 2),
        (("stop", "error"), Level.INVALID, 1),
        (("stop", "failed:aborted"), Level.INVALID, 1),
        (("stop", None), Level.INVALID, 1),
        (("stop", "unfit"), None, 0),
        ((None, "stop"), Level.SUSPECT, 1),
        ((None, None), None, 0),  # a server that never states one
    ):
        found = finding(*reasons)
        assert (found.level if found else None) is level, reasons
        if found is not None:
            assert (found.calls, found.of) == (calls, len(reasons)), reasons


def test_a_side_calls_abort_does_not_hide_that_of_the_last_answer() -> None:
    record = rollout("200+tool[0-5] 200+side[1-9]")
    exchanges = tuple(replace(call, finish_reason="abort") for call in record.exchanges)
    (found,) = judge(replace(record, exchanges=exchanges)).validity
    assert (found.level, found.calls, found.about) == (
        Level.INVALID, 2, {"finish_reasons": ["abort"]},
    )  # fmt: skip


def test_a_dialect_without_finish_reasons_is_not_covered() -> None:
    record = rollout("200+tool 200+tool")
    for api, looked in (("openai.chat", 2), ("anthropic.messages", 2), ("ollama.chat", 1)):
        first, last = (replace(call, api=api) for call in record.exchanges)
        exchanges = (first, replace(last, finish_reason=None))
        verdict = judge(replace(record, exchanges=exchanges))
        assert verdict.validity_coverage[ENGINE_ABORTED] == Coverage(looked=looked, of=2), api
        assert bool(verdict.validity) == (looked == 2), api


def test_a_compacted_conversation_has_no_end() -> None:
    record = rollout("200+tool>gpt-5 200>gpt-5")
    answered, last = (replace(call, api="openai.responses") for call in record.exchanges)
    for model, level in ((None, None), ("gpt-5", Level.INVALID)):
        ended = replace(last, finish_reason=None, answered_model=model)
        found = judge(replace(record, exchanges=(answered, ended))).validity
        assert [each.level for each in found] == ([level] if level else []), model


def test_an_agent_that_called_other_paths_may_have_aborted_its_own_call() -> None:
    for text, level in (
        ("200+tool 200", Level.INVALID),
        ("200+tool 200+other 200", Level.SUSPECT),
        ("200+tool 200+other%elsewhere 200", Level.INVALID),
        ("200+tool 200+probe 200", Level.INVALID),
    ):
        record = rollout(text)
        last = replace(record.exchanges[-1], finish_reason="abort")
        (found,) = judge(replace(record, exchanges=(*record.exchanges[:-1], last))).validity
        assert found.level is level, text
