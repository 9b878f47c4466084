"""Imports follow the contracts in ``pyproject.toml``, and the rules that contracts cannot express.

``.venv/bin/lint-imports`` explains a broken contract in full. The rules here read the source and
import none of it.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("classifier", "proxy", "truezero")

# `pip install truezero` is light: only these import the service, inside the function that runs it.
# These judge by the classifier, and are loaded only by the command that needs them.
JUDGING = ("truezero.audit", "truezero.runner.card", "truezero.runner.doctor")
LAZY = (
    "truezero.cli",
    "truezero.integrations.agent_lightning",
    "truezero.one_answer",
    "truezero.runner.demo",
    "truezero.runner.drills",
    "truezero.runner.replays",
    "truezero.runner.run",
)
# Imported inside a function elsewhere: module → the modules that do so.
LATE: Mapping[str, tuple[str, ...]] = {
    "classifier.sentences": ("truezero.models.verdicts",),  # only what an old service gave
    "proxy.control.health": ("proxy.features.metrics.start",),  # startup does not wait for it
    "proxy.control_plane": ("proxy.app",),  # startup does not wait for it
    "proxy.feature": ("truezero.runner.embedded",),  # only where it starts a service
    "proxy.store.postgres": ("proxy.store.database",),  # its driver is an extra
    "truezero.cli": ("truezero.__main__",),  # Ctrl-C may come while it loads
    "truezero.models": ("proxy.features.drills.rule",),  # startup does not wait for them
    "truezero.foreign": ("classifier.__main__",),  # the files of its command line
    "truezero.one_answer": ("classifier.__main__",),  # of one option of its command line
}


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """One module importing another; ``late`` inside a function."""

    importer: str
    imported: str
    late: bool = False


Tree: TypeAlias = Mapping[str, frozenset[Import]]


def within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


# --- contracts ------------------------------------------------------------------------------


def lint_imports(root: Path) -> str:
    """Check the contracts on the source tree under ``root``; its report."""
    program = Path(sys.executable).with_name("lint-imports")
    options = ["--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml")]
    env = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(
        [program, *options], cwd=root, env=env, capture_output=True, text=True, check=False
    ).stdout


@pytest.mark.slow
def test_every_contract_is_kept() -> None:
    report = lint_imports(ROOT)
    assert ", 0 broken" in report, report


# One import that breaks each contract: its name begins with the first part.
BREACHES = [
    ("The wings of proxy/", "proxy/store/tables.py", "import proxy.control.rollouts"),
    ("The runner's side", "truezero/sdk/rollouts.py", "import truezero.runner.run"),
    ("No circle", "proxy/routing/headers.py", "import proxy.routing.target"),
    ("No circle", "proxy/routing/target.py", "import proxy.routing.headers"),
    ("Time, network", "proxy/wire/framing.py", "from time import monotonic"),
    ("The classifier knows", "classifier/causes.py", "import proxy.wire.framing"),
    ("The service shares", "proxy/control/rollouts.py", "import truezero.sdk._sync.client"),
    ("`pip install truezero`", "truezero/sdk/_sync/client.py", "import proxy.wire.framing"),
    ("The relay hands", "proxy/relay/call.py", "import proxy.store.tables"),
    ("Below control", "proxy/relay/call.py", "from classifier.causes import classify"),
    ("The store knows", "proxy/store/tables.py", "import proxy.routing.upstreams"),
    ("REST and pages", "proxy/api/routes.py", "import proxy.store.tables"),
    ("Settings are read", "proxy/control/rollouts.py", "import proxy.settings"),
    ("A dialect knows", "proxy/wire/dialects/others.py", "import proxy.wire.dialects.openai"),
    ("A dialect is reached", "proxy/wire/usage.py", "import proxy.wire.dialects.openai"),
    ("Dialects share", "proxy/wire/dialects/others.py", "import proxy.wire.routes"),
    ("A feature is named nowhere", "proxy/app.py", "import proxy.features.pace.pacer"),
    ("Features know nothing", "proxy/features/pace/hold.py", "import proxy.features.budgets"),
]


@pytest.mark.slow
def test_every_contract_notices_a_breach(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=lambda _, names: _not_source(names)
        )
    for _, path, line in BREACHES:
        file = tmp_path / path
        file.write_text(f"{file.read_text('utf-8')}\n{line}\n", "utf-8")
    report = lint_imports(tmp_path)
    assert "Contracts: 0 kept" in report, report
    broken = [line for line in report.splitlines() if " BROKEN" in line]
    assert [b for b, *_ in BREACHES if not any(line.startswith(b) for line in broken)] == []


def _not_source(names: Iterable[str]) -> set[str]:
    return {name for name in names if "." in name and not name.endswith(".py")}


# --- what contracts cannot express -----------------------------------------------------------


def read(texts: Mapping[str, str]) -> dict[str, frozenset[Import]]:
    """Each module's imports; a name that is a module of ours is resolved to that module."""
    known = frozenset(texts)
    return {name: frozenset(imports(name, text, known)) for name, text in texts.items()}


def sources(root: Path) -> dict[str, str]:
    """Map module names to sources, over the three packages."""
    files = (file for package in PACKAGES for file in sorted((root / package).rglob("*.py")))
    return {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(
            ".__init__"
        ): file.read_text("utf-8")
        for file in files
    }


# Imports inside functions are indented; of a file without one these lines are all that matters,
# and to parse all files takes a second.
_LATE = re.compile(r"^ +(?:from \S+ )?import ", re.MULTILINE)
_IMPORT = re.compile(r"^((?:from \S+ )?import (?:\([^)]*\)|[^(\n]*$))", re.MULTILINE)


def imports(name: str, text: str, known: frozenset[str]) -> Iterator[Import]:
    tree = ast.parse(text if _LATE.search(text) else "\n".join(_IMPORT.findall(text)))
    for node, late in statements(tree):
        for imported in imported_by(node, known):
            yield Import(name, imported, late)


def statements(node: ast.AST, late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement below a node that runs, and whether it is inside a function."""
    late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child, late
            yield from statements(child, late)


def imported_by(node: ast.AST, known: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are written from the root"
        base = node.module or ""
        for alias in node.names:
            whole = f"{base}.{alias.name}"
            yield whole if whole in known else base


def outside_the_standard_library(each: Import) -> bool:
    """Contracts can forbid packages by name, not allow the standard library only."""
    allowed = sys.stdlib_module_names | {"classifier"}
    return (
        within(each.importer, ["classifier"])
        and each.imported.split(".")[0] not in allowed
        and not (each.late and each.importer in LATE.get(each.imported, ()))
    )


def service_imported_at_start(each: Import) -> bool:
    """Contracts do not tell an import inside a function from one at the top of a module."""
    if within(each.importer, JUDGING):
        return within(each.imported, ["proxy"])
    return (
        within(each.importer, ["truezero"])
        and within(each.imported, ["proxy", "classifier", *JUDGING])
        and not (each.late and within(each.importer, (*LAZY, *LATE.get(each.imported, ()))))
    )


def late_without_reason(each: Import) -> bool:
    return (
        each.late
        and within(each.imported, PACKAGES)
        and not within(each.importer, LAZY)
        and each.importer not in LATE.get(each.imported, ())
    )


Rule: TypeAlias = Callable[[Import], bool]
RULES: tuple[Rule, ...] = (
    outside_the_standard_library,
    service_imported_at_start,
    late_without_reason,
)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return read(sources(ROOT))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_follows_the_rule(tree: Tree, rule: Rule) -> None:
    assert sorted(each for imports in tree.values() for each in imports if rule(each)) == []


def test_every_late_import_that_is_allowed_exists(tree: Tree) -> None:
    expected = {
        Import(who, whom, late=True) for whom, importers in LATE.items() for who in importers
    }
    assert sorted(expected - frozenset().union(*tree.values())) == []


# --- foreign files and answers ---

# Readers of what other programs wrote; each parser has one home, which bounds it.
READERS = ("truezero", "classifier.__main__", "proxy.features.exports")
PARSERS = frozenset(
    f"{module}.{name}"
    for module in ("json", "orjson", "pickle", "marshal")
    for name in ("load", "loads")
)
UNPACKERS = frozenset(
    ("zipfile", "tarfile", "gzip", "bz2", "lzma", "zlib", "zstandard", "brotli", "shelve")
)
HOMES: Mapping[str, frozenset[str]] = {
    "proxy.features.exports.archive": frozenset(("orjson.loads",)),  # it bounds depth by itself
    "truezero.audit.zips": frozenset(("zipfile", "zlib", "zstandard")),
    "truezero.foreign": frozenset(("json.loads",)),
    "truezero.runner.demo": frozenset((".json()",)),  # of its own provider
}


def parsers(text: str) -> Iterator[str]:
    """Yield the parsers and unpackers that a module uses."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                if f"{module}.{name}" in PARSERS:
                    yield f"{module}.{name}"
            case ast.ImportFrom(module=str(module), names=names):
                yield from (
                    each for alias in names if (each := f"{module}.{alias.name}") in PARSERS
                )
                if module in UNPACKERS:
                    yield module
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name in UNPACKERS)
            case ast.Call(func=ast.Attribute(attr="json"), args=[], keywords=[]):
                yield ".json()"


def test_what_others_wrote_is_parsed_and_unpacked_in_one_place() -> None:
    suspect = re.compile(r"\bload|\.json\(\)|" + "|".join(sorted(UNPACKERS)))
    used = {
        name: frozenset(parsers(text))
        for name, text in sources(ROOT).items()
        if within(name, READERS) and suspect.search(text)
    }
    assert {name: each for name, each in used.items() if each} == HOMES


@pytest.mark.parametrize(
    ("text", "parser"),
    [
        ("import json\njson.loads('1')", "json.loads"),
        ("from json import load", "json.load"),
        ("import orjson\nread = orjson.loads", "orjson.loads"),
        ("def f():\n    import zipfile", "zipfile"),
        ("from gzip import open", "gzip"),
        ("answer.json()", ".json()"),
    ],
)
def test_a_parser_of_what_others_wrote_is_noticed(text: str, parser: str) -> None:
    assert list(parsers(text)) == [parser]


INSIDE = "def f():\n    import {}\n"


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (outside_the_standard_library, "classifier.codec", "import orjson"),
        (outside_the_standard_library, "classifier.codec", INSIDE.format("orjson")),
        (service_imported_at_start, "truezero.cli", "from proxy.app import build"),
        (service_imported_at_start, "truezero.sdk._sync.client", INSIDE.format("proxy.app")),
        (
            service_imported_at_start,
            "truezero.cli.audit",
            "from truezero.audit import run",
        ),
        (service_imported_at_start, "truezero.audit.report", "from proxy.app import build"),
        (late_without_reason, "proxy.relay.call", INSIDE.format("proxy.capture.observer")),
        (late_without_reason, "proxy.relay.call", INSIDE.format("truezero.models")),
    ],
)
def test_a_rule_notices_a_breach(rule: Rule, name: str, text: str) -> None:
    assert any(rule(each) for each in imports(name, text, frozenset()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("classifier.codec", "import json"),
        ("truezero.cli", INSIDE.format("proxy.app")),
        ("truezero.cli.audit", INSIDE.format("truezero.audit.report")),
        ("truezero.audit.judge", "from classifier.rules import judge"),
        ("truezero.sdk.rollouts", "if TYPE_CHECKING:\n    from classifier.rules import judge"),
        ("proxy.app", INSIDE.format("proxy.control_plane")),
    ],
)
def test_what_is_allowed_passes(name: str, text: str) -> None:
    assert not any(rule(each) for each in imports(name, text, frozenset()) for rule in RULES)
