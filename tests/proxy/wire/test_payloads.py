"""The payloads of one response: what each adds, and the first error."""

from __future__ import annotations

from proxy.wire import routes
from proxy.wire.dialect import ResponseFacts
from proxy.wire.framing import SseEvent
from proxy.wire.response import PayloadReader, parse_json
from tests.proxy.wire.samples import delta, dump
from tests.tables import each


def payloads(path: bytes = b"/v1/chat/completions") -> PayloadReader:
    return PayloadReader(routes.route("POST", path))


def test_every_event_is_worth_parsing_until_content_was_seen() -> None:
    one, text = payloads(), dump(delta(content="more"))
    seen = ResponseFacts()
    seen.output = seen.content = True
    assert one.is_worth_parsing(ResponseFacts(), text)
    assert not one.is_worth_parsing(seen, text)
    assert one.is_worth_parsing(seen, dump(delta("stop")))
    assert one.is_worth_parsing(seen, b"[DONE]")


def test_behind_reasoning_the_first_text_is_worth_parsing_and_more_reasoning_is_not() -> None:
    one, thought = payloads(), ResponseFacts()
    thought.output = True
    more = {"content": None, "reasoning_content": 'so "content": "no" follows'}
    assert not one.is_worth_parsing(thought, dump(delta(**more)))
    assert not one.is_worth_parsing(thought, dump(delta(**more | {"content": ""})))
    for content in ({"content": "a"}, {"content": [{"type": "text", "text": "a"}]},
                    {"refusal": "a"}, {"audio": {"data": "a"}}):  # fmt: skip
        assert one.is_worth_parsing(thought, dump(delta(**content)))


def test_the_terminal_event_ends_the_reading() -> None:
    reading = ResponseFacts()
    payloads().read_event(reading, SseEvent(None, b"[DONE]"))
    assert reading.ended


def test_the_first_error_is_kept() -> None:
    one, reading = payloads(), ResponseFacts()
    for message in ("first", "second"):
        one.read_document(reading, dump({"error": {"message": message}}), None)
    assert one.error is not None
    assert one.error.message == "first"


@each(
    "response, type_",
    [({"object": "realtime.response", "status": "failed"}, "response.failed"),
     ({"status_details": {"error": {"type": "server_error"}}}, "server_error")],
)  # fmt: skip
def test_a_realtime_response_that_failed_is_an_error(response: object, type_: str) -> None:
    one, reading = PayloadReader(routes.route(routes.WEBSOCKET, b"/v1/realtime")), ResponseFacts()
    one.read(reading, {"type": "response.created"}, None)
    one.read(reading, {"type": "response.done", "response": response}, None)
    assert one.error is not None
    assert one.error.type == type_


def test_what_is_no_strict_json_is_parsed_where_it_is_short() -> None:
    assert parse_json(b'{"a": NaN, "b": "\x00\\ud83d"}').keys() == {"a", "b"}  # type: ignore[attr-defined]
    assert parse_json(b'{"a": "\x00%s"}' % (b"a" * 300_000)) is None
    assert parse_json(b'{"a\x00": ' * 10_000) is None


@each("data", [b"no json", b'"no json"'])
def test_an_error_event_may_be_a_text(data: bytes) -> None:
    one = payloads()
    one.read_document(ResponseFacts(), data, "error")
    assert one.error is not None
    assert one.error.message == "no json"


def test_the_first_payload_tells_two_dialects_of_one_path_apart() -> None:
    one = payloads(b"/v1/chat")
    assert one.api == "cohere.v1.chat"
    one.read(ResponseFacts(), delta(content="a"), None)
    assert (one.api, one.dialect.name) == ("openai.chat", "openai.chat")


def test_a_payload_that_was_read_outdates_the_repeated_one() -> None:
    one = payloads(b"/v1beta/models/m:generateContent")
    one.repeated = b"{}"
    one.read(ResponseFacts(), {"usageMetadata": {"promptTokenCount": 1}}, None)
    assert one.repeated is None


def test_an_exception_without_a_json_body_has_its_header_s_message() -> None:
    one = payloads()
    one.read_exception("ThrottlingException", b"", "slow down")
    assert one.error is not None
    assert (one.error.type, one.error.message) == ("ThrottlingException", "slow down")


def test_what_is_no_json_is_none() -> None:
    assert parse_json(b"{") is parse_json(b"") is None
    assert parse_json(b"[1]") == [1]
