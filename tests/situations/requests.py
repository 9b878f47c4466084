"""What an agent sends in each dialect, by the writers of healthy traffic (``tests/healthy``).

A dialect is named as theirs; no prompt in it is anybody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import NamedTuple

from tests.fakes.answers import Api
from tests.fakes.replies import ToolCall
from tests.healthy import conversation
from tests.healthy.agent import schema
from tests.healthy.calling import WRITERS
from tests.healthy.conversation import Message, Prompt, Reply, Text, Tool, ToolUse
from tests.healthy.counting import Counts
from tests.healthy.lanes import Lane, Name
from tests.healthy.traffic import Json
from tests.healthy.writing import Told, Written
from tests.proxy.wire.samples import dump


class Wire(NamedTuple):
    """Who speaks a dialect, and its models: usual, small, and one that nobody asks for."""

    api: Api
    upstream: str
    model: str
    small: str
    other: str


WIRES: Mapping[str, Wire] = {
    "chat": Wire(Api.CHAT, "openai", "gpt-5", "gpt-5-mini", "gpt-4.1-nano"),
    "responses": Wire(Api.RESPONSES, "openai", "gpt-5", "gpt-5-mini", "gpt-4.1-nano"),
    "messages": Wire(Api.MESSAGES, "anthropic", "claude-sonnet-5", "claude-haiku-4-5",
                     "claude-haiku-4-5"),
    "gemini": Wire(Api.GEMINI, "gemini", "gemini-3-pro", "gemini-3-flash", "gemini-2.5-flash"),
    "interactions": Wire(Api.INTERACTIONS, "gemini", "gemini-3-pro", "gemini-3-flash",
                         "gemini-2.5-flash"),
}  # fmt: skip
NAMES: Mapping[Api, str] = {wire.api: name for name, wire in WIRES.items()}
_SESSION = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
_BASES = {"gemini": "/v1beta/models", "converse": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, in no dialect; ``limit`` is the most output tokens, None where none is set."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    limit: int | None = None


def user(text: str) -> Message:
    """What a person, or the harness in their place, says."""
    return Message(role="user", parts=(Text(text=text),))


def assistant(text: str = "", calls: tuple[ToolCall, ...] = ()) -> Message:
    """What the model said before, as the agent sends it back."""
    uses = (ToolUse(id=call.id, name=call.name, arguments=call.parsed) for call in calls)
    return Reply(text=text, uses=tuple(uses)).message()


def result(call: ToolCall, text: str) -> Message:
    """What a tool returned to one call."""
    part = conversation.ToolResult(id=call.id, name=call.name, text=text)
    return Message(role="user", parts=(part,))


def tool(name: str, description: str, parameters: Mapping[str, str]) -> Tool:
    """A tool that is offered; ``parameters`` are strings, by name their description."""
    return Tool(name=name, description=description, parameters=schema(**parameters))


@cache
def target(dialect: str, model: str, *, streams: bool) -> str:
    """Where a request goes, with its query."""
    written = _written(dialect, Ask(model=model, system="", messages=(user("Go."),)), streams)
    return f"{written.path}?{written.query}" if written.query else written.path


def body(dialect: str, ask: Ask, *, streams: bool) -> bytes:
    """The request's body."""
    return dump(payload(dialect, ask, streams=streams))


def payload(dialect: str, ask: Ask, *, streams: bool) -> Json:
    """The same, before it is written."""
    return _written(dialect, ask, streams).body


def _written(dialect: str, ask: Ask, streams: bool) -> Written:
    name = Name(asked=ask.model, answered=ask.model)
    lane = Lane(key=dialect, dialect=dialect, upstream="", main=name,
                base_path=_BASES.get(dialect, "/v1"), reasons=dialect == "chat")  # fmt: skip
    told = Told(rng=Random(0), lane=lane, name=name, counts=Counts(input=0, output=0),
                created=0, session=_SESSION)  # fmt: skip
    prompt = Prompt(system=ask.system, tools=ask.tools, messages=ask.messages)
    asked = conversation.Ask(prompt=prompt, reply=Reply(), streamed=streams, max_tokens=ask.limit)
    return WRITERS[dialect](asked, told)
