"""Rendered pages keep to their own origin, and what they load can be cached."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from jinja2 import UndefinedError

from proxy.web import render
from tests.proxy.api.test_routes import Service
from tests.proxy.web.test_pages import BROWSER, DEAD, PAGES, page, play


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="2")


@pytest.mark.postgres_smoke
def test_pages_keep_to_their_origin_and_hold_no_script_or_style(service: Service) -> None:
    play(service, "dead", DEAD)
    for path in (*PAGES, "/ui/sign-in", "/ui/nowhere"):
        keeps_to_its_origin(service, path)


def keeps_to_its_origin(service: Service, path: str) -> None:
    answer = service.http.get(path, headers=BROWSER)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "access-control-allow-origin" not in answer.headers
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src)", answer.text)
    for url in re.findall(r'(?:src|href|action)="([^"]*)"', answer.text):
        assert url.startswith(("/", "?", "#")), url


def test_what_pages_load_is_kept_and_changes_its_address(service: Service) -> None:
    sheet = re.search(r'href="(/ui/static/page\.css\?v=\w+)"', page(service, "/"))
    assert sheet is not None
    answer = service.http.get(sheet[1])
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    for path in ("/ui/static/nothing.css", "/ui/static/..%2Fpages.py"):
        assert service.http.get(path).status_code == 404


def test_a_value_that_a_template_lacks_is_an_error_not_a_gap() -> None:
    with pytest.raises(UndefinedError, match="detail"):
        render.page("problem.html", 404, code=404)


def test_markup_in_a_value_stays_text() -> None:
    body = bytes(render.page("problem.html", 404, code=404, detail="<b>x</b>").body)
    assert b"&lt;b&gt;x&lt;/b&gt;" in body
    assert b"<b>x" not in body


def test_every_static_file_has_an_address_of_its_content() -> None:
    assert {"page.css", "live.js", "palette.js", "icon.svg"} <= set(render.STATIC)
    for name, file in render.STATIC.items():
        response = render.static(name)
        assert response is not None
        assert response.body == file.content
        assert re.fullmatch("[0-9a-f]{12}", file.digest)
    assert render.static("nothing.css") is None
