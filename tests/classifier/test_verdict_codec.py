"""Verdicts as they are stored and answered."""

from __future__ import annotations

import json
from typing import Any

from classifier import judge
from classifier.codec import encode_verdict
from tests.builders import rollout
from tests.classifier.truth import TABLE

CONTRACT_VERDICT = [
    "rollout_id",
    "batch",
    "health",
    "error_category",
    "subcategory",
    "transient",
    "fingerprint",
    "cause",
    "lane",
    "layer",
    "rule",
    "policy",
    "error",
    "total_requests",
    "failed_requests",
    "recovered_requests",
    "status_counts",
    "dominant_status",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "tool_calls",
    "cost_usd",
    "lost_s",
    "scoreable",
    "doomed",
    "provisional",
    "retry",
    "warnings",
    "evidence",
    "classifier",
    "late_calls",
    "judged_at",
    "attributed_to",
    "corroborated",
    "validity",
    "validity_coverage",
    "roles",
    "provider_s",
    "agent_s",
    "excluded_by",
    "proof",
]


def test_a_verdict_has_the_contracts_keys_in_their_order() -> None:
    for text in ("429+quota*4", "200", "", "lost"):
        told = encode_verdict(judge(rollout(text)))
        assert list(told) == CONTRACT_VERDICT
        assert list(told["retry"]) == ["eligible", "after_s", "reason"]  # type: ignore[call-overload]


def test_the_contracts_example_is_what_a_dead_account_gets() -> None:
    told = encode_verdict(judge(rollout("429+quota*4", id="r1", batch="b")))
    expected: dict[str, Any] = {
        "rollout_id": "r1",
        "batch": "b",
        "health": "api_error",
        "error_category": "api_error",
        "subcategory": "quota",
        "transient": False,
        "fingerprint": "quota:429",
        "lane": "openai/gpt-5/key-3f9a",
        "layer": "proxy_proven",
        "rule": "all_failed",
        "policy": "evidence",
        "error": "api_error [quota, permanent]: HTTP 429 on 4 of 4 calls",
        "total_requests": 4,
        "failed_requests": 4,
        "recovered_requests": 0,
        "status_counts": {"429": 4},
        "dominant_status": 429,
        "input_tokens": 0,
        "output_tokens": 0,
        "total_tokens": 0,
        "tool_calls": 0,
        "cost_usd": None,
        "lost_s": 3.5,
        "scoreable": "no",
        "doomed": True,
        "provisional": False,
        "retry": {
            "eligible": False,
            "after_s": None,
            "reason": "permanent until someone fixes the account",
        },
        "warnings": [],
        "evidence": ["x0", "x1", "x2", "x3"],
        "classifier": "1",
    }
    assert {name: told[name] for name in expected} == expected


def test_every_verdict_of_the_truth_table_is_json() -> None:
    for row in TABLE:
        told = encode_verdict(judge(row.rollout))
        assert json.loads(json.dumps(told)) == told
