"""Build the record of a call, an Exchange, from what was observed of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from classifier.records import Cause, Ending, Exchange, Timing, Usage, UsageSource
from proxy.capture.call import CapturedRequest
from proxy.capture.response_head import ResponseHead
from proxy.wire import usage
from proxy.wire.dialect import Reading, Totals
from proxy.wire.response import ReadResult, ResponseReader

_COUNTS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens", "input_total", "output_total")  # fmt: skip
_BEYOND = "a count or a cost that no call can have"


def opened_exchange(request: CapturedRequest, api: str) -> Exchange:
    """Build the exchange of a call in flight: ``ending`` is None."""
    call, route = request.call, request.route
    model, streamed, has_tools = request.body.fields()
    return Exchange(
        id=call.id,
        rollout_id=call.rollout_id,
        upstream=call.upstream,
        api=api,
        timing=Timing(call.started_at),
        kind=route.kind,
        method=call.method,
        role=call.role,
        model=route.model or model,
        streamed=route.streams or streamed,
        has_tools=has_tools,
        request_bytes=request.body.size,
        sdk_retry=request.sdk_retry,
        attribution=call.attribution,
        key_digest=call.key_digest,
        injected=call.injected,
    )


def finished_exchange(
    request: CapturedRequest,
    head: ResponseHead,
    response: ResponseReader,
    result: ReadResult,
    *,
    ending: Ending,
    cause: Cause | None,
    timing: Timing,
    size: int,
    unreadable: str | None,
    held: bool,
) -> Exchange:
    """Build the exchange of a call that ended.

    Arguments:
        result: what the response said, as ``response.end()`` returned it.
        size: bytes of the response body.
        unreadable: why the response could not be read; None where it could.
        held: the request was not whole, or the agent did not read, as it ended.
    """
    call, route = request.call, request.route
    model, streamed, has_tools = request.body.fields()
    facts = request.facts
    reading, complete, _ = result
    selects = request.selected or request.body.selected
    response_id = route.continues or reading.response_id
    payloads = response.payloads
    # Whether the response was understood to where it went: no output then means none.
    understood = unreadable is None and (
        reading.understood or payloads.error is not None or (head.status or 0) >= 400
    )
    # Only a call that failed is sent again, so only then is the body's digest taken.
    succeeded = cause is None and ending is Ending.COMPLETE and not request.sdk_retry
    if response.framed:
        streamed = True
    elif head.status == 200 and size and unreadable is None:
        streamed = False
    else:
        streamed = route.streams or streamed
    stated = head.stated_usage
    if reading.unreadable or stated:
        if reading.unreadable or (stated and not usage.plausible(stated)):
            unreadable = unreadable or _BEYOND
        reading = usage.readable(reading)
    # By position, and in parts: names take twice the time, and so does a call with over thirty
    # arguments, which Python collects in a list one by one.
    asked = (
        call.id, call.rollout_id, call.upstream, payloads.api, timing, route.kind, call.method,
        call.role, route.model or model, reading.model, head.status, ending, streamed,
    )  # fmt: skip
    answered = (
        _usage(reading, complete, stated, payloads.dialect.totals),
        reading.finish_reason,
        len(reading.calls) if understood else None,
        reading.output if understood or reading.output else None,
        reading.content if understood or reading.content else None,
        has_tools, cause, head.request_id, request.body.size, size,
        None if succeeded else request.digest(),
        request.sdk_retry,
        None if response_id is None else request.response_digest(response_id),
        reading.pending,
    )  # fmt: skip
    checked = (
        call.attribution, call.key_digest, call.injected, unreadable,
        request.selector_digest() if selects else None,
        call.key_source,
        request.body.ambiguous and request.ambiguous(),
        held, facts.output_limit, facts.prompt_words, facts.continues, facts.begun_elsewhere,
        None if payloads.written is None or not understood else payloads.written_call(reading),
        head.fallback,
        head.served_by or reading.served_by,
        reading.system_fingerprint,
        reading.weight_version,
        None if request.traceparent is None else _trace(request.traceparent),
    )  # fmt: skip
    return Exchange(*(asked + answered + checked))


def _usage(
    reading: Reading, complete: bool, stated: Mapping[str, float] | None, totals: Totals
) -> Usage:
    source = UsageSource.ABSENT
    if reading.input_tokens is not None or _has_counts(reading):
        final = complete or reading.finish_reason is not None
        source = UsageSource.PROVIDER if final else UsageSource.PARTIAL
    if stated:
        reading = copy.copy(reading)
        usage.fill(reading, stated)
        if source is UsageSource.ABSENT and _has_counts(reading):
            source = UsageSource.HEADER
    input_total, output_total = totals(reading)
    return Usage(  # by position, as above
        reading.input_tokens, reading.output_tokens, reading.cached_input_tokens,
        reading.cache_write_tokens, reading.reasoning_tokens, reading.total_tokens,
        input_total, output_total, source, reading.cost_usd,
    )  # fmt: skip


def _has_counts(reading: Reading) -> bool:
    return any(getattr(reading, field) is not None for field in _COUNTS)


def _trace(value: bytes) -> str | None:
    """As sent, where it has a traceparent's length in version 00 (w3.org/TR/trace-context)."""
    return value.decode("latin-1") if len(value) == 55 else None
