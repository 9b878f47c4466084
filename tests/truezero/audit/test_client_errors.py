"""Which exceptions are a model client's, and what status each stands for."""

from __future__ import annotations

import pytest

from truezero.audit.errors import CLIENT_ERRORS, SILENT, STATUSES, client_error


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("openai.RateLimitError", "slow down", "RateLimitError"),
        (None, "litellm.Timeout: gave up", "Timeout"),
        (None, "socket.Timeout: gave up", None),
        ("ValueError", "while asking: AuthenticationError: bad key", "AuthenticationError"),
        ("NotFoundError", "no such file", None),
        ("anthropic.NotFoundError", "no such model", "NotFoundError"),
        (None, "AssertionError: tests failed", None),
        (None, "InternalServerError 503 code 7", "InternalServerError"),
        (None, "InternalServerError is what it printed", None),
        (None, "litellm.RateLimitError ... <html>", "RateLimitError"),
        (None, "SyntaxError: x\n  except openai.RateLimitError as e", None),
    ],
)
def test_a_common_name_is_a_clients_only_in_its_package(
    kind: str | None, text: str, name: str | None
) -> None:
    assert client_error(kind, text) == name


def test_an_exception_without_an_answer_has_no_status() -> None:
    assert {STATUSES[name] for name in SILENT} == {None}
    assert STATUSES.keys() > CLIENT_ERRORS.keys()
