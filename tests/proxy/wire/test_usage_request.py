from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.capture.usage_injection import UsageFilter, with_usage
from tests.proxy.wire.chunks import cut, places
from tests.proxy.wire.samples import delta, dump, last, sse

U = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
ASKED = {"include_usage": True}


# -- the request ---------------------------------------------------------------------------


def test_a_stream_that_asks_for_nothing_is_asked_and_nothing_else_changes() -> None:
    body = b' {\n  "model": "m" ,"stream" : true, "messages":[ ]}\n'
    asked = with_usage(body)
    assert asked is not None
    assert json.loads(asked) == json.loads(body) | {"stream_options": ASKED}
    assert asked.replace(b'"stream_options":{"include_usage":true},', b"", 1) == body


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (None, ASKED),
        ({}, ASKED),
        ({"include_obfuscation": False}, ASKED | {"include_obfuscation": False}),
        ({"continuous_usage_stats": True}, ASKED | {"continuous_usage_stats": True}),
    ],
)
def test_options_that_do_not_mention_it_are_added_to(options: object, wanted: object) -> None:
    request = {"stream": True, "stream_options": options, "n": 1}
    for body in (dump(request), json.dumps(request, indent=2).encode()):
        asked = with_usage(body)
        assert asked is not None
        assert json.loads(asked) == request | {"stream_options": wanted}


def test_options_in_an_earlier_tool_call_are_not_the_request_s() -> None:
    earlier = [{"arguments": {"stream_options": {}}}, {"x": '"stream_options":{}'}]
    request = {"messages": earlier, "stream": True, "stream_options": {"include_obfuscation": True}}
    asked = with_usage(dump(request))
    assert asked is not None
    assert json.loads(asked)["messages"] == earlier
    assert json.loads(asked)["stream_options"] == ASKED | {"include_obfuscation": True}


@pytest.mark.parametrize(
    "request_",
    [
        {"stream": True, "stream_options": {"include_usage": False}},
        {"stream": True, "stream_options": {"include_usage": True}},
        {"stream": True, "stream_options": {"include_usage": None}},
        {"stream": True, "stream_options": [1]},
        {"stream": False}, {"stream": "true"}, {"model": "m"}, {}, [], "stream",
    ],
)  # fmt: skip
def test_an_answer_already_given_and_no_stream_are_respected(request_: object) -> None:
    assert with_usage(dump(request_)) is None


@given(st.binary(max_size=60))
def test_what_is_no_json_stays(body: bytes) -> None:
    assert with_usage(b'"stream":true ' + body) is None


# -- the answer ----------------------------------------------------------------------------


def stripped(pieces: list[bytes], *, nulls: bool = True) -> bytes:
    stripper = UsageFilter(nulls=nulls)
    return b"".join([stripper.feed(piece) for piece in pieces]) + stripper.flush()


def asked_and_unasked(end: bytes = b"\n") -> tuple[bytes, bytes]:
    """Return the same stream with usage requested, and without."""
    chunks = [delta(role="assistant", content=""), delta(content='say "usage":null, twice'),
              delta(content="é" * 9) | {"obfuscation": "xY"}, delta("stop")]  # fmt: skip
    with_nulls = [
        {"id": "c1", "usage": None} | chunk if place == 1 else chunk | {"usage": None}
        for place, chunk in enumerate(chunks)
    ]
    with_nulls[2] = {k: with_nulls[2][k] for k in ("id", "object", "model", "choices", "usage",
                                                   "obfuscation")}  # fmt: skip
    return sse(*with_nulls, last(U), end=end), sse(*chunks, end=end)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_agent_sees_what_it_would_have_seen(end: bytes) -> None:
    asked, unasked = asked_and_unasked(end)
    assert stripped([asked]) == unasked
    assert stripped([asked[i : i + 1] for i in range(len(asked))]) == unasked


def test_blanks_between_the_tokens_of_a_chunk_do_not_matter() -> None:
    asked, unasked = (
        sse(*(json.dumps(chunk).encode() for chunk in chunks))
        for chunks in (
            [delta(content="a") | {"usage": None}, {"usage": None} | delta("stop"), last(U)],
            [delta(content="a"), delta("stop")],
        )
    )
    assert b'"usage": null' in asked
    assert stripped([asked]) == unasked


@given(places)
def test_it_sees_it_however_the_stream_is_cut(where: list[int]) -> None:
    asked, unasked = asked_and_unasked()
    assert stripped(cut(asked, where)) == unasked


@pytest.mark.parametrize("joined", [False, True])
def test_a_null_usage_with_scalars_behind_it_goes_as_openai_writes_it(joined: bool) -> None:
    chunk = delta(content='a,"usage":null')
    after = {"obfuscation": "aB3", "n": 1.5e3, "ok": None}
    asked = [sse(chunk | {"usage": None} | after, done=False), sse(last(U))]
    unasked = sse(chunk | after)
    assert stripped([b"".join(asked)] if joined else asked) == unasked
    assert stripped(asked, nulls=False) == asked[0] + b"data: [DONE]\n\n"


def test_an_event_is_forwarded_as_soon_as_it_is_whole() -> None:
    stripper = UsageFilter()
    one = sse(delta(content="a"), done=False)
    assert stripper.feed(one) == one
    assert stripper.feed(one[:9]) == b""
    assert stripper.feed(one[9:]) == one
    assert stripper.feed(sse(last(U), done=False)) == b""


def test_a_chunk_without_choices_that_has_no_usage_stays() -> None:
    first = {"choices": [], "model": "", "prompt_filter_results": [{"prompt_index": 0}]}
    assert stripped([sse(first | {"usage": None}, last(U))]) == sse(first)


def test_usage_that_rides_on_a_chunk_with_choices_stays() -> None:
    body = sse(delta("stop") | {"usage": U})
    assert stripped([body]) == body


def test_a_null_usage_inside_a_choice_stays() -> None:
    inner = delta(content="a")
    inner["choices"][0]["usage"] = None
    assert stripped([sse(inner)]) == sse(inner)
    between = {"choices": inner["choices"], "usage": None, "tail": [1]}
    assert stripped([sse(between)]) == sse({"choices": inner["choices"], "tail": [1]})


def test_nulls_that_the_server_sends_unasked_stay() -> None:
    body = sse(delta(content="a") | {"usage": None}, done=False)
    assert stripped([body + sse(last(U))], nulls=False) == body + b"data: [DONE]\n\n"


def test_comments_named_events_and_what_is_no_json_pass() -> None:
    comment = b': {"a":1,"usage":null}\n\n'
    assert stripped([comment]) == comment
    body = (b': "usage":null\n\nevent: x\ndata: {"usage":null}\n\ndata: {"usage":null\n\n'
            b'data: {"a":1,\ndata: "usage":null}\n\ndata: "usage"')  # fmt: skip
    assert stripped([body]) == body


@given(places)
def test_a_usage_chunk_goes_wherever_it_is_cut_where_no_other_chunk_speaks_of_usage(
    where: list[int],
) -> None:
    asked, unasked = sse(delta(content="a"), last(U)), sse(delta(content="a"))
    assert stripped(cut(asked, where)) == unasked
    assert stripped(cut(asked, [*where, len(unasked) - 12])) == unasked


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [65_536, 65_537, 1_000])
def test_an_event_over_the_limit_passes_and_those_after_it_are_stripped(
    end: bytes, size: int
) -> None:
    long = b"data: " + b"x" * 1_100_000 + 2 * end
    body = long + sse(last(U), end=end)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert stripped(pieces) == long + sse(end=end)
    for split in (1, 2, 3, 4):
        at = len(long) - split
        assert stripped([body[:at], body[at:]]) == long + sse(end=end)


def test_the_start_of_an_event_over_the_limit_is_not_held() -> None:
    stripper = UsageFilter()
    body = b"data: " + b"x" * 1_100_000
    assert stripper.feed(body) == body
    assert stripper.feed(b"y") == b"y"


@given(st.binary(max_size=200), places)
def test_random_bytes_pass_unchanged(data: bytes, where: list[int]) -> None:
    assert stripped(cut(data, where)) == data
