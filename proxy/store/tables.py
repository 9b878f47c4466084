"""The database's tables, and the types of what the store takes and returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Executable,
    Float,
    Index,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    bindparam,
    text,
)
from sqlalchemy.types import TypeEngine

from classifier.batches import Entry
from classifier.declarations import declared, record
from classifier.records import Exchange
from classifier.verdicts import Verdict

metadata = MetaData()

COUNT = Integer().with_variant(BigInteger, "postgresql")  # SQLite's reach as far


class Archived(NamedTuple):
    """A table of a feature that archives hold, as its ``info["archived"]``: it has a row's batch.

    ``record`` is the type of its records, and ``json`` are the columns that hold a JSON object.
    """

    record: str
    json: tuple[str, ...] = ()


def text_of(longest: int) -> TypeEngine[str]:
    """Declare a text and its intended length; neither database truncates a longer one."""
    return String(longest).with_variant(Text, "postgresql")


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
    Column("name", text_of(40), primary_key=True),
    Column("value", text_of(200), nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", text_of(200), primary_key=True),
    Column("batch", text_of(200)),
    Column("task", text_of(200)),
    Column("attempt", Integer),
    Column("model", text_of(200)),
    Column("upstream", text_of(64)),
    Column("usage_channel", text_of(8), nullable=False, server_default="proxy"),
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
    Column("agents", text_of(16)),  # trusted, untrusted: one for all of a batch
    Column("validity", text_of(16)),  # invalid, suspect, none: likewise
    Column("max_steps", text_of(16)),  # score, exclude: likewise
    Column("repeat", Integer),  # which sample of its task, from 0
    Column("repeats", Integer),  # how many samples of its task its batch is to have
    Column("content_filter", text_of(16)),  # failure, answer: one for all of a batch
    Column("group_revision", Integer),  # how often its group has settled, where its end settled it
    Column("budget", text_of(16)),  # score, exclude: one for all of a batch
    Column("limit_reached", Text),  # JSON of classifier.records.LimitReached
    Column("reward_range", text_of(80)),  # JSON, least and greatest reward: one for all of a batch
    Column("client_cache", Boolean),  # its client has a cache of its own
    Column("score_key", text_of(200)),  # of its rewards, the score: one for all of a batch
    Index("rollouts_batch", "batch", "created_at", "id"),
    Index("rollouts_task", "task", "created_at", "id"),
    Index("rollouts_group", "batch", "task", "created_at", "id"),
    Index("rollouts_repeat", "batch", "task", "repeat", "attempt", "repeats", "id"),
    Index("rollouts_created", "created_at", "id"),
    # As partial on PostgreSQL, by its migration: to say so here would load its dialect (15 ms).
    Index("rollouts_drilled", "id", sqlite_where=text("fault IS NOT NULL")),
)

# Calls that failed, and answers of models that could not be read.
FAILED = (
    "(subcategory IS NOT NULL"
    " OR (answer_state = 'unread' AND kind IN ('inference', 'continuation')))"
)

# Clustered by rollout: a verdict reads neighbours, whatever the table's size. On PostgreSQL a
# partition for each month of `started_at`, which is then part of the key.
exchanges = Table(
    "exchanges",
    metadata,
    Column("rollout_id", text_of(200), primary_key=True),
    Column("id", text_of(32), primary_key=True),
    Column("started_at", Float, nullable=False),
    Column("kind", text_of(16), nullable=False),
    Column("method", text_of(16), nullable=False),
    Column("role", text_of(40), nullable=False),
    Column("upstream", text_of(64), nullable=False),
    Column("api", text_of(64), nullable=False),
    Column("model", text_of(200)),
    Column("answered_model", text_of(200)),
    Column("status", COUNT),
    Column("ending", text_of(20)),
    Column("streamed", Boolean),
    Column("first_byte_s", Float),
    Column("first_token_s", Float),
    Column("duration_s", Float),
    Column("input_tokens", COUNT),
    Column("output_tokens", COUNT),
    Column("cached_input_tokens", COUNT),
    Column("cache_write_tokens", COUNT),
    Column("reasoning_tokens", COUNT),
    Column("total_tokens", COUNT),
    Column("input_total", COUNT),
    Column("output_total", COUNT),
    Column("usage_source", text_of(16), nullable=False),
    Column("cost_usd", Float),
    Column("finish_reason", text_of(64)),
    Column("tool_calls", COUNT),
    Column("output_seen", Boolean),
    Column("has_tools", Boolean),
    Column("subcategory", text_of(20)),
    Column("reason", text_of(40)),
    Column("transient", Boolean),
    Column("rule", text_of(64)),
    Column("error_code", text_of(64)),
    Column("retry_after_s", Float),
    Column("provider_request_id", text_of(128)),
    Column("request_bytes", COUNT, nullable=False),
    Column("response_bytes", COUNT, nullable=False),
    Column("request_digest", text_of(32)),
    Column("sdk_retry", COUNT),
    Column("attribution_source", text_of(20), nullable=False),
    Column("key_digest", text_of(16)),
    Column("injected", Boolean, nullable=False),
    Column("deaf", text_of(64)),
    Column("content_seen", Boolean),
    Column("response_digest", text_of(32)),
    Column("pending", Boolean),
    Column("selector_digest", text_of(32)),
    Column("key_source", text_of(16)),
    Column("model_ambiguous", Boolean),
    Column("held", Boolean),
    Column("output_limit", COUNT),
    Column("prompt_words", COUNT),
    Column("continues", text_of(32)),
    Column("begun_elsewhere", Boolean),
    Column("written_call", Boolean),
    Column("fallback", Boolean),
    Column("served_by", text_of(64)),
    Column("system_fingerprint", text_of(64)),
    Column("weight_version", text_of(64)),
    Column("answer_state", text_of(16)),
    Column("inferred", Boolean),
    Column("output_digest", text_of(32)),
    Column("output_reads_as", text_of(20)),
    Column("held_s", Float),
    Column("billed_as", text_of(20)),
    Index("exchanges_started", "started_at"),
    Index("exchanges_failed", "started_at", sqlite_where=text(FAILED)),
    sqlite_with_rowid=False,
)

# What was counted of each lane's calls by minute (`lane_minutes.py`). A slot is some ten minutes of
# one process, whose sums are replaced whole; a lane's minute is the sum over slots and servers.
lane_minutes = Table(
    "lane_minutes",
    metadata,
    Column("minute", COUNT, primary_key=True, autoincrement=False),  # of its start, since 1970
    Column("upstream", text_of(64), primary_key=True),
    Column("model", text_of(200), primary_key=True),  # as it was asked for; empty: none was named
    Column("key_digest", text_of(16), primary_key=True),  # empty: no key was sent
    Column("server", text_of(64), primary_key=True),  # that answered; empty: none was named
    Column("slot", BigInteger, primary_key=True, autoincrement=False),
    Column("answered", COUNT, nullable=False),  # calls
    Column("failures", COUNT, nullable=False),  # failed calls, without rejected requests
    Column("others", COUNT, nullable=False),  # rejected requests, and calls that agents left
    Column("first_failed_at", Float),
    Column("last_failed_at", Float),
    Column("last_answered_at", Float, nullable=False),  # 0: none was
    Column("own_key", Boolean, nullable=False),  # a setting of the operator's has the key
    Column("failed", Text, nullable=False),  # JSON: failures by cause
    Column("votes", Text, nullable=False),  # JSON: seconds that calls took, and rollouts
    Index("lane_minutes_lane", "upstream", "model", "key_digest", "minute"),
    sqlite_with_rowid=False,
)

# Calls in flight; what a dead process leaves here becomes `lost`.
open_calls = Table(
    "open_calls",
    metadata,
    Column("id", text_of(32), primary_key=True),
    Column("rollout_id", text_of(200), nullable=False),
    Column("worker", text_of(32), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("kind", text_of(16), nullable=False),
    Column("method", text_of(16), nullable=False),
    Column("role", text_of(40), nullable=False),
    Column("upstream", text_of(64), nullable=False),
    Column("api", text_of(64), nullable=False),
    Column("model", text_of(200)),
    Column("attribution_source", text_of(20), nullable=False),
    Column("key_digest", text_of(16)),
    Index("open_calls_rollout", "rollout_id"),
    Index("open_calls_worker", "worker"),
    sqlite_with_rowid=False,
)

workers = Table(
    "workers",
    metadata,
    Column("id", text_of(32), primary_key=True),
    Column("host", text_of(200), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("closed_up_to", Integer),  # the number in `closings` up to which it has ended calls
    Column("still_closing", Text),  # JSON, rollouts up to there whose calls it is still ending
)

# Ended rollouts, whose calls every worker is to end. For an hour.
closings = Table(
    "closings",
    metadata,
    Column("rollout_id", text_of(200), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Index("closings_number", "number"),
    sqlite_with_rowid=False,
)

# Verdicts without a score, or with one that may change.
UNSCORED = "(provisional OR scoreable <> 'yes' OR reward IS NULL)"

verdicts = Table(
    "verdicts",
    metadata,
    Column("rollout_id", text_of(200), primary_key=True),
    Column("batch", text_of(200)),
    Column("health", text_of(24), nullable=False),
    Column("subcategory", text_of(20)),
    Column("fingerprint", text_of(80)),
    Column("cause", text_of(200)),
    Column("lane", text_of(300)),
    Column("provisional", Boolean, nullable=False),
    Column("scoreable", text_of(8), nullable=False),
    Column("reward", Float),  # the one number of the result, null where it does not count
    Column("input_tokens", COUNT),
    Column("output_tokens", COUNT),
    Column("total_tokens", COUNT),
    Column("cost_usd", Float),
    Column("price_table", text_of(40)),  # which prices the cost stands on
    Column("given_at", Float, nullable=False),
    Column("calls", COUNT, nullable=False, server_default="0"),  # ended ones that it saw
    Column("verdict", Text, nullable=False),  # JSON, contract §2
    Column("result", Text),  # JSON, once the outcome is known
    Column("attributed_to", text_of(16)),
    Column("validity", Text),  # worst level and checks with a finding, between blanks
    Column("summed_calls", COUNT),  # that used tokens, as far as is known
    Column("tokens_known_calls", COUNT),  # of them, with counts
    Column("cost_known_calls", COUNT),  # of them, in the cost
    Column("servings", Text),  # JSON, what was asked for and what answered, each way once
    Column("began_at", Float),  # its rollout's `created_at`: no index spans two tables
    Column("lost_s", Float),
    Column("held_s", Float),
    Column("unearned", Boolean),  # a reward was reported, and no call was answered
    # Alike where a batch counts rollouts alike (`classifier.repeat_counts.kind_of`); null: it is
    # read singly.
    Column("counted", COUNT, info={"derived": True}),
    Column("taken", Float, info={"derived": True}),  # a reported score that does not count
    Column("stands_on", Text),  # JSON, the evidence of a final one beside its rollout's own calls
    *_listed_by("health"),
    *_listed_by("subcategory", known="subcategory IS NOT NULL"),
    *_listed_by("fingerprint", in_batch="fingerprint IS NOT NULL"),
    *_listed_by("reward", known="reward IS NOT NULL"),
    *_listed_by("total_tokens", known="total_tokens IS NOT NULL"),
    *_listed_by("cost_usd", known="cost_usd IS NOT NULL"),
    Index("verdicts_unscored", "batch", "began_at", "rollout_id", sqlite_where=text(UNSCORED)),
    # All that a batch adds up: narrow, where a row holds JSON. On SQLite only.
    Index(
        "verdicts_counted", "rollout_id", "counted", "scoreable", "provisional", "reward",
        "input_tokens", "output_tokens", "total_tokens", "summed_calls", "tokens_known_calls",
        "cost_known_calls", "cost_usd", "lost_s", "held_s", "taken",
    ),
)  # fmt: skip

# Questions of the proxy's own to a lane, asked because calls to it failed. Every process sees in
# them what others ask and have asked.
reference_series = Table(
    "reference_series",
    metadata,
    Column("id", text_of(32), primary_key=True),
    Column("upstream", text_of(64), nullable=False),
    Column("model", text_of(200), nullable=False),  # as it is asked
    Column("api", text_of(64), nullable=False),
    Column("worker", text_of(32), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("calls", Text, nullable=False, server_default="[]"),  # JSON, in order
    Column("not_run", text_of(16)),  # why no question was asked, or none counts
    Column("way", text_of(16)),  # a digest of how it asked; null in the plain form
    Index("reference_series_lane", "upstream", "model", "started_at"),
    Index("reference_series_started", "started_at"),
    sqlite_with_rowid=False,
)

# Failed calls, and the series that they share.
reference_failures = Table(
    "reference_failures",
    metadata,
    Column("rollout_id", text_of(200), primary_key=True),
    Column("exchange_id", text_of(32), primary_key=True),
    Column("series_id", text_of(32), nullable=False),
    Index("reference_failures_series", "series_id"),
    sqlite_with_rowid=False,
)

# The ways in which calls asked their models: of each rollout the first call by each, and whatever
# failed. The proxy's questions ask alike, whichever process asks them.
asked_ways = Table(
    "asked_ways",
    metadata,
    Column("exchange_id", text_of(32), primary_key=True),
    Column("rollout_id", text_of(200), nullable=False),
    Column("upstream", text_of(64), nullable=False),
    Column("model", text_of(200), nullable=False),  # canonical; empty where none was read
    Column("at", Float, nullable=False),  # epoch seconds
    Column("way", Text, nullable=False),  # JSON
    Index("asked_ways_lane", "upstream", "model", "at"),
    Index("asked_ways_at", "at"),
    sqlite_with_rowid=False,
)

# When each lane that is down was last tried by one that waits for it.
lane_probes = Table(
    "lane_probes",
    metadata,
    Column("upstream", text_of(64), primary_key=True),  # empty: any
    Column("model", text_of(200), primary_key=True),  # the same
    Column("at", Float, nullable=False),
    sqlite_with_rowid=False,
)

# Who starts rollouts of a batch, and whether they have said that no more come.
batch_runs = Table(
    "batch_runs",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("run", text_of(200), primary_key=True),  # empty: nobody said that they begin
    Column("begun_at", Float, nullable=False),
    Column("ended_at", Float),
    sqlite_with_rowid=False,
)

# For those who watch a batch live.
events = Table(
    "events",
    metadata,
    Column("id", COUNT, primary_key=True, autoincrement=True),
    Column("kind", text_of(24), nullable=False),
    Column("rollout_id", text_of(200)),
    Column("batch", text_of(200)),  # null for a call: its rollout knows
    Column("at", Float, nullable=False),
    Column("data", Text, nullable=False),  # JSON
    Index("events_at", "at"),
)

# Rollouts with the verdicts they have.
JOINED = rollouts.outerjoin(verdicts, verdicts.c.rollout_id == rollouts.c.id)
OLDEST_FIRST = (rollouts.c.created_at, rollouts.c.id)
# Under the names that `classifier.batches.Entry` has, in its order.
ENTRY_FIELDS = Entry._fields[4:-3]
"""The fields of an entry that are columns of its verdict."""
WITHOUT_DETAILS: tuple[tuple[()], None, tuple[()]] = ((), None, ())
"""The fields after them, which are read from JSON, left out."""
ENTRY_COLUMNS = (
    rollouts.c.id,
    rollouts.c.task,
    rollouts.c.repeat,
    rollouts.c.attempt,
    *(verdicts.c[name] for name in ENTRY_FIELDS),
)
EXCHANGE_COLUMNS: tuple[str, ...] = tuple(column.name for column in exchanges.columns)
# Fields of `Verdict` that have a column of their own beside its JSON.
VERDICT_COLUMNS = tuple(each.name for each in declared(Verdict) if each.name in verdicts.columns)
LANE_COLUMNS: tuple[str, ...] = tuple(column.name for column in lane_minutes.columns)
LANE_KEY = LANE_COLUMNS[:6]
OPEN_COLUMNS: tuple[str, ...] = tuple(column.name for column in open_calls.columns)


# --- derived tables ----------------------------------------------------------------------------
# Never copied or exported, and counted anew where need be. Triggers add up calls and queue
# rollouts; the transactions that change rollouts raise their batch's version (`batch_versions`).


# Of `call_usage`: calls with each, and what they add up to.
USAGE_COUNTS = (
    "calls", "input_known_calls", "output_known_calls", "tokens_known_calls", "input_tokens",
    "output_tokens", "total_tokens", "cached_input_tokens", "cache_write_tokens",
    "seconds_known_calls",
)  # fmt: skip
USAGE_SUMS = ("cost_usd", "seconds")

# Calls by minute and what they have in common, kept by triggers (`triggers.py`). A sum is over the
# rows of all slots: writers at once have different ones.
call_usage = Table(
    "call_usage",
    metadata,
    Column("batch", text_of(200), primary_key=True),  # empty for a call of no batch
    Column("minute", COUNT, primary_key=True, autoincrement=False),  # of its start, since 1970
    Column("model", text_of(200), primary_key=True),  # that answered, else that was asked for
    Column("upstream", text_of(64), primary_key=True),
    Column("role", text_of(40), primary_key=True),
    Column("cause", text_of(20), primary_key=True),  # subcategory; empty where it did not fail
    Column("basis", text_of(8), primary_key=True),  # what its cost stands on: see `triggers.KEYS`
    Column("slot", Integer, primary_key=True, autoincrement=False),
    *(Column(name, COUNT, nullable=False, server_default="0") for name in USAGE_COUNTS),
    *(Column(name, Float, nullable=False, server_default="0") for name in USAGE_SUMS),
    sqlite_with_rowid=False,
)

# Rollouts whose verdict may have changed since they were judged, kept by triggers.
unjudged = Table(
    "unjudged",
    metadata,
    Column("rollout_id", text_of(200), primary_key=True),
    Column("batch", text_of(200)),
    Column("change", COUNT, nullable=False),  # another number with each change
    Index("unjudged_batch", "batch"),
    sqlite_with_rowid=False,
)

# Each batch that has rollouts. What they add up to is counted by whoever looks (`batch_counts`).
batches = Table(
    "batches",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("first_at", Float, nullable=False),  # when its first rollout began
    Column("last_at", Float, nullable=False),
    Column("version", COUNT, nullable=False, server_default="0"),  # raised by each change
    Index("batches_newest", "last_at", "batch"),
    sqlite_with_rowid=False,
)

DERIVED: tuple[Table, ...] = (call_usage, unjudged, batches)


# --- SQL that SQLAlchemy spells differently for each database ----------------------------------


def add(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert a row unless its key exists; returns whether it was inserted."""
    statement = insert_into(connection.dialect.name, table).values(**row)
    statement = statement.on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    added: bool = connection.execute(statement).rowcount == 1
    return added


IDS: Any = bindparam("ids", expanding=True)
"""The ids, a list, in statements that are made once: to make one takes longer than to run it."""


class OfIds:
    """A statement about the rows of some ids, made once for one id and once for a list of them.

    A list is written into the statement each time, which doubles what a statement costs.

    Arguments:
        statement: returns it, given the function that compares a column with the ids.
    """

    def __init__(self, statement: Callable[[Callable[[Any], Any]], Any]) -> None:
        self._of_one = statement(lambda column: column == bindparam("id"))
        self._of_several = statement(lambda column: column.in_(IDS))

    def execute(self, connection: Connection, ids: Collection[str]) -> Any:
        """Execute it; returns its result."""
        if len(ids) == 1:
            (one,) = ids
            return connection.execute(self._of_one, {"id": one})
        return connection.execute(self._of_several, {"ids": list(ids)})


def insert_into(dialect: str, table: Table) -> Any:
    """Return the dialect's own INSERT, which supports ON CONFLICT."""
    return _insert(dialect)(table)


@cache
def _insert(dialect: str) -> Callable[[Table], Any]:
    # The engine has loaded its own dialect; importing another would take 15 ms of a start.
    made: Callable[[Table], Any] = import_module(f"sqlalchemy.dialects.{dialect}").insert
    return made


# --- types, apart from the classifier's records ------------------------------------------------


Row = RowMapping
Write: TypeAlias = tuple[Executable, Any]  # a statement, and its values


@dataclass(frozen=True, slots=True)
class Gap:
    """Calls of one rollout that were served but not recorded; ``since`` in epoch seconds."""

    count: int
    since: float


@record
class CommitBatch:
    """The contents of one commit: calls begun, calls ended, and gaps by rollout.

    ``late`` is true if the database did not take them when they began and ended.
    """

    opened: Sequence[Exchange] = ()
    recorded: Sequence[Exchange] = ()
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A rollout as its runner registers it.

    ``repeat`` is which sample of its task it is, of ``repeats`` that its batch is to have.
    ``metadata`` and ``fault`` are JSON text, ``fallbacks`` names of models, one a line.
    """

    id: str
    batch: str | None = None
    task: str | None = None
    repeat: int | None = None
    repeats: int | None = None
    attempt: int | None = None
    model: str | None = None
    upstream: str | None = None
    usage_channel: str = "proxy"
    metadata: str | None = None
    fault: str | None = None
    fallbacks: str | None = None
    client_cache: bool | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """All but the id, as columns of `rollouts`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "id"}


POLICY_COLUMNS = ("agents", "validity", "max_steps", "budget", "content_filter")
# What is one for all rollouts of a batch: a first registration without one leaves none to state.
BATCH_FACTS = ("reward_range", "score_key")
TERMS = (*POLICY_COLUMNS, *BATCH_FACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    """A batch's policy and facts: ``stated`` by a registration, by ``default`` as the service's is.

    By the names of ``TERMS``; facts have no default.
    """

    stated: Mapping[str, str] = field(default_factory=dict)
    default: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The result of a registration: a conflict, or the sentence that says why it is skipped.

    ``differing``: what its batch's policy says, where the registration says otherwise.
    ``policy``: that by which it is judged; None: as the service's says. ``refused``: why its batch
    cannot have what it asks for. ``ruled``: its calls are under a feature's rule. ``ended``: its
    outcome was given. ``measured``: all repeats that its task is to have are, or run. ``place`` is
    its `repeat` and `attempt` in its task.
    """

    conflict: bool = False
    ended: bool = False
    measured: bool = False
    place: Mapping[str, int | None] = field(default_factory=dict, compare=False)
    refused: str | None = None
    ruled: bool = False
    differing: Mapping[str, str | None] = field(default_factory=dict)
    policy: Mapping[str, str | None] = field(default_factory=dict)
    skipped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The result of a report.

    ``outcome`` is the one that stands now (JSON text), None if no such rollout is known.
    ``conflict``: the rollout has other attributes than the report says. ``closing``: the number
    with which its calls are to be ended, None if they have been, by ``others`` too: whether there
    are other workers. ``rewarded``: it adds its rewards to the outcome that stood without any.
    """

    outcome: str | None = None
    conflict: bool = False
    rewarded: bool = field(default=False, compare=False)
    closing: int | None = field(default=None, compare=False)  # of no account to the outcome
    others: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCounts:
    """Counts over the whole store: rollouts by health, and gauges of features by name and label.

    ``lanes`` are those of the last hour, by upstream, model and word; a model without a public
    name is None.
    """

    verdicts: Mapping[str, int]
    gauges: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lanes: Mapping[tuple[str, str | None, str], int] = field(default_factory=dict)


def as_json(value: object) -> str:
    """JSON text as it is stored: one spelling for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
