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
from benchmarks.rows import Numbers
from benchmarks.subjects import Stage, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The tools, where they run, and how long a round takes."""

    load: Path
    stage: Stage
    seconds: float
    load_core: int | None

    def ask(self, subject: Subject, *options: str) -> dict[str, object]:
        """Put load on a subject; what the generator counted.

        Raises:
            RuntimeError: an exchange failed, so that nothing it says can be trusted.
        """
        counted = self.count(subject, *options)
        if counted["failed"] or counted["refused"] or not counted["ok"]:
            raise RuntimeError(f"{subject.name}: {json.dumps(counted)}")
        return counted

    def count(self, subject: Subject, *options: str) -> dict[str, object]:
        """Put load on a subject; what the generator counted, failures among it."""
        headers = [word for header in subject.headers for word in ("-H", header)]
        where = ("-p", str(subject.port), "-P", subject.path, *headers)
        done = subprocess.run(
            [*machine.pinned(self.load_core), str(self.load), *where, *options],
            capture_output=True,
            check=True,
        )
        counted: dict[str, object] = json.loads(done.stdout)
        return counted


def cpu_per_exchange(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange of 1.5 kB, from as many as come through."""
    return _cpu_of_exchanges(bench, subject)


def cpu_per_large_request(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for an exchange whose request has 100 kB."""
    return _cpu_of_exchanges(bench, subject, "-b", "100000")


def _cpu_of_exchanges(bench: Bench, subject: Subject, *options: str) -> Numbers:
    pace = subject.pace
    ask = ("-c", str(pace.connections), *options)
    bench.ask(subject, "-d", str(0.5 / pace.share), *ask)  # connections are made before
    before = _cpu(subject)
    counted = bench.ask(subject, "-d", str(bench.seconds * pace.share), *ask)
    spent = _cpu(subject) - before
    done = _number(counted["ok"])
    return {"cpu_us": spent / done * 1e6, "per_s": done / _number(counted["seconds"])}


def cpu_per_chunk(bench: Bench, subject: Subject) -> Numbers:
    """CPU µs for a chunk at 100 chunks/s a stream, what idling costs taken off.

    That is 10,000 chunks/s over 100 streams, but for those that could not.
    """
    idle = _idle_cpu_per_s(subject)
    chunks, at_once = int(bench.seconds * 100), str(subject.pace.streams)
    streams = ("-s", "-m", f"mock-{chunks}-10", "-c", at_once, "-n", at_once, "-R", "200")
    before = _cpu(subject)
    counted = bench.ask(subject, *streams, "-d", "1")
    spent = _cpu(subject) - before - idle * _number(counted["seconds"])
    return {"cpu_us": spent / _number(counted["chunks"]) * 1e6}


def first_byte(bench: Bench, subject: Subject) -> Numbers:
    """ms to the first byte at 200 req/s, or as many as a slow one can take without a queue."""
    rate = ("-r", str(subject.pace.per_s), "-c", "64")
    counted = bench.ask(subject, *rate, "-d", str(max(bench.seconds, 3)))
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
            subjects.serve_command(port, bench.stage.python),
            core=bench.stage.core,
            env=subjects.serve_env(bench.stage, Path(home)),
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
    process of its own, since memory that was once taken is seldom given back. ``slow``: those
    that take milliseconds a call are measured too, at their own pace.
    """

    name: str
    measure: Callable[[Bench, Subject], Numbers]
    direct: bool = False
    fresh: bool = False
    slow: bool = True


FIGURES: Mapping[str, Figure] = {
    "exchange": Figure(name="CPU of a 1.5 kB exchange", measure=cpu_per_exchange),
    "large": Figure(name="CPU of a 100 kB request", measure=cpu_per_large_request),
    "chunk": Figure(name="CPU of an SSE chunk", measure=cpu_per_chunk),
    "first_byte": Figure(name="first byte at 200 req/s", measure=first_byte, direct=True),
    "streams": Figure(name="1,000 streams", measure=many_streams, fresh=True, slow=False),
}
