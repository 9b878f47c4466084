"""The model of `GET /upstreams`: what is unknown is null."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from truezero.models import UpstreamCalls, UpstreamModel

CALLS = {
    "calls": 0, "refused": 0, "failed": {}, "error_rate": None, "failing_since": None,
    "last_at": 1.0, "sampled_calls": 0, "first_byte_p50_s": None, "first_byte_p95_s": None,
    "duration_p50_s": None, "duration_p95_s": None,
}  # fmt: skip


def test_unknown_figures_are_null_and_must_be_said() -> None:
    assert UpstreamCalls.model_validate(CALLS).error_rate is None
    assert UpstreamModel.model_validate({**CALLS, "model": None}).model is None
    with pytest.raises(ValidationError):
        UpstreamCalls.model_validate({**CALLS, "calls": None})
    with pytest.raises(ValidationError):
        UpstreamModel.model_validate(CALLS)
