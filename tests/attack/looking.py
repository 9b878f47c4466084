"""Attacks by what is looked at: others' findings, the service's memory, and the bytes themselves.

Checks look at messages and texts that an agent writes; whatever these are, the bytes come first.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

from tests.attack.claims import claim
from tests.attack.stage import Rollout, Stage
from tests.fakes import replies
from tests.fakes.answers import Api
from tests.fakes.replies import Reply

_MIB = 2**20
_CALLS, _SIZE = 64, _MIB // 2
_ALLOWED = 8 * _MIB  # of memory, for 32 MiB that are not kept
_MESSAGE = {"role": "user", "content": "Go on."}
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
_REPLY = Reply(model="gpt-5", input_tokens=4_096, output_tokens=5)


def _body(messages: object, **more: object) -> bytes:
    return json.dumps({"model": "gpt-5", "messages": messages, "tools": _TOOLS, **more}).encode()


def _answers(stage: Stage, text: str = "Done.") -> bytes:
    """Have the provider answer this, whatever it is asked; return the bytes."""
    answer = replies.answer(Api.CHAT, replace(_REPLY, text=(text,)), streams=False)
    stage.provider.plays(answer)
    return answer.content


def _assert_passed(stage: Stage, rollout: Rollout, body: bytes, answer: bytes) -> None:
    """Both directions, byte for byte."""
    response = stage.chat(rollout, body=body)
    assert (response.status, response.body) == (200, answer), body[:80]
    assert stage.provider.requests[-1].body == body, body[:80]


@claim("no agent begins, goes on with or cuts the conversation of another rollout")
def another_rollouts_conversation(stage: Stage) -> None:
    own, victim = stage.rollout(), stage.rollout()
    said = [_MESSAGE, {"role": "assistant", "content": "Done."}] * 3
    _answers(stage)  # a count that stands while the conversation grows
    for rollout in (own, victim):
        assert stage.chat(rollout, body=_body(said[:1])).status == 200
    for end in (1, 3, 5):
        body = _body(said[:end], metadata={"padding": "x" * 1_000 * end})
        stage.chat(own, f"x-truezero-rollout: {victim.id}", body=body, source="127.0.0.2")
    assert stage.judged(victim)["validity"] == []
    (exchange,) = stage.exchanges(victim)
    assert (exchange["continues"], exchange["begun_elsewhere"]) == (None, False)
    found = {each["check"] for each in stage.judged(own)["validity"]}
    assert found == {"duplicate_identity", "prompt_truncated"}, "else this would prove nothing"


@claim("no conversation is kept: neither one of 100,000 messages nor one a call", slow=True)
def endless_conversations(stage: Stage) -> None:
    rollout = stage.rollout()
    answer = _answers(stage)
    _assert_passed(stage, rollout, _body([_MESSAGE] * 100_000), answer)  # as much as one takes
    before = stage.memory()
    for number in range(_CALLS):
        text = f"{number:04}" * (_SIZE // 4)
        stage.provider.requests.clear()
        _assert_passed(stage, rollout, _body([{"role": "user", "content": text}]), answer)
    assert stage.memory() - before < _ALLOWED
    assert stage.service.http.get("/healthz").is_success


@cache
def _hostile() -> tuple[bytes, ...]:
    """Bodies that no reader may stumble over."""
    deep = b"[" * 100_000 + b"]" * 100_000
    return (
        _body([]), _body({}), _body("Go on."), _body(None), _body(7), _body([[[]]]),
        _body([None, 1.5]),
        _body([_MESSAGE | {"role": ["user"], "content": {"text": {"text": []}}}]),
        _body([_MESSAGE | {"content": [{"type": "text"}, 3, None, {"text": 4}]}]),
        _body([_MESSAGE], max_tokens=10**400, max_completion_tokens=[4]),
        _body([_MESSAGE], tools={"tools": 3}),
        _body([_MESSAGE], tools=[None, "x", {"function": 1}]),
        _body([{str(number): "x" for number in range(100_000)}]),
        _body([_MESSAGE]).replace(b"Go on.", b"\\ud800\\u0000"),
        _body([_MESSAGE]).replace(b"Go on.", b"\xff\x00\xfe"),
        _body([_MESSAGE]).replace(b'"Go on."', deep),
        _body(None).replace(b"null", deep),
        b'{"model":"gpt-5","messages":[' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"]}",
        _body([_MESSAGE])[:-9], b"[" * 100_000, b"\x00" * 10_000, b"",
    )  # fmt: skip


_RAW = '<tool_call>{"name": "look", "arguments": {'
_WRITTEN = (
    "<tool_call>" * 100_000, _RAW * 10_000, _RAW + '"a": [' * 50_000, "```" * 100_000 + _RAW,
    "<function=look>" + "<parameter=" * 50_000 + "</parameter>", "<" * 300_000,
    "[TOOL_CALLS]" + "[" * 100_000 + "]" * 100_000, "\u0000<tool_call>{}</tool_call>",
)  # fmt: skip


@claim("nothing that a check looks at changes a byte, or stops a call", slow=True)
def bytes_first(stage: Stage) -> None:
    rollout = stage.rollout()
    answer = _answers(stage)
    for body in _hostile():
        _assert_passed(stage, rollout, body, answer)
    for text in _WRITTEN:
        answer = _answers(stage, text)
        _assert_passed(stage, rollout, _body([_MESSAGE]), answer)
    verdict = stage.judged(rollout)
    assert verdict["total_requests"] == len(_hostile()) + len(_WRITTEN)
    assert (verdict["failed_requests"], verdict["health"]) == (0, "healthy"), verdict
