"""Refusals as agents read them: the SDKs of OpenAI, Anthropic and Google print our sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.routing.errors import Refusal, agents_problem
from proxy.wire import routes
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys import agents

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

APIS = [Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.GEMINI, Api.INTERACTIONS]
STATUSES = (400, 401, 403, 404, 408, 413, 426, 431, 500, 501, 502, 503, 504)  # that agents get


@pytest.mark.parametrize("api", APIS)
def test_an_sdk_prints_the_sentence_of_each_status(api: Api) -> None:
    with Provider() as provider:
        for status in STATUSES:
            sentence = f"{status} is refused here: use /r/{{rollout}}/{{upstream}}/…"
            provider.plays(_rendered(Refusal(status, "bad_path", sentence)))
            seen = agents.ask(api, provider.url, stream=False)
            assert (seen.said, seen.status) == ((), status), seen
            assert sentence in (seen.message or ""), seen


def _rendered(refusal: Refusal) -> Callable[[Request], Answer]:
    def play(request: Request) -> Answer:
        api = routes.route(request.method, request.path.encode()).api
        headers, body = agents_problem(refusal, api)
        shown = tuple((name.decode(), value.decode()) for name, value in headers)
        without_length = tuple(each for each in shown if each[0] != "content-length")
        return Answer(status=refusal.status, headers=without_length, body=(body,))

    return play
