"""What pages show beyond REST: numbered pages, timelines, changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from proxy.control import upstreams as timeline_module
from proxy.control.dashboard import (
    NumberedPage,
    batch_page,
    judged_rollouts,
    newest_batches,
    timeline,
)
from proxy.control.queries import Service as ControlService
from proxy.control.upstreams import Facts
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import DEAD, play
from truezero import models


@pytest.mark.parametrize(
    ("number", "items", "total", "shown"),
    [
        (1, 20, 41, (3, 1, 20)),
        (3, 1, 41, (3, 41, 41)),
        (1, 0, 0, (1, 0, 0)),
        (2, 0, 20, (1, 0, 20)),
    ],
)
def test_a_page_knows_its_place(
    number: int, items: int, total: int, shown: tuple[int, int, int]
) -> None:
    page: NumberedPage[Facts] = NumberedPage(
        items=[{}] * items, number=number, size=20, total=total
    )
    assert (page.pages, page.first, page.last) == shown


@pytest.mark.postgres_smoke
async def test_more_batches_take_no_more_work_in_threads(
    service: Service, control: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    to_thread, here = asyncio.to_thread, threading.get_ident()

    def counting(work: Callable[..., Any], *given: Any) -> Coroutine[Any, Any, Any]:
        if threading.get_ident() == here:  # the service's own work goes on beside it
            begun.append(work)
        return to_thread(work, *given)

    monkeypatch.setattr(asyncio, "to_thread", counting)

    async def taken() -> int:
        await batch_page(control)  # which judges and adds up what has changed
        begun.clear()
        await batch_page(control)
        return len(begun)

    play(service, "one", batch="nightly-2026-11-01")
    alone = await taken()
    for day in range(2, 5):
        play(service, f"r{day}", DEAD, batch=f"nightly-2026-11-{day:02}")
    assert await taken() == alone > 0
    play(service, "other", batch="other")
    page = await batch_page(control)
    assert [len(page.earlier[item["batch"]]) for item in page.items] == [0, 3, 2, 1, 0]
    assert page.earlier["nightly-2026-11-02"] == [("nightly-2026-11-01", 0.0)]
    assert page.earlier["nightly-2026-11-03"][1:] == [("nightly-2026-11-02", None)]
    assert await newest_batches(control) == [item["batch"] for item in page.items]


async def test_rollouts_are_listed_with_what_their_verdicts_say(
    service: Service, control: ControlService
) -> None:
    play(service, "fine", task="fix")
    play(service, "dead", DEAD, task="add")
    asked = models.ListParameters(text="AD", limit=1, order="desc")
    (found,), following = await judged_rollouts(control, asked)
    assert (found["id"], found["failed_requests"], found["skipped"]) == ("dead", 1, None)
    assert found["error"].startswith("api_error [auth, permanent]")
    assert following is None


async def test_a_timeline_is_built_again_only_after_a_change(
    service: Service, control: ControlService, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    build = timeline_module.build_timeline

    def counting(*args: Any, **named: Any) -> object:
        built.append(1)
        return build(*args, **named)

    monkeypatch.setattr("proxy.control.dashboard.build_timeline", counting)
    assert await timeline(control, "b") is None
    play(service, "one", DEAD)
    first = await timeline(control, "b")
    assert first is not None
    assert sum(point.failed.get("auth", 0) for point in first.points) == 1
    assert await timeline(control, "b") is first
    assert len(built) == 1
    play(service, "two", answers.chat())
    second = await timeline(control, "b")
    assert second is not None
    assert sum(point.calls for point in second.points) == 2
    assert len(built) == 2


async def test_a_timeline_ends_with_the_last_call_however_long_ago_that_was(
    service: Service, control: ControlService
) -> None:
    play(service, "one", DEAD)
    later = replace(control, now=lambda: control.now() + 30 * 86_400)
    drawn, old = await timeline(control, "b"), await timeline(later, "b")
    assert drawn is not None
    assert old == drawn
    assert old.step_s == 1
