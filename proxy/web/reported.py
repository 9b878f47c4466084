"""What a runner reported of a rollout, as text for its page. It is the runner's own, not ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LONGEST = 4000  # characters of one text that a page shows

_TEXTS: Mapping[str, str] = {
    "error": "Error",
    "verifier_error": "Verifier error",
    "export_error": "Export error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedText:
    """One text under its label; ``left_out`` characters of it are not shown."""

    label: str
    text: str
    left_out: int


def texts(outcome: Mapping[str, Any] | None, metadata: str | None) -> list[ReportedText]:
    """Return the errors, ``eval`` and metadata that a runner reported, without what is absent.

    Arguments:
        outcome: as reported; None before it.
        metadata: JSON text of the registration's metadata.
    """
    reported = outcome or {}
    found = {label: reported[name] for name, label in _TEXTS.items() if reported.get(name)}
    if reported.get("eval"):
        found["Evaluation"] = _indented(reported["eval"])
    if metadata:
        found["Metadata"] = _indented(json.loads(metadata))
    return [
        ReportedText(label=label, text=text[:_LONGEST], left_out=max(0, len(text) - _LONGEST))
        for label, text in found.items()
    ]


def _indented(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
