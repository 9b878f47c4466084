"""What is made of benchflow's rollouts, on its seams in miniature and a real service.

The classes of benchflow itself are driven by `make integrations`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.truezero import driving
from truezero import Client, models
from truezero.integrations import benchflow_rollouts as glue
from truezero.integrations.attempts import NotMeasured
from truezero.sdk.errors import ServiceError

KEYS = {"good": "sk-good", "dead": "sk-dead", "down": "sk-down"}
CATEGORIES = {"agent idle": "idle_timeout", "no image": "sandbox_setup", "lost": "infra_failure"}


class Record:
    """A diagnostic of benchflow: named fields under its own name."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields


class Proven(Record):
    field = "api_error_info"


class Suspected(Record):
    field = "suspected_api_error_info"


class Diagnostics:
    def __init__(self) -> None:
        self._events: dict[str, Any] = {}

    def set(self, diagnostic: Any) -> None:
        self._events[diagnostic.field] = diagnostic


class Planes:
    """Stands for LiteLLM: keeps what it was started with."""

    def __init__(self) -> None:
        self.env: dict[str, str] = {}

    async def ensure_litellm_runtime(self, **runtime: Any) -> None:
        self.env = runtime["agent_env"]


class Rollout:
    """As much of a rollout as is touched; ``agent`` makes its calls."""

    def __init__(self, folder: Path, name: str, planes: Planes, **ended: Any) -> None:
        self._rollout_dir, self._rollout_name, self._job_name = folder, name, "night"
        self._config = SimpleNamespace(task_path=Path("tasks/t1"), user=None, purpose="task")
        self._planes, self._diagnostics = planes, Diagnostics()
        self._error: str | None = ended.get("error")
        self._verifier_error = None
        self._rewards: dict[str, Any] | None = ended.get("rewards", {"reward": 0.0})
        self._executed_prompts, self._n_tool_calls = ["a prompt"], 0
        self.env = dict(ended.get("env", {}))
        self.classified = 0

    async def connect(self) -> None:
        await self._planes.ensure_litellm_runtime(
            agent="a", model="openai/gpt-5", agent_env=self.env, session_id=self._rollout_name
        )

    async def connect_as(self, role: str) -> None:
        await self.connect()

    async def cleanup(self) -> None: ...

    def _maybe_classify_api_error(self) -> None:
        self.classified += 1


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    return made


def litellm_route(model: str, env: dict[str, str]) -> Any:
    base = env.get("BENCHFLOW_PROVIDER_BASE_URL") or "https://api.openai.com/v1"
    return SimpleNamespace(
        provider_name="openai", upstream_model=model, litellm_params={"api_base": base}
    )


def default_base(config: str, env: dict[str, str]) -> str:
    assert env == {}, "what the user has set is not the default"
    return {"openai": "https://api.openai.com/v1", "deepseek": "https://api.deepseek.com/v1"}[
        config
    ]


@pytest.fixture
def rollouts(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rollout]]:
    """Makes rollouts of a benchflow whose methods are wrapped."""
    names = {"openai": "openai", "deepseek": "deepseek"}
    for made in (
        module("benchflow.rollout_planes", DefaultRolloutPlanes=type("Own", (Planes,), {})),
        module("benchflow.providers.litellm_config", resolve_litellm_route=litellm_route),
        module(
            "benchflow.providers.litellm_runtime",
            uses_native_subscription_auth=lambda agent, model, env: "OAUTH" in env,
            needs_litellm_runtime=lambda agent, model: agent != "oracle",
        ),
        module("benchflow.agents.providers", PROVIDERS=names, resolve_base_url=default_base),
        module(
            "benchflow.diagnostics",
            ProviderApiErrorDiagnostic=Proven,
            SuspectedApiErrorDiagnostic=Suspected,
        ),
        module(
            "benchflow._utils.scoring",
            classify_error=lambda error: error and CATEGORIES.get(error, "other"),
            classify_verifier_error=lambda error: error and "verifier_failure",
        ),
    ):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setenv("TRUEZERO_URL", url)
    own = type("Own", (Rollout,), {})
    glue.attach(SimpleNamespace(Rollout=own))
    planes = sys.modules["benchflow.rollout_planes"].DefaultRolloutPlanes

    def rollout(name: str, **ended: Any) -> Rollout:
        made: Rollout = own(tmp_path, f"t1__{name}", planes(), **ended)
        return made

    yield rollout


def run(rollout: Rollout, *keys: str) -> Rollout:
    """Connect, call once with each key as LiteLLM would, clean up and classify."""

    async def whole() -> None:
        await rollout.connect()
        for key in keys:
            base = rollout._planes.env["BENCHFLOW_PROVIDER_BASE_URL"]
            await asyncio.to_thread(driving.call, base, KEYS[key])
        await rollout.cleanup()
        await rollout.cleanup()

    asyncio.run(whole())
    rollout._maybe_classify_api_error()
    return rollout


Made = Callable[..., Rollout]


def test_a_genuine_zero_stays_and_benchflows_heuristics_do_not_judge_it(rollouts: Made) -> None:
    done = run(rollouts("genuine"), "good")
    assert (done._rewards, done._error, done.classified) == ({"reward": 0.0}, None, 0)
    assert json.loads((done._rollout_dir / "truezero.json").read_text())["health"] == "healthy"


def test_a_dead_key_is_said_in_the_words_that_benchflow_reads(rollouts: Made) -> None:
    done = run(rollouts("dead"), "dead", "dead", "dead")
    assert done._rewards is None
    assert done._error == "provider api error [auth/permanent] HTTP 401 on 3/3 requests"
    assert done._diagnostics._events["api_error_info"].fields == {
        "subcategory": "auth", "transient": False, "dominant_status": 401,
        "status_counts": {"401": 3}, "total_requests": 3, "failed_requests": 3,
        "fingerprint": "auth:401",
    }  # fmt: skip
    again = run(rollouts("dead"), "down")
    assert again._error == "provider api error [provider_error/transient] HTTP 503 on 1/1 requests"
    with Client() as client:
        mine = {item.id: item for item in client.rollouts(batch="night", task="t1")}
    numbers = [item.attempt for item in mine.values()]
    assert len(numbers) == len(set(numbers)) > 1, "benchflow's attempts are told apart"
    assert mine["t1__dead"].fingerprint == "auth:401", "a name that comes twice is two rollouts"


def test_an_error_of_benchflows_own_stays_beside_the_cause(rollouts: Made) -> None:
    done = rollouts("slow", error="agent idle")
    done._diagnostics._events["idle_timeout_info"] = object()
    run(done, "dead")
    assert (done._error or "").endswith("HTTP 401 on 1/1 requests; agent idle")
    assert list(done._diagnostics._events) == ["api_error_info"], "or the category is idle_timeout"


def test_no_call_is_suspected(rollouts: Made) -> None:
    done = run(rollouts("mute"))
    assert done._rewards is None
    assert done._error == (
        "suspected provider api error: a prompt was executed, yet no call, token or tool call was "
        "seen"
    )
    assert done._diagnostics._events["suspected_api_error_info"].fields["total_requests"] == 0


def test_what_never_ran_is_left_to_benchflow(rollouts: Made) -> None:
    done = rollouts("unprepared", error="no image")
    done._executed_prompts = []
    run(done)
    assert (done.classified, done._error) == (1, "no image")


def test_a_reconnect_and_another_role_stay_one_rollout(rollouts: Made) -> None:
    done = rollouts("roles")

    async def connects() -> list[dict[str, str]]:
        await done.connect()
        seen = [done._planes.env]
        await done.connect_as("reviewer")
        seen.append(done._planes.env)
        done.env = {"BENCHFLOW_LITELLM_MASTER_KEY": "sk-benchflow"}
        await done.connect()
        return [*seen, done._planes.env]

    first, second, third = asyncio.run(connects())
    assert first == second
    assert "/r/t1__roles" in first["BENCHFLOW_PROVIDER_BASE_URL"]
    assert third == done.env


def test_an_agent_that_grades_is_kept_out_of_the_jobs_batch(rollouts: Made) -> None:
    done = rollouts("grades")
    done._config.purpose = "reviewer"
    run(done, "good")
    with Client() as client:
        assert [item.id for item in client.rollouts(batch="night-reviewers")] == ["t1__grades"]
        assert "t1__grades" not in {item.id for item in client.rollouts(batch="night")}


@pytest.mark.parametrize(
    "env", [{"OAUTH": "1"}, {"BENCHFLOW_PROVIDER_BASE_URL": "https://own.example/v1"}]
)
def test_what_does_not_pass_through_is_left_alone(
    env: dict[str, str], rollouts: Made, caplog: pytest.LogCaptureFixture
) -> None:
    done = run(rollouts("elsewhere", env=env))
    assert (done._planes.env, done._rewards, done.classified) == (env, {"reward": 0.0}, 1)
    assert ("TRUEZERO_BENCHFLOW_UPSTREAM" in caplog.text) == ("OAUTH" not in env)


def test_without_the_service_nothing_runs(rollouts: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
    done = rollouts("gone")
    with pytest.raises(NotMeasured, match="temporarily unavailable: cannot reach"):
        asyncio.run(done.connect())


def test_where_the_service_has_gone_no_reward_stays(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = rollouts("left", rewards={"reward": 1.0})

    async def whole() -> None:
        await done.connect()
        monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
        await done.cleanup()

    asyncio.run(whole())
    done._maybe_classify_api_error()
    assert done._rewards is None
    assert "truezero: not measured, temporarily unavailable: cannot reach" in (done._error or "")


def test_a_rollout_that_was_never_settled_keeps_no_reward(rollouts: Made) -> None:
    done = rollouts("unsettled")
    asyncio.run(done.connect())
    done._maybe_classify_api_error()
    assert done._rewards is None
    assert done._error == "truezero: not measured: the rollout was never judged"


def test_an_open_breaker_stops_rollouts(rollouts: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_BATCH", "tripped")
    for number in range(5):
        run(rollouts(f"tripping-{number}"), "dead")
    with pytest.raises(NotMeasured, match=r"^skipped: breaker open"):
        asyncio.run(rollouts("late").connect())


def test_what_a_retry_cannot_mend_is_not_called_temporary() -> None:
    for status, passing in ((None, True), (503, True), (401, False)):
        said = glue.unmeasured(ServiceError("why", status=status))
        assert said.startswith("truezero: not measured")
        assert said.endswith(": why")
        assert ("temporarily unavailable" in said) == passing


# --- pure ----------------------------------------------------------------------------------


def registered(**base_urls: str) -> models.RolloutRegistered:
    return models.RolloutRegistered(
        id="r", key="tz-r", admitted=True, error=None, base_urls=base_urls, env={}
    )


BASES = registered(
    openai="http://p/r/r/openai/v1", anthropic="http://p/r/r/anthropic",
    gemini="http://p/r/r/gemini", vllm="http://p/r/r/vllm/v1", own="http://p/r/r/own/v1",
)  # fmt: skip
ROUTES: list[tuple[str, str, dict[str, str], dict[str, str] | None]] = [
    ("openai", "openai/gpt-5", {"BENCHFLOW_PROVIDER_API_KEY": "sk-own"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/openai/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "sk-own",
    }),
    ("openai", "openai/gpt-5", {}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/openai/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("vllm", "openai/llama", {"BENCHFLOW_PROVIDER_BASE_URL": "http://gpu:8000/v1"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/vllm/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("native", "openai/gpt-5", {}, {
        "OPENAI_BASE_URL": "http://p/r/r/openai/v1", "OPENAI_API_BASE": "http://p/r/r/openai/v1",
    }),
    ("native", "anthropic/claude", {}, {"ANTHROPIC_BASE_URL": "http://p/r/r/anthropic"}),
    ("native", "gemini/g", {"GEMINI_API_KEY": "AIza"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/gemini/v1beta",
        "BENCHFLOW_PROVIDER_API_KEY": "AIza",
    }),
    ("native", "anthropic/claude", {"ANTHROPIC_API_BASE": "https://own.example"}, None),
    ("native", "openai/gpt-5", {"OPENAI_BASE_URL": "https://own.example"}, None),
    ("openai", "openai/gpt-5", {"BENCHFLOW_PROVIDER_BASE_URL": "https://own.example/v1"}, None),
    ("aws-bedrock", "bedrock/claude", {}, None),
    ("kimi", "openai/k2", {"TRUEZERO_BENCHFLOW_UPSTREAM": "own"}, {
        "BENCHFLOW_PROVIDER_BASE_URL": "http://p/r/r/own/v1",
        "BENCHFLOW_PROVIDER_API_KEY": "tz-r",
    }),
    ("native", "anthropic/claude", {
        "ANTHROPIC_BASE_URL": "https://own.example", "TRUEZERO_BENCHFLOW_UPSTREAM": "own",
    }, {"ANTHROPIC_BASE_URL": "http://p/r/r/own/v1"}),
]  # fmt: skip


@pytest.mark.usefixtures("rollouts")
def test_each_kind_of_model_is_led_to_its_upstream_and_never_to_another() -> None:
    for provider, model, env, led in ROUTES:
        params = {"api_base": env.get("BENCHFLOW_PROVIDER_BASE_URL", "https://api.openai.com/v1")}
        asked = SimpleNamespace(provider_name=provider, upstream_model=model, litellm_params=params)
        route = glue.route_of(asked, env, env)
        found = route and glue.addresses(route, BASES, env)
        assert found == led, (provider, model, env)


@pytest.mark.usefixtures("rollouts")
def test_an_upstream_that_the_service_lacks_is_named() -> None:
    asked = SimpleNamespace(provider_name="vllm", upstream_model="openai/m", litellm_params={})
    route = glue.route_of(asked, {}, {})
    assert route is not None
    with pytest.raises(NotMeasured, match="no upstream 'vllm'"):
        glue.addresses(route, registered(), {})


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (None, "success", "agent_stop"),
        ("agent idle", "task_timeout", None),
        ("no image", "setup_failed", None),
        ("lost", "environment_error", None),
        ("a prompt, verbatim", "unknown_execution_error", None),
    ],
)
@pytest.mark.usefixtures("rollouts")
def test_of_an_error_only_benchflows_category_is_reported(
    error: str | None, status: str, reason: str | None, tmp_path: Path
) -> None:
    rewards = {"reward": 1, "passed": True, "note": "text", "nan": float("nan")}
    seen = glue.outcome(Rollout(tmp_path, "r", Planes(), error=error, rewards=rewards))
    assert (seen["status"], seen.get("termination_reason")) == (status, reason)
    assert seen["error"] == (error and CATEGORIES.get(error, "other"))
    assert seen["rewards"] == {"reward": 1.0, "passed": 1.0}
