"""A finished run and its calls, as a harness's files record them; None is what they do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from classifier.records import ExecutionStatus, RolloutRecord, TerminationReason

Settings = tuple[tuple[str, str], ...]
"""Names and values of what was set of an evaluation and its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedError:
    """An error as a harness recorded it, in memory only until its cause is classified.

    ``text`` is the exception's own sentence, ``type`` its class, ``status`` the HTTP status where
    the file has a field for it, ``body`` the provider's JSON answer where the file keeps it.
    """

    text: str = ""
    type: str | None = None
    status: int | None = None
    body: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call to a model as a harness recorded it.

    ``content``: whether text or a tool call came back; ``reasoning``: whether the model is known to
    have reasoned, in words or tokens. ``error`` is None if it was answered.
    ``started_at`` and ``ended_at`` in seconds since the epoch; without them the order in the file
    counts. ``retries`` are those that the harness counts, ``weights`` the version of the weights
    that it names.
    """

    error: RecordedError | None = None
    response_id: str | None = None
    model: str | None = None
    role: str = "agent"
    content: bool | None = None
    reasoning: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tool_calls: int | None = None
    has_tools: bool | None = None
    finish_reason: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    retries: int | None = None
    weights: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """The file of a run; ``words`` of its failure, in memory only, find the line."""

    file: Path
    line: int | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One finished run.

    ``id`` is unique among the runs of one audit; ``origin`` is the id that its harness gave it, the
    same in a copy of its file. ``evaluation`` (a benchmark, a submission), ``model`` and
    ``settings`` (name and value) say what it is a run of: others are no repeats of it. ``repeat``
    says which sample of its task it is and ``attempt`` which try of that sample, from 0.
    ``reward`` is the score that the harness counts, a zero that it fills in itself included;
    ``filled`` says that this is one, of a run that nothing has scored, ``unread`` why a score that
    is there cannot be read.
    ``calls`` is None if the files keep none, empty where they keep them and none was made.
    ``prompted``: whether the agent was given its task. ``output``: whether the agent is known to
    have produced anything. ``cut_off``: no end of the run is recorded, and no result of it.
    ``unknown`` names facts that these files cannot say.
    ``never_began``: why the agent's program never began, if the files show that. ``place``: the
    file to look at.
    """

    id: str
    task: str
    origin: str | None = None
    evaluation: str = ""
    settings: Settings = ()
    repeat: int = 0
    attempt: int = 0
    model: str | None = None
    reward: float | None = None
    filled: bool = False
    unread: str | None = None
    status: ExecutionStatus = ExecutionStatus.SUCCESS
    termination_reason: TerminationReason | None = None
    error: RecordedError | None = None
    calls: tuple[RecordedCall, ...] | None = None
    prompted: bool | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    output: bool | None = None
    cut_off: bool = False
    unknown: tuple[str, ...] = ()
    never_began: str | None = None
    place: RunPlace | None = None


Subject = FinishedRun | RolloutRecord
"""The subject of an audit: another harness's run, or a rollout of our own export."""


class AuditError(ValueError):
    """Files that cannot be audited; the message says which and why."""
