"""Triggers of both databases.

They add calls to `call_usage` and note in `unjudged` what changed, and see every write: the
recorder's commits and their repetitions, spill files, imports, copies and deletions. SQLite runs
them for each row, PostgreSQL once for all rows of a statement.

Migration 0027 made them as they are. One that changes them drops and makes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_SLOTS = 8  # rows of one key that PostgreSQL's sessions add to, so that few wait for each other
_MOVED = -1  # the slot of rollouts that change their batch, whoever changes it
# Sums of these are exact, in whatever order they are added and subtracted.
_SECOND = 2**24
_DOLLAR = 2**30
# Input tokens above which a price changes in some table of genai-prices, for all of a call's
# tokens: calls between two of them are priced by their sums. A table that has another is noticed
# (`PriceTable.holds`), and its calls are priced one by one.
TIERS = (32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288)
UNCOUNTED, UNUSED, STATED, UNKNOWN = "none", "unused", "stated", "unknown"
SPECIAL = "special"  # its tier or paid tools have another price than the table's
# What no call can have is unknown, as it is where a call is read (migration 0005): one that got
# into the table in some other way must not make a sum overflow, and with it a commit fail.
MOST_TOKENS, MOST_USD, MOST_S = 1_000_000_000, 1_000_000, 1_000_000_000


def _sound(column: str, most: int = MOST_TOKENS) -> str:
    return f"(CASE WHEN {{c}}.{column} BETWEEN 0 AND {most} THEN {{c}}.{column} END)"


def _known(value: str) -> str:
    return f"CASE WHEN {value} IS NULL THEN 0 ELSE 1 END"


_READ, _WRITTEN = _sound("input_total"), _sound("output_total")
_TOTAL = f"coalesce({_READ} + {_WRITTEN}, {_sound('total_tokens')})"
_COST = _sound("cost_usd", MOST_USD)
_SECONDS = _sound("duration_s", MOST_S)

KEYS: Mapping[str, str] = {
    "minute": "CAST({floor} AS {count})",
    "model": "coalesce({c}.answered_model, {c}.model, '')",
    "upstream": "{c}.upstream",
    "role": "{c}.role",
    "cause": "coalesce({c}.subcategory, '')",
    "basis": "CASE WHEN {c}.ending IS NULL OR {c}.pending IS TRUE"
    f" OR {{c}}.kind NOT IN ('inference', 'continuation') THEN '{UNCOUNTED}'"
    " WHEN {c}.subcategory IS NOT NULL AND ({c}.status IS NULL OR {c}.status >= 400)"
    f" THEN '{UNUSED}'"
    f" WHEN {_COST} IS NOT NULL THEN '{STATED}'"
    f" WHEN {{c}}.billed_as IS NOT NULL THEN '{SPECIAL}'"
    f" WHEN {_READ} IS NULL OR {_WRITTEN} IS NULL THEN '{UNKNOWN}'"
    + "".join(f" WHEN {_READ} > {tier} THEN '{tier}'" for tier in reversed(TIERS))
    + " ELSE '0' END",
}
SUMS: Mapping[str, str] = {
    "calls": "1",
    "input_known_calls": _known(_READ),
    "output_known_calls": _known(_WRITTEN),
    "tokens_known_calls": _known(_TOTAL),
    "input_tokens": f"coalesce({_READ}, 0)",
    "output_tokens": f"coalesce({_WRITTEN}, 0)",
    "total_tokens": f"coalesce({_TOTAL}, 0)",
    "cached_input_tokens": f"coalesce({_sound('cached_input_tokens')}, 0)",
    "cache_write_tokens": f"coalesce({_sound('cache_write_tokens')}, 0)",
    "seconds_known_calls": _known(_SECONDS),
    "cost_usd": f"coalesce(round({_COST} * {_DOLLAR}.0) / {_DOLLAR}.0, 0)",
    "seconds": f"coalesce(round({_SECONDS} * {_SECOND}.0) / {_SECOND}.0, 0)",
}
_COLUMNS = ", ".join(("batch", *KEYS, "slot", *SUMS))
_ADDED = (
    "ON CONFLICT (batch, minute, model, upstream, role, cause, basis, slot) DO UPDATE SET "
    + ", ".join(f"{name} = call_usage.{name} + excluded.{name}" for name in SUMS)
)
# Columns of `rollouts` on which a verdict depends.
_JUDGED_ON = (
    "batch", "task", "repeat", "attempt", "model", "upstream", "usage_channel", "gaps", "skipped",
    "outcome", "fallbacks", "closed_at", "agents", "validity", "max_steps",
)  # fmt: skip


MARK_ALL = """
INSERT INTO batches (batch, first_at, last_at)
SELECT batch, min(created_at), max(created_at) FROM rollouts WHERE batch IS NOT NULL GROUP BY batch
"""
NOTE_ALL = """
INSERT INTO unjudged (rollout_id, batch, change)
SELECT r.id, r.batch, 0 FROM rollouts AS r
LEFT JOIN verdicts AS v ON v.rollout_id = r.id WHERE v.rollout_id IS NULL OR v.provisional
"""


def usage_query(dialect: str) -> str:
    """Return the SELECT of `call_usage`'s rows as they follow from calls, counted anew."""
    named = {**_of(KEYS, "c", dialect), **_of(SUMS, "c", dialect)}
    each = ", ".join(f"{sql} AS {name}" for name, sql in named.items())
    keys = ", ".join(("batch", *KEYS))
    totals = ", ".join(f"CAST(sum({name}) AS {_kind(name)})" for name in SUMS)
    return (
        f"SELECT {keys}, 0, {totals} FROM (SELECT coalesce(r.batch, '') AS batch, {each}"
        " FROM exchanges AS c LEFT JOIN rollouts AS r ON r.id = c.rollout_id) AS each_call"
        f" GROUP BY {keys}"
    )


def usage_fill(dialect: str) -> str:
    """Return the INSERT of all of `call_usage`."""
    return f"INSERT INTO call_usage ({_COLUMNS}) {usage_query(dialect)}"


def statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that make the triggers."""
    return tuple(_sqlite() if dialect == "sqlite" else _postgresql())


def removals(dialect: str) -> tuple[str, ...]:
    """Return the statements that drop the triggers."""
    made = [_NAMED.match(statement) for statement in statements(dialect)]
    triggers = [(match[2], match[3]) for match in made if match and match[1] == "TRIGGER"]
    functions = [match[2] for match in made if match and match[1] == "FUNCTION"]
    own = [f" ON {table}" if dialect == "postgresql" else "" for _, table in triggers]
    return (
        *(f"DROP TRIGGER {name}{table}" for (name, _), table in zip(triggers, own, strict=True)),
        *(f"DROP FUNCTION {name}()" for name in functions),
    )


_NAMED = re.compile(r"\s*CREATE (TRIGGER|FUNCTION) (\w+)(?:[^(]*? ON (\w+))?")


def _kind(name: str) -> str:
    return "double precision" if name in ("cost_usd", "seconds") else "bigint"


def _of(columns: Mapping[str, str], call: str, dialect: str) -> dict[str, str]:
    # SQLite's cast cuts, and calls do not begin before 1970; PostgreSQL's rounds.
    minute = f"{call}.started_at / 60"
    floor = minute if dialect == "sqlite" else f"floor({minute})"
    count = "INTEGER" if dialect == "sqlite" else "bigint"
    return {name: sql.format(c=call, floor=floor, count=count) for name, sql in columns.items()}


# --- SQLite ----------------------------------------------------------------------------------


def _sqlite() -> Iterator[str]:
    added, removed = _add_row("NEW", 1), _add_row("OLD", -1)
    noted = _note_row("NEW.rollout_id")
    yield _trigger("exchange_added", "INSERT ON exchanges", added, noted)
    yield _trigger("exchange_changed", "UPDATE ON exchanges", removed, added, noted)
    yield _trigger("exchange_removed", "DELETE ON exchanges", removed)
    yield _trigger("call_opened", "INSERT ON open_calls", noted)
    yield _trigger("rollout_added", "INSERT ON rollouts", *_moved("NEW", "''"), _note_row("NEW.id"))
    yield _trigger(
        "rollout_changed", f"UPDATE OF {', '.join(_JUDGED_ON)} ON rollouts", _note_row("NEW.id")
    )
    yield _trigger(
        "rollout_moved",
        "UPDATE OF batch ON rollouts",
        *_moved("NEW", "coalesce(OLD.batch, '')"),
        when="OLD.batch IS NOT NEW.batch",
    )
    yield _trigger(
        "rollout_removed",
        "DELETE ON rollouts",
        *_moved("OLD", "coalesce(OLD.batch, '')", to="''"),
        "DELETE FROM unjudged WHERE rollout_id = OLD.id",
    )


def _trigger(name: str, event: str, *bodies: str, when: str = "") -> str:
    condition = f" WHEN {when}" if when else ""
    return f"CREATE TRIGGER {name} AFTER {event}{condition} BEGIN {'; '.join(bodies)}; END"


def _add_row(call: str, times: int) -> str:
    keys, sums = _of(KEYS, call, "sqlite"), _of(SUMS, call, "sqlite")
    batch = f"coalesce((SELECT batch FROM rollouts WHERE id = {call}.rollout_id), '')"
    values = ", ".join((batch, *keys.values(), "0", *_times(sums, times)))
    return f"INSERT INTO call_usage ({_COLUMNS}) VALUES ({values}) {_ADDED}"


def _times(sums: Mapping[str, str], times: int) -> list[str]:
    return list(sums.values()) if times == 1 else [f"-({each})" for each in sums.values()]


def _note_row(rollout: str) -> str:
    final = f"EXISTS (SELECT 1 FROM verdicts WHERE rollout_id = {rollout} AND NOT provisional)"
    return (
        "INSERT INTO unjudged (rollout_id, batch, change)"
        f" SELECT id, batch, random() FROM rollouts WHERE id = {rollout} AND NOT {final}"
        " ON CONFLICT (rollout_id) DO UPDATE"
        " SET change = excluded.change, batch = excluded.batch"
    )


def _moved(row: str, before: str, to: str | None = None) -> Iterator[str]:
    """Yield statements that move a rollout's calls from one batch to another."""
    after = f"coalesce({row}.batch, '')" if to is None else to
    keys, sums = _of(KEYS, "c", "sqlite"), _of(SUMS, "c", "sqlite")
    for batch, times in ((before, -1), (after, 1)):
        values = ", ".join((batch, *keys.values(), "0", *_times(sums, times)))
        yield (
            f"INSERT INTO call_usage ({_COLUMNS}) SELECT {values} FROM exchanges AS c"
            f" WHERE c.rollout_id = {row}.id AND {before} <> {after} {_ADDED}"
        )


# --- PostgreSQL --------------------------------------------------------------------------------

_EXCHANGES_FUNCTION = """
CREATE FUNCTION truezero_count_calls() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE own int := pg_backend_pid() % {slots};
BEGIN
  IF TG_OP <> 'INSERT' THEN {removed}; END IF;
  IF TG_OP <> 'DELETE' THEN {added}; {noted}; END IF;
  RETURN NULL;
END $$
"""
_OPEN_CALLS_FUNCTION = """
CREATE FUNCTION truezero_note_calls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN {noted}; RETURN NULL; END $$
"""
_ROLLOUTS_FUNCTION = """
CREATE FUNCTION truezero_note_rollouts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    {removed};
    DELETE FROM unjudged WHERE rollout_id IN (SELECT id FROM gone);
    RETURN NULL;
  END IF;
  IF TG_OP = 'UPDATE' THEN {changed}; {changed_noted}; ELSE {added}; {noted}; END IF;
  RETURN NULL;
END $$
"""
_NEW_AND_OLD = {
    "INSERT": "NEW TABLE AS fresh",
    "UPDATE": "OLD TABLE AS gone NEW TABLE AS fresh",
    "DELETE": "OLD TABLE AS gone",
}


def _postgresql() -> Iterator[str]:
    owned = "AS c LEFT JOIN rollouts AS r ON r.id = c.rollout_id"
    yield _EXCHANGES_FUNCTION.format(
        slots=_SLOTS,
        removed=_add_rows(f"gone {owned}", "r.batch", -1),
        added=_add_rows(f"fresh {owned}", "r.batch", 1),
        noted=_note_rows("SELECT rollout_id FROM fresh"),
    )
    yield _OPEN_CALLS_FUNCTION.format(noted=_note_rows("SELECT rollout_id FROM fresh"))
    moved = "{} AS n JOIN {} AS o USING (id) JOIN exchanges AS c ON c.rollout_id = n.id"
    both = moved.format("fresh", "gone") + " WHERE n.batch IS DISTINCT FROM o.batch"
    new = "fresh AS n JOIN exchanges AS c ON c.rollout_id = n.id WHERE n.batch IS NOT NULL"
    old = "gone AS o JOIN exchanges AS c ON c.rollout_id = o.id WHERE o.batch IS NOT NULL"

    def move(rows: str, before: str, after: str) -> str:
        return f"{_add_rows(rows, before, -1, _MOVED)}; {_add_rows(rows, after, 1, _MOVED)}"

    yield _ROLLOUTS_FUNCTION.format(
        removed=move(old, "o.batch", "NULL"),
        changed=move(both, "o.batch", "n.batch"),
        added=move(new, "NULL", "n.batch"),
        noted=_note_rows("SELECT id FROM fresh"),
        # A trigger that is told all rows cannot be told of which columns.
        changed_noted=_note_rows(
            "SELECT n.id FROM fresh AS n JOIN gone AS o USING (id)"
            f" WHERE ({_columns('n')}) IS DISTINCT FROM ({_columns('o')})"
        ),
    )
    for table, function, events in (
        ("exchanges", "count_calls", ("INSERT", "UPDATE", "DELETE")),
        ("open_calls", "note_calls", ("INSERT",)),
        ("rollouts", "note_rollouts", ("INSERT", "UPDATE", "DELETE")),
    ):
        for event in events:
            yield (
                f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON {table}"
                f" REFERENCING {_NEW_AND_OLD[event]}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION truezero_{function}()"
            )


def _columns(of: str) -> str:
    return ", ".join(f"{of}.{name}" for name in _JUDGED_ON)


def _add_rows(rows: str, batch: str, times: int, slot: int | None = None) -> str:
    keys, sums = _of(KEYS, "c", "postgresql"), _of(SUMS, "c", "postgresql")
    sign = "" if times == 1 else "-"
    totals = ", ".join(f"{sign}sum({each})" for each in sums.values())
    held = "own" if slot is None else str(slot)
    own_batch = f"coalesce({batch}, '')"
    count = len(keys) + 1
    places = ", ".join(map(str, range(1, count + 1)))
    return (
        f"INSERT INTO call_usage ({_COLUMNS})"
        f" SELECT {own_batch}, {', '.join(keys.values())}, {held}, {totals} FROM {rows}"
        # In one order, or two writers could wait for each other.
        f" GROUP BY {places} ORDER BY {places} {_ADDED}"
    )


def _note_rows(ids: str) -> str:
    return (
        "INSERT INTO unjudged (rollout_id, batch, change)"
        " SELECT r.id, r.batch, (random() * 9e15)::bigint FROM rollouts AS r"
        f" WHERE r.id IN ({ids}) AND NOT EXISTS"
        " (SELECT 1 FROM verdicts AS v WHERE v.rollout_id = r.id AND NOT v.provisional)"
        " ORDER BY r.id"
        " ON CONFLICT (rollout_id) DO UPDATE"
        " SET change = excluded.change, batch = excluded.batch"
    )
