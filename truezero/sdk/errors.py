"""The errors of the SDK: no response, a refusal, or a response of another version."""

from __future__ import annotations

from pathlib import Path

from truezero.foreign import parse

UNREACHABLE = "unreachable"  # the connection was refused
AWAY = "away"  # a balancer answered for it
MEASURED = "measured"  # a task has all repeats that it is to have
OTHER_SERVICE = "other_service"  # another program answered
_BALANCERS = frozenset({502, 503, 504})
# What OpenSSL 1.1 and 3 say of an answer in plain HTTP.
_NO_TLS = ("wrong version number", "wrong_version_number", "record layer failure")


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


class NotMeasured(RuntimeError):
    """A try is no measurement; the message says why, and what to do about it."""


class MeasuringStopped(KeyboardInterrupt):
    """The same, for loops that swallow exceptions: it ends them, as Ctrl-C does."""


class Undelivered(ServiceError):
    """The outcome of a rollout did not reach the service; the sample is no measurement yet.

    ``file`` keeps it for `truezero outcomes deliver`; None if it could not be written.
    """

    def __init__(
        self,
        sentence: str,
        *,
        rollout_id: str,
        file: Path | None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(sentence, status=status, code=code)
        self.rollout_id = rollout_id
        self.file = file


def unreachable(url: str, error: Exception, *, connected: bool) -> ServiceError:
    """Return the error for a request without a response.

    Arguments:
        connected: False if the connection could not be made, so the service got no request.
    """
    _, untrusted, why = str(error).partition("certificate verify failed: ")
    if untrusted:  # OpenSSL's words
        return ServiceError(
            f"the certificate of {url} is not trusted here ({why}): set SSL_CERT_FILE to a file "
            "of the authority that signed it, and use a name that it is for",
            code=UNREACHABLE,
        )
    if any(words in str(error).casefold() for words in _NO_TLS):
        plain = f"http{url[len('https') :]}"
        return ServiceError(f"{url} does not speak TLS: use {plain}", code=UNREACHABLE)
    return ServiceError(
        f"cannot reach a truezero service at {url} ({type(error).__name__}): "
        "start one with `truezero serve`, or set TRUEZERO_URL",
        code="no_answer" if connected else UNREACHABLE,
    )


def refused(status: int, body: bytes, url: str) -> ServiceError:
    """Return the error that a service reported."""
    try:
        problem = parse(body)
        sentence, code, status = problem["detail"], problem["code"], int(problem["status"])
    except (ValueError, TypeError, KeyError, OverflowError):
        return not_truezero(url, status)
    if code == "unauthorized":
        reason = "the token is wrong or missing: set TRUEZERO_ADMIN_TOKEN to the service's"
        sentence = f"{url}: {reason}"
    return ServiceError(sentence, status=status, code=code)


def not_truezero(url: str, status: int) -> ServiceError:
    """Return the error for a response that no truezero service gives."""
    if status in _BALANCERS:
        return ServiceError(
            f"the truezero service at {url} is away: what stands before it answers HTTP {status}",
            status=status,
            code=AWAY,
        )
    return ServiceError(
        f"{url} is not a truezero service (HTTP {status}): another program answers there, or a "
        "balancer whose service is away",
        status=status,
        code=OTHER_SERVICE,
    )
