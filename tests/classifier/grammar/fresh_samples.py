"""Provider errors worded as providers word them, for a grammar that was written without them.

``fresh_samples.jsonl`` has them, one `Fresh` a line, and in which ``set`` it is. Shapes and facts
come from the pages named; the sentences are this project's own. ``FRESH`` was collected before the
grammar, ``LATER`` after its first version; both are kept so that it does not forget. ``ELSEWHERE``
are routes, tunnels and signatures; 29 of the first 50 were told before. ``STATE`` is what a
conversation carries and its provider keeps; 3 of the first 100 were told before. ``WHOSE`` are
errors whose words name the request, the key or the account and are a server's, and those that look
like them; of the 599 they were chosen from 71 % were told before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from classifier.records import Ending, FailureEvidence, Kind
from classifier.verdicts import Subcategory
from proxy.wire.provider_error import read_error
from tests.tables import lines


@dataclass(frozen=True, slots=True)
class Fresh:
    """One error as a provider would send it, and what it means."""

    upstream: str
    status: int
    gives: Subcategory
    message: str
    source: str
    code: str | None = None
    type: str | None = None
    param: str | None = None
    reason: str | None = None

    def answer(self) -> FailureEvidence:
        named = {"code": self.code, "type": self.type, "param": self.param}
        body: Mapping[str, object] = {"error": {"message": self.message, **named}}
        return FailureEvidence(
            upstream=self.upstream,
            api="openai.chat",
            kind=Kind.INFERENCE,
            status=self.status,
            ending=Ending.COMPLETE,
            error=read_error(body),
        )


def _fresh(row: Mapping[str, Any]) -> Fresh:
    fields = {name: value for name, value in row.items() if name != "set"}
    return Fresh(**{**fields, "gives": Subcategory(row["gives"])})


_ROWS = lines(Path(__file__).with_suffix(".jsonl"))
FRESH, LATER, ELSEWHERE, STATE, WHOSE = (
    tuple(_fresh(row) for row in _ROWS if row["set"] == name)
    for name in ("fresh", "later", "elsewhere", "state", "whose")
)
