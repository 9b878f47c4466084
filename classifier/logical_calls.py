"""Group exchanges into logical calls, and say what became of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

from classifier.records import ABANDONED, WRONG_SHAPE, AnswerState, Ending, Exchange, Kind

# --- model names ---
#
# Registrations, gateways and providers spell one model differently.


# Amazon Bedrock writes [region.]vendor.model-vN:M; inference profiles put the region in front.
# docs.aws.amazon.com/bedrock/latest/userguide/models-supported.html and
# inference-profiles-support.html
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|ap|apac|au|ca|jp|sa|me|af|global)\.)?"
    r"(?:ai21|amazon|anthropic|cohere|deepseek|google|luma|meta|minimax|mistral|moonshot"
    r"|moonshotai|nvidia|openai|qwen|stability|twelvelabs|writer|zai)\."
    r"(?P<name>.+?)(?:-v\d+)?"
)
# A date or "latest" behind a name: gpt-5-2025-08-07, claude-…-20250514, …@latest, …-08-2024.
_DATED = re.compile(r"[-@](?:\d{4}-?\d{2}-?\d{2}|\d{2}-\d{4}|\d{4}|latest)$")
# OpenRouter's :free and Bedrock's :0 choose a way to a model; Ollama's :32b is another model.
_SIZE = re.compile(r"[\w.-]*\d[bm]\b")
_FINE_TUNED = "ft:"


@lru_cache(maxsize=4096)
def canonical(model: str | None) -> str | None:
    """Return a model's name without provider prefix, region, date, ``:suffix`` and case.

    A suffix that names a size stays, and so does a fine-tune's whole name.
    """
    if model is None:
        return None
    name = model.casefold()
    if name.startswith(_FINE_TUNED):
        return name
    name, _, suffix = name.rpartition("/")[2].partition(":")
    match = _BEDROCK.fullmatch(name)
    name = _DATED.sub("", match["name"] if match else name)
    return f"{name}:{suffix}" if _SIZE.match(suffix.replace("_", "-")) else name


def unsized(model: str | None) -> str | None:
    """Return the canonical name without the size behind it, ``qwen3`` of ``qwen3:32b``."""
    name = canonical(model)
    return name and (name if name.startswith(_FINE_TUNED) else name.partition(":")[0])


# --- logical calls ---


# Finish reasons of a refusal; a refusal is a response, never an API error.
# OpenAI chat and Azure "content_filter", Anthropic "refusal" (messages API, stop_reason),
# Gemini FinishReason and BlockedReason, Bedrock StopReason, Cohere v1 ERROR_TOXIC.
REFUSALS = frozenset(
    {
        "refusal",
        "content_filter",
        "content_filtered",
        "guardrail_intervened",
        "error_toxic",
        "safety",
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "image_safety",
        "model_armor",
        "language",
        "sensitive",
    }
)

# Finish reasons of an answer cut short by its own limit: OpenAI chat "length", Responses
# "max_output_tokens", Anthropic and Bedrock "max_tokens", Gemini and Cohere "MAX_TOKENS",
# Mistral "model_length". Responses' snapshot has a status before it ("incomplete:…"); Gemini's
# Interactions have that alone, or a budget of all turns (ai.google.dev/api/interactions-api).
CUT_SHORT = frozenset(("length", "max_output_tokens", "max_tokens", "model_length", "incomplete",
                       "budget_exceeded"))  # fmt: skip
# Finish reasons of a tool call that Gemini's model wrote and its server could not read.
# ai.google.dev/api/generate-content#FinishReason
_BOTCHED = frozenset(
    ("malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "malformed_response")
)
# Finish reasons of an answer that the engine ended by itself: vllm/v1/request.py RequestStatus,
# sglang FINISH_ABORT in python/sglang/srt/managers/schedule_batch.py.
_ABORTS = frozenset(("abort", "aborted", "error"))
_ANSWERS_WITHOUT_CONTENT = REFUSALS | CUT_SHORT | _BOTCHED
# A long turn of the provider's own tools, or of more tokens than it writes at once, is paused:
# docs.claude.com/en/api/handling-stop-reasons, python-genai _interactions_continuation.py.
_PAUSES = frozenset(("pause_turn", "requires_continuation"))
FILTERED = "content_filter"  # the reason of a filter's cause, and the finish reason of one
_CANCELLED = "cancelled"  # a background response that the agent took back


class CallState(Enum):
    """The state of a call, as far as the provider is concerned."""

    ANSWERED = auto()
    UNREAD = auto()  # a response came whole, and neither output nor an error was found in it
    FAILED = auto()
    UNANSWERED = auto()  # no output, and nobody's failure: the agent did not wait for it
    PENDING = auto()
    LOST = auto()
    HELD = auto()  # the agent did not wait for it, and most of the wait was the proxy's


class LogicalCall(NamedTuple):
    """One logical call: an SDK's retries of one request are attempts of one call.

    So are the requests that fetch a background response.
    """

    attempts: tuple[Exchange, ...]
    failures: tuple[Exchange, ...]  # the attempts that failed, oldest first
    state: CallState
    model: str | None  # canonical name

    @property
    def asked(self) -> Exchange:
        """The first attempt, which carried the request."""
        return self.attempts[0]

    @property
    def last(self) -> Exchange:
        """The last attempt, which decides."""
        return self.attempts[-1]

    @property
    def abandoned(self) -> bool:
        """True if the agent gave up the call before an answer. A redirect is not given up."""
        status = self.last.status
        return self.state is CallState.UNANSWERED and (status is None or status < 300)


def ended_at(exchange: Exchange) -> float:
    """Return when it ended, in seconds since the epoch; its start where that is unknown."""
    timing = exchange.timing
    return timing.started_at + (timing.duration_s or 0.0)


def by_end(exchange: Exchange) -> tuple[float, float, str]:
    """Return what exchanges are sorted by: end, start and id."""
    timing = exchange.timing
    started = timing.started_at
    return (started + (timing.duration_s or 0.0), started, exchange.id)


def counted(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the inference calls by role agent, in the order of their ends.

    Ends, not starts: a success follows a failure when the agent got it later. What is an
    inference call by its shape alone is none here: the first release knew none.
    """
    inference = Kind.INFERENCE
    return sorted(
        (x for x in exchanges if x.kind is inference and x.role == "agent" and not x.inferred),
        key=by_end,
    )


def with_continuations(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return all inference calls by role agent, and what fetches a background response."""
    kinds = (Kind.INFERENCE, Kind.CONTINUATION)
    return sorted((x for x in exchanges if x.kind in kinds and x.role == "agent"), key=by_end)


def output_tokens(exchange: Exchange) -> int | None:
    """Return all output tokens, reasoning included; None when unknown."""
    usage = exchange.usage
    return usage.output_tokens if usage.output_total is None else usage.output_total


def has_output(exchange: Exchange) -> bool:
    """Return True if any output is known: text, reasoning, a tool call or a token.

    What an answer in the shape of another API holds, its agent cannot read.
    """
    if exchange.cause is not None and exchange.cause.reason == WRONG_SHAPE:
        return False
    return bool(exchange.output_seen or exchange.tool_calls or output_tokens(exchange))


def has_content(exchange: Exchange) -> bool | None:
    """Return True if text or a tool call came, reasoning aside, and None if that is not known."""
    if exchange.tool_calls:
        return True
    return exchange.output_seen if exchange.content_seen is None else exchange.content_seen


@lru_cache(maxsize=256)
def bare_reason(finish_reason: str | None) -> str:
    """Return a finish reason without case and without the status before it."""
    return (finish_reason or "").casefold().rpartition(":")[2]


def refused(exchange: Exchange) -> bool:
    """Return True if the provider's finish reason says that the model refused."""
    return bare_reason(exchange.finish_reason) in REFUSALS


def filtered(exchange: Exchange) -> bool:
    """Return True if the call's error says that a content filter stopped it."""
    return exchange.cause is not None and exchange.cause.reason == FILTERED


def filter_as_answer(exchange: Exchange, *, on_requests: bool) -> Exchange:
    """Return a call that a filter stopped as the refusal that it is; others as they are.

    Arguments:
        on_requests: also one whose request was rejected for it; else only one that was begun to
            be answered.
    """
    rejected = exchange.status is not None and exchange.status >= 400
    if not filtered(exchange) or (rejected and not on_requests):
        return exchange
    return replace(exchange, cause=None, ending=Ending.COMPLETE, finish_reason=FILTERED)


def cut_short(exchange: Exchange) -> bool:
    """Return True if the answer reached its token limit, whatever its finish reason says."""
    if exchange.answer_state is AnswerState.EMPTY:
        return False
    if cuts(exchange.finish_reason):
        return True
    spent = has_content(exchange) is False and exchange.cause is None
    return spent and used_up(exchange.output_limit, output_tokens(exchange))


def used_up(limit: int | None, made: int | None) -> bool:
    """Return True if as many tokens were made as a request allows: without a word, all thinking.

    Some servers end such an answer with "stop" (elizaOS/eliza#8189).
    """
    return limit is not None and made is not None and made >= limit > 0


def cuts(finish_reason: str | None) -> bool:
    """Return True if a finish reason says that a limit of tokens ended the answer."""
    return bare_reason(finish_reason) in CUT_SHORT


def is_abort(finish_reason: str | None) -> bool:
    """Return True if a finish reason says that the engine aborted the answer."""
    return bare_reason(finish_reason) in _ABORTS


def is_answer(finish_reason: str | None) -> bool:
    """Return True if a finish reason counts as an answer even without text."""
    reason = bare_reason(finish_reason)
    return reason in _ANSWERS_WITHOUT_CONTENT or reason in _PAUSES


def proven_empty(exchange: Exchange) -> bool:
    """Return True if a response is known to hold no text and no tool call.

    Hidden reasoning is no answer (Gemini ends so with STOP); a refusal, an answer cut short
    and a botched tool call are. One that could not be read is not proven.
    """
    if exchange.answer_state is AnswerState.EMPTY:
        return True
    seen = has_content(exchange)
    if seen or bare_reason(exchange.finish_reason) in _ANSWERS_WITHOUT_CONTENT:
        return False
    if cut_short(exchange):
        return False
    return seen is False or output_tokens(exchange) == 0


def wordless(exchange: Exchange) -> bool:
    """Return True if neither output nor an error came: empty, unread or a redirect."""
    if exchange.cause is not None or exchange.pending:
        return False
    state = state_of(exchange)
    if state is CallState.ANSWERED:
        return proven_empty(exchange)
    redirected = state is CallState.UNANSWERED and (exchange.status or 0) >= 300
    return redirected or state is CallState.UNREAD


def says_nothing(exchange: Exchange) -> bool:
    """Return True if an answer is `wordless`, or an error stands in it in place of words."""
    return wordless(exchange) or exchange.output_reads_as is not None


def state_of(exchange: Exchange, *, settled: bool = False) -> CallState:
    """Return the state of one attempt by itself.

    A background response that is not there yet is pending; once the rollout is over
    (``settled``), the agent did not wait for it.
    """
    if exchange.cause is not None:
        return CallState.FAILED
    ending = exchange.ending
    if ending is None:
        return CallState.PENDING
    if ending is Ending.LOST:
        return CallState.LOST
    if left_while_held(exchange):
        return CallState.HELD
    if exchange.pending:
        return CallState.UNANSWERED if settled else CallState.PENDING
    unread = exchange.answer_state is AnswerState.UNREAD  # of a redirect, too
    whole = ending is Ending.COMPLETE and (
        exchange.status is None or exchange.status < 300 or unread or refused(exchange)
    )
    if (
        whole
        and exchange.kind is Kind.CONTINUATION
        and bare_reason(exchange.finish_reason) == _CANCELLED
    ):
        return CallState.UNANSWERED
    if whole and unread and not refused(exchange):
        return CallState.UNREAD
    return CallState.ANSWERED if whole or has_output(exchange) else CallState.UNANSWERED


def left_while_held(exchange: Exchange) -> bool:
    """Return True if the proxy had a call wait that its agent gave up.

    Either it was not sent yet, or it had waited for its turn longer than for its answer.
    """
    if exchange.ending is Ending.LEFT_WHILE_HELD:
        return True
    held_s = exchange.held_s
    if not held_s or exchange.ending not in ABANDONED or has_output(exchange):
        return False
    return held_s > (exchange.timing.duration_s or 0.0)


def proves(exchange: Exchange) -> bool:
    """Return True if model output was read in the response.

    What was recorded before answers had a state is proven as it was then: by output that was
    seen, or by an answer that is not known to be empty.
    """
    state = exchange.answer_state
    if state is AnswerState.READ:
        return True
    if state is not None:
        return exchange.cause is None and refused(exchange)
    if exchange.output_seen or exchange.tool_calls:
        return True
    # Anthropic's streams count a token before the first word: no output, where one was looked for.
    if exchange.output_seen is None and output_tokens(exchange):
        return True
    if exchange.cause is not None:
        return False
    return not proven_empty(exchange) and state_of(exchange) is CallState.ANSWERED


def _joined(ordered: Iterable[Exchange]) -> list[list[Exchange]]:
    groups: list[list[Exchange]] = []
    latest: dict[str, list[Exchange]] = {}
    responses: dict[str | None, list[Exchange]] = {}
    for exchange in ordered:
        if exchange.kind is Kind.CONTINUATION:
            _continue(responses.get(exchange.response_digest), exchange)
            continue
        digest = exchange.request_digest
        group = latest.get(digest) if digest else None
        if group is not None and _retries(exchange, group[-1]):
            group.append(exchange)
        else:
            group = [exchange]
            groups.append(group)
        if digest:
            latest[digest] = group
        if exchange.pending is not None:  # only such a response is fetched later
            responses[exchange.response_digest] = group
    return groups


def _continue(group: list[Exchange] | None, fetch: Exchange) -> None:
    """Add what fetched a response to its call; reading an answer again is nothing new."""
    if group is not None and state_of(group[-1]) is not CallState.ANSWERED:
        group.append(fetch)


def _retries(exchange: Exchange, earlier: Exchange) -> bool:
    return (exchange.sdk_retry or 0) > (earlier.sdk_retry or 0) and (
        state_of(earlier) is not CallState.ANSWERED
    )


_NO_ANSWER = (CallState.UNANSWERED, CallState.UNREAD)  # neither makes a failure good


def _call(attempts: Sequence[Exchange], *, settled: bool) -> LogicalCall:
    last = attempts[-1]
    state = state_of(last, settled=settled)
    failures = tuple([x for x in attempts if x.cause is not None])
    if failures and state in _NO_ANSWER and not last.pending:
        state = CallState.FAILED
    return LogicalCall(tuple(attempts), failures, state, canonical(attempts[0].model))


def calls_of(ordered: Sequence[Exchange], *, settled: bool = False) -> tuple[LogicalCall, ...]:
    """Return the logical calls in the order of their ends.

    A retry states that it is one (``x-stainless-retry-count``, openai-python
    ``_base_client.py``) and repeats the same request digest. What fetches a background
    response belongs to the call that began it; where that one is not here, it is left out.
    """
    if not any(x.sdk_retry or x.kind is not Kind.INFERENCE for x in ordered):
        return tuple([_call((x,), settled=settled) for x in ordered])
    groups = _joined(ordered)
    groups.sort(key=lambda group: by_end(group[-1]))
    return tuple([_call(group, settled=settled) for group in groups])
