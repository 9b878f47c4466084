"""Writes docs/scaling.md and its picture from docs/scaling.json, by the capacity model.

    python -m benchmarks.scaling_report

It measures nothing and simulates nothing: `benchmarks.scaling` did.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import dialects
from benchmarks.capacity import (
    FULL,
    POSTGRESQL,
    SQLITE,
    Assumed,
    Costs,
    Demand,
    Deployment,
    Line,
    Points,
    Use,
    call_us,
    carried,
    commits_per_s,
    costs,
    enough,
    gb_per_day,
    uses,
)
from benchmarks.picture import Panel, picture
from benchmarks.report import BUSY_PERCENT, UNKNOWN, shown

DOCS = Path(__file__).parent.parent / "docs"
DATA, PAGE, PICTURE = (DOCS / f"scaling.{kind}" for kind in ("json", "md", "svg"))

ONE = Deployment(name="one process, SQLite", database=SQLITE)
FOUR = Deployment(name="four processes on one host, SQLite", database=SQLITE, processes=4)
EIGHT = Deployment(name="eight processes on one host, PostgreSQL", database=POSTGRESQL, processes=8)
MANY = Deployment(name="hosts of eight processes, PostgreSQL", database=POSTGRESQL)
LARGEST_CORES = 64  # of one database server, before it is several

_HEAD = """# How far it goes

How many rollouts one process carries, what comes to its limit first, and what to add then: a model
fitted to measured points, and a simulation of {rollouts:,} rollouts at once. Points and simulation
are made by `python -m benchmarks.scaling` into [scaling.json](scaling.json), this page from them by
`python -m benchmarks.scaling_report`. Take your own: on your machine, with your agents' habits.

![How many rollouts each resource carries in three deployments](scaling.svg)
"""

_BUSY = """\
**Other programs took {percent:.0f} % of the machine's CPU while these were taken. CPU time
holds roughly (caches and switches make it more than alone); what waited for the clock,
exchanges/s and ms of a commit, is too slow by whatever others took.** The model uses CPU
time, but for commits."""

_MEANS = """\
The lines are least squares through the points above; a cost grows no more than it was
measured to: with more than four processes on a host the cost of an exchange is taken as
that of four. A model of a few points on one machine is good for the order of magnitude and
for which limit comes first, not for the last tenth: where it matters, load your own before
you rely on it."""

_HABITS = """\
Nobody measured your agents: these are our choice, each to be changed in
`benchmarks.capacity.Assumed`. All times are means of exponential distributions, so that
they spread widely."""

_LIMITS = """\
What is left out: the row of a call that is under way (those measured were too short to have
one; the commits above have both, tens of µs), TLS to providers (it costs CPU on top), a
provider's own limits (which come first for nearly everybody), reading the pages, and
failures that make agents ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured and simulated on one machine."""

    points: Points
    demand: Demand
    machine: Mapping[str, object]
    others_percent: float
    assumed: Assumed = field(default_factory=Assumed)

    def costs(self, database: str) -> Costs:
        return costs(self.points, database)

    def uses(self, on: Deployment) -> list[Use]:
        return uses(self.demand, self.assumed, self.costs(on.database), on)

    def enough(self) -> Deployment:
        """The hosts that all rollouts of the simulation need."""
        return enough(self.demand, self.assumed, self.costs(MANY.database), MANY)


def read(file: Path = DATA) -> Found:
    """What `benchmarks.scaling` wrote."""
    found = json.loads(file.read_text())
    return Found(
        points=found["points"],
        demand=Demand(**found["demand"]),
        machine=found["machine"],
        others_percent=found["others_percent"],
    )


def page(found: Found) -> str:
    """The page, in Markdown."""
    parts = [
        _HEAD.format(rollouts=found.assumed.rollouts),
        *_busy(found.others_percent),
        "## When to add what", *_rules(found),
        "## Measured", *_measured(found.points), *_model(found),
        "## What rollouts ask for", _HABITS, *_habits(found),
        "## Where the first limit is", *_deployments(found), _LIMITS,
        "## Databases that speak PostgreSQL's protocol", _DISTRIBUTED,
        *_lines(dialects.table()), _TESTED,
        "## On what", *_machine(found.machine),
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _busy(percent: float) -> list[str]:
    return [_BUSY.format(percent=percent)] if percent >= BUSY_PERCENT else []


def _lines(lines: Iterator[str]) -> list[str]:
    return ["\n".join(lines)]


# --- rules -----------------------------------------------------------------------------------


def _rules(found: Found) -> list[str]:
    rules = (_one, _several, _server, _replicas, _readers, _spread)
    return ["\n".join(f"- {rule(found)}" for rule in rules)]


def _one(found: Found) -> str:
    assumed, kind = found.assumed, found.costs(SQLITE)
    first = found.uses(ONE)[0]
    rollouts = carried(assumed, first)
    calls = rollouts / assumed.rollouts * found.demand.calls_per_s
    return (
        f"**One process on SQLite** up to {shown(rollouts)} rollouts at once: {first.resource} is "
        f"full first, by {shown(calls)} calls/s of {shown(call_us(assumed, kind, ONE))} CPU µs, "
        f"{shown(assumed.chunks * kind.chunk_us)} of them for {assumed.chunks} chunks."
    )


def _several(found: Found) -> str:
    first, line = found.uses(FOUR)[0], found.costs(SQLITE).exchange_us
    return (
        "**More processes on one host, still SQLite** (`--workers`) up to "
        f"{shown(carried(found.assumed, first))} rollouts with four: {first.resource} is full "
        f"first. They write one file in turns: an exchange costs {shown(line.at(1))} CPU µs with "
        f"one, {shown(line.at(4))} with four."
    )


def _server(found: Found) -> str:
    sqlite, postgres = found.costs(SQLITE), found.costs(POSTGRESQL)
    return (
        "**PostgreSQL** as soon as there is a second host, or more than four processes; where the "
        "database must outlive its host; or where data would outgrow the disk "
        f"({shown(sqlite.disk_bytes.slope)} bytes an exchange, {shown(postgres.disk_bytes.slope)} "
        "in PostgreSQL, where a month is dropped in a moment). Verdicts are no reason: they read "
        "one rollout, however large the table: 1,000 calls in "
        f"{shown(sqlite.verdict_ms.at(1000))} CPU ms; with PostgreSQL in "
        f"{shown(postgres.verdict_ms.at(1000))} and {shown(postgres.verdict_database_ms.at(1000))} "
        "of its server's."
    )


def _replicas(found: Found) -> str:
    many = found.enough()
    return (
        f"**More replicas** by CPU: {many.hosts} hosts of eight processes for "
        f"{found.assumed.rollouts:,} rollouts. Any process takes any call: what one knows stands "
        "in the database."
    )


def _readers(found: Found) -> str:
    asked = found.demand.ended_per_s * found.assumed.verdicts
    each = found.costs(POSTGRESQL).verdict_database_ms.at(found.assumed.calls)
    return (
        "**Read replicas of PostgreSQL** for what you ask beside the service, your own SQL or "
        "`pg_dump`. The service itself reads where it writes: its verdicts know a call as soon as "
        f"it is committed, and a replica is behind. Verdicts take 30 % of {MANY.database_cores} "
        f"cores at {shown(0.3 * MANY.database_cores / each * 1e3)} a second; "
        f"{found.assumed.rollouts:,} rollouts ask for {shown(asked)}."
    )


def _spread(found: Found) -> str:
    written = LARGEST_CORES * FULL / found.costs(POSTGRESQL).database_us * 1e6
    cpu = next(use for use in found.uses(found.enough()) if use.resource == "database CPU")
    return (
        f"**A database that spreads writes** above {shown(written)} calls/s, where "
        f"{LARGEST_CORES} cores are {FULL:.0%} busy; that is "
        f"{shown(written / found.demand.calls_per_s)} times what {found.assumed.rollouts:,} "
        f"rollouts ask for, who keep {MANY.database_cores} cores {cpu.share:.0%} busy. Disks and "
        "locks end before CPU does: measure your server's. Simpler is to give batches "
        "installations of their own: only `/fingerprints` and lists look across batches."
    )


# --- what was measured -----------------------------------------------------------------------


def _measured(points: Points) -> Iterator[str]:
    yield _table(
        points, "relay",
        database="database", workers="processes", per_s="exchanges/s", cpu_us="CPU µs each",
        database_cpu_us="CPU µs of PostgreSQL's server",
    )  # fmt: skip
    yield _table(
        points, "commits",
        database="database", calls="calls in a group", ms="ms for both its commits",
        cpu_us="CPU µs a call",
    )  # fmt: skip
    yield _table(
        points, "writers", database="database", processes="writers", per_s="calls/s in groups of 16"
    )
    yield _table(
        points, "disk",
        database="database", exchanges="exchanges", bytes="bytes on disk",
        verdict_1_cpu_ms="CPU ms, verdict of 1 call", verdict_1000_cpu_ms="of 1,000",
        verdict_1000_database_cpu_ms="ms of PostgreSQL's server",
    )  # fmt: skip
    yield _table(points, "streams", streams="streams at once", mb="MB more")
    yield _table(points, "requests", request_kb="kB of request", cpu_us="CPU µs of an exchange")
    yield f"A chunk of a stream: {shown(float(points['chunks'][0]['cpu_us']))} CPU µs."


def _table(points: Points, name: str, **titles: str) -> str:
    head = [f"| {' | '.join(titles.values())} |", f"|{'|'.join('---:' for _ in titles)}|"]
    rows = [f"| {' | '.join(_cell(point[key]) for key in titles)} |" for point in points[name]]
    return "\n".join(head + rows)


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else shown(value)


def _model(found: Found) -> Iterator[str]:
    yield "### The model\n\n" + _MEANS
    yield "\n".join(_costs(found))


def _costs(found: Found) -> Iterator[str]:
    sqlite, postgres = found.costs(SQLITE), found.costs(POSTGRESQL)
    yield "| cost | SQLite | PostgreSQL |"
    yield "|---|---:|---:|"
    for label, of in _COSTS.items():
        yield f"| {label} | {of(sqlite)} | {of(postgres)} |"


def _said(line: Line, of: str) -> str:
    if not line.base and not line.slope:
        return UNKNOWN
    return f"{shown(line.base)} + {shown(line.slope)} × {of}"


_COSTS: dict[str, Callable[[Costs], str]] = {
    "CPU µs of an exchange": lambda c: _said(c.exchange_us, "processes"),
    "exchanges/s on a core, one process": lambda c: shown(1e6 / c.exchange_us.at(1)),
    "CPU µs of the database's server for it": lambda c: shown(c.database_us or None),
    "CPU µs, by its request": lambda c: _said(c.request_us, "kB"),
    "MB, by streams": lambda c: _said(c.streams_mb, "streams"),
    "streams in a GB": lambda c: shown(1000 / c.streams_mb.slope),
    "ms of a group's commits": lambda c: _said(c.commit_ms, "calls"),
    "calls/s that one writer commits, groups of 500": lambda c: shown(commits_per_s(c)),
    "bytes on disk": lambda c: _said(c.disk_bytes, "exchanges"),
    "CPU ms of a verdict": lambda c: _said(c.verdict_ms, "calls"),
    "CPU ms of the database's server for it": lambda c: _said(c.verdict_database_ms, "calls"),
}


# --- what is asked for, and where it ends ----------------------------------------------------


def _habits(found: Found) -> Iterator[str]:
    assumed, asked = _assumed(found.assumed), _asked(found)
    head = ["| assumed | | asked for | |", "|---|---:|---|---:|"]
    rows = zip(assumed.items(), asked.items(), strict=True)
    yield "\n".join(head + [f"| {a} | {x} | {b} | {y} |" for (a, x), (b, y) in rows])


def _assumed(of: Assumed) -> dict[str, str]:
    return {
        "rollouts at once": f"{of.rollouts:,}",
        "all of them begun within": f"{of.ramp_s:g} s",
        "calls of a rollout": f"{of.calls}",
        "between an answer and the next call": f"{of.think_s:g} s",
        "to the first byte": f"{of.first_byte_s:g} s",
        "from there to the last": f"{of.stream_s:g} s",
        "chunks of an answer": f"{of.chunks}",
        "kB of a request (15,000 tokens)": f"{of.request_kb:g}",
        "calls that fail": f"{of.failed:.0%}",
        "verdicts asked for each rollout": f"{of.verdicts:g}",
    }


def _asked(found: Found) -> dict[str, str]:
    of, each = found.demand, found.assumed
    stored = [shown(gb_per_day(of, found.costs(name))) for name in (SQLITE, POSTGRESQL)]
    return {
        "calls/s": shown(of.calls_per_s),
        "in the highest second": shown(of.calls_per_s_peak),
        "streams open": shown(of.streams),
        "most at once": shown(of.streams_peak),
        "file descriptors, then": shown(2 * of.streams_peak),
        "chunks/s": shown(of.calls_per_s * each.chunks),
        "rows written/s, of calls begun and ended": shown(2 * of.calls_per_s),
        "rollouts that end, each second": shown(of.ended_per_s),
        "verdicts read/s": shown(of.ended_per_s * each.verdicts),
        "GB on disk a day, SQLite / PostgreSQL": " / ".join(stored),
    }


def _deployments(found: Found) -> Iterator[str]:
    yield (
        f"What those {found.assumed.rollouts:,} rollouts take of each resource, the fullest first, "
        f"and how many rollouts it carries at {FULL:.0%}. Above 100 % it is more than there is."
    )
    for on in (ONE, EIGHT, found.enough()):
        yield _deployment(found, on)


def _deployment(found: Found, on: Deployment) -> str:
    kept = f"{on.hosts} × {on.host_gb:g} GB, {on.host_gbit:g} Gbit/s"
    if on.database != SQLITE:
        kept += (
            f"; PostgreSQL with {on.database_cores} cores, {on.database_connections} connections"
        )
    lines = [
        f"### {_name(on)} ({kept})", "",
        "| resource | used | there is | utilisation | carries rollouts | to add |",
        "|---|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    lines += [
        f"| {use.resource} | {shown(use.used)} | {shown(use.has)} {use.unit} | {use.share:.0%} |"
        f" {shown(carried(found.assumed, use))} | {use.add} |"
        for use in found.uses(on)
    ]
    return "\n".join(lines)


def _name(on: Deployment) -> str:
    return on.name if on.hosts == 1 else f"{on.hosts} {on.name}"


def _machine(machine: Mapping[str, object]) -> list[str]:
    return ["\n".join(f"- {name.replace('_', ' ')}: {said}" for name, said in machine.items())]


_DISTRIBUTED = """\
None of them could be had for a test here (no binaries in the registries this is built
from), so nothing below is measured: it is what their pages say, each linked; what was not
found on them is open. Whole in the list is what *we* use: a test has a PostgreSQL server
write down every statement of the service and of its operator's commands, and fails for a
keyword, function, type or catalogue that is not on it, for an entry that nothing uses, and
for a function of the store that asks a database and did not run."""

_TESTED = """In order of how little would change:

- **YugabyteDB** has PostgreSQL's own query layer, advisory locks and, switched on, LISTEN (from
  2025.2.3): by its pages there is nothing to rewrite. READ COMMITTED must be switched on. To be
  tried first: events are read on from the last number seen, so that numbers must come in the order
  in which the lock is held.
- **Citus** needs each table distributed by rollout id (events and breakers by batch, or kept
  local), the group commit as a statement for each table, and all writers of events by way of the
  coordinator.
- **CockroachDB** lacks partitions that are tables (delete months by row), LISTEN (look by and by,
  as on SQLite) and advisory locks (a row FOR UPDATE), which are drafted."""


def drawing(found: Found) -> str:
    """The picture: how many rollouts each resource carries, in three deployments."""
    panels = [
        Panel(title=f"{_name(on)}: rollouts at {FULL:.0%}", values=_bars(found, on))
        for on in (ONE, EIGHT, found.enough())
    ]
    says = "How many rollouts each resource carries; the shortest bar is the first limit"
    return picture(panels, ours="", says=says)


def _bars(found: Found, on: Deployment) -> dict[str, float]:
    return {use.resource: carried(found.assumed, use) for use in found.uses(on) if use.share > 0}


def write(found: Found) -> None:
    """The page and its picture."""
    PAGE.write_text(page(found))
    PICTURE.write_text(drawing(found))


def main() -> None:
    write(read())
    sys.stderr.write(f"written to {PAGE}\n")


if __name__ == "__main__":
    main()
