"""Whether the service can do its work: the database answers and the recorder writes."""

from __future__ import annotations

from proxy.control.loader import RecorderState
from proxy.control.queries import Queries
from proxy.store.database import Database
from truezero import models


class Readiness:
    """Checks the database and the recorder."""

    def __init__(self, *, queries: Queries, database: Database, recorder: RecorderState) -> None:
        self._queries = queries
        self._database = database
        self._recorder = recorder

    async def check(self) -> models.Ready:
        """Return the response to `GET /readyz`."""
        database = await self._queries.run(self._database.is_reachable)
        recorder = not self._recorder.failing
        return models.Ready(
            status="ready" if database and recorder else "not_ready",
            database=database,
            recorder=recorder,
            gaps=self._recorder.gaps_counted,
            waiting=self._recorder.waiting,
        )
