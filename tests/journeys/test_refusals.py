"""Refusals as agents read them: the SDKs of OpenAI, Anthropic and Google print our sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from proxy.routing.errors import Refusal, RefusalCode, agents_problem
from proxy.wire import routes
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys import agents

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

APIS = [Api.CHAT, Api.RESPONSES, Api.MESSAGES, Api.GEMINI, Api.INTERACTIONS]

# --- every code, as it is rendered ---------------------------------------------------------------

# What an agent's call is refused with, by status. All other codes answer runners and people.
AGENTS: dict[int, tuple[str, ...]] = {
    400: ("bad_path", "bad_role", "bad_rollout", "no_rollout", "reserved_rollout", "tls_required"),
    401: ("unknown_key",),
    403: (
        "agents_only", "budget_exceeded", "cross_origin", "path_not_allowed", "rollout_ended",
        "unknown_host", "unproven_rollout", "unregistered_rollout", "upstream_not_allowed",
    ),
    404: ("unconfigured_upstream", "unknown_upstream"),
    408: ("body_timeout", "head_timeout"),
    413: ("body_too_large",),
    426: ("no_websocket",),
    431: ("head_too_large",),
    500: ("internal_error",),
    501: ("upstream_credentials_missing",),
    502: ("upstream_credentials_unavailable", "upstream_disconnected", "upstream_unreachable"),
    503: (
        "out_of_resources", "responses_unknown", "storage_unavailable", "too_many_calls",
        "too_many_calls_of_rollout", "too_many_connections",
    ),
    504: ("upstream_timeout",),
}  # fmt: skip
OTHERS = {
    "batch_policy", "foreign_form", "form_too_large", "gone", "http_error", "invalid",
    "key_alias_exists", "measured", "method_not_allowed", "no_limits", "no_outcome",
    "not_acceptable", "not_confirmed", "not_found", "outcome_exists", "rollout_exists", "sign_in",
    "stale_form", "too_many_references", "too_many_registrations", "unauthorized", "unknown_batch",
    "unknown_call", "unknown_cause", "unknown_lane", "unknown_rollout",
}  # fmt: skip


def test_each_code_is_an_agents_or_not() -> None:
    ours = {code for codes in AGENTS.values() for code in codes}
    assert ours | OTHERS == set(get_args(RefusalCode))
    assert not ours & OTHERS


@pytest.mark.parametrize("api", APIS)
def test_an_sdk_prints_the_sentence_of_each_code(api: Api) -> None:
    with Provider() as provider:
        for status, codes in AGENTS.items():
            for code in codes:
                sentence = f"{code} is refused here: use /r/{{rollout}}/{{upstream}}/…"
                provider.plays(_rendered(Refusal(status, code, sentence)))  # type: ignore[arg-type]
                seen = agents.ask(api, provider.url, stream=False)
                assert seen.said == ()
                assert seen.status == status, (code, seen)
                assert seen.message is not None, (code, seen)
                assert sentence in seen.message


def _rendered(refusal: Refusal) -> Callable[[Request], Answer]:
    def play(request: Request) -> Answer:
        api = routes.route(request.method, request.path.encode()).api
        headers, body = agents_problem(refusal, api)
        shown = tuple((name.decode(), value.decode()) for name, value in headers)
        without_length = tuple(each for each in shown if each[0] != "content-length")
        return Answer(status=refusal.status, headers=without_length, body=(body,))

    return play
