"""The work of the operator's rows in a process: to classify failed calls first."""

from __future__ import annotations

from classifier.operator_causes import OperatorCauses
from proxy.features.operator_causes.settings import CauseSettings
from proxy.parts import NOTHING, Parts, Started


def start(parts: Parts) -> Started:
    """Have the rows before the cause table, if there are any."""
    rows = parts.settings_of(CauseSettings).cause_rows
    return Started(classify=OperatorCauses(rows).classify) if rows else NOTHING
