"""Count what a prompt takes at a lane, as its provider would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.healthy import tokens
from tests.healthy.conversation import (
    Compacted,
    Document,
    Message,
    Part,
    Picture,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
)
from tests.healthy.lanes import Lane
from tests.proxy.wire.samples import dump

_BY_TILES = ("chat", "responses", "cohere", "ollama")
_PAGE = {"gemini": 258, "interactions": 258, "messages": 1_900, "converse": 1_900, "invoke": 1_900}
# Reasoning is read again inside a loop of tools only, and not everywhere.
_REREAD = ("messages", "converse", "invoke", "responses")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The tokens of one call. ``input`` includes ``cached`` and ``written``."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


class Counter:
    """Count prompts and replies at one lane, and what of a prompt a call before had read."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._messages: dict[Message, int] = {}
        self._read: dict[str, list[Prompt]] = {}

    def prompt(self, prompt: Prompt) -> int:
        head = self._head(prompt.system, prompt.tools)
        return head + prompt.stored + self._of(prompt.messages)

    def known(self, model: str, prompt: Prompt) -> int:
        """Tokens that a prompt begins with and that the last prompts began with; notes it."""
        earlier = self._read.setdefault(model, [])
        best = max((self._shared(prompt, one) for one in earlier[-4:]), default=0)
        earlier.append(prompt)
        return min(best, self.prompt(prompt) - 1)

    def text(self, text: str) -> int:
        return round(tokens.count(text) * self._lane.weights.factor)

    def uses(self, uses: Sequence[ToolUse]) -> int:
        return sum(self._part(use) for use in uses)

    def _shared(self, prompt: Prompt, earlier: Prompt) -> int:
        if (prompt.system, prompt.tools) != (earlier.system, earlier.tools):
            return 0
        same = 0
        for one, other in zip(prompt.messages, earlier.messages, strict=False):
            if one is not other:
                break
            same += 1
        return self._head(prompt.system, prompt.tools) + self._of(prompt.messages[:same])

    def _head(self, system: str, tools: tuple[Tool, ...]) -> int:
        lane = self._lane
        total = lane.weights.base + (self.text(system) + lane.weights.overhead if system else 0)
        if tools:
            total += lane.weights.tool_base + round(
                _tools(tools) * lane.weights.factor * lane.weights.tool_factor
            )
        return total

    def _of(self, messages: Sequence[Message]) -> int:
        asked = max(
            (i for i, one in enumerate(messages) if one.role == "user" and one.of(Text)), default=0
        )
        total = sum(self._message(one) for one in messages)
        if self._lane.dialect in _REREAD:
            total += sum(t.size for one in messages[asked:] for t in one.of(Thinking))
        return total

    def _message(self, message: Message) -> int:
        size = self._messages.get(message)
        if size is None:
            size = self._lane.weights.overhead + sum(self._part(part) for part in message.parts)
            self._messages[message] = size
        return size

    def _part(self, part: Part) -> int:
        match part:
            case Text():
                return self.text(part.text)
            case ToolUse():
                return 12 + self.text(part.name + dump(part.arguments).decode())
            case ToolResult():
                seen = 0 if part.picture is None else self._part(part.picture)
                return 8 + self.text(part.text) + seen
            case Picture():
                return self._picture(part)
            case Document():
                return part.pages * _PAGE.get(self._lane.dialect, 1_100)
            case Compacted():
                return part.size
            case Thinking():
                return 0

    def _picture(self, part: Picture) -> int:
        if self._lane.dialect in _BY_TILES:
            return 85 + 170 * -(-part.width // 512) * -(-part.height // 512)
        if self._lane.dialect in ("gemini", "interactions"):
            return 258 * -(-part.width // 768) * -(-part.height // 768)
        return part.width * part.height // 750


_SIZES: dict[tuple[Tool, ...], int] = {}


def _tools(tools: tuple[Tool, ...]) -> int:
    if tools not in _SIZES:
        _SIZES[tools] = sum(
            tokens.count(t.name + t.description + dump(t.parameters).decode()) for t in tools
        )
    return _SIZES[tools]
