"""No validity check finds anything above info in healthy traffic."""

from __future__ import annotations

from collections import Counter

import pytest

from classifier import judge
from classifier.validity import CHECKS
from classifier.verdicts import Level
from tests.healthy.driving import driven
from tests.healthy.generator import rollout
from tests.healthy.lanes import LANES


# A third of the lanes, or all four times; ``python -m tests.healthy`` judges a thousand.
@pytest.mark.parametrize(
    "numbers",
    [range(0, 4 * len(LANES), 12), pytest.param(range(4 * len(LANES)), marks=pytest.mark.slow)],
    ids=len,
)
def test_nothing_but_what_is_worth_knowing_is_found_in_healthy_traffic(numbers: range) -> None:
    looked: Counter[str] = Counter()
    for one in map(rollout, numbers):
        verdict = judge(driven(one))
        found = [each for each in verdict.validity if each.level is not Level.INFO]
        assert found == [], (one.id, one.lane, one.situation)
        for name, coverage in verdict.validity_coverage.items():
            assert 0 <= coverage.looked <= coverage.of, (one.id, name)
            looked[name] += coverage.looked
    unseen = {check.name for check in CHECKS if not looked[check.name]}
    assert unseen == set(), "checks that saw nothing prove nothing"
