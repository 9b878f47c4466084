"""The features as the source has them: where each lies, and who imports or names whom.

Nothing is imported of the service: all is read off the files. A feature has up to four places: its
folder `proxy/features/<name>/`, and `classifier/<name>.py`, `truezero/models/<name>.py` and
`truezero/cli/<name>.py`. One of the last three that a module of the kernel imports too is the
kernel's, and is called shared.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.house import ROOT, SourceFile, read

NAMED_IN = "proxy/features/__init__.py"
FOLDER = "proxy/features"
BESIDE = ("classifier", "truezero/models", "truezero/cli")
_SOURCE = frozenset({".py", ".html", ".css", ".js", ".svg", ".toml", ".json"})
_IMPORT = re.compile(r"^ *(?:from \S+ )?import (?:\([^)]*\)|[^(\n]*$)", re.MULTILINE)
_CONTRACTS = ("loose", "features")  # those that keep features loose


class WrongImport(NamedTuple):
    """An import of a feature's module: by the kernel, or by another feature."""

    importer: str
    imported: str


class NamedLine(NamedTuple):
    """A line of the kernel that names a feature."""

    path: str
    line: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturePlaces:
    """A feature's places that exist, those that it shares with the kernel, and their sizes."""

    name: str
    places: tuple[str, ...]
    shared: tuple[str, ...]
    files: int
    lines: int
    tests: int


class Features:
    """The features of a tree, and its modules.

    ``names`` are all folders of features, whether they are switched on or not.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.on = names_in((root / NAMED_IN).read_text("utf-8"))
        folders = {each.parent.name for each in (root / FOLDER).glob("*/*.py")}
        self.names = (*self.on, *sorted(folders.difference(self.on)))
        self._files = read(root)
        self._owner: dict[str, str] = {}  # of modules in folders, then of those beside them too
        for file in self._files:
            parts = file.name.split(".")
            if file.path.startswith(f"{FOLDER}/") and len(parts) > 2:
                self._owner[file.name] = parts[2]
        self._shared: dict[str, list[str]] = {name: [] for name in self.names}
        self._own_those_beside()

    def _own_those_beside(self) -> None:
        """Give features their modules outside their folders, but those that others import too."""
        paths = {file.path: file for file in self._files}
        beside = {
            paths[path].name: name
            for name in self.names
            for folder in BESIDE
            if (path := f"{folder}/{name}.py") in paths
        }
        importers: dict[str, set[str]] = {module: set() for module in beside}
        for file in self._files:
            for module in file.imports & beside.keys():
                importers[module].add(file.name)
        while taken := [
            module
            for module, name in beside.items()
            if any((self._owner | beside).get(who) != name for who in importers[module])
        ]:
            for module in taken:
                self._shared[beside.pop(module)].append(_path_of(module))
        self._owner |= beside

    def owner(self, module: str) -> str | None:
        """Return the feature that a module belongs to; None for the kernel's."""
        return self._owner.get(module)

    def kernel(self) -> list[SourceFile]:
        """List the modules that belong to no feature."""
        return [file for file in self._files if self.owner(file.name) is None]

    def places(self, name: str) -> tuple[str, ...]:
        """Return a feature's places, from the root: its folder, then files."""
        beside = [
            path for folder in BESIDE if self.owner(_module(path := f"{folder}/{name}.py")) == name
        ]
        return (f"{FOLDER}/{name}", *beside)

    def describe(self, name: str) -> FeaturePlaces:
        """Measure one feature: templates count among its files, and blank lines among its lines."""
        places = self.places(name)
        files = [file for place in places for file in _source_files(self.root / place)]
        tests = (self.root / "tests/features" / name).rglob("*.py")
        return FeaturePlaces(
            name=name,
            places=places,
            shared=tuple(sorted(self._shared[name])),
            files=len(files),
            lines=sum(map(_lines, files)),
            tests=sum(map(_lines, tests)),
        )

    def wrong_imports(self) -> Iterator[WrongImport]:
        """Yield the imports of a feature's modules by who must not know them, late ones too."""
        for file in self._files:
            for imported in sorted(file.imports):
                owner = self.owner(imported)
                if owner is not None and self.owner(file.name) != owner:
                    yield WrongImport(file.name, imported)

    def of_kernel(self, wrong: WrongImport) -> bool:
        """Return True if it is the kernel that imports a feature, and no other feature."""
        return self.owner(wrong.importer) is None

    def named_lines(self) -> Iterator[NamedLine]:
        """Yield the lines of the kernel that name a feature, as `named_in` counts them."""
        for file in self.kernel():
            if file.path != NAMED_IN:
                text = (self.root / file.path).read_text("utf-8")
                for line, name in named_in(text, self.names):
                    yield NamedLine(file.path, line, name)


def names_in(text: str) -> tuple[str, ...]:
    """Read `NAMES` off the module that has it."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NAMES":
            names: tuple[str, ...] = ast.literal_eval(node.value)
            return names
    raise AssertionError(f"{NAMED_IN} has no NAMES")


def named_in(text: str, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each line and the feature that it names, by an import or by a module that it imported.

    An import names a feature if one of its dotted parts or imported names is the feature's name.
    Another line does if the name stands there as a module that this file imports by that name, and
    not as an attribute or an argument. Words in strings and comments do not count: settings,
    columns and sentences are facts that both sides share.
    """
    named = set(re.findall(r"\w+", " ".join(_IMPORT.findall(text))))
    if named.isdisjoint(names):  # to parse every module would take a second
        return
    imports = {}
    bound: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            parts = {part for alias in node.names for part in alias.name.split(".")}
            parts |= set((getattr(node, "module", None) or "").split("."))
            used = {alias.asname or alias.name for alias in node.names}
            bound |= used.intersection(names)
            parts |= used
            for name in sorted(parts.intersection(names)):
                imports[node.lineno, name] = range(node.lineno, (node.end_lineno or 0) + 1)
    yield from imports
    if bound:
        inside = {line for lines in imports.values() for line in lines}
        yield from sorted(_uses(text, bound, inside))


def _uses(text: str, bound: set[str], inside: set[int]) -> set[tuple[int, str]]:
    uses, before = set(), ""
    tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if (
            token.type == tokenize.NAME
            and token.string in bound
            and token.start[0] not in inside
            and before != "."
            and after.string == "."
        ):
            uses.add((token.start[0], token.string))
        before = token.string
    return uses


def exceptions(root: Path = ROOT) -> list[str]:
    """List the imports that the contracts of features except, as they are written there.

    A command of a feature's own is none, although contracts do not know whose it is.
    """
    tables = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    contracts = {each["id"]: each for each in tables["tool"]["importlinter"]["contracts"]}
    listed = [each for name in _CONTRACTS for each in contracts[name].get("ignore_imports", ())]
    return [each for each in listed if not _OWN_COMMAND.match(each)]


_OWN_COMMAND = re.compile(r"truezero\.cli\.(\w+) -> proxy\.features\.\1\b")


def is_excepted(wrong: WrongImport, excepted: Sequence[str]) -> bool:
    """Return True if an exception covers an import; `*` is one part of a name, `**` several."""
    line = f"{wrong.importer} -> {wrong.imported}"
    return any(re.fullmatch(_pattern(each), line) for each in excepted)


def _pattern(exception: str) -> str:
    escaped = re.escape(exception).replace(r"\*\*", r"\S+")
    return escaped.replace(r"\*", r"[^.\s]+")


def _source_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [file for file in sorted(place.rglob("*")) if file.suffix in _SOURCE]


def _lines(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def _path_of(module: str) -> str:
    return module.replace(".", "/") + ".py"


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Lay rows out in columns, numbers to the right."""
    heads = [*rows[0]] if rows else []
    widths = [max(len(head), *(len(str(row[head])) for row in rows)) for head in heads]
    lines = [dict(zip(heads, heads, strict=True)), *rows]
    return "\n".join(
        "  ".join(
            str(row[head]).rjust(width) if isinstance(rows[0][head], int) else
            str(row[head]).ljust(width)
            for head, width in zip(heads, widths, strict=True)
        ).rstrip()
        for row in lines
    )  # fmt: skip
