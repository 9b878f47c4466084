"""A socket holds one of the places that calls have, as long as it is open."""

from __future__ import annotations

import contextlib
import time
from contextlib import ExitStack

from websockets.exceptions import InvalidStatus

from proxy.relay.context import LiveCalls
from tests.fakes import caller
from tests.fakes.agent_sockets import opened, refusal
from tests.fakes.relaying import Relaying, relaying
from tests.fakes.talker import Talker


def test_a_socket_holds_a_place_as_long_as_it_is_open() -> None:
    with (
        Talker() as talker,
        relaying(talker.url, live=LiveCalls(total=2, per_rollout=1)) as relay,
        ExitStack() as stack,
    ):
        agent = stack.enter_context(opened(relay))
        agent.send("{}")
        assert agent.recv(300) == "{}"
        answer = refusal(relay)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["x-truezero-refusal"] == "too_many_calls_of_rollout"
        with opened(relay, base=relay.base("other")):
            assert refusal(relay, base=relay.base("c")).json()["code"] == "too_many_calls"
        agent.close()
        assert talker.ended.wait(300)
        assert eventually_opened(relay), "its place was not given back"


def eventually_opened(relay: Relaying) -> bool:
    deadline = time.monotonic() + caller.PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(InvalidStatus), opened(relay):
            return True
    return False


def test_a_provider_that_refuses_the_upgrade_leaves_the_place_free() -> None:
    with (
        Talker() as talker,
        relaying(talker.url, live=LiveCalls(total=1)) as relay,
    ):
        talker.refuses(403, b"{}")
        assert [refusal(relay).status_code for _ in range(3)] == [403] * 3
