"""The data of a rollout's page: marked calls, listed ones in full, and bounded reading."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Ending, Timing
from proxy.control.queries import Service as ControlService
from proxy.control.rollout_view import (
    ITEMS,
    CallFilter,
    CallList,
    CollapsedCalls,
    call_detail,
    call_list,
    rollout_detail,
)
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play
from tests.proxy.store.records import FULL, write
from tests.statements import statements

WHOLE = replace(
    FULL, rollout_id="long", ending=Ending.COMPLETE, status=200, cause=None, injected=False,
    held_s=None,
    output_seen=True, content_seen=True, pending=None, written_call=None, answered_model=None,
    key_source=None, model_ambiguous=False,
)  # fmt: skip


def fill(service: Service, count: int) -> None:
    calls = [
        replace(WHOLE, id=f"c{n:05d}", timing=Timing(started_at=float(n), duration_s=1.0))
        for n in range(count - 1)
    ]
    failed = replace(WHOLE, status=429, cause=FULL.cause, output_seen=False)
    calls.append(replace(failed, id="z", timing=Timing(started_at=float(count))))
    with closing(Database(service.database)) as database:
        write(database, *calls)


async def test_evidence_is_marked_and_only_what_is_listed_is_read_in_full(
    service: Service,
    control: ControlService,
) -> None:
    fill(service, 1000)
    with statements(control.database) as asked:
        page = await rollout_detail(control, "long")
    read = [each for each, _ in asked if "exchanges" in each]  # not of the service's own rounds
    assert (len(page.calls), page.total, set(page.marked)) == (1000, 1000, {"z"})
    assert list(page.details) == ["z"]
    assert 0 < len(read) < 10, "statements, whatever the number of calls"
    everything = await rollout_detail(control, "long", show=CallFilter.ALL, at=500)
    assert len(everything.listed.lines) == ITEMS
    assert everything.proof == ["z"]
    assert len(everything.details) == ITEMS + 1, "those listed, and the proof"
    assert everything.details["c00499"]["provider_request_id"] == "req_1"


async def test_a_finding_that_is_only_worth_knowing_marks_nothing(
    service: Service, control: ControlService
) -> None:
    play(service, "fine")
    page = await rollout_detail(control, "fine")
    assert [found["level"] for found in page.verdict["validity"]] in ([], ["info"])
    assert set(page.marked) == set(page.verdict["evidence"])


async def test_sums_say_what_they_stand_on(service: Service, control: ControlService) -> None:
    play(service, "dead", DEAD)
    page = await rollout_detail(control, "dead")
    assert page.known == {"calls": 0, "tokens_known_calls": 0, "cost_known_calls": 0}
    assert page.outcome is not None


async def test_one_call_is_found_by_its_id_and_no_other_rollouts(
    service: Service, control: ControlService
) -> None:
    fill(service, 3)
    assert (await call_detail(control, "long", "z"))["error_code"] == "insufficient_quota"
    for rollout, call in (("long", "nothing"), ("nobody", "z")):
        with pytest.raises(Refusal, match="no call"):
            await call_detail(control, rollout, call)
    with pytest.raises(Refusal, match="does not exist"):
        await rollout_detail(control, "nobody")


# --------------------------------------------------------------------------------------------------
# Calls that went well are folded; those that prove something, failed or hang are listed


def call(n: int, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"x{n}", "started_at": 10.0 * n, "duration_s": 2.0, "ending": "complete",
        "subcategory": None, "role": "agent", "kind": "inference", "model": "gpt-5",
        "request_digest": None, "input_total": 5, "output_total": None, **facts,
    }  # fmt: skip


def calls(count: int, **failed: str) -> list[dict[str, Any]]:
    """Make calls; ``x3="auth"`` fails the one at place 3."""
    return [call(n, subcategory=failed.get(f"x{n}")) for n in range(count)]


def lines(listed: CallList) -> list[Any]:
    return [
        (line.first, line.last) if isinstance(line, CollapsedCalls) else line
        for line in listed.lines
    ]


def test_a_long_run_is_one_line_that_counts_what_was_retried() -> None:
    made = calls(163, x10="rate_limit", x50="rate_limit", x60="provider_error", x162="quota")
    listed = call_list(made, marked={"x162"})
    assert lines(listed) == [(1, 162), 163]
    fold = listed.lines[0]
    assert isinstance(fold, CollapsedCalls)
    assert (fold.ok, fold.retried) == (159, {"rate_limit": 2, "provider_error": 1})
    assert (fold.input_total, fold.output_total, fold.span_s) == (162 * 5, None, 1612.0)
    assert (listed.failed, listed.foldable) == (4, True)


def test_what_is_evidence_hangs_or_was_given_up_is_never_folded() -> None:
    made = calls(60, x20="auth")
    made[5] = call(5, ending=None, duration_s=None)
    made[30] = call(30, ending="left_by_agent")
    made[40] = call(40, ending="lost")
    assert lines(call_list(made, marked={"x50"})) == [
        (1, 5), 6, (7, 30), 31, (32, 40), 41, (42, 50), 51, (52, 60),
    ]  # fmt: skip


def test_a_failure_is_folded_only_where_its_own_model_answered_afterwards() -> None:
    made = calls(30, x29="auth")
    made[10] = call(10, subcategory="rate_limit", model="gpt-5-mini")
    made[12] = call(12, subcategory="rate_limit", role="judge")
    assert lines(call_list(made, marked=())) == [(1, 10), 11, 12, 13, (14, 29), 30]
    made[20] = call(20, model="gpt-5-mini")
    assert lines(call_list(made, marked=())) == [(1, 12), 13, (14, 29), 30]


def test_few_calls_and_short_runs_are_listed_one_by_one() -> None:
    few = call_list(calls(24), marked=())
    assert (lines(few), few.foldable) == (list(range(1, 25)), False)
    assert lines(call_list(calls(25), marked={"x3", "x24"})) == [1, 2, 3, 4, (5, 24), 25]


def test_a_fold_is_opened_by_the_numbers_of_its_calls() -> None:
    listed = call_list(calls(100), marked={"x50"}, opened=(1, 50))
    assert lines(listed)[:2] == [1, 2]
    assert call_list(calls(100), marked={"x50"}, opened=(1, 50), at=51).lines[-1] == CollapsedCalls(
        first=52, last=100, ok=49, retried={}, input_total=245, output_total=None, span_s=482.0
    )


def test_each_call_is_on_one_page_and_pages_lead_to_each_other() -> None:
    made = calls(100)
    seen: list[int] = []
    at: int | None = 1
    before: int | None = None
    while at is not None:
        listed = call_list(made, marked=(), show=CallFilter.ALL, at=at)
        assert len(listed.lines) <= ITEMS
        assert listed.before == before
        seen += lines(listed)
        before, at = at, listed.after
    assert seen == list(range(1, 101))
    assert 77 in lines(call_list(made, marked=(), show=CallFilter.ALL, at=77))


def test_the_failed_alone_are_those_without_an_answer() -> None:
    made = calls(50, x3="auth", x9="quota")
    made[7] = call(7, ending="lost")
    listed = call_list(made, marked={"x1"}, show=CallFilter.FAILED)
    assert (lines(listed), listed.failed) == ([4, 8, 10], 3)


def test_the_proof_alone_is_the_evidence_and_what_was_answered() -> None:
    made = calls(50, x3="auth", x9="quota")
    listed = call_list(made, marked={"x9"}, answered={"x0", None}, show=CallFilter.PROOF)
    assert lines(listed) == [1, 10]
    assert lines(call_list(made, marked=(), show=CallFilter.PROOF)) == []


def test_a_page_beyond_the_last_call_is_the_last_page() -> None:
    assert lines(call_list(calls(45), marked=(), show=CallFilter.ALL, at=10**6)) == list(
        range(37, 46)
    )
    assert call_list([], marked=()).lines == []
