"""The rules of reference calls: what is asked, when, and how a failure compares with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from classifier.codec import decode_rollout, encode_rollout
from classifier.records import RolloutRecord
from classifier.reference_rules import (
    AskedName,
    Failure,
    Use,
    answered_as,
    compare,
    due_at,
    name_to_ask,
    nearest_api,
    usual_way,
    usually_streams,
)
from classifier.references import UNASKABLE, AskedBy, NotRun, ReferenceSeries
from classifier.rules import references_wanted
from classifier.verdicts import Comparison, Policy, Subcategory
from tests.builders import rollout, series
from tests.tables import each

UNTRUSTED = Policy(agents="untrusted")
BOUND: dict[str, Any] = {"model": "gpt-5", "upstream": "openai"}
FAILURE = Failure(Subcategory.PROVIDER_ERROR)
SILENT = Failure(Subcategory.PROVIDER_ERROR, silent=True)


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
        assert compare(series(text), FAILURE) is result, text


def test_a_time_out_is_alike_only_for_silence_and_time_outs() -> None:
    for text in ("silent", "ok silent"):
        assert compare(series(text), FAILURE) is Comparison.OTHERWISE, text
    assert compare(series("silent"), SILENT) is Comparison.FAILED_ALIKE
    assert compare(series("ok silent"), SILENT) is Comparison.PARTLY
    assert compare(series("provider_error"), SILENT) is Comparison.FAILED_ALIKE


def test_a_refused_question_proves_nothing_about_a_rejection() -> None:
    rejected = Failure(Subcategory.REJECTED_REQUEST)
    assert compare(series("refused"), rejected) is Comparison.OTHERWISE
    assert compare(series("rejected_request"), rejected) is Comparison.FAILED_ALIKE


def test_a_series_that_was_not_run_says_why() -> None:
    for not_run in NotRun:
        result = compare(series("", not_run=not_run), FAILURE)
        without = not_run in UNASKABLE
        assert result is (Comparison.NO_REFERENCE if without else Comparison.OTHERWISE), not_run


def test_a_series_that_runs_says_nothing_yet() -> None:
    assert compare(series("ok", running=True), FAILURE) is None
    assert compare(None, FAILURE) is None


def test_a_filter_is_broken_that_refuses_a_plain_question_too() -> None:
    filtered = Failure(Subcategory.REJECTED_REQUEST, filtered=True)
    assert compare(series("filtered"), filtered) is Comparison.FAILED_ALIKE
    assert compare(series("ok ok ok"), filtered) is Comparison.ANSWERED
    assert compare(series("refused"), filtered) is Comparison.OTHERWISE
    assert compare(series("filtered"), FAILURE) is Comparison.OTHERWISE


def test_a_call_that_was_left_is_no_more_silent_than_a_slow_answer_to_the_question() -> None:
    slow = series("ok/2 ok/2 ok/2")
    for waited_s, result in (
        (1.6, Comparison.OTHERWISE),
        (2.1, Comparison.ANSWERED),
        (0.5, Comparison.ANSWERED),
    ):
        assert compare(slow, Failure(None, waited_s=waited_s)) is result, waited_s


# Words of a series, with ``u:`` asked by the usual way that the rollout alone does not use, with
# ``s:`` by one that others do not use alone.
TWO_WAYS = (
    ("provider_error u:ok u:ok u:ok", Comparison.ANSWERED),
    ("provider_error s:ok s:ok s:ok", Comparison.PARTLY),
    ("refused u:ok", Comparison.ANSWERED),
    ("refused s:ok", Comparison.OTHERWISE),
    ("provider_error u:provider_error", Comparison.FAILED_ALIKE),
    ("provider_error u:refused", Comparison.FAILED_ALIKE),
    ("provider_error u:ok u:provider_error", Comparison.PARTLY),
    ("u:ok", Comparison.ANSWERED),
    ("u:provider_error", Comparison.FAILED_ALIKE),
    ("u:refused", Comparison.NO_REFERENCE),
)


def test_what_fails_by_its_own_way_and_not_by_the_usual_is_its_agents_if_it_alone_asks_so() -> None:
    for text, result in TWO_WAYS:
        assert compare(series(text), FAILURE) is result, text


# --- what is asked -----------------------------------------------------------------------------


def used(model: str, rollout: str = "r", *, answered: bool = True, **more: Any) -> Use:
    return Use(rollout, model, more.get("api", "openai.chat"), more.get("streamed"), answered,
               more.get("answered_model"))  # fmt: skip


@each(
    "called, registered, uses, asked",
    [
        ("a", ("a", "b"), [used("b", "q")], ("a", None)),
        ("b", ("a", "b"), [used("a", "q")], ("b", None)),
        ("b-2031-01-01", ("a", "b"), [], ("b", None)),
        ("m:free", ("m",), [used("m:free")], ("m", "m:free")),
        ("vendor/m", ("m",), [used("vendor/m")], ("m", "vendor/m")),
        ("other", ("m",), [], ("m", None)),
        ("m", ("groq/m",), [], ("m", None)),  # as its provider spells it
        ("m-2031-01-01", ("groq/m",), [], ("m", None)),
        ("m", ("azure/m",), [], ("m", None)),
        ("m:free", ("azure/m",), [used("m")], ("m", None)),
        ("groq/m", ("m",), [], ("m", None)),
        ("m", (), [used("n", "q")], ("m", None)),
        ("m", (), [used("m", "q"), used("n")], ("m", None)),
        ("m:free", (), [used("m")], ("m", None)),
        ("m:free", (), [used("m"), used("m:free")], ("m:free", None)),
        ("m", (), [used("m-2031-01-01", answered=False)], ("m", None)),
        (None, (), [used("m")], ("m", None)),  # too long a request to be read
        (None, ("m",), [], ("m", None)),
    ],
)
def test_no_other_model_is_asked_than_the_failed_calls_or_the_registered(
    called: str | None, registered: tuple[str, ...], uses: list[Use], asked: tuple[str, str | None]
) -> None:
    assert name_to_ask(called, registered, uses, upstream="groq") == asked


def test_a_model_answers_as_it_did_before_whoever_asked() -> None:
    uses = [used("m", answered_model="m-1"), used("m", "q", answered_model="m-2"),
            used("n", answered_model="n-1")]  # fmt: skip
    assert answered_as(AskedName("m"), uses) == ("m-1", "m-2")
    assert answered_as(AskedName("o", "n"), uses) == ("n-1",)


def test_the_usual_way_is_asked_too_unless_the_own_one_is_it() -> None:
    for own, others, found in (
        ("plain", {"odd": 5}, None),  # nobody's trick, however others ask
        ("odd", {}, ("plain", AskedBy.USUAL)),
        ("odd", {"odd": 2}, None),
        ("odd", {"odd": 1, "other": 2}, ("other", AskedBy.SHARED)),
        ("odd", {"other": 1}, ("other", AskedBy.USUAL)),
    ):
        assert usual_way(own, "plain", others) == found, (own, others)


def test_streams_are_usual_unless_only_whole_answers_came_to_who_fails_by_one() -> None:
    whole, streamed = used("m", streamed=False), used("m", "q", streamed=True)
    assert usually_streams("r", [])
    assert usually_streams("r", [used("m", "q", streamed=False)])
    assert not usually_streams("r", [whole])
    assert usually_streams("r", [whole, streamed])


def test_an_api_without_a_plain_question_takes_the_last_answered_one_that_has_one() -> None:
    plain = {"a": "a", "a.stream": "a", "b": "b"}
    assert nearest_api("a.stream", [used("m", api="b")], plain) == "a"
    assert nearest_api("opaque", [used("m", api="opaque"), used("m", api="b")], plain) == "b"
    assert nearest_api("opaque", [used("m", api="a", answered=False)], plain) is None


# --- when --------------------------------------------------------------------------------------


def rows(*started: float, calls: str = "provider_error", way: str | None = None) -> list[Any]:
    """Series of a lane that started then, the newest first."""
    return [replace(series(calls), started_at=at, way=way) for at in started]


@each(
    "known, awaited, due",
    [
        ((), False, 0.0),
        (rows(100.0), False, 101.0),
        (rows(101.0, 100.0), False, 103.0),
        (rows(103.0, 101.0, 100.0), False, 107.0),
        (rows(*range(1000, 980, -1)), False, 1300.0),
        (rows(107.0, 103.0, 101.0, 100.0), True, 112.0),
        (rows(100.0, calls="ok"), False, 0.0),
        (rows(*range(111, 99, -1), calls="ok"), True, 160.0),
        (rows(*range(111, 99, -1), calls="ok"), False, 164.0),
        (rows(*range(107, 99, -1), calls="ok"), False, 160.0),
        (rows(*range(107, 99, -1), calls="ok"), True, 0.0),
        (rows(103.0, 101.0, 100.0, way="odd"), False, 0.0),
        (rows(*range(111, 99, -1), way="odd"), True, 160.0),
    ],
)
def test_series_are_spaced_by_how_those_that_asked_alike_ended(
    known: list[ReferenceSeries], awaited: bool, due: float
) -> None:
    now = known[0].started_at if known else 100.0
    assert due_at(known, now, awaited=awaited) == due


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
    ("200 left*2", {}, ["x2"]),
    ("400+content_filter", {}, ["x0"]),
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
        assert [need.id for need in references_wanted(seen, UNTRUSTED)] == ids, text
        trusted = ids if "content_filter" in text else []
        assert [need.id for need in references_wanted(seen)] == trusted, text


def test_what_has_a_series_is_not_wanted_again() -> None:
    seen = rollout("200+tool 503*4")
    known = RolloutRecord(id="r1", exchanges=seen.exchanges, references={"x1": series("ok")})
    assert [need.id for need in references_wanted(known, UNTRUSTED)] == ["x4"]


def test_a_rollout_reads_back_with_its_series() -> None:
    written = RolloutRecord(
        id="r1",
        references={"x1": series("ok silent"), "x2": series("", not_run=NotRun.RETRY_AFTER)},
    )
    assert decode_rollout(encode_rollout(written)) == written
