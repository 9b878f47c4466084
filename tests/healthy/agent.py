"""An agent that holds a conversation: what it offers, asks and is answered, call by call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.healthy import texts, tokens
from tests.healthy.conversation import (
    Ask,
    Message,
    Part,
    Prompt,
    Reply,
    Text,
    Thinking,
    Tool,
    ToolResult,
    ToolUse,
)
from tests.healthy.lanes import Lane
from tests.healthy.traffic import Json
from tests.healthy.writing import ident

SYSTEMS = (
    (
        "You are a careful software engineer. Work in small steps, read before you write, and run "
        "the tests after each change. Never edit files outside the repository."
    ),
    (
        "You are a helpful assistant that solves tasks with the tools it is given. Think about "
        "what is asked, call one tool at a time unless the calls are independent, and finish with "
        "a short summary of what you did and what is left to be done."
    ),
    (
        "You answer questions about a customer's orders. Follow the policy below to the letter, "
        "ask for confirmation before you change anything, and transfer to a person if you cannot "
        "help."
    ),
)
_EXPLORER = "You explore a repository for another agent. Report file paths and line numbers only."


def schema(**properties: str) -> Json:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": what}
                       for name, what in properties.items()},
        "required": [next(iter(properties))],
    }  # fmt: skip


TOOLS: tuple[Tool, ...] = (
    Tool(name="bash", description="Run a command in the container and return what it prints.",
         parameters=schema(command="the command line", timeout="seconds, 120 by default")),
    Tool(name="read_file", description="Read a file, with line numbers.",
         parameters=schema(path="from the repository's root", first="line", last="line")),
    Tool(name="edit_file", description="Replace a passage that occurs exactly once in a file.",
         parameters=schema(path="from the root", old="the passage", new="what replaces it")),
    Tool(name="search", description="Search the repository with a regular expression.",
         parameters=schema(pattern="the expression", glob="which files")),
    Tool(name="submit", description="Hand in the work; nothing can be changed afterwards.",
         parameters=schema(summary="what was done")),
)  # fmt: skip
EXPLORING = TOOLS[1:2] + TOOLS[3:4]


def many_tools(count: int) -> tuple[Tool, ...]:
    """As many tools as coding agents bring, each with a page of advice."""
    rng = Random(count)
    return tuple(
        Tool(name=f"{texts.name(rng)}_{i}", description=texts.prose(rng, 18),
             parameters=schema(path=texts.sentence(rng), query=texts.sentence(rng),
                                mode=texts.sentence(rng)))
        for i in range(count)
    )  # fmt: skip


class Agent:
    """One agent's conversation; the calls that it makes are in ``asks``.

    Arguments:
        task: seeds what the task says, so that its repeats begin alike.
        options: of every call: ``streamed``, ``max_tokens``, ``temperature``.
    """

    def __init__(
        self,
        rng: Random,
        lane: Lane,
        *,
        task: str = "",
        system: str = "",
        tools: tuple[Tool, ...] = TOOLS,
        **options: Any,
    ) -> None:
        self.rng = rng
        self.lane = lane
        told = Random(task) if task else rng
        self.system = system or told.choice(SYSTEMS)
        self.task = texts.prose(told, told.randrange(2, 9))
        self.tools = tools
        self.messages: tuple[Message, ...] = ()
        self.asks: list[Ask] = []
        self.stored = 0
        self._options = options
        self._prefix = "toolu_01" if lane.dialect in ("messages", "invoke") else "call_"

    def user(self, *parts: Part | str) -> None:
        said = (Text(text=part) if isinstance(part, str) else part for part in parts)
        self.messages += (Message(role="user", parts=tuple(said)),)

    def ask(self, reply: Reply, **options: Any) -> Ask:
        """Ask what stands in the conversation; the reply joins it."""
        if self.lane.main.flags.get("think_tags") and reply.text:
            reply = replace(reply, text=self._aloud() + reply.text)
        prompt = Prompt(
            system=self.system, tools=self.tools, messages=self.messages, stored=self.stored
        )
        chosen = {"gap_s": self.rng.uniform(0.05, 4.0)} | self._options | options
        ask = Ask(prompt=prompt, reply=reply, **chosen)
        self.asks.append(ask)
        if reply.text or reply.uses or reply.thinking:
            self.messages += (reply.message(),)
        return ask

    def step(
        self,
        result: Callable[[Random], str] | None = None,
        *,
        uses: int = 1,
        text: str | None = None,
        **options: Any,
    ) -> None:
        """Ask, be answered with calls of tools, and put their results."""
        calls = tuple(self._use() for _ in range(uses))
        said = self.rng.choice(("", texts.sentence(self.rng))) if text is None else text
        self.ask(Reply(text=said, thinking=self.thinking(), uses=calls, finish="tools"), **options)
        make = result or _result
        self.user(*(ToolResult(id=c.id, name=c.name, text=make(self.rng)) for c in calls))

    def submit(self) -> None:
        """Ask, and be answered with the call that hands the work in; nothing follows."""
        arguments: Json = {"summary": texts.sentence(self.rng)}
        use = ToolUse(id=ident(self.rng, self._prefix, 22), name="submit", arguments=arguments)
        self.ask(Reply(thinking=self.thinking(), uses=(use,), finish="tools"))

    def answer(self, text: str | None = None, **options: Any) -> None:
        """Ask, and be answered with text."""
        said = texts.prose(self.rng, self.rng.randrange(1, 5)) if text is None else text
        self.ask(Reply(text=said, thinking=self.thinking()), **options)

    def thinking(self, size: int | None = None) -> Thinking | None:
        """Reasoning as the lane shows it, or none; ``size`` in tokens."""
        lane, rng = self.lane, self.rng
        if not lane.reasons or (size is None and rng.random() < 0.3):
            return None
        size = size or rng.choice((24, 60, 128, 192, 320, 448, 700))
        shown = texts.prose(rng, max(1, size // 20))
        if lane.dialect in ("chat", "ollama") and lane.upstream not in ("openai", "azure", "xai"):
            size = round(tokens.count(shown) * lane.weights.factor)  # all of it is shown
        elif rng.random() < 0.4:
            shown = texts.prose(rng, max(1, size // 90))  # a summary
        elif lane.dialect in ("responses", "gemini", "interactions") and rng.random() < 0.5:
            shown = ""
        sealed = texts.base64_text(rng, 160 + 2 * size)
        return Thinking(shown=shown, sealed=sealed, size=size)

    def begin_again(self, *parts: Part | str) -> None:
        """Drop the conversation and begin another."""
        self.messages = ()
        self.user(*parts)

    def explorer(self, **options: Any) -> Agent:
        """Another agent at the same lane, with other words and fewer tools."""
        chosen = self._options | options
        return Agent(self.rng, self.lane, system=_EXPLORER, tools=EXPLORING, **chosen)

    def forget(self, keep: int) -> None:
        """Replace the results of tools but the last ``keep`` by a note, as many agents do."""
        last = [i for i, m in enumerate(self.messages) if m.of(ToolResult)][:-keep]
        self.messages = tuple(
            _masked(one) if i in last else one for i, one in enumerate(self.messages)
        )

    def _aloud(self) -> str:
        """Reasoning as servers without a parser for it leave it in the text."""
        opening = self.rng.choice(("<think>\n", ""))  # some templates hold the tag already
        return f"{opening}{texts.prose(self.rng, self.rng.randrange(2, 20))}\n</think>\n\n"

    def _use(self) -> ToolUse:
        rng = self.rng
        tool = rng.choice([one for one in self.tools if one.name != "submit"])
        arguments: Json = {
            key: texts.path(rng) if key == "path" else f"{texts.name(rng)} {rng.randrange(99)}"
            for key in list(tool.parameters["properties"])[: rng.randrange(1, 4)]
        }
        return ToolUse(id=ident(rng, self._prefix, 22), name=tool.name, arguments=arguments)


def _masked(message: Message) -> Message:
    parts = (
        replace(part, text="[Old tool result content cleared]")
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return Message(role=message.role, parts=tuple(parts))


def _result(rng: Random) -> str:
    return rng.choice(
        (
            lambda: texts.code(rng, rng.randrange(1, 5)),
            lambda: texts.log(rng, rng.randrange(2, 20)),
            lambda: texts.tree(rng, rng.randrange(2, 25)),
            lambda: texts.prose(rng, rng.randrange(1, 12)),
            lambda: texts.table_json(rng, rng.randrange(1, 8)),
            lambda: "",
            lambda: f"{rng.randrange(1, 60)} passed in {rng.randrange(900) / 100}s",
        )
    )()
