"""A response handed on in callbacks: their order, what is held, what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from proxy.outbound import errors
from proxy.outbound.connection import UNREAD_LIMIT, ResponseHandler
from proxy.outbound.request import SerializedRequest
from tests.proxy.relay.byhand import GONE, Lines, connection

REQUEST = SerializedRequest(b"GET / HTTP/1.1\r\n\r\n", b"")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


pytestmark = pytest.mark.reaches_in  # what is compiled cannot be derived from


def reading(lines: Lines, *holds: bytes) -> Any:
    """A response that is sent for; its reader holds from the parts in ``holds`` on."""
    return _reader()(lines, *holds)


@lru_cache
def _reader() -> Callable[..., ResponseHandler]:
    class Reader(ResponseHandler):
        """Notes what it is called with."""

        def __init__(self, lines: Lines, *holds: bytes) -> None:
            super().__init__(lines.origin, asyncio.get_running_loop())
            self.seen: list[object] = []
            self._holds = set(holds)
            self.send(REQUEST, None)

        def on_head(self) -> None:
            self.seen.append(self.status)

        def on_part(self, part: bytes) -> bool:
            if part == b"raises":
                raise ValueError
            if part in self._holds:
                self._holds.discard(part)
                self.held = True
                return False
            self.seen.append(part)
            return True

        def on_end(self) -> None:
            self.seen.append("end")

        def on_failure(self, error: errors.UpstreamError) -> None:
            self.seen.append(error)

        def on_internal_error(self, error: Exception) -> None:
            self.seen.append(type(error))
            self.stop()

    return Reader


async def test_a_response_is_handed_on_as_it_comes() -> None:
    provider, line, kept = connection()
    reader = reading(Lines(provider))
    assert line.said() == REQUEST.head
    for part in (HEAD + b"a", b"b", b"cd"):
        provider.data_received(part)
    assert reader.seen == [200, b"a", b"b", b"cd", "end"]
    assert kept == [provider]


async def test_what_comes_while_it_is_held_comes_together_later() -> None:
    provider, _, _ = connection()
    reader = reading(Lines(provider), b"b")
    for part in (HEAD + b"a", b"b", b"cd"):
        provider.data_received(part)
    assert reader.seen == [200, b"a"]
    reader.release()
    assert reader.seen == [200, b"a", b"bcd", "end"]


async def test_a_provider_is_not_read_from_while_too_much_is_kept() -> None:
    provider, line, _ = connection()
    reader = reading(Lines(provider), b"a")
    big = b"x" * UNREAD_LIMIT
    provider.data_received(HEAD.replace(b"4", b"%d" % (len(big) + 2)) + b"a")
    assert not line.reading_paused
    provider.data_received(big)
    assert line.reading_paused
    reader.release()
    assert (line.reading_paused, reader.seen) == (False, [200, b"a" + big])


async def test_parts_come_before_the_failure_behind_them() -> None:
    provider, _, _ = connection()
    reader = reading(Lines(provider), b"a")
    provider.data_received(HEAD + b"a")
    provider.fail(GONE)
    assert reader.seen == [200]
    reader.release()
    assert reader.seen == [200, b"a", GONE]


async def test_what_the_reader_raises_ends_it() -> None:
    for parts in ([HEAD.replace(b"4", b"9"), b"raises"], [HEAD.replace(b"4", b"9") + b"raises"]):
        provider, line, _ = connection()
        reader = reading(Lines(provider))
        for part in parts:
            provider.data_received(part)
        assert reader.seen == [200, ValueError]
        assert line.aborted


async def test_a_stopped_response_hands_on_nothing_more() -> None:
    provider, line, _ = connection()
    reader = reading(Lines(provider), b"a")
    provider.data_received(HEAD + b"a")
    reader.stop()
    assert (reader.seen, line.aborted, reader.connection) == ([200], True, None)


async def test_only_a_pooled_connection_that_died_unheard_is_replaced() -> None:
    for reused, heard, error, repeated in (
        (True, False, GONE, True),
        (False, False, GONE, False),
        (True, True, GONE, False),
        (True, False, errors.ReadTimeout(""), False),
    ):
        provider, _, _ = connection(reused=reused)
        lines = Lines(provider)
        reader = reading(lines)
        if heard:
            provider.data_received(b"H")
        provider.fail(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (lines.opens is not None) is repeated
        assert reader.seen == ([] if repeated else [error])
        reader.stop()


async def test_a_new_connection_that_is_closed_already_is_a_failure() -> None:
    lines = Lines()
    reader = reading(lines)
    await asyncio.sleep(0)
    provider, _, _ = connection(reused=False)
    provider.eof_received()
    assert lines.opens is not None
    lines.opens.set_result(provider)
    await asyncio.sleep(0)
    (error,) = reader.seen
    assert isinstance(error, errors.RemoteProtocolError)
