"""Refusals of the proxy itself, and their response."""

from __future__ import annotations

import json

from proxy.routing.errors import PROBLEM_TYPE, Refusal, problem


def test_a_refusal_is_a_problem_document_with_its_own_header() -> None:
    refusal = Refusal(404, "unknown_upstream", "no such upstream", ((b"retry-after", b"1"),))
    headers, body = problem(refusal)
    assert dict(headers) == {
        b"content-type": PROBLEM_TYPE,
        b"content-length": str(len(body)).encode(),
        b"x-truezero-refusal": b"unknown_upstream",
        b"retry-after": b"1",
    }
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "unknown upstream",
        "status": 404,
        "detail": "no such upstream",
        "code": "unknown_upstream",
    }


def test_further_members_stand_beside_the_standard_ones() -> None:
    _, body = problem(Refusal(409, "rollout_exists", "taken", extra={"rollout": "r1"}))
    assert json.loads(body)["rollout"] == "r1"


def test_a_refusal_reads_as_its_detail() -> None:
    assert str(Refusal(400, "bad_path", "no dots")) == "no dots"
