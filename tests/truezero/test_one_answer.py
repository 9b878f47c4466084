"""One answer, judged by itself, has the cause that the wire gives it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from classifier.records import Cause, Ending
from tests.labelled.play import Played, play
from tests.labelled.score import proof
from truezero import CauseOfFailure, cause_of

ROOT = Path(__file__).parents[2]
JSON = {"Content-Type": "application/json"}
URL = "https://api.openai.com/v1/chat/completions"
NO_CREDITS = {
    "error": {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
}


def alone() -> Iterator[Played]:
    """The labelled answers that are whole, each the only one of its rollout."""
    for case in proof():
        call = case.calls[0]
        whole = call.ending is Ending.COMPLETE and call.method == "POST" and call.status is not None
        if len(case.calls) == 1 and whole:
            yield call


def by_itself(call: Played) -> CauseOfFailure | None:
    assert call.status is not None
    return cause_of(
        call.status,
        [(name.decode(), value.decode()) for name, value in call.headers],
        b"".join(call.body),
        url=f"https://provider.example{call.path}?key=1",
        request=call.request,
        upstream=call.upstream,
    )


def told(cause: Cause | None) -> tuple[object, ...] | None:
    if cause is None:
        return None
    return (cause.subcategory.value, cause.transient, cause.reason, cause.rule, cause.code)


def said(cause: CauseOfFailure | None) -> tuple[object, ...] | None:
    if cause is None:
        return None
    return (cause.cause, cause.transient, cause.reason, cause.rule, cause.code)


@pytest.mark.parametrize("one_of", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_it_says_what_the_wire_says(one_of: int) -> None:
    calls = list(alone())[::one_of]
    wire = [told(play((call,)).exchanges[0].cause) for call in calls]
    assert [said(by_itself(call)) for call in calls] == wire
    assert None in wire  # healthy ones
    assert len(calls) > 400 / one_of


def test_an_empty_account_is_no_rate_limit() -> None:
    assert cause_of(429, JSON, json.dumps(NO_CREDITS), url=URL) == CauseOfFailure(
        cause="quota",
        transient=False,
        whose="operator",
        rule="openai.insufficient_quota",
        code="insufficient_quota",
    )


def test_a_wait_is_read() -> None:
    found = cause_of(429, {"Retry-After": "7"}, b"slow down")
    assert found is not None
    assert (found.cause, found.transient, found.whose) == ("rate_limit", True, "provider")
    assert found.retry_after_s == 7.0


def test_the_date_of_a_wait_is_one_of_today() -> None:
    """The clock is the machine's: a date of 2020 has passed, and one of 9999 is no wait."""
    found = cause_of(429, {"Retry-After": "Wed, 01 Jan 2020 00:00:00 GMT"}, b"slow down")
    assert found is not None
    assert not found.retry_after_s


def test_the_request_tells_whose_a_field_is() -> None:
    body = json.dumps({"error": {"message": "Invalid parameter", "param": "frobnicate"}})
    sent, other = '{"model": "m", "frobnicate": 1}', '{"model": "m"}'
    reasons = [found and found.reason for found in (
        cause_of(400, JSON, body, request=sent), cause_of(400, JSON, body, request=other),
    )]  # fmt: skip
    assert reasons == ["malformed", None]


def test_an_error_inside_a_stream_is_told() -> None:
    body = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"}}\n\n'
    found = cause_of(200, {"content-type": "text/event-stream"}, body, url="/v1/messages")
    assert found is not None
    assert (found.cause, found.transient, found.whose) == ("provider_error", True, "provider")


HEALTHY = json.dumps({
    "id": "1", "object": "chat.completion", "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "42"}}],
})  # fmt: skip
PAGE = "<!DOCTYPE html><html><body>Please sign in</body></html>"


@pytest.mark.parametrize("url", [URL, ""])
def test_an_answer_is_no_failure(url: str) -> None:
    assert cause_of(200, JSON, HEALTHY, url=url) is None


def test_a_page_is_no_answer_where_a_model_was_asked() -> None:
    headers = {"content-type": "text/html"}
    found = cause_of(200, headers, PAGE, url=URL)
    assert found is not None
    assert found.reason == "html_body"
    assert cause_of(200, headers, PAGE) is None  # of an API that nobody named


class RateLimitError(Exception):
    pass


RateLimitError.__module__ = "openai"


def test_an_exception_is_read_as_its_text_is() -> None:
    text = f"Error code: 429 - {NO_CREDITS}"
    raised = cause_of(exception=RateLimitError(text))
    assert raised is not None
    assert (raised.cause, raised.transient, raised.whose) == ("quota", False, "operator")
    assert cause_of(exception=f"openai.RateLimitError: {text}") == raised
    assert cause_of(exception="litellm.exceptions.APIConnectionError: refused") == CauseOfFailure(
        cause="provider_error",
        transient=True,
        whose="provider",
        reason="network",
        rule="ending.never_connected",
    )


@pytest.mark.parametrize(
    "exception",
    [ValueError("bad"), KeyError("choices"), "AssertionError: expected 3, got 4",
     "docker.errors.APIError: 500 Server Error for http+docker://localhost/v1.47/containers"],
)  # fmt: skip
def test_an_exception_of_something_else_is_not_the_providers(
    exception: BaseException | str,
) -> None:
    assert cause_of(exception=exception) is None


def test_either_an_answer_or_an_exception_is_read() -> None:
    with pytest.raises(TypeError, match="a status or an exception"):
        cause_of()
    with pytest.raises(TypeError, match="a status or an exception"):
        cause_of(500, exception="RateLimitError")


# -S: no package is found that was installed.
_PLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from truezero import cause_of
print(any(name.split(".")[0] in ("classifier", "proxy") for name in sys.modules))
undone = {"Content-Type": "application/json", "Content-Encoding": "br", "Content-Length": "3"}
print(cause_of(429, undone, sys.argv[2]).cause)
print(cause_of(exception="openai.AuthenticationError: Error code: 401").whose)
"""


def test_the_standard_library_is_enough() -> None:
    """Also for an answer in brotli: the HTTP client has undone it, and kept the header."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PLAIN, str(ROOT), json.dumps(NO_CREDITS)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "quota", "operator"]


def test_the_guide_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "guides" / "judge-by-itself.md").read_text("utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(code, "judge-by-itself.md", "exec"), {})
    assert capsys.readouterr().out == "stop: quota, operator\n"
    assert len(page.split()) < 400  # a maintainer reads it to its end
