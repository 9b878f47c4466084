"""Name resolution and both address families, over real sockets."""
# ruff: noqa: SLF001
# Private: the order of tries, and the moment of each.

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from proxy.outbound import dial, errors
from proxy.outbound.transport import Http1Transport
from proxy.routing.address_guard import AddressGuard, GuardedAddressError, OwnAddresses
from tests.fakes.asking import read, send
from tests.fakes.provider import closed_port
from tests.fakes.sockets import Heard, Stay, hear, playing, serving
from tests.proxy.outbound.client import (
    HI,
    UNTIL_CLOSED,
    fetch,
    full_backlog,
    request,
)
from tests.proxy.outbound.conftest import Certificate


async def test_nobody_there_is_a_connect_error(transport: Http1Transport) -> None:
    with pytest.raises(errors.ConnectError):
        await fetch(transport, f"http://127.0.0.1:{closed_port()}/")


async def test_no_such_name_is_a_connect_error(transport: Http1Transport) -> None:
    with pytest.raises(errors.ConnectError):
        await fetch(transport, "http://nobody.invalid/")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_name_is_reached_in_whichever_family_answers(
    transport: Http1Transport, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(_: str, port: int) -> list[dial.Address]:
        return [(socket.AF_INET6, ("::1", port)), (socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", both)
    async with playing([HI, Stay()], host=host) as server:
        assert (await fetch(transport, f"http://two.test:{server.port}/")).body == b"hi"


async def test_an_address_that_hangs_costs_a_quarter_of_a_second(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([HI, Stay()]) as server:
        with full_backlog() as hanging:

            async def both(_: str, __: int) -> list[dial.Address]:
                there = ("127.0.0.1", hanging), ("127.0.0.1", server.port)
                return [(socket.AF_INET, where) for where in there]

            monkeypatch.setattr(dial, "_addresses", both)
            began = time.monotonic()
            assert (await fetch(transport, "http://two.test/")).body == b"hi"
            assert time.monotonic() - began > 0.2
    assert dial._HEAD_START_S == 0.25


async def test_where_no_address_answers_the_last_error_counts(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def both(_: str, __: int) -> list[dial.Address]:
        return [(socket.AF_INET, ("127.0.0.1", closed_port())) for _ in range(3)]

    monkeypatch.setattr(dial, "_addresses", both)
    with pytest.raises(errors.ConnectError):
        await fetch(transport, "http://two.test/")


async def test_who_asks_for_a_name_at_the_same_time_shares_the_look_up(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = 0

    async def counted(_: str, port: int) -> list[dial.Address]:
        nonlocal looked_up
        looked_up += 1
        await asyncio.sleep(0.05)
        return [(socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", counted)
    async with playing([HI]) as server:
        url = f"http://name.test:{server.port}/"
        hasty = asyncio.create_task(fetch(transport, url))
        calls = [asyncio.create_task(fetch(transport, url)) for _ in range(20)]
        await asyncio.sleep(0)
        hasty.cancel()
        assert {got.body for got in await asyncio.gather(*calls)} == {b"hi"}
    assert looked_up == 1


def test_families_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    given = [(six, 1), (six, 2), (six, 3), (four, 4)]
    assert dial._interleaved(given) == [(six, 1), (four, 4), (six, 2), (six, 3)]


def test_which_addresses_are_this_machines() -> None:
    assert dial.is_own_address("127.0.0.1")
    assert not dial.is_own_address("203.0.113.7")  # TEST-NET-3, RFC 5737
    assert not dial.is_own_address("2001:db8::7")
    assert not dial.is_own_address("somewhere")


async def test_the_service_itself_is_not_dialled() -> None:
    async with playing([HI, Stay()]) as server:
        own = OwnAddresses(listening=(("127.0.0.1", server.port),))
        dialer = dial.Dialer(AddressGuard(own=own))
        for host in (
            "127.0.0.1",
            "localhost",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "::ffff:127.0.0.1",
        ):
            with pytest.raises(GuardedAddressError):
                await dialer.upstream(host, server.port)
        (await dial.Dialer().upstream("127.0.0.1", server.port)).close()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS])
def test_running_out_is_told_from_a_provider_that_cannot_be_reached(number: int) -> None:
    assert dial.is_exhausted(OSError(number, "none is left"))
    assert not dial.is_exhausted(OSError(errno.ECONNREFUSED, "refused"))
    assert not dial.is_exhausted(UnicodeError())


def test_a_resolver_that_can_open_nothing_is_no_unknown_name() -> None:
    """It says that the name is not known for now, whichever it is."""
    unknown = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert not dial.is_exhausted(unknown)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull) as lowest:  # noqa: PTH123
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno(), before[1]))
        try:
            assert dial.is_exhausted(unknown)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)


# --- Opening connections over real sockets: TLS, forward proxies, timeouts ------------------------


async def test_a_connection_that_nobody_accepts_times_out(transport: Http1Transport) -> None:
    with full_backlog() as port, pytest.raises(errors.ConnectTimeout):
        await fetch(transport, f"http://127.0.0.1:{port}/", connect_s=0.1)


async def test_running_out_of_descriptors_is_no_fault_of_the_provider(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections are given up for a second try."""
    real, tries = dial._connected, 0

    async def short(address: dial.Address) -> socket.socket:
        nonlocal tries
        tries += 1
        if tries in (2, 4, 5):
            raise OSError(errno.EMFILE, "Too many open files")
        return await real(address)

    monkeypatch.setattr(dial, "_connected", short)
    async with playing([HI, Stay()]) as idle, playing([HI, Stay()]) as server:
        await fetch(transport, idle.url())
        assert (await fetch(transport, server.url())).body == b"hi"
        assert tries == 3
        with pytest.raises(errors.OwnFault):
            await fetch(transport, idle.url())
        assert tries == 5


async def test_a_loop_that_was_blocked_makes_nobody_time_out(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "_BLOCKED_S", 0.2)
    with full_backlog() as port, pytest.raises(errors.OwnFault, match="blocked"):
        asyncio.get_running_loop().call_later(0.05, time.sleep, 0.5)
        await transport._connector.open(
            dial.route(f"http://127.0.0.1:{port}"), lambda: pytest.fail("connected"), 0.1
        )


@pytest.mark.parametrize("url", ["ftp://h/", "ws://h/"])
async def test_other_schemes_are_refused(transport: Http1Transport, url: str) -> None:
    with pytest.raises(errors.UnsupportedProtocol):
        await fetch(transport, url)


async def test_ipv6(transport: Http1Transport) -> None:
    async with playing([HI, Stay()], host="::1") as server:
        assert (await fetch(transport, server.url())).body == b"hi"
        assert server.heads[0].startswith(b"GET / HTTP/1.1\r\nhost: [::1]:")


async def test_tls(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI, Stay()], tls=certificate.served()) as server,
    ):
        for host in ("localhost", "127.0.0.1"):
            for _ in range(3):
                url = f"https://{host}:{server.port}/"
                assert (await fetch(transport, url, "POST", bytes(300_000))).body == b"hi"
        assert server.connections == 2


async def test_a_body_over_tls_that_ends_with_the_connection(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([UNTIL_CLOSED + b"to the end"], tls=certificate.served()) as server,
    ):
        assert (await fetch(transport, server.url(scheme="https"))).body == b"to the end"


async def test_a_large_answer_over_tls_is_held_back_and_whole(certificate: Certificate) -> None:
    said = b"HTTP/1.1 200 OK\r\ncontent-length: 5000000\r\n\r\n" + bytes(5_000_000)
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([said, Stay()], tls=certificate.served()) as server,
    ):
        response = await send(transport, request(server.url(scheme="https")))
        await asyncio.sleep(0.1)
        assert len(await read(response)) == 5_000_000


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    transport: Http1Transport, certificate: Certificate
) -> None:
    async with playing([HI], tls=certificate.served()) as server:
        with pytest.raises(errors.ConnectError):
            await fetch(transport, server.url(scheme="https"))
        assert not server.heads


async def test_a_certificate_for_another_name_is_refused(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def here(_: str, port: int) -> list[dial.Address]:
        return [(socket.AF_INET, ("127.0.0.1", port))]

    monkeypatch.setattr(dial, "_addresses", here)
    async with (
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI], tls=certificate.served()) as server,
    ):
        with pytest.raises(errors.ConnectError):
            await fetch(transport, f"https://other.test:{server.port}/")
        assert not server.heads


async def test_verification_can_be_switched_off(certificate: Certificate) -> None:
    async with (
        Http1Transport(verify=False) as transport,
        playing([HI], tls=certificate.served()) as server,
    ):
        assert (await fetch(transport, server.url(scheme="https"))).body == b"hi"


async def test_only_http_1_1_is_offered(certificate: Certificate) -> None:
    context = certificate.served()
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[str | None] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        chosen.append(tls.selected_alpn_protocol())
        await hear(reader, Heard())
        writer.write(HI)

    async with Http1Transport(verify=False) as transport, serving(handler, tls=context) as port:
        await fetch(transport, f"https://127.0.0.1:{port}/")
    assert chosen == ["http/1.1"]


async def test_a_server_without_tls_is_a_connect_error(transport: Http1Transport) -> None:
    async with playing([HI]) as server:

        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with serving(plain) as server.port:
            with pytest.raises(errors.ConnectError):
                await fetch(transport, server.url(scheme="https"))


@dataclass
class Tunnels:
    """What a forward proxy was asked for."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def tunnelling(answer: bytes = b"HTTP/1.1 200 Connected\r\n\r\n") -> AsyncIterator[Tunnels]:
    tunnels = Tunnels()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        tunnels.heads.append(head)
        writer.write(answer)
        if b" 200 " not in answer:
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        to, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, back), pump(to, writer))

    async with serving(handler) as tunnels.port:
        yield tunnels


async def test_https_goes_through_a_tunnel(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        tunnelling() as proxy,
        Http1Transport(verify=certificate.trusted()) as transport,
        playing([HI, Stay()], tls=certificate.served()) as server,
    ):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        for _ in range(2):
            got = await fetch(transport, f"https://localhost:{server.port}/")
            assert got.body == b"hi"
    authority = b"localhost:%d" % server.port
    (head,) = proxy.heads
    assert head.startswith(b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n" % (authority, authority))
    assert b"proxy-authorization: Basic bWU6cEBzcw==\r\n" in head
    assert b"proxy-authorization" not in server.heads[0]


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 407 Who are you\r\n\r\n", b"HTTP/1.1 502 No\r\n\r\n", b"nonsense\r\n\r\n", b""],
)
async def test_a_proxy_that_refuses_is_a_proxy_error(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    async with tunnelling(answer) as proxy:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy.port}")
        with pytest.raises(errors.ForwardProxyError):
            await fetch(transport, "https://provider.test/")


async def test_plain_http_goes_to_a_proxy_with_the_whole_url(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing([HI, Stay()]) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{proxy.port}/")
        assert (await fetch(transport, "http://provider.test/v1/x?y=1")).body == b"hi"
    assert proxy.heads[0].startswith(b"GET http://provider.test/v1/x?y=1 HTTP/1.1\r\n")
    assert b"\r\nproxy-authorization: Basic bWU6cHc=\r\n" in proxy.heads[0]


@pytest.mark.parametrize("spared", ["127.0.0.1", "localhost,127.0.0.1:{port}", "*"])
async def test_no_proxy_is_respected(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, spared: str
) -> None:
    async with playing([HI, Stay()]) as server:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{closed_port()}")
        monkeypatch.setenv("no_proxy", spared.format(port=server.port))
        assert (await fetch(transport, server.url())).body == b"hi"


async def test_a_proxy_that_is_not_there_is_a_connect_error(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(errors.ConnectError):
        await fetch(transport, "https://provider.test/")


@pytest.mark.parametrize("named", ["socks5://127.0.0.1:1", "https://127.0.0.1:1"])
async def test_proxies_of_another_kind_are_refused(
    transport: Http1Transport, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("https_proxy", named)
    with pytest.raises(errors.ForwardProxyError):
        await fetch(transport, "https://provider.test/")
