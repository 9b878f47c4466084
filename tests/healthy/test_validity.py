"""No validity check finds anything above info in healthy traffic."""

from __future__ import annotations

from collections import Counter

from classifier import judge
from classifier.validity import CHECKS
from classifier.validity.surroundings import LANE_DRIFTED
from classifier.verdicts import Level
from tests.healthy.driving import driven
from tests.healthy.generator import rollouts
from tests.healthy.lanes import LANES

# A sample with every lane in it; ``python -m tests.healthy`` judges a thousand.
SAMPLE = 4 * len(LANES)


def test_nothing_but_what_is_worth_knowing_is_found_in_healthy_traffic() -> None:
    looked: Counter[str] = Counter()
    for rollout in rollouts(SAMPLE):
        verdict = judge(driven(rollout))
        found = [each for each in verdict.validity if each.level is not Level.INFO]
        assert found == [], (rollout.id, rollout.lane, rollout.situation)
        for name, coverage in verdict.validity_coverage.items():
            assert 0 <= coverage.looked <= coverage.of, (rollout.id, name)
            looked[name] += coverage.looked
    unseen = {check.name for check in CHECKS if not looked[check.name]}
    assert unseen == {LANE_DRIFTED}, "checks that saw nothing prove nothing"  # it reads its lane
