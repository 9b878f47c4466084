"""`truezero demo`: sample agents, a local provider that fails in known ways, and the verdicts.

Agents, provider and proxy are real and talk over sockets; the table shows the service's answers.
The agents run side by side, as a harness runs them: most of their time is waiting between retries.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import httpx
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from truezero import Client, models
from truezero.cli import output
from truezero.cli.options import progress
from truezero.runner import embedded

if TYPE_CHECKING:
    from truezero.models import FaultKind


# --- provider ---
#
# Two dialects, and accounts that fail as real ones do. Answers depend only on the key, the model
# and the state of the account; error bodies come from the proxy's fault scripts.


MODELS = ("demo-large", "demo-small")
DOWN = "demo-down"  # a model whose servers answer nobody
OPERATOR = "sk-demo-funded"  # the key that the proxy holds
_AT_LENGTH = "at length"  # a task for which the gateway before the provider loses its patience
_POLL_S = 0.05  # what shutdown() waits for at most; half a second by default
_PRODUCT = re.compile(r"(\d+) \* (\d+)")


@dataclass
class Account:
    """The account behind a key.

    ``credit``: US dollars left. ``burst``: calls allowed before one is refused with a wait of
    ``pause_s`` seconds; None is no limit. It counts calls, not time: a slow machine sees the same.
    ``incident``: the provider has an outage in this account's region. ``every_s``: its limit is a
    call in so many seconds, as its answers state; one that comes sooner is refused.
    """

    credit: float = 100.0
    burst: int | None = None
    pause_s: float = 0.3
    incident: bool = False
    every_s: float | None = None
    admitted: int = 0
    admitted_at: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_s(self) -> float | None:
        """Return the seconds until the next call is allowed; None admits this one and counts it."""
        if self.burst is None:
            return None
        with self.lock:
            refused = self.admitted >= self.burst
            self.admitted = 0 if refused else self.admitted + 1
        return self.pause_s if refused else None

    def too_soon(self) -> bool:
        """Return True if a call exceeds the limit; else admit it."""
        if self.every_s is None:
            return False
        with self.lock:
            now = time.monotonic()
            refused = now < self.admitted_at + self.every_s
            self.admitted_at = self.admitted_at if refused else now
        return refused


ACCOUNTS = {
    "sk-demo-funded": Account(),
    "sk-demo-empty": Account(credit=0.0),
    "sk-demo-busy": Account(burst=1),
    "sk-demo-slow": Account(every_s=1.0),
    "sk-demo-outage": Account(incident=True),
}


class DemoProvider:
    """Serves the provider on a free loopback port, as a context manager."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The provider's origin, ``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def failure(key: str, model: str) -> tuple[FaultKind, float | None] | None:
    """Return why this key cannot call this model now, and the wait in seconds if there is one."""
    account = ACCOUNTS.get(key)
    if account is None:
        return "auth", None
    if account.incident or model == DOWN:
        return "overloaded", None
    if model not in MODELS:
        return "model_not_found", None
    if account.credit <= 0:
        return "quota", None
    if account.too_soon():
        return "rate_limit", None
    wait_s = account.wait_s()
    return None if wait_s is None else ("rate_limit", wait_s)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    routes: ClassVar[dict[str, str]] = {
        "/v1/chat/completions": "openai",
        "/v1/messages": "anthropic",
    }

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests carry keys."""

    def do_POST(self) -> None:
        """Answer one inference call."""
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        dialect = self.routes.get(self.path.partition("?")[0])
        if dialect is None:
            self._json(404, {"error": {"message": f"Invalid URL (POST {self.path})"}})
            return
        model = request.get("model", "")
        failed = failure(self._key(), model)
        if failed is None and _AT_LENGTH in _conversation(request)[0]:
            self._json(504, {"message": "The upstream server is timing out"})
        elif failed is not None:
            self._fail(dialect, model, *failed)
        elif dialect == "openai":
            self._openai(request)
        else:
            self._anthropic(request)

    def _key(self) -> str:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key", bearer)

    def _fail(self, dialect: str, model: str, kind: FaultKind, wait_s: float | None) -> None:
        # The demo needs the service anyway: its fault scripts have the providers' error bodies.
        from proxy.relay.fault_scripts import anthropic_errors, chat_errors  # noqa: PLC0415

        errors = chat_errors if dialect == "openai" else anthropic_errors
        error = errors(model)[kind]
        extra = {} if wait_s is None else {"retry-after": f"{wait_s:.2f}"}
        self._json(error.status, error.body, extra)

    def _openai(self, request: dict[str, Any]) -> None:
        prompt, results = _conversation(request)
        call, text = _think(prompt, results)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if call is not None:
            function = {"name": "calculator", "arguments": json.dumps({"expression": call})}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        usage = _usage(prompt, text or call or "")
        finish = "tool_calls" if call else "stop"
        base = {"id": "chatcmpl-demo", "created": int(time.time()), "model": request["model"]}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._json(200, whole)
            return
        chunk = {**base, "object": "chat.completion.chunk"}
        if call is not None:
            message["tool_calls"][0]["index"] = 0
        last = {"index": 0, "delta": {}, "finish_reason": finish}
        first = {"index": 0, "delta": message, "finish_reason": None}
        self._events(
            [
                {**chunk, "choices": [first]},
                {**chunk, "choices": [last]},
                {**chunk, "choices": [], "usage": usage},
            ],
            done=True,
        )

    def _anthropic(self, request: dict[str, Any]) -> None:
        prompt, results = _conversation(request)
        call, text = _think(prompt, results)
        content: dict[str, Any] = {"type": "text", "text": text}
        if call is not None:
            content = {
                "type": "tool_use", "id": "toolu_1", "name": "calculator",
                "input": {"expression": call},
            }  # fmt: skip
        counts = _usage(prompt, text or call or "")
        usage = {
            "input_tokens": counts["prompt_tokens"],
            "output_tokens": counts["completion_tokens"],
        }
        self._json(
            200,
            {
                "id": "msg_demo", "type": "message", "role": "assistant", "model": request["model"],
                "content": [content], "stop_reason": "tool_use" if call else "end_turn",
                "stop_sequence": None, "usage": usage,
            },
        )  # fmt: skip

    def _json(self, status: int, body: object, extra: dict[str, str] | None = None) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def _events(self, events: list[dict[str, Any]], *, done: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        account = ACCOUNTS[self._key()]
        if account.every_s is not None:
            stated = {"limit": "1", "remaining": "0", "reset": f"{account.every_s:g}s"}
            for name, value in stated.items():
                self.send_header(f"x-ratelimit-{name}-requests", value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
        for line in [*lines, b"data: [DONE]\n\n"] if done else lines:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def _conversation(request: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the task's text and the tool results so far, in either dialect."""
    prompt = ""
    results: list[str] = []
    for message in request.get("messages", []):
        content = message.get("content")
        if message.get("role") == "tool":
            results.append(str(content))
        elif message.get("role") == "user" and isinstance(content, str):
            prompt = content
        elif message.get("role") == "user" and isinstance(content, list):
            results += [str(part["content"]) for part in content if "tool_use_id" in part]
    return prompt, results


def _think(prompt: str, results: list[str]) -> tuple[str | None, str | None]:
    """Send products to the calculator; everything else is beyond this model."""
    if results:
        return None, f"The answer is {results[-1]}."
    if product := _PRODUCT.search(prompt):
        return f"{product[1]} * {product[2]}", None
    return None, "I could not work this out."


def _usage(prompt: str, answer: str) -> dict[str, int]:
    inputs, outputs = max(1, len(prompt) // 4), max(1, len(answer) // 4)
    return {
        "prompt_tokens": inputs,
        "completion_tokens": outputs,
        "total_tokens": inputs + outputs,
    }


# --- scenes ---


BATCH = "demo"
UNTRUSTED_BATCH = "demo-untrusted"
_DIALECTS = ("OPENAI", "ANTHROPIC")
_STEPS = 4
_RETRIES = 2
_PATIENCE_S = 0.1
_WRITTEN_S = 60.0


@dataclass(frozen=True)
class Scene:
    """One rollout of the demo: an agent's task, key, model and dialect.

    Arguments:
        key: None is the proxy's own, in a batch whose agents are untrusted.
    """

    name: str
    story: str
    key: str | None = "sk-demo-funded"
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
    Scene("paced", "a rate limit that the proxy waits for", key="sk-demo-slow"),
    Scene("outage", "a provider that is down", key="sk-demo-outage"),
    Scene("silent", "an agent that never calls", model="not/a-model-id"),
    Scene(
        "own-timeout",
        "an untrusted agent whose own request takes too long",
        key=None,
        task=f"List the primes {_AT_LENGTH}.",
    ),
    Scene("its-outage", "an untrusted agent whose provider is down", key=None, model=DOWN),
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
        upstreams["TRUEZERO_KEY_OPENAI"] = OPERATOR
        upstreams["TRUEZERO_PACE"] = "learn"
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
    trusted = scene.key is not None
    rollout = client.register(
        id=scene.name,
        batch=BATCH if trusted else UNTRUSTED_BATCH,
        task=scene.name,
        model=scene.model,
        upstream=scene.dialect,
        policy=None if trusted else {"agents": "untrusted"},
    )
    answer = agent(http, scene, rollout.base_urls[scene.dialect], scene.key or rollout.key)
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


def agent(http: httpx.Client, scene: Scene, base_url: str, key: str) -> str:
    """Run a typical agent: it retries a little, swallows errors and exits normally."""
    if "/" in scene.model:
        return ""  # its own model list does not know the id: it makes no call
    messages: list[dict[str, Any]] = [{"role": "user", "content": scene.task}]
    speak = _openai if scene.dialect == "openai" else _anthropic
    for _ in range(_STEPS):
        try:
            call, text = speak(http, base_url, key, scene.model, messages)
        except httpx.HTTPError:
            return ""
        if call is None:
            return text
    return ""


def _openai(
    http: httpx.Client, base_url: str, key: str, model: str, messages: list[dict[str, Any]]
) -> tuple[str | None, str]:
    body = {"model": model, "messages": messages, "stream": True, "tools": [_TOOL]}
    answer = _persistent(
        http,
        f"{base_url}/chat/completions",
        {**body, "stream_options": {"include_usage": True}},
        {"authorization": f"Bearer {key}"},
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
    http: httpx.Client, base_url: str, key: str, model: str, messages: list[dict[str, Any]]
) -> tuple[str | None, str]:
    answer = _persistent(
        http,
        f"{base_url}/v1/messages",
        {"model": model, "messages": messages, "max_tokens": 100, "tools": [_TOOL]},
        {"x-api-key": key, "anthropic-version": "2023-06-01"},
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
        rewards = (played.result.rewards or {}).get("reward")
        table.add_row(
            played.scene.name,
            f"{played.reported:.1f}",
            "[dim]null[/dim]" if rewards is None else f"{rewards:.1f}",
            "yes" if played.verdict.retry.eligible else "",
            _verdict(played.verdict),
        )
    console.print(table)
    console.print(_summary(runs))


def _verdict(verdict: models.Verdict) -> str:
    """Return a verdict in a line, its wait for turns and the answer to the proxy's question."""
    held_s = verdict.held_s or 0.0
    waited = f"its calls waited {held_s:.1f} s for their turn" if held_s > _PATIENCE_S else None
    parts = (output.headline(verdict), waited, output.asked_at_the_time(verdict))
    return "; ".join(part for part in parts if part)


def _summary(runs: list[Run]) -> str:
    reported = sum(played.reported for played in runs) / len(runs)
    rewards = [played.result.rewards["reward"] for played in runs if played.result.rewards]
    measured = sum(rewards) / len(rewards)
    zeros = sum(played.reported == 0 for played in runs)
    false = zeros - rewards.count(0.0)
    return (
        f"{false} of {zeros} zeros were not measurements. Score as reported: {reported:.2f} over "
        f"{len(runs)} rollouts; over the {len(rewards)} that count: {measured:.2f}."
    )
