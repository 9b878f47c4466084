"""A harness program from PyPI, alone and beside truezero: half set up, down, silent, or killed.

A program prints a line of JSON for each case that it ran, ``{"case": "OK", …}``, and takes the
names of its cases, ``stock`` or ``ours``, and the base URL to ask. A harness needs a function that
runs it in a given set-up, and one that tells what it made of a case::

    def runs(setup: Setup, home: Path) -> Ran:
        return setup.run("maseval", MASEVAL, home, "1")

    def score(row: Row) -> str:
        return f"score {row['eval'][0]['score']}" if row["eval"] else "no score"

    @pytest.fixture(scope="module")
    def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
        return Beside("maseval", runs, score, tmp_path_factory.mktemp("beside"))

    def test_…(beside: Beside) -> None:
        ran = beside[Condition.DOWN]
        assert beside.never_worse(Condition.DOWN)
        assert len(ran.said) == 1 and ran.calls == 0

``beside[condition]`` runs the harness once and keeps what it saw; ``beside.write()`` puts the
table into docs/measurements/integrations.md, between ``<!-- maseval beside -->`` and its end.
`tests/journeys/test_beside_clients.py` is the example.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import Answer, Provider, Request, Script, closed_port
from tests.journeys.environments import AS_INSTALLED, as_installed, cache, harnesses
from tests.journeys.failing import Case, plays
from tests.journeys.service import ROOT, Service

ENVIRONMENTS = os.environ.get("INTEGRATIONS")  # a folder with one for each harness
CHOSEN = frozenset(os.environ.get("HARNESSES", "").split())  # whose tests are run; empty: all
PAGE = ROOT / "docs" / "measurements" / "integrations.md"
CI = bool(os.environ.get("CI"))
KEY = "sk-own"
PATIENCE_S = 2  # of integrations with an outcome that cannot be delivered
TOLD_CASES = (Case.OK, Case.WRONG, Case.AUTH)

Row = dict[str, Any]

# Reads the texts of a stream.
SPOKEN_TEXTS = """
import json

def spoken(stream):
    for line in stream.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:]).get("choices") or []:
                yield choice["delta"].get("content") or ""
"""
# An agent under Inspect that takes an error for an answer.
SWALLOWING = """
from inspect_ai.solver import solver

@solver
def swallowing():
    async def solve(state, generate):
        try:
            return await generate(state)
        except Exception:
            return state
    return solve
"""

_CAUSE = re.compile(r"`api_error \[[^]]*\]`")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def needed(item: pytest.Item) -> set[str]:
    """The harnesses that a test needs: of its marker, its fixtures and its parameters."""
    named = {name for mark in item.iter_markers("harness") for name in mark.args}
    called = getattr(item, "callspec", None)
    values = called.params.values() if called else ()
    fixtures = getattr(item, "fixturenames", ())
    return named | set(harnesses()) & {*fixtures, *(v for v in values if isinstance(v, str))}


def python_of(harness: str) -> Path:
    """The Python of a harness's environment; skips where no Python here is new enough."""
    assert ENVIRONMENTS
    assert not CHOSEN or harness in CHOSEN, "the test's marker does not name its harness"
    python = Path(ENVIRONMENTS).resolve() / harness / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{harness} is not installed: no Python here is new enough")
    return python


# --- a program ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a program left behind.

    ``calls`` are requests that reached the provider, ``visits`` connections to the program that
    stands on the service's port (None if nothing counts them).
    """

    code: int
    rows: Sequence[Row]
    stdout: str
    stderr: str
    took_s: float
    calls: int = 0
    visits: int | None = None

    @property
    def said(self) -> list[str]:
        """Lines of its console that speak of truezero; a traceback's are among them."""
        text = _COLOUR.sub("", self.stdout + "\n" + self.stderr)
        lines = text.replace(str(cache()), "").splitlines()  # whose path has our name
        told = [line.strip() for line in lines if not line.startswith('{"')]
        return [line for line in told if "truezero" in line.lower()]

    @property
    def by_case(self) -> dict[Case, Row]:
        named = Case.__members__
        return {Case[row["case"]]: row for row in self.rows if row.get("case") in named}


def spawned(
    python: Path, *words: str, home: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a harness's Python in a folder, its ``environment`` put over a clean one."""
    ours = ("PYTHONPATH", "CI")
    clean = {
        name: value
        for name, value in os.environ.items()
        if "TRUEZERO" not in name and name not in ours
    }
    usual = {
        "HOME": str(home), "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY,
        "NO_PROXY": "127.0.0.1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1",
        "MSWEA_SILENT_STARTUP": "1", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
    }  # fmt: skip
    return subprocess.run(
        [str(python), *words], env={**clean, **usual, **environment},
        cwd=home, capture_output=True, text=True, timeout=1500, check=False,
    )  # fmt: skip


def execute(
    harness: str,
    text: str,
    home: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    begun: Callable[[Path], None] | None = None,
) -> Ran:
    """Run a program where its harness is installed, in a new folder; skip where there is none.

    truezero is installed there too, with its entry points.
    ``begun`` is called with the folder before it starts; ``environment`` is put over a clean one.
    """
    python = python_of(harness)
    home.mkdir()
    (home / "program.py").write_text(text)
    if harness not in AS_INSTALLED:
        as_installed(home)
    if begun is not None:
        begun(home)
    started = time.monotonic()
    done = spawned(python, "program.py", *words, home=home, environment={
        **({} if harness in AS_INSTALLED else {"PYTHONPATH": str(ROOT)}), **(environment or {}),
    })  # fmt: skip
    return Ran(
        code=done.returncode,
        rows=[json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')],
        stdout=done.stdout,
        stderr=done.stderr,
        took_s=time.monotonic() - started,
    )


# --- the conditions -------------------------------------------------------------------------


class Condition(StrEnum):
    """How truezero is set up and fares while a harness runs; the names stand in the page."""

    ALONE = "without truezero"
    HALF = "half set up"
    HALF_DOWN = "half set up, service down"
    HALF_FOREIGN = "half set up, another program on the port"
    HALF_SILENT = "half set up, service silent"
    DOWN = "service down from the start"
    FOREIGN = "another program on the port"
    SILENT = "service silent"
    KILLED = "killed midway"


# Half set up: the variable is set and the entry points are there, the base URL is the provider's.
HALVES = (Condition.HALF, Condition.HALF_DOWN, Condition.HALF_FOREIGN, Condition.HALF_SILENT)
# Asked for: the base URL is the service's, and the service never answers.
AWAY = (Condition.DOWN, Condition.FOREIGN, Condition.SILENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a program is given in a condition."""

    condition: Condition
    cases: Sequence[Case]
    provider: str  # its URL
    service: str | None  # TRUEZERO_URL, None where it is not set
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        return "stock" if self.condition is Condition.ALONE else "ours"

    @property
    def base(self) -> str:
        """The base URL that a client of OpenAI's is given."""
        if self.condition is Condition.ALONE or self.condition in HALVES:
            return f"{self.provider}/v1"
        return f"{self.service}/openai/v1"

    def run(
        self,
        harness: str,
        text: str,
        home: Path,
        *words: str,
        mode: str | None = None,
        begun: Callable[[Path], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a program with its cases, its mode, its base URL and ``words``.

        Arguments:
            mode: by default ``ours`` unless it is alone; for a harness that has no way of half a
                set-up but the variable, ``stock``.
        """
        ours = {
            "TRUEZERO_URL": self.service or "",
            "TRUEZERO_OUTCOME_PATIENCE_S": str(PATIENCE_S),
        }
        return execute(
            harness,
            text,
            home,
            ",".join(case.name for case in self.cases),
            mode or self.mode,
            self.base,
            *words,
            environment={
                **(ours if self.service else {}),
                **self.environment,
                **(environment or {}),
            },
            begun=begun,
        )


class Beside:
    """A harness run once in each condition that is asked for, against one provider.

    Arguments:
        harness: name of its environment, and of its table in the page.
        runs: runs its program in a set-up, in a folder that does not exist yet.
        score: the harness's own result of a case, in a few words, from the program's row.
        home: an empty folder.
        cases: in the order in which the program runs them, one after the other.
        script: how the provider answers.
        midway: true of the first request at which the service is killed in ``Condition.KILLED``;
            by default the second of `wrong answer`, when `ok` is done.
        settings: of the service, as of ``Service``.
    """

    def __init__(
        self,
        harness: str,
        runs: Callable[[Setup, Path], Ran],
        score: Callable[[Row], str],
        home: Path,
        *,
        cases: Sequence[Case] = TOLD_CASES,
        script: Script = plays,
        midway: Callable[[Request], bool] = lambda request: b"case:WRONG turn:2" in request.body,
        **settings: str,
    ) -> None:
        self.harness, self.home = harness, home
        self._runs, self._score, self._cases = runs, score, cases
        self._script, self._midway, self._settings = script, midway, settings
        self._ran: dict[Condition, Ran] = {}

    def __getitem__(self, condition: Condition) -> Ran:
        if condition not in self._ran:
            self._ran[condition] = self._run(condition)
        return self._ran[condition]

    def cells(self, condition: Condition) -> dict[Case, str]:
        """The harness's own result of each case; `no result` where it printed none."""
        rows = self[condition].by_case
        return {
            case: self._score(rows[case]) if case in rows else "no result" for case in self._cases
        }

    def untouched(self, condition: Condition) -> bool:
        """Whether the harness ended as it does alone, in all that it says of its cases."""
        alone, ran = self[Condition.ALONE], self[condition]
        same = self.cells(condition) == self.cells(Condition.ALONE)
        return same and (ran.code, ran.calls) == (alone.code, alone.calls)

    def never_worse(self, condition: Condition, *unmeasured: str) -> bool:
        """Whether each case has its result of alone, or none: ``unmeasured`` and `no result`."""
        alone = self.cells(Condition.ALONE)
        return all(
            cell in (alone[case], "no result", *unmeasured)
            for case, cell in self.cells(condition).items()
        )

    def write(self, *conditions: Condition, version: str) -> None:
        """Write the table of these conditions; with CI set, compare it."""
        put_on_page(f"{self.harness} beside", lambda _: self._table(conditions, version))

    def _table(self, conditions: Sequence[Condition], version: str) -> str:
        names = {Condition.ALONE: f"{self.harness} {version}"}
        columns = {
            names.get(each, str(each)): [
                *self.cells(each).values(), str(self[each].code), str(self[each].calls)
            ]
            for each in (Condition.ALONE, *conditions)
        }  # fmt: skip
        return table_by_columns([*map(str, self._cases), "exit code", "calls"], columns)

    def _run(self, condition: Condition) -> Ran:
        home = self.home / condition.name.lower()
        home.mkdir()
        with Provider(self._script) as provider, self._place(condition, provider) as (url, visits):
            setup = Setup(
                condition=condition, cases=self._cases, provider=provider.url, service=url
            )
            ran = self._runs(setup, home / "run")
            return _with(ran, calls=len(provider.requests), visits=visits())

    @contextlib.contextmanager
    def _place(
        self, condition: Condition, provider: Provider
    ) -> Iterator[tuple[str | None, Callable[[], int | None]]]:
        """Put on the service's port what the condition wants; yield its URL and what counts."""
        match condition:
            case Condition.ALONE:
                yield None, lambda: None
            case Condition.DOWN | Condition.HALF_DOWN:
                yield f"http://127.0.0.1:{closed_port()}", lambda: None
            case Condition.FOREIGN | Condition.HALF_FOREIGN:
                with Provider(_another) as other:
                    yield other.url, lambda: len(other.requests)
            case Condition.SILENT | Condition.HALF_SILENT:
                with Silent() as silent:
                    yield silent.url, lambda: silent.visits
            case Condition.HALF | Condition.KILLED:
                home = self.home / f"{condition.name.lower()}-service"
                home.mkdir()
                with Service(home, provider.url, **self._settings) as service:
                    if condition is Condition.KILLED:
                        provider.plays(self._killing(service))
                    yield service.url, lambda: None

    def _killing(self, service: Service) -> Script:
        alive = threading.Lock()  # taken by the one that kills

        def answer(request: Request) -> Answer:
            if self._midway(request) and alive.acquire(blocking=False):
                service.kill()
            played = self._script(request) if callable(self._script) else self._script
            assert isinstance(played, Answer)
            return played

        return answer


class Silent:
    """A program that accepts connections and never says a word; it counts them."""

    def __enter__(self) -> Silent:
        self.visits, self._open = 0, list[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self.visits += 1


def _another(request: Request) -> Answer:
    """Answer as a page's server does: its start page to whoever asks, nothing to who sends."""
    html = (("content-type", "text/html"),)
    if request.method == "GET":
        return Answer(headers=html, body=(b"<!doctype html><title>another program</title>",))
    return Answer(status=404, headers=html, body=(b"<h1>Not Found</h1>",))


def _with(ran: Ran, *, calls: int, visits: int | None) -> Ran:
    return Ran(
        code=ran.code,
        rows=ran.rows,
        stdout=ran.stdout,
        stderr=ran.stderr,
        took_s=ran.took_s,
        calls=calls,
        visits=visits,
    )


def table_by_columns(rows: Sequence[str], columns: Mapping[str, Sequence[str]]) -> str:
    """Return a table in Markdown; neighbouring columns with the same cells are one."""
    merged: list[tuple[list[str], Sequence[str]]] = []
    for name, cells in columns.items():
        if merged and merged[-1][1] == cells:
            merged[-1][0].append(name)
        else:
            merged.append(([name], cells))
    lines = [["provider", *(", ".join(names) for names, _ in merged)], ["---"] * (len(merged) + 1)]
    lines += [[row, *(cells[at] for _, cells in merged)] for at, row in enumerate(rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---")


def table_by_rows(head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    """Return a table in Markdown; rows that differ in truezero's cause alone are one.

    The page says once which cause each failure has.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, cells in rows.items():
        alike.setdefault(tuple(_CAUSE.sub("`api_error`", cell) for cell in cells), []).append(name)
    lines = [
        [*head],
        ["---"] * len(head),
        *([", ".join(name), *end] for end, name in alike.items()),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---")


def put_on_page(name: str, table: Callable[[str], str]) -> None:
    """Write a table between the page's marks of its name; with CI set, compare it.

    Arguments:
        table: makes it from the one that stands there.
    """
    start, end = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
    with PAGE.open("r+" if not CI else "r") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # harnesses run at the same time
        page = file.read()
        before, begun, rest = page.partition(start)
        old, found, after = rest.partition(end)
        assert begun and found, f"the page has no place for {name}"
        now = before + start + table(old) + end + after
        assert now == page or not CI, "run `make integrations` and read what it changed"
        if now != page:
            file.seek(0)
            file.truncate()
            file.write(now)
