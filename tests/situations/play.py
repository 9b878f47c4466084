"""Play a situation: in process, observed as the relay observes, or over HTTP against a proxy.

record = played(situation, Api.CHAT, streamed=True)
perform(situation, Api.CHAT, streamed=True, base_url=f"{proxy}/r/r1/openai", provider=provider)
"""

from __future__ import annotations

import ssl
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import httpx

from classifier.records import (
    ExecutionStatus,
    Outcome,
    RolloutRecord,
    TerminationReason,
)
from tests.fakes import replies
from tests.fakes.answers import FAILURES, Api, Fault
from tests.fakes.provider import Answer, Pause, Provider, Script
from tests.fakes.replies import Reply
from tests.healthy.conversation import Message
from tests.healthy.driving import driven
from tests.healthy.traffic import HealthyCall, HealthyRollout
from tests.situations import requests
from tests.situations.requests import NAMES, WIRES, Ask
from tests.situations.table import OTHER, Situation, Turn

STARTED = 1_790_000_000.0
PATIENCE_S = 300.0
_BYTES_PER_TOKEN = 4  # of English text and JSON, about
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_BETWEEN_S = 0.05  # two chunks
_AGENT_S = 1.0  # the agent's own time between two calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """One call in its dialect: what goes out, what comes back, and what that means.

    ``reply``: as it is answered, model and input tokens filled in; None where the call fails.
    """

    turn: Turn
    target: str
    body: bytes
    answer: Answer
    reply: Reply | None


def script(situation: Situation, api: Api, *, streamed: bool) -> list[ScriptedCall]:
    """The calls of a situation in one dialect."""
    histories: dict[int, tuple[Message, ...]] = defaultdict(tuple)
    calls = []
    for number, turn in enumerate(situation.turns):
        histories[turn.run] += turn.adds
        ask = Ask(
            model=WIRES[NAMES[api]].model,
            system=turn.system,
            messages=histories[turn.run],
            tools=turn.tools,
            limit=turn.limit,
        )
        body = requests.body(NAMES[api], ask, streams=streamed)
        reply, answer = _answered(turn, api, number, len(body), streamed=streamed)
        target = requests.target(NAMES[api], ask.model, streams=streamed)
        calls.append(ScriptedCall(turn=turn, target=target, body=body, answer=answer, reply=reply))
    return calls


def _answered(
    turn: Turn, api: Api, number: int, size: int, *, streamed: bool
) -> tuple[Reply | None, Answer]:
    if isinstance(turn.reply, Fault):
        return None, FAILURES[api][turn.reply]
    read, wire = size // _BYTES_PER_TOKEN, WIRES[NAMES[api]]
    reply = replace(
        turn.reply,
        id=f"{number + 1}",
        model=wire.other if turn.reply.model == OTHER else wire.model,
        input_tokens=read if turn.window is None else min(read, turn.window),
    )
    return reply, replies.answer(api, reply, streams=streamed)


# --- in process ----------------------------------------------------------------------------


def played(situation: Situation, api: Api, streamed: bool) -> RolloutRecord:
    """Play a situation through the observer, its clock turned by hand."""
    wire, now, calls = WIRES[NAMES[api]], 0.0, []
    for call in script(situation, api, streamed=streamed):
        path, _, query = call.target.partition("?")
        chunks = tuple(step for step in call.answer.body if isinstance(step, bytes))
        first = now + call.turn.wait_s
        end = first + _BETWEEN_S * len(chunks)
        made = HealthyCall(
            upstream=wire.upstream, path=path, query=query, body=call.body,
            request_headers=(("content-type", "application/json"),), status=call.answer.status,
            response_headers=tuple((name.lower(), value) for name, value in call.answer.headers),
            chunks=chunks, start_s=now, first_byte_s=first, end_s=end, role=call.turn.role,
            address=call.turn.address,
        )  # fmt: skip
        calls.append(made)
        now = end + _AGENT_S
    return driven(
        HealthyRollout(
            id="r1", batch="b1", task="repair", attempt=1, model=wire.model, upstream=wire.upstream,
            lane=api, situation=situation.name, traits=frozenset(), began=STARTED,
            calls=tuple(calls), outcome=outcome(situation),
        )
    )  # fmt: skip


def outcome(situation: Situation) -> Outcome:
    """What the runner reports, as the classifier reads it."""
    said = dict(situation.outcome)
    why = said.pop("termination_reason", None)
    return Outcome(
        status=ExecutionStatus(said.pop("status")),
        termination_reason=None if why is None else TerminationReason(why),
        **said,
    )


# --- over HTTP -----------------------------------------------------------------------------


def perform(
    situation: Situation,
    api: Api,
    streamed: bool,
    *,
    base_url: str,
    provider: Provider,
    pace: float = 0.001,
) -> list[httpx.Response]:
    """Play a situation as its agents would, one call after the other; what they were answered.

    The outcome is not reported: ``situation.outcome`` is the body to post.

    Arguments:
        base_url: of the rollout and upstream, ``{proxy}/r/{rollout}/{upstream}``; the judge's
            is ``{proxy}/r/{rollout}/as/judge/{upstream}``.
        provider: what the proxy calls; it plays nothing else meanwhile.
        pace: seconds that the provider waits for each second of the situation.
    """
    calls = script(situation, api, streamed=streamed)
    provider.plays(*(_waiting(call, pace) for call in calls))
    with ExitStack() as opened:
        clients = {
            address: opened.enter_context(_client(address))
            for address in {call.turn.address for call in calls}
        }
        return [
            clients[call.turn.address].post(
                _base(base_url, call.turn.role) + call.target, content=call.body
            )
            for call in calls
        ]


def judged(
    situation: Situation, api: Api, streamed: bool, *, service: httpx.Client, provider: Provider
) -> dict[str, Any]:
    """Play a situation against a service, as a runner does; its verdict, as REST gives it.

    Arguments:
        service: asks the control plane; the upstreams of the service are ``provider``.
    """
    registered = (
        service.post("/rollouts", json={"model": WIRES[NAMES[api]].model}).raise_for_status().json()
    )
    base_url = registered["base_urls"][WIRES[NAMES[api]].upstream].removesuffix("/v1")
    perform(situation, api, streamed, base_url=base_url, provider=provider)
    rollout = f"/rollouts/{registered['id']}"
    service.post(f"{rollout}/outcome", json=situation.outcome).raise_for_status()
    verdict: dict[str, Any] = service.get(f"{rollout}/verdict").raise_for_status().json()
    return verdict


def _waiting(call: ScriptedCall, pace: float) -> Script:
    return (Pause(call.turn.wait_s * pace), *call.answer.steps("POST"))


def _client(address: str) -> httpx.Client:
    """A client whose connections come from this address of the loopback network."""
    return httpx.Client(
        transport=httpx.HTTPTransport(local_address=address, verify=_NO_TLS),
        timeout=PATIENCE_S,
        headers={"content-type": "application/json", "authorization": "Bearer sk-situation"},
    )


def _base(base_url: str, role: str) -> str:
    rollout, _, upstream = base_url.rpartition("/")
    return base_url if role == "agent" else f"{rollout}/as/{role}/{upstream}"
