"""The seed policy against what benchflow publishes: statuses and two counts, nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier import SEED, Ending, Exchange, Health, Subcategory, Verdict, judge
from tests.builders import cause, exchange, outcome, rollout

ALL, QUIET, FINE = "all_failed", "zero_signal", "healthy"


class Case(NamedTuple):
    """Statuses as captured (0 is none), the runner's counts, and the published verdict."""

    statuses: str
    tokens: int | None
    tools: int | None
    verdict: str
    said: str = ""


CASES = [
    Case("", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("", None, None, f"{QUIET} suspected:zero_signal"),
    Case("", 26278, 8, FINE),
    Case("", 1200, 0, FINE),
    Case("", 0, 1, FINE),
    Case("", None, 3, FINE),
    Case("", 0, 0, FINE, "error"),
    Case("", 0, 0, FINE, "timeout"),
    Case("", 0, 0, "not_judged", "unprompted"),
    Case("", 0, 0, FINE, "subscription"),
    Case("401", 0, 0, f"{ALL} auth:401"),
    Case("403", 0, 0, f"{ALL} auth:403"),
    Case("402", 0, 0, f"{ALL} quota:402"),
    Case("404", 0, 0, f"{ALL} model_not_found:404"),
    Case("429", 0, 0, f"{ALL} rate_limit:429"),
    Case("408", 0, 0, f"{ALL} provider_error:408"),
    Case("500", 0, 0, f"{ALL} provider_error:500"),
    Case("502", 0, 0, f"{ALL} provider_error:502"),
    Case("503", 0, 0, f"{ALL} provider_error:503"),
    Case("504", 0, 0, f"{ALL} provider_error:504"),
    Case("529", 0, 0, f"{ALL} provider_error:529"),
    Case("599", 0, 0, f"{ALL} provider_error:599"),
    Case("400", 0, 0, f"{ALL} rejected_request:400"),
    Case("405", 0, 0, f"{ALL} rejected_request:405"),
    Case("409", 0, 0, f"{ALL} rejected_request:409"),
    Case("410", 0, 0, f"{ALL} rejected_request:410"),
    Case("413", 0, 0, f"{ALL} rejected_request:413"),
    Case("422", 0, 0, f"{ALL} rejected_request:422"),
    Case("498", 0, 0, f"{ALL} rejected_request:498"),
    Case("429 429", 0, 0, f"{ALL} rate_limit:429"),
    Case("429 429 500", 0, 0, f"{ALL} rate_limit:429"),
    Case("500 429 429", 0, 0, f"{ALL} rate_limit:429"),
    Case("429 500", 0, 0, f"{ALL} provider_error:500"),
    Case("500 429", 0, 0, f"{ALL} rate_limit:429"),
    Case("401 401 429 429", 0, 0, f"{ALL} rate_limit:429"),
    Case("429 429 401 401", 0, 0, f"{ALL} auth:401"),
    Case("401 429 401 429 401", 0, 0, f"{ALL} auth:401"),
    Case("401 401 429 429 500", 0, 0, f"{ALL} auth:401"),
    Case("400 404 404", 0, 0, f"{ALL} model_not_found:404"),
    Case("401 401 401 401", None, None, f"{ALL} auth:401"),
    Case("401", 1, 0, FINE),
    Case("401", 0, 1, FINE),
    Case("401", 0, 0, FINE, "error"),
    Case("401", 0, 0, FINE, "timeout"),
    Case("401", 0, 0, "not_judged", "unprompted"),
    Case("401", 0, 0, FINE, "subscription"),
    Case("401", 0, 0, f"{ALL} auth:401", "verifier"),
    Case("0 0", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("0 401", 0, 0, f"{ALL} auth:401"),
    Case("0 0 429", 0, 0, f"{ALL} rate_limit:429"),
    Case("0 200", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("0 200", 30, 0, FINE),
    Case("200", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("200", None, None, FINE),
    Case("200", 30, 0, FINE),
    Case("200", 0, 2, FINE),
    Case("200 200", 0, 0, f"{QUIET} suspected:zero_signal", "verifier"),
    Case("429 200", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("429 200", 5000, 3, FINE),
    Case("429 200 200", 5000, 3, FINE),
    Case("200 429", 5000, 3, FINE),
    Case("200 401 401 401", None, None, FINE),
    Case("200 401 401 401", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("301", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("399", 0, 0, f"{QUIET} suspected:zero_signal"),
    Case("204 401", 0, 0, f"{QUIET} suspected:zero_signal"),
]

SAID: dict[str, dict[str, Any]] = {
    "": {},
    "error": {"error": "agent exited with code 1"},
    "timeout": {"status": "task_timeout"},
    "unprompted": {"prompts_executed": 0},
    "subscription": {"usage_channel": "none"},
    "verifier": {"status": "evaluation_failed", "verifier_error": "exit 2"},
}


def captured(statuses: str) -> tuple[Exchange, ...]:
    listed = [int(status) for status in statuses.split()]
    return tuple(_answer(status or None, at) for at, status in enumerate(listed))


def _answer(status: int | None, at: int) -> Exchange:
    if status is None:
        lost = cause(Subcategory.PROVIDER_ERROR, reason="network")
        ending = Ending.NEVER_CONNECTED
        return replace(exchange(503, at=float(at)), status=None, ending=ending, cause=lost)
    return exchange(status, at=float(at))


def told(verdict: Verdict) -> str:
    return f"{verdict.rule} {verdict.fingerprint}" if verdict.fingerprint else verdict.rule


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_the_published_verdict(case: Case) -> None:
    counts: dict[str, Any] = {"total_tokens": case.tokens, "tool_calls": case.tools}
    seen = rollout(exchanges=captured(case.statuses), **counts, **SAID[case.said])
    verdict = judge(seen, policy=SEED)
    assert told(verdict) == case.verdict


def test_the_table_has_sixty_cases_and_none_twice() -> None:
    assert len(CASES) >= 60
    assert len(set(CASES)) == len(CASES)


STATUS = st.sampled_from([None, 200, 204, 302, 400, 401, 402, 403, 404, 408, 422, 429, 500, 529])


@given(st.lists(STATUS, max_size=8), st.integers(0, 2), st.integers(0, 2))
def test_any_rollout_is_judged_by_the_published_rule(
    statuses: list[int | None], tokens: int, tools: int
) -> None:
    exchanges = tuple(_answer(status, at) for at, status in enumerate(statuses))
    seen = rollout(exchanges=exchanges, total_tokens=tokens, tool_calls=tools)
    counted = [status for status in statuses if status is not None]
    failed = [status for status in counted if status >= 400]
    verdict = judge(seen, policy=SEED)
    assert (verdict.total_requests, verdict.failed_requests) == (len(counted), len(failed))
    if tokens or tools:
        assert verdict.health is Health.HEALTHY
    elif failed and failed == counted:
        assert verdict.health is Health.API_ERROR
        by_weight = max(failed, key=lambda status: (failed.count(status), status == failed[-1]))
        assert verdict.dominant_status == by_weight
    else:
        assert verdict.health is Health.SUSPECTED_API_ERROR


def test_a_running_rollout_is_never_suspected_by_the_seed() -> None:
    assert judge(rollout(running=True), policy=SEED).health is Health.HEALTHY


def test_the_seed_says_the_sentence_and_the_transience_of_its_status() -> None:
    verdict = judge(rollout("429+quota*4"), policy=SEED)
    assert verdict.error == "api_error [rate_limit, transient]: HTTP 429 on 4 of 4 calls"
    assert verdict.transient is True
    assert verdict.policy == "seed"
    assert verdict.warnings == ()


def test_the_seed_ignores_what_only_evidence_reads() -> None:
    seen = rollout("200+tool 401*3", outcome=outcome())
    verdict = judge(seen, policy=SEED)
    assert (verdict.health, verdict.doomed, verdict.recovered_requests) == (
        Health.HEALTHY,
        False,
        0,
    )
