"""The first tab of a batch: why repeats lack a score, and what to do about each, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fastapi import Request

from classifier.batches import unmeasured_reason
from classifier.reruns import Rerun
from classifier.verdicts import Subcategory
from proxy.control.batches import UnscoredGroup
from proxy.web import overview
from proxy.web.batch_tabs import BatchTab, OpenTab
from proxy.web.overview import TodoRow
from tests.truezero.models.test_batches import EMPTY, LATER

PARTS: dict[str, Any] = {
    "measured": 20, "own_failures": 0, "not_measured": {}, "not_scored": {}, "skipped": 0,
    "running": 0, "never_started": 0,
}  # fmt: skip
ZEROS: dict[str, Any] = {"reported": 9, "not_measured": 0, "by_cause": {}}
BATCH: dict[str, Any] = {
    **EMPTY, **LATER, "valid": True, "scored": 20, "repeats_planned": 20, "zeros": ZEROS,
    "ones": {"reported": 11, "not_measured": 0, "by_cause": {}}, "parts": PARTS, "no_score": None,
    "retried_after_score_total": 0, "exclusion_bias": None, "diagnostics": {}, "verdicts": {},
}  # fmt: skip
REQUEST = Request(
    {"type": "http", "scheme": "http", "server": ("127.0.0.1", 8383), "path": "/", "headers": []}
)


async def nothing(_tab: OpenTab) -> dict[str, Any]:
    return {}


LISTS = BatchTab(
    name="lists", label="Lists", template="lists.html", read=nothing, sections=frozenset(Rerun)
)


def group(reason: str, **said: Any) -> UnscoredGroup:
    usual: dict[str, Any] = {
        "fingerprint": f"{reason}:429", "cause": None, "lane": "openai/gpt-5/key-c8e4",
        "attributed_to": "operator", "rollouts": 1, "first": 10.0, "last": 20.0,
    }  # fmt: skip
    return UnscoredGroup(reason=reason, **{**usual, **said})


def batch(zeros: Mapping[str, int] | None = None, **parts: Any) -> dict[str, Any]:
    found = {**PARTS, **parts}
    without = sum(
        sum(each.values()) if isinstance(each, dict) else each
        for name, each in found.items()
        if name not in ("measured", "own_failures")
    )
    by_cause = dict(zeros or {})
    return {
        **BATCH, "parts": found, "repeats_planned": 20 + without, "valid": not without,
        "zeros": {
            "reported": 9 + sum(by_cause.values()), "not_measured": sum(by_cause.values()),
            "by_cause": by_cause,
        },
    }  # fmt: skip


def todo(
    summary: Mapping[str, Any],
    *groups: UnscoredGroup,
    kinds: Mapping[Rerun, int] | None = None,
    tabs: tuple[BatchTab, ...] = (LISTS,),
) -> list[TodoRow]:
    return overview.todo(
        summary, groups, kinds or dict.fromkeys(Rerun, 1), batch="b", request=REQUEST, tabs=tabs
    )


def test_a_valid_batch_has_nothing_to_do() -> None:
    assert todo(batch()) == []
    assert overview.objections(BATCH) == []


def test_rows_add_up_to_what_lacks_a_score_and_to_the_zeros_that_are_none() -> None:
    summary = batch(
        zeros={"quota": 6, "provider_error": 3},
        not_measured={"quota": 9, "suspected": 2, "prompt_starved": 1},
        not_scored={"no_reward": 4}, skipped=3, running=2, never_started=5,
    )  # fmt: skip
    rows = todo(summary, group("quota"))
    assert sum(row.repeats for row in rows) == summary["repeats_planned"] - summary["scored"]
    zeros = [int(row.zeros.text) for row in rows if row.zeros]
    assert sum(zeros) == summary["zeros"]["not_measured"]
    assert [(row.label, row.repeats) for row in rows] == [
        ("quota 429", 9), ("suspected", 2), ("provider error", 0), ("skipped", 3),
        ("never started", 5), ("not scored: no reward", 4), ("prompt starved", 1), ("running", 2),
    ], "what is to be fixed comes first; what was retried since keeps its zeros"  # fmt: skip


def test_a_row_says_where_when_whose_and_what_to_do() -> None:
    summary = batch(zeros={"quota": 2}, not_measured={"quota": 2})
    groups = (group("quota", first=5.0), group("quota", last=90.0), group("auth"))
    (row,) = todo(summary, *groups)
    assert (row.where, row.first, row.last) == ("openai · gpt-5 · key-c8e4", 5.0, 90.0)
    assert (row.whose, row.link) == ("operator's", "?tab=lists#fix_first")
    assert row.command == "truezero rerun b --only fix_first --command"
    assert row.remedy.startswith("Add credit")
    (keys,) = todo(summary, group("quota"), group("quota", lane="openai/gpt-5/key-d9"))
    assert keys.where == "openai · gpt-5, 2 keys"
    (lanes,) = todo(summary, group("quota"), group("quota", lane="gemini/x/key-d9"))
    assert lanes.where == "2 lanes"
    (unknown,) = todo(summary)
    assert (unknown.where, unknown.first, unknown.whose) == ("", None, "not known")


def test_what_passes_by_itself_is_run_again_now_unless_it_came_again_and_again() -> None:
    summary = batch(not_measured={"provider_error": 1})
    (row,) = todo(summary)
    assert row.link == "?tab=lists#transient"
    (row,) = todo(summary, kinds={Rerun.TRANSIENT: 0, Rerun.FIX_FIRST: 1})
    assert row.link == "?tab=lists#fix_first"
    (row,) = todo(summary, tabs=())
    assert (row.link, row.command) == (None, None), "no tab lists what to run again"


def test_what_else_speaks_against_a_batch_is_named() -> None:
    spoilt = {
        **BATCH, "retried_after_score_total": 1, "exclusion_bias": True, "exclusion_p": 0.0031,
        "diagnostics": {"own_failure_info": 2},
    }  # fmt: skip
    found = overview.objections(spoilt)
    assert [(each.times, each.link) for each in found] == [
        (1, "?tab=tasks"), (None, "#check"), (2, "#check"),
    ]  # fmt: skip
    assert "p = 0.0031" in found[1].text


def test_each_planned_repeat_is_a_square_unless_there_are_too_many() -> None:
    summary = batch(not_measured={"quota": 2}, skipped=1)
    rows = overview.squares(summary)
    assert [(row.label, row.repeats, len(row.marks)) for row in rows] == [
        ("scored above 0", 11, 11), ("real zeros", 9, 9), ("not measured", 3, 3),
    ]  # fmt: skip
    assert [mark and mark.name for mark in rows[-1].marks] == ["quota", "quota", "skipped"]
    assert overview.squares({**summary, "repeats_planned": overview.MOST_SQUARES + 1}) == []
    assert overview.squares({**summary, "repeats_planned": 0}) == []


@pytest.mark.parametrize("cause", list(Subcategory))
def test_a_failure_is_named_by_its_cause(cause: Subcategory) -> None:
    assert unmeasured_reason("api_error", cause.value, "no", None) == cause
    (row,) = todo(batch(not_measured={cause.value: 1}), group(cause.value))
    assert row.label.endswith(" 429")
    assert row.remedy.endswith(".")
