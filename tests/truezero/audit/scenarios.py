"""Runs with a known truth: what happened to the model's calls, before any harness wrote it down.

Each kind of run is drawn in several wordings of several providers' clients. ``failed`` is the
truth: whether the score is no measurement, because the provider failed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MODEL = "openai/gpt-5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An exception: its class, its sentence, and the answer behind it."""

    type: str
    text: str
    status: int | None = None
    body: dict[str, Any] | None = None
    module: str = "openai"

    @property
    def chain(self) -> str:
        """As a traceback's last line says it."""
        return (
            f"{self.module}.{self.type}: {self.text}"
            if self.module
            else f"{self.type}: {self.text}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run. ``calls``: ``ok``, ``empty``, or the exception of a failed one.

    ``raised`` is what the harness was left with; None where the agent swallowed it.
    """

    kind: str
    number: int
    calls: tuple[str | Raised, ...]
    reward: float | None
    failed: bool
    raised: Raised | None = None
    ended: str = "stop"  # stop, max_steps, timeout, setup
    recorded: bool = True  # False: tokens, calls and trajectories were not kept
    cause: str | None = None  # the subcategory of its failure

    @property
    def task(self) -> str:
        return f"{self.kind}-{self.number}"

    @property
    def answered(self) -> int:
        return sum(each == "ok" for each in self.calls)

    @property
    def tokens(self) -> int:
        """Input tokens of answered calls, and output of those that are not empty."""
        return sum(120 if each == "ok" else 100 if each == "empty" else 0 for each in self.calls)


def api(
    kind: str, status: int, message: str, *, code: str | None = None, type: str = "error"
) -> Raised:
    """An OpenAI-compatible answer as its SDK raises it."""
    body = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return Raised(type=kind, text=f"Error code: {status} - {body}", status=status, body=body)


def anthropic(kind: str, status: int, type: str, message: str) -> Raised:
    body = {"type": "error", "error": {"type": type, "message": message}}
    return Raised(
        type=kind,
        text=f"Error code: {status} - {body}",
        status=status,
        body=body,
        module="anthropic",
    )


def litellm(kind: str, status: int, sentence: str) -> Raised:
    body = {"error": {"message": sentence, "type": "None", "code": str(status)}}
    return Raised(
        type=kind,
        text=f"litellm.{kind}: {kind}: OpenAIException - {sentence}",
        status=status,
        body=body,
        module="litellm.exceptions",
    )


FAILURES: dict[str, tuple[Raised, ...]] = {
    "auth": (
        api(
            "AuthenticationError",
            401,
            "Incorrect API key provided: sk-x***y.",
            code="invalid_api_key",
        ),
        anthropic("AuthenticationError", 401, "authentication_error", "invalid x-api-key"),
        litellm("AuthenticationError", 401, "Your authentication token is not valid."),
        api("PermissionDeniedError", 403, "Project does not have access to this organization."),
    ),
    "quota": (
        api(
            "RateLimitError",
            429,
            "You exceeded your current quota, please check your plan and billing details.",
            code="insufficient_quota",
            type="insufficient_quota",
        ),
        anthropic(
            "BadRequestError",
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the API.",
        ),
        litellm("RateLimitError", 429, "Your account has run out of credits. Please add funds."),
        api("APIStatusError", 402, "Insufficient Balance"),
    ),
    "rate_limit": (
        api(
            "RateLimitError",
            429,
            "Rate limit reached for requests per min (RPM): Limit 500, Used 500.",
            code="rate_limit_exceeded",
            type="requests",
        ),
        anthropic(
            "RateLimitError",
            429,
            "rate_limit_error",
            "This request would exceed the rate limit of 40,000 input tokens per minute.",
        ),
        litellm("RateLimitError", 429, "Too many requests, slow down."),
    ),
    "provider_error": (
        api("InternalServerError", 500, "The server had an error while processing your request."),
        anthropic("APIStatusError", 529, "overloaded_error", "Overloaded"),
        litellm("ServiceUnavailableError", 503, "upstream connect error or disconnect/reset"),
        Raised(type="APIConnectionError", text="Connection error."),
        Raised(type="APITimeoutError", text="Request timed out."),
    ),
    "model_not_found": (
        api(
            "NotFoundError",
            404,
            "The model `gpt-5-huge` does not exist or you do not have access to it.",
            code="model_not_found",
        ),
        anthropic("NotFoundError", 404, "not_found_error", "model: claude-none-1"),
    ),
}
TOO_LONG = (
    api(
        "BadRequestError",
        400,
        "This model's maximum context length is 128000 tokens. However, your "
        "messages resulted in 131072 tokens.",
        code="context_length_exceeded",
    ),
    anthropic(
        "BadRequestError",
        400,
        "invalid_request_error",
        "prompt is too long: 208310 tokens > 200000 maximum",
    ),
)
FILTERED = api(
    "BadRequestError",
    400,
    "The response was filtered due to the prompt triggering Azure OpenAI's content management "
    "policy.",
    code="content_filter",
)
# What agents, tools and sandboxes raise by themselves; some speak of keys, limits and statuses.
AGENTS_OWN = (
    Raised(type="KeyError", text="'answer'", module=""),
    Raised(type="AssertionError", text="the plan has no steps", module=""),
    Raised(type="AgentStuckInLoopError", text="Agent got stuck in a loop", module=""),
    Raised(
        type="HTTPError",
        text="404 Client Error: Not Found for url: https://packages.example/foo/",
        module="requests.exceptions",
    ),
    Raised(
        type="FileNotFoundError", text="[Errno 2] No such file or directory: 'model.txt'", module=""
    ),
    Raised(
        type="RuntimeError",
        text="docker: toomanyrequests: you have reached your pull rate limit",
        module="",
    ),
    Raised(
        type="APIError", text="409 Client Error: container is restarting", module="docker.errors"
    ),
    Raised(type="PermissionError", text="[Errno 13] Permission denied: '/srv/key'", module=""),
    Raised(type="ValueError", text="tool call 'search' has an invalid argument: limit", module=""),
    Raised(type="TimeoutError", text="command timed out after 60 seconds", module=""),
)
SANDBOX = (
    Raised(type="EnvironmentStartTimeoutError", text="sandbox did not start in 600 s", module=""),
    Raised(type="RuntimeError", text="docker daemon is not running", module=""),
)
KINDS = (
    "passed",
    "honest_zero",
    "recovered",
    "agent_error",
    "context_length",
    "timeout",
    "max_steps",
    "sandbox",
    "swallowed",
    "raised",
    "midway_swallowed",
    "midway_raised",
    "empty",
    "no_call",
    "not_recorded",
)


def scenarios(count: int, seed: int = 19) -> Iterator[Scenario]:
    """Draw as many runs as asked, each kind equally often."""
    draw = random.Random(seed)
    for number in range(count):
        yield _drawn(KINDS[number % len(KINDS)], number, draw)


def _drawn(kind: str, number: int, draw: random.Random) -> Scenario:
    ok = ("ok",) * draw.randint(1, 5)
    cause = draw.choice(tuple(FAILURES))
    failure = draw.choice(FAILURES[cause])
    failures = (failure,) * draw.randint(1, 4)
    own, too_long = draw.choice(AGENTS_OWN), draw.choice(TOO_LONG)
    facts: dict[str, Any] = {
        "passed": {"calls": ok, "reward": 1.0},
        "honest_zero": {"calls": ok, "reward": 0.0},
        "recovered": {"calls": (*ok, failure, "ok"), "reward": draw.choice((0.0, 1.0))},
        "agent_error": {"calls": ok, "reward": 0.0, "raised": own},
        "context_length": {"calls": (*ok, too_long), "reward": 0.0, "raised": too_long},
        "timeout": {"calls": ok, "reward": 0.0, "ended": "timeout"},
        "max_steps": {"calls": ok, "reward": 0.0, "ended": "max_steps"},
        "sandbox": {"calls": (), "reward": None, "ended": "setup", "raised": draw.choice(SANDBOX)},
        "swallowed": {"calls": failures, "reward": 0.0, "failed": True},
        "raised": {"calls": failures, "reward": 0.0, "failed": True, "raised": failure},
        "midway_swallowed": {"calls": (*ok, *failures), "reward": 0.0, "failed": True},
        "midway_raised": {
            "calls": (*ok, *failures),
            "reward": 0.0,
            "failed": True,
            "raised": failure,
        },
        "empty": {"calls": ("empty",) * len(ok), "reward": 0.0, "failed": True},
        "no_call": {"calls": (), "reward": 0.0, "failed": True},
        "not_recorded": {
            "calls": failures if number % 2 else ok,
            "reward": 0.0,
            "failed": bool(number % 2),
            "recorded": False,
        },
    }
    chosen = {"failed": False} | facts[kind]
    named = cause if failure in chosen["calls"] and chosen["failed"] else None
    return Scenario(kind=kind, number=number, cause=named, **chosen)
