"""Which names are kept: what a model or a reason can be called, and neither a text nor a key."""
# ruff: noqa: SLF001
# Private: caches do not grow with what agents send.

from __future__ import annotations

from collections.abc import Mapping

import pytest

from classifier.records import Exchange
from proxy.wire import dialect, routes
from proxy.wire.dialect import ResponseFacts, model_name, word
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SSE, chat, delta, dump, named, sse
from tests.tables import each

PROMPT = "Summarise the merger, code word zebra"
KEYS = (
    "sk-proj-abcdefghijklmnop1234", "sk-ant-api03-abcdefghijklmnop", "gsk_abcdefghijklmnop1234",
    "xai-abcdefghijklmnop1234", "hf_abcdefghijklmnop1234", "nvapi-abcdefghijklmnop1234",
    "AIzaSyabcdefghijklmnop1234", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi",
    "ghp_abcdefghijklmnop1234", "tz-cm9sbG91dA.abcdefghijklmnopqrst",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "gpt-5", "claude-sonnet-4-5[1m]", "us.anthropic.claude-sonnet-5-v1:0", "gpt-oss:20b",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0",
        "@cf/meta/llama-3.1-8b-instruct", "Skywork/Skywork-Critic-Llama-3.1-70B", "openai/*",
        "hf-internal-testing/tiny-random-LlamaForCausalLM", "hf.co/bartowski/Q-GGUF:Q4_K_M",
        "/models/Qwen3-8B-Q4_K_M.gguf", "C:\\models\\m.gguf", "~typesafe/model#1", "a" * 200,
    ],
)  # fmt: skip
def test_what_models_are_called_is_kept(name: str) -> None:
    assert model_name(name) == name


@each("text", [PROMPT, "line\nbreak", "请总结这份文件", '{"role":"user"}', "a" * 201, "", *KEYS])
def test_a_text_or_a_key_is_no_name_of_a_model(text: str) -> None:
    assert model_name(text) is None


@each("text", [PROMPT, "a" * 65, "", "größer", *KEYS])
def test_a_text_or_a_key_is_no_word(text: str) -> None:
    assert word(text) is None


def test_a_text_is_not_remembered_as_names_are() -> None:
    before = dialect._known_model.cache_info().currsize, dialect._known_word.cache_info().currsize
    reading = ResponseFacts()
    for text in (PROMPT, *KEYS):
        reading.take_model(text)
        reading.take_finish_reason(text)
    assert reading.finish_reason == "unfit"
    after = dialect._known_model.cache_info().currsize, dialect._known_word.cache_info().currsize
    assert after == before


def said() -> Exchange:
    """Observe a call whose request, answer and headers have texts in place of names."""
    answer = chat(None, finish=PROMPT).replace(b"m-1", PROMPT.encode())
    asked = dump({"model": PROMPT, "messages": []})
    return observed(answer, headers={"x-request-id": PROMPT}, request=asked)


def test_a_prompt_where_a_name_belongs_is_not_kept() -> None:
    exchange = said()
    assert PROMPT[:20] not in repr(exchange)
    assert (exchange.model, exchange.answered_model) == (None, None)
    assert exchange.provider_request_id is None


def test_a_finish_reason_that_is_no_word_still_ends_the_answer() -> None:
    exchange = said()
    assert (exchange.finish_reason, exchange.cause) == ("unfit", None)
    silent = ResponseFacts()
    silent.take_finish_reason("")
    assert silent.finish_reason is None


def test_a_path_names_no_model_that_is_a_text() -> None:
    path = b"/v1beta/models/Summarise%20the%20merger:generateContent"
    assert routes.route("POST", path).model is None


# --- serving --------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize(
    ("headers", "stood_in"),
    [
        ({}, None),
        ({"x-litellm-attempted-fallbacks": "0"}, False),
        ({"x-litellm-attempted-fallbacks": "2"}, True),
        ({"x-litellm-attempted-fallbacks": "many"}, None),
        ({"x-litellm-attempted-fallbacks": "-1"}, None),
        ({"x-litellm-attempted-fallbacks": "9" * 5000}, None),
        ({"x-litellm-attempted-fallbacks": "0", "cf-aig-step": "1"}, True),
        ({"cf-aig-step": "0"}, False),
        ({"helicone-fallback-index": "1"}, True),
        ({"x-portkey-last-used-option-index": "config"}, False),
        ({"x-portkey-last-used-option-index": "config.targets[0].targets[0]"}, False),
        ({"x-portkey-last-used-option-index": "config.targets[1]"}, None),  # or load balancing
        ({"x-litellm-attempted-retries": "3"}, None),
    ],
)
def test_a_gateway_s_header_says_whether_another_model_stood_in(
    headers: Mapping[str, str], stood_in: bool | None
) -> None:
    assert observed(chat(USAGE), headers=headers).fallback is stood_in


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({"x-ms-region": "Sweden Central"}, None),
        ({"x-ms-region": "swedencentral"}, "swedencentral"),
        ({"x-inference-provider": "together"}, "together"),
        ({"x-litellm-model-region": "eu-west-1"}, "eu-west-1"),
        ({"x-inference-provider": "sk-abcdefghijklmnopqrst"}, None),
        ({"x-inference-provider": "a" * 65}, None),
        ({"cf-ray": "8a1-FRA"}, None),
        ({"server": "uvicorn"}, None),
    ],
)
def test_headers_name_who_served(headers: Mapping[str, str], name: str | None) -> None:
    assert observed(chat(USAGE), headers=headers).served_by == name


@pytest.mark.parametrize(
    ("stated", "name", "fingerprint"),
    [
        ({"provider": "Google AI Studio"}, "Google-AI-Studio", None),
        ({"provider": "DeepInfra", "system_fingerprint": "fp_44709d6fcb"}, "DeepInfra",
         "fp_44709d6fcb"),
        ({"provider": None, "system_fingerprint": None}, None, None),
        ({"provider": {"name": "x"}, "system_fingerprint": 7}, None, None),
        ({"provider": "my name is four words", "system_fingerprint": "a sentence"}, None, None),
        ({"provider": "sk-abcdefghijklmnopqrst"}, None, None),
        ({}, None, None),
    ],
)  # fmt: skip
def test_chat_bodies_name_who_served_whole_and_streamed(
    stated: Mapping[str, object], name: str | None, fingerprint: str | None
) -> None:
    whole = observed(dump({"choices": [{"message": {"content": "a"}}], **stated}))
    events = [{**delta(content="a"), **stated}, {**delta(content="b"), **stated}]
    streamed = observed(sse(*events), type_=SSE)
    for exchange in (whole, streamed):
        assert exchange.output_seen
        assert (exchange.served_by, exchange.system_fingerprint) == (name, fingerprint)


def test_a_header_outranks_the_body_and_the_first_event_the_others() -> None:
    events = sse({**delta(content="a"), "provider": "One"}, {**delta(content="b"), "provider": "2"})
    assert observed(events, type_=SSE).served_by == "One"
    headers = {"x-inference-provider": "three"}
    assert observed(events, type_=SSE, headers=headers).served_by == "three"


@pytest.mark.parametrize(("stated", "region"), [("us", "us"), ("not_available", None), (3, None)])
def test_anthropic_states_where_inference_ran(stated: object, region: str | None) -> None:
    message = {"type": "message", "content": [{"type": "text", "text": "a"}],
               "usage": {"input_tokens": 1, "inference_geo": stated}}  # fmt: skip
    assert observed(dump(message), "/v1/messages").served_by == region
    start = named({"type": "message_start", "message": message})
    assert observed(start, "/v1/messages", type_=SSE).served_by == region


# python/sglang/srt/utils/weight_versions.py; the list has the tokens of each version.
SPANS = [
    {"version": "step-41", "start": 0, "end": 9},
    {"version": "step-42", "start": 9, "end": 30},
]


def test_sglang_states_the_version_of_its_weights() -> None:
    long = [{"version": f"checkpoint-of-the-step-{step}"} for step in range(4)]
    for stated, version in (
        ({"metadata": {"weight_version": "step-41"}}, "step-41"),
        ({"metadata": {"weight_version": 41}}, "41"),
        ({"metadata": {"weight_version": "step-42", "weight_versions": SPANS}}, "step-41,step-42"),
        ({"sglext": {"weight_version": "step-42", "weight_versions": SPANS}}, "step-41,step-42"),
        ({"metadata": {"weight_versions": long}},
         "checkpoint-of-the-step-0,checkpoint-of-the-step-3"),
        ({"metadata": {"weight_versions": [{"version": "a" * 40}, {"version": "b" * 40}]}},
         "b" * 40),
        ({"metadata": {"weight_version": None}}, None),
        ({"metadata": {"weight_version": "the weights of my friend"}}, None),
        ({"metadata": {"weight_version": "sk-abcdefghijklmnopqrst"}}, None),
        ({"metadata": {"weight_version": True, "weight_versions": "step-41"}}, None),
        ({"metadata": {"ticket": "42"}}, None),
        ({"metadata": ["step-41"], "sglext": None}, None),
    ):  # fmt: skip
        exchange = observed(dump({"choices": [{"message": {"content": "a"}}], **stated}))
        assert exchange.weight_version == version, stated
        assert exchange.output_seen
