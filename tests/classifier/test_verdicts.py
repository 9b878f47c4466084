"""The verdict and its parts."""

from __future__ import annotations

import pytest

from classifier.verdicts import EVIDENCE, POLICIES, SEED, Health, Subcategory, Verdict, named
from tests.tables import each


def test_only_rate_limits_and_provider_errors_are_transient() -> None:
    transient = {each for each in Subcategory if each.transient}
    assert transient == {Subcategory.RATE_LIMIT, Subcategory.PROVIDER_ERROR}


@each("health", Health)
def test_the_error_category_is_the_health_that_removes_the_score(health: Health) -> None:
    verdict = Verdict(rollout_id="r", batch=None, health=health, rule="x", policy="evidence")
    unhealthy = health in (Health.API_ERROR, Health.SUSPECTED_API_ERROR)
    assert verdict.error_category == (health.value if unhealthy else None)


def test_verdicts_share_no_default_of_theirs() -> None:
    one, other = (
        Verdict(rollout_id=r, batch=None, health=Health.HEALTHY, rule="x", policy="evidence")
        for r in ("a", "b")
    )
    assert one.status_counts is not other.status_counts
    assert not one.retry.eligible


# --- The policies, and how one is chosen ----------------------------------------------------------


def test_a_policy_is_found_by_its_name() -> None:
    assert [named(name) for name in ("evidence", "seed")] == [EVIDENCE, SEED]
    assert all(policy.name == name for name, policy in POLICIES.items())


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'guess' is none of evidence, seed"):
        named("guess")
