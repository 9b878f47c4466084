"""A copy of the tree without some features: their places and their words are gone from it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from tests.features.figures import NAMED_IN, Features, names_in
from tests.house import ROOT

COPIED = (
    "classifier", "proxy", "truezero", "tests", "docs", "deploy", "pyproject.toml", "setup.py",
)  # fmt: skip
COMMANDS = "truezero/cli/__init__.py"
_CLI = "truezero/cli/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The words of features that the service and its command must no longer know.

    ``routes`` are methods and paths.
    """

    settings: tuple[str, ...]
    commands: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]


def copy_tree(target: Path, root: Path = ROOT) -> None:
    """Copy the files that git tracks, and those that are new, of what the service and tests need.

    Without git, all but what programs leave behind is copied. What Python compiled of them comes
    along, and holds as their times do: to compile all anew would take most of a copy's CPU.
    """
    for path in _tracked(root) if (root / ".git").exists() else _present(root):
        source = root / path
        compiled = Path(cache_from_source(str(source))) if source.suffix == ".py" else None
        for each in (source, compiled):
            if each is not None and each.is_file():  # and not deleted since the last commit
                copied = target / each.relative_to(root)
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(each, copied)


def _tracked(root: Path) -> Iterable[str]:
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard", *COPIED]
    return filter(None, subprocess.check_output(command, text=True).split("\0"))


def _present(root: Path) -> Iterable[str]:
    files = (each for name in COPIED for each in [root / name, *(root / name).rglob("*")])
    left = ("__pycache__", ".db")
    return (
        each.relative_to(root).as_posix()
        for each in files
        if each.is_file() and not any(word in each.as_posix() for word in left)
    )


def remove(copy: Path, names: Collection[str]) -> None:
    """Delete features from a copy: up to four places each, and every word of theirs.

    A word stands in `NAMES`, in `COMMANDS` of the command line, in the compiled modules of
    `setup.py`, and in contracts, of whose modules and imports import-linter misses none.
    """
    features = Features(copy)
    gone = [place for name in names for place in features.places(name)]
    for place in gone:
        if (copy / place).is_dir():
            shutil.rmtree(copy / place)
        else:
            (copy / place).unlink()
        shutil.rmtree(copy / "tests/features" / Path(place).name, ignore_errors=True)
    switch_off(copy, names)
    modules = {place.removeprefix(_CLI).removesuffix(".py") for place in gone if _CLI in place}
    _edit(copy / COMMANDS, lambda text: _without(text, lambda _, value: _of(value, modules)))
    compiled = re.compile(rf"features/(?:{'|'.join(names)})(?:/|$)")
    _edit(
        copy / "setup.py",
        lambda text: _without(text, lambda key, _: bool(compiled.match(str(key)))),
    )
    # A contract may list modules of a feature, and except imports: one a line, or several on one.
    listed = re.compile(rf'"[^"\n]*\bproxy\.features\.(?:{"|".join(names)})\b[^"\n]*",? *(?:#.*)?')
    _edit(copy / "pyproject.toml", lambda text: listed.sub("", text))


def switch_off(copy: Path, names: Collection[str]) -> None:
    """Delete words from `NAMES` of a copy, and leave the folders."""
    file = copy / NAMED_IN
    left = tuple(name for name in names_in(file.read_text("utf-8")) if name not in names)
    _edit(file, lambda text: re.sub(r"^NAMES = \([^)]*\)", f"NAMES = {left!r}", text, flags=re.M))


def traces(names: Collection[str]) -> Traces:
    """Collect the words of features of this tree."""
    from proxy.feature import features
    from proxy.features import NAMES
    from truezero import cli

    found, modules = Features(), {}
    for name in names:
        for place in found.places(name):
            modules[place.removeprefix(_CLI).removesuffix(".py")] = name
    here = {name: feature for name, feature in features().items() if name in names}
    assert here.keys() <= set(NAMES)
    settings, routes = [], []
    for name, feature in here.items():
        if feature.settings:
            settings += _part(name, "settings").SETTINGS.model_fields
        if feature.plane:
            for route in _part(name, "plane").PLANE.routes:
                routes += [(method, route.path) for method in sorted(route.methods)]
    commands = [
        command
        for rows in cli.COMMANDS.values()
        for command, (function, _) in rows.items()
        if function.partition(":")[0] in modules
    ]
    return Traces(settings=tuple(settings), commands=tuple(commands), routes=tuple(routes))


def _part(name: str, part: str) -> Any:
    return import_module(f"proxy.features.{name}.{part}")


def as_argument(traced: Traces) -> str:
    """Write traces as an argument of a command."""
    return json.dumps([traced.settings, traced.commands, traced.routes])


def from_argument(text: str) -> Traces:
    """Read them again."""
    settings, commands, routes = json.loads(text)
    return Traces(
        settings=tuple(settings),
        commands=tuple(commands),
        routes=tuple((method, path) for method, path in routes),
    )


def _of(value: ast.expr, modules: Collection[str]) -> bool:
    """Return True if a row of COMMANDS names a function of one of these modules."""
    if not isinstance(value, ast.Tuple) or not isinstance(value.elts[0], ast.Constant):
        return False
    return str(value.elts[0].value).partition(":")[0] in modules


def _without(text: str, is_gone: Callable[[object, ast.expr], bool]) -> str:
    """Leave out the entries of dictionaries of which that is true, whole lines each."""
    lines: Sequence[str] = text.splitlines(keepends=True)
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and is_gone(key.value, value):
                    dropped |= {*range(key.lineno, (value.end_lineno or key.lineno) + 1)}
    return "".join(line for number, line in enumerate(lines, 1) if number not in dropped)


def _edit(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text("utf-8")), "utf-8")
