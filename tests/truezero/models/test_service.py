"""Health checks and problem JSON: what a client can rely on."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from truezero.models import UpstreamCalls, UpstreamModel
from truezero.models.service import Alive, Problem, Ready


def test_a_service_is_alive_or_no_service() -> None:
    assert Alive.model_validate({"status": "ok", "version": "1.2"}).version == "1.2"
    with pytest.raises(ValidationError):
        Alive.model_validate({"status": "up", "version": "1.2"})


def test_readiness_is_one_of_two_states() -> None:
    ready = {"status": "not_ready", "database": False, "recorder": True, "gaps": 1, "waiting": 2}
    assert Ready.model_validate(ready).model_dump() == ready
    with pytest.raises(ValidationError):
        Ready.model_validate({**ready, "status": "soon"})


def test_a_problem_keeps_the_fields_it_does_not_know() -> None:
    body = {"type": "about:blank", "title": "t", "status": 422, "detail": "d", "code": "c"}
    problem = Problem.model_validate({**body, "errors": [{"field": "id"}]})
    assert problem.model_extra == {"errors": [{"field": "id"}]}


# --- The model of `GET /upstreams`: what is unknown is null ---------------------------------------

CALLS = {
    "calls": 0, "refused": 0, "failed": {}, "error_rate": None, "failing_since": None,
    "last_at": 1.0, "timed_calls": 0, "first_byte_p50_s": None, "first_byte_p95_s": None,
    "duration_p50_s": None, "duration_p95_s": None,
}  # fmt: skip


def test_unknown_figures_are_null_and_must_be_said() -> None:
    assert UpstreamCalls.model_validate(CALLS).error_rate is None
    assert UpstreamModel.model_validate({**CALLS, "model": None}).model is None
    with pytest.raises(ValidationError):
        UpstreamCalls.model_validate({**CALLS, "calls": None})
    with pytest.raises(ValidationError):
        UpstreamModel.model_validate(CALLS)
