from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.request import RequestFields, RequestReader
from tests.proxy.wire.samples import dump


def reader(body: bytes) -> RequestReader:
    made = RequestReader((), 1_000_000)
    made.feed(body)
    return made


def read_fields(body: bytes) -> RequestFields:
    return reader(body).fields()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        ({"model": "m", "messages": []}, ("m", False, False)),
        ({"messages": [], "model": "m", "stream": True}, ("m", True, False)),
        ({"model": "m", "stream": None, "tools": []}, ("m", False, False)),
        ({"model": "m", "tools": [{"name": "f"}]}, ("m", False, True)),
        ({"model": "m", "functions": [{"name": "f"}]}, ("m", False, True)),
        ({"toolConfig": {"tools": [{"toolSpec": {}}]}}, (None, False, True)),
        ({"model": "g", "request": {"tools": [{"functionDeclarations": []}]}},
         ("g", False, True)),
        ({"model": 7, "stream": "yes"}, ("7", False, False)),
    ],
)  # fmt: skip
def test_model_stream_and_tools_are_read(request_: object, answer: RequestFields) -> None:
    assert read_fields(dump(request_)) == answer


def test_only_the_request_s_own_keys_count_not_those_of_an_earlier_tool_call() -> None:
    earlier = {"type": "tool_use", "input": {"model": "x", "stream": True, "tools": [1]}}
    quoted = {"role": "user", "content": '{"model":"y","stream":true,"tools":[{}]}'}
    body = dump({"messages": [{"role": "assistant", "content": [earlier]}, quoted], "model": "m"})
    assert read_fields(body) == ("m", False, False)


@given(st.binary(max_size=100))
def test_what_is_no_json_object_is_unknown(body: bytes) -> None:
    assert read_fields(b"[" + body) == read_fields(b"") == (None, None, None)


def test_a_body_that_is_parsed_already_is_read_as_any_other() -> None:
    for body in (
        b'{"model":"a","stream":true,"tools":[{"name":"f"}]}',
        b'{"model":"a","model":"b"} ',
        b'{"model":"a","service_tier":"flex"}',
    ):
        by_itself, told = RequestReader((), 1000), RequestReader((), 1000)
        by_itself.feed(body)
        told.feed(body, orjson.loads(body))
        assert told.fields() == by_itself.fields()
        for what in ("ambiguous", "selected", "size"):
            assert getattr(told, what) == getattr(by_itself, what)
    over = RequestReader((), 5)
    over.feed(b'{"model":"a"}', {"model": "a"})
    assert over.fields() == (None, None, None)
