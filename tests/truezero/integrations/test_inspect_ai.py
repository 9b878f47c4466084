"""What Inspect tells and what is reported of it; the package itself is not needed here."""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.fakes.provider import Provider, closed_port
from tests.truezero import driving
from truezero import Client
from truezero.integrations import inspect_ai
from truezero.integrations.inspect_ai import (
    SampleHooks,
    measured,
    refusals,
    rewards_of,
    sample_outcome,
)
from truezero.sdk.errors import NotMeasured

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


class Config:
    """A configuration of Inspect's, as far as headers are in it."""

    def __init__(self, extra_headers: dict[str, str] | None = None) -> None:
        self.extra_headers = extra_headers

    def model_copy(self, *, update: dict[str, Any]) -> Config:
        return Config(**update)


class Api:
    """A provider of Inspect's: it asks its base URL with the headers that it is given."""

    def __init__(self, base_url: str, key: str) -> None:
        self.client = SimpleNamespace(base_url=httpx.URL(base_url))
        self.key = key

    async def generate(self, prompt: str, config: Config) -> dict[str, str]:
        headers = config.extra_headers or {}
        own = {"authorization": f"Bearer {self.key}", **headers}
        asked = {"model": "gpt-5", "messages": [{"role": "user", "content": prompt}]}
        url = f"{self.client.base_url}/chat/completions"
        async with httpx.AsyncClient(timeout=60) as client:
            await client.post(url, json=asked, headers=own)
        return headers


class Model:
    """A model of Inspect's."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def generate(self, prompt: str) -> dict[str, str]:
        return await self.api.generate(prompt, config=Config({"x-own": "1"}))


inspect_ai._watch(Model)


class Story:
    """One attempt of one sample: its hooks, called in Inspect's order."""

    def __init__(
        self,
        url: str,
        sample_id: str,
        number: int = 1,
        epoch: int = 1,
        *,
        batch: str | None = None,
        token: str | None = None,
        epochs: int = 1,
        asked: bool = True,
    ) -> None:
        self.hooks = SampleHooks()
        self.hooks.service = (url, token)
        self.hooks.refusal = Stopped
        self.hooks.errored = lambda: False
        eval_id = batch or f"eval-{sample_id}"
        self.of = inspect_ai._Eval(id=eval_id, task="asking", epochs=epochs, asked=asked)
        self.hooks._evals[eval_id] = self.of
        summary = SimpleNamespace(id="s", epoch=epoch)
        self.data = SimpleNamespace(
            sample_id=sample_id, attempt=number, eval_id=eval_id, summary=summary
        )

    async def begin(self) -> None:
        await self.hooks.on_sample_attempt_start(self.data)

    async def ask(self, url: str, key: str = "sk-good") -> dict[str, str]:
        return await Model(Api(f"{url}/openai/v1", key)).generate("say it")

    async def end(self, scores: dict[str, Any], error: object = None) -> None:
        await self.hooks.on_sample_end(SimpleNamespace(sample=sample(scores, error=error)))

    def line(self) -> str | None:
        return inspect_ai.last_line(self.of, "is it?")


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect has the hooks already, and nobody asked for them in code."""
    installed = threading.Event()
    installed.set()
    monkeypatch.setattr(inspect_ai, "_installed", installed)
    monkeypatch.setattr(inspect_ai, "_asked", threading.Event())
    monkeypatch.setattr(inspect_ai, "_told", threading.Event())
    inspect_ai._attempt.set(None)


async def always_right(state: object, target: object) -> SimpleNamespace:
    return score("C")


async def test_the_epochs_of_a_sample_are_a_group(url: str) -> None:
    settled = []
    for epoch in (1, 2):
        story = Story(url, f"of-two-{epoch}", epoch=epoch, batch="eval-of-two", epochs=2)
        await story.begin()
        await story.ask(url)
        await story.end({"match": score("C")})
        with Client(url) as client:
            [group] = await asyncio.to_thread(client.groups, "eval-of-two")
        settled.append((group.wanted, group.settled))
    assert settled == [(2, False), (2, True)]


async def test_an_attempt_is_a_rollout_that_its_calls_name(url: str, provider: Provider) -> None:
    story = Story(url, "named")
    await story.begin()
    sent = await story.ask(url)
    assert (await measured(always_right)(None, None)).value == "C"
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


async def test_a_model_elsewhere_is_not_shown_a_samples_key(url: str) -> None:
    story = Story(url, "both")
    await story.begin()
    assert "x-truezero-key" in await story.ask(url)
    with Provider() as elsewhere:
        assert await Model(Api(elsewhere.url, "sk-good")).generate("say it") == {"x-own": "1"}


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


async def test_a_score_that_a_dead_judge_gave_is_unscored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, keys = Story(url, "misjudged"), iter(("sk-good", "sk-dead"))

    async def judging(state: object, target: object) -> SimpleNamespace:
        await story.ask(url, next(keys))
        return score("I")

    scorers = SimpleNamespace(Score=SimpleNamespace(unscored=lambda reason: ("unscored", reason)))
    monkeypatch.setitem(sys.modules, "inspect_ai.scorer", scorers)
    await story.begin()
    await story.ask(url)
    await story.hooks.on_sample_scoring(story.data)
    assert (await measured(judging)(None, None)).value == "I"
    marked, why = await measured(judging)(None, None)
    await story.end({"match": score("I")})
    with Client(url) as client:
        result = client.result("misjudged")
    assert marked == "unscored"
    assert f"{why.replace(' so far', '')}; look at the calls" == result.error
    assert (result.rewards, "role judge" in str(result.error)) == (None, True)


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


async def test_of_several_scorers_one_is_named_for_the_score(url: str) -> None:
    scores = {"match": score("C"), "style": score(0.25)}
    with Client(url) as client:
        for batch, key in (("several", None), ("by-style", "style")):
            story = Story(url, batch, batch=batch)
            story.hooks.score_key = key
            await story.begin()
            await story.ask(url)
            await story.end(scores)
        unnamed, named = client.summary("several"), client.summary("by-style")
    assert (unnamed.score_effective, unnamed.score_all) == (None, None)
    assert "rewards under several keys (match, style): register score_key" in str(unnamed.no_score)
    assert (named.score_effective, named.no_score) == (0.25, None)


async def test_epochs_are_repeats_of_one_task(url: str) -> None:
    with Client(url) as client:
        for epoch in (1, 2):
            story = Story(url, f"epoch-{epoch}", epoch=epoch, batch="epochs")
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
        await story.end({}, error="failed")
        held = Story(url, "held", batch=story.of.id)
        held.of = held.hooks._evals[story.of.id] = story.of
        with pytest.raises(Stopped, match="truezero: skipped: breaker open on auth:401"):
            await held.begin()
        await held.end({}, error="not admitted")
    assert len(provider.requests) == 1
    assert story.line() == (
        "asking: 2 of 2 samples not measured: auth:401 (1), skipped: breaker open on auth:401 (1); "
        "more with `truezero check eval-open`"
    )


async def test_the_line_says_that_unmeasured_samples_are_in_the_score(url: str) -> None:
    unscored = {"match": score(float("nan")), "choice": score({"a": float("nan")})}
    for scores, error, log, said in (
        ({"match": score("I")}, None, "logs/a b.eval", "audit --write 'logs/a b.eval'`"),
        ({**unscored, "f1": score(0.0)}, None, None, "audit --write LOG`"),
        (unscored, None, "x.eval", None),
        ({}, "failed", "x.eval", None),
    ):
        story = Story(url, f"dead-{len(scores)}-{said}")
        await story.begin()
        await story.ask(url, "sk-dead")
        await story.end(scores, error=error)
        ended = SimpleNamespace(status="cancelled", location=log)
        await story.hooks.on_task_end(SimpleNamespace(eval_id=story.of.id, log=ended))
        line = story.line() or ""
        assert ("1 of them in the score: wrap each scorer with `measured`" in line) is bool(said)
        assert (said or "auth:401 (1); more with") in line


async def test_merely_present_it_registers_nothing_before_a_call_to_the_service(url: str) -> None:
    story = Story(url, "untouched", asked=False)
    await story.begin()
    with Provider() as elsewhere:
        assert await Model(Api(elsewhere.url, "sk-good")).generate("say it") == {"x-own": "1"}
    with Client(url) as client:
        assert client.rollouts(batch=story.of.id) == []
        assert story.line() is None
        await story.ask(url)
        await story.end({"match": score("C")})
        [item] = client.rollouts(batch=story.of.id)
    assert item.health == "healthy"
    assert story.line() == (
        "asking: 0 of 1 sample not measured; more with `truezero check eval-untouched`"
    )


async def test_a_solver_that_ignores_a_missing_service_makes_no_score() -> None:
    gone = f"http://127.0.0.1:{closed_port()}"
    story = Story(gone, "swallowed", asked=False)
    await story.begin()
    for _ in range(2):
        with pytest.raises(NotMeasured, match="cannot reach a truezero service"):
            await story.ask(gone)
    with pytest.raises(Stopped, match="cannot reach a truezero service"):
        await story.hooks.on_sample_scoring(story.data)
    story.hooks.errored = lambda: True  # it is an error already
    await story.hooks.on_sample_scoring(story.data)
    story.of.scores_errors = True
    with pytest.raises(Stopped, match="cannot reach a truezero service"):
        await story.hooks.on_sample_scoring(story.data)


async def test_a_service_that_goes_away_leaves_nothing_to_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_OUTCOME_PATIENCE_S", "0")
    with driving.service(tmp_path) as (url, _provider, _):
        away, refused = Story(url, "away"), Story(url, "refused")
        await refused.begin()
        of_refused = inspect_ai._attempt.get()
        await away.begin()
        await away.ask(url)
    with pytest.raises(Stopped, match="cannot reach a truezero service"):
        await away.hooks.on_sample_scoring(away.data)
    inspect_ai._attempt.set(of_refused)
    with pytest.raises(httpx.ConnectError):
        await refused.ask(url)
    with pytest.raises(Stopped, match="a call did not reach the service"):
        await refused.hooks.on_sample_scoring(refused.data)
    await refused.end({}, error="not measured")
    assert refused.line() == (
        "asking: 1 of 1 sample not measured: truezero service away (1): a call did not reach the "
        f"service at {url}; more with `truezero check eval-refused`"
    )


async def test_a_task_that_is_to_be_measured_does_not_start_without_a_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = f"http://127.0.0.1:{closed_port()}"
    story = Story(gone, "never")
    main = Model(Api(f"{gone}/openai/v1", "sk-good"))
    module = SimpleNamespace(get_model=lambda **_: main)
    monkeypatch.setattr(inspect_ai, "importlib", SimpleNamespace(import_module=lambda _: module))
    config = SimpleNamespace(epochs=1)
    spec = SimpleNamespace(task="t", config=config, model_base_url=None, model_roles=None)
    task = SimpleNamespace(eval_id="never", spec=spec)
    with pytest.raises(Stopped, match="cannot reach a truezero service"):
        await story.hooks.on_task_start(task)
    await story.hooks.on_run_end(None)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("truezero: t: no sample was run: cannot reach a truezero service at")
    main.api.client.base_url = "https://api.openai.com/v1"
    for _ in range(2):
        await story.hooks.on_task_start(task)
    [line] = capsys.readouterr().err.splitlines()
    assert "runs as it would without: is model_base_url the service's" in line
    inspect_ai._asked.set()
    with pytest.raises(Stopped, match="cannot reach a truezero service"):
        await story.hooks.on_task_start(task)


def test_a_refusal_is_an_error_where_inspect_asks_which_limit_it_was() -> None:
    class Limit(Exception):
        def __init__(self, type: str, *, value: float, limit: float, message: str) -> None:
            super().__init__(message)
            self.type, self.value, self.limit, self.message = type, value, limit, message

    refusal = refusals(Limit)("skipped: no")
    assert isinstance(refusal, Limit)
    with pytest.raises(NotMeasured, match="skipped: no"):
        _ = refusal.type


async def test_a_batch_of_which_no_call_came_is_said_to_be_set_up_wrongly(url: str) -> None:
    story = Story(url, "silent")
    await story.begin()
    await story.end({"match": score("C")})
    assert story.line() == (
        "asking: 1 of 1 sample not measured: no call (1): no call came through truezero (is it?); "
        "1 of them in the score; more with `truezero check eval-silent`"
    )


async def test_a_sample_without_a_model_is_not_scored(url: str) -> None:
    for key, why in (
        ("sk-good", None),
        ("sk-dead", "api_error [auth, permanent]: HTTP 401 on 1 of 1 call"),
        (None, "no call came through truezero: check the agent's base URL"),
    ):
        story = Story(url, f"scored-{key}")
        await story.begin()
        if key is not None:
            await story.ask(url, key)
        assert await inspect_ai._unmeasured() == why, key


async def test_a_samples_calls_prove_whose_they_are(tmp_path: Path) -> None:
    with driving.service(tmp_path, admin_token="token-of-the-admin") as (url, provider, _):
        story = Story(url, "proven", token="token-of-the-admin")
        await story.begin()
        await story.ask(url)
        assert await inspect_ai._unmeasured() is None
    assert len(provider.requests) == 1


async def test_a_sample_that_nobody_announced_is_not_scored_in_silence() -> None:
    with pytest.raises(NotMeasured, match=r"call truezero.*install"):
        await measured(always_right)(None, None)


# --- installed -----------------------------------------------------------------------------


class Registry:
    """Inspect's modules, as far as hooks are registered with them."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def module(self, name: str) -> Any:
        if name == "inspect_ai.util":
            return SimpleNamespace(LimitExceededError=Stopped)
        if name == "inspect_ai.model":
            return SimpleNamespace(Model=Model)
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


def test_the_entry_point_leaves_a_release_alone_that_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    modules = SimpleNamespace(import_module=lambda _: SimpleNamespace())
    monkeypatch.setattr(inspect_ai, "importlib", modules)
    monkeypatch.setattr(inspect_ai, "_installed", threading.Event())
    monkeypatch.setenv("TRUEZERO_URL", "http://h:1")
    inspect_ai.plug()
    assert "evals of this Inspect are not measured" in capsys.readouterr().err


async def test_what_a_user_installed_is_not_replaced(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://h:1")
    inspect_ai.install("http://h:2")
    inspect_ai.plug()
    [hook] = registry.hooks
    assert hook.url == "http://h:2"


def test_measured_installs_the_hooks_for_its_service(registry: Registry) -> None:
    measured(always_right)
    assert [hook.url for hook in registry.hooks] == ["http://127.0.0.1:8383"]
    measured(always_right, "http://h:3")
    assert registry.hooks[-1].url == "http://h:3"


def test_a_measured_scorer_is_known_as_what_it_was() -> None:
    always_right.__dict__["__registry_info__"] = "match"
    assert measured(always_right).__dict__["__registry_info__"] == "match"
    assert measured(always_right).__name__ == "always_right"


async def test_what_came_from_inspects_cache_is_activity(url: str) -> None:
    story = Story(url, "cached")
    await story.begin()
    used = SimpleNamespace(usage=SimpleNamespace(total_tokens=12))
    await story.hooks.on_model_cache_usage(used)
    assert (await measured(always_right)(None, None)).value == "C"
    await story.end({"match": score("C")})
    with Client(url) as client:
        assert client.verdict("cached").health == "healthy"
