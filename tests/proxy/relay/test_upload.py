"""The request's body: its parts, its limit, and when its agent begins to be watched."""

from __future__ import annotations

import pytest

from classifier.records import Ending
from proxy.relay.call import RelayState, Upload
from proxy.relay.context import AgentLeft, BodyTooLarge
from tests.proxy.relay.calls import parts_of_call, receiving


async def test_a_body_in_one_part_is_whole_at_once_and_its_agent_is_watched() -> None:
    progress, watch, agent, _ = parts_of_call()
    upload = Upload(receiving(b"{}"), progress, watch, 100)
    assert await upload.receive() == b"{}"
    assert not upload.arriving
    assert agent.when_gone is not None


async def test_parts_are_handed_on_as_they_arrive() -> None:
    progress, watch, agent, _ = parts_of_call()
    upload = Upload(receiving(b"a", b"", b"b", b"c"), progress, watch, 100)
    first = await upload.receive()
    assert agent.when_gone is None
    assert [part async for part in upload.after(first)] == [b"a", b"b", b"c"]
    assert agent.when_gone is not None


async def test_until_the_last_part_is_here_silence_is_not_the_providers() -> None:
    progress, watch, _, _ = parts_of_call()
    later = progress.clock() + 10_000
    upload = Upload(receiving(b"a", b"b"), progress, watch, 100)
    stalled = [
        progress.observer.finish(Ending.LEFT_BY_AGENT, later).failed
        async for _ in upload.after(await upload.receive())
    ]
    assert stalled == [False, True]
    progress, watch, _, _ = parts_of_call()
    with pytest.raises(AgentLeft):
        await Upload(receiving(leaves=True), progress, watch, 100).receive()
    assert not progress.observer.finish(Ending.LEFT_BY_AGENT, later).failed


async def test_a_body_can_be_had_whole() -> None:
    progress, watch, _, _ = parts_of_call()
    upload = Upload(receiving(b"a", b"b", b"c"), progress, watch, 100)
    assert await upload.whole(await upload.receive()) == b"abc"


@pytest.mark.parametrize("parts", [(b"abc",), (b"ab", b"c")], ids=["at once", "on the way"])
async def test_one_byte_over_the_limit_is_too_much(parts: tuple[bytes, ...]) -> None:
    progress, watch, _, _ = parts_of_call()
    upload = Upload(receiving(*parts), progress, watch, 2)
    with pytest.raises(BodyTooLarge):
        await upload.whole(await upload.receive())
    assert progress.state is RelayState.TOO_LARGE


async def test_an_agent_that_leaves_ends_the_body() -> None:
    progress, watch, _, _ = parts_of_call()
    upload = Upload(receiving(b"a", leaves=True), progress, watch, 100)
    with pytest.raises(AgentLeft):
        await upload.whole(await upload.receive())
    assert progress.left
