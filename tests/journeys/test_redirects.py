"""A provider that redirects: the real SDK gets its answer here, and what goes elsewhere is told."""

from __future__ import annotations

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.service import Service

pytestmark = pytest.mark.slow  # to load the SDK takes two CPU seconds

CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Is it true?"}]}


def redirects(status: int, to: str) -> Answer:
    return Answer(status=status, headers=(("location", to), ("x-kept", "as it was")))


@pytest.mark.parametrize("origin", ["", "own"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_openai_sdk_gets_its_answer_behind_a_redirect_to_the_path_with_a_slash(
    service: Service, provider: Provider, rollout: str, origin: str, stream: bool
) -> None:
    import openai

    place = provider.url if origin else ""
    told = answers.chat_stream() if stream else answers.chat()

    def to_the_slash(request: Request) -> Answer:
        return told if request.path.endswith("/") else redirects(307, f"{place}{CHAT}/")

    provider.plays(to_the_slash)
    provider.requests.clear()
    service.register(id=rollout, upstream="openai", model="m")
    with openai.OpenAI(
        base_url=service.base(rollout, "openai") + "/v1", api_key="sk-agent", max_retries=0
    ) as client:
        if stream:
            parts = client.chat.completions.create(**ASKED, stream=True)
            said = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        else:
            said = client.chat.completions.create(**ASKED).choices[0].message.content
    assert said == "".join(answers.TEXT)
    sent = [(r.method, r.path, r.body, r.header("authorization")) for r in provider.requests]
    assert [path for _, path, _, _ in sent] == [CHAT, CHAT + "/"]
    assert sent[0][2:] == sent[1][2:] != (b"", None)
    service.outcome(rollout, status="success", rewards={"score": 0.0})
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["scoreable"]) == ("healthy", "yes")
    assert [x["answer_state"] for x in service.exchanges(rollout)] == ["unread", "read"]
