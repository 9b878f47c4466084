"""Loading a rollout with everything recorded about it, and what is known to be missing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple, Protocol

from classifier import codec
from classifier.records import ExecutionStatus, Outcome, RolloutRecord
from proxy.control.queries import unknown_rollout
from proxy.store.database import RESTART_GRACE_S, Database
from proxy.store.errors import StoreError
from proxy.store.types import Row


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
    """A rollout as it was read, and whether a verdict on it may be stored."""

    rollout: RolloutRecord
    storable: bool


class RolloutLoader:
    """Reads rollouts for judgement and export; blocking, so call it in a thread."""

    def __init__(self, database: Database, recorder: RecorderState) -> None:
        self._database = database
        self._recorder = recorder

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
        return LoadedRollout(replace(rollout, gaps=gaps, outcome=_outcome(row)), storable)


def _outcome(row: Row) -> Outcome | None:
    """Return the reported outcome; a rollout that was not admitted was never set up."""
    if row["outcome"]:
        return codec.decode_outcome(json.loads(row["outcome"]))
    if row["skipped"]:
        status = ExecutionStatus.SETUP_FAILED
        return Outcome(status=status, prompts_executed=0, error=row["skipped"])
    return None
