"""The data of a batch's page of tasks: every attempt at every repeat, in any order."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.control import dashboard
from proxy.control.dashboard import (
    TaskKind,
    TaskOrder,
    TaskQuery,
    task_page,
)
from proxy.control.queries import Service as ControlService
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, DOWN, play


async def test_tasks_come_with_every_attempt_at_every_repeat(
    service: Service, control: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for repeat, tried, answer in ((1, 0, None), (0, 0, DOWN), (0, 1, None)):
        name = f"t-{repeat}-{tried}"
        play(service, name, answer, task="t", repeat=repeat, attempt=tried, reward=1.0)
    for task in ("u", "v"):
        play(service, task, task=task)
    monkeypatch.setattr(dashboard, "TASKS", 2)
    by_name = TaskQuery(order=TaskOrder.NAME)
    page = await task_page(control, "b", query=by_name)
    assert ([row.total.task for row in page.items], page.pages) == (["t", "u"], 2)
    attempts = [[entry.rollout_id for entry in slot.attempts] for slot in page.items[0].slots]
    assert attempts == [["t-0-0", "t-0-1"], ["t-1-0"]]
    assert set(page.items[0].members) == {"t-0-0", "t-0-1", "t-1-0"}
    following = await task_page(control, "b", 2, by_name)
    assert [row.total.task for row in following.items] == ["v"]


@pytest.mark.slow
async def test_tasks_come_in_any_order_with_the_totals_of_the_view(
    service: Service, control: ControlService
) -> None:
    for task, rewards in (("t10", (0, 0)), ("t9", (1, 0)), ("a", (1, 1))):
        for repeat, reward in enumerate(rewards):
            name = f"{task}-{repeat}"
            play(service, name, task=task, repeat=repeat, repeats=2, reward=float(reward))
    play(service, "gap-0", DEAD, task="gap", repeat=0, repeats=3)
    play(service, "gap-1", task="gap", repeat=1, repeats=3, reward=1.0)
    service.http.post("/rollouts", json={"id": "runs", "batch": "b", "task": "begun"})

    async def names(**view: Any) -> list[str]:
        return [
            row.total.task for row in (await task_page(control, "b", query=TaskQuery(**view))).items
        ]

    assert await names() == ["gap", "begun", "a", "t9", "t10"], "gaps first"
    assert await names(descending=True) == ["a", "t9", "t10", "begun", "gap"]
    assert await names(order=TaskOrder.SCORE) == ["t10", "t9", "a", "gap", "begun"]
    best = await names(order=TaskOrder.SCORE, descending=True)
    assert best == ["a", "gap", "t9", "t10", "begun"]
    by_name = ["a", "begun", "gap", "t9", "t10"]
    assert await names(order=TaskOrder.NAME) == by_name
    assert await names(order=TaskOrder.NAME, descending=True) == by_name[::-1]
    assert await names(order=TaskOrder.REPEATS) == ["begun", "a", "t9", "t10", "gap"]
    assert await names(kind=TaskKind.GAPS) == ["gap", "begun"]
    assert await names(kind=TaskKind.BETWEEN) == ["t9"]
    assert await names(text="T9") == ["t9"]
    assert await names(text="a") == ["a", "gap"], "the task of that name comes first"
    page = await task_page(control, "b")
    assert (page.total, page.measured, page.repeats, page.score) == (5, 7, 10, 0.625)
    assert {kind.value: n for kind, n in page.counts.items()} == {
        "all": 5, "gaps": 2, "none": 1, "zero": 1, "between": 1, "one": 2,
    }  # fmt: skip
    assert page.measured == service.get("/batches/b")["scored"]
