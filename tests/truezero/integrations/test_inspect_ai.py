"""What Inspect tells and what is reported of it; the package itself is not needed here."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.fakes.provider import Provider
from tests.truezero import driving
from truezero import AsyncClient, Client
from truezero.integrations import inspect_ai
from truezero.integrations.inspect_ai import SampleHooks, measured, rewards_of, sample_outcome

NO_LIMIT = None


def score(value: object) -> SimpleNamespace:
    return SimpleNamespace(value=value)


def sample(
    scores: dict[str, Any] | None = None, limit: str | None = None, error: object = None
) -> SimpleNamespace:
    stopped = None if limit is None else SimpleNamespace(type=limit)
    return SimpleNamespace(scores=scores, limit=stopped, error=error)


@pytest.mark.parametrize(
    ("value", "reward"),
    [("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (0, 0.0), (0.25, 0.25)],
)
def test_a_grade_is_a_number(value: object, reward: float) -> None:
    assert rewards_of({"match": score(value)}) == {"match": reward}


@pytest.mark.parametrize("value", [math.nan, math.inf, "prose", None, [1, 0]])
def test_what_is_no_grade_is_no_reward(value: object) -> None:
    assert rewards_of({"match": score(value)}) is None


def test_a_score_of_several_values_is_several_rewards() -> None:
    found = rewards_of({"judge": score({"style": 0.5, "truth": "C", "note": "prose"})})
    assert found == {"judge/style": 0.5, "judge/truth": 1.0}


@pytest.mark.parametrize(
    ("limit", "status", "reason"),
    [
        (NO_LIMIT, "success", "agent_stop"),
        ("message", "success", "max_steps"),
        ("token", "success", "max_steps"),
        ("operator", "success", "unknown"),
        ("time", "task_timeout", None),
        ("working", "task_timeout", None),
    ],
)
def test_a_limit_says_how_a_sample_ended(
    limit: str | None, status: str, reason: str | None
) -> None:
    seen = sample_outcome(sample({}, limit))
    assert (seen["status"], seen.get("termination_reason")) == (status, reason)


def test_of_a_samples_error_no_word_is_told() -> None:
    seen = sample_outcome(sample(error=SimpleNamespace(message="sk-secret in a prompt")))
    assert seen["status"] == "unknown_execution_error"
    assert "sk-secret" not in str(seen)


# --- the hooks, called as Inspect calls them -----------------------------------------------


class Stopped(Exception):
    pass


class Story:
    """One attempt of one sample: its hooks, called in Inspect's order."""

    def __init__(self, url: str, sample_id: str, number: int = 1, epoch: int = 1) -> None:
        self.hooks = SampleHooks()
        self.hooks.client = lambda: AsyncClient(url)
        self.hooks.stopped = Stopped
        summary = SimpleNamespace(id="s", epoch=epoch)
        self.data = SimpleNamespace(
            sample_id=sample_id, attempt=number, eval_id=f"eval-{sample_id}", summary=summary
        )

    async def begin(self) -> None:
        await self.hooks.on_sample_attempt_start(self.data)

    async def ask(self, url: str, key: str = "sk-good") -> dict[str, str]:
        config = SimpleNamespace(extra_headers={"x-own": "1"})
        await self.hooks.on_before_model_generate(SimpleNamespace(config=config))
        headers: dict[str, str] = config.extra_headers
        await asyncio.to_thread(call, f"{url}/openai/v1", key, headers)
        return headers

    async def end(self, scores: dict[str, Any]) -> None:
        await self.hooks.on_sample_end(SimpleNamespace(sample=sample(scores)))


def call(base_url: str, key: str, headers: dict[str, str]) -> None:
    asked = {"model": "gpt-5", "messages": []}
    own = {"authorization": f"Bearer {key}", **headers}
    httpx.post(f"{base_url}/chat/completions", json=asked, headers=own, timeout=60)


async def always_right(state: object, target: object) -> SimpleNamespace:
    return score("C")


async def test_the_epochs_of_a_sample_are_a_group(url: str) -> None:
    hooks = SampleHooks()
    hooks.client = lambda: AsyncClient(url)
    spec = SimpleNamespace(config=SimpleNamespace(epochs=2))
    task = SimpleNamespace(eval_id="eval-of-two", spec=spec)
    await hooks.on_task_start(task)
    settled = []
    for epoch in (1, 2):
        story = Story(url, f"of-two-{epoch}", epoch=epoch)
        story.hooks, story.data.eval_id = hooks, task.eval_id
        await story.begin()
        await story.ask(url)
        await story.end({"match": score("C")})
        with Client(url) as client:
            [group] = await asyncio.to_thread(client.groups, task.eval_id)
        settled.append((group.wanted, group.settled))
    assert settled == [(2, False), (2, True)]
    await hooks.on_task_end(task)
    await hooks.on_task_end(task)


async def test_an_attempt_is_a_rollout_that_its_calls_name(url: str, provider: Provider) -> None:
    story = Story(url, "named")
    await story.begin()
    sent = await story.ask(url)
    assert (await measured(always_right, url)(None, None)).value == "C"
    await story.end({"match": score("C")})
    with Client(url) as client:
        [item] = client.rollouts(batch="eval-named")
        [call] = client.exchanges("named")
        result = client.result("named")
    assert sent["x-own"] == "1"
    assert (item.task, item.repeat, item.attempt) == ("s", 0, 0)
    assert item.health == "healthy"
    assert (call.role, call.attribution_source) == ("agent", "minted_key")
    assert result.rewards == {"match": 1.0}
    assert provider.requests[0].header("authorization") == "Bearer sk-good"
    assert sent["x-truezero-key"].startswith("tz-")
    assert "tz-" not in str(provider.requests[0].headers)


async def test_a_scorers_own_calls_are_a_judges(url: str) -> None:
    story = Story(url, "judged")
    await story.begin()
    await story.ask(url)
    await story.hooks.on_sample_scoring(story.data)
    await story.ask(url, "sk-dead")
    await story.end({"match": score("C")})
    with Client(url) as client:
        roles = [call.role for call in client.exchanges("judged")]
        assert client.verdict("judged").health == "healthy"
    assert roles == ["agent", "judge"]


async def test_an_attempt_made_again_is_a_rollout_of_its_own(url: str) -> None:
    first, second = Story(url, "again"), Story(url, "again", 2)
    await first.begin()
    await first.ask(url, "sk-down")
    await first.hooks.on_sample_attempt_end(SimpleNamespace(will_retry=True))
    await second.begin()
    await second.ask(url)
    await second.hooks.on_sample_attempt_end(SimpleNamespace(will_retry=False))
    await second.end({"match": score("I")})
    with Client(url) as client:
        items = [
            (item.id, item.attempt, item.health) for item in client.rollouts(batch="eval-again")
        ]
    assert items == [("again", 0, "api_error"), ("again.2", 1, "healthy")]


async def test_epochs_are_repeats_of_one_task(url: str) -> None:
    with Client(url) as client:
        for epoch in (1, 2):
            story = Story(url, f"epoch-{epoch}", epoch=epoch)
            story.data.eval_id = "epochs"
            await story.begin()
            await story.ask(url)
            await story.end({"match": score("C")})
        seen = {(item.task, item.repeat, item.attempt) for item in client.rollouts(batch="epochs")}
        [group] = client.groups("epochs")
    assert seen == {("s", 0, 0), ("s", 1, 0)}
    assert len(group.rollout_ids) == 2


async def test_a_sample_that_an_open_breaker_does_not_admit_ends_at_once(tmp_path: Path) -> None:
    with driving.service(tmp_path, breaker_threshold="1") as (url, provider, _):
        story = Story(url, "open")
        await story.begin()
        await story.ask(url, "sk-dead")
        await story.end({})
        held = Story(url, "held")
        held.data.eval_id = story.data.eval_id
        with pytest.raises(Stopped, match="skipped: breaker open on auth:401"):
            await held.begin()
        await held.end({})
    assert len(provider.requests) == 1


async def test_a_sample_without_a_model_is_not_scored(url: str) -> None:
    for key, why in (
        ("sk-good", None),
        ("sk-dead", "api_error [auth, permanent]: HTTP 401 on 1 of 1 calls"),
        (None, "no model call reached truezero: check that the model's base URL is the service's"),
    ):
        story = Story(url, f"scored-{key}")
        await story.begin()
        if key is not None:
            await story.ask(url, key)
        assert await inspect_ai._unmeasured(url, None) == why, key


async def test_a_samples_calls_prove_whose_they_are(tmp_path: Path) -> None:
    with driving.service(tmp_path, admin_token="token-of-the-admin") as (url, provider, _):
        story = Story(url, "proven")
        story.hooks.client = lambda: AsyncClient(url, "token-of-the-admin")
        await story.begin()
        await story.ask(url)
        assert await inspect_ai._unmeasured(url, "token-of-the-admin") is None
    assert len(provider.requests) == 1


async def test_a_sample_that_nobody_announced_is_not_scored_in_silence() -> None:
    inspect_ai._attempt.set(None)
    with pytest.raises(RuntimeError, match=r"call truezero.*install"):
        await measured(always_right)(None, None)


# --- installed -----------------------------------------------------------------------------


class Registry:
    """Inspect's modules, as far as hooks are registered with them."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def module(self, name: str) -> Any:
        if name == "inspect_ai.util":
            return SimpleNamespace(LimitExceededError=Stopped)
        assert name == "inspect_ai.hooks"
        return SimpleNamespace(Hooks=type("Hooks", (), {}), hooks=lambda **_named: self.add)

    def add(self, kind: type) -> type:
        self.hooks.append(kind())
        return kind


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    found = Registry()
    modules = SimpleNamespace(import_module=found.module)
    monkeypatch.setattr(inspect_ai, "importlib", modules)
    monkeypatch.setattr(inspect_ai, "_installed", threading.Event())
    return found


@pytest.mark.parametrize(
    ("environment", "hooks"),
    [
        ({}, 0),
        ({"TRUEZERO_URL": ""}, 0),
        ({"TRUEZERO_URL": "http://h:1", "TRUEZERO_INSPECT": "Off"}, 0),
        ({"TRUEZERO_URL": "http://h:1"}, 1),
    ],
)
def test_the_entry_point_installs_where_a_service_is_named(
    registry: Registry,
    environment: dict[str, str],
    hooks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRUEZERO_URL", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    inspect_ai.plug()
    inspect_ai.plug()
    assert len(registry.hooks) == hooks
    assert all(isinstance(hook, SampleHooks) for hook in registry.hooks)


async def test_what_a_user_installed_is_not_replaced(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://h:1")
    inspect_ai.install("http://h:2")
    inspect_ai.plug()
    [hook] = registry.hooks
    async with hook.client() as client:
        assert client.url == "http://h:2"


def test_a_measured_scorer_is_known_as_what_it_was() -> None:
    always_right.__dict__["__registry_info__"] = "match"
    assert measured(always_right).__dict__["__registry_info__"] == "match"
    assert measured(always_right).__name__ == "always_right"


async def test_what_came_from_inspects_cache_is_activity(url: str) -> None:
    story = Story(url, "cached")
    await story.begin()
    used = SimpleNamespace(usage=SimpleNamespace(total_tokens=12))
    await story.hooks.on_model_cache_usage(used)
    assert (await measured(always_right, url)(None, None)).value == "C"
    await story.end({"match": score("C")})
    with Client(url) as client:
        assert client.verdict("cached").health == "healthy"
