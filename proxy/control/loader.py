"""Loading a rollout with everything recorded about it, and what is known to be missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from classifier import codec
from classifier.logical_calls import ended_at
from classifier.records import Ending, Exchange, ExecutionStatus, Outcome, RolloutRecord
from classifier.verdicts import TRUSTED
from proxy.clock import epoch_s
from proxy.control.neighbourhood import with_neighbours
from proxy.control.queries import unknown_rollout
from proxy.control.unattributed import with_unattributed
from proxy.store.database import RESTART_GRACE_S, Database
from proxy.store.errors import StoreError
from proxy.store.tables import Row

_CLOSED_WITHIN_S = 60.0  # after an outcome, whoever reported it
_CLOCKS_APART_S = 2.0  # of two hosts: calls are timed by one, closed by another


class RecorderState(Protocol):
    """The recorder as the control plane sees it."""

    @property
    def failing(self) -> bool:
        """Whether the database refuses writes."""
        ...

    @property
    def gaps_counted(self) -> int:
        """Calls that were served and could not be recorded."""
        ...

    @property
    def waiting(self) -> int:
        """Exchanges not yet written."""
        ...

    def missing(self, rollout_id: str) -> int:
        """Count a rollout's calls that were served but are not in the database."""
        ...


class LoadedRollout(NamedTuple):
    """A rollout as it counts, whether its verdict may be stored, and how many calls came late.

    ``change`` is the last one of what is stored about it that was not judged yet.
    """

    rollout: RolloutRecord
    storable: bool
    late_calls: int = 0
    change: int | None = None


class RolloutLoader:
    """Reads rollouts for judgement and export; blocking, so call it in a thread.

    Arguments:
        wall: seconds since the epoch.
        agents: how agents are trusted where a rollout's batch does not say.
    """

    def __init__(
        self,
        database: Database,
        recorder: RecorderState,
        wall: Callable[[], float] = epoch_s,
        *,
        agents: str = TRUSTED,
    ) -> None:
        self._agents = agents
        self._database = database
        self._recorder = recorder
        self._wall = wall

    def load(self, rollout_id: str) -> LoadedRollout:
        """Load a rollout as it stands.

        Raises:
            Refusal: 404 for an unknown rollout.
            StoreError: the database is unavailable, and nothing else is known of the rollout.
        """
        # Counted before and after: the backlog may be written while the database is read, and a
        # call that ends meanwhile may join it.
        missing = self._recorder.missing(rollout_id)
        try:
            stored = self._database.rollouts.load(rollout_id)
            up_s = self._database.uptime_s()
            missing = max(missing, self._recorder.missing(rollout_id))
        except StoreError:
            missing = max(missing, self._recorder.missing(rollout_id))
            if not missing:
                raise
            up_s = stored = None  # enough is known: evidence is missing
        # A restarted server may have lost its last commits; that doubt must not be stored.
        settled = up_s is None or up_s >= 2 * RESTART_GRACE_S
        storable = settled and not missing
        if stored is None:
            if not missing:
                raise unknown_rollout(rollout_id)
            return LoadedRollout(RolloutRecord(id=rollout_id, gaps=missing), storable)
        row, rollout = stored
        just_started = up_s is not None and up_s < RESTART_GRACE_S
        gaps = rollout.gaps + missing + just_started
        closed_at = _closed_at(row, self._wall())
        outcome = _outcome(row, closed=closed_at is not None)
        calls, late = rollout.exchanges, 0
        if closed_at is not None:
            calls = _counted(rollout.exchanges, row, closed_at)
            late = len(rollout.exchanges) - len(calls)
        record = replace(rollout, gaps=gaps, outcome=outcome, exchanges=calls)
        record = with_neighbours(record, self._database, agents=self._agents)
        record = with_unattributed(record, self._database, self._recorder.missing)
        return LoadedRollout(record, storable, late, row["change"])


def _closed_at(row: Row, now: float) -> float | None:
    """Return from when a rollout's calls had ended; None while they are being ended.

    Who reported its outcome may have died before it knew.
    """
    closed_at: float | None = row["closed_at"]
    if closed_at is None and row["outcome_at"] is not None:
        latest: float = row["outcome_at"] + _CLOSED_WITHIN_S
        return latest if latest < now else None
    return closed_at


def _counted(calls: Sequence[Exchange], row: Row, closed_at: float) -> tuple[Exchange, ...]:
    """Return the calls of a closed rollout that count: none that came late.

    Those on record as it closed count, whatever clocks say. One that began before the outcome
    and has no end was in a process that died.
    """
    ended, known = sum(call.ending is not None for call in calls), row["closed_calls"]
    on_record = known is None or ended <= known
    return tuple(
        call if call.ending else replace(call, ending=Ending.LOST)
        for call in calls
        if (
            call.timing.started_at <= row["outcome_at"]
            if call.ending is None
            else on_record or ended_at(call) <= closed_at + _CLOCKS_APART_S
        )
    )


def _outcome(row: Row, *, closed: bool) -> Outcome | None:
    """Return the reported outcome; a rollout that was not admitted was never set up."""
    if row["outcome"] and not closed:
        return None
    if row["outcome"]:
        return codec.decode_outcome(json.loads(row["outcome"]))
    if row["skipped"]:
        status = ExecutionStatus.SETUP_FAILED
        return Outcome(status=status, prompts_executed=0, error=row["skipped"])
    return None
