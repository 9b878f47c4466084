"""The demo: sample agents, and a local provider that fails in known ways.

Agents, provider and proxy are real and talk over sockets.
The agents run side by side, as a harness runs them: most of their time is waiting between retries.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from truezero import Client, models
from truezero.foreign import parse
from truezero.runner import embedded

if TYPE_CHECKING:
    from truezero.models import FaultKind


# --- provider ---
#
# Two dialects, and accounts that fail as real ones do. An answer depends only on the key, the model
# and the state of the account; its bytes are those of the proxy's fault scripts.


MODELS = ("demo-large", "demo-small")
DOWN = "demo-down"  # a model whose servers answer nobody
OPERATOR = "sk-demo-funded"  # the key that the proxy holds
_AT_LENGTH = "at length"  # a task for which the gateway before the provider loses its patience
_POLL_S = 0.05  # what shutdown() waits for at most; half a second by default
_PAUSE_S = 0.3  # what a rate limit asks an agent to wait
_PRODUCT = re.compile(r"(\d+) \* (\d+)")


@dataclass
class Account:
    """The account behind a key.

    ``fault``: what each of its calls meets. ``alternates``: every second call is refused; it counts
    calls, not time, so that a slow machine sees the same. ``every_s``: its limit is a call in so
    many seconds, as its answers state; one that comes sooner is refused.
    """

    fault: FaultKind | None = None
    alternates: bool = False
    every_s: float = 0.0
    calls: int = 0
    admitted_at: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)

    def refuses(self) -> bool:
        """Return True if a call exceeds the rate limit; else admit it."""
        with self.lock:
            self.calls += 1
            now = time.monotonic()
            if now < self.admitted_at + self.every_s or (self.alternates and self.calls % 2 == 0):
                return True
            self.admitted_at = now
            return False


ACCOUNTS = {
    "sk-demo-funded": Account(),
    "sk-demo-empty": Account(fault="quota"),
    "sk-demo-busy": Account(alternates=True),
    "sk-demo-slow": Account(every_s=1.0),
    "sk-demo-outage": Account(fault="overloaded"),
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

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The provider's origin, ``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def failure(key: str, model: str) -> FaultKind | None:
    """Return why this key cannot call this model now; None admits the call and counts it."""
    account = ACCOUNTS.get(key)
    if account is None:
        return "auth"
    if account.fault is not None:
        return account.fault
    if model == DOWN:
        return "overloaded"
    if model not in MODELS:
        return "model_not_found"
    return "rate_limit" if account.refuses() else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests carry keys."""

    def do_POST(self) -> None:
        """Answer one inference call."""
        # The demo needs the service anyway.
        from proxy.features.drills import fault_scripts  # noqa: PLC0415

        asked = parse(self.rfile.read(int(self.headers.get("content-length", 0))))
        model, messages = asked["model"], asked["messages"]
        script = fault_scripts.SCRIPTS[_APIS[self.path.partition("?")[0]]]
        if kind := failure(self._key(), model):
            failed = script.errors(model)[kind]
            wait = {"retry-after": f"{_PAUSE_S:g}"} if kind == "rate_limit" else {}
            self._json(failed.status, failed.body, wait)
            return
        if _AT_LENGTH in messages[0]["content"]:
            words = fault_scripts.replayed_message("provider_error", "timeout")
            late = fault_scripts.ReplayedError(status=504, code=None, message=words)
            self._json(late.status, script.error(late))
            return
        text = _answer(str(messages[-1]["content"]))
        request = fault_scripts.FaultedRequest(model=model, streamed="stream" in asked, usage=True)
        reply = fault_scripts.Reply(
            words=(text,), input_tokens=len(str(messages)) // 4, output_tokens=len(text) // 4
        )
        if request.streamed:
            self._events(script.stream(request, reply))
        else:
            self._json(200, script.whole(request, reply))

    def _key(self) -> str:
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key", bearer)

    def _json(self, status: int, body: object, extra: Mapping[str, str] | None = None) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)

    def _events(self, events: Sequence[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if every_s := ACCOUNTS[self._key()].every_s:
            stated = {"limit": "1", "remaining": "0", "reset": f"{every_s:g}s"}
            for name, value in stated.items():
                self.send_header(f"x-ratelimit-{name}-requests", value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in (*events, b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()


_APIS = {"/v1/chat/completions": "openai.chat", "/v1/messages": "anthropic.messages"}


def _answer(said: str) -> str:
    """Have a product calculated, and repeat a number; all else is beyond this model."""
    if product := _PRODUCT.search(said):
        return f"Calculate {product[0]}."
    return f"The answer is {said}." if said.isdigit() else "I could not work this out."


# --- scenes ---


BATCH = "demo"
UNTRUSTED_BATCH = "demo-untrusted"
_DIALECTS = ("OPENAI", "ANTHROPIC")
_STEPS = 4
_RETRIES = 2
_PATIENCE_S = 0.1
_WRITTEN_S = 60.0
_PACE = "pace"


@dataclass(frozen=True)
class Scene:
    """One rollout of the demo: an agent's task, key, model and dialect.

    Arguments:
        key: None is the proxy's own, in a batch whose agents are untrusted.
        setting: a setting that the proxy must know, or the scene is not played.
    """

    name: str
    story: str
    key: str | None = "sk-demo-funded"
    model: str = "demo-large"
    dialect: str = "openai"
    task: str = "What is 17 * 23?"
    expected: str = "391"
    setting: str | None = None


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
    Scene("paced", "a rate limit that the proxy waits for", key="sk-demo-slow", setting=_PACE),
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


class NoProviderError(Exception):
    """The demo's provider cannot speak; the message says what is missing in one sentence."""


def scenes() -> list[Scene]:
    """Return the scenes that this copy of truezero can play: some need a feature of the proxy."""
    known = _feature_settings()
    return [each for each in SCENES if each.setting is None or each.setting in known]


def _feature_settings() -> set[str]:
    from proxy.feature import settings_of_features  # noqa: PLC0415  the service's

    return {name for kind in settings_of_features() for name in kind.model_fields}


@contextmanager
def services(keep: Path | None = None) -> Iterator[tuple[str, str]]:
    """Start the provider and a proxy before it; yields the proxy's address and the provider's.

    Arguments:
        keep: file of the proxy's database; none is kept by default.

    Raises:
        EmbeddedStartError: the proxy did not start.
        NoProviderError: the provider's answers are not there.
    """
    try:
        from proxy.features.drills import fault_scripts  # noqa: F401, PLC0415
    except ModuleNotFoundError:
        raise NoProviderError(
            "the demo's provider needs proxy/features/drills, which is not there"
        ) from None
    with tempfile.TemporaryDirectory(prefix="truezero-demo-") as folder, DemoProvider() as provider:
        home = Path(folder)
        database = keep.absolute() if keep else home / "demo.db"
        upstreams = {f"TRUEZERO_UPSTREAM_{name}": provider.url for name in _DIALECTS}
        upstreams["TRUEZERO_KEY_OPENAI"] = OPERATOR
        if _PACE in _feature_settings():
            upstreams["TRUEZERO_PACE"] = "learn"
        with embedded.service(database, home, upstreams, cwd=home) as url:
            yield url, provider.url


def play(url: str, ended: Callable[[Scene], None]) -> list[Run]:
    """Run the agents of all scenes that can be played side by side, on the proxy at ``url``.

    Arguments:
        ended: is told each scene that has ended.
    """
    with (
        Client(url, keep_outcomes=False) as client,
        httpx.Client(timeout=30) as http,
        ThreadPoolExecutor(len(SCENES)) as agents,
    ):
        runs = {agents.submit(_rollout, client, http, scene): scene for scene in scenes()}
        for run in as_completed(runs):
            ended(runs[run])
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
    messages = [{"role": "user", "content": scene.task}]
    speak = _openai if scene.dialect == "openai" else _anthropic
    for _ in range(_STEPS):
        try:
            text = speak(http, base_url, key, {"model": scene.model, "messages": messages})
        except httpx.HTTPError:
            return ""
        product = _PRODUCT.search(text)
        if product is None:
            return text
        calculated = str(int(product[1]) * int(product[2]))
        messages += [
            {"role": "assistant", "content": text}, {"role": "user", "content": calculated},
        ]  # fmt: skip
    return ""


def _openai(http: httpx.Client, base_url: str, key: str, asked: Mapping[str, Any]) -> str:
    answer = _persistent(
        http,
        f"{base_url}/chat/completions",
        {**asked, "stream": True, "stream_options": {"include_usage": True}},
        {"authorization": f"Bearer {key}"},
    )
    events = [parse(line[6:]) for line in answer.text.splitlines() if line[:7] == "data: {"]
    choices = [choice for event in events for choice in event["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


def _anthropic(http: httpx.Client, base_url: str, key: str, asked: Mapping[str, Any]) -> str:
    answer = _persistent(
        http,
        f"{base_url}/v1/messages",
        {**asked, "max_tokens": 100},
        {"x-api-key": key, "anthropic-version": "2023-06-01"},
    )
    text: str = answer.json()["content"][0]["text"]
    return text


def _persistent(
    http: httpx.Client, url: str, body: dict[str, Any], headers: dict[str, str]
) -> httpx.Response:
    for attempt in range(_RETRIES + 1):
        answer = http.post(url, json=body, headers=headers)
        if answer.is_success or attempt == _RETRIES:
            break
        time.sleep(float(answer.headers.get("retry-after", _PATIENCE_S)))
    return answer.raise_for_status()
