"""One run through everything the control plane answers: what works, what fails, what is refused.

The real application answers on a socket; providers are scripts, and the deployment's secrets are
fixed, so that keys, digests and answers are the same in every run.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Cut, Provider, Script
from tests.fakes.relaying import running
from tests.golden.player import Player
from truezero.sdk.addresses import CLIENT

CHAT = "/openai/v1/chat/completions"
MESSAGES = "/anthropic/v1/messages"
GEMINI = "/gemini/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
SK = {"authorization": "Bearer sk-golden"}
ASK: dict[str, Any] = {"model": "gpt-5", "messages": []}
STREAM = {**ASK, "stream": True}
CLAUDE = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": []}

FAILS = answers.FAILURES
PASSED: dict[str, Any] = {
    "status": "success", "termination_reason": "agent_stop", "prompts_executed": 1,
    "rewards": {"reward": 1.0},
}  # fmt: skip
ZERO = {**PASSED, "rewards": 0}

# What requests cannot be: objects as JSON, bytes as they are.
WRONG_ROLLOUTS: tuple[object, ...] = (
    {"id": ""}, {"id": "x" * 201}, {"id": "a\nb"}, {"batch": "\x00"}, {"attempt": 2**31},
    {"repeat": -1}, {"repeat": 2**31}, {"usage_channel": "both"}, {"metadata": [1]},
    {"roles": ["agent"]}, {"roles": ["Judge!"]}, {"roles": [""]}, {"roles": ["judge"] * 17},
    {"reward_range": [1, 0]}, {"reward_range": [1, 1]}, {"reward_range": [0]},
    {"reward_range": [0, 1, 2]}, {"reward_range": ["a", 1]}, {"reward_range": 1},
    {"reward_range": {"low": 0}}, b'{"reward_range": [0, 1e999]}', b'{"reward_range": [0, NaN]}',
    b'{"reward_range": [0, Infinity]}', {"model": []}, {"model": [""]}, {"model": ["m"] * 17},
    {"model": 5}, {"model": ["a\nb"]}, {"model": "m" * 201}, {"policy": {"agents": "friendly"}},
    {"policy": {"content_filter": "null"}},
)  # fmt: skip
WRONG_OUTCOMES: tuple[object, ...] = (
    {"status": "fine"}, {}, {"status": "success", "termination_reason": "bored"},
    *({"status": status, "termination_reason": "max_steps"} for status in (
        "agent_error", "environment_error", "user_error", "task_timeout",
        "unknown_execution_error", "evaluation_failed", "setup_failed",
    )),
    {"status": "success", "prompts_executed": -1}, {"status": "success", "tool_calls": "two"},
    {"status": "success", "total_tokens": 10**30}, {"status": "success", "surprise": 1},
    {"status": "success", "rewards": {"reward": "x"}}, [], b'{"status":"success"', b"",
    b"\xff\xfe", b'{"status":"success","rewards":{"r":NaN}}',
    b'{"status":"success","eval":{"r":Infinity}}', b'{"status":"success","error":"\\ud800"}',
    b'{"status":"success","eval":{"\\ud800":1}}', b"null", b"[" * 5000,
)  # fmt: skip
WRONG_LISTS = (
    "colour=red", "page=2", "health=fine", "health=healthy&health=x", "subcategory=x",
    "validity=x", "reward=1", "scoreable=1", "repeat=-1", "repeat=first", f"repeat={2**31}",
    "attempt=x", "since=yesterday", "until=inf", "since=-1", "sort=error", "order=up", "limit=0",
    "limit=1001", "after=junk", "batch=%00", f"text={'x' * 201}",
)  # fmt: skip


@contextlib.contextmanager
def service(database: Path, provider: str, **settings: str) -> Iterator[httpx.Client]:
    """The application on a loopback port, and a client that keeps no connection.

    A kept one would let the server close it between two steps.
    """
    Database(str(database)).prepare()
    with contextlib.closing(sqlite3.connect(database)) as file, file:
        fixed = [("keyring", "6b" * 32), ("salt", "73" * 32)]
        file.executemany("INSERT OR IGNORE INTO server (name, value) VALUES (?, ?)", fixed)
    upstreams = dict.fromkeys(("OPENAI", "ANTHROPIC", "GEMINI"), provider)
    environment = {
        "TRUEZERO_DATABASE_URL": str(database),
        "TRUEZERO_UPSTREAM_UNREACHABLE": "http://127.0.0.1:1",
        **{f"TRUEZERO_UPSTREAM_{name}": url for name, url in upstreams.items()},
        **{f"TRUEZERO_{name}": value for name, value in settings.items()},
    }
    app = Application(load({}, environment), environment)
    limits = httpx.Limits(max_keepalive_connections=0)
    with (
        running(app) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            limits=limits,
            timeout=60,
            headers={CLIENT: "of today"},  # told what 0.2.0's client rejects too
        ) as http,
    ):
        yield http


class Scenario:
    """The run; ``metrics`` is what /metrics told at its end."""

    def __init__(self, folder: Path) -> None:
        self.player = Player()
        self.metrics = ""
        self._folder = folder

    def play(self) -> None:
        """All scenes but that of a token, one after another."""
        with Provider(answers.healthy) as self.provider:
            with self._scene("open", BREAKER_THRESHOLD="3") as http:
                self._service_routes()
                self._registration()
                self._rollouts()
                self._lists()
                self._batches()
                self._breaker()
                self._keys()
                self._refusals()
                self._unexplained()
                self.metrics = http.get("/metrics").text
                self._budgets()
                self._without_storage()
            with self._scene("strict", REQUIRE_REGISTRATION="1", REGISTRATIONS_PER_S="0.0001",
                             BODY_LIMIT="200"):  # fmt: skip
                self._strict()
            with self._scene("keyed", KEY_OPENAI="sk-operator"):
                self._references()

    def play_guarded(self) -> None:
        """A service with a token: a short scene, which has golden files of its own."""
        with (
            Provider(answers.healthy) as self.provider,
            self._scene("token", ADMIN_TOKEN="t0ken"),
        ):
            self._guarded()

    def play_refused(self) -> None:
        """What the fields of requests cannot be, whatever is stored, with files of its own too."""
        with Provider(answers.healthy) as self.provider, self._scene("wrong"):
            self._call("r")
            for wrong in WRONG_ROLLOUTS:
                self._wrong("/rollouts", wrong)
            for wrong in WRONG_OUTCOMES:
                self._wrong("/rollouts/r/outcome", wrong)
            for name in ("x" * 201, "a\tb", "a\0b"):
                self._wrong(f"/rollouts/{quote(name)}/outcome", PASSED)
            lists: tuple[Any, ...] = ({}, [{}] * 10_001)
            for rollouts in lists:
                self._wrong("/rollouts/bulk", {"rollouts": rollouts})
            for query in WRONG_LISTS:
                self.player.get(f"/rollouts?{query}")
            for query in WRONG_LISTS[:3]:
                self.player.get(f"/rollouts/export?{query}")
            for query in ("since=0", "since=nan", "since=yesterday"):
                self.player.get(f"/upstreams?{query}")
            for kind in ("application/vnd.apache.parquet", "text/markdown"):
                self.player.get("/rollouts", headers={"accept": kind}, title=f"as {kind}")
            asked = {"headers": {"accept": "text/csv"}, "title": "a file that cannot be begun"}
            self.player.get("/rollouts?after=junk", **asked)
            self.player.get("/rollouts", title="nothing of it was taken")

    def _wrong(self, path: str, body: object) -> None:
        """Post what is refused: bytes as they are, all else as JSON."""
        typed = {"content-type": "application/json"}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        title = f"POST {path[:40]} {content[:60].decode('latin-1')}"
        self.player.post(path, content=content, headers=typed, title=title)

    def _unexplained(self) -> None:
        error = {"message": "Something is off.", "type": "odd", "code": "E1042"}
        self._call("odd", answers.whole({"error": error}, 400))
        self.player.get("/fingerprints/unexplained?since=0&until=4000000000")
        self.player.get("/fingerprints/unexplained?limit=0")

    @contextlib.contextmanager
    def _scene(self, name: str, **settings: str) -> Iterator[httpx.Client]:
        database = self._folder / f"{name}.db"
        with service(database, self.provider.url, **settings) as http:
            self.player.goes_to(http, name)
            yield http

    def _call(self, rollout: str, *scripts: Script, path: str = CHAT, **how: Any) -> httpx.Response:
        """One call of an agent, answered by the scripts in turn, else in good health."""
        self.provider.plays(*(scripts or (answers.healthy,)))
        how = {"headers": SK, "json": ASK, **how}
        return self.player.ask("POST", f"/r/{quote(rollout, safe='~')}{path}", **how)

    # --- scenes ------------------------------------------------------------------------

    def _service_routes(self) -> None:
        ask = self.player
        for path in ("/healthz", "/readyz", "/fingerprints", "/rollouts", "/rollouts/export"):
            ask.get(path)

    def _registration(self) -> None:
        ask = self.player
        whole = {
            "id": "honest", "batch": "nightly", "task": "t1", "attempt": 0, "model": "gpt-5",
            "upstream": "openai", "usage_channel": "proxy", "metadata": {"seed": 7},
        }  # fmt: skip
        ask.post("/rollouts", whole, title="register with every field")
        ask.post("/rollouts", whole, title="register again alike")
        ask.post("/rollouts", {**whole, "task": "t2"}, title="register again otherwise")
        ask.post("/rollouts", {"id": "a/b", "batch": "x/y"}, title="register a slash")
        ask.post("/rollouts", {}, title="register without an id")
        several = [{"id": "many-0", "batch": "many"}, {"id": "honest"}, {"attempt": -1}, 7]
        ask.post("/rollouts/bulk", {"rollouts": several}, title="register many")
        for number, empty in enumerate(({}, {"rollouts": []}, {"rollouts": several, "x": 1}, [])):
            ask.post("/rollouts/bulk", empty, title=f"register many wrongly {number}")
        for number, wrong in enumerate((
            {"id": "x" * 201}, {"batch": "\x00"}, {"attempt": -1}, {"usage_channel": "both"},
            {"upstream": "nope"}, {"metadata": [1]}, {"name": "x"},
            {"fault": {"kind": "earthquake"}}, {"attempt": "x", "model": ""}, [],
        )):  # fmt: skip
            ask.post("/rollouts", wrong, title=f"register wrongly {number}")

    def _rollouts(self) -> None:
        ask = self.player
        self._honest()
        self._failing()
        for name in ("honest", "recovered", "quota", "auth", "silent", "unprompted", "cut",
                     "gemini", "steps", "errs", "stray", "drilled", "quota-again"):  # fmt: skip
            ask.get(f"/rollouts/{name}/verdict")
            ask.get(f"/rollouts/{name}/verdict?policy=seed")
            ask.get(f"/rollouts/{name}/exchanges")
            ask.get(f"/rollouts/{name}/result")
        ask.get("/rollouts/honest/verdict?wait=settled&timeout_s=1")
        page = ask.get("/rollouts/honest/exchanges?limit=2").json()
        ask.get("/rollouts/honest/exchanges", params={"limit": 2, "after": page["next"]})
        ask.post("/digests", {"response_ids": ["chatcmpl-1", "resp_1"]})
        for number, wrong in enumerate(({}, {"response_ids": [""]}, {"response_ids": [7]})):
            ask.post("/digests", wrong, title=f"digests asked for wrongly {number}")
        ask.get("/rollouts/a%2Fb/verdict")

    def _honest(self) -> None:
        ask = self.player
        self._call("honest")
        # At once: of a stream whose events come one by one, a text may be skimmed and unknown.
        self._call("honest", answers.chat_stream().in_pieces(1 << 20), json=STREAM)
        self._call("honest", answers.chat_tools())
        self._call("honest", path="/openai/v1/responses")
        self._call("honest", path=f"/as/judge{CHAT}")
        ask.get("/rollouts/honest/verdict", title="a verdict before the outcome")
        ask.get("/rollouts/honest/result", title="a result before the outcome")
        ask.post("/rollouts/honest/outcome", PASSED)
        ask.post("/rollouts/honest/outcome", PASSED, title="the same outcome again")
        ask.post("/rollouts/honest/outcome", ZERO, title="another outcome")

        ask.post("/rollouts", {"id": "recovered", "batch": "nightly", "task": "t2"})
        first = {**SK, "x-stainless-retry-count": "0"}
        self._call("recovered", FAILS[Api.CHAT][Fault.RATE_LIMIT], headers=first)
        self._call("recovered", headers={**SK, "x-stainless-retry-count": "1"})
        counted = {"tool_calls": 0, "total_tokens": 36, "eval": {"passed": False, "of": [1, None]}}
        ask.post("/rollouts/recovered/outcome", {**ZERO, **counted})

    def _failing(self) -> None:
        ask = self.player
        cut = answers.chat_stream().stopping_after(2, Cut())
        rate_limited = FAILS[Api.GEMINI][Fault.RATE_LIMIT]
        told: tuple[tuple[str, str, int, Any, str, Any, list[Script]], ...] = (
            ("quota", "t3", 0, ZERO, CHAT, ASK, [FAILS[Api.CHAT][Fault.QUOTA]] * 2),
            ("auth", "t4", 0, ZERO, MESSAGES, CLAUDE, [FAILS[Api.MESSAGES][Fault.AUTH]]),
            ("silent", "t5", 0, ZERO, CHAT, ASK, []),
            ("unprompted", "t6", 0, {"status": "setup_failed", "prompts_executed": 0}, CHAT, ASK,
             []),
            ("gemini", "t8", 0, {"status": "agent_error", "error": "gave up"}, GEMINI,
             {"contents": []}, [rate_limited]),
            ("steps", "t9", 0, {"status": "success", "termination_reason": "max_steps",
                                "rewards": {"reward": 0.25, "style": 1}}, MESSAGES, CLAUDE,
             [answers.healthy]),
            ("errs", "t10", 0, {"status": "evaluation_failed", "verifier_error": "no tests",
                                "export_error": "disk full"}, CHAT, ASK,
             [FAILS[Api.CHAT][Fault.PROVIDER_ERROR], FAILS[Api.CHAT][Fault.REJECTED_REQUEST]]),
            ("quota-again", "t3", 1, PASSED, CHAT, ASK, [answers.healthy]),
        )  # fmt: skip
        for name, task, attempt, outcome, path, body, scripts in told:
            facts = {"id": name, "batch": "nightly", "task": task, "attempt": attempt}
            ask.post("/rollouts", facts, title=f"register {name}")
            for script in scripts:
                self._call(name, script, path=path, json=body)
            if name != "errs":
                ask.post(f"/rollouts/{name}/outcome", outcome)
        ask.post("/rollouts/errs/outcome", told[-2][3])

        ask.post("/rollouts", {"id": "cut", "batch": "nightly", "task": "t7"})
        self.provider.plays(cut)
        ask.cut(f"/r/cut{CHAT}", STREAM)
        ask.post("/rollouts/cut/outcome", ZERO)

        self._call("stray")  # nobody registered it
        self._call("stray", answers.HTML_PAGE)
        self._call("stray", answers.EMPTY_BODY)
        self._call("stray", answers.messages_error_stream().in_pieces(1 << 20), path=MESSAGES,
                   json={**CLAUDE, "stream": True})  # fmt: skip
        self._call("stray", path="/unreachable/v1/chat/completions")
        self.provider.plays(answers.healthy)
        ask.post(CHAT, ASK, headers={**SK, "x-truezero-rollout": "stray"})
        ask.post(CHAT, ASK, headers={**SK, "x-session-id": "stray"})
        fault = {"kind": "rate_limit", "at_call": 1, "times": 1}
        drilled = ask.post("/rollouts", {"id": "drilled", "fault": fault}).json()
        for _ in range(2):
            self.provider.plays(answers.healthy)
            ask.post(f"{drilled['base_urls']['openai']}/chat/completions", ASK, headers=SK)

    def _lists(self) -> None:
        ask = self.player
        ask.get("/rollouts")
        for filters in ("batch=nightly", "task=t3", "health=api_error", "subcategory=quota",
                        "fingerprint=auth:401", "batch=nightly&health=healthy",
                        "batch=none"):  # fmt: skip
            ask.get(f"/rollouts?{filters}")
        page = ask.get("/rollouts?limit=3").json()
        ask.get("/rollouts", params={"limit": 3, "after": page["next"]})
        for wrong in ("limit=0", "limit=1001", "after=junk", "health=fine", "subcategory=x"):
            ask.get(f"/rollouts?{wrong}")
        ask.get("/rollouts/export")
        ask.get("/rollouts/export?batch=nightly")
        ask.get("/rollouts/export?batch=none")

    def _batches(self) -> None:
        ask = self.player
        ask.get("/batches")
        ask.get(
            "/batches", params={"limit": 1, "after": ask.get("/batches?limit=1").json()["next"]}
        )
        for wrong in ("limit=0", "limit=101", "after=junk"):
            ask.get(f"/batches?{wrong}")
        for batch in ("nightly", "x%2Fy", "none"):
            for route in ("", "/check", "/breaker", "/groups", "/rerun"):
                ask.get(f"/batches/{batch}{route}")
        ask.watch("/batches/nightly/events?after=0")
        ask.watch("/batches/nightly/events", headers={"last-event-id": "5"})
        ask.get("/batches/nightly/events?after=-1")
        for by in ("", "?by=task", "?by=key"):
            ask.get(f"/batches/nightly/usage{by}")
        for pair in ("a=nightly&b=x%2Fy", "a=nightly&b=none", "a=nightly"):
            ask.get(f"/compare?{pair}")
        ask.get("/fingerprints")
        ask.post("/batches/nightly/begin", {"run": "shift-1"})
        ask.post("/batches/nightly/begin", {}, title="begin a run without a name")
        ask.post("/batches/nightly/end", {"run": "shift-1"})
        ask.post("/batches/none/end", {}, title="end a batch that there is not")
        ask.get("/batches/nightly/groups?task=t7", title="a group of a batch that is over")

    def _breaker(self) -> None:
        ask = self.player
        for number in range(5):
            name = f"broken-{number}"
            facts = {"id": name, "batch": "broken", "model": "gpt-5", "upstream": "openai"}
            if not ask.post("/rollouts", facts, title=f"register {name}").json()["admitted"]:
                continue
            self._call(name, FAILS[Api.CHAT][Fault.AUTH])
            ask.post(f"/rollouts/{name}/outcome", ZERO)
        ask.get("/rollouts/broken-4/verdict")
        ask.get("/rollouts/broken-4/result")
        ask.get("/batches/broken")
        ask.get("/batches/broken/check")
        ask.watch("/batches/broken/events?after=0")
        lane = ask.get("/batches/broken/breaker").json()["lanes"][0]["lane"]
        ask.post("/batches/broken/breaker/reset?lane=nowhere/at/all")
        ask.post("/batches/broken/breaker/reset", params={"lane": lane})
        canary = {"id": "canary", "batch": "broken", "model": "gpt-5", "upstream": "openai"}
        ask.post("/rollouts", canary, title="register a canary")
        ask.get("/batches/broken/breaker", title="with a canary under way")
        self._call("canary")
        ask.post("/rollouts/canary/outcome", PASSED)
        ask.get("/batches/broken/breaker", title="after a canary that lived")
        ask.post("/batches/broken/breaker/reset")
        ask.post("/turns", {"upstream": "openai", "model": "no-such-model"})
        ask.post("/turns", {"upstream": 5})
        for batch in ("broken", "none"):
            ask.get(f"/batches/{batch}/card")

    def _keys(self) -> None:
        ask = self.player
        asked = {
            "key_alias": "swe-1", "team_id": "keyed", "user_id": "u", "duration": "20m",
            "models": ["gpt-5"], "metadata": {"run": 1}, "max_budget": 5,
        }  # fmt: skip
        key = ask.post("/key/generate", asked).json()["key"]
        ask.post("/key/generate", asked, title="an alias that is taken")
        other = ask.post("/key/generate", {}, title="a key without an alias").json()["key"]
        ask.get("/key/info", params={"key": key}, title="info before a call")
        self.provider.plays(answers.healthy)
        ask.post(CHAT, ASK, headers={"authorization": f"Bearer {key}"}, title="a call by key")
        ask.get("/key/info", params={"key": key}, title="info after a call")
        ask.post("/key/delete", {"keys": [key]}, title="delete a key")
        ask.get("/key/info", params={"key": key}, title="info after its deletion")
        ask.post(CHAT, ASK, headers={"authorization": f"Bearer {key}"}, title="by a deleted key")
        ask.post("/key/generate", asked, title="an alias that is free again")
        ask.post("/key/delete", {"key_aliases": ["swe-1"]})
        ask.post("/key/delete", {"keys": [other, "tz-none"]}, title="delete an unknown key")
        ask.post("/key/delete", {"key_aliases": ["none"]}, title="delete an unknown alias")
        ask.post("/key/delete", {})
        ask.get("/key/info?key=sk-none")
        ask.get("/key/info")
        ask.post("/key/generate", {"duration": "soon"}, title="a wrong duration")
        ask.post("/key/generate", {"key": "tz-mine"}, title="a key of one's own")

    def _refusals(self) -> None:
        ask = self.player
        for path in ("verdict", "result", "exchanges"):
            ask.get(f"/rollouts/nobody/{path}")
        ask.post("/rollouts/nobody/outcome", ZERO)
        for number, wrong in enumerate((
            {"status": "fine"}, {}, {"status": "success", "termination_reason": "bored"},
            {"status": "task_timeout", "termination_reason": "max_steps"},
            {"status": "success", "prompts_executed": -1},
            {"status": "success", "rewards": {"reward": "x"}}, {"status": "success", "extra": 1},
        )):  # fmt: skip
            ask.post("/rollouts/stray/outcome", wrong, title=f"a wrong outcome {number}")
        typed = {"content-type": "application/json"}
        ask.post("/rollouts/stray/outcome", content=b'{"status":', headers=typed, title="no JSON")
        ask.post("/rollouts/stray/outcome", content=b"[" * 100_000, headers=typed, title="too deep")
        ask.get("/rollouts/stray/verdict?policy=other")
        ask.get("/rollouts/stray/verdict?wait=long&timeout_s=-1")
        ask.get("/rollouts/stray/exchanges?limit=0")
        ask.get("/nowhere")
        ask.ask("DELETE", "/rollouts")
        ask.get("/rollouts", headers={"host": "evil.example"}, title="a foreign host")
        ask.post("/rollouts", {}, headers={"origin": "https://evil.example"}, title="cross-origin")
        ask.post("/r/stray/nope/v1/x", ASK)
        ask.post("/r//openai/v1/x", ASK)
        ask.post(f"/r/stray/as/JUDGE!{CHAT}", ASK)
        ask.post(CHAT, ASK, title="a call that names no rollout")
        ask.get("/rollouts/unattributed/exchanges", title="calls that named no rollout")
        ask.post(CHAT, ASK, headers={"authorization": "Bearer tz-x.y"}, title="a forged key")
        ask.post("/r/stray/openai/v1/%2e%2e/x", ASK)
        self._call("honest")  # its outcome is known

    def _budgets(self) -> None:
        ask = self.player
        limits = {"calls": 1, "tokens": 100_000}
        asked = {"id": "frugal", "batch": "limited", "limits": limits, "batch_limits": {"calls": 9}}
        made = ask.post("/rollouts", asked, title="register with limits").json()
        url = made["base_urls"]["openai"] + "/chat/completions"
        self.provider.plays(answers.healthy)
        ask.post(url, ASK, headers=SK, title="within its limit")
        ask.post(url, ASK, headers=SK, title="beyond its limit")
        ask.get("/rollouts/frugal/limits")
        ask.post("/rollouts/frugal/limits", {**limits, "calls": 2})
        ask.get("/batches/limited/limits")
        ask.post("/batches/limited/limits", {"calls": 20})
        ask.post("/batches/nightly/limits", {"calls": 20}, title="limits that nobody stated")
        ask.post("/rollouts", {**asked, "id": "other", "batch_limits": {"calls": 8}},
                 title="other limits of a batch")  # fmt: skip

    def _without_storage(self) -> None:
        ask = self.player
        with contextlib.closing(sqlite3.connect(self._folder / "open.db")) as file, file:
            file.execute("ALTER TABLE verdicts RENAME TO gone")
        for path in ("/fingerprints", "/rollouts", "/rollouts/stray/verdict", "/readyz"):
            ask.get(path, title=f"GET {path} without a table")
        with contextlib.closing(sqlite3.connect(self._folder / "open.db")) as file, file:
            file.execute("ALTER TABLE gone RENAME TO verdicts")

    def _guarded(self) -> None:
        ask, admin = self.player, {"authorization": "Bearer t0ken"}
        for path in ("/healthz", "/readyz", "/rollouts", "/batches/b", "/metrics", "/openapi.json",
                     "/docs", "/nowhere", "/"):  # fmt: skip
            ask.get(path)
        ask.get("/", headers={"accept": "text/html"}, title="a person without a session")
        for path in ("/rollouts", "/key/generate", "/key/delete", "/batches/b/breaker/reset"):
            ask.post(path, {})
        ask.get("/rollouts", headers={"authorization": "Bearer wrong"}, title="a wrong token")
        made = ask.post("/rollouts", {"id": "r1"}, headers=admin, title="with the token").json()
        self._call("r1")
        url = made["base_urls"]["openai"]
        self.provider.plays(answers.healthy)
        ask.post(f"{url}/chat/completions", ASK, headers=SK, title="by its secret")
        minted = {"authorization": f"Bearer {made['key']}"}
        ask.post(CHAT, ASK, headers=minted, title="by its key")
        ask.get("/rollouts/r1/verdict", headers=minted, title="a verdict by an agent's key")
        ask.get("/rollouts/r1/verdict", headers=admin, title="a verdict by the token")
        ask.post("/rollouts/r1/outcome", PASSED, headers=admin)
        ask.post(f"{url}/chat/completions", ASK, headers=SK, title="by a secret that is over")

    def _strict(self) -> None:
        ask = self.player
        self._call("new")
        ask.post("/rollouts/new/outcome", ZERO, title="an outcome where registration is required")
        ask.post("/rollouts", {"id": "new"})
        ask.post("/rollouts", {"id": "newer"}, title="registered too fast")
        self._call("new")
        ask.post(f"/r/new{CHAT}", {**ASK, "user": "u" * 300}, headers=SK, title="a large body")

    def _references(self) -> None:
        ask = self.player
        self.provider.plays(answers.obeying(answers.chat()))
        ask.post("/upstreams/openai/reference", {"model": "gpt-5"})
        self.provider.plays(answers.FAILURES[Api.CHAT][Fault.QUOTA])
        ask.post("/upstreams/openai/reference", {"model": "gpt-5-mini"}, title="one that fails")
        ask.post("/upstreams/anthropic/reference", {"model": "claude-x"}, title="without a key")
        ask.post("/upstreams/nope/reference", {"model": "gpt-5"})
        ask.post("/upstreams/openai/reference", {})
