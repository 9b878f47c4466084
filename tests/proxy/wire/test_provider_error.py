"""What an error body and the headers around it say, shape by shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import ProviderError
from proxy.wire.provider_error import (
    MESSAGE_CAP,
    bare_exception,
    error_nodes,
    is_exception,
    nothing_left,
    read_error,
    read_text_error,
    retry_after,
    stated_type,
    substantial,
    text_of,
    with_stated_status,
)
from tests.tables import each, lines

HERE = Path(__file__).parent
NOW = 1_780_000_000.0  # 2026-05-28T20:26:40Z


@each("row", lines(HERE / "error_shapes.jsonl"), ids=lambda row: f"{row['shape']} {row['body']}")
def test_every_shape_is_read(row: dict[str, Any]) -> None:
    """Those that hold no error too, and the wait that a body states by itself or as headers."""
    error = read_error(row["body"], event=row.get("event"), refused=row.get("refused", True))
    said = row["said"]
    if said is None:
        assert error is None
        return
    headers = tuple((name.encode(), value.encode()) for name, value in said.get("headers", ()))
    reasons = tuple(said.get("reasons", ()))
    assert error == ProviderError(**{**said, "reasons": reasons, "headers": headers})
    assert retry_after(headers, now=NOW) == row.get("wait")


def test_a_message_is_capped() -> None:
    error = read_error({"error": {"message": "x" * 9_000}})
    assert error is not None
    assert error.message is not None
    assert len(error.message) == MESSAGE_CAP


def test_endless_nesting_is_read_to_a_depth() -> None:
    body: object = {"message": "deep"}
    for _ in range(300):
        body = {"error": body}
    read_error(body)
    inside = json.dumps({"error": {"message": "x"}})
    for _ in range(12):
        inside = json.dumps({"error": {"message": inside}})
    read_error(json.loads(inside))


def test_a_short_text_is_a_message_and_a_page_is_not() -> None:
    assert read_text_error(" no route \n") == ProviderError(message="no route")
    assert read_text_error("<html>502</html>") is None
    assert read_text_error("  ") is None
    long = read_text_error("y" * 9_000)
    assert long is not None
    assert len(long.message or "") == MESSAGE_CAP


# -- headers -----------------------------------------------------------------------------


@each(
    "value, name",
    [
        (b"ValidationException", "ValidationException"),
        (b"ThrottlingException:http://internal/coral/", "ThrottlingException"),
        (b"com.amazon.coral.service#AccessDeniedException", "AccessDeniedException"),
        (b"", None),
    ],
)
def test_the_stated_exception_loses_namespace_and_link(value: bytes, name: str | None) -> None:
    assert stated_type([(b"content-type", b"x"), (b"x-amzn-errortype", value)]) == name
    assert stated_type([(b"content-type", b"x")]) is None


@given(st.dictionaries(st.sampled_from(["error", "message", "code", "detail", "x"]), st.text()))
def test_no_body_makes_it_raise(body: dict[str, str]) -> None:
    read_error(body)
    read_error([body])
    read_error({"error": body}, event="error")


# --- Where error objects stand in a body ----------------------------------------------------------


@each(
    "body, event, first",
    [
        ({"error": {"message": "m"}}, None, {"message": "m"}),
        ({"choices": [{"error": {"code": 502}}]}, None, {"code": 502}),
        ({"type": "response.failed", "response": {}}, None, {"type": "response.failed"}),
        ({"base_resp": {"status_code": 1008, "status_msg": "m"}}, None,
         {"reason": "base_resp.1008", "message": "m"}),
        ({"errors": [{"code": 10000, "message": "m"}]}, None,
         {"reason": "errors.10000", "message": "m"}),
        ({"__type": "a.b#ThrottlingException"}, None, {"type": "ThrottlingException"}),
        ({"message": "m"}, "ValidationException", {"type": "ValidationException"}),
        ({"type": "response.done", "response": {"object": "realtime.response", "status": "failed"}},
         None, {"type": "response.failed"}),
        ({"choices": [{"index": 0}, {"finish_reason": "error", "native_finish_reason": "abort"}]},
         None, {"type": "finish_reason.error", "reason": "abort"}),
        ({"type": "message-end", "delta": {"finish_reason": "ERROR"}}, None,
         {"type": "finish_reason.error"}),
        ({"message": "m"}, None, {"message": "m"}),
    ],
)  # fmt: skip
def test_the_innermost_error_comes_first(
    body: dict[str, object], event: str | None, first: object
) -> None:
    assert next(iter(error_nodes(body, event))) == first


@each(
    "body",
    [
        {"choices": [], "message": "m"},
        {"error": None, "output": []},
        {"base_resp": {"status_code": 0}},
        {"code": 200, "message": "OK"},
        {"success": True, "errors": []},
    ],
)
def test_a_response_holds_none(body: dict[str, object]) -> None:
    assert list(error_nodes(body, None)) == []


def test_a_key_of_responses_without_a_value_makes_no_response() -> None:
    """SiliconFlow: ``{"code": 30001, "message": "…", "data": null}``."""
    assert list(error_nodes({"code": 30001, "message": "No.", "data": None}, None)) != []


def test_what_is_nested_too_deep_is_not_looked_for() -> None:
    inner: object = None
    for _ in range(100_000):
        inner = {"error": inner}
    assert not substantial(inner)
    assert not substantial({"error": {"error": [{"error": None}]}})


def test_an_error_field_without_content_is_none() -> None:
    assert not substantial({"code": None, "message": "", "details": [{}]})
    assert substantial({"code": None, "details": [{"reason": "x"}]})
    assert not substantial([[[[[[[[["too deep"]]]]]]]]])


def test_an_exception_is_known_by_its_name() -> None:
    assert is_exception("validationException")
    assert not is_exception("chunk")
    assert not is_exception(None)
    assert bare_exception("com.amazon#DeniedException:http://x") == "DeniedException"


def test_a_message_is_bounded_text() -> None:
    assert text_of(" m ") == "m"
    assert text_of("x" * 3000) == "x" * 2000
    assert text_of("  ") is text_of({"message": "m"}) is None


# --- How long a provider asks to wait, header by header -------------------------------------------


@each("row", lines(HERE / "waits.jsonl"), ids=lambda row: str(row["headers"]))
def test_every_header_that_asks_to_wait_is_read(row: dict[str, Any]) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in row["headers"]]
    wait = retry_after(pairs, now=NOW)
    assert wait == (None if row["wait"] is None else pytest.approx(row["wait"]))


@each(
    "name, value, left",
    [
        ("x-ratelimit-remaining-tokens", "0", False),
        ("anthropic-ratelimit-input-tokens-remaining", " 0", False),
        ("x-ratelimitbysize-remaining-minute", "0.0", False),
        ("x-ratelimit-remaining-requests", "1", True),
        ("x-ratelimit-remaining", "none", True),
        ("x-ratelimit-limit-tokens", "0", True),
        ("x-remaining-credits", "0", True),
    ],
)
def test_an_answer_says_that_nothing_was_left_of_a_limit(name: str, value: str, left: bool) -> None:
    other = (b"x-ratelimit-remaining-images", b"9")
    assert nothing_left([other, (name.encode(), value.encode())]) is not left


@each(
    "text, status",
    [
        ("Request Entity Too Large", 413),
        ("413 Content Too Large", 413),
        ("Unprocessable Entity", 422),
        ("Error: Unprocessable Content", 422),
        ("429 Too Many Requests", 429),
        ("The content is too large a subject", None),
    ],
)
def test_a_reason_phrase_names_its_status_by_its_old_name_and_its_new(
    text: str, status: int | None
) -> None:
    """RFC 7231 and RFC 9110; Python knows one of the two, by its version."""
    assert with_stated_status(ProviderError(message=text)).status == status


NAMES = st.sampled_from(
    [
        b"retry-after",
        b"retry-after-ms",
        b"x-ratelimit-reset",
        b"x-ratelimit-reset-tokens",
        b"x-ratelimit-remaining-tokens",
        b"anthropic-ratelimit-tokens-reset",
        b"x-amzn-errortype",
    ]
)


@given(
    st.lists(
        st.tuples(
            NAMES | st.binary(max_size=12),
            st.binary(max_size=24) | st.from_regex(rb"[0-9a-zA-Z:.,\- +TZ]{1,24}", fullmatch=True),
        )
    ),
    st.floats(0, 4e9),
)
def test_no_header_makes_it_raise_or_wait_less_than_nothing(
    headers: list[tuple[bytes, bytes]], now: float
) -> None:
    wait = retry_after(headers, now=now)
    assert wait is None or wait >= 0
    stated_type(headers)
