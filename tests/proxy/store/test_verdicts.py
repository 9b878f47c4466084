"""Verdicts: a final one stands, and what misses calls is judged again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

from proxy.features.breakers.store import states_of
from proxy.store import listing
from proxy.store.database import Database
from proxy.store.events import NewEvent
from proxy.store.listing import RolloutQuery
from proxy.store.tables import Registration, Row, metadata
from proxy.store.verdicts import EndOfCalls, final_parts
from tests.opcodes import Counting
from tests.proxy.store.records import FULL, loaded, skip, summed_up, write


def verdict(rollout_id: str = "r1", **values: object) -> dict[str, object]:
    blank = dict.fromkeys(metadata.tables["verdicts"].columns.keys())
    row = {
        "rollout_id": rollout_id, "batch": "b", "health": "undecided", "provisional": False,
        "scoreable": "no", "calls": 0, "given_at": 1.0, "verdict": "{}",
    }  # fmt: skip
    return blank | row | values


def test_a_provisional_verdict_gives_way_and_a_final_one_stands(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)

    def health(given: str, *, provisional: bool) -> object:
        database.verdicts.store(verdict(health=given, provisional=provisional))
        (row,) = database.read(listing.page, RolloutQuery(), limit=2)
        return row["health"]

    assert health("undecided", provisional=True) == "undecided"
    assert health("healthy", provisional=True) == "healthy"
    assert health("api_error", provisional=False) == "api_error"
    assert health("healthy", provisional=True) == "api_error"


def test_only_what_misses_calls_is_judged_again(database: Database) -> None:
    for number, name in enumerate(("new", "outdated", "current", "final")):
        database.rollouts.register(Registration(id=name, batch="b"), now=float(number))
    database.verdicts.store(verdict("outdated", provisional=True))
    database.verdicts.store(verdict("current", provisional=True))
    database.verdicts.store(verdict("final"))
    late = [replace(FULL, id=name, rollout_id=name) for name in ("outdated", "final")]
    write(database, *late)
    assert database.verdicts.unjudged(limit=9).ids == ["new", "outdated"]
    assert database.verdicts.unjudged(among=["outdated", "final"], limit=9).ids == ["outdated"]
    assert database.verdicts.unjudged(batch="other", limit=9).ids == []


def test_causes_of_earlier_attempts_come_in_their_order(database: Database) -> None:
    for repeat, attempt in ((None, 2), (None, 1), (None, 3), (0, 0), (1, 0)):
        name = f"{repeat}-{attempt}"
        tried = Registration(id=name, batch="b", task="t", repeat=repeat, attempt=attempt)
        database.rollouts.register(tried, now=1.0)
        database.verdicts.store(verdict(name, cause=name))
    assert database.verdicts.earlier_causes("b", "t", 3) == ["None-1", "None-2"]
    assert database.verdicts.earlier_causes("b", "t", 3, repeat=1) == ["1-0"]


def test_what_runs_is_judged_again_in_turn_and_as_many_as_asked_for(database: Database) -> None:
    for number, name in enumerate(("a", "b", "c", "done", "new")):
        database.rollouts.register(Registration(id=name, batch="b"), now=float(number))
    for name, given_at in (("a", 9.0), ("b", 7.0), ("c", 8.0), ("done", 9.0)):
        database.verdicts.store(verdict(name, provisional=True, given_at=given_at))
        call = replace(FULL, id=name, rollout_id=name)
        write(database, call)
    database.rollouts.report("done", "{}", now=10.0)
    assert database.verdicts.unjudged(limit=9).ids == ["done", "new", "b", "c", "a"]
    assert database.verdicts.unjudged(limit=9, running=2) == (["done", "new", "b"], 1)
    assert database.verdicts.unjudged(limit=3).ids == ["done", "new", "b"]
    database.rollouts.register(Registration(id="newer", batch="b"), now=11.0)
    database.rollouts.register(Registration(id="ended", batch="b"), now=12.0)
    database.rollouts.report("ended", "{}", now=13.0)
    assert database.verdicts.unjudged(limit=9, running=0) == (["done", "ended"], 0)
    assert database.verdicts.unjudged(limit=9, running=1) == (["done", "ended", "new"], 0)
    skipped = Registration(id="skipped", batch="b")
    database.rollouts.register(skipped, now=14.0)
    skip(database, skipped, now=14.0)
    assert database.verdicts.unjudged(limit=9, running=0) == (["done", "ended", "skipped"], 0)


def test_a_verdict_older_than_the_last_change_or_another_verdict_is_not_kept(
    database: Database,
) -> None:
    database.rollouts.register(Registration(id="r1", batch="b"), now=1.0)

    def change() -> Row:
        return loaded(database)[0]

    def health() -> object:
        counts = summed_up(database).counts
        return {key: n for key, n in counts.items() if key.startswith("health:")}

    before = change()
    write(database, FULL)
    database.verdicts.store(verdict(provisional=True, health="undecided"), known=before)
    assert (health(), database.verdicts.unjudged(limit=9).ids) == ({}, ["r1"])
    now = change()
    database.verdicts.store(verdict(provisional=True, health="healthy"), known=now)
    database.verdicts.store(verdict(provisional=True, health="undecided"), known=before)
    database.verdicts.store(verdict(provisional=True, health="undecided"), known=now)
    assert (health(), database.verdicts.unjudged(limit=9).ids) == ({"health:healthy": 1}, [])


class Turn:
    """What a thread does in its transactions that write: statements, and opcodes of Python."""

    def __init__(self, engine: Engine) -> None:
        self.statements: list[str] = []
        self._count = Counting()
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "commit", self._end)
        event.listen(engine, "before_cursor_execute", self._hear)

    @property
    def opcodes(self) -> int:
        """Of the last transaction."""
        return self._count.opcodes

    def _begin(self, _connection: object) -> None:
        self.statements.clear()
        self._count = Counting()
        self._count.__enter__()

    def _end(self, _connection: object) -> None:
        self._count.__exit__()

    def _hear(self, *heard: Any) -> None:
        self.statements.append(heard[2].split(maxsplit=1)[0])


# Statements on SQLite, and opcodes about a tenth above what they are.
TURNS = (
    ("runs again", {"provisional": True, "health": "healthy", "total_tokens": 10}, 4, 8_500),
    ("scored", {"health": "healthy", "scoreable": "yes", "reward": 1.0}, 7, 14_000),
    ("failed", {"health": "api_error", "cause": "c", "fingerprint": "f"}, 7, 14_000),
)


class _ReadsBreakers:
    """What breakers cost that a verdict changes nothing of."""

    reads = False

    def read(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Read nothing before the writer's turn."""

    def write(self, connection: Connection, row: Mapping[str, Any]) -> list[NewEvent]:
        states_of(connection, row["batch"])
        return []


def test_the_writers_turn_is_for_writing(tmp_path: Path) -> None:
    """Nothing of the batch is added up in it: the recorder waits behind it."""
    database = Database(str(tmp_path / "t.db"))
    database.prepare()
    names = [f"{what}-{number}" for what, *_ in TURNS for number in range(4)]
    for name in names:
        task, repeat = name.split("-")
        placed = Registration(id=name, batch="b", task=task, repeat=int(repeat), repeats=9)
        database.rollouts.register(placed, now=1.0)
        database.verdicts.store(verdict(name, provisional=True, scoreable="unknown"))

    def store(name: str, given: Mapping[str, Any]) -> None:
        row = verdict(name, **given)
        parts = [*final_parts(None), _ReadsBreakers()]
        end = None if row["provisional"] else EndOfCalls(9.0, gaps=0)
        database.verdicts.store(row, parts, known=loaded(database, name)[0], end=end)

    for what, given, *_ in TURNS:  # the first ones compile statements
        for number in range(3):
            store(f"{what}-{number}", given)
    turn = Turn(database.connections.writer)
    for what, given, statements, opcodes in TURNS:
        store(f"{what}-3", given)
        assert len(turn.statements) <= statements, (what, turn.statements)
        assert turn.opcodes <= opcodes, (what, turn.opcodes)
    database.close()
