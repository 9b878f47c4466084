"""Response bodies that are no streams."""

from __future__ import annotations

from classifier.records import Flaw
from proxy.wire import routes
from proxy.wire.response import PayloadReader, read_body
from tests.proxy.wire.samples import chat, delta, lines
from tests.tables import each

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


def payloads(path: bytes = b"/v1/chat/completions") -> PayloadReader:
    return PayloadReader(routes.route("POST", path))


def test_a_json_body_is_complete() -> None:
    reading, complete, flaw = read_body(chat(USAGE), payloads())
    assert (reading.input_tokens, reading.output_tokens) == (1, 2)
    assert (complete, flaw) == (True, None)


def test_a_list_of_objects_is_read_one_by_one() -> None:
    body = b"[" + chat(USAGE) + b',"text",' + chat(USAGE | {"total_tokens": 9}) + b"]"
    reading, complete, _ = read_body(body, payloads())
    assert (reading.total_tokens, complete) == (9, True)


@each(
    "body, flaw",
    [(b"", Flaw.EMPTY_BODY), (b" \n", Flaw.EMPTY_BODY), (b"\n<!DOCTYPE html><p>", Flaw.HTML_BODY),
     (b'{"choices":[', Flaw.TRUNCATED), (b"plain", Flaw.FOREIGN_BODY),
     (b'"text"', Flaw.FOREIGN_BODY), (b"12", Flaw.FOREIGN_BODY)],
)  # fmt: skip
def test_what_is_no_object_has_its_flaw(body: bytes, flaw: Flaw | None) -> None:
    assert read_body(body, payloads())[1:] == (False, flaw)


def test_json_lines_are_events_and_truncated_without_an_end() -> None:
    body = lines(delta(content="a"), delta(content="b"))
    assert read_body(body, payloads())[1:] == (False, Flaw.TRUNCATED)
    finished = lines(delta(content="a"), delta("stop"))
    assert read_body(finished, payloads())[2] is None


@each("body", [b"it is raining", b'"it is raining"'])
def test_a_text_is_an_error_where_the_status_is_one(body: bytes) -> None:
    failed, fine = payloads(), payloads()
    failed.refused = True
    read_body(body, failed)
    read_body(body, fine)
    assert failed.error is not None
    assert failed.error.message == "it is raining"
    assert fine.error is None


@each("body", [b"Rate limit exceeded", b'"Rate limit exceeded"'])
def test_a_text_is_an_error_where_it_says_so(body: bytes) -> None:
    chat, opaque = payloads(), payloads(b"/completion")
    read_body(body, chat)
    read_body(body, opaque)  # where a text may be what was generated
    assert chat.error is not None
    assert chat.error.message == "Rate limit exceeded"
    assert opaque.error is None
