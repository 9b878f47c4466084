"""Scores that no model earned: rewards without an answered call of the model under test."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier import judge
from classifier.codec import decode_rollout, encode_rollout
from classifier.records import RolloutRecord
from classifier.results import result
from classifier.verdicts import ValidityFinding, is_unearned
from tests.builders import asked, rollout
from tests.classifier.validity.judged import call, record

PASSED: dict[str, Any] = {"rewards": {"reward": 1.0}}


def found(seen: RolloutRecord) -> ValidityFinding | None:
    verdict = judge(seen)
    turned = judge(replace(seen, exchanges=seen.exchanges[::-1]))
    assert turned.validity == verdict.validity
    return next((each for each in verdict.validity if each.check == "unearned"), None)


def level(*texts: str, **said: Any) -> str | None:
    finding = found(rollout(*texts, **PASSED | said))
    return None if finding is None else finding.level.value


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


@pytest.mark.parametrize("text", UNANSWERED)
def test_a_reward_without_an_answered_call_is_unearned(text: str) -> None:
    finding = found(seen(text))
    assert finding is not None
    assert finding.level.value == "invalid"
    assert finding.about["rewards"] == {"reward": 1.0}
    assert is_unearned(judge(seen(text)).validity)


@pytest.mark.parametrize("text", UNANSWERED)
def test_no_reward_that_was_not_answered_is_scored_under_trusted_agents(text: str) -> None:
    verdict = judge(seen(text))
    assert verdict.scoreable != "yes"
    told = result(seen(text), verdict)
    assert told.rewards is None or verdict.health.value == "undecided"


@pytest.mark.parametrize(
    "text",
    [
        "200", "200+tool*3 200", "429 200", "200 401", "200+read", "200+unseen", "200+refusal",
        "200+length", "200+media", "left+text", "200+truncated+text", "200+queued 200+fetched",
        "200+shaped", "200+thought+length", "200@mini", "200@mini left@gpt-5", "200+huge",
    ],
)  # fmt: skip
def test_a_reward_with_an_answer_is_earned(text: str) -> None:
    for agents in ("trusted", "untrusted"):
        assert level(text, agents=agents) is None


def test_calls_say_how_many_were_not_answered() -> None:
    finding = found(rollout("429*3", **PASSED))
    assert finding is not None
    assert (finding.calls, finding.of, finding.evidence) == (3, 3, ("x0", "x1", "x2"))
    said = "reward 1 without an answer: none of 3 calls to the model under test was answered"
    assert finding.sentence == said
    finding = found(rollout(**PASSED))
    assert finding is not None
    assert (finding.calls, finding.of, finding.evidence) == (0, 0, ())
    assert (
        finding.sentence == "reward 1 without an answer: no call to the model under test was seen"
    )


def test_a_reward_is_one_above_the_least() -> None:
    for rewards, bounds, unearned in (
        ({"reward": 0.0}, None, False),
        ({"reward": 1e-9}, None, True),
        ({"reward": -1.0}, None, False),
        ({"reward": 0.0}, (-1.0, 1.0), True),
        ({"reward": -1.0}, (-1.0, 1.0), False),
        ({"reward": 1.0}, (1.0, 5.0), False),
        ({"reward": 3.0}, (1.0, 5.0), True),
        ({"style": 0.0, "correctness": 0.5}, None, True),
        ({"style": 0.0, "correctness": 0.0}, None, False),
        ({}, None, False),
        (None, None, False),
    ):
        said = level("429", rewards=rewards, reward_range=bounds)
        assert (said is not None) is unearned, (rewards, bounds)


def test_a_score_in_the_runners_evaluation_is_one() -> None:
    assert level("429", rewards=None, eval={"resolved": True}) == "invalid"
    assert level("429", rewards={"a": 0.0, "b": 0.0}, eval={"resolved": True}) == "invalid"
    assert level("429", rewards=None, eval={"resolved": False}) is None
    assert level("429", rewards=None, eval={"notes": "fine"}) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"usage_channel": "none"}, {"client_cache": True}, {"total_tokens": 900},
        {"tool_calls": 2}, {"unattributed_calls": 1}, {"gaps": 1},
    ],
)  # fmt: skip
def test_where_an_answer_may_have_come_otherwise_nothing_is_found(facts: dict[str, Any]) -> None:
    for text in ("", "429*3"):
        assert level(text) == "invalid"
        assert level(text, **facts) is None, text


def test_a_call_of_which_nobody_knows_the_end_may_have_been_answered() -> None:
    for text in ("lost", "429 lost", "pending"):
        assert level(text) is None, text


def test_before_the_outcome_there_is_no_reward() -> None:
    assert found(rollout("429", running=True)) is None


def test_an_agent_that_solved_it_without_a_model_keeps_its_score_under_untrusted() -> None:
    seen = asked(rollout("404+model_not_found*2", agents="untrusted", **PASSED), "ok ok ok")
    verdict = judge(seen)
    assert (verdict.health.value, verdict.scoreable) == ("healthy", "yes")
    assert is_unearned(verdict.validity)
    assert result(seen, verdict).rewards == {"reward": 1.0}


# --- passes with next to no output ---


def passed(output: int | None, others: float | None, **said: Any) -> RolloutRecord:
    return record([call("200", output=output)], **PASSED | {"passes_tokens": others} | said)


def test_a_pass_with_a_twentieth_of_the_others_output_is_worth_knowing() -> None:
    for output, others, told in (
        (49, 1000.0, True),
        (50, 1000.0, False),
        (1, 20.0, False),
        (1, 20.5, True),
        (49, None, False),
        (None, 1000.0, False),
    ):
        finding = found(passed(output, others))
        assert (finding is not None) is told, (output, others)
        if finding is not None:
            assert finding.level.value == "info"
            assert finding.about["usual_output_tokens"] == others
            assert not is_unearned(judge(passed(output, others)).validity), "a model answered"
    finding = found(passed(49, 1000.0))
    assert finding is not None
    assert finding.sentence == (
        "reward 1 with 49 tokens of output, less than a twentieth of the 1,000 of the task's "
        "other passes"
    )


def test_a_pass_with_few_tokens_keeps_its_score() -> None:
    verdict = judge(passed(1, 1000.0))
    assert (verdict.health.value, verdict.scoreable, verdict.excluded_by) == ("healthy", "yes", ())


def test_a_cache_or_an_own_subscription_explains_few_tokens() -> None:
    for facts in ({"client_cache": True}, {"usage_channel": "none"}):
        assert found(passed(1, 1000.0, **facts)) is None
    assert found(passed(1, 1000.0, rewards={"reward": 0.0})) is None


def test_an_export_keeps_what_it_stands_on() -> None:
    for facts in (
        {"reward_range": (-1.0, 1.0)}, {"client_cache": True}, {"passes_tokens": 812.5},
    ):  # fmt: skip
        kept = replace(rollout(**facts), exchanges=(), outcome=None)
        assert decode_rollout(encode_rollout(kept)) == kept
