"""How a call is billed beside or instead of the price of its tokens, as its answer states it.

service_tier: platform.openai.com, api-reference/chat/object; docs.claude.com, api/service-tiers.
server_tool_use: anthropic-sdk-python, types/usage.py. groundingMetadata, trafficType: python-genai,
types.py. serviceTier: botocore, bedrock-runtime/2023-09-30/service-2.json.
"""

from __future__ import annotations

from typing import Any

from proxy.wire.dialect import Dialect, ResponseFacts, billed_as
from proxy.wire.dialects.anthropic import MESSAGES
from proxy.wire.dialects.gemini import GENERATE
from proxy.wire.dialects.openai import CHAT, RESPONSES
from tests.tables import each


def _response(*items: dict[str, Any], tier: str = "default") -> dict[str, Any]:
    return {"object": "response", "status": "completed", "output": list(items),
            "service_tier": tier}  # fmt: skip


def test_a_later_tier_leaves_paid_tools_and_the_heads_tier_is_taken_where_none_is_stated() -> None:
    reading = ResponseFacts()
    searched = _response({"type": "web_search_call"}, tier="flex")
    RESPONSES.read(reading, {"response": searched}, None)
    assert (reading.billed_as, billed_as(reading, "priority")) == ("flex+tools", "flex+tools")
    RESPONSES.read(reading, {"response": _response(tier="default")}, None)
    assert (reading.billed_as, billed_as(reading, "priority")) == ("tools", "priority+tools")
    assert billed_as(ResponseFacts(), "priority") == "priority"
    assert billed_as(ResponseFacts(), None) is None


@each(
    "dialect, event",
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
