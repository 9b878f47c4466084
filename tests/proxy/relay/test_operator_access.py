"""Whose key a call takes, and what it opens: settled before anything is sent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from proxy.capture.request import response_digest
from proxy.relay.admission import Access
from proxy.relay.context import RelayContext
from proxy.relay.operator_access import OperatorAccess
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs
from proxy.routing.keys import KeyUse
from proxy.routing.target import Addresses, Target
from proxy.routing.upstreams import Auth
from proxy.wire import routes
from tests.fakes import answers
from tests.fakes.relaying import KEYRING, Book, make_context
from tests.proxy.conftest import Services

OWN = [(b"authorization", b"Bearer sk-own")]
MINTED = [(b"authorization", b"Bearer " + KEYRING.mint("r1").encode())]
REAL = {"openai": "sk-real"}
CHAT = b"/v1/chat/completions"
# By which engines are managed: docs.vllm.ai/usage/security, sglang/srt/entrypoints/http_server.py,
# llama.cpp tools/server/README.md, ollama docs/api.md, lmstudio.ai/docs/developer/rest.
MANAGEMENT = tuple(
    line.split()
    for line in (
        "POST /abort_request", "POST /abort_requests", "POST /pause", "POST /resume",
        "POST /pause_generation", "POST /continue_generation", "POST /sleep", "POST /wake_up",
        "GET /flush_cache", "POST /flush_cache", "POST /reset_prefix_cache", "POST /update_weights",
        "POST /update_weights_from_disk", "POST /update_weights_from_tensor",
        "POST /update_weight_version", "POST /start_weight_update", "POST /collective_rpc",
        "POST /release_memory_occupation", "POST /scale_elastic_ep", "POST /start_profile",
        "POST /v1/load_lora_adapter", "POST /load_lora_adapter", "GET /server_info",
        "GET /get_server_info", "GET /metrics", "GET /slots", "POST /slots/0", "POST /props",
        "POST /lora-adapters", "DELETE /api/delete", "POST /api/delete", "POST /api/pull",
        "POST /api/push", "POST /api/create", "POST /api/copy", "POST /api/blobs/sha256:a",
        "POST /api/v1/models/load", "POST /api/v1/models/unload", "POST /models/unload",
        "POST /invocations", "GET /openapi.json",
    )
)  # fmt: skip
CALLS = tuple(
    line.split()
    for line in (
        "POST /v1/chat/completions", "POST /v1/completions", "POST /v1/responses",
        "POST /v1/messages", "POST /v1/embeddings", "POST /generate", "POST /inference/v1/generate",
        "POST /completion", "POST /infill", "POST /embedding", "POST /reranking", "POST /tokenize",
        "POST /apply-template", "POST /score", "POST /v1/score", "POST /classify", "POST /pooling",
        "POST /encode", "POST /rerank", "POST /api/chat", "POST /api/generate", "POST /api/embed",
        "POST /api/show", "POST /api/v0/chat/completions", "GET /v1/models", "GET /api/tags",
        "GET /api/ps", "GET /health", "GET /health_generate", "GET /get_model_info",
        "GET /model_info", "GET /props", "GET /version", "HEAD /", "GET /",
    )
)  # fmt: skip


class Credentials:
    """A signer that has credentials, or none."""

    whole_body = False

    def __init__(self, *, found: bool) -> None:
        self._found = found

    async def available(self) -> bool:
        return self._found

    async def sign(self, *, headers: Pairs, **_: object) -> Pairs:
        return [*headers, (b"authorization", b"Bearer token")]


def context(**rules: Any) -> RelayContext:
    return make_context("http://provider", Book(), **rules)


async def settled(
    relaying: RelayContext,
    headers: Pairs,
    *,
    upstream: str = "openai",
    path: bytes = CHAT,
    query: bytes = b"",
    method: str = "POST",
    **shows: bool,
) -> Target:
    """A call's target as the relay settles it; the method is not asked for an open upstream."""
    addresses = Addresses(relaying.upstreams, KEYRING, operator_keys=relaying.operator_keys)
    target = addresses.read(b"/r/r1/" + upstream.encode() + path, query, headers)
    if target.keys is KeyUse.CALLERS:
        return target
    return await OperatorAccess(relaying).resolve(target, method, headers, **shows)


async def refusal(relaying: RelayContext, headers: Pairs, **call: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await settled(relaying, headers, **call)
    return caught.value


async def test_whose_key_a_call_takes() -> None:
    signers = {found: {Auth.AWS: Credentials(found=found)} for found in (True, False)}
    operators, callers = KeyUse.OPERATORS, KeyUse.CALLERS
    bedrock = {"upstream": "bedrock", "path": b"/model/m/converse"}
    signature = [(b"authorization", b"AWS4-HMAC-SHA256 Credential=AKIA/2026/x/bedrock/aws4")]
    rows: tuple[tuple[dict[str, Any], Pairs, dict[str, Any], KeyUse], ...] = (
        ({"real_keys": REAL}, [], {}, operators),
        ({"real_keys": REAL}, MINTED, {}, operators),
        ({"real_keys": REAL}, OWN, {}, callers),
        ({"real_keys": REAL}, [], {"shows_own_key": True}, callers),
        ({"real_keys": REAL, "replace_keys": True}, OWN, {}, operators),
        ({"real_keys": REAL, "replace_keys": True}, [], {"shows_own_key": True}, operators),
        ({"real_keys": REAL, "replace_keys": True}, OWN, {"upstream": "anthropic"}, callers),
        ({"signers": signers[True]}, OWN, bedrock, callers),
        ({"signers": signers[True]}, signature, bedrock, operators),
        ({"signers": signers[True], "replace_keys": True}, OWN, bedrock, operators),
        # Without credentials of the operator's there is nothing to put in an own key's place.
        ({"signers": signers[False], "replace_keys": True}, OWN, bedrock, callers),
        ({"signers": signers[False], "replace_keys": True}, MINTED, bedrock, operators),
    )
    for rules, headers, call, use in rows:
        target = await settled(context(**rules), headers, **call)
        assert target.keys is use, (rules, headers, call)


async def test_a_key_in_the_query_is_left_out_where_it_is_replaced() -> None:
    for rules, headers, left in (
        ({"real_keys": REAL, "replace_keys": True}, OWN, b"alt=sse"),
        ({"real_keys": REAL}, [], b"alt=sse&key=own"),
        ({"signers": {Auth.BEARER: Credentials(found=True)}, "replace_keys": True}, OWN,
         b"alt=sse"),
    ):  # fmt: skip
        target = await settled(context(**rules), headers, query=b"alt=sse&key=own")
        assert target.query == left, rules
        assert target.forwarded == CHAT + b"?" + left


async def test_the_operators_key_opens_no_path_that_rollouts_would_share() -> None:
    with_key = context(real_keys=REAL)
    for path in (b"/v1/files", b"/v1/batches", b"/v1/chat/completion%73", b"/v1/file%73"):
        refused = await refusal(with_key, MINTED, path=path)
        assert (refused.status, refused.code) == (403, "path_not_allowed"), path
        assert "operator_key_paths" in refused.detail
        await settled(with_key, OWN, path=path)  # its own account
        await settled(context(real_keys=REAL, any_path=True), MINTED, path=path)
        await settled(context(), OWN, path=path)


async def test_a_server_that_asks_for_no_key_opens_model_calls_only() -> None:
    guarded = context(guards_keyless=True, upstreams={"sglang": {}})
    for method, path in MANAGEMENT:
        call: dict[str, Any] = {"upstream": "sglang", "method": method, "path": path.encode()}
        for headers in ([], OWN, MINTED):  # nobody's key is checked there
            refused = await refusal(guarded, headers, **call)
            assert (refused.status, refused.code) == (403, "path_not_allowed"), path
            assert "may ask for no key" in refused.detail
        await settled(context(upstreams={"sglang": {}}), OWN, **call)
        opening = context(guards_keyless=True, any_path=True, upstreams={"sglang": {}})
        await settled(opening, OWN, **call)
    for method, path in CALLS:
        call = {"upstream": "sglang", "method": method, "path": path.encode()}
        target = await settled(guarded, OWN, **call)
        assert target.keys is KeyUse.NOBODYS, path
        assert target.query == b"", path


async def test_a_socket_opens_where_its_calls_are_read() -> None:
    with_key = context(real_keys=REAL)
    await settled(with_key, [], path=b"/v1/realtime", method=routes.UPGRADE)
    refused = await refusal(with_key, [], path=b"/v1/other", method=routes.UPGRADE)
    assert refused.code == "path_not_allowed"


async def test_a_response_is_gone_on_with_by_the_rollout_it_was_answered() -> None:
    digest = response_digest("resp_1", b"salt")
    asked: list[tuple[str, ...]] = []

    def answered(*call: str) -> bool:
        asked.append(call)
        return call == ("r1", "openai", digest)

    access = Access(
        look_up=lambda _: None, count=len, answered=answered, wall=time.time, clock=time.monotonic
    )
    with_key = context(real_keys=REAL, access=access)
    await settled(with_key, [], method="GET", path=b"/v1/responses/resp_1")
    refused = await refusal(with_key, [], method="GET", path=b"/v1/responses/resp_2")
    assert (refused.status, refused.code) == (403, "path_not_allowed")
    assert [call[:2] for call in asked] == [("r1", "openai")] * 2
    alone = await refusal(context(real_keys=REAL), [], method="GET", path=b"/v1/responses/resp_1")
    assert alone.code == "path_not_allowed", "nobody knows what it was answered"


def test_a_rollout_fetches_the_response_it_was_answered_and_no_other_does(
    services: Services,
) -> None:
    service = services(KEY_OPENAI="sk-real")
    queued = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
    service.provider.plays(answers.whole(queued))
    paths = ["/r/r1/openai/v1/responses", "/r/r2/openai/v1/responses"]
    made = service.http.post(paths[0], json={"model": "gpt-5", "background": True})
    own, others = (service.http.get(path + "/resp_1") for path in paths)
    again = service.http.get(paths[1] + "/resp_1")
    assert (made.status_code, own.status_code) == (200, 200)
    refused = [answer.headers.get("x-truezero-refusal") for answer in (own, others, again)]
    assert refused == [None, "path_not_allowed", "path_not_allowed"]
    assert service.http.get(paths[0] + "/resp_2").status_code == 403
