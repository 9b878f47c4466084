"""What a missing response and a refusal mean."""

from __future__ import annotations

import httpx
import pytest

from truezero.sdk.errors import refused
from truezero.sdk.rest import no_answer

URL = "http://truezero.test"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("x"), "unreachable"),
        (httpx.ConnectTimeout("x"), "unreachable"),
        (httpx.ReadTimeout("x"), "no_answer"),
        (httpx.RemoteProtocolError("cut"), "no_answer"),
    ],
)
def test_a_refused_connection_differs_from_a_silent_one(error: httpx.HTTPError, code: str) -> None:
    said = no_answer(URL, error)
    assert (said.code, said.status) == (code, None)


@pytest.mark.parametrize(
    "words",
    [
        "[SSL: WRONG_VERSION_NUMBER] wrong version number",
        "[SSL] record layer failure (_ssl.c:1)",
    ],
)
def test_a_service_without_tls_is_asked_for_by_http(words: str) -> None:
    error = no_answer("https://127.0.0.1:8383", httpx.ConnectError(words))
    assert str(error) == "https://127.0.0.1:8383 does not speak TLS: use http://127.0.0.1:8383"
    assert error.code == "unreachable"


def test_a_body_that_is_no_problem_is_no_truezero_service() -> None:
    error = refused(404, b"<html>", URL)
    assert str(error).startswith(f"{URL} is not a truezero service (HTTP 404): ")
    assert (error.status, error.code) == (404, "other_service")


def test_a_token_that_is_wrong_is_said_to_be() -> None:
    error = refused(401, b'{"status": 401, "detail": "no", "code": "unauthorized"}', URL)
    assert "token is wrong or missing: set TRUEZERO_ADMIN_TOKEN" in str(error)
    assert (error.status, error.code) == (401, "unauthorized")


@pytest.mark.parametrize("status", [502, 503, 504])
def test_what_a_balancer_answers_is_of_a_service_that_is_away(status: int) -> None:
    error = refused(status, b"<html>", URL)
    assert str(error).startswith(f"the truezero service at {URL} is away: ")
    assert (error.status, error.code) == (status, "away")
