"""Reference calls: which failures need one, and how a failure compares with what was asked."""

from __future__ import annotations

from typing import Any

from classifier.codec import decode_rollout, encode_rollout
from classifier.records import RolloutRecord
from classifier.references import NotRun, compare
from classifier.rules import references_wanted
from classifier.verdicts import Comparison, Policy, Subcategory
from tests.builders import rollout, series

UNTRUSTED = Policy(agents="untrusted")
BOUND: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
FAILURE = Subcategory.PROVIDER_ERROR


COMPARED = (
    ("provider_error", Comparison.FAILED_ALIKE),
    ("none provider_error", Comparison.FAILED_ALIKE),
    ("ok ok ok", Comparison.ANSWERED),
    ("ok", Comparison.ANSWERED),
    ("ok provider_error", Comparison.PARTLY),
    ("ok ok provider_error", Comparison.PARTLY),
    ("rate_limit", Comparison.OTHERWISE),
    ("ok auth", Comparison.OTHERWISE),
    ("refused", Comparison.OTHERWISE),
    ("silent", Comparison.OTHERWISE),
    ("none", Comparison.OTHERWISE),
    ("ok none", Comparison.OTHERWISE),
    ("", Comparison.OTHERWISE),
)


def test_a_failure_compares_with_a_series_by_the_rows_of_the_table() -> None:
    for text, result in COMPARED:
        assert compare(series(text), FAILURE, silent=False) is result, text


def test_a_time_out_is_alike_only_for_silence_and_time_outs() -> None:
    for text in ("silent", "ok silent"):
        assert compare(series(text), FAILURE, silent=False) is Comparison.OTHERWISE, text
    assert compare(series("silent"), FAILURE, silent=True) is Comparison.FAILED_ALIKE
    assert compare(series("ok silent"), FAILURE, silent=True) is Comparison.PARTLY
    assert compare(series("provider_error"), FAILURE, silent=True) is Comparison.FAILED_ALIKE


def test_a_refused_question_proves_nothing_about_a_rejection() -> None:
    rejected = Subcategory.REJECTED_REQUEST
    assert compare(series("refused"), rejected, silent=False) is Comparison.OTHERWISE
    assert compare(series("rejected_request"), rejected, silent=False) is Comparison.FAILED_ALIKE


def test_a_series_that_was_not_run_says_why() -> None:
    for not_run in NotRun:
        result = compare(series("", not_run=not_run), FAILURE, silent=False)
        without = not_run in (NotRun.NO_KEY, NotRun.OFF)
        assert result is (Comparison.NO_REFERENCE if without else Comparison.OTHERWISE), not_run


def test_a_series_that_runs_says_nothing_yet() -> None:
    assert compare(series("ok", running=True), FAILURE, silent=False) is None
    assert compare(None, FAILURE, silent=False) is None


# The calls, what is registered, and the calls that are asked about.
WANTED: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("200+tool 503", {}, ["x1"]),
    ("200+tool 503*4", {}, ["x1", "x4"]),
    ("401*3", {}, ["x0", "x2"]),
    ("200+tool 400*3", {}, ["x1", "x3"]),
    ("200+tool 503 200+tool", {}, []),  # recovered
    ("200+tool 400", {}, []),  # takes no reward away
    ("200+tool 503%down", BOUND, []),  # the agent's in any case
    ("200+tool 401#bad", {}, []),
    ("200 left*2", {}, []),
    ("200+tool 503+judge*3", {}, ["x1", "x3"]),
    ("200+tool 200+empty", {}, ["x1"]),
    ("200+tool 200+garbled*2", {}, ["x2"]),
    ("200+tool 302+empty", {}, ["x1"]),
    ("200+tool 200+length", {}, []),
    ("200", {}, []),
)


def test_a_streaks_first_and_last_failure_are_asked_about() -> None:
    for text, said, ids in WANTED:
        seen = rollout(text, **said)
        assert [need.exchange_id for need in references_wanted(seen, UNTRUSTED)] == ids, text
        assert references_wanted(seen) == [], text


def test_what_has_a_series_is_not_wanted_again() -> None:
    seen = rollout("200+tool 503*4")
    known = RolloutRecord(id="r1", exchanges=seen.exchanges, references={"x1": series("ok")})
    assert [need.exchange_id for need in references_wanted(known, UNTRUSTED)] == ["x4"]


def test_a_rollout_reads_back_with_its_series() -> None:
    written = RolloutRecord(
        id="r1",
        references={"x1": series("ok silent"), "x2": series("", not_run=NotRun.RETRY_AFTER)},
    )
    assert decode_rollout(encode_rollout(written)) == written
