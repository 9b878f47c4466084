"""Mean rewards of several batches: over what counts, and of what measured nothing, none."""

from __future__ import annotations

from proxy.store.batch_history import mean_rewards
from proxy.store.database import Database
from tests.proxy.store.test_verdicts import verdict


def test_each_batch_has_the_mean_of_what_was_measured(database: Database) -> None:
    for name, batch, scoreable, reward in (
        ("r1", "a", "yes", 1.0), ("r2", "a", "yes", 0.0), ("r3", "a", "no", None),
        ("r4", "a", "yes", None), ("r5", "b", "no", None), ("r6", "c", "yes", 0.25),
    ):  # fmt: skip
        row = verdict(name, batch=batch, scoreable=scoreable, reward=reward)
        database.verdicts.store(row)
    assert database.read(mean_rewards, ["a", "b", "nobody"]) == {"a": 0.5}
