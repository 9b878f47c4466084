"""A server that is no truezero service, or a hostile one: a sentence, and bounded memory."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.fakes.provider import Answer, Framing, Provider
from truezero import AsyncClient, Client, ServiceError, foreign
from truezero.cli.reader import Reader

SMALL = 2**20  # bytes of an answer, as these tests have it


@dataclass(frozen=True)
class Hostile:
    """An answer: its status, its headers and its body."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] | None = None


HOSTILE = {
    "brackets": Hostile(b"[" * 100_000),
    "closed brackets": Hostile(b'{"version":' + b"[" * 900 + b"]" * 900 + b"}"),
    "a refusal in brackets": Hostile(b"[" * 100_000, status=500),
    "a refusal without an end": Hostile(b"x" * 2 * SMALL, status=500),
    "no end": Hostile(b"x" * 2 * SMALL),
    "zeros, packed": Hostile(gzip.compress(bytes(8 * SMALL)), headers={"content-encoding": "gzip"}),
    "packed twice": Hostile(b"", headers={"content-encoding": "gzip, gzip"}),
    "brotli": Hostile(b"", headers={"content-encoding": "br"}),
    "an infinite status": Hostile(b'{"detail": "", "code": "", "status": 1e999}', status=500),
    "a long number": Hostile(b'{"version": ' + b"9" * 100_000 + b"}"),
}


@contextmanager
def serving(answer: Hostile) -> Iterator[str]:
    """Serve one answer to every request on loopback."""

    headers = tuple((answer.headers or {}).items())
    played = Answer(status=answer.status, headers=headers, body=(answer.body,), framing=Framing.EOF)
    with Provider(played) as provider:
        yield provider.url


def sdk(url: str) -> None:
    with Client(url) as client:
        client.greet()


def awaited(url: str) -> None:
    async def greet() -> None:
        async with AsyncClient(url) as client:
            await client.greet()

    asyncio.run(greet())


def reader(url: str) -> None:
    with Reader(url) as client:
        client.greet()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "MOST_OF_ANSWER", SMALL)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("read", [sdk, awaited, reader])
def test_a_hostile_answer_is_another_programs(read: Callable[[str], None], name: str) -> None:
    with serving(HOSTILE[name]) as url, pytest.raises(ServiceError) as raised:
        read(url)
    assert str(raised.value).startswith(f"{url} is not a truezero service (HTTP ")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["no end", "zeros, packed", "packed twice", "brotli"])
def test_lines_and_events_are_bounded_too(name: str) -> None:
    with serving(HOSTILE[name]) as url, Client(url) as client:
        for lines in (client.export(), client.rollouts_csv(), client.events("b")):
            with pytest.raises(ServiceError, match="is not a truezero service"):
                for _ in lines:
                    pass


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[]", b"no JSON"])
def test_an_event_that_is_none_ends_the_stream_in_a_sentence(data: bytes) -> None:
    events = Hostile(b"id: " + b"9" * 10_000 + b"\ndata: " + data + b"\n\n")
    refused = pytest.raises(ServiceError, match="is not a truezero service")
    with serving(events) as url, Client(url) as client, refused:
        next(client.events("b"))


@pytest.mark.usefixtures("small")
def test_lines_end_where_they_end_on_the_wire() -> None:
    lines = Hostile('{"a":"\u2028"}\r\n\n{"b":1}\n{"c"'.encode())
    with serving(lines) as url, Client(url) as client:
        assert list(client.export()) == ['{"a":"\u2028"}', "", '{"b":1}', '{"c"']
    many = b'{"a":1}\n' * (2 * SMALL // 8)
    with serving(Hostile(many)) as url, Client(url) as client:
        assert sum(1 for _ in client.export()) == 2 * SMALL // 8
