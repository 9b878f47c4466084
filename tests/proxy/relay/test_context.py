"""What the relay is given: limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx as caller
import pytest

from classifier.records import UNATTRIBUTED, Attribution, Ending, KeySource
from proxy.inbound.asgi import RefusalCounter
from proxy.outbound import errors
from proxy.relay.context import (
    CallLimits,
    LiveCalls,
    RefusedRequests,
    UnattributedCalls,
    failed,
    invalid_status,
)
from proxy.routing.address_guard import LocalNames
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import allow_list
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.relaying import relaying


def test_only_connecting_is_limited_unless_it_is_set() -> None:
    limits = CallLimits()
    assert limits.connect_s is not None
    assert (limits.read_s, limits.write_s) == (None, None)


# --- What a failed request means: an ending, and a refusal that names the exchange ----------------


@pytest.mark.parametrize(
    ("error", "ending", "status", "code"),
    [
        (errors.ConnectTimeout, Ending.NEVER_CONNECTED, 502, "upstream_unreachable"),
        (errors.OwnFault, Ending.LOST, 503, "out_of_resources"),
        (errors.ReadTimeout, Ending.TIMED_OUT, 504, "upstream_timeout"),
        (errors.ReadError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
        (errors.LocalProtocolError, Ending.CUT_UPSTREAM, 502, "upstream_disconnected"),
    ],
)
def test_each_error_has_its_ending_and_its_refusal(
    error: type[errors.UpstreamError], ending: Ending, status: int, code: str
) -> None:
    found, refusal = failed(error("why"), "openai", "x1")
    assert (found, refusal.status, refusal.code) == (ending, status, code)
    assert "'openai': why" in refusal.detail
    assert refusal.headers == ((b"x-truezero-exchange", b"x1"),)


def test_a_strange_status_is_named() -> None:
    refusal = invalid_status(999, "x1")
    assert (refusal.status, refusal.headers) == (502, ((b"x-truezero-exchange", b"x1"),))
    assert "999" in refusal.detail


# --- The calls under way: counted, and those of one rollout waited for, then ended ----------------


class Call:
    """A call that leaves when it is closed, unless it is stubborn."""

    def __init__(self, live: LiveCalls, rollout: str = "r", *, stubborn: bool = False) -> None:
        self.live, self.rollout, self.stubborn, self.closed = live, rollout, stubborn, 0
        live.enter(rollout, self)

    def close(self) -> None:
        self.closed += 1
        if not self.stubborn:
            self.leave()

    def leave(self) -> None:
        self.live.leave(self.rollout, self)


async def test_calls_that_end_by_themselves_are_waited_for_and_not_closed() -> None:
    live = LiveCalls()
    one, two, other = Call(live), Call(live), Call(live, "other")
    closing = asyncio.create_task(live.close("r", 3600.0))
    for call in (one, two):
        await asyncio.sleep(0)
        assert not closing.done()
        call.leave()
    assert await closing
    assert (one.closed, two.closed, other.closed) == (0, 0, 0)
    assert [live.any_of(name) for name in ("r", "other")] == [False, True]


async def test_calls_that_go_on_are_closed() -> None:
    live = LiveCalls()
    one, two, other = Call(live), Call(live), Call(live, "other")
    assert await live.close("r", 0.0)
    assert (one.closed, two.closed, other.closed) == (1, 1, 0)


async def test_a_call_that_began_later_goes_on() -> None:
    live = LiveCalls()
    before = Call(live, stubborn=True)
    closing = asyncio.create_task(live.close("r", 0.0))
    await asyncio.sleep(0)
    later = Call(live)
    while not before.closed:
        await asyncio.sleep(0)
    before.leave()
    assert await closing
    assert later.closed == 0


async def test_two_who_close_one_rollout_wait_for_the_same_calls() -> None:
    live = LiveCalls()
    call = Call(live)
    closings = [asyncio.create_task(live.close("r", 3600.0)) for _ in range(2)]
    await asyncio.sleep(0)
    call.leave()
    assert await asyncio.gather(*closings) == [True, True]


async def test_nothing_to_close_is_closed() -> None:
    assert await LiveCalls().close("r", 3600.0)


# --- the count -------------------------------------------------------------------------------


def refused(take: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        take()
    return caught.value


def test_a_place_that_is_given_back_is_free_again() -> None:
    live = LiveCalls(total=2, per_rollout=2)
    for _ in range(5):
        calls = [Call(live, "a"), Call(live, "a")]
        refused(lambda: Call(live, "a"))
        for call in calls:
            call.leave()


def test_the_bound_in_all_counts_every_rollout() -> None:
    live = LiveCalls(total=2)
    Call(live, "a")
    Call(live, "b")
    refusal = refused(lambda: Call(live, "c"))
    assert (refusal.status, refusal.code) == (503, "too_many_calls")
    assert refusal.headers == ((b"retry-after", b"1"),)


def test_a_rollout_at_its_bound_leaves_the_others_their_places() -> None:
    live = LiveCalls(per_rollout=1)
    Call(live, "a")
    assert refused(lambda: Call(live, "a")).code == "too_many_calls_of_rollout"
    Call(live, "b")


def test_who_was_refused_holds_no_place() -> None:
    live = LiveCalls(total=2, per_rollout=1)
    first = Call(live, "a")
    for _ in range(3):
        refused(lambda: Call(live, "a"))
    Call(live, "b")
    first.leave()
    Call(live, "a")


def test_rollouts_that_are_over_leave_nothing_behind() -> None:
    live = LiveCalls(per_rollout=3)
    for number in range(1000):
        Call(live, f"r{number}").leave()
    assert not live._by_rollout  # noqa: SLF001  nothing is left under way


async def test_calls_that_name_no_rollout_are_no_rollouts() -> None:
    """A harness without names may have any number of samples."""
    live = LiveCalls(total=3, per_rollout=1)
    calls = [Call(live, UNATTRIBUTED) for _ in range(3)]
    with pytest.raises(Refusal) as refused:
        Call(live, UNATTRIBUTED)
    assert refused.value.code == "too_many_calls"
    for call in calls:
        call.leave()
    assert not live.any_of(UNATTRIBUTED)


# --- A call that names no rollout: relayed, recorded apart, counted and logged --------------------

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
OPENAI = allow_list({})["openai"]


def test_a_call_is_counted_and_logged_unless_a_page_makes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = UnattributedCalls(LocalNames())
    for _ in range(3):
        calls.admit(OPENAI, {b"host": b"localhost"})
    with pytest.raises(Refusal):
        calls.admit(OPENAI, {b"host": b"rebound.example"})
    assert calls.counts == {"openai": 3}
    (line,) = caplog.messages
    assert "names no rollout" in line
    assert "/r/ROLLOUT/UPSTREAM/…" in line
    assert line.endswith("openai")


def test_it_is_relayed_with_its_own_key_and_recorded_under_the_reserved_id() -> None:
    """Whatever the operator's keys are: by it anybody's page would spend them."""
    with Provider(answers.chat()) as provider:
        for replaces in (False, True):
            calls = UnattributedCalls(LocalNames(), RefusalCounter(""))
            with relaying(
                provider.url,
                refused=RefusedRequests(unattributed=calls),
                real_keys={"openai": "sk-real", "gemini": "g-real"},
                replace_keys=replaces,
            ) as relay:
                own = {"authorization": "Bearer sk-own"}
                assert caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=own).is_success
                assert caller.post(relay.url + "/openai" + CHAT, json=ASK).is_success
                path = "/gemini/v1beta/models/m:generateContent?key=g-own"
                assert caller.post(relay.url + path, json={}).is_success
                assert caller.post(relay.url + "/openai/v1/files", json={}).is_success
            recorded = relay.book.exchanges
            assert {(x.rollout_id, x.attribution) for x in recorded} == {
                (UNATTRIBUTED, Attribution.UNATTRIBUTED)
            }
            assert KeySource.OPERATOR not in {x.key_source for x in recorded}
            assert KeySource.ADDED not in {x.key_source for x in recorded}
            assert calls.counts == {"openai": 3, "gemini": 1}
    shown = [request.header("authorization") for request in provider.requests]
    assert shown == ["Bearer sk-own", None, None, None] * 2
    assert "key=g-own" in provider.requests[2].target
    assert "real" not in repr(provider.requests)


def test_another_sites_page_gets_nothing_and_no_provider_hears_of_it() -> None:
    calls = UnattributedCalls(LocalNames())
    with (
        Provider(answers.chat()) as provider,
        relaying(provider.url, refused=RefusedRequests(unattributed=calls)) as relay,
    ):
        for headers, code in (
            ({"origin": "https://site.example"}, "cross_origin"),
            ({"host": f"rebound.example:{relay.port}"}, "unknown_host"),
        ):
            refused = caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, code)
        assert provider.requests == []
        assert relay.book.exchanges == []


# --- One rollout's share while others are turned away ---------------------------------------------


class TurnedAway:
    """Calls turned away for want of room: rollout, own calls, and how many there may be."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []

    def note(self, rollout_id: str, *, own: int, most: int, in_flight: int, callers: int) -> None:
        assert (in_flight > 0, callers > 0) == (True, True)
        self.calls.append((rollout_id, own, most))


def enter(live: LiveCalls, rollout_id: str, count: int = 1) -> tuple[list[Call], str | None]:
    """Let calls of a rollout in; return those that are, and the code by which one was refused."""
    entered: list[Call] = []
    try:
        entered.extend(Call(live, rollout_id) for _ in range(count))
    except Refusal as refusal:
        return entered, refusal.code
    return entered, None


def test_a_rollout_keeps_a_quarter_of_the_calls_while_others_are_turned_away() -> None:
    turned_away = TurnedAway()
    live = LiveCalls(total=8, per_rollout=100, turned_away=turned_away)
    many, _ = enter(live, "many", 8)
    assert enter(live, "many") == ([], "too_many_calls"), "nobody else asks"
    assert enter(live, "other") == ([], "too_many_calls")
    many.pop().leave()
    assert enter(live, "many") == ([], "too_many_calls_of_rollout"), "it holds seven of eight"
    other, _ = enter(live, "other")
    assert len(other) == 1
    assert turned_away.calls == [("many", 8, 8), ("other", 0, 8), ("many", 7, 8)]


def test_who_is_at_its_own_limit_is_turned_away_by_nobody_else() -> None:
    turned_away = TurnedAway()
    live = LiveCalls(total=100, per_rollout=2, turned_away=turned_away)
    assert enter(live, "r", 3)[1] == "too_many_calls_of_rollout"
    assert turned_away.calls == []


def test_connections_that_are_refused_leave_each_rollout_its_share_until_there_is_room() -> None:
    live = LiveCalls()
    many, _ = enter(live, "many", 8)
    live.share(8)
    assert enter(live, "many") == ([], "too_many_calls_of_rollout")
    for _ in range(3):
        many.pop().leave()
    assert enter(live, "many")[1] is None, "more than a quarter is free"
    assert enter(live, "many", 50)[1] is None
