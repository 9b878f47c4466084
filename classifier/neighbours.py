"""Count what other rollouts got on the lane of a failed call, around its end."""

from __future__ import annotations

from collections.abc import Iterable

from classifier.logical_calls import CallState, ended_at, state_of
from classifier.model_names import canonical
from classifier.records import Exchange, KeySource, Kind, Neighbours
from classifier.verdicts import Subcategory

NEAR_S = 60.0  # of a failure's end
BURST_S = 10.0  # before a failure's end, for starts
# Statuses that one request by itself may bring about: another request's failure is no proof.
_OF_THE_REQUEST = frozenset((500, *range(400, 500))) - {401, 402, 403, 404, 408, 429}
# Failures that a listing of models can share; which model a listing asks for is the agent's.
_OPERATOR_KEYS = frozenset((KeySource.OPERATOR, KeySource.ADDED))
_LISTED = frozenset((Subcategory.AUTH, Subcategory.QUOTA, Subcategory.PROVIDER_ERROR))


def neighbours_of(failure: Exchange, others: Iterable[Exchange]) -> Neighbours:
    """Count the neighbours of a failed or abandoned call.

    Arguments:
        others: calls of any rollout; those of other times and lanes are passed over.
    """
    at = ended_at(failure)
    alike: dict[str, float] = {}  # by rollout, the end that is nearest
    answered: dict[str, list[float]] = {}
    starts, listing_failed = 0, False
    for other in others:
        if not _same_key(failure, other) or other.injected:
            continue
        ended = ended_at(other)
        if other.kind is Kind.PROBE:
            listing_failed |= abs(ended - at) <= NEAR_S and _listed_alike(failure, other)
            continue
        if other.rollout_id == failure.rollout_id or not _same_lane(failure, other):
            continue
        starts += at - BURST_S <= other.timing.started_at <= at
        if abs(ended - at) > NEAR_S:
            continue
        if state_of(other) is CallState.ANSWERED:
            answered.setdefault(other.rollout_id, []).append(ended)
        elif _alike(failure, other):
            nearest = alike.get(other.rollout_id)
            if nearest is None or abs(ended - at) < abs(nearest - at):
                alike[other.rollout_id] = ended
    together = [at, *sorted(alike.values(), key=lambda ended: abs(ended - at))[:2]]
    first, last = min(together), max(together)
    return Neighbours(
        alike=len(alike),
        answered=len(answered),
        answered_between=any(first <= end <= last for ends in answered.values() for end in ends),
        listing_failed=listing_failed,
        starts=starts,
    )


def corroborated(failure: Neighbours | None) -> bool | None:
    """Whether other rollouts prove a failure (True), contradict it (False), or do neither."""
    if failure is None:
        return None
    if failure.listing_failed or (failure.alike >= 2 and not failure.answered_between):
        return True
    return False if failure.answered else None


def _same_key(failure: Exchange, other: Exchange) -> bool:
    """Whether both went to one upstream with one key, whatever key it was that was answered."""
    if failure.upstream != other.upstream or other.role != "agent":
        return False
    return other.key_digest == failure.key_digest or (
        failure.key_source not in _OPERATOR_KEYS and state_of(other) is CallState.ANSWERED
    )


def _same_lane(failure: Exchange, other: Exchange) -> bool:
    if other.kind is not Kind.INFERENCE or other.model_ambiguous:
        return False
    return canonical(other.model) == canonical(failure.model)


def _alike(failure: Exchange, other: Exchange) -> bool:
    """Whether another call failed in the same way; one request sent by two proves nothing."""
    if failure.cause is None or other.cause is None:
        return failure.cause is None and other.cause is None and failure.ending is other.ending
    if failure.cause.subcategory is not other.cause.subcategory:
        return False
    if failure.status not in _OF_THE_REQUEST:
        return other.status not in _OF_THE_REQUEST
    same = other.request_digest is not None and other.request_digest == failure.request_digest
    return other.status == failure.status and not same


def _listed_alike(failure: Exchange, listing: Exchange) -> bool:
    if failure.cause is None or listing.cause is None or listing.method != "GET":
        return False
    subcategory = failure.cause.subcategory
    return subcategory in _LISTED and listing.cause.subcategory is subcategory
