"""An honest agent and an honest model, both small, who compare the weather of two towns.

The model asks for the weather of one town after the other, again where that failed, and then says
what it heard. The agent runs the tool as it is told, takes an answer without a tool call for the
last, and never hides or repairs anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from classifier.verdicts import plural
from tests.fakes import replies
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Request
from tests.fakes.replies import Finish, Reply, ToolCall

MODEL = "gpt-5"
WEATHER = {"Bergen": "12 °C, rain", "Oslo": "19 °C, sun"}
_TRIES = 6  # of a tool call, until the model gives up
_CALLS = 12  # of an agent, at most
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town at this hour.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "the town's name"}},
            "required": ["city"],
        },
    },
}
_TASK = "Compare the weather of Bergen and Oslo, and say where a walk is the better idea."
_SYSTEM = "You look things up with the tools that you have and never guess. " * 12


def answer(request: Request) -> Answer:
    """Answer as the model does: by what the conversation says already."""
    asked = json.loads(request.body)
    heard = [m["content"] for m in asked["messages"] if m["role"] == "tool"]
    missing = [city for city, weather in WEATHER.items() if weather not in heard]
    turn = len(asked["messages"])
    call: tuple[ToolCall, ...] = ()
    text = "Bergen has 12 °C and rain, Oslo 19 °C and sun: take your walk in Oslo – it’s lovely."
    if missing and len(heard) < _TRIES:
        arguments = json.dumps({"city": missing[0]})
        call = (ToolCall(id=f"call_{turn}", name="weather", arguments=arguments),)
    elif missing:
        text = f"I could not learn the weather of {' and '.join(missing)}: the tool failed – sorry."
    reply = Reply(
        model=MODEL,
        id=str(turn),
        input_tokens=len(request.body) // 4,
        output_tokens=24,
        text=() if call else tuple(text.split(" ")),
        calls=call,
        finish=Finish.CALLS if call else Finish.STOP,
    )
    return replies.answer(Api.CHAT, reply, streams=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the agent received, call by call, and what it said last."""

    choices: tuple[Mapping[str, Any], ...]
    said: str


def run(client: httpx.Client, base_url: str) -> Run:
    """Work on the task until an answer holds no tool call."""
    messages: list[Mapping[str, Any]] = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": _TASK},
    ]
    choices: list[Mapping[str, Any]] = []
    said = ""
    for _ in range(_CALLS):
        body = {"model": MODEL, "messages": messages, "tools": [_TOOL]}
        got = client.post(f"{base_url}/chat/completions", json=body).raise_for_status().json()
        choice = got["choices"][0]
        choices.append(choice)
        message = choice["message"]
        said = message.get("content") or ""
        if not message.get("tool_calls"):
            break
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": each["id"], "content": _used(each["function"])}
            for each in message["tool_calls"]
        ]
    return Run(choices=tuple(choices), said=said)


def _used(function: Mapping[str, str]) -> str:
    try:
        city = json.loads(function["arguments"])["city"]
    except (ValueError, KeyError, TypeError) as error:
        return f"the tool needs a city: {type(error).__name__}"
    return WEATHER.get(city, f"no town is called {city}")


def shown(got: Sequence[Mapping[str, Any]], well: Sequence[Mapping[str, Any]]) -> str:
    """Tell what the wire shows of a run that another one, which went well, does not show."""
    told: dict[str, None] = {}
    for position, choice in enumerate(got):
        other = well[min(position, len(well) - 1)]
        message, whole = choice["message"], other["message"]
        told.update(dict.fromkeys(_differences(choice, message, other, whole)))
    if len(got) != len(well):
        told[f"{plural(len(got), 'call')}, not {len(well)}"] = None
    return ", ".join(told) or "nothing"


def _differences(
    choice: Mapping[str, Any],
    message: Mapping[str, Any],
    other: Mapping[str, Any],
    whole: Mapping[str, Any],
) -> list[str]:
    text, calls = message.get("content") or "", message.get("tool_calls") or []
    found = []
    if not calls and not text:
        found.append("neither text nor tool call")
    elif calls and text:
        found.append("a text beside a tool call")
    elif text and whole.get("tool_calls"):
        found.append("a text in place of a tool call")
    elif text and text != whole.get("content"):
        found.append("another text")
    if calls and whole.get("tool_calls"):
        arguments = calls[0]["function"]["arguments"]
        if arguments != whole["tool_calls"][0]["function"]["arguments"]:
            found.append("other arguments")
    if choice["finish_reason"] not in (other["finish_reason"], "tool_calls", "stop"):
        found.append(f"finish reason {choice['finish_reason']}")
    return found
