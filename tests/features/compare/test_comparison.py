"""Comparisons: made once for each state of both batches, and given page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from classifier.batches import Entry
from classifier.groups import BatchComparison, TaskTotal, compare_batches
from proxy.control.queries import Service as ControlService
from proxy.features.compare import comparison, store
from proxy.features.compare.comparison import (
    Comparisons,
    by_one_repeat,
    older_first,
    tasks_needed,
)
from proxy.routing.errors import Refusal
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import DEAD, DOWN, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def nights(service: Service) -> None:
    """Last night and tonight: one task fixed, one broken, one unchanged, one fake zero."""
    for task, last, tonight, answer in (
        ("up", 0.0, 1.0, None), ("down", 1.0, 0.0, None), ("same", 1.0, 1.0, None),
        ("fake", 1.0, 0.0, DEAD),
    ):  # fmt: skip
        play(service, f"last-{task}", reward=last, batch="last", task=task)
        play(service, f"tonight-{task}", answer, reward=tonight, batch="tonight", task=task)


def compared(service: Service, **more: Any) -> dict[str, Any]:
    answer = service.http.get("/compare", params={"a": "last", "b": "tonight", **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.slow
def test_a_night_is_compared_with_the_night_before(service: Service) -> None:
    nights(service)
    told = compared(service)
    assert {each["task"]: each["change"] for each in told["tasks"]} == {
        "down": "broken", "up": "fixed", "fake": "unmeasured_b", "same": "unchanged",
    }  # fmt: skip
    assert (told["compared"], told["difference"]) == (3, 0.0)
    low, high = told["difference_ci"]
    assert low < 0 < high
    for side, name in (("a", "last"), ("b", "tonight")):
        summary = service.get(f"/batches/{name}")
        same = {field: summary[field] for field in told[side] if field != "batch"}
        assert told[side] == {"batch": name, **same}


@pytest.mark.slow
def test_tasks_come_in_pages_and_by_change(service: Service) -> None:
    nights(service)
    first = compared(service, limit=3)
    assert [each["task"] for each in first["tasks"]] == ["down", "up", "fake"]
    second = compared(service, limit=3, after=first["next"])
    assert ([each["task"] for each in second["tasks"]], second["next"]) == (["same"], None)
    assert second["counts"] == first["counts"]
    some = compared(service, change=["fixed", "broken"])
    assert [each["task"] for each in some["tasks"]] == ["down", "up"]
    wrong = {"a": "last", "b": "tonight", "after": "nobody"}
    problem(service.http.get("/compare", params=wrong), 422, "invalid")


@pytest.mark.slow
def test_a_comparison_is_made_anew_when_something_changed(
    service: Service, control: ControlService
) -> None:
    nights(service)
    assert compared(service)["counts"]["unmeasured_b"] == 1
    before = control.state(Comparisons)["last", "tonight"]
    compared(service)
    assert control.state(Comparisons)["last", "tonight"] is before
    play(service, "fake-again", DOWN, batch="tonight", task="new")
    assert compared(service)["counts"]["only_b"] == 1


def test_a_task_is_the_mean_of_the_attempts_that_count(service: Service) -> None:
    for repeat, reward, answer in ((0, 1.0, None), (1, 0.0, None), (2, 0.0, DEAD)):
        play(
            service, f"last-{repeat}", answer, reward=reward, batch="last", task="t", repeat=repeat
        )
    play(service, "first", DEAD, reward=0.0, batch="tonight", task="t", repeat=0, attempt=0)
    play(service, "again", reward=1.0, batch="tonight", task="t", repeat=0, attempt=1)
    play(service, "nameless", reward=1.0, batch="tonight")
    told = compared(service)
    (task,) = told["tasks"]
    assert task["a"] == {
        "score": 0.5, "measured": 2, "repeats": 3, "rollout_ids": ["last-0", "last-1", "last-2"],
    }  # fmt: skip
    assert task["b"] == {"score": 1.0, "measured": 1, "repeats": 1, "rollout_ids": ["again"]}
    assert (task["difference"], task["change"], told["without_task"]) == (0.5, "fixed", 1)


@pytest.mark.slow
def test_of_all_rollouts_only_those_of_the_tasks_on_a_page_are_read(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights(service)
    read: list[tuple[str, list[str]]] = []

    def entries(connection: Connection, batch: str, tasks: Sequence[str]) -> list[Entry]:
        read.append((batch, list(tasks)))
        return store.entries(connection, batch, tasks)

    changed = SimpleNamespace(**{**vars(store), "entries": entries})
    monkeypatch.setattr(comparison, "store", changed)
    compared(service, limit=2)
    assert read == [("last", ["down", "up"]), ("tonight", ["down", "up"])]


def test_a_batch_that_does_not_exist_is_a_problem(service: Service) -> None:
    play(service, "r", batch="last", task="t")
    for a, b in (("last", "nobody"), ("nobody", "last")):
        problem(service.http.get("/compare", params={"a": a, "b": b}), 404, "unknown_batch")


async def test_of_two_batches_the_older_comes_first(
    service: Service, control: ControlService
) -> None:
    play(service, "r1", batch="first")
    play(service, "r2", batch="second")
    assert await older_first(control, "second", "first") == ("first", "second")
    with pytest.raises(Refusal, match="batch 'nobody' does not exist"):
        await older_first(control, "first", "nobody")


def totals(scores: Sequence[float], *, measured: int = 2) -> list[TaskTotal]:
    return [TaskTotal(f"t{n}", 2, measured, score) for n, score in enumerate(scores)]


def compared_scores(first: Sequence[float], second: Sequence[float]) -> BatchComparison:
    return compare_batches(totals(first), totals(second))


@pytest.mark.parametrize(
    ("before", "after", "measured", "reach", "alone"),
    [
        (1.0, 0.5, 2, 1.0, True),
        (1.0, 0.0, 2, 1.0, False),
        (1.0, 0.0, 1, 1.0, True),
        (1.0, 0.5, 2, None, False),  # nobody knows what one repeat can do
        (1.0, 2.0, 2, 10.0, True),
        (0.5, 0.5, 2, 1.0, True),
    ],
)
def test_a_difference_that_one_repeat_could_make_is_told(
    before: float, after: float, measured: int, reach: float | None, alone: bool
) -> None:
    made = compare_batches(totals([before]), totals([after], measured=measured))
    assert by_one_repeat(made.tasks[0], reach) is alone


def test_tasks_needed_grow_with_the_square_of_the_interval() -> None:
    made = compared_scores([0.5] * 23, [0.5] * 23)
    alike = replace(made, difference=0.130, difference_ci=(-0.132, 0.393))
    assert tasks_needed(alike) == 94
    needed = tasks_needed(replace(alike, difference=0.065))
    assert needed is not None
    assert needed == pytest.approx(4 * 94, rel=0.01)
    for known in (
        made,  # no difference
        replace(alike, difference_ci=(0.01, 0.25)),  # shown already
        replace(alike, difference=1e-300),
        replace(alike, difference_ci=None),
    ):
        assert tasks_needed(known) is None
