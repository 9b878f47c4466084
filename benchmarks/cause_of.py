"""What `truezero.cause_of` makes of labelled answers, beside what harnesses do without it.

    python -m benchmarks.cause_of [--write]

The corpus lies beside the project, or where TRUEZERO_CORPUS says. ``--write`` writes
``docs/measurements/cause-of.md``. What its import costs is measured in the same run.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import description
from classifier.causes import status_only
from tests.corpus_score import Labelled, corpus_folder, files, labelled, score
from truezero import cause_of

PAGE = Path(__file__).parents[1] / "docs" / "measurements" / "cause-of.md"
REQUEST = b'{"model": "m", "stream": true}'  # as the corpus is read elsewhere
TRANSIENT = frozenset(("rate_limit", "provider_error"))
Found = tuple[str, bool] | None  # the cause, and whether it is transient
Reader = Callable[[Labelled], Found]


# --- readers ---


def judge(row: Labelled) -> Found:
    return _judged(row, url=row.path)


def judge_without_url(row: Labelled) -> Found:
    return _judged(row, url="")


def _judged(row: Labelled, *, url: str) -> Found:
    headers = [(name.decode(), value.decode("utf-8", "replace")) for name, value in row.headers]
    found = cause_of(row.status, headers, row.body, url=url, request=REQUEST, upstream=row.provider)
    return None if found is None else (found.cause, found.transient)


# Of openai-python, src/openai/_client.py, _make_status_error; a body that is no JSON is the text.
_CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}


def exception_text(row: Labelled) -> str:
    """The text of the exception that an SDK raises for a refused call."""
    kind = _CLASSES.get(
        row.status, "InternalServerError" if row.status >= 500 else "APIStatusError"
    )
    return f"openai.{kind}: Error code: {row.status} - {row.body.decode('utf-8', 'replace')}"


def judge_exception(row: Labelled) -> Found:
    if row.status < 400:
        return None
    found = cause_of(exception=exception_text(row), upstream=row.provider)
    return None if found is None else (found.cause, found.transient)


def by_status(row: Labelled) -> Found:
    found = status_only(row.status)
    return None if found is None else (found.value, found.transient)


# Patterns as harnesses have them, over an exception's text; the first that is found decides.
PATTERNS = (
    ("quota", r"insufficient_quota|exceeded your current quota|billing|credit|balance|payment"),
    ("rate_limit", r"rate.?limit|too many requests|\b429\b"),
    ("auth", r"api.?key|unauthorized|authenticat|permission|forbidden|\b40[13]\b"),
    ("model_not_found", r"model.{0,80}(?:not found|not exist|does not)|\b404\b"),
    ("rejected_request", r"context.?length|content.?(?:filter|policy)|\b4(?:00|22)\b"),
    ("provider_error", r"overloaded|unavailable|timed? ?out|connection|server error|\b5\d\d\b"),
)  # fmt: skip


def by_patterns(row: Labelled) -> Found:
    if row.status < 400:
        return None
    text = exception_text(row)
    for cause, pattern in PATTERNS:
        if re.search(pattern, text, re.IGNORECASE):
            return cause, cause in TRANSIENT
    return None


def any_exception(row: Labelled) -> Found:
    return ("provider_error", True) if row.status >= 400 else None


READERS: dict[str, Reader] = {
    "`cause_of`": judge,
    "`cause_of` without `url`": judge_without_url,
    "`cause_of` of the exception's text": judge_exception,
    "table of statuses": by_status,
    "list of patterns": by_patterns,
    "any exception": any_exception,
}


# --- scores ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What a reader made of the rows; one with a defensible second answer is right either way."""

    cause: int
    transient: int
    missed: int  # failures of which nothing is said
    misread: int  # healthy answers that are called failures

    @classmethod
    def of(cls, rows: Sequence[Labelled], reader: Reader) -> Scored:
        found = [(row, reader(row)) for row in rows]
        return cls(
            cause=sum(r.doubt or (f and f[0]) == r.category for r, f in found),
            transient=sum(r.doubt or bool(f and f[1]) == bool(r.transient) for r, f in found),
            missed=sum(r.category is not None and f is None for r, f in found),
            misread=sum(r.category is None and f is not None for r, f in found),
        )


def as_on_the_wire(rows: Sequence[Labelled]) -> int:
    """Count the rows of which ``cause_of`` says what the proxy's observer does."""
    wire = (judged.cause for judged in score(rows).judged)
    return sum(
        judge(row) == (None if cause is None else (cause.subcategory.value, cause.transient))
        for row, cause in zip(rows, wire, strict=True)
    )


# --- what it costs ---

COSTS = {
    "nothing": "pass",
    "`import classifier`": "import classifier",
    "`from classifier import classify`": "from classifier import classify",
    "`from classifier import judge`": "from classifier import judge",
    "`from truezero import cause_of`": "from truezero import cause_of",
    "the same, and an answer": "from truezero import cause_of; cause_of(429, (), b'{}')",
    "the same, and an exception": "from truezero import cause_of; cause_of(exception='openai.x')",
}


def costs(rounds: int) -> dict[str, float]:
    """CPU milliseconds of a fresh process beyond one that does nothing; the median, in turns."""
    spent: dict[str, list[float]] = {name: [] for name in COSTS}
    for _ in range(rounds):
        for name, code in COSTS.items():
            spent[name].append(_cpu_ms(code))
    middle = {name: statistics.median(each) for name, each in spent.items()}
    return {name: middle[name] - middle["nothing"] for name in COSTS if name != "nothing"}


def _cpu_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1_000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


# --- page ---

_HEAD = """# The judge by itself, beside what harnesses do

| measured | machine | command |
|---|---|---|
| {date} | {python}, {cores} cores of an {processor} | `python -m benchmarks.cause_of --write` |

<!-- measured -->
{rows} labelled answers of {providers} providers, gateways and engines: {failures} failures, of
which {inside} came inside an HTTP 200, and {healthy} healthy look-alikes. They were gathered from
public recordings and reports, and are not part of the project. The cause table was written with
them at hand: the figures show what reading an answer is worth, not how well one is read that
nobody has seen.

- [`cause_of`](../guides/judge-by-itself.md) is given status, headers, body, URL and provider.
- The exception's text is what openai's client says of a status from 400 on. It knows nothing of a
  failure inside a 200, and neither do the three below it.
- The table of statuses is benchflow's (`classifier.status_only`).
- The list of patterns is in the manner of harnesses, {patterns} of them, read over the same text.
- Any exception: a status from 400 on is a transient failure of the provider.

On {same} of the {rows} `cause_of` says the cause that the proxy's observer records.

| | cause right | transient right | failures missed | healthy called failed |
|---|--:|--:|--:|--:|"""
_COSTS = """
An answer with a defensible second label is right either way.

## What it costs

CPU of a fresh process beyond one that does nothing, median of {rounds}, taken in turns:

| | ms |
|---|--:|"""
_FOOT = """
`classifier` loads its modules when a name is asked for; `cause_of` loads them at the first call."""


def page(rows: Sequence[Labelled], rounds: int) -> str:
    """Return the page, in Markdown."""
    failures = [row for row in rows if row.category is not None]
    lines = [
        _HEAD.format(
            rows=len(rows),
            providers=len({row.provider for row in rows}),
            failures=len(failures),
            inside=sum(row.status < 400 for row in failures),
            healthy=len(rows) - len(failures),
            patterns=len(PATTERNS),
            same=as_on_the_wire(rows),
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            **description(),
        )
    ]
    for name, reader in READERS.items():
        found = Scored.of(rows, reader)
        shares = [f"{100 * right / len(rows):.1f} %" for right in (found.cause, found.transient)]
        lines.append(f"| {name} | {' | '.join(shares)} | {found.missed} | {found.misread} |")
    lines.append(_COSTS.format(rounds=rounds))
    lines += [f"| {name} | {spent:.0f} |" for name, spent in costs(rounds).items()]
    lines += [_FOOT, "<!-- /measured -->"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the page, or write it; exit code 2 without a corpus."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--rounds", type=int, default=15, help="of fresh processes")
    chosen = parser.parse_args()
    folder = corpus_folder()
    if folder is None:
        print("no corpus of labelled answers lies beside the project (TRUEZERO_CORPUS)")
        return 2
    text = page([row for name in files(folder) for row in labelled(folder, name)], chosen.rounds)
    if chosen.write:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
