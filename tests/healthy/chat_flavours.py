"""How chat completions differ from host to host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.healthy.traffic import Json, Pairs
from tests.healthy.writing import Told, data, ident, stainless, uuid

_PYTHON = "OpenAI/Python 2.6.1"


def _counted(told: Told, **more: object) -> Json:
    counts = told.counts
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
        **more,
    }


def _openai_usage(told: Told) -> Json:
    made = {"reasoning_tokens": told.counts.reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}  # fmt: skip
    return _detailed_usage(told, audio_tokens=0) | {"completion_tokens_details": made}


def _detailed_usage(told: Told, **more: object) -> Json:
    return _counted(told, prompt_tokens_details={"cached_tokens": told.counts.cached, **more})


def _plain_usage(told: Told) -> Json:
    return _counted(told, prompt_tokens_details=None)


def _vllm_usage(told: Told) -> Json:  # with --enable-prompt-tokens-details, or without
    shown = int(told.session[0], 16) % 2 and told.counts.cached
    return _detailed_usage(told) if shown else _plain_usage(told)


def _openrouter_usage(told: Told) -> Json:
    return _detailed_usage(told, audio_tokens=0) | {
        "cost": (told.counts.input * 3 + told.counts.output * 15) / 1e6,
        "is_byok": False,
        "cost_details": {"upstream_inference_cost": None},
        "completion_tokens_details": {"reasoning_tokens": told.counts.reasoning},
    }


def _deepseek_usage(told: Told) -> Json:
    counts = told.counts
    usage = _detailed_usage(told) | {
        "prompt_cache_hit_tokens": counts.cached,
        "prompt_cache_miss_tokens": counts.input - counts.cached,
    }
    if told.lane.reasons:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
    return usage


def _xai_usage(told: Told) -> Json:
    counts = told.counts  # completion_tokens leave reasoning out, total_tokens do not
    usage = _detailed_usage(told, text_tokens=counts.input, audio_tokens=0, image_tokens=0)
    return usage | {
        "completion_tokens": counts.output - counts.reasoning,
        "completion_tokens_details": {"reasoning_tokens": counts.reasoning, "audio_tokens": 0},
        "num_sources_used": 0,
    }


def _moonshot_usage(told: Told) -> Json:
    cached = told.counts.cached
    return _counted(told, **({"cached_tokens": cached} if cached else {}))


def _groq_usage(told: Told) -> Json:
    return _plain_usage(told) | {
        "queue_time": 0.21, "prompt_time": 0.03, "completion_time": 0.4, "total_time": 0.43
    }  # fmt: skip


def _litellm_usage(told: Told) -> Json:
    return _detailed_usage(told, audio_tokens=None) | {
        "completion_tokens_details": None,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": told.counts.cached,
    }


def _nothing(told: Told, finish: str = "") -> Json:
    return {}


def _routed(told: Told) -> str | None:
    """Return the name that answers: a router takes another one from call to call."""
    routes = told.name.flags.get("routes")
    return told.rng.choice(routes) if routes else told.name.answered


def _fingerprinted(told: Told) -> Json:
    answer: Json = {"id": "", "created": told.created, "model": _routed(told)}
    if (mark := told.name.flags.get("fingerprint")) is not None:
        old = told.lane.upstream == "openai" and told.rng.random() < 0.06  # a deployment goes on
        answer["system_fingerprint"] = "fp_50906f2aac" if old else mark
    return answer


def _openai_answer(told: Told) -> Json:
    tier = {"service_tier": "default", "system_fingerprint": None}
    return tier | _fingerprinted(told)


def _openai_headers(told: Told) -> Pairs:
    return (*stainless("python", _PYTHON), ("authorization", f"Bearer sk-proj-{told.session}"))


def _azure_headers(told: Told) -> Pairs:
    return (*stainless("python", "AzureOpenAI/Python 1.99.9"), ("api-key", told.session))


def _openai_response(told: Told) -> Pairs:
    return (
        ("x-request-id", f"req_{told.rng.randbytes(16).hex()}"),
        ("openai-processing-ms", str(told.rng.randrange(300, 9_000))),
        ("openai-version", "2020-10-01"),
        ("x-ratelimit-remaining-requests", str(told.rng.randrange(4_000, 9_999))),
        ("x-ratelimit-remaining-tokens", str(told.rng.randrange(100_000, 3_000_000))),
        ("server", "cloudflare"),
    )


def _litellm_response(told: Told) -> Pairs:
    return (
        ("x-litellm-call-id", uuid(told.rng)),
        ("x-litellm-model-id", "5d1f0c"),
        ("x-litellm-version", "1.80.0"),
        ("x-litellm-response-duration-ms", "1201.4"),
        ("llm_provider-x-ratelimit-remaining-requests", "3999"),
    )


def _azure_before(told: Told) -> list[bytes]:
    verdicts = {k: {"filtered": False, "severity": "safe"} for k in ("hate", "sexual", "violence")}
    results = [{"prompt_index": 0, "content_filter_results": verdicts}]
    return [data({"id": "", "object": "", "created": 0, "model": "", "choices": [],
                  "prompt_filter_results": results})]  # fmt: skip


def _azure_choice(told: Told, finish: str) -> Json:
    kinds = ("hate", "self_harm", "sexual", "violence")
    return {"content_filter_results": {k: {"filtered": False, "severity": "safe"} for k in kinds}}


def _openrouter_answer(told: Told) -> Json:
    provider = told.name.flags["provider"]
    others = told.name.flags.get("others", ())
    if others and told.rng.random() < 0.12:  # another provider had room
        provider = told.rng.choice(others)
    return {"id": f"gen-{told.created}-{ident(told.rng, '', 20)}", "created": told.created,
            "provider": provider, "model": _routed(told)}  # fmt: skip


def _openrouter_options(told: Told) -> Json:
    flags = told.name.flags
    return {"models": flags["models"]} if "models" in flags else {"usage": {"include": True}}


def _openrouter_before(told: Told) -> list[bytes]:
    return [b": OPENROUTER PROCESSING\n\n"] * told.rng.randrange(4)


def _openrouter_choice(told: Told, finish: str) -> Json:
    native = {"tools": "tool_calls", "length": "length"}.get(finish, "stop")
    return {"native_finish_reason": native}


def _vllm_choice(told: Told, finish: str) -> Json:
    if told.name.flags.get("token_ids"):  # --return-token-ids, for training
        made = [told.rng.randrange(151_000) for _ in range(told.counts.output)]
        return {"stop_reason": None, "token_ids": made}
    return {"stop_reason": "\nObservation:" if finish == "stop_sequence" else None,
            "token_ids": None}  # fmt: skip


def _vllm_stream_options(told: Told) -> Json:
    return {"continuous_usage_stats": True} if int(told.session[1], 16) % 4 == 1 else {}


def _sglang_choice(told: Told, finish: str) -> Json:
    return {"matched_stop": None if finish in ("length", "tools") else 151645}


def _llamacpp_last(told: Told) -> Json:
    counts = told.counts
    fresh = counts.input - counts.cached
    return {"timings": {"cache_n": counts.cached, "prompt_n": fresh, "prompt_ms": fresh * 0.9,
                        "predicted_n": counts.output, "predicted_ms": counts.output * 21.3,
                        "predicted_per_second": 46.9}}  # fmt: skip


def _groq_last(told: Told) -> Json:
    return {"x_groq": {"id": ident(told.rng, "req_01k", 23), "usage": _groq_usage(told)}}


def _keep_alive(told: Told) -> list[bytes]:
    return [b": keep-alive\n\n"] * told.rng.randrange(3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """One host's way. ``usage_unasked``: a stream states usage without being asked to."""

    key: str = ""
    id_prefix: str = "chatcmpl-"
    query: str = ""
    stream_type: str = "text/event-stream; charset=utf-8"
    answer: Callable[[Told], Json] = _fingerprinted
    usage: Callable[[Told], Json] = _plain_usage
    options: Callable[[Told], Json] = _nothing
    stream_options: Callable[[Told], Json] = _nothing
    request_headers: Callable[[Told], Pairs] = _openai_headers
    response_headers: Callable[[Told], Pairs] = lambda _: (("server", "uvicorn"),)
    before: Callable[[Told], list[bytes]] = lambda _: []
    choice: Callable[[Told, str], Json] = _nothing
    last: Callable[[Told], Json] = _nothing
    last_choices: list[Any] = field(default_factory=list)
    finishes: Mapping[str, str] = field(default_factory=dict)
    reasoning_key: str = ""
    sends_reasoning: bool = False
    asks_usage: bool = True
    null_usage: bool = False
    usage_unasked: bool = False
    usage_with_finish: bool = False
    usage_in_choice: bool = False
    calls_whole: bool = False
    logprobs: bool = True


_FLAVOURS: Mapping[str, Flavour] = {
    flavour.key: flavour
    for flavour in (
        Flavour(answer=_openai_answer, usage=_openai_usage, response_headers=_openai_response,
                null_usage=True),
        Flavour(key="azure", query="api-version=2025-01-01-preview", answer=_openai_answer,
                usage=_openai_usage, request_headers=_azure_headers, before=_azure_before,
                choice=_azure_choice, null_usage=True),
        Flavour(key="azure-v1", query="api-version=preview", answer=_openai_answer,
                usage=_openai_usage, request_headers=_azure_headers, choice=_azure_choice,
                null_usage=True),
        Flavour(key="openrouter", answer=_openrouter_answer, usage=_openrouter_usage,
                options=_openrouter_options, before=_openrouter_before,
                choice=_openrouter_choice, reasoning_key="reasoning", usage_unasked=True,
                stream_type="text/event-stream",
                last_choices=[{"index": 0, "delta": {"role": "assistant", "content": ""},
                               "finish_reason": None, "native_finish_reason": None,
                               "logprobs": None}]),
        Flavour(key="vllm", choice=_vllm_choice, reasoning_key="reasoning_content",
                usage=_vllm_usage, stream_options=_vllm_stream_options),
        Flavour(key="sglang", id_prefix="", choice=_sglang_choice,
                reasoning_key="reasoning_content"),
        Flavour(key="llamacpp", usage=_counted, last=_llamacpp_last, asks_usage=False,
                usage_unasked=True, logprobs=False, stream_type="text/event-stream"),
        Flavour(key="ollama-v1", usage=_counted, calls_whole=True, logprobs=False,
                reasoning_key="reasoning", stream_type="text/event-stream"),
        Flavour(key="litellm", usage=_litellm_usage, response_headers=_litellm_response,
                logprobs=False),
        Flavour(key="groq", usage=_groq_usage, last=_groq_last, usage_with_finish=True,
                asks_usage=False, reasoning_key="reasoning", calls_whole=True),
        Flavour(key="mistral", id_prefix="", usage=_counted, usage_with_finish=True,
                asks_usage=False, calls_whole=True, logprobs=False),
        Flavour(key="deepseek", id_prefix="", usage=_deepseek_usage, before=_keep_alive,
                usage_with_finish=True, asks_usage=False, reasoning_key="reasoning_content"),
        Flavour(key="together", id_prefix="o", usage=_counted, usage_with_finish=True,
                asks_usage=False),
        Flavour(key="fireworks", id_prefix="", usage=_plain_usage, usage_with_finish=True,
                asks_usage=False, logprobs=False),
        Flavour(key="moonshot", usage=_moonshot_usage, asks_usage=False, usage_in_choice=True,
                logprobs=False),
        Flavour(key="hf", usage=_detailed_usage, usage_unasked=True),
        Flavour(key="xai", id_prefix="", usage=_xai_usage, calls_whole=True,
                reasoning_key="reasoning_content"),
        Flavour(key="gemini", id_prefix="", usage=_counted, calls_whole=True, logprobs=False),
    )
}  # fmt: skip


def of(key: str) -> Flavour:
    return _FLAVOURS[key]
