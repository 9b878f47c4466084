"""benchflow's seams in miniature: rollouts, planes, diagnostics and how it classifies errors."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

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
    del env
    return SimpleNamespace(provider_name="openai", upstream_model=model)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``import`` find these modules instead of benchflow's."""
    for made in (
        module("benchflow.rollout_planes", DefaultRolloutPlanes=type("Own", (Planes,), {})),
        module("benchflow.providers.litellm_config", resolve_litellm_route=litellm_route),
        module(
            "benchflow.providers.litellm_runtime",
            uses_native_subscription_auth=lambda agent, model, env: "OAUTH" in env,
            needs_litellm_runtime=lambda agent, model: agent != "oracle",
        ),
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
