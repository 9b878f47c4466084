"""A writer in memory that can be made to fail, and a recorder on it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from classifier.records import Ending, Exchange, Timing
from proxy.recording.recorder import Recorder
from proxy.store.errors import DatabaseUnavailable
from proxy.store.tables import CommitBatch

PATIENCE_S = 300
ENDED = Exchange(
    id="x", rollout_id="r", upstream="u", api="a", timing=Timing(started_at=1.0),
    ending=Ending.COMPLETE,
)  # fmt: skip
BEGUN = replace(ENDED, ending=None)


@dataclass
class MemoryWriter:
    """A writer in memory that can be made to fail."""

    batches: list[CommitBatch] = field(default_factory=list)
    fails: Callable[[CommitBatch], Exception | None] = lambda _batch: None
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def write(self, batch: CommitBatch, *, worker: str) -> None:
        assert worker == "w"
        self.gate.wait(PATIENCE_S)
        if error := self.fails(batch):
            raise error
        self.batches.append(batch)

    @property
    def recorded(self) -> list[str]:
        return [exchange.id for batch in self.batches for exchange in batch.recorded]


def away(_batch: CommitBatch) -> Exception:
    return DatabaseUnavailable("disk I/O error")


@asynccontextmanager
async def recording(writer: MemoryWriter) -> AsyncIterator[Recorder]:
    recorder = Recorder(writer, worker="w")
    recorder.start()
    try:
        yield recorder
    finally:
        writer.gate.set()
        await recorder.stop()
