"""Refusals of the proxy itself, as exceptions that carry their response; rate limits.

The header `x-truezero-refusal` tells each from a provider's error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

PROBLEM_TYPE = b"application/problem+json"
REFUSAL_HEADER = b"x-truezero-refusal"
RETRY_SOON = ((b"retry-after", b"1"),)  # seconds, RFC 9110 §10.2.3
OVER_HTTP = ((b"upgrade", b"HTTP/1.1"),)  # due with a 426, RFC 9110 §15.5.22

# Every code that a refusal may carry. The comment above codes is their row in
# docs/troubleshooting.md, which `python -m tests.test_docs` writes: why → what to do.
RefusalCode: TypeAlias = Literal[
    # the call names no rollout, often because the base URL is the service's own address → use a
    # rollout's base URL or key: [clients](guides/clients.md); for `/v1/chat/completions` the path
    # is `/r/ROLLOUT/openai/v1/chat/completions`
    "no_rollout",
    # the path is not `/r/ROLLOUT/UPSTREAM/…` → percent-encode `/` as `%2F`; 1–200 characters
    "bad_rollout",
    "reserved_rollout",
    "bad_role",
    "bad_path",
    # no upstream has that name, or the path names none: `/v1/chat/completions` →
    # [upstreams](reference/upstreams.md); `/r/ROLLOUT/openai/v1/chat/completions`
    "unknown_upstream",
    # it has no address here → set `TRUEZERO_UPSTREAM_<NAME>`
    "unconfigured_upstream",
    # with an admin token, a call must prove its rollout → use `base_urls` or `key` of the
    # registration
    "unproven_rollout",
    # `TRUEZERO_REQUIRE_REGISTRATION` is set → `POST /rollouts` first
    "unregistered_rollout",
    # a `tz-…` key of another deployment, or mistyped → register again
    "unknown_key",
    # its outcome was reported, or its key deleted → nothing: the agent should have stopped
    "rollout_ended",
    # a limit of the rollout or its batch is spent, or has been reserved by calls in flight for 60 s
    # → [budgets](guides/budgets.md): raise it with `POST /rollouts/…/limits` or `POST
    # /batches/…/limits`
    "budget_exceeded",
    # the rollout was registered for another upstream → register it for this one, or without
    # `upstream`
    "upstream_not_allowed",
    # the operator's key opens model calls only →
    # [settings](reference/settings.md#upstreams-and-keys)
    "path_not_allowed",
    # refused, unresolvable, or no TLS → the provider, DNS, or `TRUEZERO_UPSTREAM_<NAME>`; recorded
    # as `provider_error`
    "upstream_unreachable",
    # it broke off before its response's head → as above
    "upstream_disconnected",
    # silent for longer than `TRUEZERO_READ_TIMEOUT_S` → as above
    "upstream_timeout",
    # the proxy signs for Bedrock or Vertex and has no credentials → [Bedrock and
    # Vertex](guides/bedrock-and-vertex.md)
    "upstream_credentials_missing",
    "upstream_credentials_unavailable",
    # there is none here → the client should ask over HTTP; Codex does
    "no_websocket",
    # above `TRUEZERO_BODY_LIMIT` → raise it
    "body_too_large",
    # the request is malformed, or stopped arriving → the agent's network;
    # `TRUEZERO_HEAD_TIMEOUT_S`, `TRUEZERO_BODY_TIMEOUT_S`
    "head_too_large",
    "head_timeout",
    "body_timeout",
    # plain HTTP on a port that speaks TLS → `https://` in the base URL, `TRUEZERO_URL` and
    # `TRUEZERO_PUBLIC_URL`
    "tls_required",
    # a limit of this service → retry as `retry-after` says, or raise the
    # [setting](reference/settings.md)
    "too_many_calls",
    "too_many_calls_of_rollout",
    "too_many_connections",
    "too_many_references",
    "too_many_registrations",
    # this machine has no file descriptors or memory left; recorded as `lost` → raise the limit of
    # open files, or lower `TRUEZERO_MAX_CONCURRENT_CALLS`
    "out_of_resources",
    # the control plane needs the admin token → `Authorization: Bearer`, or sign in
    "unauthorized",
    # this port serves agents only → use `TRUEZERO_CONTROL_PORT`
    "agents_only",
    # without a token, only pages and names of this machine are answered → `TRUEZERO_PUBLIC_URL`, or
    # set a token
    "unknown_host",
    "cross_origin",
    # a page's form → sign in and reload
    "sign_in",
    "foreign_form",
    "stale_form",
    "form_too_large",
    # the database, or another service on it, does not answer → retry;
    # [runbook](operations/runbook.md#the-disk-fills)
    "storage_unavailable",
    "responses_unknown",
    "not_confirmed",
    # a list was asked for as Parquet or Markdown only → `Accept: text/csv` or
    # `application/x-ndjson` ([files](reference/lists.md#files))
    "not_acceptable",
    # a field, named in `detail` → [REST](reference/rest.md)
    "invalid",
    # the service has no such path, or not with that method → [REST](reference/rest.md)
    "not_found",
    "method_not_allowed",
    "http_error",
    # a call of the last release; `detail` says what takes its place →
    # [upgrading](operations/upgrading.md)
    "gone",
    # a fault of truezero itself → the service's log has the reason under the id in `detail`: report
    # both
    "internal_error",
    # there is none of that name → check the spelling; `GET /rollouts` lists them
    "unknown_rollout",
    "unknown_batch",
    "unknown_lane",
    "unknown_call",
    "unknown_cause",
    # the task has the `repeats` that it is to have → nothing: it is not to be run
    "measured",
    # it conflicts with what is stored → see the sentence above
    "rollout_exists",
    "outcome_exists",
    "no_outcome",
    "no_limits",
    "batch_policy",
    "key_alias_exists",
]


@dataclass(slots=True)
class Refusal(Exception):
    """One refused request.

    ``status`` is the HTTP status, ``code`` a stable word for programs, ``detail`` one
    sentence for people, ``headers`` further response headers, ``extra`` further
    members of the problem document (RFC 9457 §3.2).
    """

    status: int
    code: RefusalCode
    detail: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.detail


def problem(refusal: Refusal) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Render a refusal as response headers and a problem JSON body (RFC 9457)."""
    document = {
        "type": "about:blank",
        "title": refusal.code.replace("_", " "),
        "status": refusal.status,
        "detail": refusal.detail,
        "code": refusal.code,
        **refusal.extra,
    }
    body = json.dumps(document).encode()
    headers = [
        (b"content-type", PROBLEM_TYPE),
        (b"content-length", str(len(body)).encode()),
        (REFUSAL_HEADER, refusal.code.encode()),
        *refusal.headers,
    ]
    return headers, body


# The types that APIs have for a status, where it is not the one of all others.
# docs.claude.com/en/api/errors
_ANTHROPIC: Mapping[int, str] = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error",
    504: "timeout_error",
}  # fmt: skip
# cloud.google.com/apis/design/errors
_GOOGLE: Mapping[int, str] = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 502: "UNAVAILABLE", 503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}  # fmt: skip


def agents_problem(refusal: Refusal, api: str = "") -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Render a refusal for an agent: a problem that is its API's error object as well.

    So each SDK prints the sentence: openai's shows nothing but `error.message`.

    Arguments:
        api: as routes name it, `anthropic.messages`; of an unknown one, OpenAI's object is used.
    """
    status, code, sentence = refusal.status, refusal.code, refusal.detail
    error: dict[str, object] = {"message": sentence, "type": code, "param": None, "code": code}
    extra: dict[str, object] = {"error": error}
    match api.partition(".")[0]:
        case "anthropic":
            kind = _ANTHROPIC.get(status, "api_error")
            extra = {"type": "error", "error": {"type": kind, "message": sentence}}
        case "gemini" if api == "gemini.interactions":  # ai.google.dev/gemini-api/docs/api-errors
            kind = _GOOGLE.get(status, "INTERNAL").lower()
            extra = {"error": {"code": kind, "message": sentence}}
        case "gemini":
            kind = _GOOGLE.get(status, "INTERNAL")
            extra = {"error": {"code": status, "message": sentence, "status": kind}}
        case "bedrock" | "cohere":  # whose errors are a message
            extra["message"] = sentence
    return problem(replace(refusal, extra={**refusal.extra, **extra}))


# --- rate limits -------------------------------------------------------------------------------
# Nothing waits: a request over the limit is refused at once, with a Retry-After.


_BURST_S = 10  # seconds' worth that may come at once: batches are registered in one go


class TokenBucket:
    """So many tokens a second, of which some seconds' worth may be saved up.

    Arguments:
        rate: tokens per second.
        most: that are saved up; so many are there at first.
        clock: seconds, of which only differences count.
    """

    __slots__ = ("_at", "_clock", "_left", "_most", "_rate")

    def __init__(self, rate: float, *, most: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._most = self._left = most
        self._clock = clock
        self._at = clock()

    @property
    def left(self) -> float:
        """The tokens that are there; below 0 where more were taken."""
        now = self._clock()
        passed, self._at = max(0.0, now - self._at), now
        self._left = min(self._most, self._left + passed * self._rate)
        return self._left

    def take(self, tokens: float) -> None:
        """Take tokens, whether they are there or not."""
        self._left -= tokens


class RateLimiter:
    """Limit registrations: a token bucket that holds ten seconds' worth.

    Arguments:
        rate: tokens per second; None is no limit.
        clock: monotonic seconds.
    """

    __slots__ = ("_bucket", "_rate")

    def __init__(self, rate: float | None, clock: Callable[[], float]) -> None:
        self._rate = rate or 0.0
        most = max(1.0, self._rate * _BURST_S)
        self._bucket = None if rate is None else TokenBucket(rate, most=most, clock=clock)

    def step(self) -> None:
        """Take a token.

        Raises:
            Refusal: 429, the rate limit is reached; it states after how many seconds to retry.
        """
        if self._bucket is None:
            return
        left = self._bucket.left
        if left < 1:
            raise self._limit_reached(left)
        self._bucket.take(1)

    def _limit_reached(self, left: float) -> Refusal:
        wait_s = math.ceil((1 - left) / self._rate)
        return Refusal(
            429,
            "too_many_registrations",
            f"registration rate limit reached ({self._rate:g} rollouts/s); retry after {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
        )
