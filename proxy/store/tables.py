"""The tables."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

from classifier.batches import Entry

metadata = MetaData()

_COUNT = Integer().with_variant(BigInteger, "postgresql")  # SQLite's reach as far


def _text(longest: int) -> TypeEngine[str]:
    """Declare a text and its intended length; neither database truncates a longer one."""
    return String(longest).with_variant(Text, "postgresql")


COUNT, text_of = _COUNT, _text  # for `derived.py`


def _listed_by(
    column: str, *, known: str | None = None, in_batch: str | None = None
) -> list[Index]:
    """Declare what verdicts are listed by, across batches and within one, oldest first.

    Arguments:
        known: the condition of partial indexes; on PostgreSQL their migration says it.
        in_batch: that of the index within a batch, where the other one is whole.
    """
    order, places = (column, "began_at", "rollout_id"), (("", known), ("batch_", in_batch or known))
    return [
        Index(
            f"verdicts_{within}{column}",
            *(("batch", *order) if within else order),
            sqlite_where=None if condition is None else text(condition),
        )
        for within, condition in places
    ]


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
    Column("validity", _text(16)),  # invalid, suspect, none: likewise
    Column("max_steps", _text(16)),  # score, exclude: likewise
    Column("repeat", Integer),  # which sample of its task, from 0
    Column("repeats", Integer),  # how many samples of its task its batch is to have
    Column("content_filter", _text(16)),  # failure, answer: one for all of a batch
    Column("group_revision", Integer),  # how often its group has settled, where its end settled it
    Index("rollouts_batch", "batch", "created_at", "id"),
    Index("rollouts_task", "task", "created_at", "id"),
    Index("rollouts_group", "batch", "task", "created_at", "id"),
    Index("rollouts_repeat", "batch", "task", "repeat"),
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
    Column("output_limit", _COUNT),
    Column("prompt_words", _COUNT),
    Column("continues", _text(32)),
    Column("begun_elsewhere", Boolean),
    Column("written_call", Boolean),
    Column("fallback", Boolean),
    Column("served_by", _text(64)),
    Column("system_fingerprint", _text(64)),
    Column("weight_version", _text(64)),
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
    Column("validity", Text),  # worst level and checks with a finding, between blanks
    Column("unattributed_calls", Integer),  # those that named no rollout while this one ran
    Column("summed_calls", _COUNT),  # that used tokens, as far as is known
    Column("tokens_known_calls", _COUNT),  # of them, with counts
    Column("cost_known_calls", _COUNT),  # of them, in the cost
    Column("servings", Text),  # JSON, what was asked for and what answered, each way once
    Column("began_at", Float),  # its rollout's `created_at`: no index spans two tables
    *_listed_by("health"),
    *_listed_by("subcategory", known="subcategory IS NOT NULL"),
    *_listed_by("fingerprint", in_batch="fingerprint IS NOT NULL"),
    *_listed_by("reward", known="reward IS NOT NULL"),
    *_listed_by("total_tokens", known="total_tokens IS NOT NULL"),
    *_listed_by("cost_usd", known="cost_usd IS NOT NULL"),
)

breakers = Table(
    "breakers",
    metadata,
    Column("batch", _text(200), primary_key=True),
    Column("lane", _text(300), primary_key=True),
    Column("state", Text, nullable=False),  # JSON of classifier.breakers.BreakerState
    sqlite_with_rowid=False,
)

# Who starts rollouts of a batch, and whether they have said that no more come.
batch_runs = Table(
    "batch_runs",
    metadata,
    Column("batch", _text(200), primary_key=True),
    Column("run", _text(200), primary_key=True),  # empty: nobody said that they begin
    Column("begun_at", Float, nullable=False),
    Column("ended_at", Float),
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

# Rollouts with the verdicts they have.
JOINED = rollouts.outerjoin(verdicts, verdicts.c.rollout_id == rollouts.c.id)
OLDEST_FIRST = (rollouts.c.created_at, rollouts.c.id)
# Under the names that `classifier.batches.Entry` has, in its order.
ENTRY_COLUMNS = (
    rollouts.c.id,
    rollouts.c.task,
    rollouts.c.repeat,
    rollouts.c.attempt,
    *(verdicts.c[name] for name in Entry._fields[4:-1]),
)
EXCHANGE_COLUMNS: tuple[str, ...] = tuple(column.name for column in exchanges.columns)
OPEN_COLUMNS: tuple[str, ...] = tuple(column.name for column in open_calls.columns)
