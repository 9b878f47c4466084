"""Name resolution and both address families, over real sockets."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
import time

import pytest

from proxy.outbound import dial, errors
from proxy.outbound.transport import Http1Transport
from proxy.routing.addresses import AddressGuard, GuardedAddressError, OwnAddresses
from tests.fakes.provider import closed_port
from tests.fakes.sockets import Stay, playing
from tests.proxy.outbound.client import (
    HI,
    fetch,
    full_backlog,
)


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
