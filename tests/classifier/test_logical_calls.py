"""Which calls count, and in which order."""

from __future__ import annotations

from dataclasses import replace

from classifier import judge
from classifier.logical_calls import counted
from classifier.records import Exchange, Timing
from tests.builders import rollout


def _during(exchange: Exchange, start: float, end: float) -> Exchange:
    return replace(exchange, timing=Timing(started_at=start, duration_s=end - start))


def test_calls_stand_in_the_order_of_their_ends() -> None:
    failed, answered = rollout("500 200").exchanges
    slow, quick = _during(failed, 0.0, 10.0), _during(answered, 1.0, 2.0)
    assert counted([slow, quick]) == [quick, slow]


def test_a_failure_that_outlasts_an_answer_is_not_made_good_by_it() -> None:
    seen = rollout("500 200")
    failed, answered = seen.exchanges
    slow, quick = _during(failed, 0.0, 10.0), _during(answered, 1.0, 2.0)
    assert judge(replace(seen, exchanges=(slow, quick))).recovered_requests == 0
    before = _during(failed, 0.0, 0.5)
    assert judge(replace(seen, exchanges=(before, quick))).recovered_requests == 1
