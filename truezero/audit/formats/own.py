"""Our own export: JSON lines of rollouts, outcomes and calls, as `truezero export` writes them.

Path: JSON lines of `truezero export`.

Read: everything that was recorded.

Unknown: –.

Copy: the verdict in the rollout's line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from classifier.__main__ import rollouts_of
from classifier.records import RolloutRecord
from truezero.audit.audit_format import AuditFormat, Verdicts, marked
from truezero.audit.files import any_has, found, load_lines, save_lines
from truezero.audit.runs import AuditError
from truezero.audit.values import Json
from truezero.foreign import text_lines

_RECORDS = ("rollout", "outcome", "exchange")


def _marked(record: Any) -> bool:
    return isinstance(record, dict) and record.get("record") in _RECORDS


def _read(path: Path) -> Iterator[RolloutRecord]:
    for file in found(path, "*.jsonl"):
        try:
            yield from rollouts_of(text_lines(file, links=False))
        except OSError as error:
            raise AuditError(f"cannot read {file}: {error.strerror}") from None
        except ValueError as error:
            raise AuditError(f"{file}: {error}") from None


def _owner(record: Json) -> str:
    return str(record.get("id") if record.get("record") == "rollout" else record.get("rollout_id"))


def _write(path: Path, verdicts: Verdicts) -> None:
    """Put each verdict into the rollout's line, else into its outcome's; other keys are ignored."""
    for file in found(path, "*.jsonl"):
        records = list(load_lines(file))
        held = {_owner(each): place for kind in ("outcome", "rollout")
                for place, each in enumerate(records) if each.get("record") == kind}  # fmt: skip
        for owner, place in held.items():
            records[place] = marked(records[place], verdicts, owner)
        save_lines(file, records)


OWN = AuditFormat(
    name="truezero",
    title="truezero export",
    marks="JSON lines whose `record` is `rollout`, `outcome` or `exchange`",
    recognises=lambda path: any_has(path, _marked, "*.jsonl"),
    read=_read,
    write=_write,
)
