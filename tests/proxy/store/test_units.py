"""Rollouts are summed up with those that decide together what counts."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection

from classifier import codec
from classifier.rollup import CountedRollout, sample_of
from classifier.verdicts import Health, Retry, Verdict
from proxy.store import batch_totals
from proxy.store.batch_totals import RepeatKey
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.proxy.store.test_verdicts import verdict

PLACES = (
    ("a", None, 0, 0), ("b", "t", 0, 0), ("c", "t", 0, 1), ("d", "t", 1, None), ("e", "t", None, 0),
    ("f", "t", None, 1), ("g", "t", None, None), ("h", "u", 0, 0),
)  # fmt: skip


def names(attempts: list[CountedRollout] | None) -> str:
    assert attempts is not None
    return "".join(attempt.entry.rollout_id for attempt in attempts)


def test_a_unit_is_read_whole_and_alone(database: Database) -> None:
    for at, (name, task, repeat, number) in enumerate(PLACES):
        placed = Registration(id=name, batch="b", task=task, repeat=repeat, attempt=number)
        database.rollouts.register(placed, now=float(at))
    database.rollouts.register(Registration(id="other", task="t", repeat=0), now=9.0)
    wanted = {"a": "a", "b": "bc", "c": "bc", "d": "d", "e": "ef", "f": "ef", "g": "g", "h": "h"}
    attempts = database.read(batch_totals.all_of, "b")
    assert names(attempts) == "abcdefgh"
    for attempt in attempts:
        entry = attempt.entry
        unit = RepeatKey.of({"id": entry.rollout_id, **entry._asdict()})
        assert (
            names(database.read(batch_totals.attempts_of, "b", {unit})) == wanted[entry.rollout_id]
        )
        assert unit[:2] == (sample_of(entry) or (None, None))
    several = {RepeatKey("t", 0), RepeatKey(None, None, "g"), RepeatKey("u", 0)}
    assert names(database.read(batch_totals.attempts_of, "b", several)) == "bcgh"
    some = database.read(batch_totals.some_of, "b", ["f", "a", "x", "other"])
    assert sorted(some) == ["a", "f"]


def test_some_are_found_by_their_ids_however_many_are_in_the_batch(database: Database) -> None:
    def plan(connection: Connection) -> str:
        asked = batch_totals._SOME.params(ids=["a", "b"], of_batch="b")
        statement = asked.compile(connection, compile_kwargs={"literal_binds": True})
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(row[-1] for row in found)

    if database.is_sqlite:  # PostgreSQL knows how few the ids are
        assert "rollouts_1 (id=?)" in database.read(plan)
        assert "(batch=?)" not in database.read(plan)


def test_a_unit_that_is_too_large_is_none(database: Database) -> None:
    database.rollouts.register(Registration(id="r", batch="b", task="t", repeat=0), now=1.0)
    assert database.read(batch_totals.attempts_of, "b", {RepeatKey("t", 0)}, most=0) is None
    assert names(database.read(batch_totals.attempts_of, "b", {RepeatKey("t", 0)}, most=1)) == "r"


def test_what_a_verdict_tells_is_read_and_what_is_none_tells_nothing(database: Database) -> None:
    database.rollouts.register(Registration(id="r1", batch="b", fallbacks="m"), now=1.0)
    database.verdicts.store(verdict(verdict='{"health": "of a later version"}', servings="[]"))
    (attempt,) = database.read(batch_totals.all_of, "b")
    assert (attempt.entry.diagnostics, attempt.retry) == ((), False)
    assert (attempt.servings, attempt.fallbacks, attempt.at) == ("[]", "m", 1.0)


def test_a_verdict_is_foreseen_as_it_is_read_once_it_is_stored(database: Database) -> None:
    placed = Registration(id="r1", batch="b", task="t", repeat=0, repeats=4, fallbacks="m")
    database.rollouts.register(placed, now=1.0)
    outcome = '{"status": "success", "rewards": {"reward": 0.25}}'
    database.rollouts.report("r1", outcome, now=2.0)
    lane = "openai/m/key-1"
    retry = Retry(eligible=True, after_s=None, reason="it says")
    told = codec.encode_verdict(
        Verdict(rollout_id="r1", batch="b", health=Health.API_ERROR, rule="all_failed",
                policy="evidence", transient=True, lane=lane, scoreable="no", retry=retry)
    )  # fmt: skip
    cases: tuple[dict[str, Any], ...] = (
        {"health": "undecided", "scoreable": "unknown", "provisional": True},
        {"health": "healthy", "scoreable": "yes", "reward": 1 / 3, "cost_usd": 0.1},
        {"health": "api_error", "scoreable": "no", "cause": "c", "lane": lane, "fingerprint": "f"},
        {"health": "healthy", "scoreable": "unknown", "servings": "[]", "cause": "none"},
        {"health": "healthy", "scoreable": "yes", "attributed_to": "agent", "total_tokens": 7},
    )  # fmt: skip
    for number, given in enumerate(cases):
        row = verdict(verdict=json.dumps(told), validity=" suspect a ", **given)
        (before,) = database.read(batch_totals.all_of, "b")
        database.verdicts.store(row)
        (after,) = database.read(batch_totals.all_of, "b")
        assert batch_totals.with_verdict(before, row, outcome) == after != before, number
