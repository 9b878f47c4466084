"""Calls beside the work: listings of models, counts of tokens, embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.healthy import gemini, messages
from tests.healthy.conversation import Ask
from tests.healthy.traffic import Json, Meant
from tests.healthy.writing import JSON, Told, Written
from tests.proxy.wire.samples import dump

Probe = tuple[str, Written]  # the method, and the call


def write(ask: Ask, told: Told) -> Probe | None:
    """Write one call beside; None where its provider has nothing of the kind."""
    rows = _PROBES[ask.probe or ""]
    row = rows.get(told.lane.dialect)
    return None if row is None else row(ask, told)


def _listing(path: str, answer: Json) -> Callable[[Ask, Told], Probe]:
    def row(ask: Ask, told: Told) -> Probe:
        return "GET", Written(path=path, body={}, events=[dump(answer)])

    return row


def _models(ask: Ask, told: Told) -> Probe:
    listed = {"object": "list", "data": [{"id": told.name.asked, "object": "model"}]}
    base = "/openai/v1" if told.lane.flavour == "azure" else told.lane.base_path
    return "GET", Written(path=f"{base}/models", body={}, events=[dump(listed)])


def _post(path: str, sent: Json, answer: Json, meant: Meant | None = None) -> Probe:
    call = Written(path=path, request_headers=(("content-type", JSON),), body=sent, meant=meant)
    call.events = [dump(answer)]
    return "POST", call


def _counted(ask: Ask, told: Told) -> Probe:
    body = messages.body(ask, told)
    sent = {"model": told.name.asked, **{k: v for k, v in body.items() if k != "max_tokens"}}
    return _post(
        f"{told.lane.base_path}/messages/count_tokens", sent, {"input_tokens": told.counts.input}
    )


def _gemini_counted(ask: Ask, told: Told) -> Probe:
    path = f"{told.lane.base_path}/{told.name.asked}:countTokens"
    contents = gemini.write(replace(ask, streamed=False), told).body["contents"]
    return _post(
        path,
        {"contents": contents},
        {"totalTokens": told.counts.input, "cachedContentTokenCount": 0},
    )


def _tokenized(ask: Ask, told: Told) -> Probe | None:
    if told.lane.flavour not in ("vllm", "llamacpp"):
        return None
    answer = {"count": 9, "max_model_len": 131_072, "tokens": list(range(9))}
    return _post("/tokenize", {"model": told.name.asked, "prompt": "How long?"}, answer)


def _vectors(told: Told) -> list[float]:
    return [round(told.rng.uniform(-1, 1), 6) for _ in range(24)]


def _embedded(ask: Ask, told: Told) -> Probe:
    base = "/openai/v1" if told.lane.flavour == "azure" else told.lane.base_path
    data = [{"object": "embedding", "index": 0, "embedding": _vectors(told)}]
    answer = {"object": "list", "data": data, "model": "text-embedding-3-small",
              "usage": {"prompt_tokens": 9, "total_tokens": 9}}  # fmt: skip
    sent = {"model": "text-embedding-3-small", "input": "late parcels"}
    return _post(f"{base}/embeddings", sent, answer, Meant(input=9))


def _gemini_embedded(ask: Ask, told: Told) -> Probe:
    sent = {"content": {"parts": [{"text": "late parcels"}]}}
    path = "/v1beta/models/gemini-embedding-001:embedContent"
    return _post(path, sent, {"embedding": {"values": _vectors(told)}})


def _ollama_embedded(ask: Ask, told: Told) -> Probe:
    answer: Json = {"model": "nomic-embed-text", "embeddings": [_vectors(told)]}
    answer |= {"total_duration": 14_143_917, "load_duration": 1_019_500, "prompt_eval_count": 9}
    return _post("/api/embed", {"model": "nomic-embed-text", "input": "late"}, answer)


def _loaded(ask: Ask, told: Told) -> Probe:
    """Have a model loaded: a generation without a prompt, answered without a word."""
    answer = {"model": told.name.asked, "created_at": "2026-03-11T10:14:00.1Z", "response": "",
              "done": True, "done_reason": "load"}  # fmt: skip
    return _post("/api/generate", {"model": told.name.asked, "keep_alive": "30m"}, answer)


def _cohere_embedded(ask: Ask, told: Told) -> Probe:
    sent = {"model": "embed-v4.0", "texts": ["late parcels"], "input_type": "search_query"}
    answer: Json = {"id": "5d1f", "embeddings": {"float": [_vectors(told)]}}
    answer["meta"] = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 9}}
    return _post("/v2/embed", sent, answer)


_PROBES: Mapping[str, Mapping[str, Callable[[Ask, Told], Probe | None]]] = {
    "models": {
        "chat": _models,
        "responses": _models,
        "messages": _listing("/v1/models", {"data": [], "has_more": False}),
        "gemini": _listing("/v1beta/models", {"models": []}),
        "interactions": _listing("/v1beta/models", {"models": []}),
        "cohere": _listing("/v1/models", {"models": []}),
        "ollama": _listing("/api/tags", {"models": []}),
    },
    "load": {"ollama": _loaded},
    "count": {"messages": _counted, "gemini": _gemini_counted, "chat": _tokenized},
    "embed": {
        "chat": _embedded,
        "responses": _embedded,
        "gemini": _gemini_embedded,
        "cohere": _cohere_embedded,
        "ollama": _ollama_embedded,
    },
}
