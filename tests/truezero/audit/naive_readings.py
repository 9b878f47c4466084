"""Simpler readings of the same recorded runs, beside which an audit is measured.

Each says of a run's recorded words whether it is no measurement, as harnesses and their users do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from classifier.causes import status_only
from classifier.verdicts import Subcategory
from truezero.audit.errors import STATUSES, client_error

Record = Mapping[str, Any]

_STATUS: Final = re.compile(
    r"\b(?:error(?: code)?:?|http|status(?: code)?:?|^)\s*([45]\d\d)\b", re.I
)
# As a maintainer lists them who has seen the usual failures.
_LISTED: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"rate.?limit|too many requests|\b429\b",
        r"quota|billing|credits?\b|insufficient|balance",
        r"authenticat|unauthori[sz]ed|api.?key|permission|\b40[13]\b",
        r"overloaded|unavailable|internal.?server.?error|bad gateway|\b5\d\d\b",
        r"time.?out|timed out",
        r"connection (?:error|reset|refused|closed)|cannot connect|disconnected",
        r"model.{0,30}not (?:found|exist)|\b404\b",
    )
)
_RETURNED: Final = ("unset", "none", None)  # terminal-bench: the agent's command returned


def words(record: Record) -> str:
    """Return the words that are recorded of a run's end, empty if there are none."""
    evidence = record["evidence"]
    said = evidence.get("error") or evidence.get("text") or ""
    return "" if said.startswith("agent finished") else str(said)


def any_exception(record: Record) -> bool:
    """Take every run for none that ended on an exception, whatever it was."""
    evidence = record["evidence"]
    noted = evidence.get("failure_mode") not in _RETURNED or evidence.get("exception_type")
    return bool(noted or evidence.get("error"))


def by_status(record: Record) -> bool:
    """Read the status alone, stated or by the client's exception; a 400 is the request's."""
    said = words(record)
    stated = _STATUS.search(said)
    name = client_error(record["evidence"].get("exception_type"), said)
    status = int(stated[1]) if stated else STATUSES.get(name or "")
    return status is not None and status_only(status) not in (None, Subcategory.REJECTED_REQUEST)


def by_list(record: Record) -> bool:
    """Search for the sentences of the usual failures."""
    return any(pattern.search(words(record)) for pattern in _LISTED)


READINGS: Final[Mapping[str, Callable[[Record], bool]]] = {
    "the status alone": by_status,
    "a list of regular expressions": by_list,
    "any exception": any_exception,
}
