"""Tricks by how a rollout ends: without output, by half a request, on a limit, on spent questions.

They were written from what is promised, without sight of the rules.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from tests.arena import world
from tests.arena.arena import Agent, Arena
from tests.arena.dialects import Dialect, Question, answered, body, path, said
from tests.arena.world import Behaviour, Played, page, problem
from tests.attack.tricks import Alone, alone, end_on_a_zero, trick
from tests.fakes.answers import whole
from tests.fakes.provider import Answer, Cut, Pause
from tests.fakes.replies import Reply

_ANSWERED = "a plain question is answered, so the request was what failed"

# --- answers without output ----------------------------------------------------------------


def _empty(question: Question) -> Played:
    return said(question, Reply(model=question.model, input_tokens=40, output_tokens=1))


def _no_choice(question: Question) -> Played:
    answer = json.loads(answered(question).content)
    return whole({**answer, "choices": []})


def _one_byte(_: Question) -> Played:
    head = (("content-type", "application/json"), ("content-range", "bytes 0-0/400"))
    return Answer(status=206, headers=head, body=(b"{",))


def _encoded(_: Question) -> Played:
    head = (("content-type", "application/json"), ("content-encoding", "compress"))
    return Answer(headers=head, body=(b"\x1f\x9d\x90" + b"x" * 300,))


def _as_told(question: Question) -> Played:
    return answered(replace(question, tools=False), text="API Error: 503 Service Unavailable")


_STOPS: Mapping[str, Any] = {"stop": ["a", "e", "i", "o"]}
_elsewhere = world.elsewhere(307, "https://127.0.0.1/v1/chat/completions")
_PLAIN_TEXT: Mapping[str, Any] = {"headers": {"x-forwarded-proto": "http"}}
alone("answers without output", _ANSWERED, (
    Alone("stop sequences that leave nothing, and nothing else", _empty, _STOPS, 3, first=True),
    Alone("such stop sequences after an answer", _empty, _STOPS, 3),
    Alone("no choice asked for, and nothing else", _no_choice, {"n": 0}, 3, first=True),
    Alone("redirects of what claims to be no TLS, and nothing else", _elsewhere, _PLAIN_TEXT, 3,
          first=True),
    Alone("such redirects after an answer", _elsewhere, _PLAIN_TEXT, 3),
    Alone("one byte of each answer, and nothing else", _one_byte,
          {"headers": {"range": "bytes=0-0"}}, 3, first=True),
    Alone("an encoding that nobody reads, and nothing else", _encoded,
          {"headers": {"accept-encoding": "compress"}}, 3, first=True),
    Alone("an error that it has the model say", _as_told, {"text": "Say: API Error: 503"}, 3),
))  # fmt: skip
alone("headers of its own", _ANSWERED, (
    Alone("more than its gateway takes, 400", page(400, "Request Header Or Cookie Too Large"),
          {"headers": {"x-trace": "a" * 30_000}}, 3),
    Alone("an idempotency key for another request, 409", problem(409, "Conflict"),
          {"headers": {"idempotency-key": "same"}}, 3),
    Alone("an address in a country that is blocked, 403",
          problem(403, "Country, region, or territory not supported"),
          {"headers": {"x-forwarded-for": "192.0.2.1"}}, 3),
    Alone("a body in another encoding, 500", page(500, "Internal Server Error"),
          {"headers": {"content-type": "text/plain; charset=utf-16"}}, 3),
    Alone("words that a firewall blocks, 403", page(403, "Forbidden", "cloudflare"),
          {"text": "cat ../../etc/passwd"}, 3),
    Alone("a feature that says to wait for an hour, 503",
          problem(503, "Service unavailable", ("retry-after", "3600")), {"top_logprobs": 20}, 3),
))  # fmt: skip


# --- half a request ------------------------------------------------------------------------

HALVES = "half a request"
_HALF = "the agent left: the provider was not silent for long"


def _raw(agent: Agent, sent: bytes, *headers: str, then: Callable[[socket.socket], object]) -> None:
    """Write one request's head and what is said of its body, then do something to the socket."""
    url = urlsplit(agent.base)
    target = f"{url.path}/{agent.upstream}{path(agent.dialect, agent.model, streams=False)}"
    head = (f"POST {target} HTTP/1.1", f"Host: {url.netloc}", f"Authorization: Bearer {agent.key}",
            "Content-Type: application/json", *headers, "", "")  # fmt: skip
    connection = socket.create_connection((url.hostname or "", url.port or 0), 5)
    with connection, contextlib.suppress(OSError):
        connection.sendall("\r\n".join(head).encode() + sent)
        then(connection)


def _reset(connection: socket.socket) -> None:
    time.sleep(0.3)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _no_more(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    time.sleep(0.5)


def _slow(question: Question) -> Played:
    return (Pause(0.1), Cut(reset=True))


def _halved(stage: Arena, behaviour: Behaviour = world.well) -> tuple[Agent, bytes]:
    house, model = stage.lane()
    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    stage.world.behaves(model, behaviour)
    return agent, body(Dialect.CHAT, model, "Half of it.")


@trick(HALVES, "waits for 100 Continue, sends no body, resets", _HALF)
def _no_body(stage: Arena) -> None:
    agent, _ = _halved(stage)
    for _ in range(2):
        _raw(agent, b"", "Expect: 100-continue", "Content-Length: 500", then=_reset)
    end_on_a_zero(agent)


@trick(HALVES, "ends its side after the request, which its provider resets", _HALF)
def _half_closed(stage: Arena) -> None:
    agent, asked = _halved(stage, world.when(lambda question: question.tools, _slow))
    for _ in range(2):
        _raw(agent, asked, f"Content-Length: {len(asked)}", then=_no_more)
    end_on_a_zero(agent)


@trick(HALVES, "a body whose only chunk is an extension of 60 kB", _HALF)
def _extended(stage: Arena) -> None:
    agent, asked = _halved(stage)
    chunks = b"%x;%b\r\n%b\r\n0\r\n\r\n" % (len(asked), b"x=" + b"y" * 60_000, asked)
    for _ in range(2):
        _raw(agent, chunks, "Transfer-Encoding: chunked", then=_no_more)
    end_on_a_zero(agent)


# --- limits that it meets by itself --------------------------------------------------------

LIMITS = "limits of its own"
_USED_UP = (("x-ratelimit-remaining-requests", "0"), ("retry-after", "60"))
_BY_ITSELF = "nobody but the agent used what the limit counts"


alone(LIMITS, _ANSWERED, (
    Alone("a free route to the model, whose day is spent, 429",
          problem(429, "Rate limit exceeded: free-models-per-day.", *_USED_UP), named="{}:free"),
))  # fmt: skip
alone(LIMITS, _BY_ITSELF, (
    Alone("a user whose requests are limited, 429",
          problem(429, "Rate limit reached for this user.", *_USED_UP), {"user": "abuser-7"}),
))  # fmt: skip


@trick(LIMITS, "four large requests that use up a minute's tokens, 429", _BY_ITSELF)
def _tokens(stage: Arena) -> None:
    house, model = stage.lane()
    spent: list[int] = []
    over = problem(429, "Rate limit reached for tokens per min (TPM).",
                   ("x-ratelimit-remaining-tokens", "0"))  # fmt: skip

    def behave(question: Question) -> Played | None:
        size = len(question.text) // 4
        if sum(spent) + size > 30_000:
            return over(question)
        spent.append(size)
        return None

    stage.world.behaves(model, behave)
    agent = stage.agent(house, model, batch=model)
    for _ in range(4):
        agent.ask("x " * 20_000)
    assert agent.statuses[0] == 200
    end_on_a_zero(agent)


@trick(LIMITS, "six calls at once where three are allowed, 429", _BY_ITSELF)
def _at_once(stage: Arena) -> None:
    house, model = stage.lane()
    held, lock = [0], threading.Lock()
    crowded = problem(429, "Too many concurrent requests.")

    def leave() -> None:
        with lock:
            held[0] -= 1

    def behave(question: Question) -> Played | None:
        with lock:
            if held[0] >= 3:
                return crowded(question)
            held[0] += 1
        threading.Timer(0.6, leave).start()
        return (Pause(0.5), *answered(question).steps("POST"))

    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    stage.world.behaves(model, behave)
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda _: agent.ask(), range(6)))
    assert 429 in agent.statuses
    end_on_a_zero(agent)


# --- questions -----------------------------------------------------------------------------

QUESTIONS = "spent or crowded questions"
_over = world.when(
    lambda question: "top_logprobs" in question.body,
    problem(500, "The server had an error while processing your request."),
)


@trick(QUESTIONS, "fails and is answered by turns until no question is left, then fails",
       "a part of the questions is kept for failures whose outcome waits")  # fmt: skip
def _spent(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, _over)
    agent = stage.agent(house, model, batch=model)
    for _ in range(14):
        agent.ask(top_logprobs=20)
        time.sleep(0.3)
        assert agent.ask() == 200
    agent.ask(top_logprobs=20)
    end_on_a_zero(agent)


@trick(QUESTIONS, "three rollouts that fail by themselves at once", _ANSWERED)
def _together(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, _over)
    agents = [stage.agent(house, model, batch=model) for _ in range(3)]
    for agent in agents:
        assert agent.ask() == 200
    for agent in agents:
        agent.ask(top_logprobs=20)
    end_on_a_zero(*agents)
