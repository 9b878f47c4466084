"""What a question asks is the failed call's twin: cases without an attacker, then with one.

In each the provider fails some of what it serves and answers the rest, whoever asks.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Pause, Provider, Request
from tests.journeys.service import Service
from tests.journeys.test_reference_calls import is_question, questions
from tests.waiting import until

DOWN = answers.FAILURES[Api.CHAT][Fault.PROVIDER_ERROR]
FILTERED = answers.whole({"error": {"code": "content_filter", "message": "The response was "
                          "filtered due to the prompt triggering our content management policy."}},
                         400)  # fmt: skip
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def service(_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("twins")
    keys = {"KEY_OPENAI": "sk-operator", "KEY_ANTHROPIC": "sk-operator"}
    with Service(home, _provider.url, AGENTS="untrusted", **keys) as running:
        yield running


@pytest.fixture
def model() -> str:
    return f"twin-{next(_numbers)}"


def is_no_question(request: Request) -> bool:
    return not is_question(request)


def failing(strikes: Callable[[Request], bool], failure: Answer = DOWN) -> Any:
    """A provider that fails what is asked so, whoever asks."""
    return lambda request: failure if strikes(request) else answers.healthy(request)


def asks_for(model: str) -> Callable[[Request], bool]:
    return lambda request: json.loads(request.body).get("model") == model


class Agent:
    """A rollout that calls by one path, body and headers."""

    def __init__(
        self, service: Service, name: str, asks_for: str, batch: str, *, registered: bool = True,
        path: str = "/v1/chat/completions", more: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None, **said: Any,
    ) -> None:  # fmt: skip
        self.service, self.name, self.model = service, name, asks_for
        self.path, self.more, self.headers = path, more or {}, headers
        if registered:
            said = {"model": asks_for, "upstream": "openai"} | said
        service.register(id=name, batch=batch, **said)
        self._turn = itertools.count()

    def ask(self, **instead: Any) -> int:
        path = instead.pop("path", self.path)
        headers = instead.pop("headers", self.headers)
        patience_s = instead.pop("patience_s", 60)
        text = f"Turn {next(self._turn)} of {self.name}"
        asked = {"input": text} if path.endswith("/responses") else {
            "messages": [{"role": "user", "content": text}]}  # fmt: skip
        body = {"model": self.model, **asked, **self.more, **instead}
        url = self.service.base(self.name, "openai") + path
        return httpx.post(url, json=body, headers=headers, timeout=patience_s).status_code

    def end(self) -> dict[str, Any]:
        self.service.outcome(self.name, status="success", rewards={"score": 0.0})
        until(lambda: not self.service.verdict(self.name)["provisional"])
        return self.service.verdict(self.name)


def excused(verdict: dict[str, Any]) -> bool:
    return bool(verdict["scoreable"] != "yes" and verdict["attributed_to"] != "agent")


def counted(verdict: dict[str, Any]) -> bool:
    return bool(verdict["scoreable"] == "yes" and not verdict["retry"]["eligible"])


@pytest.mark.parametrize("others", [True, False])
def test_one_of_two_registered_models_is_down(
    service: Service, provider: Provider, rollout: str, model: str, others: bool
) -> None:
    both: dict[str, Any] = {"model": [model, f"{model}-b"]}
    agent = Agent(service, rollout, f"{model}-b", model, **both)
    other = Agent(service, f"{rollout}-o", model, model, **both)
    assert agent.ask() == 200
    provider.plays(failing(asks_for(f"{model}-b")))
    if others:
        assert other.ask() == 200
    assert agent.ask() == 503
    if others:
        assert other.ask() == 200
    assert excused(agent.end())
    assert {json.loads(each.body)["model"] for each in questions(provider)} == {f"{model}-b"}
    assert counted(other.end()) or not others


@pytest.mark.parametrize("first", [True, False])
def test_no_model_is_registered_and_one_of_two_is_down(
    service: Service, provider: Provider, rollout: str, model: str, first: bool
) -> None:
    agent = Agent(service, rollout, f"{model}-b", model, registered=False)
    other = Agent(service, f"{rollout}-o", model, model, registered=False)
    if not first:
        assert agent.ask() == 200
    assert other.ask() == 200
    provider.plays(failing(asks_for(f"{model}-b")))
    assert [agent.ask(), other.ask(), agent.ask()] == [503, 200, 503]
    # Where none is registered and none was answered, what its agent named may be there for nobody.
    assert excused(agent.end())
    assert counted(other.end())


def test_chat_is_down_while_responses_is_up(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    agent = Agent(service, rollout, model, model)
    others = [
        Agent(service, f"{rollout}-{n}", model, model, path="/v1/responses") for n in range(2)
    ]
    assert agent.ask() == 200
    assert [each.ask() for each in others] == [200, 200]
    provider.plays(failing(lambda request: request.path.endswith("/chat/completions")))
    assert agent.ask() == 503
    assert [each.ask() for each in others] == [200, 200]
    assert excused(agent.end())
    assert all(counted(each.end()) for each in others)
    assert {each.path for each in questions(provider)} == {"/v1/chat/completions"}


def test_responses_is_down_for_a_rollout_that_it_answered_while_chat_is_up(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    agent = Agent(service, rollout, model, model, path="/v1/responses")
    assert agent.ask() == 200
    provider.plays(failing(lambda request: request.path.endswith("/responses")))
    assert agent.ask() == 503
    assert excused(agent.end())


@pytest.mark.parametrize("shared", [True, False])
def test_one_of_two_mounts_of_a_gateway_is_down(
    service: Service, provider: Provider, rollout: str, model: str, shared: bool
) -> None:
    mount = "/openai/chat/completions"
    agent = Agent(service, rollout, model, model, path=mount)
    beside = Agent(service, f"{rollout}-b", model, model, path=mount if shared else agent.path)
    others = [Agent(service, f"{rollout}-{n}", model, model) for n in range(2)]
    for each in (agent, *others, *([beside] if shared else [])):
        assert each.ask() == 200
    provider.plays(failing(lambda request: request.path == mount))
    assert agent.ask() == 503
    assert [each.ask() for each in others] == [200, 200]
    # A mount that it alone uses is its own choice; the usual one answers.
    assert excused(agent.end()) is shared
    assert all(counted(each.end()) for each in others)


@pytest.mark.parametrize("first", [True, False])
def test_streams_are_down(
    service: Service, provider: Provider, rollout: str, model: str, first: bool
) -> None:
    agent = Agent(service, rollout, model, model, more={"stream": True})
    if not first:
        assert agent.ask() == 200
    provider.plays(failing(lambda request: bool(json.loads(request.body).get("stream"))))
    assert [agent.ask(), agent.ask()] == [503, 503]
    assert excused(agent.end())


def test_a_stream_that_breaks_for_who_was_answered_without_one_is_its_agents(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    agent = Agent(service, rollout, model, model)
    assert agent.ask() == 200
    provider.plays(failing(lambda request: bool(json.loads(request.body).get("stream"))))
    assert agent.ask(stream=True) == 503
    assert counted(agent.end())


# What an agent may choose from its first call on: fields, headers, and what tells such a call.
WAYS: dict[str, tuple[dict[str, Any], dict[str, str], Callable[[Request], bool]]] = {
    "tier": ({"service_tier": "flex"}, {}, lambda r: b"service_tier" in r.body),
    "beta": ({}, {"openai-beta": "a=v2"}, lambda r: r.header("openai-beta") is not None),
    "effort": ({"reasoning_effort": "high"}, {}, lambda r: b"reasoning_effort" in r.body),
    "route": ({"provider": {"only": ["p"]}}, {}, lambda r: b'"provider"' in r.body),
}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_a_way_that_is_down_is_its_agents_choice_unless_others_ask_so(
    service: Service, provider: Provider, rollout: str, model: str, way: str, shared: bool
) -> None:
    more, headers, strikes = WAYS[way]
    agents = [
        Agent(service, f"{rollout}-{n}", model, model, more=more, headers=headers)
        for n in range(2 if shared else 1)
    ]
    plain = Agent(service, f"{rollout}-p", model, model)
    for each in (*agents, plain):
        assert each.ask() == 200
    provider.plays(failing(strikes))
    assert agents[0].ask() == 503
    assert plain.ask() == 200
    verdict = agents[0].end()
    assert excused(verdict) if shared else counted(verdict), verdict["warnings"]
    assert counted(plain.end())


def test_a_filter_that_refuses_plain_questions_is_the_providers_under_every_policy(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    for agents in ("trusted", "untrusted"):
        for broken in (True, False):
            batch = f"{model}-{agents}-{broken}"
            provider.plays(answers.healthy)
            agent = Agent(service, f"{rollout}-{agents}-{broken}", batch, batch,
                          policy={"agents": agents})  # fmt: skip
            assert agent.ask() == 200
            provider.plays(failing((lambda _: True) if broken else is_no_question, FILTERED))
            assert agent.ask() == 400
            verdict = agent.end()
            assert (verdict["scoreable"] == "no") is broken, batch
            assert verdict["health"] == ("api_error" if broken else "healthy"), batch


def test_a_name_of_its_own_has_the_registered_one_asked(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    limit = answers.FAILURES[Api.CHAT][Fault.RATE_LIMIT]
    agent = Agent(service, rollout, f"{model}:free", model, model=model)
    assert agent.ask() == 200
    provider.plays(failing(asks_for(f"{model}:free"), limit))
    assert agent.ask() == 429
    verdict = agent.end()
    assert {json.loads(each.body)["model"] for each in questions(provider)} == {model}
    assert counted(verdict), verdict["warnings"]


def test_a_name_that_only_another_spelling_is_served_by_is_asked_by_that(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    served = f"vendor/{model}"
    missing = answers.whole({"error": {"code": "model_not_found", "message": "no such model"}}, 404)
    provider.plays(failing(asks_for(model), missing))
    agent = Agent(service, rollout, served, model, model=model)
    assert agent.ask() == 200
    provider.plays(lambda r: missing if asks_for(model)(r) else
                   answers.healthy(r) if is_question(r) else DOWN)  # fmt: skip
    assert agent.ask() == 503
    assert counted(agent.end())


def test_a_call_without_a_plain_question_is_asked_about_by_the_upstreams_plain_form(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    agent = Agent(service, rollout, model, model)
    assert agent.ask() == 200
    provider.plays(lambda r: answers.healthy(r) if is_question(r) else answers.BAD_GATEWAY)
    assert agent.ask(path="/generate", inputs="a") == 502
    assert agent.ask() == 502
    assert counted(agent.end())


@pytest.mark.slow  # thirteen rollouts
def test_a_breaker_asks_about_what_failed(
    service: Service, provider: Provider, rollout: str, model: str
) -> None:
    denied = answers.whole({"error": {"message": "denied", "code": "invalid_api_key"}}, 401)
    provider.plays(failing(lambda r: r.path.endswith("/responses"), denied))
    for number in range(6):
        other = Agent(service, f"{rollout}-o{number}", f"{model}-b", model,
                      registered=False, policy={"agents": "trusted"})  # fmt: skip
        other.ask()
        other.end()
        agent = Agent(service, f"{rollout}-{number}", model, model, path="/v1/responses",
                      policy={"agents": "trusted"})  # fmt: skip
        assert agent.ask() == 401
        agent.end()
    lanes = service.get(f"/batches/{model}/breaker")["lanes"]
    assert [x["phase"] for x in lanes if model in x["lane"] and f"{model}-b" not in x["lane"]] == [
        "open"
    ]


@pytest.mark.slow  # what is slow takes its time
@pytest.mark.parametrize(("slow_for_all", "first"), [(True, False), (True, True), (False, False)])
def test_a_call_that_was_left_while_the_provider_is_as_slow_to_whoever_asks_is_nobodys(
    service: Service, provider: Provider, rollout: str, model: str, slow_for_all: bool, first: bool
) -> None:
    def slow(request: Request) -> Any:
        answer = answers.healthy(request)
        if is_question(request) and not slow_for_all:
            return answer
        return (Pause(2.5), *answer.steps("POST"))

    agent = Agent(service, rollout, model, model)
    if not first:
        assert agent.ask() == 200
    provider.plays(slow)
    for _ in range(2):
        with pytest.raises(httpx.TimeoutException):
            agent.ask(patience_s=1.7)
    verdict = agent.end()
    assert (verdict["scoreable"] == "unknown") is slow_for_all, verdict["warnings"]
    assert counted(verdict) is not slow_for_all
