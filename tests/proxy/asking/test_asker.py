"""When reference calls are asked, and what a busy database changes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Exchange
from classifier.references import NotRun
from proxy.asking.asker import ReferenceAsker, may_need_one
from proxy.asking.ways import Ways
from proxy.outbound.transport import Http1Transport
from proxy.routing.errors import Refusal
from proxy.store.database import Database
from proxy.store.errors import StoreError
from tests.builders import calls
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider
from tests.fakes.relaying import Book, make_context

DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]


@asynccontextmanager
async def asking(provider: str, database: Database, **how: Any) -> AsyncIterator[ReferenceAsker]:
    async with Http1Transport() as transport:
        keys = {"openai": "sk-operator"}
        context = make_context(provider, Book(), transport=transport, real_keys=keys)
        asker = ReferenceAsker(
            context, database.references, database.rollouts, worker="w",
            ways=Ways(database.references), **{"agents": "untrusted", **how},
        )  # fmt: skip
        yield asker
        await asker.aclose()


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("503", True), ("401", True), ("400", True), ("left", True), ("400+context_length", False),
        ("200", False), ("401+override", False),
    ],
)  # fmt: skip
def test_what_needs_a_reference_by_the_call_alone(text: str, needs: bool) -> None:
    (call,) = calls(text)
    assert may_need_one(call) is needs
    assert not may_need_one(replace(call, injected=True))


@pytest.mark.slow
def test_a_busy_database_delays_a_series_and_loses_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (failure,) = calls("503")
    refused: list[str] = []

    def busy_once(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if method.__name__ not in refused:
                refused.append(method.__name__)
                raise StoreError("busy")
            return method(*args, **kwargs)

        return call

    for name in ("recent", "begin", "share", "end", "of_rollout"):
        busy = busy_once(getattr(database.references, name))
        monkeypatch.setattr(database.references, name, busy)

    async def ask(provider: str) -> None:
        async with asking(provider, database) as asker:
            await asker.ask([failure], 60)

    with Provider(DOWN) as provider:
        asyncio.run(ask(provider.url))
    assert sorted(refused) == ["begin", "end", "of_rollout", "recent", "share"]
    series = database.references.of_rollout(failure.rollout_id)[failure.id]
    assert (series["not_run"], json.loads(series["calls"])[0]["answered"]) == (None, False)


def test_a_failure_is_asked_about_once_however_often_it_is_told(database: Database) -> None:
    (failure,) = calls("503")

    async def ask(provider: str, told: Exchange) -> None:
        async with asking(provider, database) as asker:
            for _ in range(5):
                asker.failed(told)
            await asker.ask([told], 60)

    with Provider(DOWN) as provider:
        asyncio.run(ask(provider.url, failure))
        assert len(provider.requests) == 1


def test_a_failure_shares_the_series_that_another_process_asked_since(database: Database) -> None:
    failures = calls("503*2")

    async def ask(provider: str) -> None:
        for failure in failures:
            async with asking(provider, database) as asker:
                await asker.ask([failure], 60)

    with Provider(DOWN) as provider:
        asyncio.run(ask(provider.url))
        assert len(provider.requests) == 1
    first, second = (database.references.of_rollout(x.rollout_id)[x.id] for x in failures)
    assert first["id"] == second["id"]


def test_a_failure_that_an_outcome_waits_for_gives_way_to_none_when_it_is_told_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = calls("503*2")
    looked, may_begin = threading.Event(), threading.Event()
    recent = database.references.recent

    def held_up(*args: Any, **kwargs: Any) -> Any:
        looked.set()
        may_begin.wait(60)
        return recent(*args, **kwargs)

    monkeypatch.setattr(database.references, "recent", held_up)
    put: list[str] = []

    async def ask(provider: str) -> None:
        put_in = {"cost": lambda _upstream, model, _tokens: put.append(model)}
        async with asking(provider, database, **put_in) as asker:

            async def waits_for(failure: Exchange, number: int) -> asyncio.Task[None]:
                waiting = asyncio.create_task(asker.ask([failure], 20))
                while len(put) < number:
                    await asyncio.sleep(0.01)
                return waiting

            waiting = [await waits_for(first, 1)]
            while not looked.is_set():
                await asyncio.sleep(0.01)
            others = len(asyncio.all_tasks())
            asker.failed(first)
            while len(put) < 2 or len(asyncio.all_tasks()) > others:
                await asyncio.sleep(0.01)
            waiting.append(await waits_for(second, 3))
            may_begin.set()
            await asyncio.gather(*waiting)

    with Provider(DOWN) as provider:
        asyncio.run(ask(provider.url))
    asked = database.references.of_rollout(first.rollout_id)
    assert sorted(asked) == sorted([first.id, second.id])


@pytest.mark.slow
def test_series_that_are_asked_for_have_the_bounds_of_all_others(database: Database) -> None:
    async def ask(provider: str) -> list[str]:
        async with asking(provider, database, agents="trusted") as asker:
            series = [await asker.ask_now("openai", "gpt-5") for _ in range(12)]
            with pytest.raises(Refusal, match="at most 12 series a minute"):
                await asker.ask_now("openai", "gpt-5")
            unasked = (("vertex", "gemini-3-pro"), ("openai", "agents/deep-y"))
            return [*series, *[await asker.ask_now(*each) for each in unasked]]

    with Provider(answers.healthy) as provider:
        series = asyncio.run(ask(provider.url))
        assert len(provider.requests) == 36
    found = [database.references.of_id(each) for each in series]
    assert [None if row is None else row["not_run"] for row in found] == [
        *[None] * 12, NotRun.FAILED_TO_RUN, NotRun.FAILED_TO_RUN,
    ]  # fmt: skip
