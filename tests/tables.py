"""A table of cases as one test: a test of pytest's costs more than most cases do."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any


def lines(file: Path) -> list[dict[str, Any]]:
    """Read the objects of a file of JSON lines."""
    return [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]


def write_lines(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write objects as a file of JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    file.write_text(text, "utf-8")


@functools.cache
def sources() -> tuple[tuple[str, str], ...]:
    """Read where each row of each table stands, and its source.

    What a release that is out has left has none: the file's name is the source of all its rows.
    """
    tests = Path(__file__).parent
    left = {tests / "golden/seed_0_1_0.jsonl", *tests.glob("proxy/store/releases/*.jsonl")}
    return tuple(
        (f"{file.relative_to(tests)}:{number}", row.get("source", ""))
        for file in sorted({*tests.rglob("*.jsonl")} - left)
        for number, row in enumerate(lines(file), 1)
    )


def each(
    names: str, cases: Iterable[Any], *, ids: Callable[[Any], object] = str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test once with each case; as ``pytest.mark.parametrize``, but as one test.

    All cases run, whatever fails; each that failed is told by its id, with its traceback. They
    share the test's fixtures.

    Arguments:
        names: of the test's arguments that make a case, separated by commas.
        cases: what they are: a value where there is one argument, else a tuple of values.
        ids: tells a case's id.

    Raises:
        ExceptionGroup: from the test, of what failed.
        ValueError: there is no case.
    """
    told, table = [name.strip() for name in names.split(",")], list(cases)
    if not table:
        raise ValueError(f"no cases of {names}")

    def given(case: Any) -> dict[str, Any]:
        return dict(zip(told, (case,) if len(told) == 1 else case, strict=True))

    def merged(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for case in table:
                with _noting(failed, ids(case)):
                    test(**fixtures, **given(case))
            _raise(failed, len(table))

        @functools.wraps(test)
        async def wait(**fixtures: Any) -> None:
            failed: list[Exception] = []
            for case in table:
                with _noting(failed, ids(case)):
                    await test(**fixtures, **given(case))
            _raise(failed, len(table))

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in told]
        whole: Any = wait if inspect.iscoroutinefunction(test) else run
        whole.__signature__ = signature.replace(parameters=kept)
        return whole  # type: ignore[no-any-return]

    return merged


@contextlib.contextmanager
def _noting(failed: list[Exception], case: object) -> Iterator[None]:
    """Keep what is raised, with the case's id."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the case [{case}]")
        failed.append(error)


def _raise(failed: list[Exception], cases: int) -> None:
    if failed:
        named = "; ".join(error.__notes__[-1] for error in failed)
        raise ExceptionGroup(f"{len(failed)} of {cases} cases: {named}", failed)
