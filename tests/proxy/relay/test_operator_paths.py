"""What the operator's key opens: model calls in every dialect, and nothing an account holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from classifier.records import Kind
from proxy.relay.operator_access import OpenPath, open_path
from proxy.wire import routes
from tests.proxy.wire.test_routes import POSTS, SPELLINGS

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
        "/anthropic/v1/messages", "/v1beta/openai/chat/completions",
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
        "/v1/projects/p/locations/l/endpoints/1:predict",
    ),
    "GET": (
        "/v1/files", "/v1/files/f", "/v1/files/f/content", "/v1/files/models/x", "/v1/responses",
        "/v1/chat/completions", "/v1/chat/completions/chatcmpl-1", "/v1/batches/b",
        "/v1/messages/batches/b/results", "/v1/threads/t/messages", "/v1/organization/usage",
        "/api/v1/key", "/api/v1/credits", "/v1beta/cachedContents", "/v1beta/tunedModels",
        "/v1beta/models/m/operations/o", "/metrics", "/slots",
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
        ("GET", "/v1/predictions/p1"), ("POST", "/v1/predictions/p1/cancel"),
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
