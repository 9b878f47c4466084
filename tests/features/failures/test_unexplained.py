"""Failures that nothing explains are counted by upstream, status and code, on both databases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, text
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect

from classifier.cause_table import known_rows
from classifier.records import UNATTRIBUTED, AnswerState, Cause, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.features.failures.store import unexplained, unexplained_query
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.store.records import BARE


def call(name: str, at: float, rule: str | None = "status.400", **facts: Any) -> Exchange:
    cause = {name: facts.pop(name) for name in ("reason", "code") if name in facts}
    failed = None
    if rule is not None:
        failed = Cause(
            subcategory=Subcategory.REJECTED_REQUEST, transient=False, rule=rule, **cause
        )
    timing = replace(BARE.timing, started_at=at)
    known: dict[str, Any] = {
        "id": name, "rollout_id": "r", "timing": timing, "cause": failed, "upstream": "my-llm",
        "status": 400, "kind": Kind.INFERENCE, "injected": False,
    }  # fmt: skip
    return replace(BARE, **(known | facts))


def stored(database: Database, *calls: Exchange) -> list[dict[str, Any]]:
    database.calls.write(CommitBatch(recorded=calls), worker="w")
    return database.read(unexplained, since=0.0, until=1_000.0, limit=10)[0]


def test_calls_are_counted_by_what_is_known_of_their_error(database: Database) -> None:
    rows = stored(
        database,
        call("x1", 10.0, code="E1"),
        call("x2", 20.0, code="E1", rollout_id="s"),
        call("x3", 30.0),
        call("x4", 40.0, code="E1", upstream="other"),
        call("x5", 50.0, "status.5xx", status=500),
    )
    assert rows[0] == {
        "upstream": "my-llm", "status": 400, "error_code": "E1", "rule": "status.400",
        "subcategory": "rejected_request", "calls": 2, "first_seen": 10.0, "last_seen": 20.0,
        "exchange_id": "x2", "rollout_id": "s",
    }  # fmt: skip
    assert [(row["upstream"], row["status"], row["error_code"]) for row in rows[1:]] == [
        ("my-llm", 500, None), ("other", 400, "E1"), ("my-llm", 400, None),
    ]  # fmt: skip


def test_what_is_explained_is_not_listed(database: Database) -> None:
    assert not stored(
        database,
        call("x1", 10.0, "openai.insufficient_quota"),
        call("x2", 10.0, "operator:broke"),
        call("x3", 10.0, reason="malformed"),
        call("x4", 10.0, injected=True),
        call("x5", 10.0, None, status=200),
        call("x6", 10.0, "flaw.empty_body", status=200),
        call("x7", 1_000.0),
        call("x8", 10.0, "status.404", status=404, kind=Kind.PROBE, method="HEAD"),
    )


def test_a_models_answer_that_was_not_read_is_listed(database: Database) -> None:
    unread = {"answer_state": AnswerState.UNREAD, "status": 200}
    rows = stored(
        database,
        call("x1", 10.0, None, **unread),
        call("x2", 10.0, None, kind=Kind.PROBE, **unread),
        call("x3", 10.0, None, kind=Kind.EMBEDDING, **unread),
        call("x4", 10.0, None, answer_state=AnswerState.READ, status=200),
        call("x5", 10.0, None, answer_state=AnswerState.UNSEEN, status=200),
    )
    assert [(row["rule"], row["calls"], row["exchange_id"]) for row in rows] == [(None, 1, "x1")]


def test_a_call_that_names_no_rollout_is_no_example(database: Database) -> None:
    (row,) = stored(database, call("x9", 10.0, rollout_id=UNATTRIBUTED))
    assert (row["calls"], row["exchange_id"], row["rollout_id"]) == (1, None, None)
    (row,) = stored(database, call("x1", 20.0, rollout_id="a/b"))
    assert (row["calls"], row["exchange_id"], row["rollout_id"]) == (2, "x1", "a/b")


def test_groups_are_counted_where_they_are_not_listed(database: Database) -> None:
    calls = [call(f"x{n}", 10.0, code=f"E{n}") for n in range(12)]
    database.calls.write(CommitBatch(recorded=calls), worker="w")
    rows, found = database.read(unexplained, since=0.0, until=1_000.0, limit=5)
    assert (len(rows), found) == (5, 12)
    assert database.read(unexplained, since=50.0, until=1_000.0, limit=5) == ([], 0)


def test_only_failed_calls_are_read(tmp_path: Path) -> None:
    """PostgreSQL chooses by statistics, which the few rows of a test do not have."""
    query = unexplained_query(since=0.0, until=9.0, limit=9).compile(
        dialect=sqlite_dialect(), compile_kwargs={"literal_binds": True}
    )
    with closing(Database(str(tmp_path / "t.db"))) as database:
        database.prepare()
        plan = database.read(_rows, f"EXPLAIN QUERY PLAN {query}")
    assert any("USING INDEX exchanges_failed" in row[-1] for row in plan), plan


def _rows(connection: Connection, query: str) -> Sequence[Row[Any]]:
    return connection.execute(text(query)).all()


def test_every_rule_without_an_explanation_is_a_row_of_the_table() -> None:
    unexplained = known_rows().unexplained
    assert {row.id for row in known_rows().table} >= unexplained
    assert "status.400" in unexplained
    assert "cohere.498" not in unexplained
