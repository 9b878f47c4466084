"""Questions of the proxy's own: plain, with a limit, with a number, and read as what they are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import AnswerState, Attribution, Kind
from proxy.asking.questions import MORE_TOKENS, PLAIN, TOKENS, question, usual_path
from proxy.asking.ways import NAME, Way, Ways, plain_path
from proxy.routing.headers import Pairs
from proxy.routing.target import Target
from proxy.routing.upstreams import BUILT_IN
from proxy.wire.request import asked_with, in_head, output_limit
from proxy.wire.routes import route
from tests.builders import calls

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


@pytest.mark.parametrize("api", APIS)
def test_each_question_has_a_number_of_its_own(api: str) -> None:
    first, second = (question(Way(api), model="m", number=n, base_path="/v1") for n in (1, 2))
    assert first.body != second.body
    assert first.path == second.path


def test_questions_have_other_words_each_time_and_begin_with_their_number() -> None:
    texts = [
        json.loads(question(Way("openai.chat"), model="m", number=n).body)["messages"][0]["content"]
        for n in range(1, 10**12, 10**12 // 50)
    ]
    assert len({text.partition(" ")[2] for text in texts}) > 40
    assert all(text[:12].isdigit() for text in texts)


@pytest.mark.parametrize(
    ("api", "asked"),
    [
        ("gemini.streamGenerateContent", "gemini.generateContent"),
        ("bedrock.converse-stream", "bedrock.converse"),
        ("bedrock.invoke", "bedrock.converse"),
        ("bedrock.invoke-stream", "bedrock.converse"),
        ("openai.realtime", None),
        ("openai.images", None),
        ("opaque", None),
        ("sglang.generate", None),
    ],
)
def test_an_api_that_streams_is_asked_about_by_its_plain_one(api: str, asked: str | None) -> None:
    assert PLAIN.get(api) == asked


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


def noted(
    *,
    path: str = "/v1/chat/completions",
    query: bytes = b"",
    headers: Pairs | None = None,
    body: dict[str, Any] | None = None,
    rollout: str = "r",
    failed: bool = True,
) -> tuple[Ways, Way]:
    """What is kept of a call to Anthropic or OpenAI, as its own way."""
    ways, headers = Ways(), headers or []
    (call,) = calls("503@m" if failed else "200@m")
    call = replace(call, rollout_id=rollout, api=route("POST", path.encode()).api)
    head = in_head(dict(headers), query, operators_key=True)
    ways.note(call, target(path, query), headers, head, asked_with(body or {}))
    return ways, ways.of(call)


def target(path: str, query: bytes = b"") -> Target:
    return Target(
        rollout_id="r", upstream=BUILT_IN["openai"], role="agent", path=path.encode(),
        query=query, attribution=Attribution.PATH, proven=True,
    )  # fmt: skip


def test_of_a_query_the_version_is_kept_and_nothing_else() -> None:
    def query_of(query: bytes) -> bytes:
        return noted(query=query)[1].query

    assert query_of(b"a=1&api-version=2024-10-21&key=sk-1") == b"api-version=2024-10-21"
    assert query_of(b"alt=sse&key=sk-1") == b""
    assert query_of(b"api-version=x%0d%0a") == b"api-version=x"


def test_a_version_that_an_sdk_sends_is_repeated_and_no_other() -> None:
    for sent, asked in ((b"2026-10-21", b"2026-10-21"), (b"1999-01-01", b"2023-06-01")):
        _, way = noted(path="/v1/messages", headers=[(b"anthropic-version", sent)])
        versions = [
            value for name, value in question(way, model="m", number=1).headers
            if name == b"anthropic-version"
        ]  # fmt: skip
        assert versions == [asked]
        assert way.shape.version is None


def test_a_question_repeats_tier_beta_and_effort_and_no_word_of_the_prompt() -> None:
    prompt = "the agent's own words"
    body = {
        "model": "m", "messages": [{"role": "user", "content": prompt}], "service_tier": "flex",
        "reasoning_effort": "high", "reasoning": {"effort": "low", "summary": prompt},
        "models": ["n"], "metadata": {"a": prompt}, "temperature": 1,
    }  # fmt: skip
    headers = [(b"openai-beta", b"a=v2"), (b"x-portkey-config", b"pc-1"), (b"x-other", b"1")]
    _, way = noted(headers=headers, body=body)
    asked = question(way, model="m", number=1)
    sent = json.loads(asked.body)
    assert {k: sent[k] for k in sent.keys() - {"messages", "model", "max_tokens"}} == {
        "service_tier": "flex", "reasoning_effort": "high", "reasoning": {"effort": "low"},
    }  # fmt: skip
    assert {(b"openai-beta", b"a=v2"), (b"x-portkey-config", b"pc-1")} <= set(asked.headers)
    assert prompt not in repr(way)
    assert b"x-other" not in dict(asked.headers)


def test_ways_tell_which_rollouts_asked_so() -> None:
    ways, way = noted(path="/beta/chat/completions", rollout="r")
    assert way.path == "/beta/chat/completions"
    assert ways.of_rollouts("openai", "m", ["r", "s"]) == {way.shape: ["r"]}
    assert ways.of_rollouts("openai", "m", ["s"]) == {}
    assert ways.last_used("openai", "m") == way.shape
    assert usual_path("openai.chat", "/v1") == "/v1/chat/completions"
    assert NAME in plain_path("/v1beta/models/g:streamGenerateContent")


def test_ways_are_bounded_and_what_is_forgotten_is_noted_anew() -> None:
    ways, way = noted(rollout="r", failed=False)
    (call,) = calls("200@m")
    call = replace(call, api="openai.chat", answer_state=AnswerState.READ)
    for number in range(200):
        ways.note(
            replace(call, rollout_id=f"r{number}"), target("/v1/chat/completions"), [], (), ()
        )
    assert ways.of_rollouts("openai", "m", ["r0", "r199"]) == {way.shape: ["r199"]}
    for number in range(100):
        ways.note(call, target(f"/{number}/chat/completions"), [], (), ())
    assert way.shape not in ways.of_rollouts("openai", "m", [call.rollout_id, "r199"])
    ways.note(replace(call, rollout_id="r199"), target("/v1/chat/completions"), [], (), ())
    assert ways.of_rollouts("openai", "m", ["r199"]) == {way.shape: ["r199"]}


def test_a_model_that_refuses_the_limit_is_asked_with_a_larger_one_under_its_newer_name() -> None:
    asked = question(
        Way("openai.chat"), model="o3", number=1, tokens=MORE_TOKENS, completion_limit=True
    )
    body = json.loads(asked.body)
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 512
