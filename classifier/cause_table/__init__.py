"""The meanings of providers' errors: one ordered table of facts, first match wins.

``classifier.causes`` applies it. Phrases are whole clauses of a provider's own sentence, never
single words.

The order inside the table is the order of evidence: names that a provider defined (codes,
types, Google reasons and quota ids, AWS exceptions), then phrases of its own message, then
the broad type names that several failures share, then the status. Broad names stand after
phrases because providers reuse them: Anthropic's ``invalid_request_error`` is a malformed
request, an empty account and a reached spend limit; only its message tells them apart.
"""

from __future__ import annotations

from typing import Final

from classifier.cause_table.codes import COINED
from classifier.cause_table.phrases import BROAD, ENDINGS, FLAWS, NO_ANSWER, PHRASES, STATUSES

TABLE: Final = (*COINED, *PHRASES, *BROAD, *STATUSES)
"""Every row that reads an error or a status, in the order in which they are tried."""

ROWS: Final = (*TABLE, *ENDINGS.values(), *FLAWS.values(), NO_ANSWER)
"""Every row there is; each id once."""

UNEXPLAINED: Final = frozenset(
    (
        *(row.id for row in STATUSES if row.id.startswith("status.")),
        "in_band.unnamed",
        "any.rejected_name",
        "any.not_found_name",
    )
)
"""Rows for which only a status speaks, or a name that any failure may have."""

__all__ = [
    "BROAD",
    "COINED",
    "ENDINGS",
    "FLAWS",
    "NO_ANSWER",
    "PHRASES",
    "ROWS",
    "STATUSES",
    "TABLE",
    "UNEXPLAINED",
]
