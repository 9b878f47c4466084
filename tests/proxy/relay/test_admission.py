"""What a rollout's key opens: looked up, kept for a second, and open while the database is away."""
# ruff: noqa: SLF001
# Private: a look-up under way.

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from proxy.relay.admission import Access, AccessState, AccessUnknownError
from proxy.routing.errors import Refusal
from proxy.routing.target import Addresses, Target
from tests.fakes.relaying import KEYRING, Book, make_context


class Database:
    """Access states by rollout, and how often they were read."""

    def __init__(self, state: AccessState | None = None) -> None:
        self.state, self.reads, self.calls, self.away = state, 0, 0, False
        self.now = 100.0

    def look_up(self, _rollout_id: str) -> AccessState | None:
        self.reads += 1
        if self.away:
            raise AccessUnknownError
        return self.state

    def answered(self, rollout_id: str, upstream: str, response_digest: str) -> bool:
        if self.away:
            raise AccessUnknownError
        return (rollout_id, upstream, response_digest) == ("r1", "openai", "d1")

    def access(self) -> Access:
        return Access(
            look_up=self.look_up,
            answered=self.answered,
            wall=lambda: self.now,
            clock=lambda: self.now,
        )


def target(upstream: str = "openai", *, proven: bool = True) -> Target:
    context = make_context("http://provider", Book())
    rollout = f"r1~{KEYRING.secret_of('r1')}" if proven else "r1"
    path = f"/r/{rollout}/{upstream}/v1/chat/completions".encode()
    return Addresses(context.upstreams, KEYRING).read(path, b"", [])


async def test_a_state_is_read_once_a_second() -> None:
    database = Database()
    access = database.access()
    for _ in range(3):
        await access.admit(target())
    assert database.reads == 1
    database.now += 1.0
    await asyncio.gather(*(access.admit(target()) for _ in range(50)))
    assert database.reads == 2, "all of them share one look-up"


@pytest.mark.parametrize("untrusted", [False, True])
async def test_a_rollout_of_untrusted_agents_is_told_before_its_call_is_admitted(
    *, untrusted: bool
) -> None:
    access = Database(AccessState(untrusted=untrusted)).access()
    told: list[str] = []
    access.on_untrusted = told.append
    await access.admit(target())
    assert told == ["r1"] * untrusted


async def test_a_rollouts_end_closes_its_key() -> None:
    database = Database(AccessState(ends_at=100.0))
    access = database.access()
    await access.admit(target(proven=False))  # shows no key
    assert database.reads == 0
    with pytest.raises(Refusal) as caught:
        await access.admit(target())
    assert (caught.value.status, caught.value.code) == (403, "rollout_ended")


async def test_an_end_that_was_known_beforehand_is_told_once_when_it_comes() -> None:
    database = Database(AccessState(ends_at=105.0))
    access = database.access()
    await access.admit(target())
    assert access.expired() == []
    database.now = 105.0
    assert (access.expired(), access.expired()) == (["r1"], [])
    with pytest.raises(Refusal):
        await access.admit(target())
    assert access.expired() == []  # it had come when it was read


async def test_a_key_opens_only_its_upstream() -> None:
    access = Database(AccessState(upstream="openai")).access()
    await access.admit(target())
    with pytest.raises(Refusal) as caught:
        await access.admit(target("anthropic"))
    assert caught.value.code == "upstream_not_allowed"


async def test_agents_are_admitted_while_the_database_is_away() -> None:
    database = Database(AccessState(ends_at=0.0))
    database.away = True
    await database.access().admit(target())


async def test_what_was_known_holds_while_the_database_is_away() -> None:
    database = Database(AccessState(ends_at=0.0))
    access = database.access()
    with pytest.raises(Refusal):
        await access.admit(target())
    database.away = True
    database.now += 2.0
    with pytest.raises(Refusal):
        await access.admit(target())


async def test_a_changed_rollout_is_read_again_and_watched() -> None:
    database = Database()
    access = database.access()
    assert not access.concerns(target(proven=False))
    await access.admit(target())
    access.changed("r1")
    await access.admit(target())
    assert database.reads == 2
    assert access.concerns(target(proven=False))


async def test_a_watched_rollouts_bare_calls_are_looked_up() -> None:
    rule: Any = object()
    access = Database(AccessState(rules={rule: "known"})).access()
    access.watch({"r1"})
    assert access.concerns(target(proven=False))
    assert await access.rules(target(proven=False)) == {rule: "known"}
    access.watch(())
    assert not access.concerns(target(proven=False))


async def test_a_call_under_a_rule_does_not_begin_at_once() -> None:
    rule: Any = object()
    database = Database(AccessState(rules={rule: "known"}))
    access = database.access()
    await access.admit(target())
    assert not access.admit_cached(target())
    assert await access.rules(target()) == {rule: "known"}
    plain = Database(AccessState()).access()
    await plain.admit(target())
    assert plain.admit_cached(target())


async def test_who_was_answered_a_response_is_looked_up() -> None:
    database = Database()
    access = database.access()
    assert await access.was_answered(target(), "d1")
    assert not await access.was_answered(target(), "d2")
    assert not await access.was_answered(target("anthropic"), "d1")
    database.away = True
    with pytest.raises(Refusal) as caught:
        await access.was_answered(target(), "d1")
    assert (caught.value.status, caught.value.code) == (503, "responses_unknown")
    assert (b"retry-after", b"1") in caught.value.headers


@pytest.mark.parametrize("when", ["while it is read", "as it was read"])
async def test_a_call_is_not_admitted_by_what_was_read_before_its_rollout_ended(when: str) -> None:
    database = Database()
    access = database.access()
    reading, go_on = threading.Event(), threading.Event()

    def look_up(_rollout_id: str) -> AccessState | None:
        state = database.look_up(_rollout_id)
        reading.set()
        assert go_on.wait(60)
        return state

    access._look_up = look_up
    calls = [asyncio.create_task(access.admit(target())) for _ in range(3)]
    await asyncio.to_thread(reading.wait, 60)
    (read,) = access._lookups.values()
    if when == "while it is read":
        access.ended("r1")
    else:  # the look-up is done, and those who wait for it go on after this
        read.add_done_callback(lambda _: access.ended("r1"))
    go_on.set()
    refused = await asyncio.gather(*calls, return_exceptions=True)
    assert [getattr(each, "code", None) for each in refused] == ["rollout_ended"] * 3
    assert database.reads == 1
    assert not access._lookups


async def test_an_end_is_remembered_while_the_database_is_away() -> None:
    database = Database()
    access = database.access()
    access.ended("r1")
    database.away = True
    database.now += 60.0
    with pytest.raises(Refusal):
        await access.admit(target())
