"""Provider errors written for the tests after documented shapes: ``error_samples.jsonl``.

Each line is a `Sample` and names its fact; ``headers`` are pairs of texts there.

None is a recording; the words are a provider's only where the fact is its wording.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.records import Ending, FailureEvidence, Kind
from classifier.verdicts import Subcategory
from proxy.wire.provider_error import read_error, read_text_error, retry_after, stated_type
from tests.tables import lines

NOW = 1_780_000_000.0
FILE = Path(__file__).with_suffix(".jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer, what it means, and which row says so; ``body`` is JSON, or plain text."""

    fact: str
    upstream: str
    status: int
    body: object
    gives: Subcategory
    rule: str
    reason: str | None = None
    transient: bool | None = None  # None: as the subcategory is
    event: str | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    retry_after_s: float | None = None
    code: str | None = None  # None: not looked at

    @property
    def is_transient(self) -> bool:
        return self.gives.transient if self.transient is None else self.transient

    def answer(self) -> FailureEvidence:
        """Build the answer as the observer does."""
        text = self.body if isinstance(self.body, str) else None
        error = read_error(self.body, event=self.event) if text is None else read_text_error(text)
        return FailureEvidence(
            upstream=self.upstream,
            api="openai.chat",
            kind=Kind.INFERENCE,
            status=self.status,
            ending=Ending.COMPLETE,
            error=error,
            retry_after_s=retry_after(self.headers, now=NOW),
            stated_type=stated_type(self.headers),
        )


def _sample(row: Mapping[str, Any]) -> Sample:
    headers = tuple((name.encode(), value.encode()) for name, value in row.get("headers", ()))
    return Sample(**{**row, "gives": Subcategory(row["gives"]), "headers": headers})


def samples_in(file: Path) -> tuple[Sample, ...]:
    return tuple(map(_sample, lines(file)))


SAMPLES = samples_in(FILE)
