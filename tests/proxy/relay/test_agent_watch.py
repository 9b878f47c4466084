"""An agent that leaves: its call is cancelled, or its response is read on for a while."""

from __future__ import annotations

import asyncio

import pytest

from proxy.inbound.asgi import AGENT_CONNECTION, Message, Scope
from proxy.relay.call import MessageConnection, RelayState, agent_connection
from proxy.relay.context import AgentLeft, CallLimits
from tests.proxy.relay.calls import Agent, parts_of_call, receiving


async def nowhere(_message: Message) -> None:
    raise AssertionError("nothing is sent here")


def test_the_servers_extension_is_used_where_there_is_one() -> None:
    agent = Agent()
    scope: Scope = {"extensions": {AGENT_CONNECTION: agent}}
    assert agent_connection(scope, receiving(), nowhere) is agent
    others: list[Scope] = [{}, {"extensions": {}}, {"extensions": None}]
    for without in others:
        assert isinstance(agent_connection(without, receiving(), nowhere), MessageConnection)


async def test_messages_tell_that_an_agent_left() -> None:
    gone = asyncio.Event()
    connection = MessageConnection(receiving(b"the rest", b"of the body"), nowhere)
    assert not connection.pass_on(b"part")
    assert not connection.reset()
    connection.watch(gone.set)
    await asyncio.wait_for(gone.wait(), 60)


async def test_a_watch_that_stopped_receives_nothing() -> None:
    received = asyncio.Event()

    async def receive() -> Message:
        received.set()
        return {"type": "http.disconnect"}

    connection = MessageConnection(receive, nowhere)
    connection.watch(lambda: None)
    connection.watch(None)
    await asyncio.sleep(0)
    assert not received.is_set()


async def test_an_agent_that_leaves_cancels_its_call() -> None:
    progress, watch, agent, _ = parts_of_call()
    watch.start()
    agent.leave()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert watch.caught()
    assert progress.state is RelayState.LEFT


async def test_another_cancellation_is_not_the_agents() -> None:
    _, watch, _, _ = parts_of_call()
    assert not watch.caught()


async def test_a_response_is_read_on_without_its_agent_up_to_a_limit() -> None:
    progress, watch, agent, _ = parts_of_call(CallLimits(drain_s=600, drain_bytes=10))
    watch.start()
    agent.leave()
    assert progress.state is RelayState.DRAINING
    progress.received = 10
    await watch.send({"type": "http.response.body"})
    progress.received = 11
    with pytest.raises(AgentLeft):
        await watch.send({"type": "http.response.body"})
    watch.stop()
    assert agent.messages == []
