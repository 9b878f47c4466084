"""The interface of a format of traces, and what formats share in masking records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from truezero.audit.runs import RecordedCall
from truezero.audit.values import Json, mapping
from truezero.integrations.trainers import ERROR

Record = Mapping[str, Any]
"""One object of a trace as its package hands it out, as JSON has it."""
Note = Mapping[str, Any]
"""The finding about a rollout (`Trace.note`)."""
Notes = Mapping[str | None, Note]
"""Notes by the trace's name of their rollout."""

NOTE = "truezero"
"""The key of a masked record's note, if its format has room for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """One format of traces.

    ``rollouts`` returns the rollouts that a record is of, with their calls in their order.
    ``mask`` returns a copy of a record that says what was found, by rollout; of what was not
    measured, the record's own mask, valid or reward field is set too.
    """

    title: str
    recognises: Callable[[Record], bool]
    rollouts: Callable[[Record], dict[str | None, list[RecordedCall]]]
    mask: Callable[[Record, Notes], Json]


def noted(holder: object, note: Note | None) -> Json:
    """Return an object of a record with the note of its rollout in it, if there is one."""
    return mapping(holder) if note is None else {**mapping(holder), NOTE: dict(note)}


def why_masked(note: Note | None) -> str | None:
    """Return what a record that is masked says as its error; None if it is not."""
    return None if note is None or note["measured"] is not False else f"{ERROR}: {note['reason']}"
