"""Where error objects stand in a body."""

from __future__ import annotations

import pytest

from proxy.wire.provider_error import (
    bare_exception,
    error_nodes,
    is_exception,
    substantial,
    text_of,
)


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
