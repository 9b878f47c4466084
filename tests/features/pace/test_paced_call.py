"""Calls that wait for their turn: sent unchanged and in order, with the wait on record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from classifier.records import Ending
from proxy.capture.observer import CauseRules, SilenceLimits
from proxy.features.pace.hold import PaceHold
from proxy.features.pace.lane_pace import Turn
from proxy.features.pace.pacer import Pacer
from proxy.features.pace.settings import GivenPace
from tests.fakes import answers, caller
from tests.fakes.provider import Provider, Wait
from tests.fakes.relaying import Relaying, relaying
from tests.waiting import until

CHAT = "/v1/chat/completions"
ONE_AT_ONCE = GivenPace(concurrency=1)


def ask(number: int = 1, model: str = "gpt-5") -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": f"question {number}"}]}


@contextmanager
def paced(
    url: str,
    given: GivenPace = ONE_AT_ONCE,
    patience_s: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
    **rules: Any,
) -> Iterator[Relaying]:
    """A relay whose calls and handshakes with openai wait for their turn."""
    pacer = Pacer({"openai": given}, clock=clock, wall=time.time, patience_s=patience_s)
    with relaying(url, holds=(PaceHold(pacer),), **rules) as running:
        yield running


@dataclass(frozen=True)
class Occupied:
    """A lane of one place, which a call of r1 has until `go` is set."""

    provider: Provider
    relay: Relaying
    go: threading.Event
    pool: ThreadPoolExecutor

    def asks(
        self, number: int = 1, *, rollout: str = "r1", model: str = "gpt-5"
    ) -> Future[httpx.Response]:
        return self.pool.submit(
            caller.post, self.relay.base(rollout) + CHAT, json=ask(number, model)
        )


@contextmanager
def occupied(**rules: Any) -> Iterator[Occupied]:
    with (
        Provider(answers.healthy) as provider,
        paced(provider.url, **rules) as relay,
        ThreadPoolExecutor() as pool,
    ):
        lane = Occupied(provider, relay, threading.Event(), pool)
        provider.plays(answers.chat().stopping_after(0, Wait(lane.go)), answers.chat())
        first = lane.asks()
        provider.wait_for(1)
        try:
            yield lane
        finally:
            lane.go.set()
        assert first.result().status_code == 200


def begun(relay: Relaying, count: int) -> None:
    """Wait until so many calls are on record as begun; those that are not sent wait."""
    until(lambda: len(relay.book.opens) >= count)


def thousandths() -> float:
    """Seconds that pass so slowly that no lane grows quiet while a machine is busy."""
    return time.monotonic() / 1000


def leaves(relay: Relaying, rollout: str, count: int, *, after_s: float = 0.0) -> None:
    """Ask, and leave once so many calls are on record as begun, or some seconds later."""
    asked = httpx.Request("POST", relay.base(rollout) + CHAT, json=ask())
    head = f"POST {asked.url.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(asked.content)}\r\n"
    with relay.connect() as agent:
        agent.sendall(head.encode() + b"\r\n" + asked.content)
        begun(relay, count)
        time.sleep(after_s)


def test_a_call_waits_for_its_turn_and_is_sent_unchanged_and_in_order() -> None:
    with occupied() as lane:
        waiting = []
        for number in (2, 3):
            waiting.append(lane.asks(number))
            begun(lane.relay, number)
        assert len(lane.provider.requests) == 1
        lane.go.set()
        assert [each.result().status_code for each in waiting] == [200, 200]
        bodies = [request.body for request in lane.provider.requests]
        expected = [httpx.Request("POST", "http://x", json=ask(n)).content for n in (1, 2, 3)]
        assert bodies == expected
        first, second, third = sorted(lane.relay.book.wait_for(3), key=lambda each: each.id)
    assert first.held_s == 0
    assert (second.held_s or 0) > 0
    assert (third.held_s or 0) > 0
    starts = [each.timing.started_at for each in (first, second, third)]
    assert starts == sorted(starts)
    # It starts when it is sent: its wait is no time of the provider's.
    for each in (second, third):
        assert each.timing.started_at >= starts[0] + (first.timing.duration_s or 0)


def test_an_agent_that_leaves_while_its_call_waits_left_nothing_of_the_providers() -> None:
    causes = CauseRules(
        silence=SilenceLimits(stall_s=0.01, first_content_s=0.01, whole_answer_s=0.01),
        classify=lambda evidence, stall_s: (
            pytest.fail("a call that is held failed")
            if evidence.ending is not Ending.LEFT_WHILE_HELD
            else None
        ),
    )
    with occupied(causes=causes) as lane:
        began = time.monotonic()
        leaves(lane.relay, "r2", 2, after_s=0.1)
        left = lane.relay.book.only
        lasted_s = time.monotonic() - began
    assert len(lane.provider.requests) == 1
    assert (left.ending, left.cause, left.held) == (Ending.LEFT_WHILE_HELD, None, False)
    assert (left.status, (left.held_s or 0) >= 0.05) == (None, True)
    assert (left.timing.duration_s or 0) + (left.held_s or 0) < lasted_s, "no time counts twice"


def test_lanes_of_other_models_do_not_wait() -> None:
    with occupied() as lane:
        assert lane.asks(rollout="r2", model="gpt-5-mini").result().status_code == 200
        models = caller.get(lane.relay.base() + "/v1/models")  # no model's call
        assert models.status_code == 200


def test_a_call_of_a_rollout_that_ends_waits_no_longer() -> None:
    with occupied() as lane:
        second = lane.asks(rollout="r2")
        begun(lane.relay, 2)
        lane.relay.end_rollout("r2")
        assert second.result().status_code == 403
        assert lane.relay.book.only.ending is Ending.CLOSED_AT_OUTCOME
        lane.go.set()
        assert lane.asks().result().status_code == 200, "the place in the queue is free"


def test_a_call_that_has_waited_long_enough_is_sent() -> None:
    with occupied(patience_s=0.05) as lane:
        assert lane.asks(rollout="r2").result().status_code == 200
        assert (lane.relay.book.only.held_s or 0) >= 0.04


def test_limits_are_learnt_from_what_answers_state() -> None:
    stated = (
        ("x-ratelimit-limit-requests", "60"), ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "60s"),
    )  # fmt: skip
    with (
        Provider(answers.healthy) as provider,
        paced(provider.url, GivenPace(), clock=thousandths) as relay,
    ):
        provider.plays(answers.chat().with_headers(*stated))
        for rollout in ("r1", "r2"):  # the second one tries whether it is told so, too
            assert caller.post(relay.base(rollout) + CHAT, json=ask()).status_code == 200
        leaves(relay, "r3", 3)  # the next call waits for what is used up
        assert relay.book.wait_for(3)[2].ending is Ending.LEFT_WHILE_HELD
        assert len(provider.requests) == 2


def test_a_429_passes_unchanged_and_the_next_call_waits_as_long_as_it_says() -> None:
    body = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}
    with Provider(answers.healthy) as provider, paced(provider.url, GivenPace()) as relay:
        provider.plays(answers.whole(body, 429, ("retry-after-ms", "40")), answers.chat())
        refused = caller.post(relay.base() + CHAT, json=ask())
        assert (refused.status_code, refused.json()) == (429, body)
        assert refused.headers["retry-after-ms"] == "40"
        began = time.monotonic()
        assert caller.post(relay.base() + CHAT, json=ask()).status_code == 200
        assert relay.book.wait_for(2)[1].held_s is not None
        assert time.monotonic() - began >= (relay.book.exchanges[1].held_s or 0)


async def test_a_limit_that_a_sockets_message_states_holds_its_lane_once_two_are_told() -> None:
    pacer = Pacer({"openai": GivenPace()}, clock=lambda: 5.0, wall=lambda: 1_000.0)
    key = ("openai", None, "key-3f9a")
    spent = {"rate_limits": {"primary": {"used_percent": 100, "reset_at": 1_030}}}

    def enters(rollout: str) -> tuple[bool, Turn]:
        turn = pacer.turn(rollout, (), size=0, go=lambda: None)
        return pacer.enter(key, turn), turn

    _, first = enters("a")
    pacer.told(key, first, spent)
    tries, second = enters("b")
    assert tries, "the second one tries"
    pacer.told(key, second, spent)
    assert not enters("c")[0]
    (report,) = pacer.reports().values()
    assert report.blocked_s == 30.0
