"""What the control plane asks of the database: never on agents' event loop, and by index."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import orjson
import pytest
from sqlalchemy import Connection, Engine, event, func, select

from classifier import rules
from classifier.records import Ending
from proxy.api import problems as answers_module
from proxy.control import judge
from proxy.store import listing, statistics
from proxy.store.database import Database
from proxy.store.listing import SORTS, Position, RolloutQuery
from proxy.store.tables import CommitBatch, exchanges
from proxy.web import render
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import PATIENCE_S, Service, serving
from tests.proxy.conftest import Services
from tests.proxy.store.records import FULL

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
CALLS = 3

# Lists that many callers ask for again and again, or that grow with the database.
LISTS = (
    "/rollouts",
    "/rollouts?batch=b",
    "/rollouts?task=t",
    "/rollouts?batch=b&health=healthy",
    "/rollouts?batch=b&sort=reward&order=desc",
    "/rollouts/r1/exchanges",
    "/batches/b",
    "/batches/b/check",
    "/batches/b/breaker",
)
ONE = ("/rollouts/r1/verdict", "/rollouts/r1/verdict?policy=seed", "/rollouts/r1/result")
ACROSS = ("/rollouts?health=healthy", "/rollouts/export", "/metrics", "/readyz")
PAGES = (
    "/",
    "/ui/batches/b",
    "/ui/rollouts",
    "/ui/rollouts?text=r",
    "/ui/batches/b?tab=rollouts&sort=fingerprint",
    "/ui/rollouts/r1",
    "/ui/upstreams",
)
ALL = (*LISTS, *ONE, *ACROSS, *PAGES)


# Of a service's own, once after its start: they may come late.
_FIRST_LOOKS = ("FROM workers) AS", "FROM server \nWHERE (server.name LIKE")


def on_a_loop() -> bool:
    """Whether this is a thread in which an event loop runs."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@dataclass
class Asked:
    """Statements as they reached databases: text, values, and whether on an event loop.

    Those of the module's services: another test's may not have ended yet.
    """

    services: Services
    statements: list[tuple[str, Any, bool]] = field(default_factory=list)

    def hears(self, *heard: Any) -> None:
        connection, _, statement, values, _, many = heard
        files = [each.database for each in self.services.running.values()]
        if files and connection.engine.url.database not in files:
            return
        if not many and not any(look in statement for look in _FIRST_LOOKS):
            self.statements.append((statement, values, on_a_loop()))


class Said(NamedTuple):
    """A statement, the steps of its plan that are walks, and whether on an event loop."""

    text: str
    walked: list[str]
    on_loop: bool


@pytest.fixture(scope="module", autouse=True)
def nothing_is_asked_unasked() -> Iterator[None]:
    """A service does nothing by itself while its statements are listened to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy.server.background._HEARTBEAT_S", 3600.0)
        patch.setattr("proxy.server.background._AMONG_OTHERS_S", 3600.0)
        patch.setattr("proxy.server.background._ALONE_S", 3600.0)
        yield


@pytest.fixture
def service(services: Services) -> Service:
    """One to which each question is put for the first time."""
    return fill(services())


@pytest.fixture(scope="module")
def filled_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that may have been asked before."""
    with serving(tmp_path_factory.mktemp("filled")) as asked:
        yield fill(asked)


def fill(asked: Service) -> Service:
    asked.http.post("/rollouts", json={"id": "r1", "batch": "b", "task": "t", "attempt": 0})
    for number in range(CALLS):
        asked.call("r1")
        asked.call(f"alone-{number}")
    asked.provider.plays(DEAD)
    asked.call("r2")
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    asked.http.post("/rollouts/r1/outcome", json=seen)
    return asked


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def asked(services: Services) -> Iterator[Asked]:
    """What the module's services ask, and no others."""
    listener = Asked(services)
    event.listen(Engine, "before_cursor_execute", listener.hears)
    yield listener
    event.remove(Engine, "before_cursor_execute", listener.hears)


@pytest.fixture
def said(request: pytest.FixtureRequest, heard_of: dict[str, list[Said]], path: str) -> list[Said]:
    """The statements of a path's first answer: it is asked once for all tests."""
    if path not in heard_of:
        service, asked = (request.getfixturevalue(name) for name in ("service", "asked"))
        assert service.http.get(path).status_code == 200
        heard_of[path] = [
            Said(said, scans(service.database, said, values), on_loop)
            for said, values, on_loop in list(asked.statements)
        ]
        assert heard_of[path]
    return heard_of[path]


@pytest.fixture(scope="module")
def heard_of() -> dict[str, list[Said]]:
    """By path."""
    return {}


def scans(file: str, statement: str, values: Any) -> list[str]:
    """The steps of a statement's plan that walk through a whole table or index."""
    with closing(sqlite3.connect(file)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    return [step for *_, step in plan if step.startswith("SCAN ") and "CONSTANT" not in step]


# --- in threads of their own -----------------------------------------------------------------


@pytest.mark.parametrize("path", ALL)
def test_no_question_is_put_on_the_event_loop(said: list[Said], path: str) -> None:
    assert [one.text for one in said if one.on_loop] == []


def test_nor_is_any_change_made_on_it(service: Service, asked: Asked) -> None:
    facts = {"id": "new", "batch": "b", "task": "t2", "attempt": 0}
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    service.http.post("/rollouts", json=facts)
    service.call("new")
    service.http.post("/rollouts/new/outcome", json=seen)
    service.http.post("/batches/b/breaker/reset")
    assert any(said.startswith("INSERT INTO verdicts") for said, _, _ in asked.statements)
    assert [said for said, _, on_loop in asked.statements if on_loop] == []


@pytest.mark.parametrize(
    "path", ["/rollouts", "/rollouts/r1/exchanges", "/batches/b", "/batches/b/check"]
)
def test_a_list_is_written_in_a_thread(
    filled_service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    wrote: list[bool] = []
    monkeypatch.setattr(answers_module, "orjson", SimpleNamespace(dumps=told(orjson.dumps, wrote)))
    assert filled_service.get(path)
    assert wrote == [False]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_filled_in_a_thread(
    filled_service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    filled: list[bool] = []
    monkeypatch.setattr(render, "page", told(render.page, filled))
    assert filled_service.http.get(path).status_code == 200
    assert filled == [False]


def test_a_verdict_is_given_and_written_down_in_a_thread(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[bool] = []
    for module, step in ((rules, "judge"), (judge, "reward_of")):
        monkeypatch.setattr(module, step, told(getattr(module, step), judged))
    service.get("/rollouts/r2/verdict")
    assert judged == [False, False]
    service.get("/rollouts/r1/verdict")
    assert judged == [False, False], "a final verdict stands"


def told(work: Callable[..., Any], where: list[bool]) -> Callable[..., Any]:
    """The same work, which notes whether it was done on an event loop."""

    def noting(*args: Any, **kwargs: Any) -> Any:
        where.append(on_a_loop())
        return work(*args, **kwargs)

    return noting


def test_what_reads_for_long_keeps_no_call_from_being_recorded(database: Database) -> None:
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    reads, may_end = threading.Event(), threading.Event()
    counted: list[int] = []

    def question(connection: Connection) -> None:
        for _ in range(2):
            counted.append(connection.scalar(select(func.count()).select_from(exchanges)) or 0)
            reads.set()
            may_end.wait(PATIENCE_S)

    reader = threading.Thread(target=database.read, args=(question,))
    reader.start()
    assert reads.wait(PATIENCE_S)
    later = [replace(FULL, id=f"later-{n}", ending=Ending.COMPLETE) for n in range(3)]
    database.calls.write(CommitBatch(recorded=later), worker="w")
    recorded = database.rollouts.load("r1")
    may_end.set()
    reader.join(PATIENCE_S)
    assert recorded is not None
    assert len(recorded[1].exchanges) == 4
    assert counted[0] == 1


# --- by index --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL)
def test_no_question_walks_through_all_exchanges(said: list[Said], path: str) -> None:
    walked = [step for one in said for step in one.walked]
    assert [step for step in walked if step.startswith(("SCAN exchanges", "SCAN events"))] == []


@pytest.mark.parametrize("path", [*LISTS, *ONE])
def test_a_list_walks_through_no_more_rollouts_than_its_page_shows(
    said: list[Said], path: str
) -> None:
    for one in said:
        page_in_order = "LIMIT" in one.text and "WHERE" not in one.text
        of_tables = [step for step in one.walked if not step.startswith("SCAN anon_")]  # of groups
        assert of_tables == (
            ["SCAN rollouts USING COVERING INDEX rollouts_created"] if page_in_order else []
        )


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        ({}, "rollouts_created ((created_at,id)>(?,?))"),
        ({"batch": "b"}, "rollouts_batch (batch=? AND (created_at,id)>(?,?))"),
        ({"task": "t"}, "rollouts_task (task=? AND (created_at,id)>(?,?))"),
    ],
)
def test_a_later_page_begins_where_the_one_before_ended(
    asked: Asked, services: Services, filters: dict[str, str], index: str
) -> None:
    file = services().database
    database = Database(file)
    query = RolloutQuery(filters={name: [value] for name, value in filters.items()})
    database.read(listing.page, query, after=Position(1.0, "r"), limit=10)
    ((said, values, _),) = [
        one for one in asked.statements if one[0].startswith("SELECT rollouts.id")
    ]
    database.close()
    with closing(sqlite3.connect(file)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {said}", values)]
    assert plan[0] == f"SEARCH rollouts USING COVERING INDEX {index}"
    assert not any("TEMP B-TREE" in step for step in plan)


@pytest.mark.slow
def test_a_page_in_any_order_asks_one_question_more_at_most(service: Service, asked: Asked) -> None:
    """That is for the rollouts whose value is unknown, which come last."""

    def questions(query: str) -> int:
        service.http.get(f"/ui/rollouts?limit=3&{query}")  # judges what it has to
        asked.statements.clear()
        assert service.http.get(f"/ui/rollouts?limit=3&{query}").status_code == 200
        return len([said for said, _, _ in asked.statements if said.startswith("SELECT")])

    by_time = questions("text=r")  # by verdict, as most orders are
    counts = {sort: questions(f"sort={sort}&order=asc") for sort in SORTS}
    assert {sort: n for sort, n in counts.items() if n > by_time + 1} == {}


@pytest.mark.parametrize("named", [{}, {"batch": "b"}, {"rollout_id": "r1"}])
def test_a_page_that_listens_looks_at_no_more_than_its_news(
    asked: Asked, services: Services, named: dict[str, str]
) -> None:
    file = services().database
    database = Database(file)
    asked.statements.clear()
    database.read(statistics.pulse, **named)
    database.close()
    told = [said for said in asked.statements if said[0].startswith("SELECT")]
    walked = [step for said in told for step in scans(file, *said[:2])]
    assert [step for step in walked if not step.startswith("SCAN open_calls")] == []
