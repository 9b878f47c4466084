"""A database with rows of every shape, each column null somewhere and set somewhere."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, create_engine, select
from sqlalchemy.engine import make_url

from classifier.breakers import BreakerState, Phase
from classifier.lane import State, TurnTaken
from classifier.records import Ending, Exchange, Timing
from proxy.features.breakers.final import breaker_opened
from proxy.features.breakers.store import store_states
from proxy.features.budgets.amounts import Amounts, BudgetLimits, Reservation
from proxy.features.budgets.registration import AskedLimits
from proxy.features.budgets.store import Budgets
from proxy.features.pace.shares import PaceDemand, PaceShares
from proxy.store.database import Database
from proxy.store.events import NewEvent
from proxy.store.references import AskedWay, ReferenceLane
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import (
    DERIVED,
    CommitBatch,
    Gap,
    PolicyTerms,
    Registration,
    as_json,
    metadata,
)
from proxy.store.verdicts import final_parts
from tests.builders import limit_reached
from tests.proxy.store.records import BARE, FULL

# In the order of their code points, which is neither that of UTF-16 nor of any language.
NAMES = ("!", "A/b", "a", "a ", "a'\"\\", "é", "～", "😀")


SERIES = {"id": "s0", "upstream": "openai", "model": "gpt-5", "api": "openai.chat",
          "started_at": 1.0}  # fmt: skip


def fill(url: str, *, calls: int = 3) -> Database:
    """Write rollouts in every state with calls, breakers, events, secrets, a call in flight."""
    database = Database(url)
    database.prepare()
    for secret in ("salt", "keyring"):
        database.deployment.secret(secret)
    for number, name in enumerate(NAMES):
        _rollout(database, name, number, calls)
    database.heartbeat("w", host="here", now=5000.25)
    for batch in ("b1", "b2"):
        database.runs.begin(batch, "first", now=1.0)
    database.runs.end("b2", "first", now=6000.5)
    database.calls.write(
        CommitBatch(
            opened=[replace(BARE, id="flying", rollout_id="a", model="m")],
            gaps={"a": Gap(2, 50.0)},
        ),
        worker="w",
    )
    database.rollouts.revoke("é", now=77.7)
    lane = ReferenceLane("openai", "gpt-5")
    for series_id, at in (("s1", 10.5), ("s2", 20.5), ("s3", 30.5)):
        database.references.begin(series_id, lane, api="openai.chat", worker="w", at=at)
        database.references.share(series_id, [("a", f"x-{series_id}")])
    demand = PaceDemand(2.5, 3, 1.25, 40.5, 2.0, 1.5, 3.5, 39.5, 4.0, 38.5)
    PaceShares(database.connections).renew(
        "w", {("openai", "gpt-5", "key-00000000"): demand}, now=1.0
    )
    database.lane_probes.take("openai", "gpt-5", lambda _at: TurnTaken(State.PROBING), now=40.5)
    database.references.note_ways(
        [AskedWay("x1", "a", "openai", "gpt-5", 10.5, '{"api":"openai.chat"}')]
    )
    question = {"exchange_id": "q", "started_at": 10.5, "ended_at": 11.25, "answered": True}
    database.references.end("s1", at=11.25, calls=as_json([question]))
    database.references.end("s2", at=20.5, not_run="no_key")
    for at, name in enumerate(("flying", "waiting")):
        amounts = Amounts(1, 7 + at * 1_000_000_000, 0.5, 1.25)
        reservation = Reservation(
            id=name, rollout_id="é", is_agents=True, amounts=amounts, since=5000.0 + at
        )
        Budgets(database.connections).reserve(reservation, worker="w", now=5000.25)
    Budgets(database.connections).refused("é", limit_reached())
    return database


FACTS = {"reward_range": "[-1.0,1.0]", "score_key": "style"}


def _rollout(database: Database, name: str, number: int, calls: int) -> None:
    made = [_call(name, number, at) for at in range(calls)]
    database.calls.write(CommitBatch(recorded=made), worker="w")
    if number % 2:
        prepared = PreparedRegistration(
            registration=_registration(name, number),
            policy=PolicyTerms(stated=FACTS if number == 5 else {}),
            asked={
                "budgets": AskedLimits(
                    BudgetLimits(tokens=100, cost_usd=1 / 3) if name == "é" else None,
                    BudgetLimits(calls=9, seconds=2.5) if number % 3 == 2 else None,
                )
            },
        )
        database.rollouts.register_all([prepared], now=number / 3)
    if number % 3 == 0:
        database.rollouts.report(
            name, as_json({"status": "success", "rewards": {"reward": 0.1}}), now=9.9
        )
    if number % 4 < 3:
        verdict = _verdict(name, number, calls) | {"began_at": _began_at(database, name)}
        database.verdicts.store(verdict, [*final_parts(None), *([_Opens()] if number % 4 else [])])


def _began_at(database: Database, name: str) -> float:
    row = database.rollouts.row(name)
    assert row is not None
    return float(row["created_at"])


def _call(rollout: str, number: int, at: int) -> Exchange:
    like = FULL if at % 2 else replace(BARE, ending=Ending.LEFT_BY_AGENT)
    timing = Timing(started_at=1.7e9 + number / 7 + at, duration_s=0.1 + 0.2)
    big = replace(like.usage, input_tokens=10**9, cost_usd=5e-324 if at else 1 / 3)
    return replace(
        like, id=f"{hashlib.sha256(f'{rollout} {at}'.encode()).hexdigest()[:24]}",
        rollout_id=rollout, timing=timing if at else like.timing, usage=big if at else like.usage,
    )  # fmt: skip


def _registration(name: str, number: int) -> Registration:
    return Registration(
        id=name, batch=f"b{number % 3}", task="t", repeat=number % 5, attempt=number, model="gpt-5",
        upstream="openai", metadata='{"z": 1, "a":"\\u00e9"}', fault='{"kind":"auth"}',
        fallbacks="gpt-5-mini\no5", client_cache=True if number == 3 else None,
    )  # fmt: skip


def _verdict(name: str, number: int, calls: int) -> dict[str, Any]:
    failed = number % 4
    row: dict[str, Any] = dict.fromkeys(column.name for column in _table("verdicts").columns)
    return row | {
        "rollout_id": name, "batch": f"b{number % 3}",
        "health": "api_error" if failed else "healthy",
        "subcategory": "auth" if failed else None, "fingerprint": "auth:401" if failed else None,
        "provisional": number in (2, 5, 6), "scoreable": "no", "reward": -0.5, "input_tokens": 0,
        "unearned": number == 1 or None, "cost_usd": 0.1 + 0.7, "given_at": 1.7e9 + 0.123456,
        "calls": calls,
        "verdict": as_json({"rollout_id": name}), "result": as_json({}) if failed else None,
        "stands_on": as_json({
            "unattributed_calls": number, **({"references": {"x": SERIES}} if failed else {}),
            **({"passes_tokens": 812.5} if number == 4 else {}),
        }) if number else None,
        "servings": f'[["openai","gpt-5","gpt-5-x",null,"fp_{number % 2}"]]',
    }  # fmt: skip


class _Opens:
    """A breaker that opens on a verdict."""

    reads = False

    def read(self, connection: Connection, row: Mapping[str, Any]) -> None:
        """Read nothing."""

    def write(self, connection: Connection, row: Mapping[str, Any]) -> list[NewEvent]:
        """Store it, and tell of it."""
        store_states(connection, [_opened()])
        return [breaker_opened(_opened())] if row["given_at"] == _opened().opened_at else []


def _opened() -> BreakerState:
    return BreakerState(
        batch="b1", lane="openai/gpt-5/key-0", phase=Phase.OPEN, fingerprint="auth:401",
        streak=2, threshold=2, opened_at=1.7e9 + 0.123456, tripped_by=("a", "é"),
    )  # fmt: skip


def _table(name: str) -> Table:
    return metadata.tables[name]


def contents(url: str, *, derived: bool = False) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, sorted.

    Arguments:
        derived: of those that follow from others; of these without.
    """
    whole = url if "://" in url else f"sqlite:///{url}"
    engine = create_engine(make_url(whole))
    with engine.connect() as connection:
        found = {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
            if (table in DERIVED) is derived
        }
    engine.dispose()
    return found


def run(file: Path, statement: str, *values: object) -> None:
    """Run one statement on an SQLite file, past the store."""
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute(statement, values)
