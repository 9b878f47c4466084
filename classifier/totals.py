"""Total a rollout's calls: statuses, tokens, cost and time.

An unknown count is never summed as zero.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from operator import itemgetter
from typing import TypeAlias, TypeVar

from classifier.fingerprints import status_name
from classifier.logical_calls import LogicalCall, ended_at, output_tokens
from classifier.records import Cause, Exchange, Kind, LimitReached, Usage

T = TypeVar("T", int, float)
Counted = TypeVar("Counted")
Span: TypeAlias = tuple[float, float]  # from when to when

_CALLS_TO_MODELS = frozenset((Kind.INFERENCE, Kind.CONTINUATION))
EXACT = 2**53  # up to here JSON's numbers are whole ones, and either database takes them


@dataclass(frozen=True, slots=True, kw_only=True)
class Dominant:
    """The most frequent failure: its cause, its status and the last call that had it."""

    status: int | None
    cause: Cause
    example: Exchange


def status_counts(failures: Iterable[Exchange]) -> dict[str, int]:
    """Count the failed calls by status; ``network`` for calls without a response.

    An error inside an HTTP 200 counts under ``200``.
    """
    return dict(sorted(Counter(status_name(x.status) for x in failures).items()))


def most_frequent(items: Sequence[Counted]) -> Counted:
    """Return the most frequent item; on a tie the last one."""
    counts = Counter(items)
    most = max(counts.values())
    return next(item for item in reversed(items) if counts[item] == most)


def dominant(failures: Sequence[Exchange]) -> Dominant | None:
    """Return the most frequent failed status, and within it the most frequent subcategory.

    ``failures`` in the order of their ends; None when there are none.
    """
    caused = [(x, x.cause) for x in failures if x.cause is not None]
    if not caused:
        return None
    status = most_frequent([x.status for x, _ in caused])
    caused = [(x, cause) for x, cause in caused if x.status == status]
    subcategory = most_frequent([cause.subcategory for _, cause in caused])
    example, cause = next(pair for pair in reversed(caused) if pair[1].subcategory is subcategory)
    return Dominant(status=status, cause=cause, example=example)


def sum_known(values: Iterable[T | None]) -> T | None:
    """Sum what is known; None if nothing is, or where no reader of JSON would keep the sum."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    total = sum(known)
    if isinstance(total, float) and abs(total) <= EXACT:
        return type(total)(fsum(known))  # sum() rounds after each addition before Python 3.12
    return total if total <= EXACT else None  # NaN is not


def _has_no_usage(exchange: Exchange) -> bool:
    """Return True if a call failed without any usage, by an HTTP error or without a response."""
    status = exchange.status
    return exchange.cause is not None and (status is None or status >= 400)


def _input_tokens(usage: Usage) -> int | None:
    return usage.input_tokens if usage.input_total is None else usage.input_total


def _sum_or_none(
    exchanges: Iterable[Exchange], read: Callable[[Exchange], int | None]
) -> int | None:
    values = [(read(x), x) for x in exchanges]
    return sum_known([0 if n is None and _has_no_usage(x) else n for n, x in values])


def input_total(exchanges: Iterable[Exchange]) -> int | None:
    """Sum all input tokens, cache included; None if unknown."""
    return _sum_or_none(exchanges, lambda x: _input_tokens(x.usage))


def output_total(exchanges: Iterable[Exchange]) -> int | None:
    """Sum all output tokens, reasoning included; None if unknown."""
    return _sum_or_none(exchanges, output_tokens)


def _all_tokens(exchange: Exchange) -> int | None:
    read, written = _input_tokens(exchange.usage), output_tokens(exchange)
    if read is None or written is None:
        stated = exchange.usage.total_tokens
        return sum_known((read, written)) if stated is None else stated
    return read + written


def all_tokens(exchanges: Iterable[Exchange]) -> int | None:
    """Sum input and output, else the provider's own total; None if unknown."""
    return _sum_or_none(exchanges, _all_tokens)


def tool_calls(exchanges: Iterable[Exchange]) -> int | None:
    """Count the tool calls in the responses; None if none could be read."""
    return _sum_or_none(exchanges, lambda x: x.tool_calls)


def cost_usd(exchanges: Iterable[Exchange]) -> float | None:
    """Sum the cost that the providers stated, in US dollars; None if none did."""
    return sum_known(x.usage.cost_usd for x in exchanges)


def using_tokens(exchanges: Iterable[Exchange], *, every_role: bool = False) -> list[Exchange]:
    """Return the agent's ended calls that used tokens, unless it is known that they did not.

    Of these the sums of tokens are to be made, so far as each says how many it used; that of the
    cost is made of the calls of every role.
    """
    counted = [x for x in exchanges if (every_role or x.role == "agent") and x.ending is not None]
    ended = [x for x in counted if not x.pending and uses_tokens(x)]
    return [*ended, *unfetched(counted)]


def unfetched(exchanges: Collection[Exchange]) -> list[Exchange]:
    """Return the last answer about each background response whose end was never fetched.

    Its model goes on all the same: it used tokens, and nobody knows how many.
    """
    waiting = [x for x in exchanges if x.pending and x.kind in _CALLS_TO_MODELS]
    if not waiting:
        return []
    ended = {
        x.response_digest for x in exchanges if x.ending is not None and not x.pending
        and x.response_digest is not None and uses_tokens(x)
    }  # fmt: skip
    last = {x.response_digest or x.id: x for x in waiting if x.response_digest not in ended}
    return list(last.values())


def uses_tokens(exchange: Exchange) -> bool:
    """Return True for a call to a model, unless it is known that it used no tokens."""
    return exchange.kind in _CALLS_TO_MODELS and not _has_no_usage(exchange)


def tokens_known(exchange: Exchange) -> bool:
    """Return True if the tokens of input and output are known, or their total."""
    read, written = _input_tokens(exchange.usage), output_tokens(exchange)
    return None not in (read, written) or exchange.usage.total_tokens is not None


def tokens_unknown_calls(exchanges: Iterable[Exchange]) -> int:
    """Count the agent's calls that used tokens and whose number is unknown."""
    return sum(not tokens_known(x) for x in using_tokens(exchanges))


def cost_unknown_calls(
    exchanges: Iterable[Exchange], cost: Callable[[Exchange], float | None] | None = None
) -> int:
    """Count the calls of every role that used tokens and whose cost is unknown.

    Arguments:
        cost: the cost of a call in US dollars; without it what its provider stated.
    """
    calls = using_tokens(exchanges, every_role=True)
    return sum((x.usage.cost_usd if cost is None else cost(x)) is None for x in calls)


def lost_spans(calls: Sequence[LogicalCall]) -> list[Span] | None:
    """Return from when to when failed attempts and the waits behind them lasted, in epoch seconds.

    None when there were failures and nothing is known of how long any took.
    """
    failures = [(call.model, attempt) for call in calls for attempt in call.failures]
    if not failures:
        return []
    starts = _starts(calls, {model for model, _ in failures})
    spans = [_span(attempt, starts[model]) for model, attempt in failures]
    if all(span is None for span in spans):
        return None
    return [span for span in spans if span is not None]


def _starts(calls: Sequence[LogicalCall], models: set[str | None]) -> dict[str | None, list[float]]:
    starts: dict[str | None, list[float]] = {model: [] for model in models}
    for call in calls:
        if call.model in starts:
            starts[call.model] += [attempt.timing.started_at for attempt in call.attempts]
    for listed in starts.values():
        listed.sort()
    return starts


def _span(attempt: Exchange, starts: list[float]) -> Span | None:
    """Return the span from a failed attempt's start to the next call to the same model."""
    ended = ended_at(attempt)
    after = bisect_left(starts, ended)
    if attempt.timing.duration_s is None:
        return None
    return (attempt.timing.started_at, starts[after] if after < len(starts) else ended)


def covered(spans: Iterable[Span]) -> float:
    """Return how many seconds lie within any of the spans."""
    within, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > until:
            within += end - (start if start > until else until)
            until = end
    return round(within, 6)  # differences of epoch seconds are noisy below a microsecond


# --- time ---
#
# Waiting for answers, lost to failures, and the agent's own.


_end = itemgetter(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAccount:
    """Seconds that add up to a rollout's wall time; a moment in two of them counts in the first.

    ``provider_s``: a call that did not fail was waited for. ``held_s``: a call waited at the proxy;
    None where none has to. ``lost_s``: a failed call was waited for, or the next try of it.
    ``agent_s``: none of these; None before the outcome, or where when it began is not
    known. All are None if no call's duration is known.
    """

    provider_s: float | None = None
    held_s: float | None = None
    lost_s: float | None = None
    agent_s: float | None = None


def time_account(
    calls: Sequence[LogicalCall],
    *,
    began_at: float | None,
    ended_at: float | None,
    limit_reached: LimitReached | None = None,
) -> TimeAccount:
    """Account for the time of a rollout.

    Arguments:
        calls: its logical calls by role agent.
        began_at: when it was registered or first called, in seconds since the epoch.
        ended_at: when its outcome was reported; None before.
        limit_reached: the limit that refused its calls, which may have waited for that.
    """
    lost = lost_spans(calls)
    if lost is None:
        return TimeAccount()
    spans = _within(_waited(calls), began_at, ended_at)
    busy_s = provider_s = covered(spans)
    held_s = None
    held = _held(calls, limit_reached)
    if held is not None:
        spans = [*spans, *_within(held, began_at, ended_at)]
        busy_s = covered(spans)
        held_s = round(busy_s - provider_s, 6)
    lost_s = 0.0
    if lost:
        before_s, busy_s = busy_s, covered([*spans, *_within(lost, began_at, ended_at)])
        lost_s = round(busy_s - before_s, 6)
    agent_s = None
    if began_at is not None and ended_at is not None:
        agent_s = round(max(0.0, ended_at - began_at - busy_s), 6)
    return TimeAccount(provider_s=provider_s, held_s=held_s, lost_s=lost_s, agent_s=agent_s)


def _held(calls: Iterable[LogicalCall], reached: LimitReached | None) -> list[Span] | None:
    """Return when calls waited for their turn, or for a limit; None where none has to."""
    held = [
        (attempt.timing.started_at - attempt.held_s, attempt.timing.started_at)
        for call in calls
        for attempt in call.attempts
        if attempt.held_s is not None
    ]
    if reached is not None and reached.held_s is not None:
        held.append((reached.at - reached.held_s, reached.at))
    return held or None


def _waited(calls: Iterable[LogicalCall]) -> list[Span]:
    return [
        (timing.started_at, timing.started_at + timing.duration_s)
        for call in calls
        for attempt in call.attempts
        if attempt.cause is None and (timing := attempt.timing).duration_s is not None
    ]


def _within(spans: list[Span], began: float | None, ended: float | None) -> list[Span]:
    """Cut spans to the rollout's own: calls in flight at its outcome end a little later."""
    first = float("-inf") if began is None else began
    last = float("inf") if ended is None else ended
    if not spans or (first <= min(spans)[0] and max(map(_end, spans)) <= last):
        return spans
    return [(max(start, first), min(end, last)) for start, end in spans if end > first]
