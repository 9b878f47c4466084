"""The list of PostgreSQL's features that we use is whole: a server wrote down what it heard."""

from __future__ import annotations

import ast
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import pytest

from benchmarks.dialects import FEATURES, PAGES, Says, known_words
from proxy.store.admin import archive, copy, prune
from proxy.store.database import Database
from proxy.store.tables import metadata
from tests.postgres import Server
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.control.test_queries import ALL, DEAD
from tests.proxy.filled import fill
from tests.proxy.store.admin.test_prune import DAY, LIMIT, OLD, called, opened_since_long

STORE = Path(prune.__file__).parent
# What speaks to SQLite only, or says what no database hears.
ELSEWHERE = {"backup.py", "spill.py", "ledger.py"}
SQLITES = {"_sqlite_connected", "_plain", "_as_the_service", "_check", "sqlite_file"}
ASKS = {"execute", "scalar", "scalars", "exec_driver_sql", "copy"}


@dataclass(frozen=True, slots=True)
class Heard:
    """What a server was told while everything of the store ran, and which functions did."""

    statements: frozenset[str]
    ran: frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def heard(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heard]:
    ran: set[CodeType] = set()
    begun = len(postgres_server.said())
    with postgres_server.connect() as operator:
        operator.execute("ALTER ROLE postgres SET log_statement = 'all'")
        threading.setprofile(lambda frame, event, _: _noted(ran, frame, event))
        sys.setprofile(lambda frame, event, _: _noted(ran, frame, event))
        try:
            _everything(postgres_server, tmp_path_factory.mktemp("heard"))
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            operator.execute("ALTER ROLE postgres RESET log_statement")
    said = frozenset(_statements(postgres_server.said()[begun:]))
    yield Heard(said, frozenset((Path(code.co_filename).name, code.co_name) for code in ran))


def _noted(ran: set[CodeType], frame: FrameType, event: str) -> None:
    if event == "call":
        ran.add(frame.f_code)


def _everything(server: Server, folder: Path) -> None:
    """All that the service and its operator do to a database."""
    with server.database(prepared=False) as url, serving(folder, DATABASE_URL=url) as service:
        _a_day(service)
        _a_replica(url)
    with server.database() as url:
        _a_year(url)
    full = str(folder / "full.db")
    fill(full).close()
    with server.database(prepared=False) as url:
        copy.copy(full, url, lambda _table, _rows: None)
    with server.database(prepared=False) as url, archive.records(full) as records:
        archive.take(url, records)
        with archive.records(url, batch="b1") as back:
            list(back)


def _a_day(service: Service) -> None:
    facts = {"batch": "b", "task": "t", "attempt": 1}
    service.http.post("/rollouts", json={"id": "r1", **facts})
    service.http.post("/rollouts", json={"id": "r3", "fault": {"kind": "auth"}, **facts})
    service.call("r1")
    service.call("alone")
    service.http.post("/rollouts", json={"id": "alone", **facts})
    service.provider.plays(DEAD)
    service.call("r2")
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    service.http.post("/rollouts/r1/outcome", json=seen)
    for path in ALL:
        assert service.http.get(path).status_code == 200
    service.http.post("/batches/b/breaker/reset")
    minted = service.http.post("/key/generate", json={"key_alias": "k"}).json()["key"]
    service.http.get("/key/info", params={"key": minted})
    service.http.post("/key/delete", json={"keys": [minted]})


def _a_replica(url: str) -> None:
    other, rung = Database(url), threading.Event()
    with other.events.subscribe(rung.set):
        other.heartbeat("other", host="elsewhere", now=0.0)
        other.heartbeat("me", host="here", now=100.0)
        other.heartbeat("me", host="here", now=101.0)
        other.events.of_batch("b", after=other.events.last_id() - 1)
        other.rollouts.next_drilled_call("r3")
        other.deployment.end_session("one", ends=1, now=2.0)
        time.sleep(0.2)
    other.close()


def _a_year(url: str) -> None:
    database = opened_since_long(url)
    called(database, "old", OLD, batch="b")
    called(database, "living", OLD, LIMIT + 1.0)
    called(database, "of no month", OLD - 2000 * DAY)
    for dry_run in (True, False):
        prune.prune(database, before=LIMIT, dry_run=dry_run, pause=lambda _s: None)
    database.workers.retire("w")
    database.close()


# --- reading it ------------------------------------------------------------------------------


def _statements(log: str) -> Iterator[str]:
    """The statements in a server's log; a line that goes on begins with a tab."""
    for entry in re.sub(r"\n\t", " ", log).splitlines():
        found = re.search(r"LOG:  (?:statement|execute [^:]*): (.*)", entry)
        if found and not re.search(r"(CREATE|DROP) DATABASE|pg_database", found[1]):  # of the tests
            yield found[1]


_TEXT = re.compile(r"'(?:[^']|'')*'")
_TOKEN = re.compile(
    r"\"[^\"]*\"|(?:::)?[a-z_][\w.]*(?:\s*\()?|\$\d+|[\d.]+(?:e[+-]?\d+)?|::|[-+*/<>=~!@#%^&|?]+"
)
_TABLES = {*metadata.tables, "alembic_version", "unfinished_copy"}
_NAMES = _TABLES | {
    column.name for table in metadata.tables.values() for column in table.columns
} | {"key", "value", "step", "owner", "delimiter"}  # fmt: skip


def _needed(statement: str, keywords: frozenset[str]) -> Iterator[str]:
    """The keywords, functions, types, catalogues and operators in a statement."""
    for token in _TOKEN.findall(_TEXT.sub("''", statement).lower()):
        word = token.removeprefix("::").rstrip("( \t")
        if word in _NAMES or re.match(r"[\"$\d.]|exchanges_(\d{4}|else|whole)", word):
            continue
        word = re.sub(r"^(?:pg_catalog\.)?(pg_\w+)\..*", r"\1", word.removeprefix("pg_catalog."))
        called, typed = token.endswith("("), token.startswith("::")
        catalogue = re.match(
            r"(pg_|information_schema).*[^\d]$", word
        )  # a number: a column's alias
        operator = not re.match(r"[a-z_]", word)
        if word and (called or typed or catalogue or operator or word in keywords):
            yield word


@pytest.fixture(scope="module")
def keywords(postgres_server: Server) -> frozenset[str]:
    """What the server itself calls a keyword."""
    with postgres_server.connect() as connection:
        return frozenset(row[0] for row in connection.execute("SELECT word FROM pg_get_keywords()"))


def test_every_word_that_the_server_heard_is_on_the_list(
    heard: Heard, keywords: frozenset[str]
) -> None:
    unlisted: dict[str, str] = {}
    for statement in heard.statements:
        for word in _needed(statement, keywords):
            if word not in known_words():
                unlisted.setdefault(word, statement[:200])
    assert unlisted == {}


def test_nothing_is_on_the_list_that_no_statement_needs(
    heard: Heard, keywords: frozenset[str]
) -> None:
    used = {word for said in heard.statements for word in _needed(said, keywords)}
    told = {word for feature in FEATURES[1:] for word in feature.words.split()}
    assert told - used == set()


def test_every_function_of_the_store_that_asks_a_database_ran(heard: Heard) -> None:
    asking = {
        (file.name, function.name)
        for file in STORE.glob("*.py")
        if file.name not in ELSEWHERE
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef) and function.name not in SQLITES
        if any(_asks(node) for node in ast.walk(function))
    }
    assert asking - heard.ran == set()


def _asks(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ASKS
    )


def test_the_server_takes_a_word_that_is_not_listed_for_one() -> None:
    keywords = frozenset({"select", "tablesample"})
    said = "SELECT id, row_number() OVER w FROM rollouts TABLESAMPLE x WHERE id @> 'tablesample'"
    assert {*_needed(said, keywords)} == {"select", "row_number", "tablesample", "@>"}


def test_what_a_page_is_cited_for_is_said_with_its_page() -> None:
    words = [word for each in FEATURES for word in (each.citus, each.yugabyte, each.cockroach)]
    assert all((word.page in PAGES) == (word.says is not Says.OPEN) for word in words)
