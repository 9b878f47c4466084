"""Tables that follow from the others: never copied or exported, and counted anew where need be.

Calls are summed up by triggers, rollouts in the transactions that change them (`rollup`).
"""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, Table, Text

from proxy.store.tables import COUNT, metadata, text_of

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

# What a batch's rollouts add up to (`classifier.rollup`); a batch with rollouts has a row.
batches = Table(
    "batches",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("first_at", Float, nullable=False),  # when its first rollout began
    Column("last_at", Float, nullable=False),
    Column("version", COUNT, nullable=False, server_default="0"),  # counts changes
    Column("counts", Text),  # JSON; null where they have to be counted anew
    Index("batches_newest", "last_at", "batch"),
    sqlite_with_rowid=False,
)

# The rollouts that a batch's summary names.
batch_notes = Table(
    "batch_notes",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("kind", text_of(16), primary_key=True),  # classifier.rollup.NoteKind
    Column("at", Float, primary_key=True),  # when the first attempt of its slot began
    Column("rollout_id", text_of(200), primary_key=True),
    sqlite_with_rowid=False,
)

# The repeats of each task: how many are kept, and which lanes excluded some.
batch_tasks = Table(
    "batch_tasks",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("task", text_of(200), primary_key=True),
    Column("repeats", COUNT, nullable=False),
    Column("kept", COUNT, nullable=False),
    Column("score", Text, nullable=False),  # of those kept: a whole number, `rollup.UNIT` is 1
    Column("lanes", Text, nullable=False),  # JSON: repeats excluded, by lane
    Column("wanted", Text, nullable=False),  # JSON: repeats by how many were wanted
    sqlite_with_rowid=False,
)

# Tasks alike, and slots without a task, each like a task of one repeat.
batch_shapes = Table(
    "batch_shapes",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("digest", text_of(32), primary_key=True),
    Column("repeats", COUNT, nullable=False),
    Column("kept", COUNT, nullable=False),
    Column("score", Text, nullable=False),  # as in `batch_tasks`
    Column("lanes", Text, nullable=False),  # JSON: of repeats that are excluded
    Column("tasks", COUNT, nullable=False),
    sqlite_with_rowid=False,
)

# How rollouts were served (`verdicts.servings`), by the text's digest, and ids of ten of them.
batch_servings = Table(
    "batch_servings",
    metadata,
    Column("batch", text_of(200), primary_key=True),
    Column("digest", text_of(32), primary_key=True),
    Column("servings", Text, nullable=False),
    Column("rollouts", COUNT, nullable=False),
    Column("examples", Text, nullable=False),  # JSON
    sqlite_with_rowid=False,
)

DERIVED: tuple[Table, ...] = (
    call_usage, unjudged, batches, batch_notes, batch_tasks, batch_shapes, batch_servings,
)  # fmt: skip
