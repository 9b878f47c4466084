"""Pages and what they load are compressed for those who ask; what agents are sent is not."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import httpx
import pytest

from proxy.web import render
from tests.fakes import answers
from tests.proxy.api.test_routes import Service
from tests.proxy.control.test_batches import play
from tests.proxy.web.test_pages import BROWSER

PAGES = ("/", "/ui/batches/b")
STATIC = ("page.css", "live.js", "palette.js")


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


def raw(service: Service, path: str, encodings: str) -> tuple[httpx.Headers, bytes]:
    """The headers and the bytes of an answer as they were sent."""
    headers = {**BROWSER, "accept-encoding": encodings}
    with service.http.stream("GET", path, headers=headers) as answer:
        return answer.headers, b"".join(answer.iter_raw())


@pytest.mark.parametrize("path", [*PAGES, *(f"/ui/static/{name}" for name in STATIC)])
def test_a_page_is_the_same_in_fewer_bytes(service: Service, path: str) -> None:
    play(service, "won", reward=1.0, task="t")
    plain, whole = raw(service, path, "identity")
    assert "content-encoding" not in plain
    headers, packed = raw(service, path, "br, gzip;q=0.8")
    assert headers["content-encoding"] == "gzip"
    assert int(headers["content-length"]) == len(packed) < len(whole) / 2
    assert len(gzip.decompress(packed)) == len(whole)
    assert "accept-encoding" in plain["vary"]
    assert "accept-encoding" in headers["vary"]


@pytest.mark.parametrize(
    ("encodings", "packed"),
    [
        ("gzip", True), ("GZIP ; q=1", True), ("*", True), ("deflate, *;q=0.1", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("*, gzip;q=0.000", False),
    ],
)  # fmt: skip
def test_it_is_compressed_for_those_who_accept_it(
    service: Service, encodings: str, packed: bool
) -> None:
    headers, body = raw(service, "/ui/static/page.css", encodings)
    assert (headers.get("content-encoding") == "gzip") == packed
    assert (body == render.STATIC["page.css"].content) != packed


def test_an_agents_answer_and_rest_are_sent_as_they_are(service: Service) -> None:
    service.provider.plays(answers.chat("m" * 2000))
    asked = {"model": "gpt-5", "messages": []}
    headers = {"accept-encoding": "gzip"}
    answer = service.http.post("/r/r1/openai/v1/chat/completions", json=asked, headers=headers)
    assert "content-encoding" not in answer.headers
    assert "vary" not in answer.headers
    assert "content-encoding" not in raw(service, "/rollouts/r1/exchanges", "gzip")[0]
