"""The ways in which a provider fails whoever asks, and what each must be taken for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tests.arena import world
from tests.arena.dialects import Dialect, Question, answered
from tests.arena.world import Failure, Played, page, problem
from tests.fakes.answers import streamed, whole
from tests.fakes.provider import Answer, Cut

ALL = frozenset(Dialect)
CHAT = frozenset({Dialect.CHAT})
SSE = ALL - {Dialect.CONVERSE}  # whose streams are events in text
NAMING = ALL - {Dialect.CONVERSE}  # whose answers name the model
Blamed = frozenset[str | None]
PROVIDER, OPERATOR = Blamed({"provider"}), Blamed({"operator"})
EITHER = PROVIDER | OPERATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """A failure; ``blamed`` are those whose it may be called, ``transient`` if it is run again.

    ``streams``: agents stream. ``silent``: the agent gives up by itself. ``limit``: a rate limit.
    ``gone``: nobody listens any more, so that no lane can behave so. ``used_up``: it says that
    nothing was left of its limit.
    """

    name: str
    fail: Failure
    blamed: Blamed = PROVIDER
    transient: bool = True
    dialects: frozenset[Dialect] = ALL
    streams: bool = False
    silent: bool = False
    limit: bool = False
    gone: bool = False
    used_up: bool = False


def _outage(name: str, fail: Failure, **more: bool) -> Honest:
    return Honest(name=name, fail=fail, **more)  # type: ignore[arg-type]


def _account(name: str, fail: Failure, dialects: frozenset[Dialect] = ALL) -> Honest:
    return Honest(name=name, fail=fail, blamed=OPERATOR, transient=False, dialects=dialects)


def _in_events(question: Question) -> Played:
    return problem(529, "Overloaded", inside=True, chat="server_is_overloaded")(question)


_CHUNKED = (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked"
            b"\r\n\r\nzz\r\n{}\r\n0\r\n\r\n")  # fmt: skip

FAILURES: tuple[Honest, ...] = (
    _outage("500", problem(500, "The server had an error while processing your request.")),
    _outage("502, a gateway's page", page(502, "Bad Gateway")),
    _outage("503, a gateway's page", page(503, "Service Temporarily Unavailable")),
    _outage("504, a gateway's page", page(504, "Gateway Time-out")),
    _outage("503, overloaded", problem(503, "The model is overloaded. Please try again later.")),
    _outage("529", problem(529, "Overloaded")),
    _outage("520", page(520, "Web server is returning an unknown error", "cloudflare")),
    _outage("521", page(521, "Web server is down", "cloudflare")),
    _outage("522", page(522, "Connection timed out", "cloudflare")),
    _outage("524", page(524, "A timeout occurred", "cloudflare")),
    _outage("408", problem(408, "The request timed out.")),
    _outage("500, out of memory", problem(500, "CUDA out of memory. Tried to allocate 2.00 GiB.")),
    _outage("500, the engine is dead", problem(500, "EngineCore encountered an issue. See above.")),
    _outage("503, draining", problem(503, "The server is shutting down")),
    _outage("503, loading", problem(503, "Loading model", chat="unavailable_error")),
    _outage("error inside a 200", problem(503, "The service is overloaded.", inside=True)),
    Honest(name="error inside a stream", fail=_in_events, dialects=SSE, streams=True),
    _outage("an answer that is cut", world.cut),
    Honest(name="a stream that is cut", fail=world.cut, dialects=SSE, streams=True),
    _outage("a reset before a word", world.reset),
    Honest(name="nobody listens", fail=world.reset, dialects=CHAT, gone=True),
    _outage("an empty 200", world.empty),
    _outage("a web page at 200", page(200, "Welcome")),
    _outage("silence", world.silent, silent=True),
    Honest(name="silence in a stream", fail=world.stalled, dialects=SSE, streams=True, silent=True),
    _outage("aborted before a word", world.aborted),
    _account("401, a revoked key", problem(401, "Your API key has been revoked.")),
    _account("403, a suspended account", problem(403, "Your organization has been suspended.")),
    _account("403, a region", problem(403, "Country, region, or territory not supported")),
    _account("402", problem(402, "Insufficient balance")),
    _account("400, no credits", problem(400, "Your credit balance is too low to access the API.")),
    _account("429, no quota", problem(429, "You exceeded your current quota, please check your "
                                      "plan and billing details.", chat="insufficient_quota"),
             CHAT),
    _account("400, a usage limit", problem(400, "You have reached your specified API usage limits. "
                                           "You will regain access on 2031-01-01 at 00:00 UTC."),
             frozenset({Dialect.MESSAGES})),
    _account("429, a daily limit", problem(429, "Rate limit reached: you have used up the quota "
                                           "of 1000 requests per day.")),
    _account("404, a retired model", problem(404, "The model has been deprecated and retired: "
                                             "the model does not exist any more.")),
    Honest(name="429", fail=problem(429, "Rate limit reached for requests per minute."),
           limit=True),
    Honest(name="429 with retry-after", limit=True,
           fail=problem(429, "Too many requests per minute.", ("retry-after", "7"))),
    Honest(name="400 without a reason", fail=problem(400, "Bad Request"), blamed=EITHER,
           transient=False),
)  # fmt: skip

# Those of a lane that strike each call by itself, and are known by one call: where nobody listens
# there is no lane, the proxy itself asks again after a reset, and one bare 400 proves nothing.
_BY_NAME = {failure.name: failure for failure in FAILURES}
_NOT_ONCE = ("nobody listens", "a reset before a word", "400 without a reason")
ONCE = tuple(failure for failure in FAILURES if failure.name not in _NOT_ONCE)

# What a trainer's engine does to all that it runs while it takes new weights.
ABORTS: tuple[Honest, ...] = (
    _BY_NAME["aborted before a word"],
    Honest(name="aborted midway", fail=partial(world.aborted, text="I am"),
           dialects=frozenset({Dialect.CHAT, Dialect.MESSAGES}), blamed=Blamed({None})),
    _outage("503, aborted", problem(503, "Stopped by an AbortReq.")),
    _BY_NAME["an answer that is cut"],
    _BY_NAME["500, the engine is dead"],
)  # fmt: skip


def _as_text(question: Question) -> Played:
    return answered(replace(question, tools=False), text="API Error: 503 Service Unavailable")


# Answers without output, to whoever asks, or with an error in its place.
WORDLESS: tuple[Honest, ...] = (
    _outage("an empty answer", world.wordless),
    _outage("an answer of {}", lambda _: whole({})),
    _outage("an error in place of words", _as_text),
    _outage("a redirect to a page", world.elsewhere(302, "https://127.0.0.1/login")),
    _outage("a redirect to another region", world.elsewhere(307, "https://127.0.0.1/v1")),
)  # fmt: skip

# What is seldom seen.
SELDOM: tuple[Honest, ...] = (
    _account("401 in plain text", page(401, "Unauthorized")),
    _account("407, a proxy between", page(407, "Cache Access Denied", "squid")),
    _account("403, a clock that is wrong",
             problem(403, "Signature expired: 20261128T070000Z is now earlier than "
                          "20261128T071000Z (20261128T071500Z - 5 min.)",
                     converse="InvalidSignatureException")),
    _account("403, a day's quota", problem(403, "Daily request limit of 1000 reached. Resets at "
                                                "00:00 UTC.")),
    Honest(name="410", fail=page(410, "Gone"), blamed=EITHER, transient=False),
    Honest(name="460", fail=page(460, "Client closed"), blamed=EITHER, transient=False),
    _outage("499", page(499, "Client closed")),
    _outage("561", page(561, "Unauthorized")),
    _outage("599", page(599, "Network connect timeout")),
    _outage("a head that is none", lambda _: (b"HTTP/1.1 OK 200 fine\r\nx: 1\r\n\r\n", Cut())),
    _outage("chunks without a size", lambda _: (_CHUNKED, Cut())),
    _outage("a body cut inside its encoding", world.half_encoded),
    _outage("an answer of null", lambda _: whole(None)),
    _outage("an answer in plain text", lambda _: Answer(
        headers=(("content-type", "text/plain"),), body=(b"Service is up",))),
    Honest(name="a stream of nothing", fail=lambda _: streamed(b"data: [DONE]\n\n"),
           dialects=CHAT, streams=True),
    Honest(name="429, retry-after of a second, for ever", limit=True,
           fail=problem(429, "slow down", ("retry-after", "1"))),
)  # fmt: skip

# What strikes but a part of what is asked, and no plain question.
PARTS = tuple(_BY_NAME[name] for name in ("500", "503, a gateway's page", "error inside a 200"))
STREAMS = tuple(each for each in FAILURES if each.streams and not each.silent)
AFFORDED: tuple[Honest, ...] = (
    _account("402, fewer tokens", problem(402, "This request requires more credits, or fewer "
                                               "max_tokens. You requested up to 4096 tokens, but "
                                               "can only afford 312."), CHAT),
)  # fmt: skip

# A filter that refuses whatever is asked.
FILTERS: tuple[Honest, ...] = (
    Honest(name="400, filtered", blamed=PROVIDER, dialects=CHAT,
           fail=problem(400, "The response was filtered due to the prompt triggering our content "
                             "management policy.", chat="content_filter")),
    Honest(name="400, a guardrail", blamed=PROVIDER, dialects=CHAT,
           fail=problem(400, "Request blocked: the content violates our safety policy.",
                        chat="content_policy_violation")),
)  # fmt: skip

# What a limit on tokens answers to large requests, and to no small one.
LIMITS: tuple[Honest, ...] = (
    Honest(name="429, tokens per minute", limit=True,
           fail=problem(429, "Rate limit reached on tokens per min (TPM).")),
    Honest(name="429, tokens, none left", limit=True, used_up=True,
           fail=problem(429, "Rate limit reached on tokens per min (TPM).",
                        ("x-ratelimit-remaining-tokens", "0"),
                        ("anthropic-ratelimit-input-tokens-remaining", "0"))),
    Honest(name="429, too many tokens", limit=True,
           fail=problem(429, "Too many tokens, please wait before trying again.")),
)  # fmt: skip

# What is answered where a registered name is not served, as engines and gateways put it.
NOT_SERVED: tuple[Honest, ...] = (
    _account("in the dialect's words", world.not_served),
    _account("vLLM", problem(404, "The model `m` does not exist.", chat="NotFoundError")),
    _account("Ollama", problem(404, 'model "m" not found, try pulling it first')),
    _account("Azure", problem(404, "The API deployment for this resource does not exist.",
                              chat="DeploymentNotFound")),
    _account("OpenRouter", problem(400, "m is not a valid model ID")),
)  # fmt: skip
