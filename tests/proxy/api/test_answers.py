"""Answers are JSON, whatever the event loop is busy with."""

from __future__ import annotations

import json

from proxy.api.problems import json_answer


async def test_an_answer_is_json_with_unknown_as_null() -> None:
    answer = await json_answer({"score": None, "interval": (0.25, 0.5)})
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(bytes(answer.body)) == {"score": None, "interval": [0.25, 0.5]}
