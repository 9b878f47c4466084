"""Models of verdicts and results: those of an older service are read too."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.api_examples import FILE
from truezero.models.verdicts import Result, Verdict

_ANSWERS = json.loads(FILE.read_text("utf-8"))
VERDICT: dict[str, Any] = _ANSWERS["GET /rollouts/{rollout_id}/verdict"]["response"]
RESULT: dict[str, Any] = _ANSWERS["GET /rollouts/{rollout_id}/result"]["response"]
SINCE_0_2 = (
    "late_calls", "judged_at", "attributed_to", "corroborated", "validity", "validity_coverage",
    "roles", "provider_s", "agent_s", "excluded_by",
)  # fmt: skip


def test_a_verdict_of_release_0_1_is_read() -> None:
    old = Verdict.model_validate({k: v for k, v in VERDICT.items() if k not in SINCE_0_2})
    assert (old.late_calls, old.judged_at, old.corroborated, old.agent_s) == (0, None, None, None)
    assert (old.validity, old.validity_coverage, old.roles, old.excluded_by) == ([], {}, {}, [])


@pytest.mark.parametrize("field", [name for name in VERDICT if name not in SINCE_0_2])
def test_a_verdict_without_a_field_of_release_0_1_is_none(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Verdict.model_validate({k: v for k, v in VERDICT.items() if k != field})


def test_a_result_keeps_the_verdicts_fields_too() -> None:
    result = Result.model_validate(RESULT)
    assert result.rewards is None
    assert result.model_dump()["fingerprint"] == "quota:429"
