"""The plan of a run: unique names, advised waits, and attempts until nothing more is advised."""

from __future__ import annotations

from typing import Any

import pytest

from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.sdk.batches import planned_samples, progress_table, retry_advice


def verdict(*, eligible: bool, after_s: float | None) -> models.Verdict:
    retry: dict[str, Any] = {"eligible": eligible, "after_s": after_s, "reason": "r"}
    return models.Verdict.model_validate({**VERDICT, "retry": retry})


@pytest.mark.parametrize(
    ("max_wait_s", "eligible", "after_s", "stopped", "wait_s"),
    [
        (300.0, True, 2.0, False, 2.0),
        (300.0, True, None, False, 0.0),
        (300.0, True, 301.0, False, None),
        (300.0, False, None, False, None),
        (300.0, True, 2.0, True, None),
        (None, True, 2.0, False, None),
    ],
)
def test_a_retry_waits_as_advised_or_does_not_happen(
    max_wait_s: float | None, eligible: bool, after_s: float | None, stopped: bool,
    wait_s: float | None,
) -> None:  # fmt: skip
    again = retry_advice(max_wait_s, lambda: stopped)
    assert again(verdict(eligible=eligible, after_s=after_s)) == wait_s


def test_tasks_keep_their_order_and_need_names_of_their_own() -> None:
    plan = [(each.name, each.repeat, each.task) for each in planned_samples([2, 1], str)]
    assert plan == [("2", None, 2), ("1", None, 1)]
    with pytest.raises(ValueError, match="duplicate name 'x'; pass name="):
        planned_samples([1, 2], lambda _task: "x")


def test_repeats_are_numbered_where_a_task_has_several() -> None:
    plan = [(each.name, each.repeat) for each in planned_samples([2, 1], str, 2)]
    assert plan == [("2", 0), ("2", 1), ("1", 0), ("1", 1)]
    with pytest.raises(ValueError, match="repeats: 0"):
        planned_samples([1], str, 0)


def test_no_bar_is_drawn_where_none_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_table(1, enabled=False):
        pass
    assert capsys.readouterr() == ("", "")
