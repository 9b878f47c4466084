"""Measure the source: lines of files and classes, fields of classes, duplicate class names.

``python -m tests.house`` prints what exceeds a bound, ``--all`` every figure.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("classifier", "proxy", "truezero")

FILE_LINES, CLASS_LINES, CLASS_FIELDS = 350, 200, 15
BOUNDS: Mapping[str, int] = {
    "lines of a file": FILE_LINES,
    "lines of a class": CLASS_LINES,
    "fields of a class": CLASS_FIELDS,
    "classes of one name": 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFigures:
    """Length in lines and instance attributes of one class."""

    name: str
    lines: int
    fields: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFigures:
    """One source file and its classes; ``path`` is relative to the repository's root."""

    path: str
    lines: int
    classes: tuple[ClassFigures, ...]


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """One figure that has a bound: what is measured, of what, and its value."""

    what: str
    of: str
    figure: int

    @property
    def over(self) -> bool:
        """Whether it exceeds its bound."""
        return self.figure > BOUNDS[self.what]


def read(root: Path = ROOT) -> list[FileFigures]:
    """Measure every module of the three packages."""
    files = (file for package in PACKAGES for file in sorted((root / package).rglob("*.py")))
    return [figures(file.relative_to(root).as_posix(), file.read_text("utf-8")) for file in files]


def figures(path: str, text: str) -> FileFigures:
    """Measure one module; classes inside functions and classes count too."""
    classes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))
    measured = tuple(
        ClassFigures(name=node.name, lines=_lines(node), fields=frozenset(_fields(node)))
        for node in classes
    )
    return FileFigures(path=path, lines=len(text.splitlines()), classes=measured)


def measures(files: Iterable[FileFigures]) -> list[Measure]:
    """Return all figures that have a bound."""
    files = list(files)
    result = [Measure("lines of a file", file.path, file.lines) for file in files]
    for file in files:
        for each in file.classes:
            place = f"{file.path}::{each.name}"
            result.append(Measure("lines of a class", place, each.lines))
            result.append(Measure("fields of a class", place, len(each.fields)))
    result += [
        Measure("classes of one name", name, count) for name, count in _namesakes(files).items()
    ]
    return result


def _lines(node: ast.ClassDef) -> int:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return (node.end_lineno or first) - first + 1


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """Yield names declared in the body, listed in ``__slots__`` or assigned to ``self``."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if "ClassVar" not in ast.unparse(part.annotation):
                yield part.target.id
        elif isinstance(part, ast.Assign) and _names_slots(part):
            yield from _literal(part.value)
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _set_on_self(part)


def _names_slots(part: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__slots__" for target in part.targets)


def _literal(slots: ast.expr) -> Iterable[str]:
    """Return the names in ``__slots__``; a constant's are found by their assignment to ``self``."""
    if isinstance(slots, ast.Name):
        return ()
    names: str | Iterable[str] = ast.literal_eval(slots)
    return (names,) if isinstance(names, str) else names


def _set_on_self(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if not method.args.args:
        return
    own = method.args.args[0].arg
    for node in ast.walk(method):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == own == "self"
        ):
            yield node.attr


def _namesakes(files: Iterable[FileFigures]) -> dict[str, int]:
    """Count the things each class name stands for; a REST model may share a classifier's name."""
    places: dict[str, set[str]] = defaultdict(set)
    for file in files:
        for each in file.classes:
            places[each.name].add(file.path)
    return {name: _things(paths) for name, paths in places.items()}


def _things(paths: set[str]) -> int:
    models = {path for path in paths if path.startswith("truezero/models")}
    nouns = {path for path in paths if path.startswith("classifier/")}
    return len(paths) - min(len(models), len(nouns))


def table(all_measures: Iterable[Measure]) -> str:
    """Format the measures by kind, largest first."""
    groups: dict[str, list[Measure]] = defaultdict(list)
    for measure in all_measures:
        groups[measure.what].append(measure)
    lines: list[str] = []
    for what, group in groups.items():
        over = sum(measure.over for measure in group)
        lines.append(f"{what}: at most {BOUNDS[what]}, {over} over")
        ordered = sorted(group, key=lambda measure: (-measure.figure, measure.of))
        lines += [f"  {measure.figure:5}  {measure.of}" for measure in ordered]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print what exceeds a bound, or everything."""
    result = measures(read())
    if "--all" not in arguments:
        result = [measure for measure in result if measure.over]
    print(table(result))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
