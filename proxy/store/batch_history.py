"""The scores of several batches at once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, select

from classifier.batch_summary import score_in
from proxy.store.derived import batches


def mean_scores(connection: Connection, names: Sequence[str]) -> dict[str, float]:
    """Return the score over what was measured of each batch that is summed up and has one."""
    query = select(batches.c.batch, batches.c.counts).where(
        batches.c.batch.in_(names), batches.c.counts.is_not(None)
    )
    found = {name: score_in(Counter(json.loads(text))) for name, text in connection.execute(query)}
    return {name: score for name, score in found.items() if score is not None}
