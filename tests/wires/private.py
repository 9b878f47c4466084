"""The private names that our adapters use of harnesses, and whether a release still has them."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[1] / "truezero" / "integrations" / "private_names.toml"
# An adapter's package, and by place (`file: Class.name`) what each name is for.
ADAPTERS: Mapping[str, Mapping[str, Any]] = tomllib.loads(_FILE.read_text("utf-8"))


def moved(adapter: str, version: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each name of an adapter that is not where it was, and where it may be.

    Arguments:
        modules: the source of a release of its package, by path.
    """
    package, names = ADAPTERS[adapter]["package"], ADAPTERS[adapter]["names"]
    for place, purpose in names.items():
        file, _, name = place.partition(": ")
        if name in defined(modules.get(file, "")):
            continue
        last = name.rpartition(".")[2]
        now = [
            f"{path}: {one}"
            for path, text in modules.items()
            if last in text
            for one in defined(text)
            if one.rpartition(".")[2] == last
        ]
        where = ", ".join(sorted(now)) or "nowhere"
        yield f"{package} {version}: {place} → {where}; {adapter} {purpose}"


@cache
def defined(text: str) -> set[str]:
    """Return the functions that a module defines, and what its classes do, as ``Class.name``."""
    tree = ast.parse(text)
    found = {one.name for one in tree.body if isinstance(one, _FUNCTIONS)}
    for owner in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
        found |= {f"{owner.name}.{name}" for name in _members(owner)}
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _members(owner: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(owner):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
