"""The tokens of a prompt: its length, with pictures that take no more than pictures do."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from proxy.features.budgets.prompt import prompt_tokens

PICTURE = "A" * 900_000
TEXT = "word " * 1000
PICTURES: dict[str, dict[str, Any]] = {
    "chat": {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PICTURE}},
    "responses": {"type": "input_image", "image_url": "data:image/png;base64," + PICTURE},
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PICTURE},
    },
    "gemini": {"inlineData": {"data": PICTURE, "mimeType": "image/png"}},
    "converse": {"image": {"format": "png", "source": {"bytes": PICTURE}}},
}
OTHERS: dict[str, dict[str, Any]] = {
    "text": {"type": "text", "text": "data:image/png;base64," + PICTURE},
    "document": {"source": {"media_type": "application/pdf", "data": PICTURE}},
}


def asked(content: dict[str, Any], times: int = 1) -> int:
    payload = {"messages": [{"role": "user", "content": [content] * times + [{"text": TEXT}]}]}
    return prompt_tokens(orjson.dumps(payload), payload)


@pytest.mark.parametrize("api", PICTURES)
def test_a_picture_takes_what_a_picture_takes(api: str) -> None:
    assert 6_000 < asked(PICTURES[api]) < 7_500
    assert 11_000 < asked(PICTURES[api], 2) < 13_000


@pytest.mark.parametrize("kind", OTHERS)
def test_what_may_be_read_as_text_takes_its_length(kind: str) -> None:
    assert asked(OTHERS[kind]) > 300_000


def test_a_body_of_countless_values_is_looked_at_in_part() -> None:
    payload: dict[str, Any] = {"messages": [[[]] * 50_000] * 50 + [PICTURES["chat"]]}
    body = b"x" * 2_000_000
    assert prompt_tokens(body, {"messages": [[]] * 100_000}) == len(body) // 3
    assert prompt_tokens(body, payload) <= len(body) // 3
