"""Who may look into which room: every import goes down or level, and some walls have no door.

It reads the source and imports none of it. A new module that stands in no room is a failure:
give it a line in ``ROOMS``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("classifier", "proxy", "truezero")


class Room(IntEnum):
    """The floors of the house, lowest first; below MACHINERY all is pure."""

    CONTRACT = 0
    JUDGEMENT = 1
    WIRE = 2
    EAR = 3
    MACHINERY = 4
    DESK = 5
    FACES = 6
    ROOF = 7


# A package stands for everything inside it; the longest match wins.
ROOMS: Mapping[str, Room] = {
    "truezero.models": Room.CONTRACT,
    "classifier": Room.JUDGEMENT,
    "classifier.__main__": Room.ROOF,
    "proxy.wire": Room.WIRE,
    "proxy.tap": Room.EAR,
    "proxy.addressing": Room.EAR,
    "proxy.asking": Room.EAR,
    "proxy.aside": Room.MACHINERY,
    "proxy.bounds": Room.EAR,
    "proxy.conversation": Room.EAR,
    "proxy.headers": Room.EAR,
    "proxy.keys": Room.EAR,
    "proxy.prices": Room.EAR,
    "proxy.reach": Room.EAR,
    "proxy.refusals": Room.EAR,
    "proxy.sessions": Room.EAR,
    "proxy.upstreams": Room.EAR,
    "proxy.faults": Room.MACHINERY,
    "proxy.door": Room.MACHINERY,
    "proxy.standing": Room.MACHINERY,
    "proxy.trouble": Room.EAR,
    "proxy.http1": Room.MACHINERY,
    "proxy.logs": Room.MACHINERY,
    "proxy.metrics": Room.MACHINERY,
    "proxy.processes": Room.MACHINERY,
    "proxy.recorder": Room.MACHINERY,
    "proxy.relay": Room.MACHINERY,
    "proxy.shared": Room.MACHINERY,
    "proxy.signing": Room.MACHINERY,
    "proxy.sockets": Room.MACHINERY,
    "proxy.store": Room.MACHINERY,
    "proxy.start": Room.MACHINERY,
    "proxy.traces": Room.MACHINERY,
    "proxy.transport": Room.MACHINERY,
    "proxy.upgrades": Room.MACHINERY,
    "proxy.archives": Room.MACHINERY,
    "proxy.control": Room.DESK,
    "proxy.minting": Room.DESK,
    "proxy.overview": Room.DESK,
    "proxy.api": Room.FACES,
    "proxy.web": Room.FACES,
    "truezero.agents": Room.FACES,
    "truezero.batches": Room.FACES,
    "truezero.client": Room.FACES,
    "truezero.demo": Room.FACES,
    "truezero.doctor": Room.FACES,
    "truezero.drills": Room.FACES,
    "truezero.embedded": Room.FACES,
    "truezero.integrations": Room.FACES,
    "truezero.keeping": Room.FACES,
    "truezero.loop": Room.FACES,
    "truezero.questions": Room.FACES,
    "truezero.report": Room.FACES,
    "truezero.rollouts": Room.FACES,
    "truezero.run": Room.FACES,
    "truezero.simulator": Room.FACES,
    "proxy.app": Room.ROOF,
    "proxy.control_plane": Room.ROOF,
    "proxy.settings": Room.ROOF,
    "truezero.cli": Room.ROOF,
    "truezero.__main__": Room.ROOF,
}
DOORS = frozenset(PACKAGES)  # a package's own __init__ stands in no room of its own

NOUNS = ("classifier.records", "classifier.verdicts")
FRAMINGS = frozenset({"sse", "ndjson", "jsonarray", "eventstream", "encoding"})
SHARED_BY_DIALECTS = FRAMINGS | {"deaf", "dialect", "errors", "usage"}
NO_DIALECTS = SHARED_BY_DIALECTS | {"answer", "asked", "table", "usage_request"}
ABOVE_DIALECTS = frozenset({"proxy.wire.answer", "proxy.wire.table"})  # may name one

# The clock, the network, the disk and the log arrive as arguments in the rooms below.
# fmt: off
IMPURE = frozenset({
    "aiohttp", "asyncio", "fastapi", "http", "httpx", "logging",
    "multiprocessing", "os", "pathlib", "random", "requests", "secrets",
    "selectors", "shutil", "signal", "socket", "sqlalchemy", "sqlite3",
    "ssl", "starlette", "subprocess", "sys", "tempfile", "threading",
    "time", "uvicorn", "uuid",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Wall:
    """``inside`` may not import ``outside``, but for ``doors``; ``why`` tells whoever tries."""

    inside: tuple[str, ...]
    outside: tuple[str, ...]
    why: str
    doors: tuple[str, ...] = ()
    walkers: tuple[str, ...] = ()  # modules inside that the wall does not stop


WALLS = (
    Wall(
        ("proxy.relay", "proxy.sockets", "proxy.transport", "proxy.upgrades"),
        ("proxy.store", "proxy.recorder", "proxy.control", "classifier"),
        "the relay hands a finished Exchange to a callable and knows nothing behind it",
        doors=NOUNS,
    ),
    Wall(
        ("proxy.store",),
        ("proxy", "truezero"),
        "the store sees judgement's nouns and nothing above",
        doors=("proxy.store",),
    ),
    Wall(
        ("proxy.api", "proxy.web"),
        ("proxy.store", "proxy.recorder", "proxy.relay", "proxy.transport", "proxy.tap"),
        "REST and pages ask control for everything, so that they give one answer",
    ),
    Wall(
        ("classifier", "proxy"), ("truezero",), "only the contract is shared", ("truezero.models",)
    ),
    Wall(
        ("classifier", "proxy", "truezero"),
        ("proxy.settings",),
        "settings are read where things are wired",
        walkers=("proxy.app", "proxy.control_plane", "truezero.cli"),
    ),
)

# `pip install truezero` is light: only these reach for the service, and only when asked to run it.
LAZY = (
    "truezero.cli",
    "truezero.demo",
    "truezero.doctor",
    "truezero.drills",
    "truezero.keeping",
    "truezero.run",
)
EXTRAS = ("proxy.store.postgres",)  # what not every installation has is imported where it is used
# What a start does not wait for is imported, late, by these only.
BEHIND: Mapping[str, str] = {"proxy.control_plane": "proxy.app", "truezero.models": "proxy.app"}


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """One module importing another; ``late`` where it happens inside a function."""

    who: str
    whom: str
    late: bool = False


Tree: TypeAlias = Mapping[str, frozenset[Import]]
Rule: TypeAlias = Callable[[Tree], list[str]]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def inside_any(name: str, packages: Iterable[str]) -> bool:
    return any(within(name, package) for package in packages)


def room(name: str) -> Room | None:
    matches = [place for place in ROOMS if within(name, place)]
    return ROOMS[max(matches, key=len)] if matches else None


# --- reading the source --------------------------------------------------------------------


def sources(root: Path) -> dict[str, str]:
    """Module name → source, over the three packages."""
    files = (file for package in PACKAGES for file in sorted((root / package).rglob("*.py")))
    return {module_name(file.relative_to(root)): file.read_text("utf-8") for file in files}


def module_name(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def read(texts: Mapping[str, str]) -> dict[str, frozenset[Import]]:
    """Each module's imports; names that are modules of ours are told to the last part."""
    return {name: frozenset(imports(name, text, texts.keys())) for name, text in texts.items()}


def imports(name: str, text: str, known: Iterable[str]) -> Iterator[Import]:
    tree = ast.parse(text)
    late = {id(node) for outer in ast.walk(tree) if is_function(outer) for node in ast.walk(outer)}
    for node in ast.walk(tree):
        for whom in imported(node, frozenset(known)):
            yield Import(name, whom, id(node) in late)


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def imported(node: ast.AST, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are written from the root"
        base = node.module or ""
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if whole in known else base


# --- the rules: a tree in, complaints out --------------------------------------------------


def homeless(tree: Tree) -> list[str]:
    return [
        f"{name} stands in no room" for name in tree if name not in DOORS and room(name) is None
    ]


def upward(tree: Tree) -> list[str]:
    return [
        f"{i.who} ({here.name}) imports {i.whom} ({there.name}), which stands above it"
        for i in every(tree)
        if (here := room(i.who)) is not None
        and (there := room(i.whom)) is not None
        and there > here
        and not i.late
    ]


def through_walls(tree: Tree) -> list[str]:
    return [
        f"{i.who} imports {i.whom}: {wall.why}"
        for wall in WALLS
        for i in every(tree)
        if inside_any(i.who, wall.inside)
        and inside_any(i.whom, wall.outside)
        and not inside_any(i.whom, wall.doors)
        and i.who not in wall.walkers
        and i.who != i.whom
    ]


def foreign_to_judgement(tree: Tree) -> list[str]:
    allowed = sys.stdlib_module_names | {"classifier"}
    return [
        f"{i.who} imports {i.whom}: judgement needs the standard library only"
        for i in every(tree)
        if within(i.who, "classifier") and i.whom.split(".")[0] not in allowed
    ]


def impure(tree: Tree) -> list[str]:
    return [
        f"{i.who} imports {i.whom}: time, network, disk and log arrive as arguments here"
        for i in every(tree)
        if (here := room(i.who)) is not None
        and here < Room.MACHINERY
        and i.whom.split(".")[0] in IMPURE
    ]


def dialects_that_meet(tree: Tree) -> list[str]:
    return [
        f"{i.who} imports {i.whom}: a dialect is met through the table, never by another"
        for i in every(tree)
        if (within(i.who, "proxy.wire") and is_dialect(i.whom) and i.who not in ABOVE_DIALECTS)
        or (
            is_dialect(i.who)
            and within(i.whom, "proxy.wire")
            and i.whom.removeprefix("proxy.wire.") not in SHARED_BY_DIALECTS
        )
    ]


def is_dialect(name: str) -> bool:
    inside = name.startswith("proxy.wire.")
    return inside and name.removeprefix("proxy.wire.") not in NO_DIALECTS


def reaching_for_the_service(tree: Tree) -> list[str]:
    return [
        f"{i.who} imports {i.whom}: only {', '.join(LAZY)} may, inside a function"
        for i in every(tree)
        if within(i.who, "truezero")
        and inside_any(i.whom, ("proxy", "classifier"))
        and not (i.late and i.who in LAZY)
    ]


def late_without_need(tree: Tree) -> list[str]:
    return [
        f"{i.who} imports {i.whom} inside a function"
        for i in every(tree)
        if i.late
        and inside_any(i.whom, PACKAGES)
        and i.who not in LAZY
        and i.whom not in EXTRAS
        and BEHIND.get(i.whom) != i.who
    ]


def circles(tree: Tree) -> list[str]:
    """One line for each circle of imports among our modules, late ones aside."""
    ahead = {name: sorted({i.whom for i in found if not i.late}) for name, found in tree.items()}
    lines: list[str] = []
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            lines.append(" → ".join((*path[path.index(name) :], name)))
        elif name not in done:
            for whom in ahead.get(name, ()):
                walk(whom, (*path, name))
            done.add(name)

    for name in sorted(ahead):
        walk(name, ())
    return lines


def every(tree: Tree) -> Iterator[Import]:
    for found in tree.values():
        yield from sorted(found)


RULES: tuple[Rule, ...] = (
    homeless,
    upward,
    through_walls,
    foreign_to_judgement,
    impure,
    dialects_that_meet,
    reaching_for_the_service,
    late_without_need,
    circles,
)


@pytest.fixture(scope="module")
def house() -> Tree:
    return read(sources(ROOT))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(house: Tree, rule: Rule) -> None:
    assert rule(house) == []


def test_the_house_was_read(house: Tree) -> None:
    assert {"classifier.records", "proxy.upstreams"} <= house.keys()
    assert Import("classifier.records", "classifier.verdicts") in house["classifier.records"]


LATE = "def f():\n    import {}\n"

# What each rule must notice: rule, module, its source.
BREACHES = [
    (homeless, "proxy.cellar", ""),
    (upward, "proxy.relay", "import proxy.control"),
    (upward, "proxy.wire.sse", "from proxy.tap import CallObserver"),
    (upward, "classifier.causes", "from proxy.wire import sse"),
    (through_walls, "proxy.relay", "from proxy.store import tables"),
    (through_walls, "proxy.relay", "from classifier.causes import classify"),
    (through_walls, "proxy.store.tables", "from proxy.metrics import counted"),
    (through_walls, "proxy.api.rollouts", "from proxy.store.database import Database"),
    (through_walls, "proxy.control", "from proxy.settings import Settings"),
    (through_walls, "proxy.control", "from truezero.client import Client"),
    (foreign_to_judgement, "classifier.codec", "import orjson"),
    (impure, "classifier.retries", "import random"),
    (impure, "proxy.wire.sse", "from time import monotonic"),
    (impure, "proxy.tap", LATE.format("logging")),
    (dialects_that_meet, "proxy.wire.cohere", "from proxy.wire import openai_chat"),
    (dialects_that_meet, "proxy.wire.usage", "from proxy.wire import openai_chat"),
    (dialects_that_meet, "proxy.wire.cohere", "from proxy.wire.table import DIALECTS"),
    (reaching_for_the_service, "truezero.cli", "from proxy.app import build"),
    (reaching_for_the_service, "truezero.client", LATE.format("proxy.app")),
    (late_without_need, "proxy.relay", LATE.format("proxy.tap")),
    (late_without_need, "proxy.relay", LATE.format("truezero.models")),
    (circles, "proxy.headers", "import proxy.headers"),
]


@pytest.mark.parametrize(("rule", "name", "text"), BREACHES)
def test_a_breach_is_noticed(house: Tree, rule: Rule, name: str, text: str) -> None:
    known = {*house, "proxy.store.tables", "proxy.wire.sse", "proxy.wire.openai_chat"}
    broken = {**house, name: frozenset(imports(name, text, known))}
    assert any(line.startswith(name) for line in rule(broken))


ALLOWED = [
    ("proxy.relay", "from classifier.records import Exchange"),
    ("proxy.store.tables", "from classifier.records import Exchange"),
    (
        "proxy.api.rollouts",
        "from truezero.models import Verdict\nfrom proxy.control import Control",
    ),
    ("truezero.cli", LATE.format("proxy.app")),
    ("proxy.app", "from proxy.settings import Settings"),
    ("proxy.wire.cohere", "from proxy.wire import sse"),
]


@pytest.mark.parametrize(("name", "text"), ALLOWED)
def test_a_door_is_open(name: str, text: str) -> None:
    tree = {name: frozenset(imports(name, text, {"proxy.wire.sse"}))}
    assert [line for rule in RULES for line in rule(tree)] == []


def test_a_longer_circle_is_told_whole() -> None:
    tree = read({"proxy.tap": "import proxy.keys", "proxy.keys": "import proxy.tap"})
    assert circles(tree) == ["proxy.keys → proxy.tap → proxy.keys"]
