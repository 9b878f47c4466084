from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.request import (
    RequestFields,
    RequestReader,
    digest,
    in_body,
    in_head,
    may_select,
    output_limit,
    prompt_words,
    writes_model_twice,
)
from tests.proxy.wire.samples import dump
from tests.tables import each, lines


def reader(body: bytes) -> RequestReader:
    made = RequestReader((), 1_000_000)
    made.feed(body)
    return made


def read_fields(body: bytes) -> RequestFields:
    return reader(body).fields()


@each("row", lines(Path(__file__).with_name("requests.jsonl")), ids=str)
def test_fields_limits_and_what_chooses_are_as_written(row: dict[str, Any]) -> None:
    match row:
        case {"request": request, "fields": fields}:
            assert list(read_fields(dump(request))) == fields
        case {"request": request, "limit": limit}:
            assert output_limit(request) == limit
        case {"request": request, "ambiguous": ambiguous}:
            read = reader(request.encode())
            read.fields()
            assert read.ambiguous is ambiguous
        case {"header": name, "chooses": chooses}:
            head = {b"user-agent": b"a", name.encode(): b"1"}
            assert may_select(head) or not chooses
            for operators_key in (True, False):
                found = in_head(head, b"", operators_key=operators_key)
                assert found == (((name, b"1"),) if chooses else ())
        case _:
            raise AssertionError(row)


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


# --- output limit ---------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["request", "options", "num_predict", "max_tokens", "generationConfig",
                         "maxOutputTokens", "inferenceConfig", "maxTokens"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def test_requests_inside_requests_are_not_followed_down() -> None:
    request: dict[str, Any] = {"max_tokens": 5}
    for _ in range(10_000):
        request = {"request": request}
    assert output_limit(request) is None
    assert output_limit({"request": {"max_tokens": 5}}) == 5


@given(st.dictionaries(st.sampled_from(["max_tokens", "request", "options"]), JSON))
def test_it_is_a_whole_number_from_1_on_or_unknown(request_: dict[str, Any]) -> None:
    limit = output_limit(request_)
    assert limit is None or (type(limit) is int and 1 <= limit <= 10**9)


# --- prompt words ---------------------------------------------------------------------------------

PROSE = "the river runs along the old wall and turns where nobody has built since the war "


def body(text: str) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()


@each("size", [9_000, 40_000, 400_000])
def test_prose_is_counted_nearly_whole_and_never_over(size: int) -> None:
    text = PROSE * (size // len(PROSE))
    words = prompt_words(body(text))
    assert words is not None
    assert 0.6 * len(text.split()) < words <= 1.02 * len(text.split())


NOTHING = {
    "base64": base64.b64encode(random.Random(1).randbytes(20_000)).decode(),
    "hex": random.Random(1).randbytes(10_000).hex(),
    "blanks": " " * 20_000,
    "blanks between words": ("word" + " " * 30) * 1_000,
    "a rule": "=====" * 4_000,
    "lines": "word\n" * 4_000,
    "another script": "слово за словом идут они " * 800,
    "escaped script": json.dumps("слово за словом идут они " * 800),
    "numbers": "12 34 56 78 " * 2_000,
    "one word": "x" * 20_000,
    "json": json.dumps([{"id": n, "ok": True} for n in range(1_000)], separators=(",", ":")),
}


@each("name", NOTHING)
def test_what_is_no_prose_counts_next_to_nothing(name: str) -> None:
    words = prompt_words(body(NOTHING[name]))
    assert words is not None
    assert words < len(NOTHING[name]) / 40


def test_prose_beside_a_blob_counts_by_its_share() -> None:
    text = PROSE * 250
    words = prompt_words(body(text + NOTHING["base64"]))
    assert words is not None
    assert words <= 1.2 * len(text.split())


def test_a_short_body_is_not_looked_at() -> None:
    assert prompt_words(PROSE.encode() * 100) is None
    assert prompt_words(PROSE.encode() * 102) is not None


@given(st.binary(max_size=64), st.integers(0, 200))
def test_any_bytes_have_no_more_words_than_pairs_of_bytes(piece: bytes, times: int) -> None:
    found = prompt_words(piece * times * 3)
    assert found is None or 0 <= found <= len(piece) * times * 3 / 2


# --------------------------------------------------------------------------------------------------
# What a request chooses beside its model has a digest, and a model written twice is seen

SALT = b"salt"


def test_headers_and_query_that_choose_are_found() -> None:
    head = {b"openai-organization": b"org-1", b"anthropic-beta": b"x-2025", b"user-agent": b"a"}
    assert in_head(head, b"", operators_key=False) == (
        ("anthropic-beta", b"x-2025"),
        ("openai-organization", b"org-1"),
    )
    assert in_head(head, b"", operators_key=True) == (("anthropic-beta", b"x-2025"),)
    azure = in_head({}, b"api-version=2024-10-21&x=1", operators_key=True)
    assert azure == (("api-version", b"2024-10-21"),)
    assert in_head({}, b"beta=true", operators_key=False) == ()
    other = {b"anthropic-version": b"2029-01-01"}
    assert in_head(other, b"", operators_key=False) != ()


@pytest.mark.parametrize("version", [b"2023-01-01", b"2023-06-01", b"2026-10-21", b" 2026-10-21"])
@pytest.mark.parametrize("operators_key", [True, False])
def test_no_version_of_the_providers_own_sdks_chooses(version: bytes, operators_key: bool) -> None:
    head = {b"anthropic-version": version}
    assert in_head(head, b"", operators_key=operators_key) == ()
    with_beta = head | {b"anthropic-beta": b"x-2026"}
    chosen = in_head(with_beta, b"", operators_key=operators_key)
    assert chosen == (("anthropic-beta", b"x-2026"),)


@pytest.mark.slow
def test_the_version_of_the_installed_sdk_chooses_nothing() -> None:
    import anthropic

    sent = anthropic.Anthropic(api_key="k").default_headers["anthropic-version"]
    assert in_head({b"anthropic-version": str(sent).encode()}, b"", operators_key=False) == ()


def test_fields_of_the_body_that_choose_are_found() -> None:
    chosen = in_body({"model": "m", "service_tier": "flex", "provider": {"order": ["a"]}})
    assert chosen == (("provider", b'{"order":["a"]}'), ("service_tier", b'"flex"'))
    assert in_body({"model": "m", "service_tier": None}) == ()


def test_a_digest_tells_choices_apart_and_holds_none_of_them() -> None:
    one, other = (("a", b"1"),), (("a", b"2"),)
    assert digest(one, SALT) == digest(one, SALT) != digest(other, SALT)
    assert digest(one, SALT) != digest(one, b"other salt")
    assert digest((("ab", b"c"),), SALT) != digest((("a", b"bc"),), SALT)
    assert digest((), SALT) is None


@each(
    "value",
    [
        json.dumps("a text cut in an emoji: \ud83d, \udc80").encode(),
        b'"\\\\ud83d and \\uD83D"',
        b"[NaN, -Infinity, Infinity]",
        b'"a\x01b\n"',
        b'"caf\xe9"',
    ],
)
def test_what_lenient_servers_read_is_read(value: bytes) -> None:
    body = b'{"model":"m","stream":true,"tools":[{}],"x":' + value + b"}"
    for written in (body, b"\xef\xbb\xbf" + body):
        one = reader(written)
        assert (one.fields(), one.ambiguous) == (("m", True, True), False)
        assert one.payload()["model"] == "m"


def test_a_compressed_body_is_looked_at_too_and_one_that_is_incomplete_is_not() -> None:
    reader = RequestReader((b"br-unknown",), 1_000_000)
    reader.feed(b"\x00")
    reader.fields()
    assert reader.ambiguous
    incomplete = RequestReader((), 1_000_000)
    incomplete.feed(b'{"model":"a","model":"b"')
    incomplete.fields()
    assert not incomplete.ambiguous
    too_long = RequestReader((), 4)
    too_long.feed(b'{"model":"a","model":"b"}')
    too_long.fields()
    assert not too_long.ambiguous


def test_many_objects_may_each_have_a_model_once() -> None:
    payload = {"model": "a", "tools": [{"model": n} for n in range(10_000)]}
    assert not writes_model_twice(orjson.dumps(payload), payload)


def test_what_is_nested_deeper_than_is_written_again_is_still_read() -> None:
    deep = b"[" * 900 + b"]" * 900
    for body, model in (
        (b'{"model":"m","messages":' + deep + b',"provider":' + deep + b"}", "m"),
        (b'{"messages":' + deep + b',"model":"a","model":"b"}', "b"),
    ):
        reader = RequestReader((), 1_000_000)
        reader.feed(body)
        assert reader.fields()[0] == model
        assert reader.ambiguous
        assert bool(reader.selected) is (b"provider" in body)
