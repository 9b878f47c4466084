"""Lists of rollouts: each query against a plain reading of its meaning, and by which index."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, text

from classifier.batches import one_of, task_repeats, zero_of
from classifier.records import Exchange
from proxy.store import listing
from proxy.store.batch_counts import all_of, reported_in
from proxy.store.database import Database
from proxy.store.listing import (
    FLAGS,
    GROUPS,
    SORTS,
    Facts,
    Position,
    RolloutQuery,
    find_batches,
    find_fingerprints,
    find_rollouts,
    grouped,
    has_rollout,
)
from proxy.store.tables import Registration, exchanges, rollouts, verdicts
from tests.pairs import PAIRINGS, Pairing, all_pairs, each_once
from tests.postgres import Server
from tests.proxy.store.records import FULL, write
from tests.proxy.store.test_verdicts import verdict
from tests.statements import statements

SEEN: dict[str, Any] = {
    "kind": "inference", "method": "POST", "role": "agent", "upstream": "openai", "api": "chat",
    "usage_source": "none", "request_bytes": 1, "response_bytes": 1,
    "attribution_source": "path", "injected": False, "ending": "complete",
}  # fmt: skip
CAUSES = (
    ("auth", "auth:401", "invalid_api_key"), ("quota", "quota:429", "insufficient_quota"),
    ("rate_limit", "rate_limit:429", "rate_limit"),
)  # fmt: skip
# As a runner may report them, and as no service stores them.
OUTCOMES = (
    '{"rewards": {"reward": 0.1}}', '{"rewards": {"reward": 0}}', '{"rewards": {"score": 1e-3}}',
    '{"rewards": {"style": 0.7}}', '{"rewards": {"style": 0.7, "speed": 0.2}}',
    '{"rewards": {"style": 0.7, "success": 1, "score": 0.4}}', '{"rewards": null, "eval": null}',
    '{"rewards": {}, "eval": {"resolved": true}}', '{"eval": {"passed": false, "reward": [1]}}',
    '{"rewards": {"style": -2.5}, "eval": {"accuracy": 0.875}}',
    '{"eval": {"note": "1", "style": true}}',
    "{}",
    '{"rewards": {"style": 0.5}, "eval": {"reward": "1", "score": {"of": 2}}}',
)  # fmt: skip
KEYS = (None, "style", 'it\'s "one"')


def made(number: int, chance: random.Random) -> Facts:
    """One rollout as a list shows it, with its calls and what the list is asked by."""
    health = chance.choice(("healthy", "healthy", "api_error", "undecided", None))
    cause = chance.choice(CAUSES) if health == "api_error" else (None, None, None)
    reward = chance.choice((0.0, 0.5, 1.0)) if health == "healthy" else None
    return {
        "id": f"r{chance.randrange(10**6):06d}-{number}",
        "batch": chance.choice(("one", "two", "a%b", None)),
        "task": chance.choice(("t1", "t2", "T1%", None)),
        "repeat": chance.choice((None, 0, 1)),
        "attempt": chance.choice((None, 0, 1, 2)),
        "model": chance.choice(("gpt-5", "opus", None)),
        "upstream": chance.choice(("openai", None)),
        "created_at": 100.0 + chance.randrange(20),  # many at the same moment
        "health": health,
        "subcategory": cause[0], "fingerprint": cause[1], "cause": cause[2],
        "scoreable": health and ("yes" if health == "healthy" else "no"),
        "reward": reward,
        "cost_usd": chance.choice((None, 0.1, 0.25)) if health else None,
        "total_tokens": chance.choice((None, 10, 999)) if health else None,
        "findings": chance.choice((None, " suspect starved ", " info serving_changed "))
        if health else None,
        "reported_at": 200.0 if reward is not None or number % 3 == 0 else None,
        "score_key": (None, *KEYS)[number % 4],
        "outcome": chance.choice(OUTCOMES) if reward is not None or number % 3 == 0 else None,
        "registered": number % 2 == 0,
        "provisional": number % 5 == 0 if health else None,
        "calls": [(chance.choice(("gpt-5", "mini")), chance.choice(("openai", "local")), role)
                  for role in ("agent", "judge")[: chance.randrange(3)]],
    }  # fmt: skip


def fill(database: Database, listed: Sequence[Facts]) -> None:
    """Write rows as a service leaves them."""
    of_rollouts = ("id", "batch", "task", "repeat", "attempt", "model", "upstream", "created_at",
                   "registered", "score_key")  # fmt: skip
    judged = ("health", "subcategory", "fingerprint", "cause", "scoreable", "reward", "cost_usd",
              "total_tokens", "provisional")  # fmt: skip
    rows = [
        {**{name: row[name] for name in of_rollouts}, "outcome_at": row["reported_at"],
         "outcome": row["outcome"]}
        for row in listed
    ]  # fmt: skip
    given = [
        {**{name: row[name] for name in judged}, "rollout_id": row["id"], "batch": row["batch"],
         "began_at": row["created_at"], "validity": row["findings"],
         "given_at": 1.0, "verdict": "{}"}
        for row in listed if row["health"]
    ]  # fmt: skip
    calls = [
        {**SEEN, "rollout_id": row["id"], "id": f"x{at}", "started_at": row["created_at"],
         "model": model, "upstream": upstream, "role": role}
        for row in listed for at, (model, upstream, role) in enumerate(row["calls"])
    ]  # fmt: skip
    for table, added in ((rollouts, rows), (verdicts, given), (exchanges, calls)):
        if added:
            database.change(lambda connection, t=table, a=added: connection.execute(insert(t), a))


@pytest.fixture
def listed(database: Database) -> list[Facts]:
    chance = random.Random(20)
    rows = [made(number, chance) for number in range(120)]
    fill(database, rows)
    return rows


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def of_module(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A database that tests only read."""
    with contextlib.ExitStack() as ends:
        url = str(tmp_path_factory.mktemp("listing") / "t.db")
        if request.param == "postgresql":
            server: Server = request.getfixturevalue("postgres_server")
            url = ends.enter_context(server.database())
        opened = Database(url)
        opened.prepare()
        ends.callback(opened.close)
        yield opened


def paged(database: Database, query: RolloutQuery, limit: int) -> list[Facts]:
    """All of a list, read page by page."""
    found: list[Facts] = []
    after: Position | None = None
    while True:
        rows = database.read(listing.page, query, after=after, limit=limit)
        found += rows
        if len(rows) < limit:
            return found
        after = listing.position(query, rows[-1])


# --- what it holds -------------------------------------------------------------------------


def called(at: int, name: str) -> Callable[[Facts, Any], bool]:
    def is_so(row: Facts, value: Any) -> bool:
        return bool(row.get(name) == value) or value in [call[at] for call in row["calls"]]

    return is_so


def rewarded(row: Facts, kind: str) -> bool:
    reported = row["reported_at"] is not None
    kinds: dict[str, bool] = {
        "zero": row["reward"] == 0, "nonzero": bool(row["reward"]), "missing": not reported,
        "null": reported and row["reward"] is None,
    }  # fmt: skip
    return kinds[kind]


def reported(row: Facts, kind: str) -> bool:
    reward = reported_in(row["outcome"], row["score_key"]).score if row["outcome"] else None
    kinds: dict[str, bool] = {
        "zero": reward == 0, "nonzero": bool(reward),
        "null": row["reported_at"] is not None and reward is None,
    }  # fmt: skip
    return kinds[kind]


MEANINGS: dict[str, Callable[[Facts, Any], bool]] = {
    "model": called(0, "model"), "upstream": called(1, "upstream"), "role": called(2, "none"),
    "validity": lambda row, value: value in (row["findings"] or "").split(), "reward": rewarded,
    "reported": reported,
}  # fmt: skip
SEARCHED = ("id", "batch", "task", "model", "fingerprint", "subcategory", "cause")


def expected(rows: Sequence[Facts], query: RolloutQuery) -> list[str]:
    def wanted(row: Facts) -> bool:
        return (
            all(
                any(MEANINGS.get(name, lambda r, v, n=name: r[n] == v)(row, v) for v in values)
                for name, values in query.filters.items()
            )
            and (
                not query.text
                or any(query.text.lower() in str(row[n] or "").lower() for n in SEARCHED)
            )
            and (query.since is None or row["created_at"] >= query.since)
            and (query.until is None or row["created_at"] < query.until)
        )

    by_time = sorted(filter(wanted, rows), key=lambda row: (row["created_at"], row["id"]),
                     reverse=query.descending)  # fmt: skip
    if query.sort == "created_at":
        return [row["id"] for row in by_time]
    values = {row["id"]: value_of(row, query.sort) for row in by_time}
    known = [row for row in by_time if values[row["id"]] is not None]
    known.sort(key=lambda row: values[row["id"]], reverse=query.descending)
    return [row["id"] for row in (*known, *(r for r in by_time if values[r["id"]] is None))]


def value_of(row: Facts, sort: str) -> Any:
    if sort == "reported_reward":
        return reported_in(row["outcome"], row["score_key"]).score if row["outcome"] else None
    return row["findings" if sort == "validity" else sort]


FILTERS: Sequence[dict[str, Any]] = (
    {}, {"batch": ["one"]}, {"batch": ["one", "two"]}, {"batch": [None]}, {"batch": [None, "a%b"]},
    {"batch": ["nobody"]}, {"task": ["t1"]}, {"task": ["t1", "t2"], "batch": ["one"]},
    {"repeat": [0]}, {"repeat": [0, 1], "attempt": [2]}, {"health": ["api_error"]},
    {"health": ["api_error", "undecided"], "batch": ["one", "two"]},
    {"subcategory": ["quota"]}, {"subcategory": ["quota", "auth"], "batch": ["one"]},
    {"fingerprint": ["auth:401", "quota:429"]}, {"cause": ["rate_limit"]},
    {"health": ["healthy"], "task": ["t2"]}, {"scoreable": ["no"], "batch": ["two"]},
    {"health": ["healthy"], "repeat": [0], "model": ["gpt-5"]},
    {"validity": ["starved"]}, {"validity": ["suspect", "serving_changed"], "health": ["healthy"]},
    {"model": ["gpt-5"]}, {"model": ["mini", "opus"]}, {"upstream": ["local"]},
    {"upstream": ["openai"], "batch": ["one"]}, {"role": ["judge"]},
    {"role": ["judge"], "health": ["healthy"]}, {"reward": ["zero"]},
    {"reward": ["zero"], "batch": ["one"]}, {"reward": ["nonzero"]}, {"reward": ["null"]},
    {"reward": ["null"], "health": ["undecided"]}, {"reward": ["missing"]},
    {"reward": ["zero", "missing"], "batch": ["two"]}, {"reported": ["zero"]},
    {"reported": ["nonzero"]}, {"reported": ["null", "zero"], "health": ["healthy"]},
    {"batch": [f"b{n}" for n in range(70)] + ["one"]},
)  # fmt: skip
ORDERS = [
    (sort, descending)
    for sort in ("created_at", "task", "reward", "cost_usd", "total_tokens")
    for descending in (False, True)
]


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_list_holds_what_was_asked_for_in_its_order(
    database: Database, listed: list[Facts], pairing: Pairing
) -> None:
    pairs, some = pairing(FILTERS, ORDERS), 0
    for filters, (sort, descending) in pairs:
        query = RolloutQuery(filters=filters, sort=sort, descending=descending)
        found = [row["id"] for row in paged(database, query, 200)]
        assert found == expected(listed, query), query
        some += bool(found)
    assert some == len(pairs) * (len(FILTERS) - 1) / len(FILTERS), "nobody's batch alone is empty"


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_every_column_is_an_order_and_its_pages_join(
    database: Database, listed: list[Facts], pairing: Pairing
) -> None:
    filters: tuple[dict[str, Any], ...] = (
        {}, {"batch": ["one", None]}, {"health": ["api_error", "healthy"]},
    )  # fmt: skip
    for (asked, descending), sort in pairing(all_pairs(filters, (False, True)), [*SORTS]):
        query = RolloutQuery(filters=asked, sort=sort, descending=descending)
        found = [row["id"] for row in paged(database, query, 59)]
        assert found == expected(listed, query), query


def test_a_database_reads_the_reported_reward_as_python_does(
    database: Database, listed: list[Facts]
) -> None:
    rows = paged(database, RolloutQuery(sort="reported_reward"), 200)
    read = {(row["outcome"], row["score_key"]): row["place_by_report"] for row in rows}
    assert {outcome for outcome, _ in read} == {None, *OUTCOMES}
    assert {key for _, key in read} == {*KEYS}
    for (outcome, key), value in read.items():
        meant = outcome and reported_in(outcome, key).score
        assert value is meant is None or value == pytest.approx(meant, rel=1e-12), (outcome, key)


@pytest.mark.parametrize(
    ("pairing", "limit"), [(each_once, 7), pytest.param(all_pairs, 1, marks=pytest.mark.slow)]
)
def test_its_pages_join_without_a_gap_or_a_repetition(
    database: Database, listed: list[Facts], pairing: Pairing, limit: int
) -> None:
    filters = {"batch": ["one"]}, {"health": ["healthy", "undecided"], "batch": ["one", "two"]}
    sorts = [*dict(ORDERS)]
    for (asked, descending), sort in pairing(all_pairs(filters, (False, True)), sorts):
        query = RolloutQuery(filters=asked, sort=sort, descending=descending)
        found = [row["id"] for row in paged(database, query, limit)]
        assert found == expected(listed, query), query


def flagged(database: Database, listed: list[Facts]) -> dict[str, set[str]]:
    """The rollouts of which each flag is true, by the repeats of their batches."""
    found: dict[str, set[str]] = {name: set() for name in FLAGS}
    for batch in {row["batch"] for row in listed} - {None}:
        entries = [each.entry for each in database.read(all_of, batch)]
        for slot in task_repeats(entry for entry in entries if entry.health is not None):
            others = [each for each in slot.attempts if each is not slot.counted]
            found["superseded"].update(each.rollout_id for each in others)
            for name, read in (("false_zero", zero_of(slot)), ("false_one", one_of(slot))):
                if read is not None and read.scoreable != "yes":
                    found[name].add(read.rollout_id)
            found["measured"].update(
                each.rollout_id for each in slot.attempts if each.score is not None
            )
    for row in listed:
        if row["batch"] is None and row["scoreable"] == "yes" and row["reward"] is not None:
            found["measured"].add(row["id"])
        alone = row["batch"] is None and row["scoreable"] == "no" and not row["provisional"]
        if alone and row["outcome"]:
            given = reported_in(row["outcome"], row["score_key"])
            values = [value for _, value in given.unnamed] if given.score is None else [given.score]
            if 0 in values:
                found["false_zero"].add(row["id"])
            elif any(value > 0 for value in values):
                found["false_one"].add(row["id"])
        if row["provisional"] or row["health"] is None:
            found["running"].add(row["id"])
    return found


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_flag_is_true_or_false_of_each_rollout(database: Database, pairing: Pairing) -> None:
    chance = random.Random(5)
    listed = [made(number, chance) for number in range(200)]
    fill(database, listed)
    true = flagged(database, listed)
    assert all(true[name] for name in FLAGS if name not in ("unearned", "skipped"))
    sorts = "created_at", "reward"
    places: tuple[dict[str, Any], ...] = (
        {}, {"batch": ["one"]}, {"batch": [None, "two"]}, {"health": ["healthy"]},
    )  # fmt: skip
    for name in FLAGS:
        for (flag, filters), sort in pairing(all_pairs((True, False), places), sorts):
            query = RolloutQuery(filters=filters, flags={name: flag}, sort=sort)
            alike = expected(listed, RolloutQuery(filters=filters, sort=sort))
            wanted = [each for each in alike if (each in true[name]) is flag]
            assert [row["id"] for row in paged(database, query, 75)] == wanted, query


def test_a_text_is_taken_literally_and_in_any_case(database: Database, listed: list[Facts]) -> None:
    for said in ("QUOTA", "%", "t1%", "opus", "insufficient", "a%b", "r0", "_"):
        for filters in ({}, {"health": ["api_error"]}):
            query = RolloutQuery(filters=filters, text=said)
            assert [r["id"] for r in paged(database, query, 50)] == expected(listed, query), said
    failed = paged(database, RolloutQuery(text="quota"), 200)
    assert {row["subcategory"] for row in failed} == {"quota"}


def test_a_text_is_looked_for_in_the_verdicts_that_have_a_cause_and_once(
    many: Database, told: list[tuple[str, Any]]
) -> None:
    for filters in ({}, {"batch": ["one"]}):
        query = RolloutQuery(filters=filters, text="nowhere")
        plan, *_ = plans(many, query, told, None)
        assert "verdicts_" in plan and "fingerprint" in plan, plan
        assert ("CORRELATED" if many.is_sqlite else "(SubPlan") not in plan, plan


def test_a_time_is_from_then_on_and_before(database: Database, listed: list[Facts]) -> None:
    for filters in ({}, {"health": ["healthy"]}, {"batch": ["one"]}):
        for sort in ("created_at", "reward"):
            query = RolloutQuery(filters=filters, since=105.0, until=109.0, sort=sort)
            assert [row["id"] for row in paged(database, query, 3)] == expected(listed, query)


def test_a_time_of_failures_is_of_one_failed_call(database: Database) -> None:
    def call(rollout: str, at: float, **facts: Any) -> Exchange:
        timing = replace(FULL.timing, started_at=at)
        return replace(FULL, id=f"{rollout}{at}", rollout_id=rollout, timing=timing, **facts)

    calls = [
        call("early", 10.0), call("both", 10.0), call("both", 30.0), call("late", 30.0),
        call("fine", 20.0, cause=None),
    ]  # fmt: skip
    write(database, *calls)

    def listed(since: float | None = None, until: float | None = None) -> set[str]:
        query = RolloutQuery(failed_since=since, failed_until=until)
        return {row["id"] for row in paged(database, query, 9)}

    assert listed() == {"early", "both", "late", "fine"}
    assert listed(since=30.0) == {"both", "late"}
    assert listed(until=30.0) == {"early", "both"}
    assert listed(10.0, 30.0) == {"early", "both"}
    assert listed(11.0, 30.0) == set(), "one call failed before and another one after"


def test_a_row_is_the_rollout_with_its_verdict(database: Database, listed: list[Facts]) -> None:
    for row in paged(database, RolloutQuery(), 200):
        (made,) = (each for each in listed if each["id"] == row["id"])
        shown = {name: value for name, value in made.items() if name != "calls"}
        assert {name: row[name] for name in shown} == shown


def test_only_what_depends_on_verdicts_says_so() -> None:
    plain: tuple[dict[str, Any], ...] = ({}, {"batch": ["b"]}, {"task": ["t"]}, {"model": ["m"]})
    assert not any(RolloutQuery(filters=filters, sort="task").by_verdict for filters in plain)
    judged = ("health", "subcategory", "fingerprint", "cause", "validity", "scoreable", "reward")
    assert all(RolloutQuery(filters={name: ["x"]}).by_verdict for name in judged)
    assert [name for name in FLAGS if not RolloutQuery(flags={name: True}).by_verdict] == [
        "skipped"
    ]
    assert RolloutQuery(text="x").by_verdict
    assert RolloutQuery(sort="cost_usd").by_verdict


# --- by which index ------------------------------------------------------------------------

MANY = 10_000  # of which a twentieth are of one batch, and of one task


@pytest.fixture(scope="module")
def many(of_module: Database) -> Database:
    """So many that a database which estimates costs follows an index where it can."""
    chance = random.Random(7)
    step = 7 if of_module.is_sqlite else 1  # SQLite estimates no costs unless told to ANALYZE
    numbers = range(0, MANY, step)
    fill(of_module, [_spread(made(n, chance), n, chance.randrange(20)) for n in numbers])
    if not of_module.is_sqlite:
        of_module.change(lambda connection: connection.execute(text("ANALYZE rollouts, verdicts")))
    return of_module


def _spread(row: Facts, number: int, part: int) -> Facts:
    batch = "one" if part == 0 else f"b{number % 99}"
    task = "t1" if number % 20 == 5 else f"x{number % 99}"
    share = number * 7919 % 1000 / 1000
    judged = {
        "reward": share * (number % 8 > 0),
        "cost_usd": share,
        "total_tokens": int(share * 1000),
    }
    given = {"batch": batch, "task": task, "created_at": float(number), "calls": []}
    return {**row, **given, **(judged if row["health"] else {})}


@pytest.fixture
def told(many: Database) -> Iterator[list[tuple[str, Any]]]:
    with statements(many) as heard:
        yield heard


def plans(
    database: Database, query: RolloutQuery, told: list[tuple[str, Any]], place: Position | None
) -> list[str]:
    """The plan of each statement of a page, as text."""
    del told[:]
    database.read(listing.page, query, after=place, limit=20)
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    asked = [each for each in told if each[0].startswith("SELECT")]
    read = []
    with database.connections.reading() as connection:
        if not database.is_sqlite:  # as on a disk that does not turn
            connection.exec_driver_sql("SET LOCAL random_page_cost = 1.1")
        for said, given in asked:
            read.append(connection.exec_driver_sql(f"{explain} {said}", given).all())
    return ["\n".join(str(row[-1]) for row in plan) for plan in read]


PLANS: Sequence[tuple[dict[str, Any], str, str]] = (
    ({}, "created_at", "rollouts_created"),
    ({"batch": ["one"]}, "created_at", "rollouts_batch"),
    ({"task": ["t1"]}, "created_at", "rollouts_task"),
    ({"batch": ["one"], "task": ["t1"]}, "created_at", "rollouts_group"),
    ({"health": ["undecided"]}, "created_at", "verdicts_health"),
    ({"batch": ["one"], "health": ["undecided"]}, "created_at", "verdicts_batch_health"),
    ({"subcategory": ["quota"]}, "created_at", "verdicts_subcategory"),
    ({"batch": ["one"], "subcategory": ["quota"]}, "created_at", "verdicts_batch_subcategory"),
    ({"fingerprint": ["auth:401"]}, "created_at", "verdicts_fingerprint"),
    ({"batch": ["one"], "fingerprint": ["auth:401"]}, "created_at", "verdicts_batch_fingerprint"),
    ({"reward": ["zero"]}, "created_at", "verdicts_reward"),
    ({"batch": ["one"], "reward": ["zero"]}, "created_at", "verdicts_batch_reward"),
    ({"batch": ["one"]}, "task", "rollouts_group"),
    ({}, "task", "rollouts_task"),
    *(
        (filters, sort, f"verdicts_{within}{sort}")
        for sort in (
            "reward", "cost_usd", "total_tokens", "health", "subcategory", "fingerprint",
        )
        for within, filters in (("", {}), ("batch_", {"batch": ["one"]}))
    ),
    ({}, "batch", "rollouts_batch"),
    ({"batch": ["one"]}, "batch", "rollouts_batch"),
)  # fmt: skip
VALUES: dict[str, Any] = {
    "task": "x50", "reward": 0.5, "cost_usd": 0.5, "total_tokens": 500, "health": "healthy",
    "subcategory": "quota", "fingerprint": "quota:429", "batch": "one", "id": "r5", "repeat": 1,
    "attempt": 1, "model": "gpt-5", "upstream": "openai", "registered": True, "cause": "quota",
    "provisional": True, "scoreable": "no", "reported_at": 200.0, "validity": " info ",
    "reported_reward": 0.5,
}  # fmt: skip


def test_a_page_is_read_in_the_order_of_an_index(
    many: Database, told: list[tuple[str, Any]]
) -> None:
    """Neither its first page nor a later one walks through all rows, or sorts them."""
    for filters, sort, index in PLANS:
        for descending in (False, True):
            for place in (None, Position(MANY / 2, "r", VALUES.get(sort))):
                query = RolloutQuery(filters=filters, sort=sort, descending=descending)
                keys, *_, rows = plans(many, query, told, place)
                assert f" {index} " in f"{keys} ", (query, keys)
                for plan in (keys, rows):
                    assert not walked(plan, ordered=not filters and place is None), (query, plan)
    filters = {"batch": ["one", "b1"], "health": ["undecided", "api_error"]}
    keys, _ = plans(many, RolloutQuery(filters=filters), told, None)
    assert keys.count("verdicts_batch_health") == 4, "one walk for each, joined"
    assert many.is_sqlite or keys.count("Limit") == 5, "and a page of each, not all that match"


def test_an_order_without_an_index_reads_the_list_once_for_a_page(
    many: Database, told: list[tuple[str, Any]]
) -> None:
    """Twice if the page ends beyond the rollouts whose value is known, and then its rows."""
    indexed = {sort for _, sort, _ in PLANS}
    for sort in SORTS.keys() - indexed:
        for place in (None, Position(MANY / 2, "r", VALUES[sort])):
            query = RolloutQuery(filters={"batch": ["one"]}, sort=sort)
            read = plans(many, query, told, place)
            assert len(read) in (2, 3), (sort, read)
            if sort == "cause" and many.is_sqlite:
                assert "verdicts_batch_fingerprint" in read[0], "the few that have one"
            for plan in read[:-1]:
                looked = "SCAN" if many.is_sqlite else "Seq Scan"
                own = plan.replace("SCAN json_each", "")  # of one outcome
                assert looked not in own, (sort, "the batch's rollouts, and no others", plan)
            keys = [said for said, _ in told if said.startswith("SELECT")][:-1]
            assert all("LIMIT" in said for said in keys), keys


def walked(plan: str, *, ordered: bool) -> bool:
    """Whether a plan reads a whole table, or sorts; in order of an index a page ends early."""
    whole = "SCAN rollouts\n", "SCAN verdicts\n", "Seq Scan on rollouts", "Seq Scan on verdicts"
    sorts = "TEMP B-TREE", "Sort "
    begins = ("SCAN ",) if not ordered else ()
    return any(each in f"{plan}\n" for each in (*whole, *sorts, *begins))


# --- Names are found by a part of them, taken literally -------------------------------------------


def test_names_are_found_in_any_case_and_literally(database: Database) -> None:
    for n, batch in enumerate(("nightly-1", "Nightly-2", "100%")):
        database.rollouts.register(
            Registration(id=f"r{n}", batch=batch, task=f"Sort {n}_"), now=float(n)
        )
        cause = {"fingerprint": "quota:429"} if n else {"fingerprint": "auth:401"}
        database.verdicts.store(verdict(f"r{n}", batch=batch, **cause))
    assert database.read(find_batches, "NIGHT", limit=9) == ["Nightly-2", "nightly-1"]
    assert database.read(find_batches, "night", limit=1) == ["Nightly-2"]
    assert database.read(find_batches, "%", limit=9) == ["100%"]
    assert database.read(find_fingerprints, "QUO", limit=9) == ["quota:429"]
    assert database.read(find_fingerprints, "4", limit=9) == ["auth:401", "quota:429"]
    assert [database.read(has_rollout, name) for name in ("r1", "R1", "r")] == [True, False, False]
    assert database.read(find_rollouts, "R", limit=2) == ["r2", "r1"]
    assert database.read(find_rollouts, "sort 1_", limit=9) == ["r1"]
    assert database.read(find_rollouts, "sort 11", limit=9) == []


# --- Rollouts of a list are counted by what they have in common -----------------------------------


@pytest.fixture
def filled(database: Database) -> Database:
    for n, (batch, model) in enumerate((("x", "m"), ("x", "m"), ("x", None), ("y", "m"))):
        name = f"r{n}"
        database.rollouts.register(Registration(id=name, batch=batch, model=model), now=float(n))
        scored = {"scoreable": "yes", "health": "healthy", "reward": float(n), "cost_usd": 0.5}
        given = verdict(name, batch=batch, total_tokens=10, **(scored if n else {}))
        database.verdicts.store(given)
    return database


def test_groups_are_counted_with_what_they_stand_on(filled: Database) -> None:
    assert filled.read(grouped, RolloutQuery(), "batch", limit=9) == [
        {"value": "x", "rollouts": 3, "scoreable": 2, "reward": 1.5, "total_tokens": 30,
         "cost_usd": 1.0, "priced": 2},
        {"value": "y", "rollouts": 1, "scoreable": 1, "reward": 3.0, "total_tokens": 10,
         "cost_usd": 0.5, "priced": 1},
    ]  # fmt: skip
    (largest,) = filled.read(grouped, RolloutQuery(), "model", limit=1)
    assert (largest["value"], largest["rollouts"]) == ("m", 3)


def test_only_what_the_list_asks_for_is_counted(filled: Database) -> None:
    for query, counted in (
        (RolloutQuery(filters={"batch": ["x"], "health": ["healthy"]}), {"m": 1, None: 1}),
        (RolloutQuery(text="R3", sort="reward"), {"m": 1}),
        (RolloutQuery(since=2.0), {"m": 1, None: 1}),
        (RolloutQuery(filters={"batch": ["none"]}), {}),
    ):
        rows = filled.read(grouped, query, "model", limit=9)
        assert {row["value"]: row["rollouts"] for row in rows} == counted, query


def test_everything_can_be_grouped_by(filled: Database) -> None:
    for by in GROUPS:
        rows = filled.read(grouped, RolloutQuery(), by, limit=9)
        assert sum(row["rollouts"] for row in rows) == 4, by
