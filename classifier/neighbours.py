"""Compare a failed call with the calls of other rollouts on its lane, around its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from classifier.logical_calls import CallState, canonical, ended_at, state_of
from classifier.records import Exchange, KeySource, Kind, Neighbours

NEAR_S = 60.0  # of a failure's end
BURST_S = 10.0  # before a failure's end, for starts
AT_ONCE_S = 5.0  # of a failure's end, for others that are struck with it
# Statuses that one request by itself may bring about: another request's failure is no proof.
_OF_THE_REQUEST = frozenset((500, *range(400, 500))) - {401, 402, 403, 404, 408, 429}
_OPERATOR_KEYS = frozenset((KeySource.OPERATOR, KeySource.ADDED))


def neighbours_of(
    failure: Exchange, others: Iterable[Exchange], *, peers: Collection[str] = ()
) -> Neighbours:
    """Count the neighbours of a failed or abandoned call.

    Arguments:
        others: calls of any rollout; those of other times and lanes are passed over.
        peers: the rollouts of the same registration, whose answers tell how the model is spelled.
    """
    at = ended_at(failure)
    alike: dict[str, float] = {}  # by rollout, the nearest end, in seconds from the failure's
    answers: list[float] = []
    answered: set[str] = set()
    starts = still_open = 0
    at_once: set[str] = set()
    spellings: set[str | None] = set()  # of the model, that peers were answered under
    for other in others:
        if not _same_lane(failure, other):
            continue
        began, ended = other.timing.started_at, ended_at(other)
        starts += at - BURST_S <= began <= at
        still_open += began <= at < ended
        away = ended - at
        if abs(away) > NEAR_S:
            continue
        if state_of(other) is CallState.ANSWERED:
            answers.append(away)
            answered.add(other.rollout_id)
            if other.rollout_id in peers:
                spellings.add(other.model)
        elif _alike(failure, other):
            alike[other.rollout_id] = min(alike.get(other.rollout_id, away), away, key=abs)
            if abs(away) <= AT_ONCE_S and not _same_request(failure, other):
                at_once.add(other.rollout_id)
    together = [0.0, *sorted(alike.values(), key=abs)[:2]]
    first, last = min(together), max(together)
    return Neighbours(
        alike=len(alike),
        answered=len(answered),
        answered_between=any(first <= away <= last for away in answers),
        at_once=len(at_once),
        starts=starts,
        open=still_open,
        respelled=bool(spellings) and failure.model not in spellings,
    )


def corroborated(failure: Neighbours) -> bool | None:
    """Return True if other rollouts prove a failure, False if they contradict it, else None."""
    if failure.alike >= 2 and not failure.answered_between:
        return True
    return False if failure.answered else None


def _same_lane(failure: Exchange, other: Exchange) -> bool:
    """Return True if another rollout's agent asked the same of the same upstream by the same key.

    Any key that was answered counts as the same, unless the operator gave the failed call's key.
    """
    if other.role != "agent" or other.kind is not Kind.INFERENCE or other.model_ambiguous:
        return False
    if other.injected or other.rollout_id == failure.rollout_id:
        return False
    if other.upstream != failure.upstream or canonical(other.model) != canonical(failure.model):
        return False
    return other.key_digest == failure.key_digest or (
        failure.key_source not in _OPERATOR_KEYS and state_of(other) is CallState.ANSWERED
    )


def _alike(failure: Exchange, other: Exchange) -> bool:
    """Return True if another call failed alike. One request sent by two rollouts proves nothing."""
    if failure.cause is None or other.cause is None:
        return failure.cause is None and other.cause is None and failure.ending is other.ending
    if failure.cause.subcategory is not other.cause.subcategory:
        return False
    if failure.status not in _OF_THE_REQUEST:
        return other.status not in _OF_THE_REQUEST
    return other.status == failure.status and not _same_request(failure, other)


def _same_request(failure: Exchange, other: Exchange) -> bool:
    return other.request_digest is not None and other.request_digest == failure.request_digest
