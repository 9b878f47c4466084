"""Classify why one call failed, by the cause table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, Protocol

from classifier.cause_rows import CauseRow
from classifier.cause_table import known_rows
from classifier.grammar import GRAMMAR, Grammar, own_words, stated_wait
from classifier.grammar.vocabulary import vocabulary
from classifier.records import (
    ABANDONED,
    USED_UP,
    Cause,
    Ending,
    FailureEvidence,
    Kind,
    ProviderError,
)
from classifier.verdicts import Subcategory

__all__ = (
    "CauseTable",
    "Classify",
    "classify",
    "failed_status",
    "names_of",
    "read_tables",
    "status_only",
    "storable",
    "wait_of",
)

_ANSWERING: Final = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.EMBEDDING))
_GENERATING: Final = frozenset((Kind.INFERENCE, Kind.CONTINUATION))


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseTable:
    """The evidence in its order: coined names, the grammar, then broad names and the status."""

    coined: tuple[CauseRow, ...] = field(
        default_factory=lambda: (*known_rows().codes, *known_rows().sentences)
    )
    grammar: Grammar = GRAMMAR
    broad: tuple[CauseRow, ...] = field(
        default_factory=lambda: (*known_rows().broad, *known_rows().statuses)
    )


_whole_table: Final = cache(CauseTable)


def read_tables() -> None:
    """Read what a failed call needs; without it the first one waits for that."""
    _whole_table().grammar.read("", (), status=None)


class Classify(Protocol):
    """Names the cause of a failed call: ``classify``, or what stands before it."""

    def __call__(self, answer: FailureEvidence, *, stall_s: float) -> Cause | None:
        """Classify a call; the arguments are those of ``classify``."""
        ...


def classify(
    answer: FailureEvidence, *, stall_s: float = 60.0, table: CauseTable | None = None
) -> Cause | None:
    """Classify a failed call; None when the provider did not fail it.

    A status from 400 on is a cause for every kind of call; an error inside a 200 for all but
    probes, a flaw only for inference and its continuations. A redirect is no failure: the client
    follows it, and the next call is classified by itself. LOST and LEFT_WHILE_HELD are left to the
    rollout's rules.

    Args:
        answer: the evidence of one call.
        stall_s: seconds of silence after which an agent's hang-up is the provider's failure.
        table: what errors mean; one that lacks something measures what that is worth.
    """
    if answer.ending in (Ending.LOST, Ending.LEFT_WHILE_HELD):
        return None
    if answer.status is not None and answer.status >= 400:
        return _read(answer, table or _whole_table())
    if answer.error is not None and answer.kind is not Kind.PROBE:
        return _read(answer, table or _whole_table())
    row = _failure_without_error(answer, stall_s)
    return None if row is None else _cause(_by_row(row, ()), answer)


def _failure_without_error(answer: FailureEvidence, stall_s: float) -> CauseRow | None:
    """Return the row of a failure without an error: by its ending or its flaw."""
    if answer.ending in ABANDONED:
        stalled = answer.kind in _ANSWERING and answer.silent_s > stall_s
        return known_rows().endings[Ending.LEFT_BY_AGENT] if stalled else None
    if answer.status is not None and not 200 <= answer.status < 300:
        return None  # an upgrade, or a redirect that the client follows
    if answer.ending is Ending.CUT_UPSTREAM and answer.status is None:
        return known_rows().no_answer
    if answer.ending is not Ending.COMPLETE:
        return known_rows().endings[answer.ending]
    if answer.flaw is not None and answer.kind in _GENERATING:
        return known_rows().flaws[answer.flaw]
    return None


_NOTHING: Final = ProviderError()
_PATIENT: Final = frozenset((402, 403, 429))
_LONG_S: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The meaning of an error, by a row or by the grammar."""

    gives: Subcategory
    rule: str
    reason: str | None
    transient: bool
    matched: str | None = None  # the name that a row recognised
    read: bool = False  # by the grammar


def _read(answer: FailureEvidence, table: CauseTable) -> Cause:
    error = answer.error or _NOTHING
    status = failed_status(answer.status, error.status or _kept(error))
    names = tuple(names_of(error, answer.stated_type))
    decision = _by_rows(table.coined, answer, error, status, names)
    if decision is None:
        decision = _by_grammar(table.grammar, answer, error, status, names) or _by_rows(
            table.broad, answer, error, status, names
        )
        assert decision is not None  # statuses.toml has a row for every status, and for none
        decision = _whose(decision, answer, error, status, table.grammar)
    decision = _too_large(_quota_if_long_wait(decision, answer, error, status), error)
    return _cause(_used_up(decision, answer), answer)


def _by_rows(
    rows: Iterable[CauseRow],
    answer: FailureEvidence,
    error: ProviderError,
    status: int | None,
    names: tuple[str, ...],
) -> _Decision | None:
    lowered = frozenset(name.lower() for name in names)

    def own() -> str | None:
        return None if error.message is None else own_words(error.message)

    row = next((r for r in rows if r.matches(answer, lowered, status, own)), None)
    return None if row is None else _by_row(row, names)


def _by_row(row: CauseRow, names: Iterable[str]) -> _Decision:
    return _Decision(
        gives=row.gives,
        rule=row.id,
        reason=row.reason,
        transient=row.transient,
        matched=next((name for name in names if name.lower() in row.codes | row.types), None),
    )


def _by_grammar(
    grammar: Grammar,
    answer: FailureEvidence,
    error: ProviderError,
    status: int | None,
    names: tuple[str, ...],
) -> _Decision | None:
    wait = wait_of(answer, error)
    reading = grammar.read(error.message, names, status=status, retry_after_s=wait)
    if reading is None:
        return None
    gives = reading.meaning.gives
    reason = reading.meaning.reason
    return _Decision(
        gives=gives,
        rule=reading.rule,
        reason=reason,
        transient=gives.transient,
        matched=reading.name,
        read=True,
    )


def _quota_if_long_wait(
    decision: _Decision, answer: FailureEvidence, error: ProviderError, status: int | None
) -> _Decision:
    """Call it an allotment where the stated wait is an hour or more, whatever its name."""
    if status not in _PATIENT or decision.gives is Subcategory.QUOTA:
        return decision
    wait = stated_wait(error.message or "", wait_of(answer, error))
    if wait is None or wait < _LONG_S:
        return decision
    return replace(
        decision,
        gives=Subcategory.QUOTA,
        rule="stated.long_wait",
        reason="long_wait",
        transient=Subcategory.QUOTA.transient,
    )


# OpenAI's and Groq's words (platform.openai.com/docs/guides/rate-limits, console.groq.com/docs).
_STATED: Final = re.compile(
    r"\blimit:?\s{1,3}([\d,]{1,15})\b.{0,80}?\brequested:?\s{1,3}([\d,]{1,15})\b",
    re.IGNORECASE | re.DOTALL,
)


def _too_large(decision: _Decision, error: ProviderError) -> _Decision:
    """Call a limit the request's own if it says that this request alone is over all of it."""
    if decision.gives is not Subcategory.RATE_LIMIT:
        return decision
    stated = _STATED.search(own_words(error.message or ""))
    if stated is None:
        return decision
    limit, requested = (int(each.replace(",", "") or 0) for each in stated.groups())
    if requested <= limit:
        return decision
    rejected = Subcategory.REJECTED_REQUEST
    return replace(
        decision, gives=rejected, rule="stated.requested_over_limit", reason="too_large",
        transient=rejected.transient,
    )  # fmt: skip


def _used_up(decision: _Decision, answer: FailureEvidence) -> _Decision:
    """Give a rate limit its reason where the answer's headers say that nothing was left of it."""
    if decision.gives is not Subcategory.RATE_LIMIT or decision.reason or not answer.used_up:
        return decision
    return replace(decision, reason=USED_UP)


_PARTS: Final = re.compile(r"[.\[\]]+")
_BAD_RESPONSE: Final = "bad_response"
# Reasons that a field settles: of a row, which may go by the status alone; of the grammar.
_OF_FIELDS: Final = ((None, "wrong_endpoint"), (None, "malformed", _BAD_RESPONSE))
_AFTER_OUTPUT: Final = frozenset(("context_length", "content_filter"))
_TIMED_OUT: Final = frozenset((408, 504))
# Names that gateways and engines coined for failures of their own.
_SERVERS: Final = frozenset((
    "server_error", "internal_error", "internal_server_error", "internalservererror", "api_error",
    "upstream_error", "response.failed",
))  # fmt: skip


def _whose(
    decision: _Decision,
    answer: FailureEvidence,
    error: ProviderError,
    status: int | None,
    grammar: Grammar,
) -> _Decision:
    """Tell a rejected request from an answer that a gateway or an engine could not read.

    A rejection is explained by a field of the request that it names, unless a server's status or
    name stands beside it. Fields of an answer, and generated output, are the server's.
    """
    rejects = decision.gives is Subcategory.REJECTED_REQUEST and not decision.transient
    if rejects and answer.answered and decision.reason not in _AFTER_OUTPUT:
        return _failed(decision, "in_band")
    if rejects and status in _TIMED_OUT:
        return _failed(decision, "timeout")
    bad_response = decision.reason == _BAD_RESPONSE
    if not (rejects or bad_response) or decision.reason not in _OF_FIELDS[decision.read]:
        return decision
    message = error.message or ""
    own = theirs = False
    for path in (*grammar.fields(message), error.param):
        whose = path and _belongs(path, answer.request_keys)
        own, theirs = own or whose is True, theirs or whose is False
    if theirs:
        return _failed(decision, _BAD_RESPONSE)
    if decision.reason == "wrong_endpoint":
        return decision
    part = own or grammar.names_part(message, in_a_word=decision.reason is not None)
    names = {name.lower() for name in names_of(error, answer.stated_type)}
    if (status or 0) >= 500 or not _SERVERS.isdisjoint(names):
        if decision.reason is None:
            return decision
        if part and not bad_response:
            return replace(decision, reason=None)
        return _failed(decision, _BAD_RESPONSE)
    if bad_response and not own:
        return decision
    explained = part and not grammar.names_account(message)
    reason = "malformed" if explained else None
    return replace(decision, gives=Subcategory.REJECTED_REQUEST, transient=False, reason=reason)


def _belongs(path: str, keys: Collection[str]) -> bool | None:
    """Return True for a field of the request, False for one of an answer, None if nobody knows.

    The first part of a path that is known decides. If the request could not be read, it is
    believed to have what is no answer's.
    """
    known = vocabulary()
    for part in _PARTS.split(path):
        if part in keys or part in known.request_fields:
            return True
        if part in known.response_fields:
            return False
    return None if keys else True


def _failed(decision: _Decision, reason: str) -> _Decision:
    failed = Subcategory.PROVIDER_ERROR
    return replace(decision, gives=failed, transient=failed.transient, reason=reason)


def wait_of(answer: FailureEvidence, error: ProviderError) -> float | None:
    """Return how long the provider asks to wait, in seconds: its headers, body or sentence."""
    for stated in (answer.retry_after_s, error.retry_after_s):
        if stated is not None:
            return stated
    return stated_wait(own_words(error.message), None) if error.message else None


def failed_status(http: int | None, stated: int | None) -> int | None:
    """Return the status that describes the failure best.

    Inside a 200 only the body can state it. A 400, a 424 (SageMaker) or a 5xx whose body states
    another status was flattened on the way: gateways wrap the provider's response.
    """
    if http is None or http < 400:
        return stated
    flattened = http in (400, 424) or http >= 500
    return stated if flattened and stated is not None else http


_KEEPERS: Final = frozenset(("upstream_error", "bad_response_status_code"))
_FAILURE: Final = re.compile(r"40[1238]|429|5\d\d")


def _kept(error: ProviderError) -> int | None:
    """Return the status that one-api and new-api keep of their upstream in ``param``.

    A rejection is left out: it says nothing of the request that its words do not.
    Source: songquanpeng/one-api:relay/controller/helper.go; QuantumNous/new-api:service/error.go.
    """
    if error.param is None or _KEEPERS.isdisjoint((error.type, error.code)):
        return None
    return int(error.param) if _FAILURE.fullmatch(error.param) else None


def names_of(error: ProviderError, stated_type: str | None) -> Iterator[str]:
    """Yield the names that an error has: its code and type, reasons, the stated exception."""
    for name in (error.code, error.type, *error.reasons, stated_type):
        if name:
            yield name


_TOKEN: Final = re.compile(r"(?=[\w.:\-]*[A-Za-z]|\d{1,6}\Z)[A-Za-z0-9_.:\-]{1,64}")
# A key would have the shape of a token; no provider's code begins like one.
_SECRET: Final = re.compile(
    r"(?i)(?:sk|tz|pk|rk|gsk|xai|hf|nvapi|key|aiza|akia|asia|eyj|ghp)[-_A-Z0-9]{16,}"
)


def storable(names: Iterable[str | None]) -> str | None:
    """Return the first name safe to store: a short token that is no sentence and no key."""
    fit = (n for n in names if n and _TOKEN.fullmatch(n) and not _SECRET.match(n))
    return next(fit, None)


def _cause(decision: _Decision, answer: FailureEvidence) -> Cause:
    error = answer.error or _NOTHING
    waits = decision.transient or decision.gives is Subcategory.QUOTA
    return Cause(
        subcategory=decision.gives,
        transient=decision.transient,
        rule=decision.rule,
        reason=decision.reason,
        code=storable(
            (decision.matched, error.code, error.type, *error.reasons, answer.stated_type)
        ),
        retry_after_s=wait_of(answer, error) if waits else None,
    )


# --- the status alone, as `classifier.seed_policy` reads it --------------------------------------


_BY_STATUS_ALONE: Final = {
    401: Subcategory.AUTH,
    402: Subcategory.QUOTA,
    403: Subcategory.AUTH,
    404: Subcategory.MODEL_NOT_FOUND,
    408: Subcategory.PROVIDER_ERROR,
    429: Subcategory.RATE_LIMIT,
}


def status_only(status: int) -> Subcategory | None:
    """Classify by the HTTP status alone, as benchflow does; None below 400.

    Source: benchflow-ai/benchflow, ``_api_error_subcategory`` in its usage accounting.
    """
    if status < 400:
        return None
    other = Subcategory.PROVIDER_ERROR if status >= 500 else Subcategory.REJECTED_REQUEST
    return _BY_STATUS_ALONE.get(status, other)
