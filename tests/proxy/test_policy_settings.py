"""The policy that settings make."""

from __future__ import annotations

import pytest

from classifier.verdicts import EVIDENCE, VALIDITY
from proxy.settings import SettingsError, load


def test_unset_they_are_the_evidence_policy() -> None:
    assert load({}, {}).policy == EVIDENCE


def test_each_may_be_set_and_only_to_what_it_takes() -> None:
    for name, value in (
        ("stall_s", 30.0), ("doomed_after", 0), ("agents", "untrusted"), ("validity", "suspect"),
        ("max_steps", "exclude"), ("content_filter", "answer"), ("max_retries", 0),
        ("breaker_threshold", 9),
    ):  # fmt: skip
        policy = load({}, {f"TRUEZERO_{name.upper()}": str(value)}).policy
        assert getattr(policy, name) == value
    for value in VALIDITY:
        assert load({}, {"TRUEZERO_VALIDITY": value}).policy.validity == value
    with pytest.raises(SettingsError, match=r"validity|VALIDITY"):
        load({}, {"TRUEZERO_VALIDITY": "mostly"})
