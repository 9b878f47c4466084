"""Figures of the source for a reviewer: ``python -m tests.house``.

Prints files, lines and imports, the modules that one other module imports, and which files a plain
exchange, a registration and three verdicts of a running service go through. No figure is a bound:
they show a direction. ``--files`` lists the files behind the figures, those that something goes
through in the order of their first use.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import re
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("classifier", "proxy", "truezero")
_QUIET_S = 0.2  # what follows a call (its log line, its metrics) has run by then
_RUNS = 6  # what is not in each is a heartbeat's, not the call's; a few of its files are in all


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One module: its dotted name, its lines, what it imports of ours, its classes' names.

    ``docstrings``: the first lines of its own, its classes' and its functions'.
    """

    path: str
    name: str
    lines: int
    imports: frozenset[str]
    classes: tuple[str, ...]
    docstrings: tuple[str, ...]


# The source is formatted, so that its lines tell; to parse all of it takes a second and more.
_CLASS = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)
_DOCSTRING = re.compile(r'(?:\A(?:#.*\n)*|:(?:  #.*)?\n) *"""(.*?\w.*?)(?:"""|$)', re.MULTILINE)
_IMPORT = re.compile(r"^ *((?:from \S+ )?import (?:\([^)]*\)|[^(\n]*$))", re.MULTILINE)


def read(root: Path = ROOT) -> list[SourceFile]:
    """Read every module of the three packages."""
    paths = [path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))]
    texts = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
    return files_of(texts)


def files_of(texts: Mapping[str, str]) -> list[SourceFile]:
    """Measure modules, given as paths and sources."""
    known = {_module(path) for path in texts}
    result = []
    for path, text in texts.items():
        name = _module(path)
        tree = ast.parse("\n".join(_IMPORT.findall(text)))
        result.append(
            SourceFile(
                path=path,
                name=name,
                lines=len(text.splitlines()),
                imports=frozenset(_imported(tree, known)) - {name},
                classes=tuple(_CLASS.findall(text)),
                docstrings=tuple(_DOCSTRING.findall(text)),
            )
        )
    return result


def edges(files: Iterable[SourceFile]) -> int:
    """Count pairs of modules of which one imports the other, late imports included."""
    return sum(len(file.imports) for file in files)


def lone(files: Iterable[SourceFile]) -> dict[str, str]:
    """Map each module that exactly one other imports to that one; packages do not count."""
    importers: dict[str, list[str]] = defaultdict(list)
    packages = {file.name for file in files if file.path.endswith("__init__.py")}
    for file in files:
        for imported in file.imports - packages:
            importers[imported].append(file.name)
    return {name: found[0] for name, found in sorted(importers.items()) if len(found) == 1}


def namesakes(files: Iterable[SourceFile]) -> dict[str, int]:
    """Return class names that stand for several things; a REST model may mirror a classifier's."""
    places: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for name in file.classes:
            places[name].add(file.path)
    counted = {name: _things(paths) for name, paths in places.items()}
    return {name: count for name, count in sorted(counted.items()) if count > 1}


def _things(paths: set[str]) -> int:
    models = {path for path in paths if path.startswith("truezero/models")}
    nouns = {path for path in paths if path.startswith("classifier/")}
    return len(paths) - min(len(models), len(nouns))


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(tree: ast.AST, known: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in known or node.module in known:
                    yield whole if whole in known else node.module


# --- roads ---------------------------------------------------------------------------------


class Roads:
    """Notes which of our files run in any thread that is started while it is installed."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}  # in order

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """As ``sys.setprofile`` wants it."""
        if event == "call":
            self._seen[frame.f_code.co_filename] = None

    def during(self, run: Callable[[int], object]) -> list[str]:
        """Return the files that each of some runs, and what it brings about, goes through.

        They are in the order in which the last run first used them.

        Arguments:
            run: called with the number of the run.
        """
        runs = [self._once(run, number) for number in range(_RUNS)]
        return [name for name in runs[-1] if all(name in each for each in runs)]

    def _once(self, run: Callable[[int], object], number: int) -> list[str]:
        time.sleep(_QUIET_S)
        self._seen = {}
        run(number)
        time.sleep(_QUIET_S)
        return [
            Path(name).relative_to(ROOT).as_posix()
            for name in self._seen.copy()  # threads add to it
            if any(name.startswith(f"{ROOT / package}/") for package in PACKAGES)
        ]


@contextlib.contextmanager
def _service(provider: str, folder: Path, roads: Roads) -> Iterator[str]:
    """Run the service in this process, all its threads watched; yield its URL."""
    import socket

    import uvicorn

    from proxy.app import Application
    from proxy.inbound.http import HttpProtocol
    from proxy.settings import load
    from proxy.store.database import Database

    environment = {
        "TRUEZERO_DATABASE_URL": str(folder / "house.db"),
        "TRUEZERO_UPSTREAM_OPENAI": provider,
    }
    Database(environment["TRUEZERO_DATABASE_URL"]).prepare()
    app = Application(load({}, environment), environment)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, http=HttpProtocol, lifespan="on", access_log=False, log_config=None)
    )

    def run() -> None:
        sys.setprofile(roads)
        asyncio.run(server.serve(sockets=[listener]))

    thread = threading.Thread(target=run, daemon=True)
    threading.setprofile(roads)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        threading.setprofile(None)
        server.should_exit = True
        thread.join(60)


def roads() -> dict[str, list[str]]:
    """Return the files that an exchange, a registration and three verdicts go through."""
    import httpx

    from tests.fakes import answers
    from tests.fakes.provider import Answer, Provider, Request

    def plays(request: Request) -> Answer:
        dead = request.header("authorization") == "Bearer sk-dead"
        failure = answers.FAILURES[answers.Api.CHAT][answers.Fault.AUTH]
        return failure if dead else answers.chat()

    watched = Roads()
    with (
        tempfile.TemporaryDirectory() as folder,
        Provider(plays) as provider,
        _service(provider.url, Path(folder), watched) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):

        def ask(rollout: str, key: str = "sk-alive") -> None:
            client.post(
                f"/r/{rollout}/openai/v1/chat/completions",
                headers={"authorization": f"Bearer {key}"},
                json={"model": "gpt-5", "messages": [{"role": "user", "content": "Is it?"}]},
            )

        def register(rollout: str) -> Any:
            asked = {"id": rollout, "batch": "b", "task": rollout, "model": "gpt-5"}
            return client.post("/rollouts", json=asked).raise_for_status()

        def verdicts(*rollouts: str) -> None:
            for rollout in rollouts:
                client.get(f"/rollouts/{rollout}/verdict").raise_for_status()

        register("warm")
        ask("warm")
        ask("warm")  # a connection that is reused is the plain case
        verdicts("warm")
        for number in range(_RUNS):
            register(f"dead-{number}")
            ask(f"dead-{number}", "sk-dead")
            register(f"silent-{number}")
            ask(f"alive-{number}")
        return {
            "a plain exchange": watched.during(lambda _: ask("warm")),
            "a registration": watched.during(lambda number: register(f"new-{number}")),
            "three verdicts": watched.during(
                lambda number: verdicts(f"alive-{number}", f"dead-{number}", f"silent-{number}")
            ),
        }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--files", action="store_true", help="list the files behind the figures")
    listed = parser.parse_args().files
    files = read()
    alone = lone(files)
    sizes = Counter({file.path: file.lines for file in files})
    rows: dict[str, tuple[int, list[str]]] = {
        "files": (len(files), []),
        "lines": (sum(sizes.values()), [f"{n:6} {path}" for path, n in sizes.most_common(20)]),
        "imports between modules": (edges(files), []),
        "modules with one importer": (len(alone), [f"{a} <- {b}" for a, b in alone.items()]),
        **{f"files or so of {name}": (len(found), found) for name, found in roads().items()},
    }
    for name, (figure, behind) in rows.items():
        print(f"{figure:7,}  {name}")  # noqa: T201
        for line in behind if listed else ():
            print(f"         {line}")  # noqa: T201


if __name__ == "__main__":
    main()
