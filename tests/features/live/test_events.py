"""The live event stream of a batch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.control import judge
from proxy.features.live.events import follow
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import ABORTED, CHAT, DEAD, play
from tests.proxy.streamed import events_of


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="3")


@pytest.mark.postgres_smoke
def test_a_batch_streams_what_happens(service: Service) -> None:
    for number in range(3):
        play(service, f"dead-{number}", DEAD)
    play(service, "elsewhere", DEAD, batch="c")
    events = events_of(service, "b", 7, after=0)
    kinds = [kind for _, kind, _ in events]
    assert kinds.count("exchange_failed") == 3
    assert kinds.count("verdict_given") == 3
    assert kinds[-1] == "breaker_opened"
    assert events[0][2]["rollout_id"] == "dead-0"
    assert events[0][2]["subcategory"] == "auth"
    assert events[-1][2]["tripped_by"] == ["dead-0", "dead-1", "dead-2"]
    again = events_of(service, "b", 1, after=events[-2][0])
    assert again[0][1] == "breaker_opened"


def test_a_verdicts_event_names_what_was_found(service: Service) -> None:
    play(service, "cut", ABORTED)
    play(service, "fine")
    (_, _, cut), (_, _, fine) = events_of(service, "b", 2, after=0)
    assert (cut["health"], cut["scoreable"]) == ("healthy", "no")
    assert (cut["validity"], cut["validity_checks"]) == ("invalid", ["engine_aborted"])
    assert (fine["scoreable"], fine["validity"], fine["validity_checks"]) == ("yes", None, [])


def test_a_doomed_rollout_is_announced_while_it_runs(service: Service) -> None:
    service.http.post("/rollouts", json={"id": "r", "batch": "b", "model": "gpt-5"})
    service.provider.plays(DEAD)
    for _ in range(2):
        service.http.post(f"/r/r/openai{CHAT}", json={"model": "gpt-5", "messages": []})
    doomed = events_of(service, "b", 2, after=0)[1]
    assert doomed[1] == "rollout_doomed"
    assert (doomed[2]["rollout_id"], doomed[2]["fingerprint"]) == ("r", "auth:401")


class Told:
    """What a stream stands on: groups of events, and verdicts that say no rollout is doomed."""

    def __init__(self, *groups: list[dict[str, Any]]) -> None:
        self.groups = list(groups)
        self.judged: list[str] = []
        self.database = SimpleNamespace(events=self)

    def stopping(self) -> bool:
        return not self.groups

    async def run(self, read: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return read(*args, **named)

    def subscribe(self, _: Callable[[], object]) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def of_batch(self, _: str, *, after: int) -> tuple[list[dict[str, Any]], int]:
        rows = self.groups.pop(0)
        return rows, rows[-1]["id"]

    async def verdict(self, _: Any, rollout: str) -> dict[str, Any]:
        self.judged.append(rollout)
        return {"doomed": False}


async def test_many_failures_that_are_read_at_once_are_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(number: int, rollout: str) -> dict[str, Any]:
        row = {"id": number, "kind": "exchange_failed", "rollout_id": rollout}
        return {**row, "at": None, "data": "{}"}

    groups = [failed(number, f"r{number % 2}") for number in range(40)], [failed(40, "r0")]
    told: Any = Told(*groups)
    monkeypatch.setattr(judge, "verdict", told.verdict)
    events = [event.id async for event in follow(told, "b", after=0)]
    assert events == list(range(41))
    assert told.judged == ["r0", "r1", "r0"]


def test_a_keep_alive_says_where_to_resume(service: Service) -> None:
    play(service, "before", DEAD)
    newest = events_of(service, "b", 2, after=0)[-1][0]
    with service.http.stream("GET", "/batches/b/events") as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(3)] == [": alive", f"id: {newest}", ""]


@pytest.mark.postgres_smoke
def test_a_stream_without_a_position_starts_with_the_next_event(service: Service) -> None:
    play(service, "before", DEAD)
    (first,) = events_of(service, "b", 1, when_live=lambda: play(service, "after", DEAD))
    assert first[2]["rollout_id"] == "after"
