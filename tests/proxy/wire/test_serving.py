from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import SSE, chat, delta, dump, named, sse

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
