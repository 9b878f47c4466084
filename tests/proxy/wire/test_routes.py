from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Kind
from proxy.wire import routes
from tests.tables import each

POSTS = {
    "/v1/chat/completions": "openai.chat",
    "/chat/completions": "openai.chat",
    "/openai/v1/chat/completions": "openai.chat",
    "/api/v1/chat/completions": "openai.chat",
    "/compatible-mode/v1/chat/completions": "openai.chat",
    "/api/paas/v4/chat/completions": "openai.chat",
    "//openai/deployments/d/chat/completions": "openai.chat",
    "/v1beta1/projects/p/locations/l/endpoints/openapi/chat/completions": "openai.chat",
    "/v1/completions": "openai.completions",
    "/v1/engines/e/completions": "openai.completions",
    "/v1/responses": "openai.responses",
    "/backend-api/codex/responses": "openai.responses",
    "/openai/v1/responses/": "openai.responses",
    "/v1/messages": "anthropic.messages",
    "/v1/projects/p/locations/l/publishers/anthropic/models/c@2:rawPredict": "anthropic.messages",
    "/v1/projects/p/locations/l/publishers/anthropic/models/c@2:streamRawPredict":
        "anthropic.messages",
    "/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict": "openai.chat",
    "/v1beta/models/g:generateContent": "gemini.generateContent",
    "/v1beta/models/g:streamGenerateContent": "gemini.streamGenerateContent",
    "/v1internal:streamGenerateContent": "gemini.streamGenerateContent",
    "/v1beta/tunedModels/t:generateContent": "gemini.generateContent",
    "/v1/interactions": "gemini.interactions",
    "/v1beta/interactions": "gemini.interactions",
    "/v1alpha/interactions/": "gemini.interactions",
    "/interactions": "gemini.interactions",
    "/v1beta1/projects/p/locations/l/interactions": "gemini.interactions",
    "/v2/chat": "cohere.v2.chat",
    "/v1/chat": "cohere.v1.chat",
    "/api/chat": "ollama.chat",
    "/api/generate": "ollama.generate",
    "/model/anthropic.claude-x%3A0/converse": "bedrock.converse",
    "/model/anthropic.claude-x:0/converse-stream": "bedrock.converse-stream",
    "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fp/invoke": "bedrock.invoke",
    "/model/arn:aws:bedrock:us-east-1:1:inference-profile/p/invoke-with-response-stream":
        "bedrock.invoke-stream",
}  # fmt: skip


@each("path, api", POSTS.items())
def test_a_path_s_end_names_the_dialect_of_an_inference(path: str, api: str) -> None:
    route = routes.route("POST", path.encode())
    assert (route.api, route.kind) == (api, Kind.INFERENCE)
    assert route.dialect.name != "opaque"


@pytest.mark.parametrize(
    "path",
    ["/generate", "/generate_stream", "/v1/generate", "/completion", "/infill",
     "/client/v4/accounts/a/ai/run/@cf/meta/llama-x", "/api/v2/cortex/inference:complete",
     "/v1/models/o/m/predictions", "/v1/threads/t/runs", "/v1/threads/runs"],
)  # fmt: skip
def test_a_model_may_be_asked_in_a_shape_that_nobody_reads_here(path: str) -> None:
    route = routes.route("POST", path.encode())
    assert (route.kind, route.dialect.known) == (Kind.INFERENCE, False)


@each(
    "method, path",
    [
        ("HEAD", "/"), ("HEAD", "/v1/messages"), ("OPTIONS", "/v1/chat/completions"),
        ("GET", "/v1/models"), ("GET", "/v1/models/m-1"), ("GET", "/v1beta/models/g"),
        ("GET", "/models"), ("GET", "/api/hello"), ("GET", "/api/tags"), ("GET", "/"), ("GET", ""),
        ("GET", "/health"), ("GET", "/inference-profiles"), ("GET", "/api/v1/key"),
        ("POST", "/v1/messages/count_tokens"), ("POST", "/v1beta/models/g:countTokens"),
        ("POST", "/model/m/count-tokens"), ("POST", "/v1/responses/input_tokens"),
        ("POST", "/api/show"),
    ],
)  # fmt: skip
def test_looking_and_counting_are_probes(method: str, path: str) -> None:
    assert routes.route(method, path.encode()).kind is Kind.PROBE


@pytest.mark.parametrize(
    "path",
    ["/v1/embeddings", "/v2/embed", "/v1/embed", "/api/embed", "/api/embeddings",
     "/v1beta/models/e:embedContent", "/v1beta/models/e:batchEmbedContents"],
)  # fmt: skip
def test_embeddings_are_no_inference(path: str) -> None:
    assert routes.route("POST", path.encode()).kind is Kind.EMBEDDING


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/responses"), ("DELETE", "/v1/responses/resp_1"), ("DELETE", "/v1/files/f"),
     ("GET", "/v1/responses/resp_1/input_items"), ("GET", "/v1/files"), ("GET", "/v1/files/f"),
     ("POST", "/v1/threads/t/messages"), ("POST", "/v1/moderations"), ("POST", "/v1/rerank"),
     ("DELETE", "/v1/interactions/v1_a"), ("GET", "/v1/interactions"),
     ("POST", "/v1/customers/interactions")],
)  # fmt: skip
def test_all_else_is_other(method: str, path: str) -> None:
    assert routes.route(method, path.encode()).kind is Kind.OTHER


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/responses/resp_1"), ("GET", "/openai/v1/responses/resp_1/"),
     ("POST", "/v1/responses/resp%5F1/cancel")],
)  # fmt: skip
def test_fetching_a_response_continues_the_call_that_began_it(method: str, path: str) -> None:
    route = routes.route(method, path.encode())
    assert (route.kind, route.api) == (Kind.CONTINUATION, "openai.responses")
    assert route.continues == "resp_1"
    assert routes.route("POST", b"/v1/responses").continues is None


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/interactions/v1_a"), ("GET", "/v1beta/interactions/v1%5Fa"),
     ("GET", "/v1beta1/projects/p/locations/l/interactions/v1_a"),
     ("POST", "/v1/interactions/v1_a/cancel")],
)  # fmt: skip
def test_fetching_an_interaction_continues_the_call_that_began_it(method: str, path: str) -> None:
    route = routes.route(method, path.encode())
    assert (route.kind, route.api) == (Kind.CONTINUATION, "gemini.interactions")
    assert route.continues == "v1_a"


@each(
    "method, path",
    [("POST", "/v1/images/generations"), ("POST", "/v1/audio/speech"),
     ("POST", "/v1/audio/transcriptions"), ("POST", "/v1/videos"), ("POST", "/v1/batches"),
     ("POST", "/v1/messages/batches"), ("POST", "/v1/batch/jobs"), ("POST", "/v1/files"),
     ("POST", "/v1/uploads/u/complete"), ("POST", "/v1/ocr"), ("POST", "/async-invoke"),
     ("POST", "/v1beta/models/g:batchGenerateContent"), ("POST", "/model-invocation-job"),
     ("POST", "/v1beta/models/imagen-4:predict"), ("GET", "/v1/files/f/content"),
     ("POST", "/v1beta/models/veo-3:predictLongRunning"),
     ("GET", "/v1/messages/batches/b/results"), ("GET", "/v1/videos/v/content"),
     ("GET", "/v1/batches/b"), ("GET", "/v1/messages/batches/b"), ("GET", "/v1/videos/v"),
     ("POST", "/v1/batches/b/cancel"), ("GET", "/v1beta/models/veo-3/operations/o"),
     ("GET", "/v1beta/batches/b"), ("GET", "/async-invoke/arn%3Aaws%3Abedrock%3A1"),
     ("GET", "/v1beta/files/f:download"), ("GET", "/model-invocation-job/j")],
)  # fmt: skip
def test_what_is_generated_without_tokens_is_activity(method: str, path: str) -> None:
    assert routes.route(method, path.encode()).kind is Kind.ACTIVITY


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v1beta/models/gemini-y:generateContent", "gemini-y"),
        ("/v1/projects/p/publishers/google/models/g-2@1:streamGenerateContent", "g-2@1"),
        ("/openai/deployments/my%2Dd/chat/completions", "my-d"),
        ("/model/us.anthropic.claude-x%3A0/converse", "us.anthropic.claude-x:0"),
        ("/model/arn:aws:bedrock:r:1:inference-profile/p/invoke",
         "arn:aws:bedrock:r:1:inference-profile/p"),
        ("/v1/chat/completions", None), ("/models/chat/completions", None),
        ("/v1/messages", None),
    ],
)  # fmt: skip
def test_some_paths_name_the_model(path: str, model: str | None) -> None:
    assert routes.route("POST", path.encode()).model == model


@pytest.mark.parametrize(
    ("path", "streams"),
    [("/v1beta/models/g:streamGenerateContent", True), ("/v1beta/models/g:generateContent", False),
     ("/model/m/converse-stream", True), ("/model/m/invoke", False), ("/v1/messages", False)],
)  # fmt: skip
def test_some_paths_ask_for_a_stream(path: str, streams: bool) -> None:
    assert routes.route("POST", path.encode()).streams is streams


SPELLINGS = {
    "/v1/chat/completion%73": "openai.chat",
    "/v1/chat/%63%6F%6d%70letions": "openai.chat",
    "/v1/chat/completion%2573": "openai.chat",
    "/v1/chat%2Fcompletions": "openai.chat",
    "/v1/chat%5Ccompletions": "openai.chat",
    "/v1/chat\\completions": "openai.chat",
    "/v1/chat/completions;a=b": "openai.chat",
    "/v1/chat;a=b/completions%3Bc": "openai.chat",
    "/v1/Chat/COMPLETIONS": "openai.chat",
    "/v1//chat///completions//": "openai.chat",
    "/v1/chat/./completions/x/..": "openai.chat",
    "/v1/chat/completions%20": "openai.chat",
    "/v1/chat/completions%00.txt": "openai.chat",
    # What a server may cut off cannot make a call to a model look like counting.
    "/v1/chat/completions#/messages/count_tokens": "openai.chat",
    "/v1/chat/completions%3F/messages/count_tokens": "openai.chat",
    "/v1/message%73": "anthropic.messages",
    "/v1/RESPONSES": "openai.responses",
    "/v1beta/models/Gemini-X%3AgenerateContent": "gemini.generateContent",
    "/v1beta/models/Gemini-X:GENERATECONTENT": "gemini.generateContent",
    "/api/cha%74": "ollama.chat",
}


def test_a_path_is_read_however_it_is_spelled() -> None:
    for path, api in SPELLINGS.items():
        route = routes.route("POST", path.encode())
        assert (route.api, route.kind) == (api, Kind.INFERENCE), path


def test_a_model_keeps_its_spelling_where_the_path_has_another() -> None:
    assert routes.route("POST", b"/v1beta/models/Gemini-X:GENERATEcontent").model == "Gemini-X"
    assert routes.route("POST", b"/openai/Deployments/D-1/chat/completion%73").model == "D-1"


def test_what_is_no_call_to_a_model_is_none_in_any_spelling() -> None:
    for path in ("/v1/files;a=b", "/v1/FILES", "/v1/messages/batche%73", "/v1/%2e%2e/batches"):
        assert routes.route("POST", path.encode()).kind is Kind.ACTIVITY, path
    for path in ("/v1/fine_tuning/job%73", "/v1/VECTOR_STORES", "/v1/assistants;a=b"):
        assert routes.route("POST", path.encode()).kind is Kind.OTHER, path


@given(st.text(max_size=8), st.binary(max_size=60))
def test_any_path_has_a_route(method: str, path: bytes) -> None:
    assert routes.route(method, path).api
