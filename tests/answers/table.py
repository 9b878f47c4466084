"""The labelled answers of this folder, as its page has them, for the tests that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from classifier.records import Ending, Exchange
from classifier.verdicts import Subcategory
from tests.proxy.wire.observing import observed
from tests.tables import lines

FOLDER = Path(__file__).parent
CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One labelled answer; ``body`` is JSON, or the text as it was sent.

    What a label leaves out (None) is not looked at. ``cause`` is None where nothing failed.
    """

    status: int
    body: object
    cause: Subcategory | None
    upstream: str = "any"
    url: str = CHAT
    headers: Mapping[str, str] = field(default_factory=dict)
    fact: str = ""
    source: str = ""
    language: str = "en"
    set: str = ""
    transient: bool | None = None  # None: as the cause is
    reason: str | None = None
    rule: str | None = None
    code: str | None = None
    retry_after_s: float | None = None
    said: Mapping[str, Any] | None = None

    @property
    def is_transient(self) -> bool:
        by_cause = self.cause is not None and self.cause.transient
        return by_cause if self.transient is None else self.transient

    @property
    def label(self) -> str:
        """The cause's name; empty where nothing failed."""
        return "" if self.cause is None else self.cause.value

    @property
    def message(self) -> str:
        """The sentence of an error that is nothing else."""
        match self.body:
            case {"error": {"message": str(said)}}:
                return said
        return ""

    def sent(self) -> bytes:
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()

    def observed(
        self,
        pieces: Sequence[bytes] | None = None,
        *,
        ending: Ending = Ending.COMPLETE,
        headers: Mapping[str, str] | None = None,
    ) -> Exchange:
        """Hear it as the proxy does, whole or in those pieces."""
        return observed(
            [self.sent()] if pieces is None else pieces,
            self.url,
            ending=ending,
            status=self.status,
            type_=None,
            headers=dict(self.headers) | dict(headers or {}),
            upstream=self.upstream,
        )


def _answer(row: Mapping[str, Any]) -> Answer:
    fields = {name: value for name, value in row.items() if name in Answer.__slots__}
    cause = None if row["cause"] is None else Subcategory(row["cause"])
    return Answer(**{**fields, "cause": cause})


def answers(name: str) -> tuple[Answer, ...]:
    """Read one file of the folder."""
    return tuple(map(_answer, lines(FOLDER / f"{name}.jsonl")))


DOCUMENTED = answers("documented")
ENVELOPES = answers("envelopes")
LANGUAGES = answers("languages")
LOOKALIKES = answers("lookalikes")
STREAMS = answers("streams")
WORDED = answers("worded")
