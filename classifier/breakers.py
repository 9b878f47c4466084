"""The circuit breaker of one lane in one batch, as pure functions over its state.

Verdicts are fed in order; `admit` says whether a rollout may start. A state is a value that a
database row can hold, and the time is an argument. `classifier.lane` decides how
long an open one admits nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from classifier.causes import classify
from classifier.fingerprints import Lane
from classifier.lane import FORGOTTEN_S, cool_down_s
from classifier.records import Ending, FailureEvidence, Kind, ProviderError, RolloutRecord
from classifier.retries import reset_command
from classifier.verdicts import (
    ENDED_ON_LOST_STATE,
    EVIDENCE,
    AttributedTo,
    Comparison,
    Health,
    Policy,
    Verdict,
    plural,
)


class Phase(StrEnum):
    """The state of a breaker, which decides what it admits."""

    CLOSED = "closed"  # everything
    OPEN = "open"  # nothing new
    HALF_OPEN = "half_open"  # one probe, whose health decides


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """One lane's breaker; times in seconds since the epoch.

    ``tripped_by`` are the rollouts of the current streak, oldest first. ``retry_at`` is
    when the provider said that a spent quota resets. ``canary`` is the one probe rollout
    that a half-open breaker admitted, at ``probed_at``; ``failed_probes`` counts those that failed
    since it opened. ``probes`` is false where none is admitted without a reset. ``answered_at`` is
    when it stayed shut although its streak was long enough: a reference call to the lane had been
    answered.
    """

    batch: str
    lane: str
    threshold: int
    phase: Phase = Phase.CLOSED
    fingerprint: str | None = None
    streak: int = 0
    tripped_by: tuple[str, ...] = ()
    opened_at: float | None = None
    retry_at: float | None = None
    canary: str | None = None
    answered_at: float | None = None
    probed_at: float | None = None
    failed_probes: int = 0
    probes: bool = True

    @property
    def probe_at(self) -> float | None:
        """The time from which an open one admits a probe; None: after a reset."""
        if self.phase is not Phase.OPEN or not self.probes:
            return self.retry_at
        cooled_at = (self.opened_at or 0.0) + cool_down_s(self.failed_probes)
        return cooled_at if self.retry_at is None else self.retry_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The answer to a rollout that asks to start: ``error`` is None, or the reason why not.

    ``changed`` are the breakers whose probe it becomes, to be stored before the rollout
    starts so that there is no second one.
    """

    error: str | None = None
    changed: tuple[BreakerState, ...] = ()


class _Weight(StrEnum):
    """The effect of one verdict on a breaker."""

    FEEDS = "feeds"
    CLEARS = "clears"
    SILENT = "silent"


def _weight(verdict: Verdict) -> _Weight:
    """Weigh a verdict: a transient failure neither feeds a streak nor breaks one.

    Nor does what agents did themselves, or may have done: it would stop everybody's lane; nor the
    state of a conversation, which says nothing of the key or the model.
    """
    if verdict.attributed_to is AttributedTo.AGENT or verdict.scoreable == "unknown":
        return _Weight.SILENT  # nor where nobody can say whose failure it was
    if verdict.health is Health.HEALTHY:
        return _Weight.CLEARS
    suspected = verdict.health is Health.SUSPECTED_API_ERROR
    lost = ENDED_ON_LOST_STATE in verdict.warnings
    permanent = verdict.health is Health.API_ERROR and not (verdict.transient or lost)
    return _Weight.FEEDS if suspected or permanent else _Weight.SILENT


def lane_to_prove(verdict: Verdict) -> Lane | None:
    """Return the lane on which a call of the batch has to be seen for the verdict to be proof.

    None if the verdict needs none, or nothing could make it proof: a suspicion on a lane whose
    upstream or model nobody knows. That is a mistake in a set-up, which stops nothing.
    """
    if verdict.provisional or not _unseen(verdict) or _vague(verdict):
        return None
    return Lane.read(_lane(verdict))


def _unseen(verdict: Verdict) -> bool:
    """Return True if a failure is suspected of a rollout that made no call."""
    return verdict.health is Health.SUSPECTED_API_ERROR and not verdict.total_requests


def _vague(verdict: Verdict) -> bool:
    lane = Lane.read(_lane(verdict))
    return lane.upstream is None or lane.model is None


def _proves(verdict: Verdict, *, seen: bool) -> bool:
    """Return True if a verdict that feeds a streak may open its lane."""
    if verdict.health is not Health.SUSPECTED_API_ERROR:
        return True
    return not _vague(verdict) and (seen or not _unseen(verdict))


def _coined(verdict: Verdict) -> bool:
    """Return True unless only the grammar read a permanent cause at a 5xx: a server's own failure.

    A name that a provider coined for the cause stands in the verdict's own name of it.
    """
    _, _, status = (verdict.fingerprint or "").partition(":")
    if not status.startswith("5") or verdict.health is not Health.API_ERROR:
        return True
    named = FailureEvidence(
        upstream="",
        api="",
        kind=Kind.INFERENCE,
        status=int(status),
        ending=Ending.COMPLETE,
        error=ProviderError(code=(verdict.cause or "").rpartition(":")[2]),
    )
    cause = classify(named)
    return cause is not None and cause.subcategory is verdict.subcategory


def _failed_alike(verdict: Verdict) -> bool:
    return any(each.result is Comparison.FAILED_ALIKE for each in verdict.references)


def _doubted(verdict: Verdict) -> bool:
    """Return True if reference calls were asked beside its calls, and none failed as they.

    Where none was, for want of a key or because it was judged before, the streak alone decides.
    """
    deciding = frozenset(verdict.evidence)
    references = [each for each in verdict.references if each.exchange_id in deciding]
    proofs = (Comparison.FAILED_ALIKE, Comparison.NO_REFERENCE)
    proven = any(each.result in proofs or each.not_run is not None for each in references)
    return bool(references) and not proven


def feed(
    states: Iterable[BreakerState],
    verdict: Verdict,
    *,
    now: float,
    policy: Policy = EVIDENCE,
    seen: bool = False,
) -> list[BreakerState]:
    """Return the breakers of the verdict's batch that it changes, as they are afterwards.

    Verdicts are fed in the order in which they were given; a provisional one, one without
    a batch, and one fed before change nothing. A lane without a state yet gets one.

    Arguments:
        seen: a call of the batch was seen on ``lane_to_prove(verdict)``.
    """
    if verdict.provisional or verdict.batch is None:
        return []
    batch = [state for state in states if state.batch == verdict.batch]
    touched = [state for state in batch if _concerns(state, verdict)]
    lane, threshold = _lane(verdict), policy.breaker_threshold
    if not any(state.lane == lane for state in touched):
        new = BreakerState(
            batch=verdict.batch, lane=lane, threshold=threshold, probes=policy.breaker_probe
        )
        touched.append(new)
    proven = _proves(verdict, seen=seen) and (_coined(verdict) or _failed_alike(verdict))
    doubted = proven and _doubted(verdict)
    after = [_after(state, verdict, now, proven=proven, doubted=doubted) for state in touched]
    return [new for new, old in zip(after, touched, strict=True) if new != old]


def _lane(verdict: Verdict) -> str:
    """Return its lane; the lane of unknown parts where neither a call nor a name states it."""
    return verdict.lane or str(Lane())


def _concerns(state: BreakerState, verdict: Verdict) -> bool:
    """Return True if a verdict concerns a lane: its own, or one it clears or probes."""
    if state.canary == verdict.rollout_id or state.lane == _lane(verdict):
        return True
    if _weight(verdict) is not _Weight.CLEARS:
        return False
    return Lane.read(state.lane).meets(Lane.read(_lane(verdict)))


def _after(
    state: BreakerState, verdict: Verdict, now: float, *, proven: bool, doubted: bool
) -> BreakerState:
    weight = _weight(verdict)
    if state.canary == verdict.rollout_id:
        feeds = proven and not (doubted and weight is _Weight.FEEDS)
        return _after_canary(state, verdict, weight if feeds else _Weight.SILENT, now)
    match weight:
        case _Weight.SILENT:
            return state
        case _Weight.CLEARS:
            return _cleared(state)
        case _Weight.FEEDS:
            return _fed(state, verdict, now, proven=proven, doubted=doubted)
    assert_never(weight)


def _closed(state: BreakerState) -> BreakerState:
    return BreakerState(
        batch=state.batch, lane=state.lane, threshold=state.threshold, probes=state.probes
    )


def _after_canary(
    state: BreakerState, verdict: Verdict, weight: _Weight, now: float
) -> BreakerState:
    match weight:
        case _Weight.CLEARS:
            return _closed(state)
        case _Weight.SILENT:  # it proves nothing: the next one may probe
            return replace(state, canary=None, probed_at=None)
        case _Weight.FEEDS:
            opened = _opened(_counted(state, verdict), verdict, now)
            return replace(opened, failed_probes=state.failed_probes + 1)
    assert_never(weight)


def _cleared(state: BreakerState) -> BreakerState:
    """End a streak by a healthy rollout.

    Where the breaker is open, the rollout had started before, perhaps before the lane failed:
    that allows one probe, not all.
    """
    if state.phase is Phase.CLOSED:
        return _closed(state)
    return replace(state, phase=Phase.HALF_OPEN)


def _fed(
    state: BreakerState, verdict: Verdict, now: float, *, proven: bool, doubted: bool
) -> BreakerState:
    """Extend the streak, and open the breaker if it is long enough and the verdict is proof.

    Rollouts that were in flight when it opened do not count.
    """
    if state.phase is not Phase.CLOSED or verdict.rollout_id in state.tripped_by:
        return state
    counted = _counted(state, verdict)
    if not (proven and 0 < state.threshold <= counted.streak):
        return counted
    return replace(counted, answered_at=now) if doubted else _opened(counted, verdict, now)


def _counted(state: BreakerState, verdict: Verdict) -> BreakerState:
    same = state.fingerprint == verdict.fingerprint
    streak = state.tripped_by if same else ()
    return replace(
        state,
        fingerprint=verdict.fingerprint,
        streak=state.streak + 1 if same else 1,
        tripped_by=(*streak, verdict.rollout_id),
    )


def _opened(state: BreakerState, verdict: Verdict, now: float) -> BreakerState:
    wait = verdict.provider_wait_s
    return replace(
        state,
        phase=Phase.OPEN,
        opened_at=now,
        answered_at=None,
        retry_at=None if wait is None else now + wait,
        canary=None,
        probed_at=None,
    )


def reset(state: BreakerState) -> BreakerState:
    """Reset a breaker: an open one admits one probe, a closed one starts a new streak."""
    if state.phase is Phase.CLOSED:
        return _closed(state)
    return replace(
        state, phase=Phase.HALF_OPEN, canary=None, retry_at=None, probed_at=None, failed_probes=0
    )


def at(state: BreakerState, now: float) -> BreakerState:
    """Return the breaker at this time: half open once it has cooled down.

    A probe of which nothing is heard for `FORGOTTEN_S` has failed.
    """
    if state.canary is not None and state.probed_at is not None:
        failed_at = state.probed_at + FORGOTTEN_S
        if now < failed_at:
            return state
        state = replace(
            state, phase=Phase.OPEN, canary=None, probed_at=None, opened_at=failed_at,
            failed_probes=state.failed_probes + 1,
        )  # fmt: skip
    due_at = state.probe_at
    if state.phase is Phase.OPEN and due_at is not None and now >= due_at:
        return replace(state, phase=Phase.HALF_OPEN, retry_at=None)
    return state


def admit(rollout: RolloutRecord, states: Sequence[BreakerState], *, now: float) -> Admission:
    """Decide whether a rollout may start, by its registration's upstream and model.

    One that names neither is held by any open lane of its batch.
    """
    wanted = Lane(upstream=rollout.upstream, model=rollout.model)
    held = [
        current
        for current in (at(state, now) for state in states if state.batch == rollout.batch)
        if current.phase is not Phase.CLOSED and Lane.read(current.lane).meets(wanted)
    ]
    refusing = next((state for state in held if not _admits(state, rollout)), None)
    if refusing is not None:
        return Admission(error=skipped(refusing))
    changed = [
        state if state.canary == rollout.id else replace(state, canary=rollout.id, probed_at=now)
        for state in held
    ]
    return Admission(changed=tuple(changed))


def _admits(state: BreakerState, rollout: RolloutRecord) -> bool:
    return state.phase is Phase.HALF_OPEN and state.canary in (None, rollout.id)


def skipped(state: BreakerState) -> str:
    """Return ``skipped: breaker open on auth:401 after 5 rollouts in a row; …``, and a command."""
    word = "open" if state.phase is Phase.OPEN else "half open"
    waiting = f", waiting for {state.canary}" if state.canary else ""
    rollouts = plural(state.streak, "rollout")
    opened = f"skipped: breaker {word} on {state.fingerprint} after {rollouts} in a row{waiting}"
    then = "fix the cause, then" if state.phase is Phase.OPEN else "to admit another probe:"
    return f"{opened}; {then} {reset_command(state.batch)}"
