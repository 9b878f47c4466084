"""Facts of files to verdicts: the service's rules, and nothing that the files do not say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from classifier.codec import encode_verdict
from classifier.records import ExecutionStatus, Outcome, RolloutRecord
from classifier.verdicts import Health, Layer
from truezero.audit.judge import Audited, audited
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError

DEAD_KEY = RecordedError(text="Incorrect API key provided", type="AuthenticationError", status=401)
ANSWER = RecordedCall(content=True, input_tokens=9, output_tokens=3, model="openai/gpt-5")
GRADER = RecordedCall(content=True, model="openai/judge", role="judge")
EMPTY = RecordedCall(content=False, input_tokens=9, output_tokens=0, model="openai/gpt-5")
FAILED = RecordedCall(error=DEAD_KEY, model="openai/gpt-5")
TOO_LONG = RecordedError(text="prompt is too long: 9001 tokens > 9000 maximum", status=400)
BROKEN = RecordedError(text="stream closed before the headers: connection reset by peer")
OF_A_TOOL = RecordedError(text="docker: connection to the daemon refused")
FILTERED = RecordedError(text="the prompt violates our content policy", status=400)
NO_KEY = RecordedError(text="litellm.AuthenticationError: Missing Acme API Key - none is set")
NO_ROUTE = RecordedError(text="Invalid URL (POST /v1/v1/chat/completions)", status=404)


def judged(**facts: Any) -> Audited:
    return audited(FinishedRun(id="r", task="t", reward=facts.pop("reward", 0.0), **facts))


# (facts, health, rule)
CASES: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"calls": (FAILED, FAILED)}, "api_error", "all_failed"),
    ({"calls": (ANSWER, FAILED)}, "api_error", "interrupted"),
    ({"calls": (FAILED, ANSWER)}, "healthy", "healthy"),
    ({"calls": (EMPTY, EMPTY)}, "suspected_api_error", "empty_answers"),
    ({"calls": ()}, "suspected_api_error", "zero_signal"),
    ({"tokens": 0}, "suspected_api_error", "zero_signal"),
    ({"tokens": 0, "tool_calls": 0}, "suspected_api_error", "zero_signal"),
    ({"tokens": 12}, "healthy", "healthy"),
    ({"tool_calls": 2}, "healthy", "healthy"),
    ({"output": True}, "healthy", "healthy"),
    ({"tokens": 12, "output": False}, "suspected_api_error", "empty_answers"),
    ({"error": DEAD_KEY}, "api_error", "all_failed"),
    ({"error": DEAD_KEY, "tokens": 12}, "api_error", "interrupted"),
    ({"error": RecordedError(text="HTTP 401"), "tokens": 0}, "api_error", "all_failed"),
    (
        {"error": RecordedError(text="HTTP 401: Unauthorized"), "tokens": 0},
        "api_error",
        "all_failed",
    ),
    ({"error": RecordedError(text="HTTP 401 of git"), "tokens": 0}, "not_judged", "not_judged"),
    ({"error": RecordedError(text="HTTP 401")}, "undecided", "not_recorded"),
    ({"error": RecordedError(text="'x'", type="KeyError"), "tokens": 12}, "healthy", "healthy"),
    # Nothing says either way that a model was asked.
    ({}, "undecided", "not_recorded"),
    ({"tool_calls": 0}, "undecided", "not_recorded"),
    ({"output": False}, "undecided", "not_recorded"),
    ({"error": RecordedError(text="'x'", type="KeyError")}, "undecided", "not_recorded"),
    # What a rejection means hangs on what came before it.
    ({"error": TOO_LONG, "tokens": 12}, "healthy", "healthy"),
    ({"error": TOO_LONG}, "undecided", "not_recorded"),
    ({"error": TOO_LONG, "tokens": 0}, "undecided", "not_recorded"),
    ({"calls": (RecordedCall(error=TOO_LONG), GRADER)}, "undecided", "not_recorded"),
    ({"error": FILTERED}, "undecided", "not_recorded"),
    ({"error": FILTERED, "tokens": 0}, "api_error", "all_failed"),
    ({"error": NO_ROUTE}, "api_error", "all_failed"),
    # Reasoning is an answer; an empty one may have held some.
    ({"calls": (replace(EMPTY, output_tokens=9, reasoning=True),)}, "healthy", "healthy"),
    ({"calls": (replace(EMPTY, output_tokens=9),)}, "undecided", "not_recorded"),
    ({"calls": (replace(EMPTY, output_tokens=None),)}, "undecided", "not_recorded"),
    ({"calls": (FAILED, EMPTY)}, "suspected_api_error", "empty_answers"),
    # Nobody says whose connection broke, unless each call of the model is recorded.
    ({"error": BROKEN, "tokens": 12}, "undecided", "not_recorded"),
    ({"error": BROKEN, "calls": (ANSWER,)}, "healthy", "healthy"),
    ({"error": OF_A_TOOL, "tokens": 12}, "healthy", "healthy"),
    # An ending that is not recorded is none.
    ({"tokens": 12, "cut_off": True}, "undecided", "not_recorded"),
    ({"calls": (ANSWER, FAILED), "cut_off": True}, "api_error", "interrupted"),
    # Nothing was to be asked.
    ({"prompted": False}, "not_judged", "not_judged"),
    # Nobody was there to ask.
    ({"status": ExecutionStatus.SETUP_FAILED}, "not_judged", "agent_never_began"),
    ({"prompted": False, "never_began": "it was refused"}, "not_judged", "agent_never_began"),
    # Its client sent nothing.
    ({"error": NO_KEY, "tokens": 0}, "not_judged", "agent_never_began"),
    ({"error": NO_KEY}, "not_judged", "agent_never_began"),
    ({"error": NO_KEY, "tokens": 12}, "api_error", "interrupted"),
)


def test_each_combination_of_facts_is_judged_by_the_rules_of_the_service() -> None:
    found = [(v.health.value, v.rule) for facts, *_ in CASES for v in [judged(**facts).verdict]]
    assert found == [(health, rule) for _, health, rule in CASES]


def test_every_verdict_on_records_says_so_and_is_final() -> None:
    verdicts = [judged(**facts).verdict for facts, *_ in CASES]
    assert {verdict.layer for verdict in verdicts} == {Layer.AUDIT}
    assert not any(verdict.provisional for verdict in verdicts)
    assert not any("proxy" in warning for v in verdicts for warning in v.warnings)


def test_a_runs_error_is_not_counted_again_where_its_call_is_recorded() -> None:
    verdict = judged(calls=(FAILED,), error=DEAD_KEY).verdict
    assert (verdict.total_requests, verdict.failed_requests) == (1, 1)
    assert verdict.error == "api_error [auth, permanent]: HTTP 401 on 1 of 1 call"


def test_without_calls_no_number_of_calls_is_invented() -> None:
    verdict = judged(error=DEAD_KEY, tokens=12).verdict
    said = "HTTP 401, by the run's own error, after the model had answered"
    assert verdict.error == f"api_error [auth, permanent]: {said}"
    assert (verdict.total_requests, verdict.status_counts, verdict.total_tokens) == (0, {}, 12)


def test_the_text_of_an_error_is_in_no_verdict() -> None:
    error = RecordedError(text="Incorrect API key provided: sk-secret", type="AuthenticationError")
    assert "secret" not in str(encode_verdict(judged(error=error).verdict))


@pytest.mark.parametrize(("reward", "zero", "points"), [(0.0, True, False), (1.0, False, True)])
def test_a_score_without_a_model_is_a_false_zero_or_false_points(
    reward: float, zero: bool, points: bool
) -> None:
    run = judged(calls=(FAILED,), reward=reward)
    assert (run.false_zero, run.false_points, run.score) == (zero, points, None)


def test_a_zero_of_an_agent_that_never_began_is_false_and_nobodys_provider_failed() -> None:
    run = judged(prompted=False, never_began="its installation was not completed", reward=0.0)
    assert (run.false_zero, run.score, run.verdict.subcategory) == (True, None, None)
    assert run.why == "the agent never began: its installation was not completed"


def test_a_score_that_a_dead_judge_gave_is_a_false_zero() -> None:
    judge = RecordedCall(error=DEAD_KEY, model="openai/judge", role="judge")
    run = judged(calls=(ANSWER, judge))
    assert run.verdict.health is Health.HEALTHY
    assert run.false_zero
    assert "judge" in run.why


def test_a_side_model_that_answers_does_not_hide_the_models_failure() -> None:
    side = RecordedCall(content=True, model="openai/gpt-5-mini")
    run = judged(calls=(side, FAILED), model="openai/gpt-5")
    assert run.verdict.rule == "main_model_failed"


def test_a_rollout_of_our_own_export_is_judged_as_the_service_does() -> None:
    rollout = RolloutRecord(
        id="r",
        outcome=Outcome(
            status=ExecutionStatus.SUCCESS, prompts_executed=1, rewards={"reward": 0.0}
        ),
    )
    run = audited(rollout)
    assert (run.task, run.reward, run.verdict.layer) == ("r", 0.0, Layer.ZERO_SIGNAL)
    assert run.false_zero


def test_words_without_a_status_do_not_say_that_no_answer_came() -> None:
    spent = RecordedError(text="Credit balance is too low")
    for calls in ((RecordedCall(error=spent),), None):
        run = FinishedRun(id="a", task="a", reward=0.0, calls=calls, error=spent)
        verdict = audited(run).verdict
        assert (verdict.fingerprint, verdict.cause) == ("quota:-", "v1:quota:unknown:-:-")
        assert "no answer" not in (verdict.error or "")
    silent = RecordedError(text="openai.APIConnectionError: Connection error.")
    run = FinishedRun(id="a", task="a", reward=0.0, calls=(RecordedCall(error=silent),))
    assert audited(run).verdict.fingerprint == "provider_error:network"
