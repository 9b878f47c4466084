"""The load that a subject is put under, and what the machine and the generator say of it.

Which load makes which figure is not known here.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from benchmarks import machine
from benchmarks.subjects import Stage, Subject

MODEL = "mock-100-10"  # that the generator asks for if nobody says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The tools, where they run, and how long a round takes."""

    load: Path
    stage: Stage
    seconds: float
    load_core: int | None
    exchanges: int = 1_000_000  # an hour's, at 280 a second

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
        if subject.model_prefix:
            options = (*options, "-m", subject.model_prefix + _model(options))
        headers = [word for header in subject.headers for word in ("-H", header)]
        where = ("-p", str(subject.port), "-P", subject.path, *headers)
        done = subprocess.run(
            [*machine.pinned(self.load_core), *subject.enter, str(self.load), *where, *options],
            capture_output=True,
            check=True,
        )
        counted: dict[str, object] = json.loads(done.stdout)
        return counted


def _model(options: Sequence[str]) -> str:
    """Return the model that load asks for, by its last word on that."""
    said = [word for before, word in pairwise(options) if before == "-m"]
    return said[-1] if said else MODEL


class Memory:
    """The memory of a subject while the ``with`` lasts, as (seconds since its begin, MB)."""

    def __init__(self, subject: Subject, every_s: float = 0.25) -> None:
        self.seen: list[tuple[float, float]] = []
        self._subject = subject
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def peak_mb(self) -> float:
        return max((mb for _, mb in self.seen), default=0.0)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        begun = time.monotonic()
        while not self._over.wait(self._every_s):
            self.seen.append((time.monotonic() - begun, memory_mb(self._subject)))


def cpu_s(subject: Subject) -> float:
    return machine.cpu_s(subject.pid) if subject.pid else 0.0


def kernel_s(subject: Subject) -> float:
    return machine.kernel_s(subject.pid) if subject.pid else 0.0


def memory_mb(subject: Subject) -> float:
    return machine.resident_mb(subject.pid) if subject.pid else 0.0


def points(counted: Mapping[str, object], name: str) -> dict[str, float]:
    points = counted[f"{name}_us"]
    assert isinstance(points, dict)
    return points


def number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
