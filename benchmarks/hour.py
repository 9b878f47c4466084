"""An hour's exchanges in minutes: does memory stay, and do agents feel a heavy question asked then.

The database is filled through the proxy itself, as a batch of registered rollouts; the questions
are the batch's summary and its page, asked again as soon as they are answered.
"""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from dataclasses import replace
from statistics import median

from benchmarks import subjects
from benchmarks.load import Bench, Memory, number, points
from benchmarks.rows import Numbers
from benchmarks.subjects import Subject

PER_ROLLOUT = 100
PAIRS = 3  # of first bytes without and with the questions
BATCH = "hour"
QUESTIONS = (f"/batches/{BATCH}", f"/ui/batches/{BATCH}")
_PATH = f"/r/{BATCH}-######/openai{subjects.CHAT}"


def measure(bench: Bench) -> Numbers:
    """Memory, and ms to the first byte at 200 req/s without and with the questions.

    Raises:
        RuntimeError: an exchange failed, or a question was not answered by 200.
    """
    with subjects.truezero(bench.stage) as stood:
        subject = replace(stood, path=_PATH)
        _register(subject, bench.exchanges // PER_ROLLOUT)
        return _memory(bench, subject) | _first_bytes(bench, subject)


def _register(subject: Subject, rollouts: int) -> None:
    agent = http.client.HTTPConnection("127.0.0.1", subject.port, timeout=60)
    for each in range(rollouts):
        facts = {"id": f"{BATCH}-{each:06}", "batch": BATCH, "task": f"t{each}", "attempt": 0}
        agent.request("POST", "/rollouts", json.dumps(facts), {"Content-Type": "application/json"})
        answer = agent.getresponse()
        if answer.status != http.client.CREATED:
            raise RuntimeError(f"registering answered {answer.status}")
        answer.read()
    agent.close()


def _memory(bench: Bench, subject: Subject) -> Numbers:
    """Resident memory when a tenth of the exchanges is done, and at the end."""
    ask = ("-c", "32", "-n", str(bench.exchanges), "-k", str(PER_ROLLOUT), "-d", "3600")
    with Memory(subject) as memory:
        counted = bench.ask(subject, *ask)
    took = number(counted["seconds"])
    first, last = _near(memory.seen, took * 0.1), _near(memory.seen, took)
    return {
        "exchanges": number(counted["ok"]),
        "per_s": number(counted["ok"]) / took,
        "tenth_mb": first,
        "end_mb": last,
        "growth": last / first,
    }


def _near(seen: list[tuple[float, float]], at_s: float) -> float:
    """Return the memory at a time: the median of the nine nearest samples."""
    nearest = sorted(seen, key=lambda look: abs(look[0] - at_s))[:9]
    return median(mb for _, mb in nearest)


def _first_bytes(bench: Bench, subject: Subject) -> Numbers:
    alone, asked = [], []
    with _Questions(subject, pause_s=3600) as first:
        first.answered.wait(600)  # what is summed up for the first time takes longest
    took_s: list[float] = []
    for _ in range(PAIRS):
        alone.append(_first_byte(bench, subject))
        with _Questions(subject) as questions:
            asked.append(_first_byte(bench, subject))
        took_s += questions.took_s
    return {
        "first_question_ms": first.took_s[0] * 1e3,
        "question_ms": median(took_s) * 1e3,
        "alone_p50_ms": median(each["p50"] for each in alone) / 1e3,
        "alone_p99_ms": median(each["p99"] for each in alone) / 1e3,
        "asked_p50_ms": median(each["p50"] for each in asked) / 1e3,
        "asked_p99_ms": median(each["p99"] for each in asked) / 1e3,
    }


def _first_byte(bench: Bench, subject: Subject) -> dict[str, float]:
    ask = ("-r", "200", "-c", "64", "-k", "1", "-d", str(max(bench.seconds, 3)))
    return points(bench.ask(subject, *ask), "first_byte")


class _Questions:
    """Asks the batch's summary and its page in turns while the ``with`` lasts.

    Raises:
        RuntimeError: at its end, when an answer was not a 200 or none came.
    """

    def __init__(self, subject: Subject, pause_s: float = 0.0) -> None:
        self.took_s: list[float] = []
        self.answered = threading.Event()
        self._port = subject.port
        self._pause_s = pause_s
        self._over = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> _Questions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._problem or not self.took_s:
            raise RuntimeError(f"asking for the batch: {self._problem or 'no answer'}")

    def _ask(self) -> None:
        reader = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        try:
            for path in itertools.cycle(QUESTIONS):
                self._answer(reader, path)
                if self._problem or self._over.wait(self._pause_s):
                    return
        except (OSError, http.client.HTTPException) as problem:
            self._problem = repr(problem)
        finally:
            self.answered.set()
            reader.close()

    def _answer(self, reader: http.client.HTTPConnection, path: str) -> None:
        began = time.monotonic()
        reader.request("GET", path)
        answer = reader.getresponse()
        answer.read()
        if answer.status != http.client.OK:
            self._problem = f"{path} answered {answer.status}"
        self.took_s.append(time.monotonic() - began)
        self.answered.set()
