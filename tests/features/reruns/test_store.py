"""The attempts at repeats without a score, and the tasks that lack repeats, as they are read."""
# ruff: noqa: SLF001
# Private: the plans of single queries are looked at.

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Select, event, insert, text

from classifier.reruns import MissingRepeats, RerunEntry
from proxy.features.reruns import store
from proxy.features.reruns.store import SlotCursor
from proxy.store.database import Database
from proxy.store.tables import OLDEST_FIRST, Registration, rollouts, verdicts
from tests.proxy.store.test_verdicts import verdict


def begin(database: Database, name: str, **facts: Any) -> None:
    begin_at(database, 1.0, name, **{"task": "t", "repeats": 2, **facts})


def end(database: Database, name: str, *, reward: float | None = None, **given: Any) -> None:
    scoreable = "no" if reward is None else "yes"
    database.verdicts.store(verdict(name, scoreable=scoreable, reward=reward, **given))


def ids(found: Iterable[tuple[SlotCursor, Sequence[RerunEntry]]]) -> list[list[str]]:
    """The ids of the attempts at each slot."""
    return [[each.entry.rollout_id for each in tried] for _, tried in found]


def unscored(database: Database, **asked: Any) -> list[tuple[SlotCursor, Sequence[RerunEntry]]]:
    return database.read(lambda connection: list(store.unscored(connection, "b", **asked)))


def lacking(database: Database, **asked: Any) -> list[MissingRepeats]:
    return database.read(lambda connection: list(store.lacking(connection, "b", **asked)))


def begin_at(database: Database, at: float, name: str, **facts: Any) -> None:
    database.rollouts.register(Registration(id=name, **{"batch": "b", **facts}), now=at)


def test_the_slots_without_a_score_are_read_with_all_attempts(database: Database) -> None:
    begin(database, "done", task="done", repeat=0)
    end(database, "done", reward=0.0)
    for name, attempt in (("failed", 0), ("failed-again", 1)):
        begin(database, name, task="failed", repeat=1, attempt=attempt)
    told = '{"transient": true, "retry": {"after_s": 2.5}, "warnings": ["w"], "rule": "all_failed"}'
    database.verdicts.store(verdict("failed", health="api_error", cause="c", verdict=told))
    for name, attempt in (("filled", 0), ("filled-again", 1)):
        begin(database, name, task="failed", repeat=2, attempt=attempt)
    end(database, "filled-again", reward=1.0)
    for name, reward in (("tried", None), ("tried-again", 1.0)):
        begin(database, name, task="tried", repeats=None)
        end(database, name, reward=reward)
    begin(database, "nameless", task=None, repeats=None)
    begin(database, "elsewhere", task="failed", batch="other")
    found = unscored(database)
    assert ids(found) == [["failed", "failed-again"], ["nameless"], ["tried"]]
    failed = found[0][1][0]
    assert (failed.transient, failed.after_s, failed.cause) == (True, 2.5, "c")
    assert (failed.warnings, failed.rule) == (("w",), "all_failed")


def test_of_a_task_without_repeats_all_attempts_say_which_slot_one_is_of(
    database: Database,
) -> None:
    """The n-th of each number make the n-th slot."""
    for at, (name, attempt) in enumerate((("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", None))):
        begin_at(database, float(at), name, task="t", attempt=attempt)
    end(database, "c", reward=1.0)
    for at_once in (1, 2, 500):
        assert ids(unscored(database, at_once=at_once)) == [["b", "d"], ["e"]], at_once


def test_slots_go_on_behind_any_of_them(database: Database) -> None:
    """By when their first attempts began, whichever of their attempts are read first."""
    told = (
        ("r1", "t", 0, 1), ("s1", None, None, None), ("r0", "t", 0, 0), ("u1", "u", None, 0),
        ("r2", "t", 1, 0), ("u2", "u", None, 1), ("v", "t", None, None), ("w", "u", 4, None),
    )  # fmt: skip
    for at, (name, task, repeat, attempt) in enumerate(told):
        begin_at(database, float(at // 2), name, task=task, repeat=repeat, attempt=attempt)
    whole = unscored(database)
    assert ids(whole) == [["r0", "r1"], ["s1"], ["u1", "u2"], ["r2"], ["v"], ["w"]]
    places = [place for place, _ in whole]
    assert places == sorted(places)
    assert places[0] == (0.0, "r1")
    for at_once in (1, 3):
        assert unscored(database, at_once=at_once) == whole
        for number, place in enumerate(places, 1):
            assert unscored(database, after=place, at_once=at_once) == whole[number:]


def test_the_tasks_that_lack_repeats_are_read_by_their_names(database: Database) -> None:
    for task, wanted, repeats in (
        ("few", 3, (0, 2)), ("all", 2, (0, 1)), ("more", 4, (1,)), ("unsaid", None, (0,)),
        ("beyond", 2, (0, 7)),
    ):  # fmt: skip
        for repeat in repeats:
            begin(database, f"{task}-{repeat}", task=task, repeat=repeat, repeats=wanted)
    begin(database, "again", task="more", repeat=1, attempt=1, repeats=None)
    begin(database, "attempt", task="not numbered", attempt=0, repeats=9)
    begin(database, "elsewhere", task="other", repeat=0, repeats=5, batch="other")
    whole = [MissingRepeats("few", 3, {0, 2}), MissingRepeats("more", 4, {1})]
    for at_once in (1, 2, 500):
        assert lacking(database, at_once=at_once) == whole, at_once
        assert lacking(database, at_once=at_once, since="few") == whole
        assert lacking(database, at_once=at_once, since="fex") == whole[1:]


@pytest.mark.slow
def test_a_page_is_read_in_the_order_of_an_index(database: Database) -> None:
    """Neither its first page nor a later one walks through all rows, or sorts them."""
    rows: list[dict[str, Any]] = [
        {"id": f"r{n}", "batch": f"b{n % 20 or ''}", "task": f"t{n % 50}" if n else None,
         "repeat": n % 40 if n % 3 else None, "attempt": n // 20 % 2, "repeats": 99,
         "created_at": float(n)}
        for n in range(4000)
    ]  # fmt: skip
    judged = [
        {**verdict(row["id"], batch=row["batch"], reward=1.0 if row["attempt"] else None),
         "began_at": row["created_at"]}
        for row in rows if row["id"] != "r80"
    ]  # fmt: skip
    for table, given in ((rollouts, rows), (verdicts, judged)):
        database.change(lambda connection, *of: connection.execute(*of), insert(table), given)
    if not database.is_sqlite:
        database.change(lambda connection: connection.execute(text("ANALYZE rollouts, verdicts")))
    judged_, waiting = store._judged_unscored("b"), store._not_judged("b")
    first = database.read(lambda connection: connection.execute(judged_.limit(60)).all())
    several, tasks, single = store._attempts("b", first)
    keys = [
        (store._page_of(query, order, place, 5), index, others)
        for place in (None, SlotCursor(2000.0, "r"))
        for query, order, index, others in (
            (judged_, store._PLACE, "verdicts_unscored", ("TEMP B-TREE", "Sort ")),
            (waiting, OLDEST_FIRST, "rollouts_", ("TEMP B-TREE",)),  # few: PostgreSQL sorts them
        )
    ]
    named = [
        store._lacking("b", rollouts.c.task >= "t2", 5), store._repeats("b", ["t1", "t2"]),
    ]  # fmt: skip
    wanted = (
        *keys,
        (several, "rollouts_repeat", ()), (tasks, "rollouts_", ()), (single, "rollouts_", ()),
        (named[0], "rollouts_", ("B-TREE FOR GROUP", "B-TREE FOR ORDER")),
        (named[1], "rollouts_", ()),
    )  # fmt: skip
    for query, index, others in wanted:
        plan = database.read(_plan, query)
        assert index in plan, plan
        for other in ("Seq Scan", "SCAN rollouts\n", "SCAN verdicts", *others):
            assert other not in f"{plan}\n", plan


def test_what_waits_for_a_verdict_is_looked_for_until_there_is_no_more(database: Database) -> None:
    """Its statement looks at all of a batch where everything is judged."""
    for number in range(40):
        begin_at(database, float(number), f"r{number:02}", task=f"t{number}", repeat=0)
        if number < 30:
            reward = 1.0 if number % 3 else None
            end(database, f"r{number:02}", reward=reward, batch="b", began_at=float(number))

    def read(connection: Connection) -> tuple[int, int, int]:
        asked: list[str] = []
        event.listen(connection, "before_cursor_execute", lambda *heard: asked.append(heard[2]))
        slots = len(list(store.unscored(connection, "b", at_once=6)))
        waiting, judged = (sum(each in said for said in asked) for each in ("NOT (EXISTS", "<>"))
        return slots, waiting, judged

    assert database.read(read) == (20, 2, 2), "pages of six: of ten each"


def _plan(connection: Connection, query: Select[Any]) -> str:
    said = query.compile(connection, compile_kwargs={"literal_binds": True})
    explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
    if explain == "EXPLAIN":  # as on a disk that does not turn
        connection.exec_driver_sql("SET LOCAL random_page_cost = 1.1")
    plan = connection.exec_driver_sql(f"{explain} {said}".replace("%", "%%"))
    return "\n".join(row[-1] for row in plan)
