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
    ROUTING = 3
    CAPTURE = 4
    MACHINERY = 5
    CONTROL = 6
    FACES = 7
    ROOF = 8


# A package stands for everything inside it; the longest match wins.
ROOMS: Mapping[str, Room] = {
    "truezero.models": Room.CONTRACT,
    "classifier": Room.JUDGEMENT,
    "classifier.__main__": Room.ROOF,
    "proxy.wire": Room.WIRE,
    "proxy.routing": Room.ROUTING,
    "proxy.capture": Room.CAPTURE,
    "proxy.inbound": Room.MACHINERY,
    "proxy.outbound": Room.MACHINERY,
    "proxy.relay": Room.MACHINERY,
    "proxy.recording": Room.MACHINERY,
    "proxy.store": Room.MACHINERY,
    "proxy.telemetry": Room.MACHINERY,
    "proxy.transport": Room.MACHINERY,
    "proxy.control": Room.CONTROL,
    "proxy.api": Room.FACES,
    "proxy.web": Room.FACES,
    "truezero.sdk": Room.FACES,
    "truezero.runner": Room.FACES,
    "truezero.integrations": Room.FACES,
    "truezero.cli": Room.ROOF,
    "truezero.cli.output": Room.FACES,
    "truezero.__main__": Room.ROOF,
    "proxy.app": Room.ROOF,
    "proxy.control_plane": Room.ROOF,
    "proxy.server": Room.ROOF,
    "proxy.settings": Room.ROOF,
    "proxy.wiring": Room.ROOF,
}
DOORS = frozenset(PACKAGES)  # a package's own __init__ stands in no room of its own

NOUNS = ("classifier.records", "classifier.verdicts")
SHARED_BY_DIALECTS = ("proxy.wire.framing", "proxy.wire.dialect", "proxy.wire.usage")
ABOVE_DIALECTS = frozenset({"proxy.wire.response", "proxy.wire.routes"})  # may name one

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
        (
            "proxy.relay.call",
            "proxy.relay.websocket",
            "proxy.transport",
            "proxy.outbound.websocket",
        ),
        ("proxy.store", "proxy.recording.recorder", "proxy.control.rollouts", "classifier"),
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
        (
            "proxy.store",
            "proxy.recording.recorder",
            "proxy.relay.call",
            "proxy.transport",
            "proxy.capture.observer",
        ),
        "REST and pages ask control for everything, so that they give one answer",
    ),
    Wall(
        ("classifier", "proxy"), ("truezero",), "only the contract is shared", ("truezero.models",)
    ),
    Wall(
        ("classifier", "proxy", "truezero"),
        ("proxy.settings",),
        "settings are read where things are wired",
        walkers=(
            "proxy.app",
            "proxy.control_plane",
            "proxy.server.serve",
            "proxy.wiring",
            "truezero.cli",
            "truezero.cli.options",
        ),
    ),
)

# `pip install truezero` is light: only these reach for the service, and only when asked to run it.
LAZY = (
    "truezero.cli",
    "truezero.cli.options",
    "truezero.cli.batches",
    "truezero.cli.rollouts",
    "truezero.cli.service",
    "truezero.runner.demo",
    "truezero.runner.demo_provider",
    "truezero.runner.doctor",
    "truezero.runner.drills",
    "truezero.cli.data",
    "truezero.runner.run",
)
EXTRAS = ("proxy.store.postgres",)  # what not every installation has is imported where it is used
# What a start does not wait for is imported, late, by these only.
BEHIND: Mapping[str, str] = {
    "proxy.control_plane": "proxy.app",
    "truezero.models": "proxy.wiring",
}


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """One module importing another, inside a function (``late``) or only ``for_types``."""

    who: str
    whom: str
    late: bool = False
    for_types: bool = False


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
    late = inside(tree, is_function)
    for_types = inside(tree, is_for_types)
    for node in ast.walk(tree):
        for whom in imported(node, frozenset(known)):
            yield Import(name, whom, id(node) in late, id(node) in for_types)


def inside(tree: ast.AST, kind: Callable[[ast.AST], bool]) -> set[int]:
    return {id(node) for outer in ast.walk(tree) if kind(outer) for node in ast.walk(outer)}


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


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
            and not inside_any(i.whom, SHARED_BY_DIALECTS)
        )
    ]


def is_dialect(name: str) -> bool:
    return name.startswith("proxy.wire.dialects.")


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
    """One line for each circle of imports among our modules, late ones and types aside."""
    ahead = {
        name: sorted({i.whom for i in found if not (i.late or i.for_types)})
        for name, found in tree.items()
    }
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
    assert {"classifier.records", "proxy.routing.upstreams"} <= house.keys()
    assert Import("classifier.records", "classifier.verdicts") in house["classifier.records"]


LATE = "def f():\n    import {}\n"

# What each rule must notice: rule, module, its source.
BREACHES = [
    (homeless, "proxy.cellar", ""),
    (upward, "proxy.relay.call", "import proxy.control.rollouts"),
    (upward, "proxy.wire.framing.sse", "from proxy.capture.observer import CallObserver"),
    (upward, "classifier.causes", "from proxy.wire.framing import sse"),
    (through_walls, "proxy.relay.call", "from proxy.store import tables"),
    (through_walls, "proxy.relay.call", "from classifier.causes import classify"),
    (through_walls, "proxy.store.tables", "from proxy.telemetry.metrics import counted"),
    (through_walls, "proxy.api.rollouts", "from proxy.store.database import Database"),
    (through_walls, "proxy.control.rollouts", "from proxy.settings import Settings"),
    (through_walls, "proxy.control.rollouts", "from truezero.sdk.client import Client"),
    (foreign_to_judgement, "classifier.codec", "import orjson"),
    (impure, "classifier.retries", "import random"),
    (impure, "proxy.wire.framing.sse", "from time import monotonic"),
    (impure, "proxy.capture.observer", LATE.format("logging")),
    (
        dialects_that_meet,
        "proxy.wire.dialects.cohere",
        "from proxy.wire.dialects import openai_chat",
    ),
    (dialects_that_meet, "proxy.wire.usage", "from proxy.wire.dialects import openai_chat"),
    (dialects_that_meet, "proxy.wire.dialects.cohere", "from proxy.wire.routes import DIALECTS"),
    (reaching_for_the_service, "truezero.cli", "from proxy.app import build"),
    (reaching_for_the_service, "truezero.sdk.client", LATE.format("proxy.app")),
    (late_without_need, "proxy.relay.call", LATE.format("proxy.capture.observer")),
    (late_without_need, "proxy.relay.call", LATE.format("truezero.models")),
    (circles, "proxy.routing.headers", "import proxy.routing.headers"),
]


@pytest.mark.parametrize(("rule", "name", "text"), BREACHES)
def test_a_breach_is_noticed(house: Tree, rule: Rule, name: str, text: str) -> None:
    known = {
        *house,
        "proxy.store.tables",
        "proxy.wire.framing.sse",
        "proxy.wire.dialects.openai_chat",
    }
    broken = {**house, name: frozenset(imports(name, text, known))}
    assert any(line.startswith(name) for line in rule(broken))


ALLOWED = [
    ("proxy.relay.call", "from classifier.records import Exchange"),
    ("proxy.store.tables", "from classifier.records import Exchange"),
    (
        "proxy.api.rollouts",
        "from truezero.models import Verdict\nfrom proxy.control.rollouts import Control",
    ),
    ("truezero.cli", LATE.format("proxy.app")),
    ("proxy.app", "from proxy.settings import Settings"),
    ("proxy.wire.dialects.cohere", "from proxy.wire.framing import sse"),
]


@pytest.mark.parametrize(("name", "text"), ALLOWED)
def test_a_door_is_open(name: str, text: str) -> None:
    tree = {name: frozenset(imports(name, text, {"proxy.wire.framing.sse"}))}
    assert [line for rule in RULES for line in rule(tree)] == []


def test_a_longer_circle_is_told_whole() -> None:
    tree = read(
        {
            "proxy.capture.observer": "import proxy.routing.rollout_keys",
            "proxy.routing.rollout_keys": "import proxy.capture.observer",
        }
    )
    assert circles(tree) == [
        "proxy.capture.observer → proxy.routing.rollout_keys → proxy.capture.observer"
    ]
