"""A database of any released schema can be exported once it is upgraded."""

from __future__ import annotations

import io
from pathlib import Path

from proxy.features.exports import archive
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.filled import NAMES
from tests.proxy.store.records import FULL


def test_every_rollout_of_an_old_database_is_exported(old: Path) -> None:
    database = Database(str(old))
    database.prepare()
    database.calls.write(CommitBatch(recorded=[FULL]), worker="w")
    with archive.export_records(str(old)) as records:
        assert archive.write(records, io.BytesIO())["rollout"] == len(NAMES) + 1
