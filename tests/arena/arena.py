"""Services on one world, and agents: each in a rollout and on a lane of its own.

The proxy asks at most 60 references a minute, so rollouts are spread over several services.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.sync.server import ServerConnection

from tests.arena import dialects
from tests.arena.dialects import Dialect
from tests.arena.world import OPERATOR, World
from tests.fakes.provider import Provider, closed_port
from tests.fakes.talker import RESPONSES, Talker
from tests.journeys.service import Service
from tests.waiting import until

TOKEN = "t0ken-of-the-operator"
PATIENCE_S = 300.0
SILENT_S = 1.0  # for which an agent waits until a provider seems silent, see `QUICK`
JUDGED_S = 10.0  # within which what a late reference says is in the verdict
SERIES_S = 25.0  # until the last reference to a silent provider has ended: 15 s
UNTRUSTED = {"agents": "untrusted"}
TRUSTED = {"agents": "trusted"}
ENDED: Mapping[str, object] = {
    "status": "success", "termination_reason": "agent_stop", "prompts_executed": 1,
    "rewards": {"reward": 0.0},
}  # fmt: skip
QUICK = {
    "ADMIN_TOKEN": TOKEN,
    # So that who waits for the silence of a provider waits for that long.
    "STALL_S": "0.2",
    "FIRST_CONTENT_S": "0.2",
    "WHOLE_ANSWER_S": "0.2",
    "OUTCOME_GRACE_S": "0.1",
}
NEVER_THERE = "groq"  # an upstream on which nobody listens


@dataclass(slots=True)
class Agent:
    """A rollout as its agent and its runner have it; ``statuses`` are what its calls came to."""

    stage: Arena
    house: House
    id: str
    key: str
    roles: Mapping[str, Any]
    base: str
    dialect: Dialect
    upstream: str
    model: str
    statuses: list[int] = field(default_factory=list)
    _turn: Iterator[int] = field(default_factory=itertools.count)

    def ask(
        self,
        text: str | None = None,
        *,
        model: str | None = None,
        streams: bool = False,
        tools: bool = True,
        limit: int | None = None,
        headers: Mapping[str, str] | None = None,
        patience_s: float = PATIENCE_S,
        role: str | None = None,
        mount: str = "",
        **more: Any,
    ) -> int:
        """Make one inference call; its status, 0 where no whole answer came.

        Arguments:
            mount: takes the place of ``/v1`` in its path.
        """
        turn = next(self._turn)
        words = f"Repair the parser. Turn {turn} of {self.id}." if text is None else text
        name = model or self.model
        body = dialects.body(
            self.dialect, name, words, streams=streams, tools=tools, limit=limit, more=more
        )
        target = dialects.path(self.dialect, name, streams=streams)
        target = target.replace("/v1", mount, 1) if mount else target
        return self.send("POST", target, body, headers, patience_s=patience_s, role=role)

    def send(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        patience_s: float = PATIENCE_S,
        role: str | None = None,
        upstream: str | None = None,
    ) -> int:
        """Make any call of the rollout's; its status, 0 where no whole answer came."""
        base, key = self.base, self.key
        if role is not None:
            key = self.roles[role]["key"]
            base = _without_upstream(self.roles[role]["base_urls"]["openai"])
        url = urlsplit(base)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=patience_s)
        shown = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        status = 0
        with contextlib.suppress(OSError, http.client.HTTPException):
            path = f"{url.path}/{upstream or self.upstream}{target}"
            connection.request(method, path, body, {**shown, **(headers or {})})
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        connection.close()
        self.statuses.append(status)
        return status

    def end(self, **reported: object) -> None:
        """Report that it ended with a zero; its references are waited for, for a while."""
        self.house.outcome(self.id, {**ENDED, **reported})

    def verdict(self) -> dict[str, Any]:
        """Its verdict, once that waits for no reference any more or has waited for long."""
        deadline = time.monotonic() + JUDGED_S
        while True:
            verdict = self.house.get(f"/rollouts/{self.id}/verdict")
            waits = verdict["provisional"] or "reference_pending" in verdict["warnings"]
            if not waits or time.monotonic() > deadline:
                return verdict
            time.sleep(0.1)

    def result(self) -> dict[str, Any]:
        return self.house.get(f"/rollouts/{self.id}/result")

    def exchanges(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.house.get(f"/rollouts/{self.id}/exchanges")["items"]
        return items


def _without_upstream(base_url: str) -> str:
    return base_url.rpartition("/openai")[0]


class House:
    """One service of the arena; ``spares`` are providers that can be ended, by upstream."""

    def __init__(self, service: Service, spares: Mapping[str, Provider]) -> None:
        self.service = service
        self.spares = dict(spares)
        self._unused = iter(self.spares)
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self.http = httpx.Client(
            base_url=service.url, timeout=PATIENCE_S, limits=limits,
            headers={"authorization": f"Bearer {TOKEN}"},
        )  # fmt: skip

    def spare(self) -> str:
        """An upstream whose provider nobody else uses."""
        return next(self._unused)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return _checked(self.http.get(path, params=query))

    def outcome(self, rollout: str, reported: Mapping[str, object]) -> dict[str, Any]:
        return _checked(self.http.post(f"/rollouts/{rollout}/outcome", json=dict(reported)))

    def register(self, **asked: object) -> dict[str, Any]:
        return _checked(self.http.post("/rollouts", json=asked))


def _checked(answer: httpx.Response) -> dict[str, Any]:
    assert answer.is_success, f"{answer.request.url}: {answer.status_code} {answer.text}"
    found: dict[str, Any] = answer.json()
    return found


class Arena:
    """Services on one world; whoever asks for a `lane` gets a house, each in its turn.

    ``zeros`` are agents whose zeros counted, to be looked at again at the end.
    """

    def __init__(self, houses: Sequence[House], world: World, provider: Provider):
        self.houses = houses
        self.world = world
        self.provider = provider
        self.zeros: list[Agent] = []
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def apart(self) -> Arena:
        """The same services and world, with ``zeros`` of its own."""
        other = copy.copy(self)
        other.zeros = []
        return other

    def lane(self, name: str = "lane", *, serve: bool = True) -> tuple[House, str]:
        """A house, and a model that nobody else asks for there."""
        with self._lock:
            number = next(self._numbers)
        model = f"{name}-{_letters(number)}"
        if serve:
            self.world.serve(model)
        return self.houses[number % len(self.houses)], model

    def agent(
        self,
        house: House,
        model: str,
        *,
        dialect: Dialect = Dialect.CHAT,
        upstream: str | None = None,
        policy: Mapping[str, object] = UNTRUSTED,
        bound: bool = True,
        beside: Sequence[str] = (),
        **asked: object,
    ) -> Agent:
        """Register a rollout; ``bound``: for its model, those ``beside`` it, and upstream."""
        upstream = upstream or dialect.value
        names = {"model": [model, *beside], "upstream": upstream} if bound else {}
        given = house.register(policy=dict(policy), **{**names, **asked})
        return Agent(
            stage=self, house=house, id=given["id"], key=given["key"], roles=given["roles"],
            base=_without_upstream(given["base_urls"]["openai"]), dialect=dialect,
            upstream=upstream, model=model,
        )  # fmt: skip

    def settle(self) -> None:
        """Return when no question hangs at the provider any more."""
        until(lambda: self.provider.left >= self.world.silences, within_s=SERIES_S)


def _letters(number: int) -> str:
    """A number in letters: of digits some are a date or a size to who reads model names."""
    found = ""
    while True:
        found = chr(ord("a") + number % 26) + found
        number = number // 26
        if not number:
            return found.rjust(3, "a")


@contextlib.contextmanager
def arena(home: Path, *, houses: int, spares: Sequence[str] = ()) -> Iterator[Arena]:
    """Start services on one world, and end them.

    Arguments:
        spares: upstreams of the first house that have a provider of their own, which can be ended.
    """
    world = World()
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(Provider(world))
        talker = stack.enter_context(Talker(_talks))
        apart = {name: stack.enter_context(Provider(world)) for name in spares}
        started = []
        for number in range(houses):
            folder = home / str(number)
            folder.mkdir()
            mine = apart if number == 0 else {}
            service = Service(folder, provider.url, **_settings(provider, talker, mine))
            started.append(House(stack.enter_context(service), mine))
        for house in started:
            stack.callback(house.http.close)
        yield Arena(started, world, provider)


def closing(model: str, code: int) -> str:
    """A message of an agent's that the provider closes on, with this code."""
    return json.dumps({"type": "response.create", "model": model, "input": "b", "close": code})


def _talks(socket: ServerConnection) -> None:
    """Answer each message in the name of the model that it asks for, or close on it."""
    for message in socket:
        asked = json.loads(message)
        if "close" in asked:
            socket.close(asked["close"], "no")
            return
        for part in RESPONSES:
            socket.send(part.replace("gpt-5", asked["model"]))


def _settings(provider: Provider, talker: Talker, spares: Mapping[str, Provider]) -> dict[str, str]:
    settings = {
        **QUICK,
        "UPSTREAM_BEDROCK": provider.url,
        "UPSTREAM_XAI": talker.url,
        "UPSTREAM_GROQ": f"http://127.0.0.1:{closed_port()}",
    }
    for upstream, spare in spares.items():
        settings[f"UPSTREAM_{upstream.upper()}"] = spare.url
    keyed = ("OPENAI", "ANTHROPIC", "GEMINI", "BEDROCK", "XAI", "GROQ", *map(str.upper, spares))
    return settings | {f"KEY_{name}": OPERATOR for name in keyed}
