# ruff: noqa: SLF001
# Private: what is kept of conversations: that it is bounded and goes.
from __future__ import annotations

import gc
import gzip
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import zstandard

from classifier.records import Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import Conversations, RequestFacts, response_digest
from tests.proxy.wire.observing import SALT, call, head, observed
from tests.proxy.wire.samples import (
    MESSAGE_USAGE,
    RESPONSE_USAGE,
    SSE,
    chat,
    dump,
    messages,
    response,
    text,
)  # fmt: skip

# --- What is read of a request's body, and that nothing there disturbs the rest -------------------

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
    for said, more in (
        ([*first, thought], {}),
        (first, {"context_management": {"e": 1}}),
        (first, deferred),
    ):
        exchange = following(Conversations(b"secret"), 1, path, {**request, where: said, **more})
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
        observer.on_response_head(200, [(b"content-type", b"application/json")], 100.5)
        observer.on_response_body(b"{}", 101.0)
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


# --- Which call goes on with which, and that nothing of what was said is kept ---------------------

SYSTEM = {"system": "You fix bugs.", "tools": [{"name": "look"}]}
HELLO = {"role": "user", "content": "Find it."}


def turn(number: int) -> list[dict[str, Any]]:
    """What one call adds: its answer, and what the tool said."""
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look",
                                           "input": {"at": f"line {number}"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                      "content": f"text of {number} " * 90}]},
    ]  # fmt: skip


def talk(turns: int) -> list[dict[str, Any]]:
    return [HELLO, *(message for number in range(turns) for message in turn(number))]


class Rollout:
    """One rollout, whose calls are named x1, x2 and so on."""

    def __init__(self, known: Conversations | None = None, name: str = "r1") -> None:
        self.known = known or Conversations(b"secret")
        self.name = name
        self.calls = 0

    def _follow(self, messages: list[Any], more: dict[str, Any] | None, **how: Any) -> Any:
        self.calls += 1
        payload = {**SYSTEM, "messages": messages, **(more or {})}
        return self.known.follow(self.name, f"x{self.calls}", payload, messages, **how)

    def says(self, messages: list[Any], more: dict[str, Any] | None = None, **how: Any) -> Any:
        """What the call goes on with."""
        return self._follow(messages, more, **how)[1]

    def begins(self, messages: list[Any], address: str | None, **how: Any) -> Any:
        """Whether the call's conversation began elsewhere before."""
        return self._follow(messages, None, address=address, **how)[2]

    def fails(self, messages: list[Any], address: str | None = None) -> None:
        self._follow(messages, None, address=address)[0].failed = True


# -- what goes on --------------------------------------------------------------------------


def test_each_call_goes_on_with_the_one_before() -> None:
    rollout = Rollout()
    assert [rollout.says(talk(turns)) for turns in range(40)] == [
        None, *(f"x{number}" for number in range(1, 40)),
    ]  # fmt: skip


def test_a_mark_that_moves_and_another_order_of_keys_change_nothing() -> None:
    rollout = Rollout()
    for turns in range(6):
        messages = [dict(reversed(message.items())) for message in talk(turns)]
        last = messages[-1]["content"]
        text = last if isinstance(last, str) else last[0].pop("content")
        messages[-1]["content"] = [
            {"cache_control": {"type": "ephemeral"}, "content": [{"type": "text", "text": text}]}
        ]
        if turns == 0:
            messages[-1]["content"] = [
                {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
            ]
        assert rollout.says(messages) == (f"x{turns}" if turns else None)


@pytest.mark.parametrize(
    "change",
    [
        {"system": "You write poems."}, {"tools": []}, {"tools": [{"name": "write"}]},
        {"tools": [{"name": "look"}, {"name": "look"}]},
    ],
)  # fmt: skip
def test_other_instructions_or_tools_are_another_conversation(change: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    assert rollout.says(talk(2), change) is None
    assert rollout.says(talk(2)) == "x1"


def test_another_model_is_another_conversation() -> None:
    rollout = Rollout()
    rollout.says(talk(1), model="one")
    assert rollout.says(talk(2), model="two") is None
    assert rollout.says(talk(2), model="one") == "x1"


def test_where_an_earlier_message_is_missing_or_another_nothing_goes_on() -> None:
    changes: tuple[Callable[[list[Any]], list[Any]], ...] = (
        lambda m: [m[0], *m[3:]],  # compaction
        lambda m: [{"role": "user", "content": "Summary of it."}, *m[1:]],
        lambda m: [*m[:4], {"role": "user", "content": "[removed]"}, *m[5:]],
        lambda m: [*m[:8], {"role": "user", "content": "[removed]"}, *m[9:]],
    )
    for change in changes:
        rollout = Rollout()
        for turns in range(5):
            rollout.says(talk(turns))
        assert rollout.says(change(talk(5))) is None


def test_the_same_messages_again_go_on_with_what_they_went_on_with() -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    rollout.says(talk(2))
    assert rollout.says(talk(2)) == "x1"
    assert rollout.says(talk(3)) == "x3"


def test_a_call_that_was_not_answered_is_passed_over() -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    rollout.fails(talk(2))
    assert rollout.says(talk(3)) == "x1"
    assert rollout.says(talk(4)) == "x3"


def test_conversations_side_by_side_are_told_apart() -> None:
    rollout = Rollout()
    helper = [{"role": "user", "content": "You are to count."}]
    rollout.says(talk(1))
    assert rollout.says(helper) is None
    assert rollout.says(talk(2)) == "x1"
    assert rollout.says([*helper, *turn(7)]) == "x2"
    assert Rollout(rollout.known, "r2").says(talk(3)) is None


IMAGE = {"role": "user", "content": [{"type": "image", "source": {"data": "x"}}]}
THOUGHT = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}


@pytest.mark.parametrize("changing", [IMAGE, THOUGHT])
def test_what_may_be_counted_otherwise_later_ends_it_for_good(changing: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    mixed = [*talk(2), changing]
    assert rollout.says(mixed) is None
    assert rollout.says([*mixed, *turn(9)]) is None
    first = Rollout()
    first.says([HELLO, changing])
    assert first.says([HELLO, changing, *turn(1)]) is None


@pytest.mark.parametrize(
    "field", [{"context_management": {"edits": [1]}}, {"previous_response_id": "r"}]
)
def test_what_the_server_changes_is_not_compared(field: dict[str, Any]) -> None:
    rollout = Rollout()
    rollout.says(talk(1))
    assert rollout.says(talk(2), field) is None
    assert rollout.says(talk(3)) is None


def test_a_long_conversation_that_nobody_saw_begin_is_not_known_to_be_plain() -> None:
    rollout = Rollout()
    rollout.says(talk(8))
    assert rollout.says(talk(9)) is None
    known = Rollout()
    known.says(talk(1))
    assert known.says(talk(8)) == "x1"
    assert known.says(talk(17)) is None


# -- who began it --------------------------------------------------------------------------


def test_a_beginning_that_comes_again_from_elsewhere_is_told() -> None:
    rollout = Rollout()
    assert rollout.begins(talk(0), "10.0.0.1") is False
    assert rollout.begins(talk(0), "10.0.0.1") is False
    assert rollout.begins(talk(1), "10.0.0.1") is None
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.begins([{"role": "user", "content": "Other."}], "10.0.0.2") is False
    assert Rollout(rollout.known, "r2").begins(talk(0), "10.0.0.3") is False


def test_what_is_no_beginning_is_not_looked_at() -> None:
    rollout = Rollout()
    assert rollout.begins(talk(0), None) is None
    assert rollout.begins(talk(1), "10.0.0.1") is None


def test_going_on_from_elsewhere_is_no_beginning() -> None:
    rollout = Rollout()
    user = [HELLO, {"role": "user", "content": "And quickly."}]
    rollout.begins([HELLO], "10.0.0.1")
    assert rollout.begins(user, "10.0.0.2") is None


def test_a_beginning_that_was_not_answered_may_come_again_from_elsewhere() -> None:
    rollout = Rollout()
    rollout.fails(talk(0), "10.0.0.1")
    assert rollout.begins(talk(0), "10.0.0.2") is False


def test_two_that_began_alike_each_go_on_with_their_own() -> None:
    rollout = Rollout()
    rollout.begins(talk(0), "10.0.0.1")
    rollout.begins(talk(1), "10.0.0.1")
    assert rollout.begins(talk(0), "10.0.0.2") is True
    assert rollout.says(talk(2), address="10.0.0.1") == "x2"


# -- what is kept --------------------------------------------------------------------------


def reachable(root: object) -> Iterable[object]:
    """Everything that an object leads to, but for classes and modules."""
    seen, waiting = {id(root): root}, [root]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            if id(each) not in seen and not isinstance(each, type) and not callable(each):
                seen[id(each)] = each
                waiting.append(each)
    return seen.values()


def test_numbers_and_names_of_ours_are_all_that_is_kept() -> None:
    rollout = Rollout()
    for turns in range(12):
        rollout.says(talk(turns), model="a model", address="10.0.0.1")
    rollout.says([HELLO, IMAGE, THOUGHT])
    texts = {each for each in reachable(rollout.known) if isinstance(each, str | bytes)}
    ours = {f"x{number}" for number in range(1, 14)} | {"r1", "10.0.0.1", b"secret"}
    fields = {name for name in texts if isinstance(name, str) and hasattr(rollout.known, name)}
    assert {"x12", "r1", "10.0.0.1"} <= texts  # the search looks there
    assert texts - ours - fields == set()


def test_digests_say_nothing_to_another_process_or_rollout() -> None:
    kept = []
    for known, name in ((Conversations(b"secret"), "r1"), (Conversations(b"another"), "r1")):
        kept.append(numbers(known, name))
    kept.append(numbers(Conversations(b"secret"), "r2"))
    for place, one in enumerate(kept):
        for other in kept[place + 1 :]:
            assert not one & other


def numbers(known: Conversations, name: str) -> set[int]:
    rollout = Rollout(known, name)
    for turns in range(3):
        rollout.says(talk(turns))
    (conversation,) = known._rollouts[name]
    return {conversation.first, conversation.last, conversation.begun, conversation.middle}


def test_it_is_bounded() -> None:
    known = Conversations(b"secret", rollouts=3, each=2)
    for name in range(10):
        rollout = Rollout(known, f"r{name}")
        for number in range(5):
            rollout.says([{"role": "user", "content": str(number)}])
    assert list(known._rollouts) == ["r7", "r8", "r9"]
    assert all(len(each) == 2 for each in known._rollouts.values())


def test_the_least_recently_used_is_forgotten_first() -> None:
    known = Conversations(b"secret", rollouts=2, each=2)
    first, second = Rollout(known, "r1"), Rollout(known, "r2")
    first.says(talk(1))
    second.says(talk(1))
    first.says([{"role": "user", "content": "another"}])
    assert first.says(talk(2)) == "x1"
    Rollout(known, "r3").says(talk(1))
    assert first.says(talk(3)) == "x3"
    assert second.says(talk(2)) is None


# --- What a call is known by before its response --------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_packed_request_is_read_too(encoding: str) -> None:
    request = dump({"model": "m", "stream": False, "tools": []})
    packed = gzip.compress(request) if encoding == "gzip" else zstandard.compress(request)
    observer = CallObserver(call(content_encoding=encoding), salt=SALT)
    observer.on_request_body(packed[:9])
    observer.on_request_body(packed[9:])
    exchange = observer.finish(Ending.NEVER_CONNECTED, 101.0)
    assert (exchange.model, exchange.request_bytes) == ("m", len(packed))


RESPONSE = "/v1/responses/resp_1"


def fetched(method: str, path: str, body: bytes, status: int = 200) -> Exchange:
    observer = CallObserver(call(path, method=method), salt=SALT)
    observer.on_response_head(status, head("application/json"), 100.5)
    observer.on_response_body(body, 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


def test_a_response_in_the_background_is_pending_and_its_later_calls_are_known() -> None:
    begun = fetched("POST", "/v1/responses", dump(response(None, status="queued", id="resp_1")))
    assert (begun.pending, begun.finish_reason, begun.cause) == (True, None, None)
    assert begun.content_seen is False
    said = {"type": "message", "content": [{"type": "output_text", "text": "Yes"}]}
    for answer, pending, finish in (
        (response(None, status="in_progress", id="resp_1"), True, None),
        (response(RESPONSE_USAGE, said, id="resp_1"), False, "completed"),
        (response(None, status="cancelled", id="resp_1"), False, "cancelled"),
    ):
        later = fetched("GET", RESPONSE, dump(answer))
        assert (later.kind, later.pending) == (Kind.CONTINUATION, pending)
        assert (later.finish_reason, later.cause) == (finish, None)
        assert later.response_digest == begun.response_digest is not None
        assert "resp_1" not in repr(later)
    other = fetched(
        "GET", "/v1/responses/resp_2", dump(response(RESPONSE_USAGE, said, id="resp_2"))
    )
    assert other.response_digest not in (None, begun.response_digest)
    assert response_digest("resp_1", SALT) == begun.response_digest


def test_a_response_that_failed_in_the_background_fails_the_call_that_fetches_it() -> None:
    error = {"code": "rate_limit_exceeded", "message": "Rate limit reached"}
    failed = fetched("GET", RESPONSE, dump(response(None, status="failed", error=error)))
    gone = fetched("GET", RESPONSE, dump({"error": {"message": "No response found"}}), 404)
    assert failed.cause is not None
    assert failed.cause.subcategory is Subcategory.RATE_LIMIT
    assert gone.cause is not None
    assert gone.response_digest == failed.response_digest is not None
    empty = fetched("GET", RESPONSE, b"")
    assert empty.cause is not None
    assert empty.cause.reason == "empty_body"


def test_a_request_in_an_unknown_encoding_is_unknown() -> None:
    observer = CallObserver(call(content_encoding="lz4"), salt=SALT)
    observer.on_request_body(b"\x00\x01")
    assert observer.finish(Ending.NEVER_CONNECTED, 101.0).model is None


def test_a_request_over_its_budget_is_counted_and_not_read() -> None:
    observer = CallObserver(call(), salt=SALT, limits=ObserverLimits(request_bytes=100))
    for _ in range(3):
        observer.on_request_body(dump({"model": "m", "pad": "x" * 40}))
    exchange = observer.finish(Ending.NEVER_CONNECTED, 101.0)
    assert (exchange.model, exchange.has_tools, exchange.unreadable_reason) == (None, None, None)
    assert exchange.request_bytes > 100


def test_a_head_that_comes_before_the_request_s_end_loses_nothing() -> None:
    request = dump({"model": "m", "messages": ["x" * 100]})
    observer = CallObserver(call(), salt=SALT)
    observer.on_request_body(request[:50])
    observer.on_response_head(413, head("text/plain"), 100.1)
    observer.on_request_body(request[50:])
    assert observer.finish(Ending.COMPLETE, 101.0).model == "m"


def failed(request: bytes, path: str = "/v1/messages", salt: bytes = SALT, cut: int = 5) -> str:
    observer = CallObserver(call(path), salt=salt)
    observer.on_request_body(request[:cut])
    observer.on_request_body(request[cut:])
    observer.on_response_head(429, head("application/json"), 100.2)
    digest = observer.finish(Ending.COMPLETE, 101.0).request_digest
    assert digest is not None
    return digest


def test_equal_requests_have_equal_digests_and_others_do_not() -> None:
    body = dump({"model": "m", "messages": ["secret"]})
    digest = failed(body)
    assert len(digest) == 16
    assert failed(body, cut=11) == digest
    assert failed(body + b" ") != digest
    assert failed(body, path="/v1/chat/completions") != digest
    assert failed(body, salt=b"another salt") != digest


def test_a_repeated_call_has_its_digest_also_when_it_succeeds() -> None:
    body = dump({"model": "m", "stream": True})
    observer = CallObserver(call("/v1/messages", x_stainless_retry_count="2"), salt=SALT)
    observer.on_request_body(body)
    observer.on_response_head(200, head(SSE), 100.2)
    observer.on_response_body(messages(MESSAGE_USAGE, text(0, "Yes"), end=MESSAGE_USAGE), 100.3)
    exchange = observer.finish(Ending.COMPLETE, 101.0)
    assert exchange.cause is None
    assert exchange.sdk_retry == 2
    assert exchange.request_digest == failed(body)


@pytest.mark.parametrize(("value", "retry"), [("0", 0), ("3", 3), ("x", None), ("99999", None)])
def test_the_sdk_s_retry_count_is_read(value: str, retry: int | None) -> None:
    observer = CallObserver(call(x_stainless_retry_count=value), salt=SALT)
    assert observer.in_flight().sdk_retry == retry
