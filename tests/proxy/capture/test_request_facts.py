"""What is read of a request's body, and that nothing there disturbs the rest."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from classifier.records import Ending, Exchange
from proxy.capture.observer import CallObserver
from proxy.capture.request import Conversations, RequestFacts
from tests.proxy.wire.observing import SALT, call, observed
from tests.proxy.wire.samples import SSE, chat, delta, dump, sse

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def asked(request: object, path: str = "/v1/chat/completions", **headers: str) -> Exchange:
    """The exchange of a request that was never answered, cut into three pieces."""
    body = request if isinstance(request, bytes) else dump(request)
    observer = CallObserver(call(path, **headers), salt=SALT)
    third = max(1, len(body) // 3)
    for start in range(0, len(body), third):
        observer.on_request_body(body[start : start + third])
    return observer.finish(Ending.NEVER_CONNECTED, 101.0)


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/v1/chat/completions", {"max_tokens": 64}),
        ("/v1/messages", {"max_tokens": 64}),
        ("/v1/responses", {"max_output_tokens": 64}),
        ("/v1beta/models/g:generateContent", {"generationConfig": {"maxOutputTokens": 64}}),
        ("/v1internal:generateContent", {"request": {"generationConfig": {"maxOutputTokens": 64}}}),
        ("/model/m/converse", {"inferenceConfig": {"maxTokens": 64}}),
        ("/model/m/invoke", {"max_tokens": 64}),
        ("/api/chat", {"options": {"num_predict": 64}}),
        ("/v2/chat", {"max_tokens": 64}),
    ],
)
def test_the_output_limit_is_recorded_in_every_dialect(
    path: str, request_: dict[str, object]
) -> None:
    assert asked(request_, path).output_limit == 64
    assert asked(gzip.compress(dump(request_)), path, content_encoding="gzip").output_limit == 64
    assert asked({}, path).output_limit is None


def test_what_was_read_outlives_the_body_of_a_stream() -> None:
    body = dump({"stream": True, "max_tokens": 7})
    assert observed(sse(delta(content="a")), type_=SSE, request=body).output_limit == 7


# -- conversations -------------------------------------------------------------------------

PROSE = "the river runs along the old wall and turns where nobody has built " * 150
GEMINI_CALL = {"functionCall": {"name": "look", "args": {"at": "1"}}}
CONVERSE_CALL = {"toolUse": {"toolUseId": "1", "name": "look", "input": {"at": "1"}}}
CONVERSE_RESULT = {"toolResult": {"toolUseId": "1", "content": [{"text": "found"}]}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


# Of each dialect: its path, a request without messages, where they stand, the first, what is new.
DIALECTS: dict[str, tuple[str, dict[str, Any], str, list[Any], list[Any]]] = {
    "chat": ("/v1/chat/completions", {"tools": [{"function": {"name": "look"}}]}, "messages",
             [{"role": "system", "content": "You look."}, user(PROSE)],
             [{"role": "assistant", "tool_calls": [{"function": {"name": "look"}}]},
              {"role": "tool", "content": "found"}]),
    "anthropic": ("/v1/messages", {"system": "You look.", "tools": [{"name": "look"}]}, "messages",
                  [user(PROSE)],
                  [{"role": "assistant", "content": [{"type": "tool_use", "input": {}}]},
                   {"role": "user", "content": [{"type": "tool_result", "content": "found"}]}]),
    "responses": ("/v1/responses", {"instructions": "You look."}, "input",
                  [{"role": "user", "content": [{"type": "input_text", "text": PROSE}]}],
                  [{"type": "function_call", "name": "look", "arguments": "{}"},
                   {"type": "function_call_output", "output": "found"}]),
    "gemini": ("/v1beta/models/g:streamGenerateContent", {}, "contents",
               [{"role": "user", "parts": [{"text": PROSE}]}],
               [{"role": "model", "parts": [GEMINI_CALL]},
                {"role": "user", "parts": [{"functionResponse": {"response": {"a": "found"}}}]}]),
    "converse": ("/model/m/converse", {"system": [{"text": "You look."}]}, "messages",
                 [{"role": "user", "content": [{"text": PROSE}]}],
                 [{"role": "assistant", "content": [CONVERSE_CALL]},
                  {"role": "user", "content": [CONVERSE_RESULT]}]),
    "invoke": ("/model/m/invoke", {"system": "You look."}, "messages", [user(PROSE)],
               [{"role": "assistant", "content": "Yes."}, user("And now?")]),
    "ollama": ("/api/chat", {}, "messages", [user(PROSE)],
               [{"role": "assistant", "content": "Yes."}, user("And now?")]),
    "cohere": ("/v2/chat", {}, "messages", [user(PROSE)],
               [{"role": "assistant", "content": "Yes."}, user("And now?")]),
}  # fmt: skip


def following(
    known: Conversations,
    number: int,
    path: str,
    request: object,
    address: str = "10.0.0.1",
    **headers: str,
) -> Exchange:
    """The exchange of a call that was answered."""
    one = call(path, **headers)
    one.id, one.client = f"x{number}", (address, 1000 + number)
    observer = CallObserver(one, salt=SALT, conversations=known)
    observer.on_request_body(dump(request))
    observer.on_response_head(200, [(b"content-type", b"application/json")], 100.5)
    observer.on_response_body(b"{}", 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_conversations_are_followed_in_every_dialect(dialect: str) -> None:
    path, request, where, first, new = DIALECTS[dialect]
    known = Conversations(b"secret")
    begun = following(known, 1, path, {**request, where: first})
    assert (begun.continues, begun.begun_elsewhere) == (None, False)
    assert begun.prompt_words is not None
    assert 1_000 < begun.prompt_words <= len(PROSE.split())
    messages = first
    for number in (2, 3, 4):
        messages = [*messages, *new]
        gone_on = following(known, number, path, {**request, where: messages})
        assert (gone_on.continues, gone_on.begun_elsewhere) == (f"x{number - 1}", None)
        assert gone_on.prompt_words is not None
    begins = {**request, where: first}
    assert following(known, 5, path, begins, "10.0.0.2").begun_elsewhere is True
    for retry, elsewhere in (("0", True), ("1", None)):
        resent = following(known, 6, path, begins, "10.0.0.3", x_stainless_retry_count=retry)
        assert resent.begun_elsewhere is elsewhere


def test_a_wrapped_request_is_followed_too() -> None:
    known, path = Conversations(b"secret"), "/v1internal:generateContent"
    _, _, _, first, new = DIALECTS["gemini"]
    following(known, 1, path, {"model": "g", "request": {"contents": first}})
    wrapped = {"model": "g", "request": {"contents": [*first, *new]}}
    assert following(known, 2, path, wrapped).continues == "x1"


def test_words_are_counted_of_plain_requests_alone() -> None:
    path, request, where, first, _ = DIALECTS["anthropic"]
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": PROSE}]}
    deferred = {"tools": [{"name": "bash", "description": PROSE, "defer_loading": True}]}
    for messages, more in (
        ([*first, thought], {}),
        (first, {"context_management": {"e": 1}}),
        (first, deferred),
    ):
        exchange = following(
            Conversations(b"secret"), 1, path, {**request, where: messages, **more}
        )
        assert exchange.prompt_words is None
    short = following(Conversations(b"secret"), 1, path, {**request, where: [user("Hi")]})
    assert short.prompt_words is None


def test_calls_of_another_role_or_kind_are_no_part_of_the_agents_conversations() -> None:
    known = Conversations(b"secret")
    path, request, where, first, new = DIALECTS["chat"]
    following(known, 1, path, {**request, where: first})
    judge = call(path)
    judge.id, judge.role, judge.client = "x2", "judge", ("10.0.0.9", 1)
    observer = CallObserver(judge, salt=SALT, conversations=known)
    observer.on_request_body(dump({**request, where: first}))
    assert observer.finish(Ending.COMPLETE, 102.0).begun_elsewhere is False
    embedded = following(known, 3, "/v1/embeddings", {"input": [PROSE]})
    assert (embedded.begun_elsewhere, embedded.prompt_words) == (None, None)
    assert following(known, 4, path, {**request, where: [*first, *new]}).continues == "x1"


def test_a_few_words_by_themselves_are_not_followed() -> None:
    known = Conversations(b"secret")
    asked = {"messages": [user("Is it true?")]}
    assert following(known, 1, "/v1/chat/completions", asked).begun_elsewhere is None
    assert known._rollouts == {}
    with_tools = {**asked, "tools": [{"name": "f"}]}
    assert following(known, 2, "/v1/chat/completions", with_tools).begun_elsewhere is False


def test_what_failed_may_be_begun_again_from_elsewhere() -> None:
    known = Conversations(b"secret")
    path, request, where, first, _ = DIALECTS["chat"]
    one = call(path)
    one.client = ("10.0.0.1", 1)
    observer = CallObserver(one, salt=SALT, conversations=known)
    observer.on_request_body(dump({**request, where: first}))
    observer.on_response_head(529, [], 100.5)
    assert observer.finish(Ending.COMPLETE, 101.0).cause is not None
    again = following(known, 2, path, {**request, where: first}, "10.0.0.2")
    assert again.begun_elsewhere is False


def test_a_body_that_is_read_twice_goes_on_with_the_same() -> None:
    known = Conversations(b"secret")
    path, request, where, first, new = DIALECTS["chat"]
    following(known, 1, path, {**request, where: first})
    one = call(path)
    one.id = "x2"
    observer = CallObserver(one, salt=SALT, conversations=known)
    observer.on_request_body(dump({**request, where: [*first, *new]}))
    assert not observer.asked_to_stream()
    observer.on_request_body(b" ")
    assert observer.finish(Ending.COMPLETE, 102.0).continues == "x1"


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":' + b"[" * 900 + b"]" * 900 + b',"tools":[1]}',
        b'{"messages":' + b'[{"content":' * 400 + b"1" + b"}]" * 400 + b',"tools":[1]}',
        b'{"messages":[' + b"0," * 100_000 + b'1],"tools":[]}',
        b'{"messages":[{"role":[],"content":{"a":1}},null],"tools":{"a":1},"system":5}',
        b'{"messages":[{"role":"user","role":"assistant","content":"a","content":[]}],"tools":[{}]}',
        b'{"messages":[{"content":"\\ud83d\\ude00 \\u0000"}],"tools":[{"name":{"a":[]}}]}',
        b'{"messages":[{"content":"\\ud83d"}],"tools":[1]}',
        b'{"request":{"contents":"x"},"generationConfig":[1],"system":{"text":{"text":{}}}}',
        b'{"messages":"x","input":[1],"tools":"' + b"x" * 600 + b'"}',
    ],
)  # fmt: skip
def test_whatever_a_body_holds_it_is_recorded(body: bytes) -> None:
    known = Conversations(b"secret")
    for number in (1, 2):
        one = call()
        one.id, one.client = f"x{number}", (f"10.0.0.{number}", 1)
        observer = CallObserver(one, salt=SALT, conversations=known)
        observer.on_request_body(body)
        exchange = observer.finish(Ending.COMPLETE, 102.0)
        assert exchange.ending is Ending.COMPLETE
        assert exchange.continues is None


def test_trouble_in_looking_leaves_the_rest_of_the_record_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(RequestFacts, "take", fail)
    exchange = observed(chat(USAGE), request=dump({"model": "m", "tools": [{"name": "f"}]}))
    assert (exchange.model, exchange.has_tools, exchange.streamed) == ("m", True, False)
    assert exchange.usage.input_tokens == 1
