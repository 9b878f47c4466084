"""Two services on one database: what ends at one has ended at the other when its answer comes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection

from classifier.records import Attribution, Exchange, Timing
from proxy.recording.backlog import recover
from proxy.relay.admission import Access, AccessState
from proxy.relay.context import LiveCalls
from proxy.routing.target import Target
from proxy.routing.upstreams import allow_list
from proxy.server.background import EndedRollouts
from proxy.store.database import Database
from tests.builders import exchange
from tests.fakes import answers
from tests.fakes.provider import Hang
from tests.postgres import Server
from tests.proxy.api.test_routes import ASK, CHAT, PATIENCE_S, PLAIN, Service, problem, serving
from tests.statements import statements
from tests.waiting import until

ENDED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}
CALLS = 8  # by each agent, after the answer


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, Service]]:
    """Two services in this process that take each other for processes of other hosts."""
    folder = tmp_path_factory.mktemp("pair")
    with ExitStack() as stack:
        url = str(folder / "t.db")
        if request.param == "postgresql":
            server: Server = request.getfixturevalue("postgres_server")
            url = stack.enter_context(server.database())
        both: list[Service] = []
        database = stack.enter_context(closing(Database(url)))
        for _ in range(2):
            settings = {"DATABASE_URL": url, "OUTCOME_GRACE_S": "0.1"}
            both.append(stack.enter_context(serving(folder, **settings)))
            until(lambda: database.change(moved) == len(both))
        yield both[0], both[1]


def moved(connection: Connection) -> int:
    """Put each worker on a host of its own; returns how many there are."""
    return connection.exec_driver_sql("UPDATE workers SET host = id").rowcount


def register(service: Service, rollout: str) -> dict[str, str]:
    """Register a rollout; returns the header with its key."""
    answer = service.http.post("/rollouts", json={"id": rollout})
    assert answer.status_code == 201, answer.text
    return {"authorization": f"Bearer {answer.json()['key']}"}


def end(service: Service, rollout: str) -> dict[str, Any]:
    answer = service.http.post(f"/rollouts/{rollout}/outcome", json=ENDED)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


def delete(service: Service, key: dict[str, str]) -> None:
    named = {"keys": [key["authorization"].removeprefix("Bearer ")]}
    answer = service.http.post("/key/delete", json=named)
    assert answer.status_code == 200, answer.text


class Loop:
    """An agent that calls over and over, and notes when each call began and what it got."""

    def __init__(self, service: Service, key: dict[str, str]) -> None:
        self.calls: list[tuple[float, int]] = []
        self.done = threading.Event()
        self._url = f"{service.http.base_url}/openai{CHAT}"
        self._key = key
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(verify=PLAIN, timeout=PATIENCE_S, headers=self._key) as http:
            while not self.done.is_set():
                began = time.monotonic()
                with contextlib.suppress(httpx.RemoteProtocolError):  # cut in its middle
                    self.calls.append((began, http.post(self._url, json=ASK).status_code))
                self.done.wait(0.003)  # three that never rest would take all of the CPU

    def stop(self) -> None:
        self.done.set()
        self._thread.join()

    def statuses(self, since: float = 0.0) -> list[int]:
        return [status for began, status in tuple(self.calls) if began > since]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["outcome", "key"])
def test_nothing_begun_after_the_answer_passes_at_either(
    pair: tuple[Service, Service], way: str
) -> None:
    one, other = pair
    key = register(one, f"loops-{way}")
    loops = [Loop(service, key) for service in (one, other, other)]
    try:
        until(lambda: all(200 in loop.statuses() for loop in loops))
        end(one, f"loops-{way}") if way == "outcome" else delete(one, key)
        answered = time.monotonic()
        reached = [len(service.provider.requests) for service in pair]
        until(lambda: all(len(loop.statuses(answered)) >= CALLS for loop in loops))
    finally:
        for loop in loops:
            loop.stop()
    assert {status for loop in loops for status in loop.statuses(answered)} == {403}
    assert [len(service.provider.requests) for service in pair] == reached


@pytest.mark.postgres_smoke
def test_a_stream_at_the_other_is_closed_and_judged_before_the_answer(
    pair: tuple[Service, Service],
) -> None:
    one, other = pair
    key = register(one, "stream")
    other.provider.plays(answers.chat_stream().stopping_after(2, Hang()))
    ask = {**ASK, "stream": True}
    with other.http.stream("POST", f"/openai{CHAT}", json=ask, headers=key) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        result = end(one, "stream")
        with pytest.raises(httpx.RemoteProtocolError):
            list(chunks)
    (call,) = one.get("/rollouts/stream/exchanges")["items"]
    assert (call["ending"], call["subcategory"]) == ("closed_at_outcome", None)
    assert (result["provisional"], result["total_requests"], result["late_calls"]) == (False, 1, 0)
    assert "closed_at_outcome" in result["warnings"]
    assert result["judged_at"] == one.get("/rollouts/stream/verdict")["judged_at"]
    other.provider.plays(answers.healthy)


@pytest.mark.postgres_smoke
def test_a_call_without_an_answer_is_told_why_it_ends(pair: tuple[Service, Service]) -> None:
    one, other = pair
    key, got = register(one, "silent"), list[httpx.Response]()
    other.provider.plays((Hang(),))
    heard = len(other.provider.requests)
    url = f"{other.http.base_url}/openai{CHAT}"
    agent = threading.Thread(
        target=lambda: got.append(
            httpx.post(url, json=ASK, headers=key, verify=PLAIN, timeout=PATIENCE_S)
        )
    )
    agent.start()
    other.provider.wait_for(heard + 1)
    delete(one, key)
    agent.join()
    (call,) = other.get("/rollouts/silent/exchanges")["items"]
    if call["status"] is None:  # the provider's head may have come before
        problem(got[0], 403, "rollout_ended")
        assert got[0].headers["x-truezero-exchange"] == call["id"]
    assert call["ending"] == "closed_at_outcome"
    other.provider.plays(answers.healthy)


def test_what_comes_late_by_a_bare_path_is_counted_and_changes_nothing(
    pair: tuple[Service, Service],
) -> None:
    one, other = pair
    assert other.call("late").status_code == 200
    result = end(one, "late")
    verdict = one.get("/rollouts/late/verdict")
    assert (result["late_calls"], verdict["late_calls"]) == (0, 0)
    other.provider.plays(answers.FAILURES[answers.Api.CHAT][answers.Fault.QUOTA])
    assert [other.call("late").status_code for _ in range(3)] == [429] * 3
    other.provider.plays(answers.healthy)
    for service in pair:
        assert service.get("/rollouts/late/verdict") == {**verdict, "late_calls": 3}
        assert service.get("/rollouts/late/result") == {**result, "late_calls": 3}
        assert end(service, "late") == {**result, "late_calls": 3}
    assert verdict["health"] == "healthy"


class Spill:
    """What a dead process left behind."""

    def __init__(self, *calls: Exchange) -> None:
        self.calls = list(calls)

    def next(self, count: int) -> list[Exchange]:
        return self.calls[:count]

    def taken(self) -> None:
        self.calls.clear()

    def keep(self, exchanges: Sequence[Exchange]) -> bool:
        raise AssertionError(f"nothing is left behind anew: {exchanges}")

    def close(self) -> None:
        pass


@pytest.mark.postgres_smoke
def test_a_call_found_later_that_had_ended_makes_the_verdict_undecided_once(
    pair: tuple[Service, Service],
) -> None:
    one, other = pair
    assert one.call("found").status_code == 200
    assert end(one, "found")["health"] == "healthy"
    verdict, row = one.get("/rollouts/found/verdict"), exchange(rollout_id="found")
    with closing(Database(one.database)) as database:
        after = replace(row, id="after", timing=Timing(time.time() + 60.0))
        recover(database.calls, Spill(after), worker="w")
        assert one.get("/rollouts/found/verdict") == {**verdict, "late_calls": 1}
        before = Timing(verdict["judged_at"] - 60.0, duration_s=1.0)
        recover(database.calls, Spill(replace(row, id="before", timing=before)), worker="w")
        undecided = other.get("/rollouts/found/verdict")
        assert (undecided["health"], undecided["provisional"]) == ("undecided", False)
        assert (undecided["total_requests"], undecided["late_calls"]) == (2, 1)
        recover(database.calls, Spill(replace(row, id="again", timing=before)), worker="w")
    assert one.get("/rollouts/found/verdict") == {**undecided, "late_calls": 2}
    assert end(one, "found")["health"] == "undecided"


def test_a_worker_that_does_not_confirm_leaves_the_verdict_undecided(
    pair: tuple[Service, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of another host that lives, by its heartbeat, and never looks."""
    one, _ = pair
    monkeypatch.setattr("proxy.control.rollouts._CONFIRMED_WITHIN_S", 0.0)
    database = Database(one.database)
    database.workers.heartbeat("deaf", host="far", now=time.time())
    try:
        assert one.call("unconfirmed").status_code == 200
        result = end(one, "unconfirmed")
    finally:
        database.workers.retire("deaf")
        database.close()
    assert (result["health"], result["provisional"]) == ("undecided", False)
    assert end(one, "unconfirmed") == result


# --- one process by itself ------------------------------------------------------------------


PROVEN = Target(
    rollout_id="expires", upstream=allow_list({})["openai"], role="agent", path=CHAT.encode(),
    query=b"", attribution=Attribution.MINTED_KEY, proven=True,
)  # fmt: skip


class Call:
    """A call under way."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def database(database: Database) -> Database:
    for worker in ("w", "v"):
        database.workers.heartbeat(worker, host=worker, now=time.time())
    return database


def access(now: Callable[[], float] = time.time, ends_at: float | None = None) -> Access:
    return Access(
        look_up=lambda _: AccessState(ends_at=ends_at),
        answered=lambda *_: True,
        wall=now,
        clock=time.monotonic,
    )


def closer(
    database: Database, live: LiveCalls, missing: dict[str, int], known: Access | None = None
) -> EndedRollouts:
    return EndedRollouts(
        database.closings, worker="w", access=known or access(), live=live,
        missing=lambda rollout: missing.get(rollout, 0), grace_s=0.0,
    )  # fmt: skip


async def close_until(one: EndedRollouts, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        await one.close_ended()


def ended(database: Database, rollout: str) -> int:
    report = database.rollouts.report(rollout, "{}", now=time.time(), registers=True)
    assert report.closing is not None
    return report.closing


def silent(database: Database, rollout: str, number: int) -> list[str]:
    return database.closings.unconfirmed(rollout, number, worker="v", host="v", now=time.time())


@pytest.mark.slow
async def test_a_rollout_is_confirmed_when_its_calls_are_over_and_written(
    database: Database,
) -> None:
    live, call, missing = LiveCalls(), Call(), {"held": 1}
    live.enter("held", call)
    one = closer(database, live, missing)
    one.begin()
    held, free = ended(database, "held"), ended(database, "free")
    assert silent(database, "free", free) == ["w"]
    await one.close_ended()
    assert (silent(database, "held", held), silent(database, "free", free)) == (["w"], [])
    live.leave("held", call)
    for _ in range(3):  # its calls are over, and one of them is not written
        await one.close_ended()
        assert silent(database, "held", held) == ["w"]
    missing.clear()
    await close_until(one, lambda: not silent(database, "held", held))


async def test_who_ends_a_rollout_waits_until_its_calls_are_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"own": 1}
    one = closer(database, LiveCalls(), missing)
    one.begin()
    closing = asyncio.create_task(one.close("own", ended(database, "own")))
    for _ in range(3):
        await one.close_ended()
        assert not closing.done()
    missing.clear()
    assert await closing
    monkeypatch.setattr("proxy.server.background._WRITTEN_WITHIN_S", 0.0)
    missing["never"] = 1
    assert not await one.close("never", ended(database, "never"))


async def test_what_ended_before_a_process_began_is_none_of_its_business(
    database: Database,
) -> None:
    number = ended(database, "before")
    live, call = LiveCalls(), Call()
    one = closer(database, live, {})
    one.begin()
    live.enter("before", call)
    await one.close_ended()
    assert silent(database, "before", number) == []
    assert not call.closed


async def test_a_call_begun_after_this_process_closed_its_rollout_goes_on(
    database: Database,
) -> None:
    live, call = LiveCalls(), Call()
    one = closer(database, live, {})
    one.begin()
    number = ended(database, "own")
    assert await one.close("own", number)
    live.enter("own", call)  # by its bare path
    await one.close_ended()
    assert silent(database, "own", number) == []
    assert not call.closed


async def test_a_key_that_expires_ends_the_calls_it_let_in(database: Database) -> None:
    clock = [100.0]
    known = access(lambda: clock[0], ends_at=105.0)
    live, call, later = LiveCalls(), Call(), Call()
    one = closer(database, live, {}, known)
    one.begin()
    await known.admit(PROVEN)
    live.enter("expires", call)
    await one.close_ended()
    clock[0] = 105.0
    assert not call.closed
    await close_until(one, lambda: call.closed)
    live.leave("expires", call)
    live.enter("expires", later)  # by its bare path
    for _ in range(3):
        await one.close_ended()
    assert not later.closed


async def test_a_database_that_took_anothers_place_counts_anew(
    database: Database, tmp_path: Path
) -> None:
    live, call = LiveCalls(), Call()
    one = closer(database, live, {})
    for name in "abc":
        ended(database, name)
    one.begin()
    database.change(lambda connection: connection.exec_driver_sql("DELETE FROM server"))
    live.enter("d", call)
    ended(database, "d")
    await close_until(one, lambda: call.closed)


async def test_one_look_is_one_query_while_nothing_ends(database: Database) -> None:
    one = closer(database, LiveCalls(), {})
    one.begin()
    await one.close_ended()  # says so once
    with statements(database) as asked:
        for _ in range(5):
            await one.close_ended()
    assert len([each for each, _ in asked if each != "BEGIN"]) == 5
