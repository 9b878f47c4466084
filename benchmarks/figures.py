"""What is measured, one function a figure: a subject in, numbers out.

CPU is the proxy's own time as the kernel counts it, not wall-clock time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import hour, instructions, machine, subjects
from benchmarks.load import MODEL, Bench, Memory, cpu_s, kernel_s, memory_mb, number, points
from benchmarks.rows import PACES, PROMPT_MS, Numbers, Round
from benchmarks.subjects import Stage, Subject

SHORT_STREAM = "mock-4-0"


def cpu_per_exchange(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange of 1.5 kB, from as many as come through."""
    return _cpu_of_exchanges(bench, subject)


def cpu_per_large_request(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange whose request has 100 kB."""
    return _cpu_of_exchanges(bench, subject, "-b", "100000")


def _cpu_of_exchanges(bench: Bench, subject: Subject, *options: str) -> Numbers:
    pace = subject.pace
    ask = ("-c", str(pace.connections), *options)
    bench.ask(subject, "-d", str(pace.warm_s), *ask)
    before, in_kernel = cpu_s(subject), kernel_s(subject)
    counted = bench.ask(subject, "-d", str(bench.seconds * pace.share), *ask)
    done = number(counted["ok"])
    return {
        "cpu_us": (cpu_s(subject) - before) / done * 1e6,
        "kernel_us": (kernel_s(subject) - in_kernel) / done * 1e6,
        "per_s": done / number(counted["seconds"]),
    }


def cpu_per_chunk(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for a chunk at 100 chunks/s a stream, what idling costs taken off.

    That is 10,000 chunks/s over 100 streams, but for those that could not.
    """
    idle = _idle_cpu_per_s(subject)
    at_once = str(subject.pace.streams)
    streams = ("-s", "-m", _chunked(bench.seconds), "-c", at_once, "-n", at_once, "-R", "200")
    before = cpu_s(subject)
    counted = bench.ask(subject, *streams, "-d", "1")
    spent = cpu_s(subject) - before - idle * number(counted["seconds"])
    return {"cpu_us": spent / number(counted["chunks"]) * 1e6}


def _chunked(seconds: float) -> str:
    return f"mock-{int(seconds * 100)}-10"


def models(seconds: float) -> tuple[str, ...]:
    """Return the models that the board's figures ask for, in rounds of so many seconds."""
    return tuple(dict.fromkeys((MODEL, SHORT_STREAM, _chunked(seconds))))


def one_at_a_time(bench: Bench, subject: Subject) -> Numbers:
    """µs to the last byte of an answer, and to the first of a stream, one call at a time.

    As onthebench.ai defines what a gateway adds: its p99 at a concurrency of 1, less that of the
    provider asked directly; for a stream to the first content, which the provider sends with the
    head.
    """
    share = bench.seconds * subject.pace.share / 2
    bench.ask(subject, "-c", "1", "-d", "0.2")
    whole = points(bench.ask(subject, "-c", "1", "-d", f"{share:g}"), "whole")
    streams = ("-s", "-m", SHORT_STREAM, "-c", "1", "-d", f"{share:g}")
    first = points(bench.ask(subject, *streams), "first_byte")
    return {
        "p50_us": whole["p50"], "p99_us": whole["p99"],
        "stream_p50_us": first["p50"], "stream_p99_us": first["p99"],
    }  # fmt: skip


def first_byte(bench: Bench, subject: Subject) -> Numbers:
    """ms to the first byte at 200 req/s, or as many as a slow one can take without a queue."""
    rate = ("-r", str(subject.pace.per_s), "-c", "64")
    counted = bench.ask(subject, *rate, "-d", str(max(bench.seconds, 3)))
    took = points(counted, "first_byte")
    return {"p50_ms": took["p50"] / 1e3, "p99_ms": took["p99"] / 1e3}


def thousand_streams(bench: Bench, subject: Subject) -> Numbers:
    """1,000 streams at once, each a chunk every 100 ms."""
    chunks = max(int(bench.seconds * 10), 40)
    return _streams(bench, subject, 1000, f"mock-{chunks}-100", ramp_s=2)


def five_thousand_streams(bench: Bench, subject: Subject) -> Numbers:
    """5,000 streams at once, each a chunk every second."""
    return _streams(bench, subject, 5000, "mock-8-1000", ramp_s=4)


def nine_thousand_streams(bench: Bench, subject: Subject) -> Numbers:
    """9,000 streams at once, each a chunk every second."""
    return _streams(bench, subject, 9000, "mock-10-1000", ramp_s=6)


def _streams(bench: Bench, subject: Subject, streams: int, model: str, ramp_s: float) -> Numbers:
    """Measure the memory that streams take, and how late a chunk is.

    Raises:
        RuntimeError: one failed, or this process may not open enough files for them.
    """
    allowed = machine.open_files()
    if allowed < 2 * streams + 200:
        raise RuntimeError(f"{streams} streams need two files each, and {allowed} are allowed")
    before = memory_mb(subject)
    with Memory(subject) as memory:
        ask = ("-s", "-m", model, "-c", str(streams), "-n", str(streams), *_SPREAD)
        ramp = ("-R", f"{ramp_s * 1e3:g}", "-d", f"{ramp_s + 3:g}")
        counted = bench.ask(_of_many(subject), *ask, *ramp)
    return {
        "at_once": number(counted["peak"]),
        "mb_per_1000": (memory.peak_mb - before) * 1000 / streams,
        "chunk_p99_ms": points(counted, "chunk")["p99"] / 1e3,
    }


# No rollout of truezero's may have more than 256 calls at once, by default.
_SPREAD = ("-k", "100")


def _of_many(subject: Subject) -> Subject:
    """Return the subject whose path names another rollout every so many calls."""
    return replace(subject, path=subject.path.replace("/r/bench/", "/r/bench-######/"))


def new_connections(bench: Bench, subject: Subject) -> Numbers:
    """5,000 new connections/s, a request on each, and a request afterwards.

    Raises:
        RuntimeError: some were neither served nor refused, or the last one was not served.
    """
    fresh = ("-o", "-r", "5000", "-c", "4000", *_SPREAD)
    counted = bench.count(_of_many(subject), *fresh, "-d", f"{bench.seconds:g}")
    if counted["waiting"] or not counted["ok"]:
        raise RuntimeError(f"{subject.name}: {json.dumps(counted)}")
    after = bench.ask(subject, "-n", "1", "-c", "1", "-d", "30")
    lost = number(counted["failed"]) + number(counted["refused"])
    return {
        "served_per_s": number(counted["ok"]) / number(counted["seconds"]),
        "not_served_percent": 100 * lost / number(counted["started"]),
        "after_ms": points(after, "whole")["max"] / 1e3,
    }


def paced_connections(bench: Bench, subject: Subject) -> Numbers:
    """The most new connections/s, in steps of 500, with a first byte p99 of 20 ms or less.

    And that p99 in ms at some rates, None beyond the first at which two were longer, or one was
    not served.
    """
    p99_ms: dict[int, float] = {}
    bench.ask(subject, "-c", "32", "-d", str(subject.pace.warm_s))
    for rate in range(500, 5001, 500):
        paced = ("-o", "-r", str(rate), "-c", "4000", "-d", f"{max(bench.seconds, 2):g}")
        counted = bench.count(_of_many(subject), *paced, *_SPREAD)
        if counted["waiting"] or counted["failed"] or counted["refused"] or not counted["ok"]:
            break
        p99_ms[rate] = points(counted, "first_byte")["p99"] / 1e3
        if min(p99_ms[rate], p99_ms.get(rate - 500, 0)) > PROMPT_MS:
            break
    prompt = [rate for rate, took_ms in p99_ms.items() if took_ms <= PROMPT_MS]
    return {
        "most_per_s": max(prompt, default=None),
        **{f"p99_ms_at_{rate}": p99_ms.get(rate) for rate in PACES},
    }


def cold_start(bench: Bench) -> Numbers:
    """Seconds from the command to the first relayed byte, on a database yet to be made."""
    port = machine.free_port()
    subject = Subject(name="truezero", port=port, path=f"/r/bench/openai{subjects.CHAT}")
    with tempfile.TemporaryDirectory() as home:
        begun = time.monotonic()
        serve = machine.running(
            subjects.serve_command(port, bench.stage.python),
            core=bench.stage.core,
            env=subjects.serve_env(bench.stage, Path(home)),
            cwd=Path(home),
        )
        with serve as process:
            machine.wait_for_port(port, process)
            bench.ask(subject, "-n", "1", "-c", "1")
            return {"s": time.monotonic() - begun}


_IMPORTS = {
    "package_ms": "import truezero",
    "client_ms": "from truezero import Client",
    "service_ms": "import proxy.app",
}


def imports(bench: Bench) -> Numbers:
    """ms that an import takes in a new interpreter; starting that one is left out."""
    return {number: _import_ms(bench.stage, what) for number, what in _IMPORTS.items()}


def _import_ms(stage: Stage, what: str) -> float:
    clock = "time.perf_counter()"
    code = f"import time; at = {clock}; {what}; print({clock} - at)"
    command = [*machine.pinned(stage.core), str(stage.python or sys.executable), "-c", code]
    env = subjects.clean_env() | {"PYTHONPATH": subjects.python_path(stage.python)}
    return float(subprocess.run(command, env=env, capture_output=True, check=True).stdout) * 1e3


def _idle_cpu_per_s(subject: Subject, seconds: float = 1.0) -> float:
    before = cpu_s(subject)
    time.sleep(seconds)
    return (cpu_s(subject) - before) / seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure and what it is called.

    ``direct``: the provider is asked without a proxy too. ``fresh``: each measurement has a
    process of its own, since memory that was once taken is seldom given back. ``slow``: those
    that take milliseconds a call are measured too, at their own pace. ``board``: every gateway is.
    """

    name: str
    measure: Callable[[Bench, Subject], Numbers]
    direct: bool = False
    fresh: bool = False
    slow: bool = True
    board: bool = False
    rounds: int | None = None  # at most, where a round takes long


FIGURES: Mapping[str, Figure] = {
    "exchange": Figure(name="CPU of a 1.5 kB exchange", measure=cpu_per_exchange, board=True),
    "added": Figure(
        name="one call at a time", measure=one_at_a_time, direct=True, board=True, rounds=3
    ),
    "large": Figure(
        name="CPU of a 100 kB request", measure=cpu_per_large_request, board=True, rounds=3
    ),
    "chunk": Figure(name="CPU of an SSE chunk", measure=cpu_per_chunk, board=True),
    "first_byte": Figure(name="first byte at 200 req/s", measure=first_byte, direct=True, rounds=3),
    "streams": Figure(
        name="1,000 streams", measure=thousand_streams, fresh=True, slow=False, rounds=3
    ),
    "streams_5000": Figure(
        name="5,000 streams", measure=five_thousand_streams, fresh=True, slow=False, rounds=2
    ),
    "streams_9000": Figure(
        name="9,000 streams", measure=nine_thousand_streams, fresh=True, slow=False, rounds=2
    ),
    "connections": Figure(
        name="5,000 new connections/s", measure=new_connections, slow=False, rounds=2
    ),
    "paced": Figure(name="new connections", measure=paced_connections, slow=False, rounds=2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFigure:
    """A figure of truezero alone, or of those that it starts by itself."""

    name: str
    measure: Callable[[Bench], Round]
    rounds: int | None = None


def _own(measure: Callable[[Bench], Numbers]) -> Callable[[Bench], Round]:
    return lambda bench: {"truezero": measure(bench)}


OWN_FIGURES: Mapping[str, OwnFigure] = {
    "counts": OwnFigure(name="opcodes and calls", measure=_own(instructions.counts), rounds=1),
    "instructions": OwnFigure(
        name="processor instructions", measure=instructions.instructions, rounds=1
    ),
    "imports": OwnFigure(name="imports", measure=_own(imports)),
    "cold_start": OwnFigure(name="cold start", measure=_own(cold_start), rounds=3),
    "hour": OwnFigure(name="an hour's exchanges", measure=_own(hour.measure), rounds=1),
}
