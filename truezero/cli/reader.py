"""A client of the REST API for commands that only print: http.client and dictionaries.

httpx and pydantic, on which the SDK is built, take longer to load than such a command to run.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlencode, urlsplit

from truezero.foreign import Body, ForeignError, bounded, parse
from truezero.sdk.addresses import (
    BATCHES,
    CSV,
    HEALTH,
    ROLLOUTS,
    check_version,
    client_headers,
    is_on_loopback,
    of_batch,
    of_rollout,
    present,
    service_url,
)
from truezero.sdk.errors import not_truezero, refused, unreachable

if TYPE_CHECKING:
    from truezero import models

_TIMEOUT_S = 30.0
_PIECE = 2**20  # bytes
_PAGE = 1000  # rollouts a request


class Record(dict[str, Any]):
    """A JSON object whose fields can be read as attributes; None if a service does not send one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class Reader:
    """Reads from a service, over one connection.

    Its methods return what ``truezero.Client``'s do, as records in place of models.

    Arguments:
        url, token: as for ``truezero.Client``.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url = service_url(url)
        self._headers = {"accept": "application/json", **client_headers(token)}
        self._prefix = urlsplit(self.url).path
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def greet(self) -> None:
        """Check that the service is reachable and of a compatible version."""
        version = self._get(HEALTH).version
        if not isinstance(version, str):
            raise not_truezero(self.url, 200)
        check_version(version)

    def verdict(self, rollout_id: str, *, settled: bool, policy: str | None) -> models.Verdict:
        """Judge a rollout; ``settled`` waits up to ten seconds for its calls in flight."""
        wait = {"wait": "settled", "timeout_s": 10.0} if settled else {}
        path = of_rollout(rollout_id, "/verdict")
        return cast("models.Verdict", self._get(path, **wait, **present(policy=policy)))

    def exchanges(self, rollout_id: str) -> list[models.Exchange]:
        """Return every call of a rollout, oldest first."""
        return list(self._items(of_rollout(rollout_id, "/exchanges")))

    def iter_rollouts(self, **filters: Any) -> Iterator[models.RolloutItem]:
        """Yield rollouts that match the filters, page by page as they are taken."""
        return self._items(ROLLOUTS, **filters, limit=_PAGE)

    def rollouts_csv(self, **filters: Any) -> Iterator[str]:
        """Yield rollouts that match the filters as a CSV file, a line at a time."""
        response = self._response(ROLLOUTS, filters, CSV)
        try:
            for line in bounded(response.readline, b""):
                yield line.decode("utf-8").rstrip("\r\n")
        except ValueError as error:
            raise not_truezero(self.url, response.status) from error
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.url, error, connected=True) from error

    def iter_batches(self) -> Iterator[models.BatchItem]:
        """Yield batches, the newest first, page by page as they are taken."""
        return self._items(BATCHES, limit=20)

    def summary(self, batch: str) -> models.BatchSummary:
        """Return a batch's counts, tokens, cost, scores, and the rollouts to run again."""
        return cast("models.BatchSummary", self._get(of_batch(batch)))

    def breaker(self, batch: str) -> models.Breaker:
        """Return the circuit breakers of a batch, lane by lane."""
        return cast("models.Breaker", self._get(of_batch(batch, "/breaker")))

    def check(self, batch: str) -> models.Check:
        """Check whether a batch is a valid measurement."""
        return cast("models.Check", self._get(of_batch(batch, "/check")))

    # -- requests ----------------------------------------------------------------------

    def _items(self, path: str, **params: Any) -> Iterator[Any]:
        while True:
            page = self._get(path, **params)
            yield from page["items"]
            if page.next is None:
                return
            params["after"] = page.next

    def _get(self, path: str, **params: Any) -> Record:
        response = self._response(path, params, {})
        try:
            answer = parse(_body(response), object_hook=Record)
        except ForeignError as error:
            raise not_truezero(self.url, response.status) from error
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.url, error, connected=True) from error
        if not isinstance(answer, Record):
            raise not_truezero(self.url, response.status)
        return answer

    def _response(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        query = f"?{urlencode(params, doseq=True)}" if params else ""
        connected = self._connection is not None
        try:
            if self._connection is None:
                self._connection = _connect(self.url)
                connected = True
            self._connection.request(
                "GET", self._prefix + path + query, headers={**self._headers, **headers}
            )
            response = self._connection.getresponse()
            body = _body(response) if response.status >= 400 else b""
        except ForeignError as error:
            raise not_truezero(self.url, response.status) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise unreachable(self.url, error, connected=connected) from error
        if response.status >= 400:
            raise refused(response.status, body, self.url)
        return response


def _body(response: http.client.HTTPResponse) -> bytes:
    body = Body()
    while piece := response.read(_PIECE):
        body.add(piece)
    return body.rest()


def is_direct(url: str | None) -> bool:
    """Return True if a service is reached without a proxy and without a user in its URL.

    Everything else is left to httpx, as the SDK uses it.
    """
    try:
        parts = urlsplit(service_url(url))
        if parts.username is not None or not (parts.port or 0) >= 0:
            return False
        if is_on_loopback(url):
            return True
    except ValueError:  # a port that is no number
        return False
    from urllib.request import getproxies  # noqa: PLC0415  only a service elsewhere needs it

    return getproxies().keys().isdisjoint(("http", "https", "all"))


def _connect(url: str) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, parts.port, timeout=_TIMEOUT_S, context=_trust()
        )
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
    connection.connect()
    return connection


def _trust() -> ssl.SSLContext:
    """Return the trust that httpx has: ``SSL_CERT_FILE``, ``SSL_CERT_DIR`` or certifi's list."""
    if file := os.environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=file)
    if folder := os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context(capath=folder)
    import certifi  # noqa: PLC0415  only https needs it

    return ssl.create_default_context(cafile=certifi.where())
