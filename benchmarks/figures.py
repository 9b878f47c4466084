"""What is measured, one function a figure: a subject in, numbers out.

CPU is the proxy's own time as the kernel counts it, not wall-clock time.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import machine, subjects
from benchmarks.subjects import Subject

Numbers = dict[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The tools, where they run, and how long a round takes."""

    load: Path
    provider_port: int
    seconds: float
    proxy_core: int | None
    load_core: int | None

    def ask(self, subject: Subject, *options: str) -> dict[str, object]:
        """Put load on a subject; what the generator counted.

        Raises:
            RuntimeError: an exchange failed, so that nothing it says can be trusted.
        """
        command = [self.load, "-p", str(subject.port), "-P", subject.path, *options]
        done = subprocess.run(
            [*machine.pinned(self.load_core), *map(str, command)], capture_output=True, check=True
        )
        counted: dict[str, object] = json.loads(done.stdout)
        if counted["failed"] or counted["refused"] or not counted["ok"]:
            raise RuntimeError(f"{subject.name}: {json.dumps(counted)}")
        return counted


def cpu_per_exchange(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange of 1.5 kB, from as many as come through."""
    return _cpu_of_exchanges(bench, subject)


def cpu_per_large_request(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange whose request has 100 kB."""
    return _cpu_of_exchanges(bench, subject, "-b", "100000")


def _cpu_of_exchanges(bench: Bench, subject: Subject, *options: str) -> Numbers:
    bench.ask(subject, "-c", "32", "-d", "0.5", *options)  # connections are made before
    before = _cpu(subject)
    counted = bench.ask(subject, "-c", "32", "-d", str(bench.seconds), *options)
    spent = _cpu(subject) - before
    done = _number(counted["ok"])
    return {"cpu_us": spent / done * 1e6, "per_s": done / _number(counted["seconds"])}


def cpu_per_chunk(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for a chunk at 10,000 chunks/s over 100 streams, what idling costs taken off."""
    idle = _idle_cpu_per_s(subject)
    per_stream = int(bench.seconds * 100)
    streams = (
        "-s",
        "-m",
        f"mock-{per_stream}-10",
        "-c",
        "100",
        "-n",
        "100",
        "-R",
        "200",
        "-d",
        "1",
    )
    before = _cpu(subject)
    counted = bench.ask(subject, *streams)
    spent = _cpu(subject) - before - idle * _number(counted["seconds"])
    return {"cpu_us": spent / _number(counted["chunks"]) * 1e6}


def first_byte(bench: Bench, subject: Subject) -> Numbers:
    """ms to the first byte at 200 req/s."""
    counted = bench.ask(subject, "-r", "200", "-c", "64", "-d", str(max(bench.seconds, 3)))
    points = counted["first_byte_us"]
    assert isinstance(points, dict)
    return {"p50_ms": points["p50"] / 1e3, "p99_ms": points["p99"] / 1e3}


def many_streams(bench: Bench, subject: Subject, streams: int = 1000) -> Numbers:
    """Streams at once, each a chunk every 100 ms: memory they take, and how late a chunk is."""
    before = _memory(subject)
    with _Peak(subject) as peak:
        chunks = max(int(bench.seconds * 10), 40)
        ask = ("-s", "-m", f"mock-{chunks}-100", "-c", str(streams), "-n", str(streams))
        counted = bench.ask(subject, *ask, "-R", "2000", "-d", "5")
    late = counted["chunk_us"]
    assert isinstance(late, dict)
    return {
        "at_once": _number(counted["peak"]),
        "mb_per_1000": (peak.mb - before) * 1000 / streams,
        "chunk_p99_ms": late["p99"] / 1e3,
    }


class _Peak:
    """The most memory a subject had while the ``with`` lasted."""

    def __init__(self, subject: Subject) -> None:
        self.mb = 0.0
        self._subject = subject
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.25):
            self.mb = max(self.mb, _memory(self._subject))


def cold_start(bench: Bench) -> Numbers:
    """Seconds from the command to the first relayed byte, on a database yet to be made."""
    port = machine.free_port()
    subject = Subject(name="truezero", port=port, path=f"/r/bench/openai{subjects.CHAT}")
    with tempfile.TemporaryDirectory() as home:
        begun = time.monotonic()
        serve = machine.running(
            subjects.serve_command(port),
            core=bench.proxy_core,
            env=subjects.serve_env(bench.provider_port, Path(home)),
            cwd=Path(home),
        )
        with serve as process:
            machine.wait_for_port(port, process)
            bench.ask(subject, "-n", "1", "-c", "1")
            return {"s": time.monotonic() - begun}


def _cpu(subject: Subject) -> float:
    return machine.cpu_s(subject.pid) if subject.pid else 0.0


def _memory(subject: Subject) -> float:
    return machine.resident_mb(subject.pid) if subject.pid else 0.0


def _idle_cpu_per_s(subject: Subject, seconds: float = 1.0) -> float:
    before = _cpu(subject)
    time.sleep(seconds)
    return (_cpu(subject) - before) / seconds


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure and what it is called.

    ``direct``: the provider is asked without a proxy too. ``fresh``: each measurement has a
    process of its own, since memory that was once taken is seldom given back.
    """

    name: str
    measure: Callable[[Bench, Subject], Numbers]
    direct: bool = False
    fresh: bool = False


FIGURES: Mapping[str, Figure] = {
    "exchange": Figure(name="CPU of a 1.5 kB exchange", measure=cpu_per_exchange),
    "large": Figure(name="CPU of a 100 kB request", measure=cpu_per_large_request),
    "chunk": Figure(name="CPU of an SSE chunk", measure=cpu_per_chunk),
    "first_byte": Figure(name="first byte at 200 req/s", measure=first_byte, direct=True),
    "streams": Figure(name="1,000 streams", measure=many_streams, fresh=True),
}
