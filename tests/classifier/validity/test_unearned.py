"""Scores that no model earned: rewards without an answered call of the model under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from classifier import judge
from classifier.codec import decode_rollout, encode_rollout
from classifier.records import RolloutRecord
from classifier.results import result
from classifier.verdicts import is_unearned
from tests.builders import asked, rollout
from tests.tables import each

PASSED: dict[str, Any] = {"rewards": {"reward": 1.0}}


UNANSWERED = (
    "", "429*3", "401", "net", "left*2", "stalled", "200+garbled", "200+blank*2", "200+embed",
    "200+judge", "200+probe", "429*2 200+side", "429+media", "200+queued",
    "200@other-model model=gpt-5 429@gpt-5",
)  # fmt: skip


def seen(text: str, **said: Any) -> RolloutRecord:
    """A rollout in words: calls, and facts as ``name=value``."""
    words = text.split()
    facts = dict(word.split("=") for word in words if "=" in word)
    return rollout(*(word for word in words if "=" not in word), **PASSED | said | facts)


@each("text", UNANSWERED)
def test_no_reward_that_was_not_answered_is_scored_under_trusted_agents(text: str) -> None:
    verdict = judge(seen(text))
    assert verdict.scoreable != "yes"
    told = result(seen(text), verdict)
    assert told.rewards is None or verdict.health.value == "undecided"


def test_an_agent_that_solved_it_without_a_model_keeps_its_score_under_untrusted() -> None:
    seen = asked(rollout("404+model_not_found*2", agents="untrusted", **PASSED), "ok ok ok")
    verdict = judge(seen)
    assert (verdict.health.value, verdict.scoreable) == ("healthy", "yes")
    assert is_unearned(verdict.validity)
    assert result(seen, verdict).rewards == {"reward": 1.0}


# --- passes with next to no output ---


def test_a_pass_with_next_to_no_output_was_answered_all_the_same() -> None:
    verdict = judge(rollout("200+tool", passes_tokens=1_000.0, **PASSED))
    assert "unearned" in [finding.check for finding in verdict.validity]
    assert not is_unearned(verdict.validity)


def test_an_export_keeps_what_it_stands_on() -> None:
    for facts in (
        {"reward_range": (-1.0, 1.0)}, {"client_cache": True}, {"passes_tokens": 812.5},
    ):  # fmt: skip
        kept = replace(rollout(**facts), exchanges=(), outcome=None)
        assert decode_rollout(encode_rollout(kept)) == kept
