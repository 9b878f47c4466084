"""Which messages of a socket are calls, and what became of each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from classifier.records import Ending, Exchange, Kind, UsageSource
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call, Conversations, response_digest
from proxy.features.websocket.capture import (
    CallChanges,
    WebSocketCapture,
    as_sse,
    websocket_api,
)
from proxy.wire import routes
from proxy.wire.framing import SseEvent, SseFeeder
from tests.fakes.talker import (
    RESPONSES,
    RESPONSES_FAILED,
    RESPONSES_TOOLS,
    create,
    event,
    realtime,
)

CALL = {"id": "f1", "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}


class Talk:
    """A conversation with a clock that goes a second a message, and what it noted."""

    def __init__(self, path: bytes = b"/v1/responses", model: str | None = None) -> None:
        self.now = 0.0
        self.begun: list[Exchange] = []
        self.over: list[Exchange] = []
        numbers = itertools.count(1)

        known = Conversations(b"secret")

        def observer() -> CallObserver:
            call = Call(
                id=f"x{next(numbers)}", rollout_id="r1", upstream="openai",
                method=routes.WEBSOCKET, path=path, started_at=1000 + self.now, began=self.now,
                client=("10.0.0.1", 1),
            )  # fmt: skip
            return CallObserver(call, salt=b"salt", conversations=known)

        self.conversation = WebSocketCapture(
            websocket_api(path), new_observer=observer, headers=((b"x-request-id", b"q"),),
            model=model,
        )  # fmt: skip

    def agent(self, *messages: str) -> Talk:
        return self._each(messages, self.conversation.on_agent_message)

    def provider(self, *messages: str) -> Talk:
        return self._each(messages, lambda m: self.conversation.on_provider_message(m, self.now))

    def ends(
        self, ending: Ending = Ending.CUT_UPSTREAM, code: int | None = None, reason: str = ""
    ) -> Talk:
        self._keep(self.conversation.on_close(ending, self.now, code, reason))
        return self

    def _each(self, messages: Iterable[str], hear: Callable[[bytes], CallChanges]) -> Talk:
        for message in messages:
            self.now += 1
            self._keep(hear(message.encode()))
        return self

    def _keep(self, changes: CallChanges) -> None:
        self.begun += changes.started
        self.over += changes.finished

    @property
    def only(self) -> Exchange:
        (exchange,) = self.over
        return exchange


def talk() -> Talk:
    return Talk(b"/v1/realtime", "gpt-realtime")


def fails(code: str, status: int | None = None, **more: object) -> str:
    stated = {} if status is None else {"status": status}
    error = {"type": "invalid_request_error", "code": code, "message": "no"}
    return event("error", error=error, **stated, **more)


# --- the Responses API -----------------------------------------------------------------------


def test_a_response_is_an_exchange_with_its_own_times_and_usage() -> None:
    talked = Talk().agent(create()).provider(*RESPONSES)
    (begun,) = talked.begun
    over = talked.only
    assert (begun.id, begun.ending, begun.model) == ("x1", None, "gpt-5")
    assert (over.id, over.ending, over.status, over.cause) == ("x1", Ending.COMPLETE, 200, None)
    assert (over.kind, over.method, over.api) == (Kind.INFERENCE, "WEBSOCKET", "openai.responses")
    assert (over.usage.input_tokens, over.usage.output_tokens) == (31, 5)
    assert over.usage.cached_input_tokens == 8
    assert over.usage.source is UsageSource.PROVIDER
    assert (over.timing.started_at, over.timing.first_byte_s) == (1001, 1)
    assert over.timing.first_token_s == 5
    assert over.timing.duration_s == len(RESPONSES)
    assert over.request_bytes == len(create())
    assert over.response_bytes == sum(map(len, RESPONSES))
    assert (over.output_seen, over.tool_calls, over.streamed) == (True, 0, True)


def test_the_next_response_on_the_socket_is_the_next_exchange() -> None:
    talked = Talk().agent(create("gpt-5")).provider(*RESPONSES)
    talked.agent(create("gpt-5-mini")).provider(*RESPONSES_TOOLS)
    first, second = talked.over
    assert [first.model, second.model] == ["gpt-5", "gpt-5-mini"]
    assert [first.tool_calls, second.tool_calls] == [0, 1]
    assert talked.conversation.idle


def test_messages_that_ask_for_nothing_begin_no_call() -> None:
    talked = Talk().agent(
        event("response.processed", response_id="resp_1"),
        event("conversation.item.create", item={"text": '"response.create"'}),
        event("x", inner={"type": "response.create"}),
        'no JSON, "response.create"',
    )
    talked.provider(event("codex.rate_limits"), "no JSON", '"error"', event("response.completed"))
    assert (talked.begun, talked.over) == ([], [])


def test_limits_that_a_message_states_are_told_and_are_part_of_the_call_as_ever() -> None:
    talked, told = Talk().agent(create()), list[object]()
    talked.conversation._on_limits = told.append  # noqa: SLF001  told in place of the connection
    limits = event("codex.rate_limits", rate_limits={"primary": {"used_percent": 100}})
    first, *rest = RESPONSES
    talked.provider(first, limits, *rest)
    assert told == [json.loads(limits)]
    assert talked.only.response_bytes == sum(map(len, (limits, *RESPONSES)))


def test_a_failed_response_says_why() -> None:
    over = Talk().agent(create()).provider(*RESPONSES_FAILED).only
    assert over.cause is not None
    assert (over.cause.subcategory, over.cause.code) == (
        Subcategory.PROVIDER_ERROR,
        "server_error",
    )


def test_an_error_message_carries_the_status_and_headers_of_a_refused_request() -> None:
    stated = {"Retry-After": 7, "x-a": "b", "odd": None}
    refusal = fails("rate_limit_exceeded", 429, headers=stated)
    talked = Talk().agent(create()).provider(refusal)
    over = talked.only
    assert over.cause is not None
    assert (over.status, over.cause.subcategory) == (429, Subcategory.RATE_LIMIT)
    assert over.cause.retry_after_s == 7
    assert over.request_digest is not None
    assert talked.conversation.idle


@pytest.mark.parametrize(
    ("stated", "status"),
    [({"status": given}, 200) for given in (None, 200, True, "429", 99_999)]
    + [({}, 200), ({"status_code": 503}, 503)],
)
def test_an_error_message_without_a_status_of_a_failure_is_one_inside_a_200(
    stated: dict[str, object], status: int
) -> None:
    error = {"code": "insufficient_quota"}
    over = Talk().agent(create()).provider(event("error", error=error, **stated)).only
    assert over.cause is not None
    assert (over.status, over.cause.subcategory) == (status, Subcategory.QUOTA)


def test_an_error_ends_the_response_that_had_begun() -> None:
    talked = Talk().agent(create()).provider(*RESPONSES[:6], fails("server_error"))
    assert talked.only.output_seen
    assert talked.only.cause is not None
    assert talked.conversation.idle


def test_an_error_before_any_request_is_an_exchange_of_its_own() -> None:
    talked = Talk().provider(fails("invalid_api_key", 401))
    over = talked.only
    assert [one.id for one in talked.begun] == [over.id]
    assert over.cause is not None
    assert (over.kind, over.status, over.cause.subcategory) == (
        Kind.INFERENCE,
        401,
        Subcategory.AUTH,
    )


TOOLS = [{"type": "function", "name": "look"}]


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        ({"tools": []}, False),
        ({"tools": TOOLS}, True),
        ({"input": [{"type": "additional_tools", "tools": TOOLS}]}, True),
    ],
)
def test_the_request_says_whether_there_are_tools(asked: dict[str, Any], has: bool) -> None:
    assert Talk().agent(create(**asked)).provider(*RESPONSES).only.has_tools is has


def test_a_warm_up_is_a_probe() -> None:
    talked = Talk().agent(create(generate=False)).provider(RESPONSES[0], RESPONSES[-1])
    assert (talked.begun[0].kind, talked.only.kind) == (Kind.PROBE, Kind.PROBE)


def on(stream: str, messages: Iterable[str]) -> list[str]:
    named = [one.replace("resp_1", f"resp_{stream}") for one in messages]
    return [json.dumps({**json.loads(one), "stream_id": stream}) for one in named]


def test_streams_on_one_socket_are_told_apart() -> None:
    talked = Talk().agent(create("one", stream_id="a"), create("two", stream_id="b"))
    pairs = itertools.zip_longest(on("b", RESPONSES_TOOLS), on("a", RESPONSES))
    talked.provider(*(one for pair in pairs for one in pair if one))
    found = {over.model: (over.tool_calls, over.output_seen) for over in talked.over}
    assert found == {"two": (1, True), "one": (0, True)}
    assert [over.model for over in talked.over] == ["two", "one"]


def test_an_error_on_one_stream_leaves_the_other_alone() -> None:
    talked = Talk().agent(create("one", stream_id="a"), create("two", stream_id="b"))
    talked.provider(fails("server_error", stream_id="b"), *on("a", RESPONSES))
    assert [(over.model, over.cause is None) for over in talked.over] == [
        ("two", False),
        ("one", True),
    ]


def test_requests_of_one_stream_are_answered_in_turn() -> None:
    second = [one.replace("resp_1", "resp_2") for one in RESPONSES_TOOLS]
    done = event("response.done", response={"id": "resp_1", "status": "completed"})
    talked = Talk().agent(create("one"), create("two")).provider(*RESPONSES, done, *second)
    assert [(over.model, over.tool_calls) for over in talked.over] == [("one", 0), ("two", 1)]


def test_a_response_that_nobody_asked_for_is_counted_too() -> None:
    talked = Talk().agent(create()).provider(*RESPONSES)
    talked.provider(*(one.replace("resp_1", "resp_2") for one in RESPONSES_TOOLS))
    assert [over.tool_calls for over in talked.over] == [0, 1]
    assert talked.over[1].answered_model == "gpt-5"


# --- the end ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "cause"),
    [(Ending.CUT_UPSTREAM, Subcategory.PROVIDER_ERROR), (Ending.LEFT_BY_AGENT, None)],
)
def test_a_call_under_way_when_the_socket_ends_is_over(
    ending: Ending, cause: Subcategory | None
) -> None:
    over = Talk().agent(create()).provider(*RESPONSES[:7]).ends(ending).only
    assert over.ending is ending
    assert (over.cause.subcategory if over.cause else None) == cause
    assert over.output_seen


def test_a_call_that_the_socket_took_along_without_a_word_failed() -> None:
    over = Talk().agent(create()).ends().only
    assert over.cause is not None
    assert (over.status, over.cause.transient) == (None, True)


def test_an_idle_socket_ends_quietly() -> None:
    talked = Talk().agent(create()).provider(*RESPONSES).ends(code=1011, reason="bye")
    assert len(talked.over) == 1
    for code in (None, 1000, 1001, 1005, 1006, 1012):
        assert Talk().ends(code=code, reason="bye").over == []
    assert Talk().ends(Ending.LEFT_BY_AGENT, 3000, "because").over == []


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("invalid_request_error.invalid_api_key", Subcategory.AUTH),
        ("insufficient_quota", Subcategory.QUOTA),
        ("The server is overloaded", Subcategory.PROVIDER_ERROR),
        ("", Subcategory.PROVIDER_ERROR),
    ],
)
@pytest.mark.parametrize("asked", [False, True])
def test_a_close_frame_may_say_why_no_model_answers(
    reason: str, cause: Subcategory, asked: bool
) -> None:
    talked = talk()
    talked.provider(event("session.created", session={"model": "gpt-realtime"}))
    if asked:
        talked.agent(create())
    over = talked.ends(code=3000, reason=reason).only
    assert over.cause is not None
    assert (over.cause.subcategory, over.model) == (cause, "gpt-5" if asked else "gpt-realtime")
    assert over.response_bytes == 0


@pytest.mark.parametrize(
    ("code", "reason", "cause", "finer"),
    [
        (1003, "", Subcategory.REJECTED_REQUEST, "unsupported"),
        (1007, "", Subcategory.REJECTED_REQUEST, "malformed"),
        (1008, "", Subcategory.REJECTED_REQUEST, None),  # unexplained
        (1009, "", Subcategory.REJECTED_REQUEST, "too_large"),
        (1009, "message too big", Subcategory.REJECTED_REQUEST, "too_large"),
        (1008, "invalid_request_error.invalid_api_key", Subcategory.AUTH, None),
        (1008, "Your account balance is insufficient", Subcategory.QUOTA, None),
        (1011, "", Subcategory.PROVIDER_ERROR, "in_band"),
    ],
)
def test_a_close_that_answers_a_message_rejects_it_unless_its_reason_says_otherwise(
    code: int, reason: str, cause: Subcategory, finer: str | None
) -> None:
    over = talk().agent(create()).ends(code=code, reason=reason).only
    assert over.cause is not None
    assert (over.cause.subcategory, over.cause.reason) == (cause, finer)


# --- realtime --------------------------------------------------------------------------------


def test_realtime_usage_is_read_from_its_singular_details() -> None:
    over = talk().agent(event("response.create")).provider(*realtime()).only
    usage = over.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (31, 5, 36)
    assert (usage.cached_input_tokens, usage.input_total, usage.output_total) == (8, 31, 5)
    assert usage.source is UsageSource.PROVIDER
    assert (over.api, over.model, over.finish_reason) == (
        "openai.realtime",
        "gpt-realtime",
        "completed",
    )
    assert (over.output_seen, over.tool_calls) == (True, 0)


def test_each_response_inside_a_socket_has_the_digest_of_its_own_id() -> None:
    heard = talk()
    for name in ("resp_1", "resp_2"):
        heard.agent(event("response.create")).provider(*realtime(name))
    digests = [over.response_digest for over in heard.over]
    assert digests == [response_digest(name, b"salt") for name in ("resp_1", "resp_2")]


def test_a_realtime_tool_call_is_counted_once() -> None:
    over = talk().agent(event("response.create")).provider(*realtime(item=CALL)).only
    assert over.tool_calls == 1


def test_a_session_says_which_model_and_tools_its_calls_have() -> None:
    talked = Talk(b"/openai/realtime")
    session = {"model": "gpt-realtime-2", "tools": [{"type": "function", "name": "look"}]}
    talked.provider(event("session.created", session=session))
    talked.agent(event("response.create")).provider(*realtime())
    assert (talked.only.model, talked.only.has_tools) == ("gpt-realtime-2", True)


def test_the_provider_may_answer_speech_unasked() -> None:
    talked = talk().provider(event("input_audio_buffer.speech_stopped"), *realtime())
    assert talked.only.usage.output_tokens == 5
    assert talked.only.request_bytes == 0


def test_responses_side_by_side_are_told_apart_by_their_ids() -> None:
    talked = talk().agent(event("response.create"), event("response.create"))
    first, second = realtime("resp_1"), realtime("resp_2", item=CALL)
    talked.provider(first[0], second[0], second[1], first[1], first[2], second[2], second[3])
    assert [over.tool_calls for over in talked.over] == [1]
    talked.provider(first[3])
    assert [over.tool_calls for over in talked.over] == [1, 0]


def test_a_realtime_response_that_failed_names_its_cause() -> None:
    error = {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no"}
    details = {"type": "failed", "error": error}
    messages = realtime(status="failed", details=details, usage=None)
    over = talk().agent(event("response.create")).provider(messages[0], messages[-1]).only
    assert over.cause is not None
    assert (over.cause.subcategory, over.finish_reason) == (Subcategory.QUOTA, "failed")
    assert over.usage.output_tokens is None


def test_a_response_that_the_user_talked_over_is_no_failure() -> None:
    details = {"type": "cancelled", "reason": "turn_detected"}
    messages = realtime(status="cancelled", details=details)
    over = talk().agent(event("response.create")).provider(*messages).only
    assert (over.cause, over.finish_reason) == (None, "cancelled:turn_detected")


def test_a_realtime_error_leaves_the_response_under_way_alone() -> None:
    messages = realtime()
    talked = talk().agent(event("response.create")).provider(*messages[:3])
    talked.provider(fails("response_cancel_not_active"), messages[3])
    mistake, answer = talked.over
    assert mistake.cause is not None
    assert mistake.cause.subcategory is Subcategory.REJECTED_REQUEST
    assert (answer.cause, answer.usage.output_tokens) == (None, 5)


@pytest.mark.parametrize(("blamed", "open_calls"), [("mine", 0), (None, 0), ("other", 1)])
def test_a_realtime_error_ends_the_request_it_blames(blamed: str | None, open_calls: int) -> None:
    error = {"type": "invalid_request_error", "code": "x", "event_id": blamed}
    talked = talk().agent(event("response.create", event_id="mine"))
    talked.provider(event("error", error=error))
    assert len(talked.over) == 1
    assert len(talked.begun) - len(talked.over) == open_calls


# --- what is not understood ------------------------------------------------------------------


def test_a_socket_of_another_kind_is_not_listened_to() -> None:
    talked = Talk(b"/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerate")
    talked.agent(create()).provider(*RESPONSES, fails("x")).ends(code=3000, reason="x")
    assert (talked.begun, talked.over) == ([], [])


def test_no_text_is_kept() -> None:
    talked = Talk().agent(create(instructions="my secret prompt")).provider(*RESPONSES)
    talked.agent(create()).provider(
        event("error", error={"code": "x", "message": "your secret prompt"})
    )
    assert "secret" not in repr(talked.over)
    assert "zero" not in repr(talked.over)


# -- the facts of a request ----------------------------------------------------------------


def asks(*items: object, **more: object) -> str:
    return json.dumps({"type": "response.create", "model": "m", "input": list(items),
                       "instructions": "You look.", **more})  # fmt: skip


def said(role: str, text: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def test_calls_of_a_socket_go_on_with_each_other() -> None:
    first = said("user", "Find it.")
    more = [first, said("assistant", "Where?"), said("user", "There.")]
    over = Talk().agent(asks(first, max_output_tokens=90)).provider(*RESPONSES)
    over.agent(asks(*more)).provider(*RESPONSES)
    over.agent(asks(said("user", "On."), previous_response_id="r")).provider(*RESPONSES)
    one, two, three = over.over
    assert (one.output_limit, one.continues, one.begun_elsewhere) == (90, None, False)
    assert (two.output_limit, two.continues) == (None, one.id)
    assert three.continues is None


def test_a_realtime_response_has_its_own_limit_and_tools() -> None:
    wanted = event("response.create", response={"max_output_tokens": 70, "tools": TOOLS})
    over = Talk(b"/v1/realtime").agent(wanted).provider(*realtime()).only
    assert (over.output_limit, over.has_tools) == (70, True)


def test_a_call_that_is_left_in_the_text_is_found_on_a_socket_too() -> None:
    first = said("user", "Find it.")
    raw = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    for written, found in ((raw, True), (raw + " is how", False)):
        answer = [event("response.output_text.delta", delta=letter) for letter in written]
        end = event("response.completed", response={"status": "completed"})
        asked = asks(first, tools=[{"name": "look"}])
        assert Talk().agent(asked).provider(*answer, end).only.written_call is found
        assert Talk().agent(asks(first)).provider(*answer, end).only.written_call is None


# --- The events of OpenAI's WebSocket APIs --------------------------------------------------------


@pytest.mark.parametrize("message", [b'{"a":"b"}', b'{\n "a": "b"}', b'{\r"a":\r"b"}'])
def test_a_message_is_one_event_whatever_its_line_breaks(message: bytes) -> None:
    (event,) = SseFeeder(1000).feed(as_sse(message))
    assert isinstance(event, SseEvent)
    assert json.loads(event.data) == {"a": "b"}
