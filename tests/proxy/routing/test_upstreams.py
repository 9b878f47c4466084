"""The allow-list, and what an operator may change of it."""

from __future__ import annotations

import pytest

from proxy.routing.upstreams import BUILT_IN, allow_list


@pytest.mark.parametrize("name", ["r", "rollouts", "Batches", "docs", "a/b", "", "ü"])
def test_some_names_no_upstream_may_carry(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name an upstream"):
        allow_list({name: {"url": "https://x.example"}})


@pytest.mark.parametrize(
    "url", ["ftp://x", "x.example", "https://", "https://u:p@x", "https://x/?a", "https://x:99999"]
)
def test_an_upstreams_address_is_a_plain_origin(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        allow_list({"x": {"url": url}})


def test_an_unknown_key_of_an_upstream_is_named() -> None:
    with pytest.raises(ValueError, match=r"upstreams\.x\.ulr"):
        allow_list({"x": {"ulr": "https://x"}})


def test_every_built_in_upstream_has_an_origin_or_says_so() -> None:
    without = [upstream.name for upstream in BUILT_IN.values() if upstream.url is None]
    assert without == ["azure"]
    assert all(u.origin.startswith("http") for u in BUILT_IN.values() if u.url)
