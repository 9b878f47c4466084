"""`truezero demo`: sample agents, a local provider that fails in known ways, and the verdicts.

Agents, provider and proxy are real and talk over sockets; the table shows the service's answers.
The agents run side by side, as a harness runs them: most of their time is waiting between retries.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from truezero import models
from truezero.cli import output
from truezero.cli.progress import progress
from truezero.runner import embedded
from truezero.runner.demo_provider import DemoProvider
from truezero.sdk.client import Client

BATCH = "demo"
_DIALECTS = ("OPENAI", "ANTHROPIC")
_STEPS = 4
_RETRIES = 2
_PATIENCE_S = 0.1
_WRITTEN_S = 60.0


@dataclass(frozen=True)
class Scene:
    """One rollout of the demo: an agent's task, key, model and dialect."""

    name: str
    story: str
    key: str = "sk-demo-funded"
    model: str = "demo-large"
    dialect: str = "openai"
    task: str = "What is 17 * 23?"
    expected: str = "391"


SCENES = (
    Scene("solved", "solves its task"),
    Scene(
        "honest-zero",
        "reaches the model, which fails",
        dialect="anthropic",
        task="Is every even number above 2 the sum of two primes?",
        expected="yes",
    ),
    Scene("dead-key", "a revoked key", key="sk-revoked"),
    Scene("empty-account", "an account without credit", key="sk-demo-empty"),
    Scene("unknown-model", "a model that is not there", model="demo-huge", dialect="anthropic"),
    Scene("rate-limited", "a rate limit that passes", key="sk-demo-busy"),
    Scene("outage", "a provider that is down", key="sk-demo-outage"),
    Scene("silent", "an agent that never calls", model="not/a-model-id"),
)


@dataclass(frozen=True)
class Run:
    """The outcome of one scene: the reported score, and the service's result and verdict."""

    scene: Scene
    reported: float
    result: models.Result
    verdict: models.Verdict


def run(*, keep: Path | None = None, as_json: bool = False) -> None:
    """Run every scene and print the verdicts.

    Raises:
        EmbeddedStartError: the proxy did not start.
    """
    console = Console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="truezero-demo-") as folder, DemoProvider() as provider:
        database = keep.absolute() if keep else Path(folder) / "demo.db"
        upstreams = {f"TRUEZERO_UPSTREAM_{name}": provider.url for name in _DIALECTS}
        home = Path(folder)
        with ExitStack() as running:
            with progress("starting a proxy"):
                proxy = embedded.service(database, home, upstreams, cwd=home)
                url = running.enter_context(proxy)
            console.print(f"proxy at {url}, provider at {provider.url}")
            runs = _play(url, console)
            if as_json:
                sys.stdout.write(json.dumps([_record(run) for run in runs], indent=2) + "\n")
            else:
                _print(runs, console)


def _play(url: str, console: Console) -> list[Run]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        Client(url, keep_outcomes=False) as client,
        httpx.Client(timeout=30) as http,
        ThreadPoolExecutor(len(SCENES)) as agents,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        bar = progress.add_task("rollouts", total=len(SCENES))
        runs = {agents.submit(_rollout, client, http, scene): scene for scene in SCENES}
        for run in as_completed(runs):
            scene = runs[run]
            progress.update(bar, description=f"{scene.name}: {scene.story}", advance=1)
    return [run.result() for run in runs]


def _rollout(client: Client, http: httpx.Client, scene: Scene) -> Run:
    """Do what a harness does: register, run the agent, verify, report."""
    rollout = client.register(
        id=scene.name, batch=BATCH, task=scene.name, model=scene.model, upstream=scene.dialect
    )
    answer = agent(http, scene, rollout.base_urls[scene.dialect])
    reward = 1.0 if scene.expected in answer.lower() else 0.0
    client.report(
        rollout.id,
        status="success",
        termination_reason="agent_stop",
        prompts_executed=1,
        rewards={"reward": reward},
    )
    verdict = _decided(client, rollout.id)
    return Run(scene, reward, client.result(rollout.id), verdict)


def _decided(client: Client, rollout_id: str) -> models.Verdict:
    """Return a verdict once its calls are written, which a slow disk may delay."""
    deadline = time.monotonic() + _WRITTEN_S
    verdict = client.verdict(rollout_id)
    while verdict.health == "undecided" and time.monotonic() < deadline:
        time.sleep(_PATIENCE_S)
        verdict = client.verdict(rollout_id)
    return verdict


def agent(http: httpx.Client, scene: Scene, base_url: str) -> str:
    """Run a typical agent: it retries a little, swallows errors and exits normally."""
    if "/" in scene.model:
        return ""  # its own model list does not know the id: it makes no call
    messages: list[dict[str, Any]] = [{"role": "user", "content": scene.task}]
    speak = _openai if scene.dialect == "openai" else _anthropic
    for _ in range(_STEPS):
        try:
            call, text = speak(http, base_url, scene, messages)
        except httpx.HTTPError:
            return ""
        if call is None:
            return text
    return ""


def _openai(
    http: httpx.Client, base_url: str, scene: Scene, messages: list[dict[str, Any]]
) -> tuple[str | None, str]:
    body = {"model": scene.model, "messages": messages, "stream": True, "tools": [_TOOL]}
    answer = _persistent(
        http,
        f"{base_url}/chat/completions",
        {**body, "stream_options": {"include_usage": True}},
        {"authorization": f"Bearer {scene.key}"},
    )
    events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    delta = json.loads(events[0])["choices"][0]["delta"]
    if not delta.get("tool_calls"):
        return None, delta["content"]
    called = delta["tool_calls"][0]
    outcome = _calculate(json.loads(called["function"]["arguments"])["expression"])
    messages += [delta, {"role": "tool", "tool_call_id": called["id"], "content": outcome}]
    return outcome, ""


def _anthropic(
    http: httpx.Client, base_url: str, scene: Scene, messages: list[dict[str, Any]]
) -> tuple[str | None, str]:
    answer = _persistent(
        http,
        f"{base_url}/v1/messages",
        {"model": scene.model, "messages": messages, "max_tokens": 100, "tools": [_TOOL]},
        {"x-api-key": scene.key, "anthropic-version": "2023-06-01"},
    ).json()
    part = answer["content"][0]
    if part["type"] == "text":
        return None, part["text"]
    outcome = _calculate(part["input"]["expression"])
    done = {"type": "tool_result", "tool_use_id": part["id"], "content": outcome}
    messages += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [done]},
    ]
    return outcome, ""


def _persistent(
    http: httpx.Client, url: str, body: dict[str, Any], headers: dict[str, str]
) -> httpx.Response:
    for attempt in range(_RETRIES + 1):
        answer = http.post(url, json=body, headers=headers)
        if answer.is_success or attempt == _RETRIES:
            break
        time.sleep(float(answer.headers.get("retry-after", _PATIENCE_S)))
    return answer.raise_for_status()


def _calculate(expression: str) -> str:
    left, right = expression.split(" * ")
    return str(int(left) * int(right))


_TOOL = {
    "type": "function",
    "function": {"name": "calculator", "parameters": {"type": "object", "properties": {}}},
}


def _record(run: Run) -> dict[str, Any]:
    return {
        "scene": run.scene.name,
        "reported_reward": run.reported,
        "result": run.result.model_dump(),
        "verdict": run.verdict.model_dump(),
    }


def _print(runs: list[Run], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="Rewards and verdicts", title_justify="left")
    table.add_column("rollout", no_wrap=True)
    table.add_column("reward", justify="right")
    table.add_column("kept", justify="right")
    table.add_column("retry", no_wrap=True)
    table.add_column("verdict")
    for played in runs:
        kept = (played.result.rewards or {}).get("reward")
        table.add_row(
            played.scene.name,
            f"{played.reported:.1f}",
            "[dim]null[/dim]" if kept is None else f"{kept:.1f}",
            "yes" if played.verdict.retry.eligible else "",
            output.headline(played.verdict),
        )
    console.print(table)
    console.print(_summary(runs))


def _summary(runs: list[Run]) -> str:
    reported = sum(played.reported for played in runs) / len(runs)
    kept = [played.result.rewards["reward"] for played in runs if played.result.rewards]
    measured = sum(kept) / len(kept)
    zeros = sum(played.reported == 0 for played in runs)
    false = zeros - kept.count(0.0)
    return (
        f"{false} of {zeros} zeros were not measurements. Score as reported: {reported:.2f} over "
        f"{len(runs)} rollouts; over the {len(kept)} that reached a model: {measured:.2f}."
    )
