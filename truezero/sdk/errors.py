"""The one error of the SDK: no response, a refusal, or a response of another version."""

from __future__ import annotations

import httpx

from truezero import models

UNREACHABLE = "unreachable"  # the connection was refused


class ServiceError(Exception):
    """The service cannot be reached, or rejected a request; the message says which and why.

    ``status`` is the HTTP status, None without a response; ``code`` is the problem's code.
    """

    def __init__(
        self, sentence: str, *, status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


def unreachable(url: str, error: Exception) -> ServiceError:
    """Return the error for a request without a response."""
    refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    _, untrusted, why = str(error).partition("certificate verify failed: ")
    if untrusted:  # OpenSSL's words
        return ServiceError(
            f"the certificate of {url} is not trusted here ({why}): set SSL_CERT_FILE to a file "
            "of the authority that signed it, and use a name that it is for",
            code=UNREACHABLE,
        )
    return ServiceError(
        f"cannot reach a truezero service at {url} ({type(error).__name__}): "
        "start one with `truezero serve`, or set TRUEZERO_URL",
        code=UNREACHABLE if refused else "no_answer",
    )


def refused(status: int, body: bytes, url: str) -> ServiceError:
    """Return the error that a service reported."""
    try:
        problem = models.Problem.model_validate_json(body)
    except ValueError:
        return ServiceError(f"{url} is not a truezero service (HTTP {status})", status=status)
    sentence = problem.detail
    if problem.code == "unauthorized":
        told = "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN to the service's"
        sentence = f"{url}: {told}"
    return ServiceError(sentence, status=problem.status, code=problem.code)
