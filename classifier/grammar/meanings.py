"""The meanings of a subject and a predicate in one clause: an ordered table.

Rows of a lower rank are tried over every clause before those of the next: money first, since it
outranks whatever else a sentence says; what names its object next; general words, then vague ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from classifier.cause_table.row import (
    AUTH,
    MODEL,
    NO_STATUS,
    NOT_SERVER,
    PROVIDER,
    QUOTA,
    RATE,
    REJECTED,
    SERVER,
    Statuses,
    statuses,
)
from classifier.verdicts import Subcategory

_NO_TERMS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One row: any of the subjects with any of the predicates gives a cause.

    ``beside`` are terms of which one must occur anywhere in the message, ``without`` terms of
    which none may. ``on`` are the statuses it may come with (None: inside a 200 that states none).
    ``within`` is how many words may stand between them. ``direct``: a subject behind a
    preposition does not count; ``nearest``: nor one that another subject is closer than. ``also``
    are predicates of which the same clause must hold one more.
    ``any_status_named``: a name says it whatever the status is, a sentence only with ``on``;
    ``said_only``: a name does not say it.
    """

    rank: int
    gives: Subcategory
    subjects: frozenset[str]
    predicates: frozenset[str]
    reason: str | None = None
    beside: frozenset[str] = _NO_TERMS
    without: frozenset[str] = _NO_TERMS
    on: Statuses | None = None
    within: int = 7
    direct: bool = False
    nearest: bool = False
    also: frozenset[str] = _NO_TERMS
    any_status_named: bool = False
    said_only: bool = False


def _terms(words: str) -> frozenset[str]:
    return frozenset(words.split())


MONEY: Final = 1
SPECIFIC: Final = 2
GENERAL: Final = 3
VAGUE: Final = 4

_SHORT: Final = _terms("per_minute per_hour rate")
_TEMPORARY: Final = _terms("wait.short name.resource_exhausted")
_RATE_STATUSES: Final = statuses(400, 424, 429) | NO_STATUS | SERVER
_MODEL_STATUSES: Final = statuses(400, 401, 403, 404, 410, 422) | NO_STATUS
_BODY: Final = statuses(400, 422, 500, 501) | NO_STATUS
_ANY: Final = NOT_SERVER | SERVER
_UNPAID: Final = _ANY - statuses(402)

MEANINGS: Final = (
    # -- money and allotments -------------------------------------------------------------
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="plan",
        subjects=_terms("limit quota"),
        predicates=_terms("zero"),
        within=0,
        without=_terms("per_minute"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("balance credits"),
        predicates=_terms(
            "insufficient not_enough exhausted exceeded zero overdue required none_left no ended"
            " expired"
            " missing"
        ),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("billing payment"),
        predicates=_terms(
            "required set_up suspended overdue exceeded not_active insufficient not_enough"
        ),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("billing payment"),
        predicates=_terms("failed invalid missing not_valid error"),
        nearest=True,
        on=NOT_SERVER,
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="spend_limit",
        subjects=_terms("spend"),
        predicates=_terms("exceeded exhausted insufficient not_enough error no"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("account arrears"),
        predicates=_terms("overdue"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("account"),
        predicates=_terms("suspended not_active denied"),
        beside=_terms("recharge overdue billing payment balance arrears credits"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("auth"),
        predicates=_terms("denied"),
        beside=_terms("good_standing overdue"),
    ),
    Meaning(
        rank=MONEY,
        gives=RATE,
        subjects=_terms("quota"),
        predicates=_terms("exceeded exhausted insufficient not_enough per_minute"),
        beside=_SHORT,
        without=_terms("per_day"),
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="daily",
        subjects=_terms("usage quota allotment requests limit token_limit rate credits plan"),
        predicates=_terms("per_day"),
        also=_terms("exceeded exhausted insufficient not_enough too_fast"),
        without=_terms("per_minute"),
        on=_ANY - statuses(404),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="daily",
        subjects=_terms("usage quota allotment requests limit token_limit rate credits plan"),
        predicates=_terms("per_day"),
        without=_terms("per_minute"),
        on=statuses(402, 413, 429),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="plan",
        subjects=_terms("usage"),
        nearest=True,
        predicates=_terms(
            "exceeded exhausted insufficient not_enough ended expired no none_left error"
        ),
        without=_terms("per_minute"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="plan",
        subjects=_terms("allotment"),
        predicates=_terms(
            "exceeded exhausted insufficient not_enough ended expired no none_left error"
        ),
        without=_terms("per_minute"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="plan",
        subjects=_terms("allotment"),
        predicates=_terms("required"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        reason="plan",
        subjects=_terms("plan"),
        predicates=_terms("expired ended required suspended exceeded not_active none_left"),
        direct=True,
        on=statuses(400, 401, 402, 403, 429) | NO_STATUS,
    ),
    Meaning(
        rank=MONEY,
        gives=RATE,
        subjects=_terms("quota"),
        predicates=_terms("exceeded exhausted"),
        beside=_TEMPORARY,
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("quota"),
        predicates=_terms("exceeded exhausted insufficient not_enough no none_left"),
    ),
    Meaning(
        rank=MONEY,
        gives=QUOTA,
        subjects=_terms("quota"),
        predicates=_terms("failed"),
        on=statuses(402, 403, 429),
    ),
    # -- what the sentence is about -------------------------------------------------------
    Meaning(
        rank=SPECIFIC,
        gives=PROVIDER,
        reason="overloaded",
        subjects=_terms("worker"),
        predicates=_terms("exceeded too_fast too_long overloaded"),
        on=statuses(424, 429) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("rate requests limit context quota"),
        predicates=_terms("per_minute per_hour"),
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("rate"),
        predicates=_terms("violates"),
        any_status_named=True,
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="content_filter",
        subjects=_terms("content context"),
        predicates=_terms("violates"),
        within=10,
        on=statuses(400, 403, 422, 451, 498, 500) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="content_filter",
        subjects=_terms("content"),
        predicates=_terms("denied failed required"),
        on=statuses(400, 403, 422, 451) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="context_length",
        subjects=_terms("context content"),
        predicates=_terms("exceeded too_long too_large"),
        without=_terms("per_minute"),
        on=_UNPAID,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="context_length",
        subjects=_terms("token_limit"),
        predicates=_terms("exceeded too_long too_large"),
        without=_terms("per_minute"),
        on=statuses(400, 413, 422) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("token_limit"),
        predicates=_terms("exceeded"),
        on=statuses(429),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("rate"),
        predicates=_terms("exceeded too_fast error"),
        any_status_named=True,
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("requests"),
        predicates=_terms("too_fast"),
        any_status_named=True,
        on=_RATE_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=RATE,
        subjects=_terms("requests"),
        predicates=_terms("exceeded too_long"),
        on=statuses(429) | NO_STATUS,
        without=_terms("server worker"),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        reason="region",
        nearest=True,
        subjects=_terms("region location"),
        predicates=_terms("unsupported not_supported not_allowed suspended not_available denied"),
        any_status_named=True,
        on=NOT_SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        reason="region",
        subjects=_terms("location"),
        predicates=_terms(
            "not_supported lacks only_supports unsupported not_available unavailable"
        ),
        within=10,
        on=NOT_SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        reason="no_access",
        subjects=_terms("model deployment"),
        predicates=_terms("not_allowed denied"),
        on=statuses(400, 401, 403, 404) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        subjects=_terms("key"),
        predicates=_terms(
            "invalid expired revoked missing suspended not_valid not_found unknown required"
            " only_for denied not_supported not_allowed not_validated failed unavailable no"
            " violates unparsed gone not_active expected"
        ),
        any_status_named=True,
        on=statuses(400, 401, 403, 404, 422, 498) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        subjects=_terms("bare_key"),
        predicates=_terms(
            "invalid missing not_valid not_found unknown required only_for denied not_supported"
            " not_allowed not_validated"
        ),
        any_status_named=True,
        on=statuses(401, 403, 498),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        subjects=_terms("bare_key"),
        predicates=_terms("expired revoked suspended offline violates only_for gone not_active"),
        any_status_named=True,
        nearest=True,
        on=statuses(400, 401, 403, 498) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="lost_state",
        subjects=_terms("state"),
        predicates=_terms(
            "invalid expired missing not_valid not_found unknown failed not_validated gone error"
        ),
        any_status_named=True,
        on=NOT_SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=AUTH,
        reason="signature",
        subjects=_terms("signature"),
        predicates=_terms(
            "invalid expired failed expected not_valid missing not_validated violates unknown error"
            " denied required"
        ),
        without=_terms("field feature"),
        any_status_named=True,
        on=statuses(400, 401, 403, 422, 498) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=PROVIDER,
        reason="offline",
        subjects=_terms("tunnel hosted endpoint deployment server worker"),
        predicates=_terms("offline"),
        on=_ANY - statuses(401, 402, 429),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=PROVIDER,
        reason="offline",
        subjects=_terms("tunnel hosted"),
        predicates=_terms("suspended crashed draining unavailable"),
        on=statuses(400, 403, 404, 410) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=PROVIDER,
        reason="offline",
        subjects=_terms("server worker"),
        predicates=_terms("suspended crashed draining"),
        on=statuses(404, 410),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=PROVIDER,
        reason="offline",
        subjects=_terms("tunnel"),
        predicates=_terms("not_found unknown no"),
        direct=True,
        on=statuses(404) | SERVER,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("model deployment engine"),
        predicates=_terms("not_found unknown"),
        direct=True,
        nearest=True,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("model deployment engine channel"),
        predicates=_terms("gone not_open"),
        direct=True,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("channel"),
        predicates=_terms("no not_available not_found unknown"),
        beside=_terms("model"),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("server worker endpoint hosted"),
        predicates=_terms("no not_found not_available"),
        beside=_terms("model"),
        on=statuses(404),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("model deployment"),
        predicates=_terms(
            "unavailable not_available not_supported not_valid not_active suspended offline no"
        ),
        direct=True,
        nearest=True,
        on=_MODEL_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("model deployment"),
        predicates=_terms("invalid unsupported"),
        direct=True,
        within=2,
        nearest=True,
        on=_MODEL_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("model deployment"),
        predicates=_terms("missing"),
        direct=True,
        within=1,
        on=_MODEL_STATUSES,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("endpoint"),
        predicates=_terms("not_found unknown gone suspended not_available invalid"),
        beside=_terms("name model deployment"),
        direct=True,
        on=statuses(400, 403, 404) | NO_STATUS,
    ),
    Meaning(
        rank=SPECIFIC,
        gives=MODEL,
        subjects=_terms("endpoint"),
        predicates=_terms("not_found unknown gone"),
        direct=True,
        on=statuses(400, 403),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="wrong_endpoint",
        subjects=_terms("route endpoint"),
        predicates=_terms(
            "not_found unknown invalid missing no unsupported not_supported not_allowed gone"
        ),
        direct=True,
        on=statuses(404, 405),
    ),
    Meaning(
        rank=SPECIFIC,
        gives=REJECTED,
        reason="wrong_endpoint",
        subjects=_terms("route"),
        predicates=_terms("not_found unknown unsupported not_supported"),
        without=_terms("field feature"),
        direct=True,
        on=statuses(400) | NO_STATUS,
    ),
    # -- general words --------------------------------------------------------------------
    Meaning(
        rank=GENERAL,
        gives=AUTH,
        subjects=_terms("account"),
        predicates=_terms("suspended offline not_active revoked not_allowed verify denied"),
        nearest=True,
        direct=True,
        any_status_named=True,
        on=NOT_SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=AUTH,
        subjects=_terms("account member"),
        predicates=_terms("not_validated"),
        on=statuses(400, 401, 403) | NO_STATUS,
    ),
    Meaning(
        rank=GENERAL,
        gives=AUTH,
        subjects=_terms("account member"),
        predicates=_terms("suspended revoked not_allowed verify denied invalid unknown"),
        any_status_named=True,
        on=statuses(401, 403),
    ),
    Meaning(
        rank=GENERAL,
        gives=AUTH,
        subjects=_terms("auth"),
        predicates=_terms(
            "failed invalid missing denied insufficient not_enough not_validated required expected"
            " error expired"
            " not_allowed no suspended violates"
        ),
        any_status_named=True,
        on=statuses(400, 401, 403, 422, 498) | NO_STATUS,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="unsupported",
        subjects=_terms("feature field parameter model"),
        predicates=_terms("unsupported not_supported only_supports lacks not_active"),
        on=statuses(400, 404, 422, 500, 501) | NO_STATUS,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="malformed",
        subjects=_terms("field"),
        predicates=_terms(
            "invalid missing required expected unknown not_found not_valid not_allowed too_long"
            " too_large"
        ),
        on=_BODY,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="malformed",
        subjects=_terms("field"),
        predicates=_terms("failed"),
        on=statuses(400, 422) | NO_STATUS,  # at 500 it is the server that failed at something
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        reason="overloaded",
        subjects=_terms("server worker model engine capacity requests memory"),
        predicates=_terms("overloaded"),
        on=statuses(400, 408, 409, 424, 429, 498) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        subjects=_terms("server worker engine capacity connection memory"),
        predicates=_terms(
            "crashed unavailable not_available not_healthy failed loading exhausted insufficient"
            " not_enough no"
        ),
        on=statuses(400, 408, 409, 424, 429, 498) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        subjects=_terms("server worker engine capacity connection memory model"),
        predicates=_terms("error"),
        on=statuses(424) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        reason="timeout",
        subjects=_terms("server worker engine connection requests generation"),
        predicates=_terms("timed_out"),
        on=statuses(400, 408, 409, 424, 429, 498) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        reason="aborted",
        subjects=_terms("requests generation engine server worker"),
        predicates=_terms("aborted"),
        on=statuses(400, 408, 409) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        reason="draining",
        subjects=_terms("generation engine server worker"),
        predicates=_terms("draining"),
        on=statuses(400, 409, 424) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=PROVIDER,
        reason="loading",
        subjects=_terms("model"),
        predicates=_terms("loading crashed not_healthy draining"),
        on=statuses(400, 424, 429) | NO_STATUS | SERVER,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="malformed",
        subjects=_terms("field context parameter"),
        predicates=_terms("unparsed"),
        on=_BODY,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="too_large",
        subjects=_terms("requests parameter"),
        predicates=_terms("too_large"),
        on=statuses(400, 413, 422) | NO_STATUS,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="too_large",
        subjects=_terms("field"),
        predicates=_terms("exceeded too_long too_large"),
        on=statuses(400, 413, 422) | NO_STATUS,
    ),
    Meaning(
        rank=GENERAL,
        gives=REJECTED,
        reason="malformed",
        subjects=_terms("context"),
        predicates=_terms("missing required expected"),
        on=statuses(400, 422) | NO_STATUS,
    ),
    Meaning(
        rank=VAGUE,
        gives=REJECTED,
        subjects=_terms("requests"),
        predicates=_terms("invalid"),
        within=2,
        said_only=True,
        on=statuses(400, 422) | NO_STATUS,
    ),
    Meaning(
        rank=VAGUE,
        gives=REJECTED,
        subjects=_terms("parameter context"),
        predicates=_terms("invalid missing required expected not_valid unknown failed error"),
        on=statuses(400, 422) | NO_STATUS,
    ),
)
"""Every row, in the order in which rows of one rank are tried."""
