"""Adapters use no private name of a harness but those of private_names.toml, each for a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import truezero.integrations
from tests.wires.private import ADAPTERS

FOLDER = Path(truezero.integrations.__file__).parent
_OURS = frozenset({"self", "cls"})
_STANDARD = frozenset({"_fields", "_make", "_replace"})  # of named tuples, documented
_NOT_HARNESSES = frozenset({"_truezero", "_ng_failure_class"})  # an attribute and a key, in rows
_NAME = re.compile("_[a-z][a-z_]+")
_MODULE = re.compile(r"[a-z_]+(\.[a-z_]+)*\._[a-z_]+(\.[a-z_]+)*")


def private_names(tree: ast.AST) -> Iterator[str]:
    """Yield the private attributes of others' objects and the private modules that are used."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in _OURS:
                del name
            case ast.Attribute(attr=name) if re.match("_[a-z]", name) and name not in _STANDARD:
                yield name
            case ast.Constant(value=str(text)) if _MODULE.fullmatch(text) or _NAME.fullmatch(text):
                yield text


def defined(tree: ast.AST) -> set[str]:
    """Names that a module defines itself."""
    found = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    kept = (n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
            and isinstance(n.value, ast.Name) and n.value.id in _OURS)  # fmt: skip
    return found | set(kept)


def listed(places: Iterable[str]) -> set[str]:
    """Names as an adapter writes them: ``_name``, or a private module's."""
    parts = [place.partition(": ") for place in places]
    last = [(file, name.rpartition(".")[2]) for file, _, name in parts]
    return {
        name if name.startswith("_") else file.removesuffix(".py").replace("/", ".")
        for file, name in last
    }


def test_each_private_name_of_a_harness_is_listed_with_what_it_is_for() -> None:
    used: dict[str, set[str]] = {}
    for file in sorted(FOLDER.glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        if names := set(private_names(tree)) - defined(tree) - _NOT_HARNESSES:
            used[file.stem] = names
    assert used == {name: listed(known["names"]) for name, known in ADAPTERS.items()}
    assert all(why for known in ADAPTERS.values() for why in known["names"].values())


def test_a_private_name_is_found_in_each_form() -> None:
    text = 'self._own\njob._queue._hooks\nimport_module("inspect_ai._util.working")\nx.__name__\n'
    text += 'getattr(x, "_of_it")'
    assert sorted(private_names(ast.parse(text))) == [
        "_hooks", "_of_it", "_queue", "inspect_ai._util.working"
    ]  # fmt: skip
