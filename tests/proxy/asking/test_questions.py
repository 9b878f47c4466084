"""Questions of the proxy's own: plain, with a limit, with a number, and read as what they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from classifier.records import Kind
from proxy.asking.questions import MORE_TOKENS, PLAIN, TOKENS, question
from proxy.asking.ways import Way, plain_path
from proxy.wire.request import output_limit
from proxy.wire.routes import route

APIS = (
    "openai.chat", "openai.completions", "openai.responses", "anthropic.messages",
    "gemini.generateContent", "gemini.interactions", "bedrock.converse", "ollama.chat",
    "ollama.generate",    "cohere.v2.chat", "cohere.v1.chat",
)  # fmt: skip


@pytest.mark.parametrize("api", APIS)
def test_a_question_is_read_as_a_plain_call_of_its_api(api: str) -> None:
    assert PLAIN[api] == api
    asked = question(Way(api), model="m-1", number=7, base_path="/v1")
    found = route("POST", asked.path)
    body = json.loads(asked.body)
    assert (found.api, found.kind, found.streams) == (api, Kind.INFERENCE, False)
    assert (found.model or body["model"]) == "m-1"
    assert output_limit(body) == TOKENS
    assert output_limit(json.loads(question(Way(api), model="m", number=7, tokens=512).body)) == 512
    assert "Reply with the word ready." in asked.body.decode()
    assert b'"tools"' not in asked.body
    assert b'"stream":true' not in asked.body
    another = question(Way(api), model="m-1", number=8, base_path="/v1")
    assert (another.body != asked.body, another.path) == (True, asked.path)


@pytest.mark.parametrize("api", APIS)
def test_a_streamed_question_is_read_as_a_call_that_streams(api: str) -> None:
    asked = question(Way(api, streamed=True), model="m-1", number=7, base_path="/v1")
    found, body = route("POST", asked.path), json.loads(asked.body)
    if api == "bedrock.converse":
        assert asked == question(Way(api), model="m-1", number=7, base_path="/v1")
    elif api == "gemini.generateContent":
        assert (found.api, asked.query) == ("gemini.streamGenerateContent", b"alt=sse")
    else:
        assert (found.api, body["stream"]) == (api, True)
    azure = question(Way("openai.chat", query=b"api-version=1"), model="m", number=1)
    assert azure.query == b"api-version=1"
    vertex = Way("anthropic.messages", path="/v1/projects/p/models/m:rawPredict", streamed=True)
    plain = question(vertex, model="m", number=1)
    assert "stream" not in json.loads(plain.body)


def test_questions_have_other_words_each_time_and_begin_with_their_number() -> None:
    texts = [
        json.loads(question(Way("openai.chat"), model="m", number=n).body)["messages"][0]["content"]
        for n in range(1, 10**12, 10**12 // 50)
    ]
    assert len({text.partition(" ")[2] for text in texts}) > 40
    assert all(text[:12].isdigit() for text in texts)


def test_an_api_that_streams_is_asked_about_by_its_plain_one() -> None:
    assert PLAIN["gemini.streamGenerateContent"] == "gemini.generateContent"
    for api in ("bedrock.converse-stream", "bedrock.invoke", "bedrock.invoke-stream"):
        assert PLAIN[api] == "bedrock.converse"
    assert not PLAIN.keys() & {"openai.realtime", "openai.images", "opaque", "sglang.generate"}


PATHS: list[tuple[str, str, str]] = [
    ("openai.chat", "/api/v9/chat/completions", "/api/v9/chat/completions"),
    ("openai.chat", "/openai/deployments/gpt-x/chat/completions",
     "/openai/deployments/m%2F1/chat/completions"),
    ("gemini.generateContent", "/v1/models/g-2:streamGenerateContent",
     "/v1/models/m%2F1:generateContent"),
    ("gemini.generateContent",
     "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
     "/v1/projects/p/locations/l/publishers/google/models/m%2F1:generateContent"),
    ("gemini.interactions", "/v1beta/interactions", "/v1beta/interactions"),
    ("bedrock.converse", "/model/us.x.y-v1:0/converse-stream", "/model/m%2F1/converse"),
    ("bedrock.converse", "/model/us.x.y-v1%3A0/invoke-with-response-stream",
     "/model/m%2F1/converse"),
    ("bedrock.converse", "/model/y/invoke", "/model/m%2F1/converse"),
    ("anthropic.messages", "/v1/publishers/anthropic/models/c:streamRawPredict",
     "/v1/publishers/anthropic/models/m%2F1:rawPredict"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "answered", "asked"), PATHS)
def test_it_is_asked_where_a_call_was_answered(api: str, answered: str, asked: str) -> None:
    found = question(Way(api, path=plain_path(answered)), model="m/1", number=1)
    assert found.path.decode() == asked
    assert route("POST", found.path).kind is Kind.INFERENCE


def test_vertex_has_the_model_in_the_path_and_the_version_in_the_body() -> None:
    vertex = Way("anthropic.messages", path="/v1/publishers/anthropic/models/c:rawPredict")
    body: dict[str, Any] = json.loads(question(vertex, model="c", number=1).body)
    assert "model" not in body
    assert body["anthropic_version"] == "vertex-2023-10-16"


def test_a_model_that_refuses_the_limit_is_asked_with_a_larger_one_under_its_newer_name() -> None:
    asked = question(
        Way("openai.chat"), model="o3", number=1, tokens=MORE_TOKENS, completion_limit=True
    )
    body = json.loads(asked.body)
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 512
