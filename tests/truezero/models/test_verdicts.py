"""Models of verdicts and results: those of an older service are read too."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from classifier import judge, result
from classifier.codec import encode_verdict
from tests.api_examples import text as examples
from tests.builders import calls, limit_reached, rollout
from tests.tables import each
from truezero.models.verdicts import Result, Verdict

_ANSWERS = json.loads(examples())
VERDICT: dict[str, Any] = _ANSWERS["GET /rollouts/{rollout_id}/verdict"]["response"]
RESULT: dict[str, Any] = _ANSWERS["GET /rollouts/{rollout_id}/result"]["response"]
SINCE_0_2 = (
    "late_calls", "judged_at", "attributed_to", "corroborated", "validity", "validity_coverage",
    "roles", "provider_s", "agent_s", "excluded_by", "proof", "references", "held_s",
    "sentence", "tokens_unknown_calls", "cost_unknown_calls",
)  # fmt: skip


def test_a_verdict_of_release_0_1_is_read() -> None:
    old = Verdict.model_validate({k: v for k, v in VERDICT.items() if k not in SINCE_0_2})
    assert (old.late_calls, old.judged_at, old.corroborated, old.agent_s) == (0, None, None, None)
    assert (old.validity, old.validity_coverage, old.roles, old.excluded_by) == ([], {}, {}, [])


@each("field", [name for name in VERDICT if name not in SINCE_0_2])
def test_a_verdict_without_a_field_of_release_0_1_is_none(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Verdict.model_validate({k: v for k, v in VERDICT.items() if k != field})


def test_a_result_keeps_the_verdicts_fields_too() -> None:
    result = Result.model_validate(RESULT)
    assert result.rewards is None
    assert result.model_dump()["fingerprint"] == "quota:429"


def test_a_spoilt_measurement_says_why_in_the_words_of_its_result() -> None:
    aborted = calls("200+tool 200")
    aborted = (aborted[0], replace(aborted[1], finish_reason="abort"))
    for said, spoilt in (
        (rollout("200+tool 401+judge*2"), True),
        (rollout("200", exchanges=aborted), True),
        (rollout("200", termination_reason="max_steps", max_steps="exclude"), True),
        (rollout("200", limit_reached=limit_reached()), True),
        (rollout("200+tool"), False),
        (rollout("200+tool 400"), False),
        (rollout("401*2"), False),
        (rollout("", prompts_executed=0), False),
    ):
        judged = judge(said)
        read = Verdict.model_validate(encode_verdict(judged))
        assert read.spoilt == (result(said, judged).error if spoilt else None)
