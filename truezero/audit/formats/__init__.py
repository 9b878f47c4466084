"""The formats of finished runs, and which one a path is in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from truezero.audit.errors import AuditError
from truezero.audit.formats.benchflow import BENCHFLOW
from truezero.audit.formats.harbor import HARBOR
from truezero.audit.formats.inspect_logs import INSPECT
from truezero.audit.formats.litellm_spend import LITELLM
from truezero.audit.formats.maseval import MASEVAL
from truezero.audit.formats.openhands import OPENHANDS
from truezero.audit.formats.own import OWN
from truezero.audit.formats.swebench import SWEBENCH
from truezero.audit.formats.verifiers import VERIFIERS
from truezero.audit.reading import AuditFormat

# In the order in which a path is tried: what only one harness writes comes first.
FORMATS: tuple[AuditFormat, ...] = (
    OWN,
    BENCHFLOW,
    HARBOR,
    INSPECT,
    MASEVAL,
    OPENHANDS,
    VERIFIERS,
    LITELLM,
    SWEBENCH,
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
        raise AuditError(f"{path}: not a format that is known. Looked for:\n{marks(FORMATS)}")
    return recognised


def _named(name: str) -> AuditFormat:
    chosen = next((each for each in FORMATS if each.name == name), None)
    if chosen is None:
        known = ", ".join(each.name for each in FORMATS)
        raise AuditError(f"--format: {name!r} is none of {known}")
    return chosen


def marks(formats: Iterable[AuditFormat]) -> str:
    """Return a line for each format that says what it is recognised by."""
    return "\n".join(f"  {each.name:10} {each.marks}" for each in formats)
