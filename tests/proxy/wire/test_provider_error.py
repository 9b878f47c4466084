"""What an error body and the headers around it say, shape by shape."""

from __future__ import annotations

import json
from email.utils import formatdate
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

NOW = 1_780_000_000.0  # 2026-05-28T20:26:40Z


@each("row", lines(Path(__file__).with_name("error_shapes.jsonl")), ids=lambda row: row["shape"])
def test_every_shape_is_read(row: dict[str, Any]) -> None:
    said = {**row["said"], "reasons": tuple(row["said"].get("reasons", ()))}
    assert read_error(row["body"], event=row.get("event")) == ProviderError(**said)


@each(
    "healthy",
    [
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"error": {"code": None, "message": "", "type": None}},
        {"choices": [{"message": {"role": "assistant", "content": "x"}}], "error": None},
        {"message": {"role": "assistant", "content": "x"}, "done": True},
        {"object": "response", "status": "completed", "error": None, "output": []},
        {"type": "response.incomplete", "response": {"status": "incomplete", "error": None}},
        {"type": "message_start", "message": {"content": []}},
        {"type": "ping"},
        {"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}},
        {"base_resp": {"status_code": 0, "status_msg": "success"}, "choices": []},
        {"success": True, "errors": [], "messages": [], "result": {"response": "x"}},
        {"code": 200, "msg": "ok", "success": True},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": {}}},
        {"message": "thought", "usage": {"total_tokens": 3}, "choices": []},
        [],
        [{"candidates": []}],
        "text",
        None,
        3,
    ],
)
def test_a_healthy_answer_holds_no_error(healthy: object) -> None:
    assert read_error(healthy) is None


@pytest.mark.parametrize(
    ("body", "status", "wait"),
    [
        ({"error": {"message": "m"}, "statusCode": 503, "retry_after": 9}, 503, 9.0),
        ({"success": False, "message": "m", "retryAfter": "2s"}, None, 2.0),
        ({"OriginalStatusCode": 429, "OriginalMessage": '{"retry_after": 3, "error": "m"}'},
         429, 3.0),
        ({"code": "rate_limit", "message": "m", "data": {"retry_after": 4}}, None, 4.0),
    ],
)  # fmt: skip
def test_the_status_and_the_wait_beside_an_error_are_its_own(
    body: dict[str, object], status: int | None, wait: float
) -> None:
    error = read_error(body, refused=False)
    assert error is not None
    assert (error.status, error.retry_after_s) == (status, wait)


@pytest.mark.parametrize(
    "beside",
    [
        {"retryDelay": "12s"}, {"retry_after": 12}, {"retry-after": "12"}, {"Retry-After": 12.0},
        {"retryAfterMs": 12_000}, {"retry_after_ms": "12000"}, {"resets_in_seconds": 12},
        {"reset_in": "12 seconds"}, {"wait_seconds": 12}, {"quotaResetDelay": "12s"},
        {"retry_after": {"seconds": 12}}, {"metadata": {"retry_after_seconds": 12}},
        {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}]},
        {"resets_at": NOW + 12}, {"resetAt": (NOW + 12) * 1000},
        {"metadata": {"quotaResetTimeStamp": "2026-05-28T20:26:52Z"}},
        {"metadata": {"headers": {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0",
                                  "X-RateLimit-Reset": str(int(NOW + 12) * 1000)}}},
        {"headers": {"Retry-After": 12, "Set-Cookie": "a"}},
    ],
)  # fmt: skip
def test_a_wait_is_read_wherever_a_body_states_it(beside: dict[str, object]) -> None:
    error = read_error({"error": {"message": "Slow down", "code": 429, **beside}})
    assert error is not None
    quoted = retry_after(error.headers, now=NOW)
    assert (error.retry_after_s if quoted is None else quoted) == pytest.approx(12.0)


@pytest.mark.parametrize(
    "beside",
    [
        {"retry_after": True}, {"retries": 12}, {"reset": 12}, {"retryable": 12}, {"waiting": 12},
        {"retry_after": "soon"}, {"headers": {"x-request-id": "12"}}, {"headers": ["Retry-After"]},
        {"metadata": {"headers": {"X-RateLimit-Remaining": 3, "X-RateLimit-Reset": 12}}},
    ],
)  # fmt: skip
def test_what_states_no_wait_is_none(beside: dict[str, object]) -> None:
    error = read_error({"error": {"message": "Slow down", "code": 429, **beside}})
    assert error is not None
    assert (error.retry_after_s, retry_after(error.headers, now=NOW)) == (None, None)


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


@pytest.mark.parametrize(
    ("value", "name"),
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


@pytest.mark.parametrize(
    ("body", "event", "first"),
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


@pytest.mark.parametrize(
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


@each(
    "headers, wait",
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": formatdate(NOW + 90, usegmt=True)}, 90.0),
        ({"retry-after": formatdate(NOW - 90, usegmt=True)}, 0.0),
        ({"retry-after": "99999999"}, 366 * 86_400.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, 366 * 86_400.0),
        ({"retry-after-ms": "9" * 18}, 366 * 86_400.0),
        ({"x-ratelimit-reset-requests": "99999999h"}, 366 * 86_400.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-requests": "0" * 62 + "1s"}, 1.0),
        (
            {"x-ratelimit-reset-requests": "0" * 63 + "1s"},
            None,
        ),  # too many digits
        ({"x-ratelimit-reset-requests": "12"}, 12.0),
        ({"x-ratelimit-reset": str(int(NOW) + 40)}, 40.0),
        ({"x-ratelimit-reset": str((int(NOW) + 40) * 1000)}, 40.0),
        ({"x-ratelimit-reset": str(int(NOW) - 40)}, 0.0),
        ({"ratelimit-reset": "30"}, 30.0),
        ({"x-ratelimit-reset-tokens-minute": "11.5"}, 11.5),
        ({"ratelimitbysize-reset": "13"}, 13.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-05-28T20:27:00Z"}, 20.0),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW) + 5)}, 5.0),
        ({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ms-retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-retry-after": "7"}, 7.0),
        ({"retry-after": "1 minute, 12 seconds"}, 72.0),
        ({"x-rate-limit-reset": str(int(NOW) + 40)}, 40.0),
        ({"ratelimit": "limit=10, remaining=0, reset=30"}, 30.0),
        ({"ratelimit": '"minute";r=0;t=31'}, 31.0),
        ({"ratelimit": '"minute";r=5;t=31'}, None),
    ],
)
def test_every_way_of_asking_to_wait_is_read(headers: dict[str, str], wait: float | None) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    said = retry_after(pairs, now=NOW)
    assert said == (None if wait is None else pytest.approx(wait))


def test_only_a_window_that_is_used_up_counts() -> None:
    headers = [
        (b"x-ratelimit-remaining-requests", b"14000"),
        (b"x-ratelimit-reset-requests", b"23h59m"),
        (b"x-ratelimit-remaining-tokens", b"0"),
        (b"x-ratelimit-reset-tokens", b"4.5s"),
    ]
    assert retry_after(headers, now=NOW) == pytest.approx(4.5)
    assert retry_after(headers[:2], now=NOW) is None


@pytest.mark.parametrize(
    ("name", "value", "left"),
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


def test_the_longest_of_several_used_up_windows_counts() -> None:
    headers = [
        (b"anthropic-ratelimit-requests-remaining", b"0"),
        (b"anthropic-ratelimit-requests-reset", b"2026-05-28T20:27:00Z"),
        (b"anthropic-ratelimit-tokens-remaining", b"0"),
        (b"anthropic-ratelimit-tokens-reset", b"2026-05-28T20:26:50Z"),
    ]
    assert retry_after(headers, now=NOW) == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("text", "status"),
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
