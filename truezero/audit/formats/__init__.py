"""The formats of finished runs and of traces, and which one a path or records are in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from truezero.audit.audit_format import AuditFormat
from truezero.audit.formats.agent_lightning import LIGHTNING_EVENTS, LIGHTNING_ROLLOUTS
from truezero.audit.formats.agentdojo import AGENTDOJO
from truezero.audit.formats.atif import ATIF_TRACES
from truezero.audit.formats.benchflow import BENCHFLOW
from truezero.audit.formats.harbor import HARBOR, HARBOR_TRACES
from truezero.audit.formats.inspect_logs import INSPECT
from truezero.audit.formats.litellm_spend import LITELLM
from truezero.audit.formats.maseval import MASEVAL
from truezero.audit.formats.mcpmark import MCPMARK
from truezero.audit.formats.nemo_gym import NEMO_TRACES
from truezero.audit.formats.openhands import OPENHANDS, OPENHANDS_TRACES
from truezero.audit.formats.otel import OTEL_TRACES
from truezero.audit.formats.own import OWN
from truezero.audit.formats.rllm import RLLM_TRACES
from truezero.audit.formats.swebench import SWEBENCH
from truezero.audit.formats.tau_bench import TAU_BENCH
from truezero.audit.formats.terminal_bench import TERMINAL_BENCH
from truezero.audit.formats.verifiers import VERIFIERS, VERIFIERS_TRACES
from truezero.audit.runs import AuditError
from truezero.audit.trace_format import Record, TraceFormat

# In the order in which a path is tried: what only one harness writes comes first.
FORMATS: tuple[AuditFormat, ...] = (
    OWN,
    BENCHFLOW,
    HARBOR,
    INSPECT,
    MASEVAL,
    OPENHANDS,
    TERMINAL_BENCH,
    TAU_BENCH,
    AGENTDOJO,
    MCPMARK,
    VERIFIERS,
    LITELLM,
    SWEBENCH,
)
# In the order in which a record is tried.
TRACES: tuple[TraceFormat, ...] = (
    NEMO_TRACES,
    RLLM_TRACES,
    LIGHTNING_ROLLOUTS,
    LIGHTNING_EVENTS,
    ATIF_TRACES,
    HARBOR_TRACES,
    VERIFIERS_TRACES,
    OPENHANDS_TRACES,
    OTEL_TRACES,
)


def format_of(path: Path, name: str | None = None) -> AuditFormat:
    """Return the format of a file or folder, or the one of that name.

    Raises:
        AuditError: nothing is there, or no format recognises it; the message lists what each
            looks for.
    """
    if not path.exists():
        raise AuditError(f"{path}: no such file or folder")
    if name is not None:
        return _named(name)
    recognised = next((each for each in FORMATS if each.recognises(path)), None)
    if recognised is None:
        raise AuditError(
            f"{path}: not a format that is known. For records of your own say where their fields "
            f"are: --map id=…,score=…. Looked for:\n{marks(FORMATS)}"
        )
    return recognised


def _named(name: str) -> AuditFormat:
    chosen = next((each for each in FORMATS if each.name == name), None)
    if chosen is None:
        known = ", ".join(each.name for each in FORMATS)
        raise AuditError(f"--format: {name!r} is none of {known}")
    return chosen


def marks(formats: Iterable[AuditFormat]) -> str:
    """Return a line for each format that says what it is recognised by."""
    return "\n".join(f"  {each.name:14} {each.marks}" for each in formats)


def traces_of(records: Sequence[Record]) -> TraceFormat:
    """Return the format of records.

    Raises:
        ValueError: no format, or several, fit them.
    """
    formats: dict[str, TraceFormat] = {}
    for number, record in enumerate(records, start=1):
        known = next((each for each in TRACES if each.recognises(record)), None)
        if known is None:
            fields = ", ".join(sorted(map(str, record))[:8])
            raise ValueError(f"record {number} is of no known format; it has {fields or 'nothing'}")
        formats[known.title] = known
    if len(formats) > 1:
        raise ValueError(f"records of {' and '.join(formats)} are mixed")
    return next(iter(formats.values()), TRACES[0])
