"""The policies, and how one is chosen."""

from __future__ import annotations

import pytest

from classifier.verdicts import EVIDENCE, POLICIES, SEED, named


def test_a_policy_is_found_by_its_name() -> None:
    assert [named(name) for name in ("evidence", "seed")] == [EVIDENCE, SEED]
    assert all(policy.name == name for name, policy in POLICIES.items())


def test_an_unknown_policy_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'guess' is none of evidence, seed"):
        named("guess")
