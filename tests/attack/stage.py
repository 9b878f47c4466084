"""The service that is attacked: an admin token, the operator's keys, and faked providers.

An attacker is given what an agent has: the address, its own rollout's key and secret.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.arena.arena import ENDED, PATIENCE_S, QUICK, TOKEN
from tests.arena.world import OPERATOR
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request, closed_port
from tests.fakes.talker import Talker
from tests.journeys.service import Service
from tests.proxy.relay.test_smuggling import StrictProvider
from tests.waiting import until

SILENT_S = 0.4  # for which an attacker waits until a provider seems silent
BOGUS = "sk-the-agents-own"
CHAT = b'{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came back until the service closed the connection; status 0: nothing did."""

    status: int
    head: str
    body: bytes

    @property
    def refusal(self) -> str | None:
        """The code under which this proxy refused the call; None where it did not."""
        found = re.search(r"^x-truezero-refusal: (\S+)\r?$", self.head, re.MULTILINE)
        return found[1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A registered rollout as its agent knows it; ``path`` proves it, ``roles`` are its judges'."""

    id: str
    key: str
    path: str
    roles: Mapping[str, Any] = field(default_factory=dict)


class Stage:
    """A service and its providers; each attack takes rollouts of its own.

    ``provider`` is openai, anthropic and gemini, whose keys the operator has, together, which
    takes an agent's own, and sglang and gpu-7, engines that ask for none; ``strict`` is mistral,
    which takes an agent's own too and keeps every byte. xai echoes what comes by WebSockets, groq
    is down.
    """

    def __init__(
        self, service: Service, provider: Provider, strict: StrictProvider, talker: Talker
    ) -> None:
        self.service = service
        self.provider = provider
        self.strict = strict
        self.talker = talker
        self._numbers = itertools.count(1)
        port = service.url.rpartition(":")[2]
        self._address = ("127.0.0.1", int(port))

    def reset(self) -> None:
        """Have the providers be well again, and forget what they were asked."""
        self.provider.plays(answers.healthy)
        self.provider.requests.clear()
        self.strict.heard()

    # --- the operator ----------------------------------------------------------------------

    def rollout(self, **asked: object) -> Rollout:
        """Register a new rollout."""
        answer = self.service.register(id=f"attack-{next(self._numbers)}", **asked)
        path = answer["base_urls"]["openai"].removeprefix(self.service.url).split("/openai")[0]
        return Rollout(id=answer["id"], key=answer["key"], path=path, roles=answer["roles"])

    def exchanges(self, rollout: Rollout) -> list[dict[str, Any]]:
        """What was recorded of it."""
        return self.service.exchanges(rollout.id)

    def judged(self, rollout: Rollout, **reported: object) -> dict[str, Any]:
        """Report its end, and return its verdict."""
        self.service.outcome(rollout.id, **{**ENDED, **reported})
        return self.service.verdict(rollout.id)

    def memory(self) -> int:
        """The most memory that the service has held, in bytes."""
        status = Path(f"/proc/{self.service.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024

    def wait_until_ended(self, rollout: Rollout, *, calls: int) -> None:
        """Return once so many calls were recorded, and all have ended."""

        def ended() -> bool:
            found = self.exchanges(rollout)
            return len(found) == calls and all(each["ending"] for each in found)

        until(ended)

    # --- the attacker ----------------------------------------------------------------------

    @contextlib.contextmanager
    def connection(self, source: str = "127.0.0.1") -> Iterator[socket.socket]:
        """Connect, from this address of the loopback network."""
        with socket.create_connection(self._address, PATIENCE_S, (source, 0)) as connection:
            yield connection

    def send(self, wire: bytes, source: str = "127.0.0.1") -> Response:
        """Write bytes and read until the service closes."""
        with self.connection(source) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(wire)
            return received(connection)

    def head(self, rollout: Rollout, *headers: str, upstream: str = "openai") -> bytes:
        """Write the head of a chat completion, without its body."""
        path = f"{rollout.path}/{upstream}/v1/chat/completions"
        return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()

    def call(
        self,
        path: str,
        *headers: str,
        method: str = "POST",
        body: bytes = CHAT,
        host: str = "truezero",
        source: str = "127.0.0.1",
    ) -> Response:
        """Make one call, every byte of its head as given."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers]
        if method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}")
        else:
            body = b""
        return self.send("\r\n".join([*lines, "", ""]).encode("utf-8") + body, source)

    def chat(self, rollout: Rollout, *headers: str, query: str = "", **more: Any) -> Response:
        """Make one chat completion of a rollout."""
        return self.call(f"{rollout.path}/openai/v1/chat/completions{query}", *headers, **more)


def received(connection: socket.socket) -> Response:
    """Read a response until its connection is closed."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    status = int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0
    return Response(status=status, head=head.decode("latin-1"), body=body)


@contextlib.contextmanager
def staged(home: Path) -> Iterator[Stage]:
    """Start the service that is attacked, and end it."""
    with Provider() as provider, StrictProvider() as strict, Talker() as talker:
        settings = {
            **QUICK,
            "KEY_OPENAI": OPERATOR,
            "KEY_ANTHROPIC": OPERATOR,
            "KEY_GEMINI": OPERATOR,
            "UPSTREAM_MISTRAL": strict.url,
            "UPSTREAM_TOGETHER": provider.url,
            "UPSTREAM_SGLANG": provider.url,
            "UPSTREAM_GPU_7": provider.url,
            "UPSTREAM_XAI": talker.url,
            "UPSTREAM_GROQ": f"http://127.0.0.1:{closed_port()}",
            "HEAD_TIMEOUT_S": "2",
            "BODY_TIMEOUT_S": "3",
        }
        with Service(home, provider.url, **settings) as service:
            service.http.headers["authorization"] = f"Bearer {TOKEN}"
            yield Stage(service, provider, strict, talker)


def only_operators(request: Request) -> Answer:
    """Answer as a provider that knows one key, and refuses a request with any other in it."""
    shown = [value for _, value in request.headers if BOGUS in value]
    if shown or BOGUS in request.target or request.header("authorization") != f"Bearer {OPERATOR}":
        return answers.whole({"error": {"message": "Incorrect API key provided"}}, 401)
    return answers.healthy(request)


def names(requests: Sequence[Request]) -> set[str]:
    """The header names of some requests, in lower case."""
    return {name.lower() for request in requests for name, _ in request.headers}


def chat_claiming(tokens: object) -> Answer:
    """Answer a chat completion that claims so many tokens, as JSON writes it."""
    answer = json.loads(answers.chat().content)
    answer["usage"] = {"prompt_tokens": "N", "completion_tokens": "N", "total_tokens": "N"}
    text = json.dumps(answer).replace('"N"', str(tokens))
    return Answer(body=(text.encode(),))
