"""Numbers, times and verdicts as text."""

from __future__ import annotations

from typing import Any

import pytest

from classifier.rules import RULES, WARNINGS
from classifier.verdicts import (
    NO_REFERENCE,
    NOTHING_READ,
    PROVOKED_SUSPECTED,
    REFERENCE_INCONCLUSIVE,
    REFERENCE_PARTLY,
    REFERENCE_PENDING,
    Health,
)
from proxy.web import format


@pytest.mark.parametrize(
    ("share", "text"), [(1, "100%"), (0.9999, "99.9%"), (0.5, "50%"), (0, "0%"), (None, "–")]
)
def test_a_share_is_never_rounded_up_to_all(share: float | None, text: str) -> None:
    assert format.percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.424, "0.42 s"), (12.44, "12.4 s"), (30, "30 s"), (60, "1 min"), (200, "3 min 20 s"),
        (7500, "2 h 5 min"), (266_400, "3 d 2 h"), (None, "–"),
    ],
)  # fmt: skip
def test_seconds_are_as_long_as_they_need(value: float | None, text: str) -> None:
    assert format.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9,999"), (54_321, "54k"), (1_234_567, "1.2M"), (None, "–")],
)
def test_sums_are_short_and_unknown_ones_no_zero(value: float | None, text: str) -> None:
    assert format.short(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.345, "$12.35"),
        (0.0123, "$0.0123"),
        (0, "$0.00"),
        (None, "–"),
        (2e-5, "<$0.0001"),
        (5e-5, "$0.0001"),
    ],
)
def test_money_is_said_to_the_digit_that_counts(value: float | None, text: str) -> None:
    assert format.dollars(value) == text


@pytest.mark.parametrize(
    ("past", "text"), [(1, "just now"), (59, "59 s ago"), (61, "1 min ago"), (90_000, "1 d ago")]
)
def test_times_are_told_from_now(past: float, text: str) -> None:
    assert format.ago(1e9, 1e9 + past) == text


def test_a_command_survives_a_shell() -> None:
    assert format.shell("a b'c") == """'a b'"'"'c'"""


VERDICT = {
    "health": "healthy", "provisional": False, "scoreable": "yes", "doomed": False,
    "error": None, "rule": "healthy", "subcategory": None, "fingerprint": None,
    "transient": None, "total_requests": 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "rewards", "text"),
    [
        ({}, {"reward": 0.0}, "this zero is real"),
        ({}, {"reward": 1.0}, "its score counts"),
        ({"provisional": True}, None, "The model is responding so far"),
        (
            {"health": "api_error", "rule": "all_failed", "subcategory": "auth",
             "error": "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls"},
            {"reward": 0.0},
            "(auth: HTTP 401 on 3 of 3 calls), so its score does not count",
        ),
        ({"health": "suspected_api_error", "rule": "zero_signal"}, None, "No sign that a model"),
        ({"health": "not_judged", "rule": "not_judged"}, None, "nothing to judge"),
        (
            {"health": "not_judged", "rule": "not_judged",
             "error": "skipped: breaker open on auth:401 after 5 rollouts in a row"},
            None,
            "Skipped: breaker open on auth:401 after 5 rollouts in a row.",
        ),
        ({"health": "undecided", "total_requests": 0}, None, "No call has finished yet"),
        (
            {"health": "undecided", "total_requests": 0, "warnings": ["calls_unattributed"]},
            {"reward": 0.0},
            "no call named this rollout, and calls that named none ran meanwhile",
        ),
    ],
)  # fmt: skip
def test_a_verdict_is_one_plain_sentence(
    changed: dict[str, Any], rewards: dict[str, float] | None, text: str
) -> None:
    outcome = None if rewards is None else {"rewards": rewards}
    sentence = format.sentence({**VERDICT, **changed}, outcome)
    assert text in sentence
    assert sentence.endswith(".")


def test_a_verdict_speaks_of_its_score_by_scoreable() -> None:
    healthy = {**VERDICT, "scoreable": "unknown"}
    unexplained = {**healthy, "warnings": ["ended_on_unexplained_rejection"]}
    early = {**VERDICT, "health": "not_judged", "warnings": ["error_before_any_call"]}
    mute = {**VERDICT, "health": "suspected_api_error", "rule": "never_answered"}
    for verdict, words in (
        (healthy, "no model is known to have answered, so its score is left out"),
        (unexplained, "rejected without a reason, so its score is left out"),
        ({**VERDICT, "scoreable": "no"}, "the policy leaves its score out"),
        (early, "failed before it made a call"),
        (mute, "A provider failure is suspected: the agent gave up every call"),
    ):
        assert words in format.sentence(verdict, {"rewards": {"reward": 0.0}}), words


def test_a_failure_that_is_not_over_takes_no_score_yet() -> None:
    dead = {
        "health": "api_error", "subcategory": "auth", "provisional": True,
        "error": "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls",
    }  # fmt: skip
    for changed, words in (
        ({"rule": "all_failed"}, "No call of this agent has succeeded yet (auth: HTTP 401 on 3"),
        ({"rule": "main_model_failed"}, "The model under test has not responded yet"),
        ({"rule": "interrupted"}, "The last calls failed, and none has succeeded since"),
        ({"rule": "all_failed", "doomed": True}, "Doomed: no call of this agent has succeeded"),
    ):
        sentence = format.sentence({**VERDICT, **dead, **changed}, None)
        assert words in sentence
        assert "score" not in sentence
    hung = {"provisional": True, "scoreable": "unknown"}
    sentence = format.sentence({**VERDICT, **hung}, None)
    assert sentence == "No failure is shown so far, but no model is known to have answered."


def test_the_model_is_not_said_to_be_reached_where_the_agent_failed_its_own_calls() -> None:
    zero = {"rewards": {"reward": 0.0}}
    own = {**VERDICT, "attributed_to": "agent"}
    for verdict, words in (
        (own, "The agent failed its own calls: this zero is real."),
        ({**own, "warnings": ["provoked_suspected"]}, "taken to be the agent's own: this zero"),
        ({**own, "validity": [finding("suspect")]}, "its own calls and its score counts, although"),
    ):
        sentence = format.sentence(verdict, zero)
        assert words in sentence
        assert "model was reached" not in sentence


def finding(level: str, check: str = "engine_aborted") -> dict[str, Any]:
    return {"check": check, "level": level, "sentence": "the engine aborted 1 of 3 answers"}


def test_no_zero_is_real_of_a_spoilt_measurement_or_a_dead_judge() -> None:
    spoilt = {"scoreable": "no", "validity": [finding("invalid")]}
    dead = {"health": "api_error", "subcategory": "quota", "error": "HTTP 429 on 1 of 1 call"}
    for changed, told in (
        (
            {**spoilt, "excluded_by": ["engine_aborted"]},
            "but the engine aborted 1 of 3 answers, so its score does not count.",
        ),
        (spoilt, "but the policy leaves its score out."),  # as an earlier version judged it
        ({"scoreable": "no", "excluded_by": ["max_steps"]}, "but the agent ran out of steps"),
        ({"validity": [finding("invalid")]}, "counts, although the engine aborted 1 of 3"),
        ({"validity": [finding("suspect")]}, "counts, although the engine aborted 1 of 3"),
        ({"roles": {"judge": dead}}, "counts, although the calls of role judge failed."),
        ({"provisional": True, "validity": [finding("suspect")]}, "so far, but the engine aborted"),
    ):
        sentence = format.sentence({**VERDICT, **changed}, {"rewards": {"reward": 0.0}})
        assert told in sentence, changed
        assert "zero is real" not in sentence, changed
    fine = {"validity": [finding("info")], "roles": {"judge": {"health": "healthy"}}}
    sentence = format.sentence({**VERDICT, **fine}, {"rewards": {"reward": 0.0}})
    assert "zero is real" in sentence


def test_every_rule_and_warning_has_words() -> None:
    assert {rule.__name__.strip("_") for rule in RULES} == format.RULES.keys() - {"healthy"}
    assert {name for name, _ in WARNINGS} == format.WARNINGS.keys()


def test_every_warning_of_weighing_has_words() -> None:
    assert set(format.WEIGHED_WARNINGS) == {
        NOTHING_READ,
        PROVOKED_SUSPECTED,
        NO_REFERENCE,
        REFERENCE_INCONCLUSIVE,
        REFERENCE_PARTLY,
        REFERENCE_PENDING,
    }
    assert format.WEIGHED_WARNINGS.keys().isdisjoint(format.WARNINGS)


def test_a_stored_value_is_written_as_json_has_it() -> None:
    values = [True, False, 3, 0.25, "text"]
    assert [format.field(each) for each in values] == ["true", "false", "3", "0.25", "text"]


def test_every_rule_and_health_has_words() -> None:
    for health in Health:
        assert format.sentence({**VERDICT, "health": health.value}, None)


def test_an_interruption_is_not_said_to_be_the_providers_where_it_may_be_a_dead_key() -> None:
    cut = {"health": "api_error", "rule": "interrupted", "subcategory": "auth", "error": "x: y"}
    sentence = format.sentence({**VERDICT, **cut}, None)
    assert "provider" not in sentence
    assert sentence.startswith("The last calls failed before the agent finished (auth: y)")
