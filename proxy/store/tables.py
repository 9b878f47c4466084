"""The tables, and the conversion between rows and the classifier's records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

from classifier.records import (
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

metadata = MetaData()

_COUNT = Integer().with_variant(BigInteger, "postgresql")  # SQLite's reach as far


def _text(longest: int) -> TypeEngine[str]:
    """Declare a text and its intended length; neither database truncates a longer one."""
    return String(longest).with_variant(Text, "postgresql")


# The deployment's salt of key digests, the secret behind minted keys, and sessions that were
# signed out before they expired.
server = Table(
    "server",
    metadata,
    Column("name", _text(40), primary_key=True),
    Column("value", _text(200), nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", _text(200), primary_key=True),
    Column("batch", _text(200)),
    Column("task", _text(200)),
    Column("attempt", Integer),
    Column("model", _text(200)),
    Column("upstream", _text(64)),
    Column("usage_channel", _text(8), nullable=False, server_default="proxy"),
    Column("metadata", Text),  # JSON, the runner's own
    Column("registered", Boolean, nullable=False, server_default="0"),
    Column("created_at", Float, nullable=False),  # seconds since the epoch, as all times here
    Column("gaps", Integer, nullable=False, server_default="0"),
    Column("skipped", Text),  # why it was not admitted
    Column("outcome", Text),  # JSON, as the runner reported it
    Column("outcome_at", Float),
    Column("revoked_at", Float),  # from when its key and secret are invalid, outcome or not
    Column("fault", Text),  # JSON, the fault to inject into its calls
    Column("fault_calls", Integer, nullable=False, server_default="0"),  # calls counted for it
    Column("fallbacks", Text),  # further models that count as `model`, one a line
    Column("closed_at", Float),  # from when its calls have ended in every process
    Column("closed_calls", Integer),  # how many of them were on record then
    Column("agents", _text(16)),  # trusted, untrusted: one for all of a batch
    Index("rollouts_batch", "batch", "created_at", "id"),
    Index("rollouts_task", "task", "created_at", "id"),
    Index("rollouts_created", "created_at", "id"),
    # As partial on PostgreSQL, by its migration: to say so here would load its dialect (15 ms).
    Index("rollouts_drilled", "id", sqlite_where=text("fault IS NOT NULL")),
)

# Clustered by rollout: a verdict reads neighbours, whatever the table's size. On PostgreSQL a
# partition for each month of `started_at`, which is then part of the key.
exchanges = Table(
    "exchanges",
    metadata,
    Column("rollout_id", _text(200), primary_key=True),
    Column("id", _text(32), primary_key=True),
    Column("started_at", Float, nullable=False),
    Column("kind", _text(16), nullable=False),
    Column("method", _text(16), nullable=False),
    Column("role", _text(40), nullable=False),
    Column("upstream", _text(64), nullable=False),
    Column("api", _text(64), nullable=False),
    Column("model", _text(200)),
    Column("answered_model", _text(200)),
    Column("status", _COUNT),
    Column("ending", _text(20)),
    Column("streamed", Boolean),
    Column("first_byte_s", Float),
    Column("first_token_s", Float),
    Column("duration_s", Float),
    Column("input_tokens", _COUNT),
    Column("output_tokens", _COUNT),
    Column("cached_input_tokens", _COUNT),
    Column("cache_write_tokens", _COUNT),
    Column("reasoning_tokens", _COUNT),
    Column("total_tokens", _COUNT),
    Column("input_total", _COUNT),
    Column("output_total", _COUNT),
    Column("usage_source", _text(16), nullable=False),
    Column("cost_usd", Float),
    Column("finish_reason", _text(64)),
    Column("tool_calls", _COUNT),
    Column("output_seen", Boolean),
    Column("has_tools", Boolean),
    Column("subcategory", _text(20)),
    Column("reason", _text(40)),
    Column("transient", Boolean),
    Column("rule", _text(64)),
    Column("error_code", _text(64)),
    Column("retry_after_s", Float),
    Column("provider_request_id", _text(128)),
    Column("request_bytes", _COUNT, nullable=False),
    Column("response_bytes", _COUNT, nullable=False),
    Column("request_digest", _text(32)),
    Column("sdk_retry", _COUNT),
    Column("attribution_source", _text(20), nullable=False),
    Column("key_digest", _text(16)),
    Column("injected", Boolean, nullable=False),
    Column("deaf", _text(64)),
    Column("content_seen", Boolean),
    Column("response_digest", _text(32)),
    Column("pending", Boolean),
    Column("selector_digest", _text(32)),
    Column("key_source", _text(16)),
    Column("model_ambiguous", Boolean),
    Column("held", Boolean),
    Index("exchanges_started", "started_at"),
    sqlite_with_rowid=False,
)

# Calls in flight; what a dead process leaves here becomes `lost`.
open_calls = Table(
    "open_calls",
    metadata,
    Column("id", _text(32), primary_key=True),
    Column("rollout_id", _text(200), nullable=False),
    Column("worker", _text(32), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("kind", _text(16), nullable=False),
    Column("method", _text(16), nullable=False),
    Column("role", _text(40), nullable=False),
    Column("upstream", _text(64), nullable=False),
    Column("api", _text(64), nullable=False),
    Column("model", _text(200)),
    Column("attribution_source", _text(20), nullable=False),
    Column("key_digest", _text(16)),
    Index("open_calls_rollout", "rollout_id"),
    Index("open_calls_worker", "worker"),
    sqlite_with_rowid=False,
)

workers = Table(
    "workers",
    metadata,
    Column("id", _text(32), primary_key=True),
    Column("host", _text(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("closed_up_to", Integer),  # the number in `closings` up to which it has ended calls
    Column("still_closing", Text),  # JSON, rollouts up to there whose calls it is still ending
)

# Ended rollouts, whose calls every worker is to end. For an hour.
closings = Table(
    "closings",
    metadata,
    Column("rollout_id", _text(200), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Index("closings_number", "number"),
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("rollout_id", _text(200), primary_key=True),
    Column("batch", _text(200)),
    Column("health", _text(24), nullable=False),
    Column("subcategory", _text(20)),
    Column("fingerprint", _text(80)),
    Column("cause", _text(200)),
    Column("lane", _text(300)),
    Column("provisional", Boolean, nullable=False),
    Column("scoreable", _text(8), nullable=False),
    Column("reward", Float),  # the one number of the result, null where it does not count
    Column("input_tokens", _COUNT),
    Column("output_tokens", _COUNT),
    Column("total_tokens", _COUNT),
    Column("cost_usd", Float),
    Column("price_table", _text(40)),  # which prices the cost stands on
    Column("given_at", Float, nullable=False),
    Column("calls", _COUNT, nullable=False, server_default="0"),  # ended ones that it saw
    Column("verdict", Text, nullable=False),  # JSON, contract §2
    Column("result", Text),  # JSON, once the outcome is known
    Column("attributed_to", _text(16)),
    Column("neighbours", Text),  # JSON, what a final one stands on of other rollouts
    Index("verdicts_batch", "batch", "health"),
    Index("verdicts_fingerprint", "fingerprint"),
)

breakers = Table(
    "breakers",
    metadata,
    Column("batch", _text(200), primary_key=True),
    Column("lane", _text(300), primary_key=True),
    Column("state", Text, nullable=False),  # JSON of classifier.breakers.BreakerState
    sqlite_with_rowid=False,
)

# For those who watch a batch live.
events = Table(
    "events",
    metadata,
    Column("id", _COUNT, primary_key=True, autoincrement=True),
    Column("kind", _text(24), nullable=False),
    Column("rollout_id", _text(200)),
    Column("batch", _text(200)),  # null for a call: its rollout knows
    Column("at", Float, nullable=False),
    Column("data", Text, nullable=False),  # JSON
    Index("events_at", "at"),
)

# A look-up costs a third of an enum's call, and a verdict reads thousands of rows.
_KINDS = {member.value: member for member in Kind}
_ENDINGS: dict[str | None, Ending | None] = {None: None, **{m.value: m for m in Ending}}
_SOURCES = {member.value: member for member in UsageSource}
_KEY_SOURCES: dict[str | None, KeySource | None] = {
    None: None,
    **{member.value: member for member in KeySource},
}
_FLAGS = {None: None, 0: False, 1: True}  # True and 1 are one key
_ATTRIBUTIONS = {member.value: member for member in Attribution}

EXCHANGE_COLUMNS: tuple[str, ...] = tuple(column.name for column in exchanges.columns)
OPEN_COLUMNS: tuple[str, ...] = tuple(column.name for column in open_calls.columns)


def exchange_row(e: Exchange) -> tuple[Any, ...]:
    """Return an exchange as the values of EXCHANGE_COLUMNS, in their order."""
    t, u, c = e.timing, e.usage, e.cause
    # `_value_` is what an enum's `value` looks up by two calls of Python's, four times an exchange.
    return (
        e.rollout_id, e.id, t.started_at, e.kind._value_, e.method, e.role, e.upstream, e.api,
        e.model, e.answered_model, e.status, e.ending._value_ if e.ending else None, e.streamed,
        t.first_byte_s, t.first_token_s, t.duration_s,
        u.input_tokens, u.output_tokens, u.cached_input_tokens, u.cache_write_tokens,
        u.reasoning_tokens, u.total_tokens, u.input_total, u.output_total, u.source._value_,
        u.cost_usd, e.finish_reason, e.tool_calls, e.output_seen, e.has_tools,
        *((c.subcategory._value_, c.reason, c.transient, c.rule, c.code, c.retry_after_s)
          if c else (None,) * 6),
        e.provider_request_id, e.request_bytes, e.response_bytes, e.request_digest, e.sdk_retry,
        e.attribution._value_, e.key_digest, e.injected, e.deaf, e.content_seen,
        e.response_digest, e.pending, e.selector_digest, e.key_source and e.key_source._value_,
        e.model_ambiguous, e.held,
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
        selector_digest, key_source, model_ambiguous, held,
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
    return Exchange(  # by position: in two thirds of the time that names take
        exchange_id, rollout_id, upstream, api,
        Timing(started_at, first_byte_s, first_token_s, duration_s),
        _KINDS[kind], method, role, model, answered_model, status, _ENDINGS[ending],
        _FLAGS[streamed],
        Usage(
            input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
            reasoning_tokens, total_tokens, input_total, output_total, _SOURCES[usage_source],
            cost_usd,
        ),
        finish_reason, tool_calls, _FLAGS[output_seen], _FLAGS[content_seen], _FLAGS[has_tools],
        cause, provider_request_id, request_bytes, response_bytes, request_digest, sdk_retry,
        response_digest, _FLAGS[pending], _ATTRIBUTIONS[attribution], key_digest, bool(injected),
        deaf, selector_digest, _KEY_SOURCES[key_source], _FLAGS[model_ambiguous], _FLAGS[held],
    )  # fmt: skip


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
