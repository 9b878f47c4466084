"""A service with every outlet it has, agents that say canaries through it, and all it left behind.

It judges nothing: the tests search what it gathers.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote, urljoin, urlsplit

import httpx
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from proxy.routing.headers import KEY_HEADERS, SIGNATURE_HEADERS
from tests import forked
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.features.traces.test_traces import Collector
from tests.journeys.service import ROOT
from tests.privacy.canaries import COOKIE, HEADER, KEYS, QUERY, key
from tests.privacy.ways import SOCKETS, Way, asked

ADMIN: Final = key("admin")
BATCH: Final = "canaries"
ROLLOUTS: Final = 6
UPSTREAMS: Final = ("openai", "anthropic", "gemini", "ollama", "openrouter")
TALKING: Final = "xai"
BABBLING: Final = "mistral"
AWAY: Final = "cohere"

_QUERIES: Final = ("key", "api_key", "access_token", "api-version")
_FURTHER_SECRETS: Final = (
    "proxy-authorization", "x-portkey-api-key", "x-litellm-api-key", "helicone-auth",
    "x-amz-security-token", "x-goog-user-project", "cf-aig-authorization",
)  # fmt: skip
_ENDLESS: Final = ("/events", "/ui/live")
_WAY: Final = "x-way"
_CALLS_SHOWN: Final = frozenset(("at", "open", "show"))  # parameters of a rollout's own views
_OPENED: Final = ("r0", "r3")  # the rollouts whose calls are looked into one by one
_CHOICES: Final = frozenset(("by", "file", "show", "tab"))  # whose values are pages of their own


class Running(Protocol):
    """A service: where it answers, and where it keeps what it keeps."""

    url: str
    home: Path
    database: Path


@dataclass
class House:
    """The running service, its neighbours, and what was registered with it."""

    service: Running
    provider: Provider
    collector: Collector
    environment: dict[str, str]
    every: bool = True  # whether all links of pages are followed, or what differs in kind
    rollouts: list[dict[str, Any]] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        bearer = {"authorization": f"Bearer {ADMIN}"}
        self.runner = httpx.Client(base_url=self.service.url, headers=bearer, timeout=60)
        self.agent = httpx.Client(timeout=60)

    # -- traffic ----------------------------------------------------------------------------

    def register(self) -> None:
        for number in range(ROLLOUTS):
            wanted = {"id": f"r{number}", "batch": BATCH, "task": f"t{number}", "model": "m-1"}
            made = self.runner.post("/rollouts", json=wanted)
            assert made.status_code == 201, made.text
            self.rollouts.append(made.json())

    def say(self, ways: Iterable[Way]) -> None:
        """Have agents make all of these calls, each with another kind of key."""
        played = list(ways)
        self.provider.plays(lambda request: _played(played, request))
        kinds = itertools.cycle(KEY_HEADERS)
        upstreams = itertools.cycle(UPSTREAMS)
        rollouts = itertools.cycle(self.rollouts)
        calls = [
            (number, way, rollout, next(upstreams), next(kinds).decode())
            for number, (way, rollout) in enumerate(zip(played, rollouts, strict=False))
        ]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda call: self._call(*call), calls))

    def _call(
        self,
        number: int,
        way: Way,
        rollout: dict[str, Any],
        upstream: str,
        kind: str,
    ) -> None:
        secrets = {name: key(name) for name in (kind, *_FURTHER_SECRETS)}
        if kind == "authorization" and number % 2:
            secrets[kind] = f"Bearer {secrets[kind]}"
        headers = {**secrets, "cookie": f"session={COOKIE.word}", "x-app": HEADER.word}
        url = f"{base(rollout, upstream)}{way.path}?{_query()}"
        body = json.dumps(asked(way)).encode()
        self.sent += 1
        _call_once(way.method, url, body, {**headers, _WAY: str(number)})

    def say_without_keys(self) -> None:
        """Calls whose key is the service's own, minted, or signed by it."""
        way = Way(name="fine", answer=answers.chat())
        self.provider.plays(way.answer)
        for rollout in self.rollouts:
            bare = f"{self.service.url}/openai{way.path}"
            self._post(bare, json=asked(way), headers={"x-api-key": rollout["key"]})
            self._post(bare, json=asked(way), headers={"x-api-key": rollout["key"] + "x"})
            for shown in (rollout["key"], rollout["key"] + "x"):
                beside = {"x-api-key": key("beside"), "x-truezero-key": shown}
                self._post(bare, json=asked(way), headers=beside)
            for upstream in (*UPSTREAMS, "bedrock", "vertex", AWAY):
                self._post(base(rollout, upstream) + way.path, json=asked(way))
            signed = {name.decode(): key(name.decode()) for name in SIGNATURE_HEADERS}
            signed["authorization"] = f"AWS4-HMAC-SHA256 Credential={key('aws')}/20260101/r/s, S=x"
            self._post(base(rollout, "bedrock") + way.path, json=asked(way), headers=signed)

    def say_nonsense(self) -> None:
        """What is refused, and providers that speak no HTTP."""
        way = Way(name="fine", answer=answers.chat())
        rollout = self.rollouts[0]
        for path in (
            f"/r/{QUERY.word}/openai/v1/x", f"/r/r1~{KEYS.word}/openai/v1/x",
            f"/{QUERY.word}/v1/x", f"/r/r1/{QUERY.word}/x", f"/r/r1/as/{QUERY.word}/openai/x",
            f"/openai/v1/{QUERY.word}", "/r/r1/openai/v1/../" + QUERY.word, f"/{QUERY.word}",
            f"/rollouts/{QUERY.word}/verdict?policy={QUERY.word}", f"/key/info?key={key('info')}",
        ):  # fmt: skip
            for agent in (self.agent, self.runner):
                url = self.service.url + path
                _send(agent, "POST", url, json=asked(way), headers={"x-api-key": "tz-" + KEYS.word})
                _send(agent, "GET", url, headers={"x-truezero-role": QUERY.word})
        for _ in range(8):
            self._post(base(rollout, BABBLING) + way.path, json=asked(way))
        large = b"x" * (1 << 20)
        self._post(base(rollout, "openai") + way.path, content=HEADER.word.encode() + large)

    def talk(self) -> None:
        """Sockets, and upgrades that are refused."""
        for path in SOCKETS:
            for rollout in self.rollouts[:2]:
                url = base(rollout, TALKING).replace("http://", "ws://") + path
                secrets = {"authorization": f"Bearer {key('socket')}", "cookie": COOKIE.word}
                with contextlib.suppress(WebSocketException, OSError):
                    self._talk_at(f"{url}?model=m-1&{_query()}", secrets)

    def _talk_at(self, url: str, headers: dict[str, str]) -> None:
        way = Way(name="socket", answer=answers.chat())
        with connect(url, proxy=None, additional_headers=headers, close_timeout=1) as socket:
            for _ in range(4):
                socket.send(json.dumps({"type": "response.create", **asked(way)}))
                with contextlib.suppress(TimeoutError):
                    while socket.recv(timeout=0.2):
                        pass

    def _post(self, url: str, **said: Any) -> None:
        _send(self.agent, "POST", url, **said)

    # -- what is left -------------------------------------------------------------------------

    def places(self) -> Iterator[tuple[str, bytes]]:
        """All that can be read of it, by name."""
        yield from self.files()
        yield from self.rows()
        yield from self.routes()
        yield from self.pages()
        yield from self.printed()

    def spans(self) -> Iterator[tuple[str, bytes]]:
        """What was sent to the collector; complete once the service has ended."""
        yield from (("spans", body) for body in self.collector.bodies)
        yield from (("spans as text", str(request).encode()) for request in self.collector.requests)

    def files(self) -> Iterator[tuple[str, bytes]]:
        for file in sorted(self.service.home.rglob("*")):
            if file.is_file():
                yield f"file {file.name}", file.read_bytes()

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Whole values: in the file one may lie on two pages."""
        with contextlib.closing(sqlite3.connect(self.service.database)) as database:
            yield "rows", "\n".join(database.iterdump()).encode()

    def routes(self) -> Iterator[tuple[str, bytes]]:
        """Every GET of the OpenAPI, for every rollout and the batch."""
        paths = self.runner.get("/openapi.json").json()["paths"]
        for path in sorted(path for path, ways in paths.items() if "get" in ways):
            for url in dict.fromkeys(self._filled(path)):
                yield f"GET {path}", self._got(url)

    def _filled(self, path: str) -> Iterator[str]:
        for rollout in self.rollouts:
            query = f"?key={quote(rollout['key'])}" if path == "/key/info" else ""
            yield path.format(rollout_id=rollout["id"], batch=BATCH) + query

    def pages(self) -> Iterator[tuple[str, bytes]]:
        """Every page that a link leads to; of a page's own views one for each set of parameters.

        Unless it is to be every one: every page, every view of a rollout's calls and each call of
        some, and of lists' views as many as it takes for each parameter to be asked for with each
        other one that links have beside it. What a link says was searched where it stands.
        """
        seen, views, waiting = {"/"}, set[object](), ["/", "/ui/live"]
        while waiting:
            path = waiting.pop()
            page = self._got(path)
            yield f"page {path}", page
            for found in re.findall(rb'href="([/?][^"#]*)', page):
                link = urljoin(path, found.decode().replace("&amp;", "&"))
                kinds = set(self._kinds(link))
                known = kinds <= views and (found.startswith(b"?") or not self.every)
                if link in seen or known:
                    continue
                seen.add(link)
                views |= kinds
                waiting.append(link)

    def _kinds(self, link: str) -> Iterator[object]:
        parts = urlsplit(link)
        asked = parse_qsl(parts.query)
        names = sorted({name for name, _ in asked})
        list_of = re.sub(r"/r\d+$", "", parts.path)
        if self.every:
            yield list_of, *names
        elif not asked:
            yield link
        elif parts.path == "/ui/call":  # the same of any rollout, whose calls are of all kinds
            rollout = dict(asked)["rollout"]
            yield link if rollout in _OPENED else parts.path
        else:
            kind = parts.path if {*names} <= _CALLS_SHOWN else list_of
            chosen = [f"{name}={value}" if name in _CHOICES else name for name, value in asked]
            yield from ((kind, *pair) for pair in itertools.product(chosen, repeat=2))

    def _got(self, path: str) -> bytes:
        if not path.partition("?")[0].endswith(_ENDLESS):
            answer = self.runner.get(path)
            return b"%r\n%b" % (answer.headers.raw, answer.content)
        held, until = b"", time.monotonic() + 2
        with (
            contextlib.suppress(httpx.HTTPError),
            self.runner.stream("GET", path, headers={"last-event-id": "0"}, timeout=1) as answer,
        ):
            for chunk in answer.iter_bytes():
                held += chunk
                if time.monotonic() > until:
                    break
        return held

    def printed(self) -> Iterator[tuple[str, bytes]]:
        """What the commands say."""
        exported = self.service.home / "export.jsonl"
        commands = (
            ["export", "--out", str(exported)], ["export"], ["verdict", "r0"],
            ["verdict", "r0", "--json"], ["batch", BATCH], ["batch", BATCH, "--json"],
            ["check", BATCH], ["check", BATCH, "--json"], ["classify", str(exported)],
        )  # fmt: skip
        own = {"TRUEZERO_URL": self.service.url, "TRUEZERO_ADMIN_TOKEN": ADMIN}
        for words in commands:
            done = forked.run_bytes(*words, cwd=ROOT, env={**self.environment, **own})
            yield f"command {words[0]}", done.stdout + done.stderr
        yield "file export.jsonl", exported.read_bytes()

    # -- trouble ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def unwritable(self) -> Iterator[None]:
        """The database is another's for a while."""
        with contextlib.closing(
            sqlite3.connect(self.service.database, isolation_level=None)
        ) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield
            other.execute("ROLLBACK")
        deadline = time.monotonic() + 300
        while self.runner.get("/readyz").json()["waiting"]:
            assert time.monotonic() < deadline, "what was kept is not written"
            time.sleep(0.1)

    def without(self, *tables: str) -> None:
        """Take tables away, so that whoever needs them fails in ways nobody thought of."""
        with contextlib.closing(sqlite3.connect(self.service.database)) as database:
            for table in tables:
                database.execute(f"DROP TABLE {table}")


def _send(agent: httpx.Client, method: str, url: str, **said: Any) -> None:
    """Make a call, whose answer may be cut on purpose."""
    with contextlib.suppress(httpx.HTTPError):
        agent.request(method, url, **said)


def _call_once(method: str, url: str, body: bytes, headers: dict[str, str]) -> None:
    """The same on a connection of its own, at a tenth of the CPU: for calls by the hundred."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = HTTPConnection(address.hostname, address.port, timeout=60)
    with contextlib.closing(connection), contextlib.suppress(HTTPException, OSError):
        connection.request(method, f"{address.path}?{address.query}", body, headers)
        connection.getresponse().read()


def base(rollout: dict[str, Any], upstream: str) -> str:
    """Where an agent of a rollout points its client, with the secret in it."""
    known: str = rollout["base_urls"]["anthropic"]
    head, _, _ = known.rpartition("/anthropic")
    return f"{head}/{upstream}"


def secrets_of(rollout: dict[str, Any]) -> tuple[str, str]:
    """The minted key's secret part, and the one in a base_url."""
    return rollout["key"].rpartition(".")[2], base(rollout, "x").rpartition("~")[2].split("/")[0]


def _played(ways: list[Way], request: Request) -> Answer:
    return ways[int(request.header(_WAY) or 0)].answer


def _query() -> str:
    return "&".join(f"{name}={key(name)}" for name in _QUERIES) + f"&q={QUERY.word}"


def inherited() -> dict[str, str]:
    """Return the environment of this process without settings of truezero."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith("TRUEZERO_")}
    return {**kept, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}


def spills(home: Path) -> list[tuple[str, bytes]]:
    """The files that hold what the database would not take."""
    return [(f"spill {file.name}", file.read_bytes()) for file in home.glob("*.spill")]
