"""Rollouts that reach their model and measure something else: what is sent, answered and reported.

Each says what should be found (`expected`); nothing in it knows how that is looked for.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tests.fakes.answers import Api, Fault
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.healthy.conversation import Message, Tool
from tests.situations.requests import assistant, result, tool, user

Variant = tuple[Api, bool]  # a dialect, and whether its answers are streamed
EVERY_VARIANT: tuple[Variant, ...] = tuple(product(Api, (False, True)))

# Models as a reply names them: the one that was asked for, or one that was not.
ASKED, OTHER = "asked", "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What should be found: a check, and its level; None where the design names no level."""

    check: str
    level: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call, and what is answered.

    ``adds``: what the conversation gains before it; conversations are told apart by ``run``.
    ``reply``: its model is ``ASKED`` or ``OTHER``, its input tokens are counted when it is played.
    ``window``: the provider reads no more tokens. ``limit``: output tokens asked for at most.
    ``wait_s``: before a byte is answered. ``address``: the client's.
    """

    adds: tuple[Message, ...]
    reply: Reply | Fault
    system: str
    tools: tuple[Tool, ...]
    window: int | None = None
    limit: int | None = None
    role: str = "agent"
    run: int = 0
    wait_s: float = 0.5
    address: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A rollout: its calls in order, what the runner reports, and what should be found.

    ``outcome`` is the body of ``POST /rollouts/{id}/outcome``. ``variants``: where it can be said.
    ``also``: checks that see the same thing from their side; no other should speak.
    """

    name: str
    turns: tuple[Turn, ...]
    expected: Expected | None
    outcome: Mapping[str, Any]
    variants: tuple[Variant, ...] = EVERY_VARIANT
    also: tuple[str, ...] = ()


def is_found(
    situation: Situation, found: Collection[tuple[str, str]], *, hurried: bool = False
) -> bool:
    """Whether the expected check and level are among those found; of a healthy one, none are.

    ``hurried``: its waits were shortened, so that one for time may be found milder.
    """
    expected = situation.expected
    if expected is None:
        return not found
    levels: tuple[str, ...] = (expected.level,) if expected.level else ("suspect", "invalid")
    if hurried and expected.check == "starved":
        levels += ("info",)
    return any((expected.check, level) in found for level in levels)


# --- what is said --------------------------------------------------------------------------

_WORDS = (
    "the", "parser", "reads", "each", "line", "of", "a", "record", "and", "keeps", "its", "count",
    "where", "field", "was", "empty",
)  # fmt: skip


def prose(seed: str, size: int) -> str:
    """English of so many characters at least, the same for the same seed."""
    source, words, length = random.Random(seed), [], 0
    while length < size:
        words.append(source.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)


TOOLS = (
    tool("read_file", "Read a file.", {"path": "relative to the root"}),
    tool("write_file", "Replace a file.", {"path": "relative to the root", "content": "all of it"}),
    tool("run_tests", "Run the tests.", {"filter": "names to run"}),
)
SYSTEM = f"You repair programs. {prose('system', 18_000)}."
JUDGE_SYSTEM = "You grade a repair: answer 1 where it holds and 0 where it does not."
USER_SYSTEM = "You play the person who asked for the repair."
TASK = f"The count of empty fields is wrong. {prose('task', 600)}."

SUCCESS = {
    "status": "success",
    "termination_reason": "agent_stop",
    "prompts_executed": 1,
    "rewards": {"reward": 0.0},
}
TIMEOUT = {"status": "task_timeout", "prompts_executed": 1, "rewards": {"reward": 0.0}}


def say(*text: str, **more: Any) -> Reply:
    """A reply with a text; about as many output tokens as its length suggests."""
    spoken = len("".join(text)) + sum(len(one.arguments) for one in more.get("calls", ()))
    facts: dict[str, Any] = {
        "model": ASKED,
        "input_tokens": 0,
        "output_tokens": max(8, spoken // 4),
    } | more
    return Reply(text=text, **facts)


def call(number: int, name: str, arguments: str) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, arguments=arguments)


LOOK = say(
    "I read", " the parser first.",
    calls=(call(1, "read_file", '{"path": "src/parser.py"}'),), finish=Finish.CALLS,
)  # fmt: skip
EDIT = say(
    calls=(call(2, "write_file", '{"path": "src/parser.py", "content": "count = 0"}'),),
    finish=Finish.CALLS,
)
TEST = say(
    "Now", " the tests.",
    calls=(call(3, "run_tests", '{"filter": "empty"}'),), finish=Finish.CALLS,
)  # fmt: skip
DONE = say("The count", " starts at zero again,", " and the tests pass.")


def conversation(*replies: Reply | Fault, task: str = TASK, **facts: Any) -> tuple[Turn, ...]:
    """One turn a reply: tools return pages of text, a text is followed by a nudge.

    What failed is asked again.
    """
    turns: list[Turn] = []
    adds: tuple[Message, ...] = (user(task),)
    facts = {"system": SYSTEM, "tools": TOOLS} | facts
    for number, reply in enumerate(replies):
        turns.append(Turn(adds=adds, reply=reply, **facts))
        if isinstance(reply, Fault):
            adds = ()
            continue
        said = assistant("".join(reply.text), reply.calls)
        page = prose(f"page {number}", 3_000)
        results = [result(one, page) for one in reply.calls]
        adds = (said, *results) if results else (said, user("Go on until the tests pass."))
    return tuple(turns)


WORK = conversation(LOOK, EDIT, TEST, DONE)


def changed(turns: tuple[Turn, ...], *places: int, **facts: Any) -> tuple[Turn, ...]:
    """The turns with these facts at some places; everywhere if none is named."""
    indexes = {place % len(turns) for place in places or range(len(turns))}
    return tuple(
        replace(turn, **facts) if place in indexes else turn for place, turn in enumerate(turns)
    )


def answered(turns: tuple[Turn, ...], *places: int, **facts: Any) -> tuple[Turn, ...]:
    """The turns with these facts of their replies at some places; everywhere if none is named."""
    indexes = {place % len(turns) for place in places or range(len(turns))}
    return tuple(
        replace(turn, reply=replace(turn.reply, **facts))
        if place in indexes and isinstance(turn.reply, Reply)
        else turn
        for place, turn in enumerate(turns)
    )


def _situation(
    name: str,
    turns: tuple[Turn, ...],
    check: str | None,
    level: str | None = None,
    **more: Any,
) -> Situation:
    expected = None if check is None else Expected(check=check, level=level)
    return Situation(
        **{"name": name, "turns": turns, "expected": expected, "outcome": SUCCESS} | more
    )


# --- the situations ------------------------------------------------------------------------

_LONG = say("The parser", " counts what it", " should leave", f" out: {prose('long', 2_000)}")
_CUT_CALL = replace(
    EDIT,
    calls=(call(2, "write_file", '{"path": "src/parser.py", "content": "count'),),
    output_tokens=900,
    finish=Finish.LENGTH,
)
_THOUGHT = say(reasoning=prose("thought", 4_000), output_tokens=1_000, reasoning_tokens=1_000,
               finish=Finish.LENGTH)  # fmt: skip
_HALF = say("I think the", " count is")
_ARGUMENTS = '{"path": "src/parser.py"}'
_NAMED = f'{{"name": "read_file", "arguments": {_ARGUMENTS}}}'
_ERROR = say("[API ERROR] HTTP 503: the upstream is overloaded, please try again later.")
_CACHED = say("I have read the parser and found nothing that is wrong with it.")
_CACHED_CALL = replace(LOOK, text=())
_HERMES = say("First the", " file.\n<tool_", f"call>\n{_NAMED}\n</tool_call>")
_MISTRAL = say("[TOOL", f"_CALLS][{_NAMED}]")
_LLAMA = say("<function", f"=read_file>{_ARGUMENTS}", "</function>")
_JUDGE: dict[str, Any] = {"system": JUDGE_SYSTEM, "tools": (), "role": "judge", "run": 1}
_FAILED = (Fault.PROVIDER_ERROR,) * 3
_LOST = Fault.PROVIDER_ERROR
_NO_FINISH = tuple(
    # A Gemini stream without one is truncated, which is health's business; a streamed response
    # says "completed" in the name of its last event.
    (api, streams)
    for api, streams in EVERY_VARIANT
    if not streams or api in (Api.CHAT, Api.MESSAGES)
)
# In a chat completion it is a failure already, as OpenRouter reports one: health's business.
_NO_FAILURE = tuple(variant for variant in EVERY_VARIANT if variant[0] is not Api.CHAT)
# The arguments of a call come in so many events that most of them are skimmed, unless they are
# stated again at the end, or whole in one event.
_CALLS_KNOWN = tuple(
    (api, streams)
    for api, streams in EVERY_VARIANT
    if not streams or api in (Api.RESPONSES, Api.GEMINI)
)
_IN_CHAT = ((Api.CHAT, False), (Api.CHAT, True))
# docs.litellm.ai/docs/proxy/response_headers
_FELL_BACK = (("x-litellm-attempted-fallbacks", "1"), ("x-litellm-model-group", "main"))


def _both_runs() -> tuple[Turn, ...]:
    """Two runs of one task at once, each from a machine of its own."""
    other = changed(WORK, run=1, address="127.0.0.2")
    return tuple(turn for pair in zip(WORK, other, strict=True) for turn in pair)


def _documents(*replies: Reply | Fault) -> tuple[Turn, ...]:
    """Questions that have nothing to do with one another, as an evaluator asks them."""
    asked = (
        (f"Question {n}. {prose(str(n), 90 - 7 * n)}", reply) for n, reply in enumerate(replies)
    )
    return tuple(
        turn
        for run, (task, reply) in enumerate(asked)
        for turn in conversation(reply, task=task, system="Answer.", tools=(), run=run)
    )


SITUATIONS: tuple[Situation, ...] = (
    _situation("healthy", WORK, None),
    # The window slides: the third call is read to fewer tokens than the second, and it is longer.
    _situation("prompt_falls", changed(WORK, 2, window=4_000), "prompt_truncated"),
    _situation("prompt_stuck", changed(WORK, window=4_096), "prompt_truncated"),
    _situation(
        "prompt_unread",
        changed(conversation(DONE, task=prose("document", 80_000)), window=4_096),
        "prompt_truncated",
    ),
    _situation(
        "output_cut_midway",
        changed(
            conversation(LOOK, replace(_LONG, finish=Finish.LENGTH, output_tokens=900), DONE),
            limit=900,
        ),
        "output_truncated", "info",
    ),
    _situation(
        "output_cut_last",
        changed(
            conversation(LOOK, TEST, replace(_LONG, finish=Finish.LENGTH, output_tokens=900)),
            limit=900,
        ),
        "output_truncated", "suspect",
    ),
    _situation(
        "output_cut_in_call",
        changed(conversation(LOOK, _CUT_CALL, DONE), limit=900),
        "output_truncated", "suspect",
    ),
    _situation(
        "output_cut_below_limit",
        changed(
            conversation(LOOK, replace(_LONG, finish=Finish.LENGTH, output_tokens=512), DONE),
            limit=8_000,
        ),
        "output_truncated", "invalid",
    ),
    _situation(
        "reasoning_ate_budget",
        changed(conversation(LOOK, TEST, _THOUGHT), limit=1_000),
        "reasoning_ate_budget", "suspect", also=("output_truncated",),
    ),
    _situation(
        "engine_aborts",
        conversation(LOOK, TEST, replace(_HALF, finish=Finish.ABORT)),
        "engine_aborted",
    ),
    _situation(
        "engine_errs",
        conversation(LOOK, TEST, replace(_HALF, finish=Finish.ERROR)),
        "engine_aborted", variants=_NO_FAILURE,
    ),
    _situation(
        "engine_ends_unsaid",
        conversation(LOOK, TEST, replace(_HALF, finish=Finish.NONE)),
        "engine_aborted", variants=_NO_FINISH,
    ),
    _situation(
        "model_changes", answered(WORK, 2, 3, model=OTHER), "model_substituted", "suspect"
    ),
    _situation("model_is_another", answered(WORK, model=OTHER), "model_substituted", "suspect"),
    _situation(
        "model_falls_back",
        answered(WORK, 2, model=OTHER, headers=_FELL_BACK),
        "model_substituted", "invalid",
    ),
    _situation(
        "fingerprint_changes",
        answered(
            answered(WORK, extra={"system_fingerprint": "fp_0a1b"}),
            2, 3, extra={"system_fingerprint": "fp_9c8d"},
        ),
        "serving_changed", "info", variants=_IN_CHAT,
    ),
    _situation(  # openrouter.ai/docs/api-reference/overview: beside the model
        "provider_changes",
        answered(
            answered(WORK, extra={"provider": "Fireworks"}), 2, 3, extra={"provider": "Together"}
        ),
        "serving_changed", "info", variants=_IN_CHAT,
    ),
    _situation(  # python/sglang/srt/utils/weight_versions.py: beside the model
        "weights_change",
        answered(
            answered(WORK, extra={"metadata": {"weight_version": "step-41"}}),
            2, 3, extra={"metadata": {"weight_version": "step-42"}},
        ),
        "serving_changed", "info", variants=((Api.CHAT, False),),
    ),
    _situation(  # docs.litellm.ai/docs/proxy/response_headers
        "region_changes",
        answered(
            answered(WORK, headers=(("x-litellm-model-region", "eu"),)),
            2, 3, headers=(("x-litellm-model-region", "us"),),
        ),
        "serving_changed", "info",
    ),
    _situation(
        "calls_unparsed_twice", conversation(_HERMES, _HERMES, DONE), "tool_calls_unparsed"
    ),
    _situation(
        "calls_unparsed_at_the_end",
        conversation(say("I look at", " the parser."), _MISTRAL),
        "tool_calls_unparsed",
    ),
    _situation("calls_unparsed_at_once", conversation(_LLAMA), "tool_calls_unparsed"),
    _situation("error_at_the_end", conversation(LOOK, EDIT, _ERROR), "error_as_answer"),
    _situation("error_at_once", conversation(_ERROR), "error_as_answer"),
    _situation(
        "text_repeated", conversation(_CACHED, _CACHED, _CACHED, DONE), "answers_identical"
    ),
    _situation(
        "call_repeated", conversation(EDIT, _CACHED_CALL, _CACHED_CALL, _CACHED_CALL, DONE),
        "answers_identical", variants=_CALLS_KNOWN,
    ),
    _situation("starved", changed(WORK, wait_s=150.0), "starved", outcome=TIMEOUT),
    _situation("usage_mismatch", WORK, "usage_mismatch", outcome=SUCCESS | {"total_tokens": 10}),
    _situation(
        "judge_fails",
        (*WORK, *conversation(*_FAILED, task="Grade it.", **_JUDGE)),
        "judge_failed", "invalid",
    ),
    _situation(
        "user_fails",
        (*WORK, *conversation(*_FAILED, task="Ask.", **_JUDGE | {
            "role": "user", "system": USER_SYSTEM,
        })),
        "judge_failed",
    ),
    _situation("duplicate_identity", _both_runs(), "duplicate_identity"),
    _situation(
        "documents_lost",
        _documents(DONE, _LOST, DONE, _LOST, Fault.RATE_LIMIT, DONE, DONE),
        "requests_abandoned", "invalid",
    ),
)  # fmt: skip
BY_NAME: Mapping[str, Situation] = {situation.name: situation for situation in SITUATIONS}
