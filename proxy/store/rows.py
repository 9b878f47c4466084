"""Conversion between rows of calls and the classifier's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping

from classifier.records import (
    AnswerState,
    Attribution,
    Cause,
    Ending,
    Exchange,
    KeySource,
    Kind,
    Timing,
    Usage,
    UsageSource,
)
from classifier.verdicts import Subcategory

# A look-up costs a third of an enum's call, and a verdict reads thousands of rows.
_KINDS = {member.value: member for member in Kind}
_ENDINGS: dict[str | None, Ending | None] = {None: None, **{m.value: m for m in Ending}}
_SOURCES = {member.value: member for member in UsageSource}
_KEY_SOURCES: dict[str | None, KeySource | None] = {
    None: None,
    **{member.value: member for member in KeySource},
}
_STATES: dict[str | None, AnswerState | None] = {
    None: None,
    **{member.value: member for member in AnswerState},
}
_FLAGS = {None: None, 0: False, 1: True}  # True and 1 are one key
_ATTRIBUTIONS = {member.value: member for member in Attribution}
_NO_CAUSE = (None,) * 6


def exchange_row(e: Exchange) -> tuple[Any, ...]:
    """Return an exchange as the values of EXCHANGE_COLUMNS, in their order."""
    t, u, c = e.timing, e.usage, e.cause
    # `_value_` is what an enum's `value` looks up by two calls of Python's, four times an exchange;
    # in parts, since Python builds a tuple of over thirty items as a list first.
    call = (
        e.rollout_id, e.id, t.started_at, e.kind._value_, e.method, e.role, e.upstream, e.api,
        e.model, e.answered_model, e.status, e.ending._value_ if e.ending else None, e.streamed,
        t.first_byte_s, t.first_token_s, t.duration_s,
    )  # fmt: skip
    answer = (
        u.input_tokens, u.output_tokens, u.cached_input_tokens, u.cache_write_tokens,
        u.reasoning_tokens, u.total_tokens, u.input_total, u.output_total, u.source._value_,
        u.cost_usd, e.finish_reason, e.tool_calls, e.output_seen, e.has_tools,
    )  # fmt: skip
    cause = c and (c.subcategory._value_, c.reason, c.transient, c.rule, c.code, c.retry_after_s)
    return call + answer + (cause or _NO_CAUSE) + (
        e.provider_request_id, e.request_bytes, e.response_bytes, e.request_digest, e.sdk_retry,
        e.attribution._value_, e.key_digest, e.injected, e.deaf, e.content_seen,
        e.response_digest, e.pending, e.selector_digest, e.key_source and e.key_source._value_,
        e.model_ambiguous, e.held, e.output_limit, e.prompt_words, e.continues, e.begun_elsewhere,
        e.written_call, e.fallback, e.served_by, e.system_fingerprint, e.weight_version,
        e.answer_state and e.answer_state._value_, e.inferred, e.output_digest,
        e.output_reads_as and e.output_reads_as._value_,
    )  # fmt: skip


def open_row(e: Exchange, worker: str) -> tuple[Any, ...]:
    """Return a call in flight as the values of OPEN_COLUMNS, in their order."""
    return (
        e.id, e.rollout_id, worker, e.timing.started_at, e.kind._value_, e.method, e.role,
        e.upstream, e.api, e.model, e.attribution._value_, e.key_digest,
    )  # fmt: skip


def exchange_of(row: Sequence[Any]) -> Exchange:
    """Return the exchange of a row of `exchanges`, in the order of EXCHANGE_COLUMNS."""
    (
        rollout_id, exchange_id, started_at, kind, method, role, upstream, api, model,
        answered_model, status, ending, streamed, first_byte_s, first_token_s, duration_s,
        input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens,
        total_tokens, input_total, output_total, usage_source, cost_usd, finish_reason,
        tool_calls, output_seen, has_tools, subcategory, reason, transient, rule, error_code,
        retry_after_s, provider_request_id, request_bytes, response_bytes, request_digest,
        sdk_retry, attribution, key_digest, injected, deaf, content_seen, response_digest, pending,
        selector_digest, key_source, model_ambiguous, held, output_limit, prompt_words, continues,
        begun_elsewhere, written_call, fallback, served_by, system_fingerprint,
        weight_version, answer_state, inferred, output_digest, output_reads_as,
    ) = row  # fmt: skip
    cause = None
    if subcategory:
        cause = Cause(
            subcategory=Subcategory(subcategory),
            transient=bool(transient),
            rule=rule,
            reason=reason,
            code=error_code,
            retry_after_s=retry_after_s,
        )
    # By position, in two thirds of the time that names take; in parts for what is said above.
    asked = (
        exchange_id, rollout_id, upstream, api,
        Timing(started_at, first_byte_s, first_token_s, duration_s),
        _KINDS[kind], method, role, model, answered_model, status, _ENDINGS[ending],
        _FLAGS[streamed],
        Usage(
            input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
            reasoning_tokens, total_tokens, input_total, output_total, _SOURCES[usage_source],
            cost_usd,
        ),
    )  # fmt: skip
    answered = (
        finish_reason, tool_calls, _FLAGS[output_seen], _FLAGS[content_seen], _FLAGS[has_tools],
        cause, provider_request_id, request_bytes, response_bytes, request_digest, sdk_retry,
        response_digest, _FLAGS[pending], _ATTRIBUTIONS[attribution], key_digest, bool(injected),
        deaf, selector_digest, _KEY_SOURCES[key_source], _FLAGS[model_ambiguous], _FLAGS[held],
        output_limit, prompt_words, continues, _FLAGS[begun_elsewhere], _FLAGS[written_call],
        _FLAGS[fallback], served_by, system_fingerprint, weight_version,
        _STATES[answer_state], _FLAGS[inferred], output_digest,
        Subcategory(output_reads_as) if output_reads_as else None,
    )  # fmt: skip
    return Exchange(*(asked + answered))


def open_exchange_of(row: RowMapping) -> Exchange:
    """Return a row of `open_calls` as an exchange that has not ended."""
    return Exchange(
        id=row["id"],
        rollout_id=row["rollout_id"],
        upstream=row["upstream"],
        api=row["api"],
        timing=Timing(started_at=row["started_at"]),
        kind=_KINDS[row["kind"]],
        method=row["method"],
        role=row["role"],
        model=row["model"],
        attribution=_ATTRIBUTIONS[row["attribution_source"]],
        key_digest=row["key_digest"],
    )


def lost_row(row: RowMapping) -> dict[str, Any]:
    """Return a row of `open_calls` as columns of `exchanges`, its ending `lost`."""
    columns = {name: value for name, value in row.items() if name != "worker"}
    unknown = {"request_bytes": 0, "response_bytes": 0, "injected": False}
    return {**columns, **unknown, "ending": "lost", "usage_source": "absent"}
