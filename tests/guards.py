"""Guards for merging and moving tests: ``python -m tests.guards names|coverage|mutants``.

What tests hold before must still be held after. ``--record FILE`` writes what is so now,
``--against FILE`` compares with it and exits with 1 where something was lost. Nothing is known by
its file: a test by its class and name, a function of the product by its syntax, so that moving
either changes nothing.

``names``: every collected test is still there, but for those of ``tests/dropped.txt`` (a name, a
colon, the reason). ``coverage``: no function has a branch or line that tests executed before and do
not now (``-- -k "not loads_no"`` leaves out tests of what a process loads: measured, it loads
more). ``mutants``: of 400 small changes to functions, drawn by a fixed seed, none that was found
before passes now. Each runs the tests that execute its function. ``--record`` goes on where it was
interrupted; ``--only N`` stops after N. Options behind ``--`` go to pytest.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.house import PACKAGES, ROOT

DROPPED = Path(__file__).parent / "dropped.txt"
MUTANTS = 400
SEED = 35
# How much more often a function of a room is drawn: there a fault costs a rollout or a record.
RISK = {"proxy/relay/": 4, "proxy/recording/": 4, "proxy/store/": 2, "classifier/": 2}
# An endless loop is a found mutant; the tests of one function take this many times as long at most.
_PATIENCE, _LEAST_PATIENCE_S = 20, 300.0

# A mutant of the same length, written within the same second, would be taken for its original.
_NO_STALE = {"PYTHONDONTWRITEBYTECODE": "1"}

Lines = frozenset[str]


# --- functions of the product ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function or method: a digest of its syntax, its name, its lines (first to last)."""

    key: str
    name: str
    path: str
    first: int
    last: int
    node: ast.FunctionDef | ast.AsyncFunctionDef


def functions(root: Path, packages: Sequence[str] = PACKAGES) -> list[Function]:
    """Return the functions and methods of the packages; an inner one belongs to its outer one."""
    paths = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    return [
        function
        for path in paths
        for function in functions_of(path.read_text("utf-8"), path.relative_to(root).as_posix())
    ]


def functions_of(text: str, path: str) -> Iterator[Function]:
    """Yield the functions and methods of one module."""
    yield from _functions(ast.parse(text), path, "")


def _functions(tree: ast.AST, path: str, prefix: str) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, path, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(
                key=_digest(ast.dump(_undocumented(node))),
                name=f"{prefix}{node.name}",
                path=path,
                first=min([node.lineno, *(each.lineno for each in node.decorator_list)]),
                last=node.end_lineno or node.lineno,
                node=node,
            )
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, path, prefix)


def _undocumented(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
    if ast.get_docstring(node) is None:
        return node
    bare = copy.copy(node)
    bare.body = node.body[1:]
    return bare


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- names -------------------------------------------------------------------------------------


def collected(root: Path, arguments: Sequence[str] = ()) -> Counter[str]:
    """Count the tests that pytest collects, by class and name with parameters.

    Raises:
        SystemExit: they cannot be collected.
    """
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        raise SystemExit(f"pytest cannot collect the tests:\n{run.stdout[-2000:]}{run.stderr}")
    nodes = [line for line in run.stdout.splitlines() if "::" in line]
    return Counter(node.partition("::")[2] for node in nodes)


def dropped(text: str) -> set[str]:
    """Read the names of tests that may go.

    Raises:
        SystemExit: one has no reason.
    """
    names = set()
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            if not reason.strip():
                raise SystemExit(f"dropped.txt: {name} has no reason")
            names.add(name)
    return names


def lost_names(before: Mapping[str, int], after: Mapping[str, int], allowed: set[str]) -> list[str]:
    """Return the tests that are gone; of one in the list, parameters and all."""
    gone = Counter(before) - Counter(after)
    return sorted(name for name in gone if not {name, name.partition("[")[0]} & allowed)


# --- coverage ----------------------------------------------------------------------------------


def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Tell coverage which test begins; pytest calls it with ``-p tests.guards``."""
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """The lines and branches of each function that tests executed, and those tests.

    ``lines`` by function: ``3`` is its fourth line, ``3-5`` a branch. ``tests`` by function.
    """

    lines: Mapping[str, Lines]
    tests: Mapping[str, frozenset[str]]


def executed(root: Path, arguments: Sequence[str], packages: Sequence[str] = PACKAGES) -> Executed:
    """Run tests under coverage, processes that they start too, and read what was executed.

    Raises:
        SystemExit: a test fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "coveragerc"
        config.write_text(
            "[run]\nbranch = true\nparallel = true\nrelative_files = true\npatch = subprocess\n"
            f"data_file = {folder}/data\nsource =\n"
            + "".join(f"    {root / package}\n" for package in packages)
        )
        cover = [sys.executable, "-m", "coverage"]
        with_config = [f"--rcfile={config}"]
        plugin = ["-m", "pytest", "-q", "-p", "tests.guards", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(ROOT)))}
        run = subprocess.run(
            [*cover, "run", *with_config, *plugin, *arguments],
            cwd=root, env=environment, check=False,
        )  # fmt: skip
        if run.returncode != 0:
            raise SystemExit("tests fail: what they execute says nothing")
        report = Path(folder) / "report.json"
        for command in (["combine", "-q"], ["json", "-q", "-o", str(report)]):
            subprocess.run([*cover, *command, *with_config], cwd=root, check=True)
        data = coverage.CoverageData(f"{folder}/data")
        data.read()
        # A file at a time: the tests of every line at once are 20 GB.
        return by_function(
            json.loads(report.read_text("utf-8")), functions(root, packages),
            functools.lru_cache(maxsize=1)(data.contexts_by_lineno),
        )  # fmt: skip


def by_function(
    report: Mapping[str, Any],
    known: Iterable[Function],
    contexts_of: Callable[[str], Mapping[int, Iterable[str]]],
) -> Executed:
    """Divide coverage's report of files among their functions; equal functions are one.

    Arguments:
        contexts_of: of a file, the tests that executed each of its lines.
    """
    lines: dict[str, Lines] = {}
    tests: dict[str, frozenset[str]] = {}
    for function in known:
        file = report["files"].get(function.path)
        if file is None:
            continue
        start, body = function.first, range(function.first + 1, function.last + 1)
        seen = {str(line - start) for line in file["executed_lines"] if line in body}
        seen |= {
            f"{a - start}-{b - start if b > 0 else 'exit'}"
            for a, b in file["executed_branches"]
            if a in body
        }
        contexts = contexts_of(function.path)
        callers = {name for line in body for name in contexts.get(line, ()) if name}
        lines[function.key] = lines.get(function.key, frozenset()) | seen
        tests[function.key] = tests.get(function.key, frozenset()) | callers
    return Executed(lines=lines, tests=tests)


def lost_lines(
    before: Mapping[str, Iterable[str]], after: Mapping[str, Lines]
) -> dict[str, list[str]]:
    """Return what is no longer executed, by function; one that changed or went is not compared."""
    lost = {key: sorted(set(seen) - after[key]) for key, seen in before.items() if key in after}
    return {key: gone for key, gone in lost.items() if gone}


# --- mutants -----------------------------------------------------------------------------------


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def _mutate(node: ast.AST) -> ast.AST | None:
    """Return a changed copy of one node; None where nothing is changed about its kind."""
    changed: Any = copy.copy(node)  # only its own fields change
    match node:
        case ast.Compare(ops=[only]) if type(only) in _COMPARISONS:
            changed.ops = [_COMPARISONS[type(only)]()]
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            changed = changed.operand
        case ast.Constant(value=bool()):
            changed.value = not node.value
        case ast.Constant(value=int()):
            changed.value = int(node.value) + 1  # type: ignore[arg-type]
        case ast.BinOp(op=ast.Add()):
            changed.op = ast.Sub()
        case ast.BinOp(op=ast.Sub()):
            changed.op = ast.Add()
        case ast.If() | ast.IfExp():
            changed.test = ast.UnaryOp(op=ast.Not(), operand=changed.test)
        case ast.Return(value=value) if value is not None and not _is_none(value):
            changed.value = ast.Constant(value=None)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            changed = ast.Pass()
        case _:
            return None
    result: ast.AST = ast.copy_location(changed, node)
    return result


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def mutable(function: Function) -> list[ast.AST]:
    """Return the nodes of a function that `mutant` can change, its signature left out."""
    return _mutable(function.node)


def _mutable(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    body = [each for statement in node.body for each in ast.walk(statement)]
    return [each for each in body if _mutate(each) is not None]


def mutant(function: Function, number: int) -> str:
    """Return the source of a function with the mutable node of that number changed."""
    whole = copy.deepcopy(function.node)
    old = _mutable(whole)[number]
    changed = _mutate(old)
    assert changed is not None
    replacing = _Replacing(old, changed)
    whole.body = [replacing.visit(statement) for statement in whole.body]
    return ast.unparse(ast.fix_missing_locations(whole))


def drawn(known: Iterable[Function], count: int, seed: int = SEED) -> list[tuple[Function, int]]:
    """Draw functions, with the number of the node to change, weighted by risk.

    A function's draw depends on the seed and its syntax, not on the others: one that is added,
    moved or removed changes no other's.
    """
    each = {function.key: function for function in known}
    ranked = sorted(each.values(), key=lambda function: _rank(function, seed))
    choices = ((function, len(mutable(function))) for function in ranked)
    chosen = islice(((function, nodes) for function, nodes in choices if nodes), count)
    return [
        (function, random.Random(f"{seed}{function.key}").randrange(nodes))
        for function, nodes in chosen
    ]


def _rank(function: Function, seed: int) -> float:
    weight = next((w for room, w in RISK.items() if function.path.startswith(room)), 1)
    return float(random.Random(f"{seed}-{function.key}").random() ** (1 / weight)) * -1


def mutated(text: str, function: Function, number: int) -> str:
    """Return a module's text with one function changed."""
    lines = text.splitlines(keepends=True)
    indent = " " * function.node.col_offset
    source = "".join(f"{indent}{line}\n" for line in mutant(function, number).splitlines())
    return "".join((*lines[: function.first - 1], source, *lines[function.last :]))


Run = Callable[[Path, Sequence[str], float | None], bool]


def passes(root: Path, tests: Sequence[str], patience_s: float | None) -> bool:
    """Run tests, given as pytest names them; False where one fails or they take too long."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(tests))
        names.flush()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        with subprocess.Popen(
            [*command, f"@{names.name}"],
            cwd=root, env={**os.environ, "PYTHONPATH": str(root), **_NO_STALE},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as run:  # fmt: skip
            try:
                return run.wait(patience_s) == 0
            except subprocess.TimeoutExpired:
                run.kill()
                return False


def tried(root: Path, function: Function, number: int, tests: Sequence[str], run: Run) -> str:
    """Try one mutant in a tree that may be changed: ``found``, ``missed`` or ``untested``.

    Raises:
        SystemExit: its tests fail without it.
    """
    if not tests:
        return "untested"
    file = root / function.path
    text = file.read_text("utf-8")
    began = time.monotonic()
    if not run(root, tests, None):
        raise SystemExit(f"the tests of {function.name} fail as it is")
    patience = max(_LEAST_PATIENCE_S, _PATIENCE * (time.monotonic() - began))
    file.write_text(mutated(text, function, number), "utf-8")
    try:
        return "missed" if run(root, tests, patience) else "found"
    finally:
        file.write_text(text, "utf-8")


def try_mutants(
    root: Path,
    tests: Mapping[str, Iterable[str]],
    results: dict[str, str],
    *,
    only: int | None,
    keep: Callable[[dict[str, str]], None],
    packages: Sequence[str] = PACKAGES,
    run: Run = passes,
) -> None:
    """Try the drawn mutants that have no result yet, in a copy of the tree.

    Arguments:
        tests: by function, those that execute it.
        results: by function and node; added to.
        keep: called with the results after each mutant.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__"))
        known = {function.key: function for function in functions(tree, packages)}
        waiting = [
            (function, number)
            for function, number in drawn(known.values(), MUTANTS)
            if f"{function.key}:{number}" not in results
        ][:only]
        for done, (function, number) in enumerate(waiting, 1):
            callers = sorted(tests.get(function.key, ()))
            result = tried(tree, function, number, callers, run)
            results[f"{function.key}:{number}"] = result
            keep(results)
            _say(f"{done:4} of {len(waiting)}  {result:8}  {function.path} {function.name}")


def lost_mutants(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the mutants that were found before, were tried again and are not found now."""
    return [each for each, was in before.items()
            if was == "found" and after.get(each, was) != "found"]  # fmt: skip


# --- command line ------------------------------------------------------------------------------


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _write(file: Path, found: object) -> None:
    file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


def _names(before: dict[str, int] | None, options: argparse.Namespace) -> tuple[object, list[str]]:
    now = collected(ROOT, options.pytest)
    allowed = dropped(DROPPED.read_text("utf-8")) if DROPPED.exists() else set()
    _say(f"{now.total():,} tests")
    return dict(now), lost_names(before or {}, now, allowed)


def _coverage(
    before: dict[str, Any] | None, options: argparse.Namespace
) -> tuple[object, list[str]]:
    now = executed(ROOT, options.pytest)
    known = {function.key: function for function in functions(ROOT)}
    seen = sum(bool(lines) for lines in now.lines.values())
    _say(f"{seen:,} of {len(known):,} functions are executed")
    lost = lost_lines((before or {}).get("lines", {}), now.lines)
    told = [f"{known[key].path} {known[key].name}: {', '.join(gone)}" for key, gone in lost.items()]
    found = {
        "lines": {key: sorted(lines) for key, lines in now.lines.items()},
        "tests": {key: sorted(tests) for key, tests in now.tests.items()},
    }
    return found, told


def _mutants(
    before: dict[str, Any] | None, options: argparse.Namespace
) -> tuple[object, list[str]]:
    tests = json.loads(options.coverage.read_text("utf-8"))["tests"]
    file: Path | None = options.record
    results: dict[str, str] = {}
    if file is not None and file.exists():
        results = json.loads(file.read_text("utf-8"))
    keep = (lambda found: _write(file, found)) if file is not None else (lambda _: None)
    try_mutants(ROOT, tests, results, only=options.only, keep=keep)
    _say(", ".join(f"{n} {how}" for how, n in sorted(Counter(results.values()).items())))
    names = {function.key: f"{function.path} {function.name}" for function in functions(ROOT)}
    lost = lost_mutants(before or {}, results)
    return results, [f"{names.get(each.partition(':')[0])} ({each})" for each in lost]


_GUARDS = {"names": _names, "coverage": _coverage, "mutants": _mutants}


def main(arguments: Sequence[str] | None = None) -> int:
    """Record or compare; return 1 where something was lost."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    cut = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("guard", choices=_GUARDS)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what is so now")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what was so")
    parser.add_argument("--only", type=int, metavar="N", help="try this many mutants")
    parser.add_argument("--coverage", type=Path, metavar="FILE",
                        help="of mutants: what `coverage --record` wrote")  # fmt: skip
    options = parser.parse_args(given[:cut])
    options.pytest = given[cut + 1 :]
    if options.guard == "mutants" and options.coverage is None:
        parser.error("mutants need --coverage FILE, as `coverage --record FILE` writes it")
    before = json.loads(options.against.read_text("utf-8")) if options.against else None
    found, lost = _GUARDS[options.guard](before, options)
    if options.record is not None:
        _write(options.record, found)
    for line in lost:
        _say(f"lost: {line}")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
