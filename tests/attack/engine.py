"""A provider that obeys: it does to an answer what the agent's own request brings about.

Like an inference engine behind a gateway: limits, windows, routing, reasoning and fallbacks are
the caller's to ask for, and a model writes what it is told to write.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.fakes import answers, replies
from tests.fakes.answers import Api
from tests.fakes.provider import Answer, Pause, Request
from tests.fakes.replies import Finish, Reply

SAY = "Write this and no more: "
_ASKED = "Reply with the word "
WINDOW = 4_096  # tokens of prompt and answer
BYTES_PER_TOKEN = 4
_OUTPUT = 100  # tokens of an answer that nothing cuts
_NO_MODEL = {"message": "The model `no-such` does not exist", "code": "model_not_found"}


def obedient(request: Request) -> Answer:
    """Answer a chat completion as it asks to be answered."""
    if not request.path.endswith("/chat/completions"):
        return answers.whole({})
    asked = json.loads(request.body)
    if asked["model"] == "no-such":
        return answers.whole({"error": _NO_MODEL}, 404)
    reply = _routed(asked, _cut(asked, _said(asked)))
    answer = replies.answer(Api.CHAT, reply, streams=False)
    if asked.get("think_s"):
        answer = replace(answer, body=(Pause(asked["think_s"]), *answer.body))
    return answer


def _said(asked: dict[str, Any]) -> Reply:
    """What the model writes; its prompt is counted by what the messages say."""
    texts = [message["content"] for message in asked["messages"]]
    told = texts[-1].partition(SAY)[2] or texts[-1].partition(_ASKED)[2]
    return Reply(
        model=asked["model"],
        input_tokens=sum(map(len, texts)) // BYTES_PER_TOKEN,
        output_tokens=1 if asked.get("think_s") else _OUTPUT,
        text=(told or "There is nothing to be done.",),
    )


def _cut(asked: dict[str, Any], reply: Reply) -> Reply:
    """The reply within the smallest limit, and within the window."""
    limits = [asked[key] for key in ("max_tokens", "max_completion_tokens") if key in asked]
    left = min([*limits, WINDOW - reply.input_tokens])
    if left >= reply.output_tokens and "reasoning_effort" not in asked:
        return reply
    cut = replace(reply, output_tokens=left, finish=Finish.LENGTH)
    if "reasoning_effort" not in asked:
        return cut
    return replace(cut, text=(), reasoning="Let me see.", reasoning_tokens=left)


def _routed(asked: dict[str, Any], reply: Reply) -> Reply:
    """The reply of the model and provider that the caller has the gateway take.

    ``mock_testing_fallbacks``: docs.litellm.ai/docs/proxy/reliability; ``models`` and
    ``provider``: openrouter.ai/docs/features/model-routing, /provider-routing.
    """
    if asked.get("mock_testing_fallbacks"):
        fell = (("x-litellm-attempted-fallbacks", "1"), ("x-litellm-model-group", "main"))
        return replace(reply, model="gpt-4.1-nano", headers=fell)
    if "models" in asked:
        return replace(reply, model=asked["models"][-1])
    if "provider" in asked:
        return replace(reply, extra={"provider": asked["provider"]["order"][0]})
    return reply
