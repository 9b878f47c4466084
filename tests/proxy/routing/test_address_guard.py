from __future__ import annotations

import contextlib
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from proxy.routing import address_guard
from proxy.routing.address_guard import (
    AddressGuard,
    GuardedAddressError,
    LocalNames,
    OwnAddresses,
    check_not_own,
    is_guarded,
    is_local,
    name_of,
)
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import BUILT_IN, Upstream, allow_list
from proxy.settings import Settings, SettingsError, load
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.proxy.api.test_routes import ASK, CHAT, Service, problem, serving
from tests.tables import each

# --------------------------------------------------------------------------------------------------
# Where no upstream is unless its operator says so: named outright, hidden, or led to by a name

METADATA = (
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::1",
    "fe80::a9fe:a9fe%eth0",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
)
ELSEWHERE = (
    "127.0.0.1", "::1", "10.0.0.7", "192.168.1.1", "172.17.0.1", "100.64.0.1", "169.253.255.255",
    "169.255.0.1", "203.0.113.7", "fd12:3456::1", "2001:db8::1", "64:ff9b::cb00:7107",
)  # fmt: skip


@each("address", METADATA)
def test_link_local_and_metadata_addresses_are_guarded(address: str) -> None:
    assert is_guarded(address)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_private_networks_and_this_machine_are_not(address: str) -> None:
    """Models are served there."""
    assert not is_guarded(address)


def test_what_is_no_address_is_guarded() -> None:
    assert is_guarded("somewhere")


def permitted(allowed: AddressGuard, *found: str, host: str = "name") -> list[str]:
    return allowed.permitted(host, 443, found, str)


def test_of_a_names_addresses_those_remain_where_an_upstream_may_be() -> None:
    assert permitted(AddressGuard(), "169.254.169.254", "203.0.113.7") == ["203.0.113.7"]
    assert permitted(AddressGuard()) == []
    with pytest.raises(GuardedAddressError):
        permitted(AddressGuard(), "169.254.169.254", "fe80::1%2")


def test_a_host_whose_operator_says_so_may_be_there() -> None:
    changes = {"x": {"url": "http://Near.Example.:80/v1", "allow_link_local": True}}
    allowed = AddressGuard.of(allow_list(changes))
    assert permitted(allowed, "169.254.1.1", host="near.example") == ["169.254.1.1"]
    with pytest.raises(GuardedAddressError):
        permitted(allowed, "169.254.1.1", host="api.openai.com")


# --- at start --------------------------------------------------------------------------------


def start(url: str) -> Settings:
    return load({}, {"TRUEZERO_UPSTREAM_X": url})


@each(
    "host",
    [
        *(f"[{address}]" if ":" in address else address for address in METADATA),
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata",
        "169.254.169.254.",
    ],
)
def test_an_upstream_that_is_named_there_is_refused_at_start(host: str) -> None:
    with pytest.raises(SettingsError) as caught:
        start(f"http://{host}:8080/latest")
    assert "allow_link_local = true under [upstreams.x]" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["2852039166", "0xa9fea9fe", "0xA9.254.0xa9fe", "169.16689662", "0251.0376.0251.0376"]
)
def test_an_address_in_a_spelling_that_hides_it_is_refused_at_start(host: str) -> None:
    with pytest.raises(SettingsError, match="not a plain IPv4 address"):
        start(f"http://{host}/")


@pytest.mark.parametrize(
    "host", ["[::1]", "10.0.0.7", "a9fe.example", "0xcafe.example", "1e100.net", "4.example"]
)
def test_other_hosts_may_be_upstreams(host: str) -> None:
    assert start(f"http://{host}").allow_list()["x"].url == f"http://{host}"


def test_an_operator_may_mean_it(tmp_path: Path) -> None:
    config = tmp_path / "truezero.toml"
    config.write_text("[upstreams.x]\nallow_link_local = true\n")
    environment = {"TRUEZERO_UPSTREAM_X": "http://169.254.1.1:8000"}
    assert load({}, environment, config).allow_list()["x"].allow_link_local
    config.write_text("[upstreams.x]\nallow_link_local = 'yes'\n")
    with pytest.raises(SettingsError, match="allow_link_local"):
        load({}, environment, config)


def test_nothing_in_the_built_in_table_is_there() -> None:
    address_guard.check_addresses(BUILT_IN)
    assert not any(upstream.allow_link_local for upstream in BUILT_IN.values())


def test_the_services_own_addresses_are_blocked_for_every_host() -> None:
    changes = {"x": {"url": "http://near.example", "allow_link_local": True}}
    own = OwnAddresses(listening=(("127.0.0.1", 443),))
    guard = AddressGuard.of(allow_list(changes), own)
    for host in ("name", "near.example"):
        assert permitted(guard, "127.0.0.1", "203.0.113.7", host=host) == ["203.0.113.7"]
        with pytest.raises(GuardedAddressError, match="this service itself"):
            permitted(guard, "127.0.0.1", "::ffff:127.0.0.1", host=host)
    assert guard.permitted("name", 444, ["127.0.0.1"], str) == ["127.0.0.1"]


# --- when it is dialled ----------------------------------------------------------------------


@contextlib.contextmanager
def led_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, url: str, **settings: str
) -> Iterator[Service]:
    """Run a service with an upstream whose name, not whose URL, leads to a blocked address.

    Once it has started this machine stands for that place, so that what comes there is seen.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_PROXY", "*")
    named = url.replace("127.0.0.1", "localhost")
    with serving(folder, UPSTREAM_NAMED=named, **settings) as service:
        here = (ip_network("127.0.0.0/8"), ip_network("::1"))
        monkeypatch.setattr(address_guard, "_NETWORKS", (*address_guard._NETWORKS, *here))  # noqa: SLF001  networks are added to those that are known
        monkeypatch.setattr(
            address_guard, "is_guarded", address_guard.is_guarded.__wrapped__
        )  # remembers nothing
        yield service


def test_a_name_that_leads_there_is_not_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Provider(answers.healthy) as provider,
        led_there(tmp_path, monkeypatch, provider.url) as service,
    ):
        answer = service.http.post(f"/r/r1/named{CHAT}", json=ASK)
        problem(answer, 502, "upstream_unreachable")
        (call,) = service.get("/rollouts/r1/exchanges")["items"]
        assert provider.connections == 0
    assert call["ending"] == "never_connected"


def test_a_name_that_may_lead_there_is_dialled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "truezero.toml").write_text("[upstreams.named]\nallow_link_local = true\n")
    with (
        Provider(answers.healthy) as provider,
        led_there(tmp_path, monkeypatch, provider.url) as service,
    ):
        assert service.http.post(f"/r/r1/named{CHAT}", json=ASK).status_code == 200
        assert provider.connections == 1


def test_the_operators_own_proxy_may_be_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks the names up then, and has to refuse them itself."""
    with (
        Provider(answers.healthy) as proxy,
        led_there(tmp_path, monkeypatch, proxy.url, UPSTREAM_FAR="http://far.example") as service,
    ):
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("127.0.0.1", "localhost"))
        assert service.http.post(f"/r/r1/far{CHAT}", json=ASK).status_code == 200
        (seen,) = proxy.requests
        assert seen.target == f"http://far.example{CHAT}"


# --- A service on loopback is asked under a loopback name, and by no other site's page ------------


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


# --- Which addresses are the service's own, in any spelling a resolver returns --------------------

OURS = {"192.168.1.5", "fd12::5"}


def holds(listening: str, address: str, port: int = 8383) -> bool:
    own = OwnAddresses(listening=((listening, 8383), ("10.0.0.9", 9000)), is_ours=OURS.__contains__)
    return own.hold(address, port)


def test_an_address_is_ours_where_the_service_listens() -> None:
    rows = (
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::ffff:127.0.0.1", True),
        ("127.0.0.1", "0.0.0.0", True),  # connects to loopback
        ("127.0.0.1", "::", True),
        ("127.0.0.1", "127.0.0.2", True),
        ("localhost", "::1", True),
        ("127.0.0.1", "192.168.1.5", False),  # ours, but nobody listens there
        ("0.0.0.0", "192.168.1.5", True),
        ("::", "fd12::5%eth0", True),
        ("::", "127.0.0.1", True),
        ("0.0.0.0", "192.168.1.6", False),
        ("192.168.1.5", "192.168.1.5", True),
        ("192.168.1.5", "127.0.0.1", False),
        ("proxy.internal", "192.168.1.5", True),
        ("127.0.0.1", "somewhere", False),
    )
    for listening, address, ours in rows:
        assert holds(listening, address) is ours, (listening, address)
        assert not holds(listening, address, 8384)
    assert holds("127.0.0.1", "10.0.0.9", 9000), "the other port counts too"


def test_an_upstream_that_is_the_service_is_named() -> None:
    own = OwnAddresses(listening=(("127.0.0.1", 80),))
    check_not_own(
        [Upstream(name="far", url="http://far.example"), Upstream(name="none", url=None)], own
    )
    with pytest.raises(ValueError, match=r"x: http.* is this service itself"):
        check_not_own([Upstream(name="x", url="http://localhost")], own)
