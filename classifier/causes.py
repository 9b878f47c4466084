"""Classify why one call failed, by the cause table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from classifier.cause_table import ROWS, TABLE
from classifier.cause_table.row import CauseRow
from classifier.cause_table.statuses import ENDINGS, FLAWS, NO_ANSWER
from classifier.records import Answer, Cause, Ending, Kind, ProviderError
from classifier.verdicts import Subcategory

__all__ = ("ROWS", "CauseRow", "classify", "status_only")

_STATUS_ONLY: Final = {
    401: Subcategory.AUTH,
    402: Subcategory.QUOTA,
    403: Subcategory.AUTH,
    404: Subcategory.MODEL_NOT_FOUND,
    408: Subcategory.PROVIDER_ERROR,
    429: Subcategory.RATE_LIMIT,
}
_ANSWERING: Final = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.EMBEDDING))
_GENERATING: Final = frozenset((Kind.INFERENCE, Kind.CONTINUATION))


def status_only(status: int) -> Subcategory | None:
    """Classify by the HTTP status alone, as benchflow does; None below 400.

    Source: benchflow-ai/benchflow, ``_api_error_subcategory`` in its usage accounting.
    """
    if status < 400:
        return None
    other = Subcategory.PROVIDER_ERROR if status >= 500 else Subcategory.REJECTED_REQUEST
    return _STATUS_ONLY.get(status, other)


def classify(answer: Answer, *, stall_s: float = 60.0) -> Cause | None:
    """Classify a failed call; None when the provider did not fail it.

    A status from 400 on is a cause for every kind of call; an error inside a 200 only for
    inference, its continuations and embeddings, a flaw only for the first two. A redirect is
    no failure: the client follows it, and the next call is classified by itself. LOST is left
    to the rollout's rules.

    Args:
        answer: the evidence of one call.
        stall_s: seconds of silence after which an agent's hang-up is the provider's failure.
    """
    if answer.ending is Ending.LOST:
        return None
    if answer.status is not None and answer.status >= 400:
        return _read(answer)
    if answer.error is not None and answer.kind in _ANSWERING:
        return _read(answer)
    row = _failure_without_error(answer, stall_s)
    return None if row is None else _cause(row, answer, None)


def _failure_without_error(answer: Answer, stall_s: float) -> CauseRow | None:
    """Return the row of a failure without an error: by its ending or its flaw."""
    if answer.ending is Ending.LEFT_BY_AGENT:
        stalled = answer.kind in _ANSWERING and answer.silent_s > stall_s
        return ENDINGS[answer.ending] if stalled else None
    if answer.status is not None and not 200 <= answer.status < 300:
        return None  # an upgrade, or a redirect that the client follows
    if answer.ending is Ending.CUT_UPSTREAM and answer.status is None:
        return NO_ANSWER
    if answer.ending is not Ending.COMPLETE:
        return ENDINGS[answer.ending]
    if answer.flaw is not None and answer.kind in _GENERATING:
        return FLAWS[answer.flaw]
    return None


_NOTHING: Final = ProviderError()


def _read(answer: Answer) -> Cause:
    error = answer.error or _NOTHING
    status = _stated_status(answer.status, error.status)
    names = tuple(_names(error, answer.stated_type))
    lowered = frozenset(name.lower() for name in names)
    row = next(row for row in TABLE if _matches(row, answer, error, status, lowered))
    return _cause(row, answer, next((n for n in names if n.lower() in row.names), None))


def _stated_status(http: int | None, stated: int | None) -> int | None:
    """Return the status that describes the failure best.

    Inside a 200 only the body can state it. A 400 or a 5xx whose body states another status
    was flattened on the way (gateways wrap the provider's response).
    """
    if http is None or http < 400:
        return stated
    flattened = http == 400 or http >= 500
    return stated if flattened and stated is not None else http


def _names(error: ProviderError, stated_type: str | None) -> Iterator[str]:
    for name in (error.code, error.type, *error.reasons, stated_type):
        if name:
            yield name


def _matches(
    row: CauseRow, answer: Answer, error: ProviderError, status: int | None, names: frozenset[str]
) -> bool:
    return (
        (row.on is None or status in row.on)
        and (not row.names or not row.names.isdisjoint(names))
        and (row.says is None or bool(error.message and row.says.search(error.message)))
        and (row.reasons is None or any(row.reasons.search(r) for r in error.reasons))
        and (not row.params or (error.param or "").lower() in row.params)
        and (row.http is None or answer.status in row.http)
        and (not row.upstreams or answer.upstream.lower() in row.upstreams)
    )


_TOKEN: Final = re.compile(r"(?=[\w.:\-]*[A-Za-z]|\d{1,6}\Z)[A-Za-z0-9_.:\-]{1,64}")
# A key would have the shape of a token; no provider's code begins like one.
_SECRET: Final = re.compile(
    r"(?i)(?:sk|tz|pk|rk|gsk|xai|hf|nvapi|key|aiza|akia|asia|eyj|ghp)[-_A-Z0-9]{16,}"
)


def _stored(names: Iterable[str | None]) -> str | None:
    """Return the first name safe to store: a short token that is no sentence and no key."""
    fit = (n for n in names if n and _TOKEN.fullmatch(n) and not _SECRET.match(n))
    return next(fit, None)


def _cause(row: CauseRow, answer: Answer, matched: str | None) -> Cause:
    error = answer.error or _NOTHING
    transient = row.gives.transient if row.transient is None else row.transient
    waits = transient or row.gives is Subcategory.QUOTA
    stated = answer.retry_after_s if answer.retry_after_s is not None else error.retry_after_s
    return Cause(
        subcategory=row.gives,
        transient=transient,
        rule=row.id,
        reason=row.reason,
        code=_stored((matched, error.code, error.type, *error.reasons, answer.stated_type)),
        retry_after_s=stated if waits else None,
    )
