"""The proxy's own credentials where a static key is not enough: AWS signatures, Google tokens.

Credentials are looked up and renewed in threads, never on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final, Generic, TypeVar

from proxy.routing.errors import Refusal
from proxy.routing.headers import SIGNATURE_HEADERS, Pairs
from proxy.routing.upstreams import Auth, Upstream

MISSING: Final = "upstream_credentials_missing"
UNAVAILABLE: Final = "upstream_credentials_unavailable"

_THREADS = 4  # a pool of their own: look-ups may wait for the network, other threads must not
_ABSENT_S = 30.0  # how long a look-up without result is cached: it can take seconds
# Retries do not help the client: openai-python and anthropic-sdk-python, _base_client.py.
_DO_NOT_RETRY = ((b"x-should-retry", b"false"),)

_SERVICE = "bedrock"  # botocore: data/bedrock-runtime/2023-09-30/service-2.json, signingName
# docs.aws.amazon.com/global-infrastructure/latest/regions/aws-regions.html
_REGION = re.compile(
    r"[a-z]{2,4}(?:-[a-z]+)?-(?:(?:north|south)(?:east|west)?|east|west|central)-\d{1,2}"
)
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"

_Credentials = TypeVar("_Credentials")


class _LookUp(Generic[_Credentials]):
    """A look-up that is cached: a value for good, its absence for `_ABSENT_S`."""

    def __init__(self, look: Callable[[], _Credentials | None], clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._lock = threading.Lock()
        self._value: _Credentials | None = None
        self._retry_at: float | None = None

    def __call__(self) -> _Credentials | None:
        with self._lock:
            cached = self._retry_at is not None and self._clock() < self._retry_at
            if self._value is None and not cached:
                self._value = self._look()
                self._retry_at = self._clock() + _ABSENT_S
            return self._value


class AwsSigner:
    """Signs requests with the AWS credentials that botocore finds.

    Signature Version 4 (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html) for
    the service ``bedrock``. Signed are the body, host, content-type and all ``x-amz…``.

    Arguments:
        environment: read for ``AWS_REGION``, where the upstream's host names no region.
        threads: where credentials are looked up and requests signed.
        clock: monotonic, seconds.
    """

    whole_body = True

    def __init__(
        self,
        environment: Mapping[str, str],
        threads: ThreadPoolExecutor,
        clock: Callable[[], float],
    ) -> None:
        self._environment = environment
        self._threads = threads
        self._credentials = _LookUp(_aws_credentials, clock)

    async def available(self) -> bool:
        """Return True if botocore finds credentials, even some that cannot be used."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._present)

    def _present(self) -> bool:
        try:
            errors = import_module("botocore.exceptions")
        except ImportError:
            return False
        try:
            return self._credentials() is not None
        except (errors.BotoCoreError, errors.ClientError, OSError, ValueError):
            return True

    async def sign(
        self, *, upstream: Upstream, method: str, target: bytes, headers: Pairs, body: bytes
    ) -> Pairs:
        """Return the headers with a signature for this request.

        Arguments:
            target: the request target as sent, raw.
            headers: as prepared for the upstream.
            body: complete, as sent.

        Raises:
            Refusal: there are no usable credentials.
        """
        loop = asyncio.get_running_loop()
        url = upstream.origin + target.decode("ascii")
        return await loop.run_in_executor(
            self._threads, self._signed, upstream.host.decode(), method, url, headers, body
        )

    def _signed(self, host: str, method: str, url: str, headers: Pairs, body: bytes) -> Pairs:
        credentials, region = self._frozen_credentials(), self._region(host)
        unsigned_headers = [pair for pair in headers if pair[0] not in SIGNATURE_HEADERS]
        request = import_module("botocore.awsrequest").AWSRequest(method, url, data=body)
        for name, value in unsigned_headers:
            if name in (b"host", b"content-type") or name.startswith(b"x-amz"):
                request.headers.add_header(name.decode("latin-1"), value.decode("latin-1"))
        auth = import_module("botocore.auth").SigV4Auth(credentials, _SERVICE, region)
        auth.add_auth(request)
        added = {name.lower(): value for name, value in request.headers.items()}
        signature = [name.decode() for name in sorted(SIGNATURE_HEADERS) if name.decode() in added]
        return unsigned_headers + [(name.encode(), added[name].encode()) for name in signature]

    def _frozen_credentials(self) -> Any:
        """Return the current credentials; botocore renews them before they expire."""
        errors = _library("botocore.exceptions", "aws", "sign requests for Bedrock")
        try:
            credentials = self._credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()
        except (errors.BotoCoreError, errors.ClientError, OSError, ValueError) as error:
            raise _aws_refusal(error, errors) from None
        if frozen is None:
            raise _missing(
                "no AWS credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "AWS_PROFILE or a role for the proxy, or have the agent send a Bedrock API key"
            )
        return frozen

    def _region(self, host: str) -> str:
        named = region_of(host) or self._environment.get("AWS_REGION")
        region = named or self._environment.get("AWS_DEFAULT_REGION")
        if not region:
            raise _missing(
                f"the host {host} names no AWS region: set AWS_REGION for the proxy, or "
                "TRUEZERO_UPSTREAM_BEDROCK=https://bedrock-runtime.<region>.amazonaws.com"
            )
        return region


class GoogleTokens:
    """Adds the access token of the Google credentials that google-auth finds.

    Application default credentials (cloud.google.com/docs/authentication/
    application-default-credentials), renewed when they are about to expire.

    Arguments:
        threads: where credentials are looked up and renewed.
        clock: monotonic, seconds.
    """

    whole_body = False

    def __init__(self, threads: ThreadPoolExecutor, clock: Callable[[], float]) -> None:
        self._threads = threads
        self._credentials = _LookUp(_google_credentials, clock)
        self._present = _LookUp(self._look_for_credentials, clock)
        self._ready: Any = None
        self._renewing = threading.Lock()

    async def available(self) -> bool:
        """Return True if google-auth finds credentials, even some that cannot be used."""
        if self._ready is not None:
            return True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._present) is not None

    def _look_for_credentials(self) -> bool | None:
        """Return True, or None: unlike the credentials' own, their absence is kept for a while."""
        try:
            errors = import_module("google.auth.exceptions")
        except ImportError:
            return None
        try:
            self._credentials()
        except errors.DefaultCredentialsError:
            return None
        except (errors.GoogleAuthError, OSError, ValueError):
            return True
        return True

    async def sign(
        self, *, upstream: Upstream, method: str, target: bytes, headers: Pairs, body: bytes
    ) -> Pairs:
        """Return the headers with an access token, which covers nothing of the request.

        Raises:
            Refusal: there are no usable credentials.
        """
        if self._ready is None or not self._ready.valid:
            loop = asyncio.get_running_loop()
            self._ready = await loop.run_in_executor(self._threads, self._renewed)
        added: dict[str, str] = {}
        self._ready.apply(added)
        pairs = [(name.lower().encode(), value.encode()) for name, value in added.items()]
        names = {name for name, _ in pairs}
        return [pair for pair in headers if pair[0] not in names] + pairs

    def _renewed(self) -> Any:
        errors = _library("google.auth.exceptions", "google", "get tokens for Vertex")
        try:
            credentials = self._credentials()
            assert credentials is not None  # google-auth raises where it finds none
            with self._renewing:
                if not credentials.valid:
                    credentials.refresh(_google_transport())
        except (errors.GoogleAuthError, OSError, ValueError) as error:
            raise _google_refusal(error, errors) from None
        return credentials


def signers(
    environment: Mapping[str, str], clock: Callable[[], float]
) -> dict[Auth, AwsSigner | GoogleTokens]:
    """Return a signer for each kind of authentication; credentials are looked up when needed.

    Arguments:
        environment: the process's own.
        clock: monotonic, seconds.
    """
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="signing")
    return {
        Auth.AWS: AwsSigner(environment, threads, clock),
        Auth.GOOGLE: GoogleTokens(threads, clock),
    }


def region_of(host: str) -> str | None:
    """Return the AWS region in a host name such as ``bedrock-runtime.eu-west-1.amazonaws.com``."""
    labels = host.partition(":")[0].lower().split(".")
    return next((label for label in labels if _REGION.fullmatch(label)), None)


def _library(name: str, extra: str, purpose: str) -> Any:
    """Import an optional dependency.

    Raises:
        Refusal: its extra is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        detail = f"the proxy cannot {purpose}: install truezero[{extra}] on its host"
        raise Refusal(501, MISSING, detail, _DO_NOT_RETRY) from None


def _aws_credentials() -> Any:
    # botocore logs a failed renewal together with the token service's response.
    logging.getLogger("botocore").setLevel(logging.CRITICAL)
    return import_module("botocore.session").Session().get_credentials()


def _google_credentials() -> Any:
    transport = _google_transport()
    credentials, _ = import_module("google.auth").default(scopes=[_SCOPE], request=transport)
    return credentials


def _google_transport() -> Any:
    return import_module("google.auth.transport.requests").Request()


def _missing(detail: str) -> Refusal:
    return Refusal(502, MISSING, detail, _DO_NOT_RETRY)


def _unavailable(provider: str, error: Exception) -> Refusal:
    name = type(error).__name__
    return Refusal(502, UNAVAILABLE, f"{provider} did not renew the proxy's credentials: {name}")


def _aws_refusal(error: Exception, errors: Any) -> Refusal:
    network = (errors.ConnectionError, errors.HTTPClientError, errors.MetadataRetrievalError)
    if isinstance(error, network):
        return _unavailable("AWS", error)
    return _missing(
        f"the proxy's AWS credentials cannot be used ({type(error).__name__}): check AWS_PROFILE, "
        "sign in again, or let its role be assumed"
    )


def _google_refusal(error: Exception, errors: Any) -> Refusal:
    if isinstance(error, errors.DefaultCredentialsError):
        return _missing(
            "no Google credentials found: set GOOGLE_APPLICATION_CREDENTIALS or a service "
            "account for the proxy, or have the agent send an access token"
        )
    if isinstance(error, errors.TransportError) or getattr(error, "retryable", False):
        return _unavailable("Google", error)
    return _missing(
        f"the proxy's Google credentials cannot be used ({type(error).__name__}): check "
        "GOOGLE_APPLICATION_CREDENTIALS, or sign in again"
    )
