"""Refusals as agents read them: the SDKs of OpenAI, Anthropic and Google print our sentence."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, get_args

import httpx
import pytest

from proxy.routing.errors import Refusal, RefusalCode, agents_problem
from proxy.wire import routes
from tests.fakes import answers
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Cut, Provider, Request, Wait, closed_port
from tests.journeys import agents
from tests.journeys.agents import UPSTREAM
from tests.proxy.api.test_routes import Service, serving

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


# --- a service that refuses ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class House:
    """Services by what they refuse: an open one, a guarded one, a strict one, a small one."""

    open: Service
    guarded: Service
    strict: Service
    small: Service


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    settings: dict[str, dict[str, str]] = {
        "open": {
            "READ_TIMEOUT_S": "0.2",
            "UPSTREAM_DOWN": f"http://127.0.0.1:{closed_port()}",
            "MAX_CONCURRENT_CALLS_PER_ROLLOUT": "1",
        },
        "guarded": {"ADMIN_TOKEN": "t0ken"},
        "strict": {"REQUIRE_REGISTRATION": "true"},
        "small": {"BODY_LIMIT": "10"},
    }
    upstreams = ("OPENAI", "ANTHROPIC", "GEMINI")
    with ExitStack() as services:
        yield House(**{
            name: services.enter_context(
                serving(tmp_path_factory.mktemp(name), upstreams=upstreams, **more)
            )
            for name, more in settings.items()
        })  # fmt: skip


Place = Callable[[House, Api], str]  # prepares a refusal, and returns the base URL that meets it


def at(path: str, service: str = "open") -> Place:
    """Ask at a path, in which ``{}`` is the API's upstream."""
    return lambda house, api: _url(getattr(house, service)) + path.format(UPSTREAM[api])


def _url(service: Service) -> str:
    return str(service.http.base_url).rstrip("/")


def _registered(service: Service, api: Api, **facts: Any) -> tuple[str, str]:
    """Register a rollout; its id, and the API's base URL without a version."""
    shown = {"authorization": "Bearer t0ken"}
    answer = service.http.post("/rollouts", json=facts, headers=shown)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return made["id"], made["base_urls"][UPSTREAM[api]].removesuffix("/v1")


def ended(house: House, api: Api) -> str:
    name, base = _registered(house.guarded, api)
    done = {"status": "success", "prompts_executed": 1}
    shown = {"authorization": "Bearer t0ken"}
    house.guarded.http.post(f"/rollouts/{name}/outcome", json=done, headers=shown)
    return base


def spent(house: House, api: Api) -> str:
    _, base = _registered(house.open, api, limits={"calls": 1})
    assert agents.ask(api, base, stream=False).error is None
    return base


def of_another_upstream(house: House, api: Api) -> str:
    own = next(name for name in UPSTREAM.values() if name != UPSTREAM[api])
    shown = {"authorization": "Bearer t0ken"}
    asked = {"upstream": own}
    made = house.guarded.http.post("/rollouts", json=asked, headers=shown).json()
    base: str = made["base_urls"][own].removesuffix("/v1")
    return base.removesuffix(own) + UPSTREAM[api]


def cut(house: House, api: Api) -> str:
    house.open.provider.plays((Cut(),))
    return at("/r/cut/{}")(house, api)


def silent(house: House, api: Api) -> str:
    house.open.provider.plays((Wait(threading.Event()),))
    return at("/r/silent/{}")(house, api)


# By code: where it is met, and a part of its sentence.
MET: dict[str, tuple[Place, str]] = {
    "bad_rollout": (at("/r/a%0Ab/{}"), "control characters"),
    "reserved_rollout": (at("/r/unattributed/{}"), "is reserved for calls that name no rollout"),
    "bad_role": (at("/r/r1/as/JUDGE!/{}"), "a role is 1-40 of a-z 0-9 _ -"),
    "bad_path": (at("/r/r1/{}/%2e%2e/x"), "segments are not forwarded"),
    "unknown_upstream": (at("/r/r1/opneai"), "is not an upstream; did you mean openai?"),
    "unconfigured_upstream": (at("/r/r1/azure"), "set TRUEZERO_UPSTREAM_AZURE=https://"),
    "no_rollout": (at("/{}", "guarded"), "no rollout given: use "),
    "unproven_rollout": (at("/r/r1/{}", "guarded"), "use the base_url or the key that"),
    "unregistered_rollout": (at("/r/r1/{}", "strict"), "is not registered"),
    "rollout_ended": (ended, "this rollout has ended: its key and its base_url open nothing"),
    "upstream_not_allowed": (of_another_upstream, "and its key opens no other"),
    "budget_exceeded": (spent, "this call was not sent to the provider"),
    "body_too_large": (at("/r/r1/{}", "small"), "a request body has at most 10 bytes here"),
    "upstream_unreachable": (at("/r/r1/down"), "no answer from upstream "),
    "upstream_disconnected": (cut, "no answer from upstream "),
    "upstream_timeout": (silent, "no answer from upstream "),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("code", MET)
def test_an_sdk_prints_what_the_service_refuses(house: House, code: str, api: Api) -> None:
    house.open.provider.plays(answers.healthy)
    place, sentence = MET[code]
    seen = agents.ask(api, place(house, api), stream=False)
    assert seen.message is not None, seen
    assert sentence in seen.message, seen


@pytest.mark.parametrize("code", MET)
def test_on_an_anthropic_path_each_refusal_is_an_error_of_anthropics(
    house: House, code: str
) -> None:
    house.open.provider.plays(answers.healthy)
    place, _ = MET[code]
    base = place(house, Api.MESSAGES)
    answer = httpx.post(f"{base}/v1/messages", json={"model": "m", "max_tokens": 9, "messages": []})
    assert answer.headers["x-truezero-refusal"] == code
    body = json.loads(answer.content)
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    assert body["error"]["message"] == body["detail"]
    assert (body["code"], body["status"]) == (code, answer.status_code)
