"""Scores of several batches: over what counts, and of what measured nothing, none."""

from __future__ import annotations

import pytest

from proxy.store.batches import mean_scores
from proxy.store.database import Database
from tests.proxy.store.test_groups import begin, end


def test_each_batch_has_the_mean_of_what_was_measured(database: Database) -> None:
    for name, batch, reward in (
        ("r1", "a", 1.0), ("r2", "a", 0.0), ("r3", "a", None), ("r4", "a", 0.2),
        ("r5", "b", None), ("r6", "c", 0.25),
    ):  # fmt: skip
        begin(database, name, batch=batch, task=name, repeats=None)
        end(database, name, batch=batch, reward=reward)
    assert database.read(mean_scores, ["a", "b", "nobody"]) == {"a": pytest.approx(0.4)}
