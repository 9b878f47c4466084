"""Whose key a call takes, and what it opens: settled before anything is sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Kind
from proxy.capture.request import response_digest
from proxy.relay.admission import Access
from proxy.relay.context import RelayContext
from proxy.relay.operator_access import OpenPath, OperatorAccess, open_path, operator_headers
from proxy.routing.errors import Refusal
from proxy.routing.headers import Pairs, key_digest
from proxy.routing.keys import KeyUse
from proxy.routing.target import Addresses, Target
from proxy.routing.upstreams import Auth
from proxy.wire import routes
from tests.fakes import answers, caller
from tests.fakes.provider import Provider
from tests.fakes.relaying import KEYRING, Book, Relaying, make_context, relaying
from tests.proxy.conftest import Services
from tests.proxy.wire.test_routes import POSTS, SPELLINGS

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

    access = Access(look_up=lambda _: None, answered=answered, wall=time.time, clock=time.monotonic)
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


# --- With the operator's key a provider gets nothing that the agent shows as its own --------------

DRESSING_CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
DRESSING_REAL = {"openai": "sk-real", "anthropic": "sk-ant", "gemini": "g-real"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider(answers.healthy) as running:
        yield running


@pytest.fixture(scope="module")
def relay(provider: Provider) -> Iterator[Relaying]:
    with relaying(provider.url, real_keys=DRESSING_REAL, replace_keys=True) as running:
        yield running


SHOWN = {
    "authorization": "Bearer sk-own",
    "x-api-key": "sk-own",
    "x-goog-api-key": "sk-own",
    "api-key": "sk-own",
    "API_KEY": "sk-own",
    "cookie": "session=sk-own",
    "openai-organization": "org-sk-own",
    "OpenAI-Project": "proj-sk-own",
    "openai_project": "proj-sk-own",
    "x-goog-user-project": "p-sk-own",
    "x-amz-security-token": "sk-own",
    "x-http-method-override": "DELETE-sk-own",
}


def test_all_that_an_agent_shows_is_replaced(provider: Provider, relay: Relaying) -> None:
    expected = {
        "openai": ("authorization", "Bearer sk-real"),
        "anthropic": ("x-api-key", "sk-ant"),
        "gemini": ("x-goog-api-key", "g-real"),
    }
    kept = {"x-session-id": "kept", "anthropic-beta": "kept", "traceparent": "kept"}
    for upstream, (name, real) in expected.items():
        url = relay.base(upstream=upstream) + DRESSING_CHAT + "?key=sk-own&alt=sse&api_key=sk-own"
        caller.post(url, json=ASK, headers={**SHOWN, **kept})
        seen = provider.requests[-1]
        assert [value for header, value in seen.headers if header.lower() == name] == [real]
        assert seen.target == DRESSING_CHAT + "?alt=sse"
        assert "sk-own" not in str(seen)
        assert {name: seen.header(name) for name in kept} == kept


def test_a_connection_header_takes_no_key_away(provider: Provider, relay: Relaying) -> None:
    headers = {"connection": "authorization, x-mine", "x-mine": "1"}
    caller.post(relay.base() + DRESSING_CHAT, json=ASK, headers=headers)
    assert provider.requests[-1].header("authorization") == "Bearer sk-real"
    assert provider.requests[-1].header("x-mine") is None


def test_whoever_calls_the_exchange_names_the_operators_key(relay: Relaying) -> None:
    before = len(relay.book.exchanges)
    minted = f"Bearer {KEYRING.mint('r2')}"
    caller.post(relay.base() + DRESSING_CHAT, json=ASK)
    caller.post(relay.base() + DRESSING_CHAT, json=ASK, headers={"authorization": "Bearer sk-own"})
    caller.post(relay.base("r2") + DRESSING_CHAT, json=ASK, headers={"authorization": minted})
    digests = {each.key_digest for each in relay.book.wait_for(before + 3)[before:]}
    assert digests == {key_digest(b"sk-real", b"salt")}


def test_a_refused_call_is_told_so_and_neither_sent_nor_recorded(
    provider: Provider, relay: Relaying
) -> None:
    sent, recorded = len(provider.requests), len(relay.book.exchanges)
    answer = caller.get(relay.base() + "/v1/files", headers={"authorization": "Bearer sk-own"})
    assert (answer.status_code, answer.headers["x-truezero-refusal"]) == (403, "path_not_allowed")
    assert (len(provider.requests), len(relay.book.exchanges)) == (sent, recorded)


def test_a_signer_adds_its_credential_where_no_key_is_set() -> None:
    signer = Credentials(found=True)
    rows: tuple[tuple[dict[str, Any], object], ...] = (
        ({"real_keys": {"vertex": "token"}, "signers": {Auth.GOOGLE: signer}}, None),
        ({"signers": {Auth.GOOGLE: signer}}, signer),
    )
    for rules, adds in rows:
        context = make_context("http://provider", Book(), replace_keys=True, **rules)
        target = Addresses(context.upstreams, KEYRING).read(b"/r/r1/vertex/v1/models", b"", [])
        headers, left = operator_headers(context, target, [(b"x-goog-api-key", b"own")])
        assert left is adds
        assert (b"x-goog-api-key", b"own") not in headers


# --------------------------------------------------------------------------------------------------
# What the operator's key opens: model calls in every dialect, and nothing an account holds

OPEN = OpenPath()

# By method: paths that are there for every rollout on its own.
ALLOWED = {
    "POST": (
        "/v1/messages/count_tokens", "/v1beta/models/g:countTokens", "/model/m/count-tokens",
        "/v1/responses/input_tokens", "/v1/responses/compact", "/v1/embeddings", "/v2/embed",
        "/api/embed", "/v1beta/models/e:batchEmbedContents", "/api/show", "/generate_stream",
        "/completion", "/infill", "/client/v4/accounts/a/ai/run/@cf/meta/llama-x",
        "/api/v2/cortex/inference:complete", "/v1/models/o/m/predictions",
        "/v1/images/generations", "/v1/images/edits", "/v1/audio/speech",
        "/v1/audio/transcriptions", "/v1/moderations", "/v2/rerank",
        "/openai/deployments/my-d/chat/completions", "/openai/deployments/d/images/generations",
        "/v1beta/models/imagen-4.0-generate-001:predict", "/beta/completions",
        "/anthropic/v1/messages", "/v1beta/openai/chat/completions", "/v1/interactions",
        "/v1beta1/projects/p/locations/l/interactions",
    ),
    "GET": (
        "", "/", "/v1/models", "/v1/models/m-1", "/v1/models/org/name", "/v1beta/models",
        "/v1beta/models/g", "/models", "/api/hello", "/api/tags", "/api/version", "/health",
        "/v1/projects/p/locations/l/publishers/google/models/g", "/inference-profiles",
    ),
    "HEAD": ("/", "/v1/messages"),
    "OPTIONS": ("/v1/chat/completions",),
    routes.UPGRADE: ("/v1/realtime", "/v1/responses", "/openai/realtime"),
}  # fmt: skip

# What rollouts on one account would share, or would cost without being read.
REFUSED = {
    "POST": (
        "/v1/files", "/v1/uploads", "/v1/uploads/u/parts", "/v1/batches", "/v1/messages/batches",
        "/v1/fine_tuning/jobs", "/v1/assistants", "/v1/threads", "/v1/threads/runs",
        "/v1/threads/t/runs", "/v1/threads/t/messages", "/v1/vector_stores",
        "/v1/vector_stores/v/search", "/v1/conversations", "/v1/containers", "/v1/evals",
        "/v1/videos", "/v1/realtime/client_secrets", "/v1/realtime/sessions",
        "/v1/organization/admin_api_keys", "/v1beta/cachedContents", "/v1beta/files",
        "/v1beta/models/g:batchGenerateContent", "/v1beta/corpora", "/v1beta/tunedModels",
        "/v1beta/models/veo-3:predictLongRunning", "/model-invocation-job", "/async-invoke",
        "/v1/chat/completions/chatcmpl-1", "/v1/models/m", "/api/pull", "/api/delete", "/",
        "/anything", "/v1/agents/a/completions/x", "/v1/x/chat/completions",
        "/v1/projects/p/locations/l/endpoints/1:predict", "/v1/agents", "/v1/x/interactions",
    ),
    "GET": (
        "/v1/files", "/v1/files/f", "/v1/files/f/content", "/v1/files/models/x", "/v1/responses",
        "/v1/chat/completions", "/v1/chat/completions/chatcmpl-1", "/v1/batches/b",
        "/v1/messages/batches/b/results", "/v1/threads/t/messages", "/v1/organization/usage",
        "/api/v1/key", "/api/v1/credits", "/v1beta/cachedContents", "/v1beta/tunedModels",
        "/v1beta/models/m/operations/o", "/metrics", "/slots", "/v1/interactions",
    ),
    "DELETE": ("/v1/files/f", "/v1/models/ft:m", "/v1/chat/completions/chatcmpl-1"),
    "PUT": ("/v1/chat/completions",),
    "PATCH": ("/v1beta/tunedModels/t",),
    "HEAD": ("/v1/files/f",),
    routes.UPGRADE: (
        "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
        "/v1/chat/completions", "/v1/realtime/x", "/",
    ),
}  # fmt: skip


def test_model_calls_are_open() -> None:
    for path in POSTS:
        assert open_path("POST", path.encode()) == OPEN, path
    for method, paths in ALLOWED.items():
        for path in paths:
            assert open_path(method, path.encode()) == OPEN, (method, path)


def test_what_rollouts_would_share_is_not() -> None:
    for method, paths in REFUSED.items():
        for path in paths:
            assert open_path(method, path.encode()) is None, (method, path)


def test_a_response_is_open_to_whom_it_was_answered() -> None:
    for method, path in (
        ("GET", "/v1/responses/resp_1"), ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"), ("POST", "/v1/responses/resp_1/cancel"),
        ("HEAD", "/v1/responses/resp_1"), ("GET", "/openai/v1/responses/resp_1/"),
    ):  # fmt: skip
        assert open_path(method, path.encode()) == OpenPath("resp_1"), (method, path)
    for method, path in (
        ("GET", "/v1/interactions/v1_a"), ("DELETE", "/v1beta/interactions/v1_a"),
        ("POST", "/v1/interactions/v1_a/cancel"),
    ):  # fmt: skip
        assert open_path(method, path.encode()) == OpenPath("v1_a"), (method, path)
    for method, path in (
        ("GET", "/v1/predictions/p1"), ("POST", "/v1/predictions/p1/cancel"),
        ("GET", "/v1/chat/deferred-completion/p1"),
        ("GET", "/api/v1/tasks/p1"),
    ):  # fmt: skip
        assert open_path(method, path.encode()) == OpenPath("p1"), (method, path)


def test_a_path_in_another_spelling_is_read_or_refused() -> None:
    for path in SPELLINGS:
        reads = routes.route("POST", path.encode()).kind is Kind.INFERENCE
        assert reads or open_path("POST", path.encode()) is None, path
    for path in ("/v1/chat/completion%73", "/v1/chat/completions;a=b", "/v1/Chat/Completions",
                 "/v1/responses%2Fcompact", "/v1/file%73", "/v1/models/%2e%2e/files",
                 "/v1/models/x%252f..%252f..%252ffiles", "/v1\\files"):  # fmt: skip
        assert open_path("POST", path.encode()) is None, path
        assert open_path("GET", path.encode()) is None, path


@given(st.sampled_from(("GET", "POST", "DELETE", routes.UPGRADE)), st.binary(max_size=60))
def test_no_path_breaks_the_table(method: str, path: bytes) -> None:
    open_path(method, path)


def test_a_long_path_is_refused_at_once() -> None:
    """Patterns without nested repetition: 60 kB are read in milliseconds, not years."""
    for piece in ("/v1", "/a", "%3A", "/models/", "/model/a"):
        assert open_path("POST", (piece * 20_000 + "!").encode()) is None
