"""Lists of what to run again have as many as the batch counts, after any history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from classifier.reruns import Rerun, RerunCounts
from classifier.verdicts import Policy
from proxy.features.reruns.listing import _all
from proxy.store.batch_counts import sum_up
from proxy.store.database import Database
from tests.proxy.store.test_batch_counts import STEPS, History, judged, populate

_EXAMPLES = (settings.default or settings()).max_examples
_ON_ONE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.fixture
def history(database: Database, tmp_path: Path) -> History:
    return History(database, tmp_path)


def check(database: Database, after: str) -> None:
    """Compare counts with the lists, which are made of the rows."""
    for batch in ("b", "c"):
        if (summed := database.read(sum_up, batch)) is None:
            continue
        for policy in (Policy(repetition=2), Policy(repetition=0)):
            listed = database.read(_all, batch, policy)
            kinds = {kind: listed[kind]["count"] for kind in Rerun}
            counted = RerunCounts.of(summed.counts, policy)
            assert counted == RerunCounts(running=listed["running"], kinds=kinds), (after, batch)


@settings(max_examples=3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_lists_have_as_many_as_are_counted_after_many_steps(history: History, data: Any) -> None:
    populate(history, data.draw)
    check(history.database, "registrations and verdicts")
    for step in data.draw(st.permutations([*dict.fromkeys(STEPS), judged])):
        step(history, data.draw)
    check(history.database, "all")


@pytest.mark.slow
@settings(max_examples=_EXAMPLES // 3, suppress_health_check=_ON_ONE)
@given(data=st.data())
def test_lists_have_as_many_as_are_counted_after_any_history(history: History, data: Any) -> None:
    populate(history, data.draw)
    for _ in range(data.draw(st.integers(1, 5))):
        for _ in range(3):
            step = data.draw(st.sampled_from(STEPS))
            step(history, data.draw)
        check(history.database, step.__name__)
