"""Verdicts as Langfuse is sent them; tests/journeys/test_sinks.py has its own models read them."""

from __future__ import annotations

import json

import httpx
import pytest
import respx

from tests.truezero.integrations.told import FOUND, told
from truezero.integrations import langfuse

URL = "http://127.0.0.1:3000"


def test_a_verdict_is_categorical_scores_of_its_rollouts_session() -> None:
    verdict = told("401", FOUND)
    health, finding = langfuse.scores(verdict)
    assert health == {
        "id": "r1:truezero.health", "sessionId": "r1", "name": "truezero.health",
        "value": "api_error", "dataType": "CATEGORICAL", "comment": verdict.error,
        "timestamp": "1970-01-01T00:01:40+00:00",
        "metadata": {"batch": "nightly", "rule": verdict.rule, "cause": verdict.cause,
                     "evidence": verdict.evidence},
    }  # fmt: skip
    assert (finding["value"], finding["comment"]) == ("suspect", "it waited")
    assert "comment" not in langfuse.scores(told("200"))[0]


@respx.mock
def test_all_are_posted_at_once_with_both_keys() -> None:
    route = respx.post(f"{URL}/api/public/scores").respond(200)
    told_of = [told("401", FOUND), told("200")]
    sent = langfuse.post(told_of, url=URL + "/", public_key="p", secret_key="s")
    (call,) = route.calls
    assert json.loads(call.request.content) == sent
    assert len(sent) == 3
    assert call.request.headers["authorization"] == "Basic cDpz"
    assert langfuse.post([], url=URL, public_key="p", secret_key="s") == []
    assert len(route.calls) == 1


@respx.mock
def test_a_refusal_is_raised() -> None:
    respx.post(f"{URL}/api/public/scores").respond(401)
    with pytest.raises(httpx.HTTPStatusError):
        langfuse.post([told("200")], url=URL, public_key="p", secret_key="s")
