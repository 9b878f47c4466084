"""A service on loopback is asked under a loopback name, and by no other site's page."""

from __future__ import annotations

import pytest

from proxy.routing.addresses import LocalNames, is_local, name_of
from proxy.routing.errors import Refusal


def test_no_dns_rebinds_localhost_or_an_address() -> None:
    for host in (
        "localhost",
        "localhost:8383",
        "a.localhost",
        "127.0.0.1:1",
        "[::1]:8383",
        "[::1]",
        "host.docker.internal:8383",
        "host.containers.internal",
    ):
        assert is_local(host), host
    for host in (
        "",
        "rebound.example",
        "localhost.example:8383",
        "127.0.0.1.example",
        "docker.internal",
    ):
        assert not is_local(host), host
    assert (name_of("a:1"), name_of("[::1]:1"), name_of("a")) == ("a", "[::1]", "a")


def refused(names: LocalNames, **headers: str) -> str | None:
    by_name = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    try:
        names.check(by_name)
    except Refusal as refusal:
        assert refusal.status == 403
        return refusal.code
    return None


LOCAL = "127.0.0.1:8383"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"host": LOCAL}, None),
        ({"host": "LocalHost"}, None),
        ({"host": "proxy.example:8383"}, None),
        ({"host": LOCAL, "origin": "http://localhost:3000"}, None),
        ({"host": LOCAL, "origin": "https://proxy.example"}, None),
        ({"host": LOCAL, "sec_fetch_site": "same-site"}, None),
        ({}, "unknown_host"),
        ({"host": "rebound.example:8383"}, "unknown_host"),
        ({"host": "rebound.example", "origin": "http://rebound.example"}, "unknown_host"),
        ({"host": LOCAL, "origin": "https://site.example"}, "cross_origin"),
        ({"host": LOCAL, "origin": "https://localhost.example"}, "cross_origin"),
        ({"host": LOCAL, "origin": "null"}, "cross_origin"),
        ({"host": LOCAL, "sec_fetch_site": "cross-site"}, "cross_origin"),
    ],
)
def test_who_else_asks_is_refused(headers: dict[str, str], code: str | None) -> None:
    assert refused(LocalNames("proxy.example"), **headers) == code


def test_without_a_configured_host_only_loopback_is_known() -> None:
    assert refused(LocalNames(), host="proxy.example") == "unknown_host"
    assert refused(LocalNames(), host=LOCAL) is None
