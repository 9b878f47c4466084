"""The demo's agent, against the demo's provider and no proxy: it answers or gives up quietly."""
# ruff: noqa: SLF001
# Private: how long it waits for a verdict.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from proxy.features.drills.fault_scripts import SCRIPTS
from truezero.runner import demo
from truezero.runner.demo import (
    ACCOUNTS,
    DOWN,
    OPERATOR,
    SCENES,
    Account,
    DemoProvider,
    agent,
    failure,
)

SOLVED = {"solved": "391", "rate-limited": "391", "honest-zero": "I could not work this out."}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_an_agent_answers_or_returns_nothing(
    scene: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ACCOUNTS, "sk-demo-slow", Account(every_s=3600))  # however slow a machine
    (one,) = (each for each in SCENES if each is scene)
    with DemoProvider() as provider, httpx.Client() as http:
        base_url = provider.url + ("/v1" if one.dialect == "openai" else "")
        answer = agent(http, one, base_url, one.key or OPERATOR)
    assert SOLVED.get(one.name, "") in answer
    assert bool(answer) is (one.name in SOLVED)


def test_a_verdict_is_asked_again_until_its_calls_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "_PATIENCE_S", 0.0)
    answers = ["undecided", "undecided", "api_error", "healthy"]
    client = SimpleNamespace(verdict=lambda _: SimpleNamespace(health=answers.pop(0)))
    assert demo._decided(cast(Any, client), "r1").health == "api_error"
    monkeypatch.setattr(demo, "_WRITTEN_S", 0.0)
    answers[:] = ["undecided"]
    assert demo._decided(cast(Any, client), "r1").health == "undecided", "not for ever"


# --- The demo's provider: each account answers as its state demands, in both dialects -------------

FUNDED = "sk-demo-funded"


def ask(url: str, dialect: str, key: str, model: str = "demo-large", **more: Any) -> httpx.Response:
    path, header = {
        "openai": ("/v1/chat/completions", {"authorization": f"Bearer {key}"}),
        "anthropic": ("/v1/messages", {"x-api-key": key}),
    }[dialect]
    messages = [{"role": "user", "content": "What is 17 * 23?"}]
    body = {"model": model, "messages": messages, **more}
    return httpx.post(url + path, json=body, headers=header, timeout=30)


@pytest.mark.parametrize(
    ("key", "model", "openai", "anthropic"),
    [
        ("sk-revoked", "demo-large", 401, 401),
        ("sk-demo-empty", "demo-large", 429, 400),
        ("sk-demo-outage", "demo-large", 503, 529),
        (FUNDED, DOWN, 503, 529),
        (FUNDED, "demo-huge", 404, 404),
        (FUNDED, "demo-small", 200, 200),
    ],
)
def test_each_dialect_fails_with_its_own_status(
    key: str, model: str, openai: int, anthropic: int
) -> None:
    with DemoProvider() as provider:
        assert ask(provider.url, "openai", key, model).status_code == openai
        assert ask(provider.url, "anthropic", key, model).status_code == anthropic


def test_a_rate_limit_says_how_long_and_admits_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACCOUNTS, "sk-slow", Account(alternates=True))
    with DemoProvider() as provider:
        answers = [ask(provider.url, "openai", "sk-slow") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 429, 200]
    assert float(answers[1].headers["retry-after"]) == 0.3


def test_a_limit_is_stated_and_refuses_what_comes_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACCOUNTS, "sk-slow", Account(every_s=3600))
    with DemoProvider() as provider:
        answers = [ask(provider.url, "openai", "sk-slow", stream=True) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 429]
    stated = {
        name: answers[0].headers[f"x-ratelimit-{name}-requests"] for name in ("limit", "reset")
    }
    assert stated == {"limit": "1", "reset": "3600s"}


def test_a_failures_bytes_are_those_of_a_drill() -> None:
    with DemoProvider() as provider:
        for dialect, api in (("openai", "openai.chat"), ("anthropic", "anthropic.messages")):
            refused = ask(provider.url, dialect, "sk-demo-empty")
            assert refused.json() == SCRIPTS[api].errors("demo-large")["quota"].body


def test_nothing_stands_between_a_funded_key_and_its_model() -> None:
    assert failure(FUNDED, "demo-large") is None
    assert failure("sk-revoked", "demo-huge") == "auth"


def test_a_product_is_to_be_calculated_in_both_dialects() -> None:
    with DemoProvider() as provider:
        chat = ask(provider.url, "openai", FUNDED).json()["choices"][0]
        message = ask(provider.url, "anthropic", FUNDED).json()
        stream = ask(provider.url, "openai", FUNDED, stream=True).text
    assert chat["message"]["content"] == "Calculate 17 * 23."
    assert message["content"][0]["text"] == "Calculate 17 * 23."
    assert stream.endswith("data: [DONE]\n\n")
