"""The page behind the palette leads to batches, rollouts, causes and pages."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from proxy.control.listing import SearchMatch
from proxy.web.list_pages import jumps
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import DEAD, page, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def test_what_is_found_is_a_link_to_its_page(service: Service) -> None:
    play(service, "dead", DEAD, batch="night & day")
    service.http.post("/rollouts", json={"id": "a/1"})
    html = page(service, "/ui/find", q=" a/1 ")
    assert '<a href="/ui/rollouts/a%2F1">' in html
    html = page(service, "/ui/find", q="NIGHT")
    assert '<a href="/ui/batches/night%20%26%20day">' in html
    assert '<a href="/ui/rollouts?fingerprint=auth%3A401">' in page(service, "/ui/find", q="auth")
    everything = re.findall(r'<span class="tag">(\w+)</span>', page(service, "/ui/find"))
    assert everything == ["page"] * 6
    page(service, "/ui/find", status=422, q="\x00")
    assert "<script>" not in page(service, "/ui/find", q="<script>alert(1)</script>")


def test_the_search_itself_comes_last() -> None:
    found = jumps("cau", [SearchMatch("cause", "auth:401"), SearchMatch("batch", "b")])
    assert [(jump.kind, jump.path) for jump in found] == [
        ("cause", "/ui/rollouts?fingerprint=auth%3A401"),
        ("batch", "/ui/batches/b"),
        ("page", "/ui/causes"),
        ("search", "/ui/rollouts?text=cau"),
    ]
