"""No agent and no provider chooses an origin: whatever either writes, nobody else is asked."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Provider
from tests.fakes.relaying import Relaying, relaying

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def _elsewhere() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


@pytest.fixture
def elsewhere(_elsewhere: Provider) -> Iterator[Provider]:
    """Run an origin that is not listed, and that must get no request."""
    yield _elsewhere
    assert _elsewhere.connections == 0


@pytest.fixture(scope="module")
def _provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def provider(_provider: Provider) -> Provider:
    _provider.plays(Answer(body=(b"{}",)))
    _provider.requests.clear()
    return _provider


@pytest.fixture(scope="module")
def relay(_provider: Provider) -> Iterator[Relaying]:
    with relaying(_provider.url) as running:
        yield running


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with caller.Client(follow_redirects=False) as running:
        yield running


def own(provider: Provider) -> str:
    return provider.url.removeprefix("http://")


# ELSEWHERE stands for host and port of the origin that nobody listed. The status is that of a
# call that reached the provider (200), or of a refusal.
TARGETS = {
    "an absolute form": ("http://ELSEWHERE/r/r1/openai" + CHAT, 200),
    "an absolute form with a user": ("http://x@ELSEWHERE/r/r1/openai" + CHAT, 200),
    "an absolute form of another scheme": ("https://ELSEWHERE/r/r1/openai" + CHAT, 200),
    "two slashes first": ("//ELSEWHERE/r/r1/openai" + CHAT, 404),  # no agent's call
    "two slashes behind the upstream": ("/r/r1/openai//ELSEWHERE" + CHAT, 200),
    "three slashes behind the upstream": ("/r/r1/openai///ELSEWHERE" + CHAT, 200),
    "an at behind the upstream": ("/r/r1/openai@ELSEWHERE" + CHAT, 404),
    "an at in the path": ("/r/r1/openai/@ELSEWHERE" + CHAT, 200),
    "a password in the path": ("/r/r1/openai/x:y@ELSEWHERE" + CHAT, 200),
    "a port behind the upstream": ("/r/r1/openai:80@ELSEWHERE" + CHAT, 404),
    "a dot behind the upstream": ("/r/r1/openai.ELSEWHERE" + CHAT, 404),
    "an address as the upstream": ("/r/r1/ELSEWHERE" + CHAT, 404),
    "a URL as the upstream": ("/r/r1/http://ELSEWHERE" + CHAT, 404),
    "an encoded URL as the upstream": ("/r/r1/http%3A%2F%2FELSEWHERE" + CHAT, 404),
    "a URL in the path": ("/r/r1/openai/http://ELSEWHERE" + CHAT, 200),
    "an encoded URL in the path": ("/r/r1/openai/http%3a%2f%2fELSEWHERE" + CHAT, 200),
    "an encoded slash behind the upstream": ("/r/r1/openai%2F%2FELSEWHERE" + CHAT, 404),
    "an encoded at": ("/r/r1/openai/%40ELSEWHERE" + CHAT, 200),
    "backslashes": ("/r/r1/openai/\\\\ELSEWHERE" + CHAT, 200),
    "an encoded backslash": ("/r/r1/openai/%5c%5cELSEWHERE" + CHAT, 200),
    "a semicolon": ("/r/r1/openai/;@ELSEWHERE" + CHAT, 200),
    "a question mark and an at": ("/r/r1/openai" + CHAT + "?@ELSEWHERE", 200),
    "a URL in the query": ("/r/r1/openai" + CHAT + "?base_url=http://ELSEWHERE/", 200),
    "a climb": ("/r/r1/openai/..//ELSEWHERE" + CHAT, 400),
    "an encoded climb": ("/r/r1/openai/%2e%2e/%2e%2e/ELSEWHERE" + CHAT, 400),
    "a climb with an encoded slash": ("/r/r1/openai/..%2f..%2fELSEWHERE" + CHAT, 400),
    "an encoded line break": ("/r/r1/openai/%0d%0aHost:%20ELSEWHERE" + CHAT, 200),
    "a URL as the rollout": ("/r/http:%2F%2FELSEWHERE/openai" + CHAT, 200),
    "a URL as the role": ("/r/r1/as/http:%2F%2FELSEWHERE/openai" + CHAT, 400),
}  # fmt: skip


@pytest.mark.parametrize("trick", TARGETS)
def test_no_path_leads_elsewhere(
    relay: Relaying, provider: Provider, elsewhere: Provider, trick: str
) -> None:
    target, status = TARGETS[trick]
    target = target.replace("ELSEWHERE", own(elsewhere))
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    answer = relay.raw(head.encode() + b"{}")
    assert int(answer[9:12]) == status
    assert len(provider.requests) == (status == 200)
    for seen in provider.requests:
        assert seen.target.startswith("/"), "the form in which an origin is named"
        assert [value for name, value in seen.headers if name.lower() == "host"] == [own(provider)]


HEADERS = (
    "host", "x-forwarded-host", "x-forwarded-server", "x-forwarded-proto", "x-host", "forwarded",
    "x-original-url", "x-rewrite-url", "x-original-host", "proxy", "proxy-host", "via", "origin",
    "referer", "x-real-ip", "x-truezero-upstream", "x-truezero-rollout", "x-truezero-url",
    "x-upstream", "x-base-url", "x-portkey-custom-host", "helicone-target-url",
    "helicone-openai-api-base", "x-litellm-api-base", "x-stainless-base-url", "destination",
    "location", "alt-svc",
)  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_no_header_leads_elsewhere(
    http: httpx.Client, relay: Relaying, provider: Provider, elsewhere: Provider, header: str
) -> None:
    for value in (own(elsewhere), elsewhere.url, f"host={own(elsewhere)};proto=http"):
        answer = http.post(relay.base() + CHAT, content=b"{}", headers={header: value})
        assert answer.status_code == 200
    hosts = {seen.header("host") for seen in provider.requests}
    assert hosts == {own(provider)}


@pytest.mark.parametrize("status", [201, 300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_answer_leads_elsewhere(
    http: httpx.Client,
    relay: Relaying,
    provider: Provider,
    elsewhere: Provider,
    status: int,
    method: str,
) -> None:
    url = elsewhere.url + "/v1/models"
    pointing = (
        ("location", url), ("content-location", url), ("refresh", f"0; url={url}"),
        ("alt-svc", f'h2="{own(elsewhere)}"; ma=3600'), ("link", f"<{url}>; rel=preload"),
    )  # fmt: skip
    provider.plays(Answer(status=status, headers=pointing, body=(b"{}",)))
    for _ in range(2):  # an alternative service would be used the second time
        answer = http.request(method, relay.base() + "/v1/models")
        assert answer.status_code == status
        assert answer.headers["location"] == url, "the agent is told, and may go there itself"
    assert len(provider.requests) == 2
