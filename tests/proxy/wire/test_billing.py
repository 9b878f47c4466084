"""How a call is billed beside or instead of the price of its tokens, as its answer states it.

service_tier: platform.openai.com, api-reference/chat/object; docs.claude.com, api/service-tiers.
server_tool_use: anthropic-sdk-python, types/usage.py. groundingMetadata, trafficType: python-genai,
types.py. serviceTier: botocore, bedrock-runtime/2023-09-30/service-2.json.
"""

from __future__ import annotations

from typing import Any

import pytest

from proxy.wire.dialect import Dialect, ResponseFacts, billed_as
from proxy.wire.dialects.anthropic import MESSAGES
from proxy.wire.dialects.bedrock import CONVERSE
from proxy.wire.dialects.gemini import GENERATE, INTERACTIONS
from proxy.wire.dialects.openai import CHAT, RESPONSES

_SEARCH = {"server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}}


def _chat(**stated: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Yes."} | stated.pop("message", {})
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **stated}


def _message(usage: dict[str, Any], *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "content": list(blocks), "usage": usage}


def _response(*items: dict[str, Any], tier: str = "default") -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": list(items),
            "service_tier": tier}  # fmt: skip


def _gemini(usage: dict[str, Any], **stated: Any) -> dict[str, Any]:
    return {"candidates": [{"finishReason": "STOP", **stated}], "usageMetadata": usage}


@pytest.mark.parametrize(
    ("dialect", "payload", "billed"),
    [
        (CHAT, _chat(), None),
        (CHAT, _chat(service_tier="default"), None),
        (CHAT, _chat(service_tier=None), None),
        (CHAT, _chat(service_tier="on_demand"), None),
        (CHAT, _chat(service_tier="priority"), "priority"),
        (CHAT, _chat(service_tier="flex"), "flex"),
        (CHAT, _chat(service_tier="Dear Sir, this is a text"), "other"),
        (CHAT, _chat(message={"annotations": []}), None),
        (CHAT, _chat(message={"annotations": [{"type": "url_citation"}]}), "tools"),
        (CHAT, _chat(usage={"num_sources_used": 0}), None),
        (CHAT, _chat(usage={"num_sources_used": 4}), "tools"),
        (RESPONSES, _response({"type": "function_call", "call_id": "c"}), None),
        (RESPONSES, _response({"type": "web_search_call", "id": "w"}), "tools"),
        (RESPONSES, _response({"type": "file_search_call", "id": "f"}, tier="priority"),
         "priority+tools"),
        (MESSAGES, _message({"service_tier": "standard"}), None),
        (MESSAGES, _message({"service_tier": "batch"}), "batch"),
        (MESSAGES, _message({"speed": "fast"}), "fast"),
        (MESSAGES, _message({"server_tool_use": {"web_fetch_requests": 3}}), None),
        (MESSAGES, _message({"server_tool_use": None}), None),
        (MESSAGES, _message(_SEARCH), "tools"),
        (MESSAGES, _message({}, {"type": "server_tool_use", "name": "web_fetch"}), None),
        (MESSAGES, _message({}, {"type": "server_tool_use", "name": "bash_code_execution"}),
         "tools"),
        (GENERATE, _gemini({"trafficType": "ON_DEMAND"}), None),
        (GENERATE, _gemini({"trafficType": "ON_DEMAND_FLEX"}), "flex"),
        (GENERATE, _gemini({"trafficType": "PROVISIONED_THROUGHPUT"}), "provisioned"),
        (GENERATE, _gemini({}, groundingMetadata={}), None),
        (GENERATE, _gemini({}, groundingMetadata={"webSearchQueries": ["late parcels"]}), "tools"),
        (INTERACTIONS, {"object": "interaction", "service_tier": "standard", "steps": []}, None),
        (INTERACTIONS, {"object": "interaction", "service_tier": "priority",
                        "steps": [{"type": "google_search_call", "id": "g"}]}, "priority+tools"),
        (CONVERSE, {"stopReason": "end_turn", "serviceTier": {"type": "default"}}, None),
        (CONVERSE, {"stopReason": "end_turn", "serviceTier": {"type": "flex"}}, "flex"),
        (CONVERSE, {"stopReason": "end_turn", "performanceConfig": {"latency": "optimized"}},
         "fast"),
    ],
)  # fmt: skip
def test_a_tier_and_paid_tools_are_read(
    dialect: Dialect, payload: dict[str, Any], billed: str | None
) -> None:
    reading = ResponseFacts()
    dialect.read(reading, payload, None)
    assert reading.billed_as == billed


def test_the_tier_that_served_replaces_the_one_that_was_asked_for() -> None:
    reading = ResponseFacts()
    created = {"type": "response.created", "response": _response(tier="priority")}
    RESPONSES.read(reading, created, None)
    done = {"type": "response.completed", "response": _response(tier="default")}
    RESPONSES.read(reading, done, None)
    assert reading.billed_as is None


def test_a_later_tier_leaves_paid_tools_and_the_heads_tier_is_taken_where_none_is_stated() -> None:
    reading = ResponseFacts()
    searched = _response({"type": "web_search_call"}, tier="flex")
    RESPONSES.read(reading, {"response": searched}, None)
    assert (reading.billed_as, billed_as(reading, "priority")) == ("flex+tools", "flex+tools")
    RESPONSES.read(reading, {"response": _response(tier="default")}, None)
    assert (reading.billed_as, billed_as(reading, "priority")) == ("tools", "priority+tools")
    assert billed_as(ResponseFacts(), "priority") == "priority"
    assert billed_as(ResponseFacts(), None) is None


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        (CHAT, b'{"choices":[{"delta":{"annotations":[{"type":"url_citation"}]}}]}'),
        (MESSAGES, b'{"type":"content_block_start","content_block":{"type":"server_tool_use"}}'),
        (GENERATE, b'{"candidates":[{"groundingMetadata":{"webSearchQueries":["a"]}}]}'),
        (RESPONSES, b'{"type":"response.output_item.done","item":{"type":"web_search_call"}}'),
    ],
)
def test_an_event_of_a_paid_tool_is_parsed_behind_content(dialect: Dialect, event: bytes) -> None:
    assert dialect.relevant is not None
    assert dialect.relevant.search(event)
