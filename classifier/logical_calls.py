"""Group exchanges into logical calls, and find those to the model under test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from classifier.fingerprints import plain
from classifier.records import Ending, Exchange, Kind, RolloutRecord

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

# A date or "latest" behind a model's name: gpt-5-2025-08-07, claude-…-20250514, …@latest.
_DATED = re.compile(r"[-@:](\d{4}-?\d{2}-?\d{2}|\d{4}|latest)$")


class CallState(Enum):
    """The state of a call, as far as the provider is concerned."""

    ANSWERED = auto()
    FAILED = auto()
    UNANSWERED = auto()  # the agent hung up before any output; nobody's failure
    PENDING = auto()
    LOST = auto()


class LogicalCall(NamedTuple):
    """One logical call: an SDK's retries of one request are attempts of one call."""

    attempts: tuple[Exchange, ...]
    failures: tuple[Exchange, ...]  # the attempts that failed, oldest first
    state: CallState
    model: str | None  # plain name

    @property
    def last(self) -> Exchange:
        """The last attempt, which decides."""
        return self.attempts[-1]


def ended_at(exchange: Exchange) -> float:
    """Return when it ended, in seconds since the epoch; its start where that is unknown."""
    timing = exchange.timing
    return timing.started_at + (timing.duration_s or 0.0)


def _by_end(exchange: Exchange) -> tuple[float, float, str]:
    timing = exchange.timing
    started = timing.started_at
    return (started + (timing.duration_s or 0.0), started, exchange.id)


def counted(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the inference calls by role agent, in the order of their ends.

    Ends, not starts: a success follows a failure when the agent got it later.
    """
    inference = Kind.INFERENCE
    return sorted((x for x in exchanges if x.kind is inference and x.role == "agent"), key=_by_end)


def output_tokens(exchange: Exchange) -> int | None:
    """Return all output tokens, reasoning included; None when unknown."""
    usage = exchange.usage
    return usage.output_tokens if usage.output_total is None else usage.output_total


def has_output(exchange: Exchange) -> bool:
    """Whether any output is known: text, reasoning, a tool call, a token."""
    return bool(exchange.output_seen or exchange.tool_calls or output_tokens(exchange))


def refused(exchange: Exchange) -> bool:
    """Whether the model refused, by the provider's finish reason."""
    reason = exchange.finish_reason
    return reason is not None and reason.casefold() in REFUSALS


def proven_empty(exchange: Exchange) -> bool:
    """Whether a response is known to be empty; an unreadable one is not."""
    if has_output(exchange) or refused(exchange):
        return False
    return exchange.output_seen is False or output_tokens(exchange) == 0


def state_of(exchange: Exchange) -> CallState:
    """Return the state of one attempt by itself."""
    if exchange.cause is not None:
        return CallState.FAILED
    ending = exchange.ending
    if ending is None:
        return CallState.PENDING
    if ending is Ending.LOST:
        return CallState.LOST
    whole = ending is Ending.COMPLETE and (exchange.status is None or exchange.status < 300)
    return CallState.ANSWERED if whole or has_output(exchange) else CallState.UNANSWERED


def _joined(ordered: Iterable[Exchange]) -> list[list[Exchange]]:
    groups: list[list[Exchange]] = []
    latest: dict[str, list[Exchange]] = {}
    for exchange in ordered:
        digest = exchange.request_digest
        group = latest.get(digest) if digest and exchange.sdk_retry else None
        if group is not None and _retries(exchange, group[-1]):
            group.append(exchange)
            continue
        groups.append([exchange])
        if digest:
            latest[digest] = groups[-1]
    return groups


def _retries(exchange: Exchange, earlier: Exchange) -> bool:
    return (exchange.sdk_retry or 0) > (earlier.sdk_retry or 0) and (
        state_of(earlier) is not CallState.ANSWERED
    )


def _call(attempts: list[Exchange]) -> LogicalCall:
    last = attempts[-1]
    state = state_of(last)
    failures = tuple([x for x in attempts if x.cause is not None])
    if state is CallState.UNANSWERED and failures:
        state = CallState.FAILED
    return LogicalCall(tuple(attempts), failures, state, plain(last.model))


def calls_of(ordered: Sequence[Exchange]) -> tuple[LogicalCall, ...]:
    """Return the logical calls in the order of their ends.

    A retry states that it is one (``x-stainless-retry-count``, openai-python
    ``_base_client.py``) and repeats the same request digest.
    """
    groups = _joined(ordered)
    if len(groups) < len(ordered):
        groups.sort(key=lambda group: _by_end(group[-1]))
    return tuple([_call(group) for group in groups])


def _undated(model: str) -> str:
    return _DATED.sub("", model)


def _named(by_model: dict[str | None, list[LogicalCall]], model: str) -> set[str | None]:
    """Find the models of the runner's name: exact, without date, or as the provider names it."""
    if model in by_model:
        return {model}
    dateless = _undated(model)
    close: set[str | None] = {name for name in by_model if name and _undated(name) == dateless}
    return close or {
        name
        for name, calls in by_model.items()
        if any(plain(call.last.answered_model) == model for call in calls)
    }


def _weight(item: tuple[str | None, list[LogicalCall]]) -> tuple[bool, int, int, str]:
    name, calls = item
    tools = any(call.last.has_tools for call in calls)
    return (tools, sum(call.last.request_bytes for call in calls), len(calls), name or "")


def main_calls(calls: tuple[LogicalCall, ...], rollout: RolloutRecord) -> tuple[LogicalCall, ...]:
    """Return the calls to the model under test, over any upstream and key.

    It is the one the runner named, else the one whose calls carry tools, else the one
    with the most request bytes. Lanes that differ only in
    key or upstream reach the same model and are taken together.
    """
    by_model: dict[str | None, list[LogicalCall]] = {}
    for call in calls:
        by_model.setdefault(call.model, []).append(call)
    if len(by_model) < 2:
        return calls
    name = plain(rollout.model)
    chosen = _named(by_model, name) if name else set()
    if not chosen:
        chosen = {max(by_model.items(), key=_weight)[0]}
    return tuple([call for call in calls if call.model in chosen])
