"""The databases that tests run on: a file of SQLite's, and a PostgreSQL server of their own."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import forked

if TYPE_CHECKING:
    from tests import postgres

pytest_plugins = ["tests.costs"]

# How long an example takes says something of the machine, not of the code. The few are the same
# ones each time, so that what fails, fails of the change; `make fuzz` looks for new ones.
settings.register_profile("few", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("many", deadline=None, max_examples=500, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))

# Most clients here never use TLS, and each would read the certificates of all authorities: 20 ms.
# Processes inherit it, whatever a machine names for its own; who trusts somebody says so.
_TESTS = Path(__file__).parent
_NOBODY = _TESTS / "fakes" / "nobody.pem"  # its key was never kept
os.environ["SSL_CERT_FILE"] = str(_NOBODY)
os.environ.pop("SSL_CERT_DIR", None)

_STORE = _TESTS / "proxy" / "store"

# Outcomes wait for nobody and are kept outside the checkout, whoever reports one; who tests
# patience has it.
_OUTCOMES = tempfile.mkdtemp(prefix="truezero-outcomes-")
os.environ["TRUEZERO_OUTCOMES"] = str(Path(_OUTCOMES, "kept"))
os.environ["TRUEZERO_OUTCOME_PATIENCE_S"] = "0"

# A shell that starts a job in the background has it ignore Ctrl-C, and so would all it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # likewise under nohup, which a service heeds


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not load a file for `-m "not slow"`, as `make test` says it, if all its tests are slow.

    A file that is named on the command line is loaded, as pytest asks this of none that is; `-m`
    then deselects its tests, and pytest says how many.
    """
    if config.option.markexpr != "not slow" or collection_path.suffix != ".py":
        return None
    return _is_all_slow(collection_path.read_text()) or None


def _is_all_slow(text: str) -> bool:
    """Find `pytestmark = pytest.mark.slow`, alone or in a list, at a file's top level."""
    if "pytestmark = " not in text:
        return False
    marks: list[ast.expr] = []
    for each in ast.parse(text).body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark":
            value = each.value
            marks = value.elts if isinstance(value, ast.List) else [value]
    return "pytest.mark.slow" in map(ast.unparse, marks)


def _load_share(config: pytest.Config) -> None:
    """Load first what other workers do not: of a fresh clone each would rewrite all assertions.

    What one has rewritten is kept for all. A file that cannot be loaded is told by collection.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for file in sorted(_TESTS.rglob("test_*.py"))[number :: worker["workercount"]]:
        if not pytest_ignore_collect(file, config):
            name = ".".join(file.relative_to(_TESTS.parent).with_suffix("").parts)
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(name)


def pytest_configure(config: pytest.Config) -> None:
    """Load what commands are forked from once for all workers: 1.3 CPU s."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        ends = contextlib.ExitStack()
        ends.enter_context(forked.offered())
        config.add_cleanup(ends.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect no garbage while 300 files are imported, nor later among what they keep."""
    gc.disable()
    try:
        _load_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        # Tests leave much and little of it in circles: to look every 700 objects took 7 % of the
        # CPU. A service that ends in this process unfreezes all; a full search takes half a second.
        gc.set_threshold(50_000, 20, 100)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to slower commands what needs PostgreSQL, most of it for the second time.

    Above the store no dialect is touched: of what is asked there some tests do for all.
    """
    for item in items:
        called = getattr(item, "callspec", None)
        asked = getattr(item, "fixturenames", ())
        if "postgres_server" in asked or (called and "postgresql" in called.params.values()):
            item.add_marker(pytest.mark.slow)
            below = item.path.is_relative_to(_STORE)
            if not below and item.get_closest_marker("postgres_smoke") is None:
                item.add_marker(pytest.mark.whole)


def pytest_sessionfinish() -> None:
    """Find what tests left unclosed; pytest would look for it among all modules, five times."""
    shutil.rmtree(_OUTCOMES, ignore_errors=True)
    gc.collect()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """One server for the whole run; a test that stops it starts it again."""
    from tests import postgres  # here: what it needs takes 0.3 CPU s to load

    server = postgres.Server(postgres.required())
    try:
        server.create()
        yield server
    finally:
        server.destroy()


@pytest.fixture
def postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A prepared PostgreSQL database of the test's own."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """A PostgreSQL database of the test's own, without a schema."""
    with postgres_server.database(prepared=False) as url:
        yield url


@pytest.fixture
def english_postgres_url(postgres_server: postgres.Server) -> Iterator[str]:
    """The same, where texts are ordered as the English order them."""
    with postgres_server.database(prepared=False, language="en-US") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own, on SQLite (`t.db` in its folder) and on PostgreSQL."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "t.db")
