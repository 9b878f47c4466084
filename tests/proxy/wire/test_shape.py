"""An answer in the shape of another API than was asked ends the clients of real agents."""

from __future__ import annotations

from classifier.records import AnswerState, Exchange
from classifier.verdicts import Subcategory
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import JSON, SAMPLES, SSE, dump, named
from tests.tables import each

# By API: samples of its answers, whole and streamed.
NAMES: dict[str, tuple[str, ...]] = {
    "chat": ("chat-plain", "chat-tool-calls", "stream-include-usage"),
    "completions": ("completions", "stream-completions"),
    "messages": ("anthropic", "anthropic-stream"),
    "responses": ("responses", "responses-stream"),
    "gemini": ("gemini", "gemini-sse", "gemini-array"),
    "converse": ("converse",),
    "ollama": ("ollama-chat", "ollama-stream"),
    "cohere": ("cohere-v2", "cohere-v2-stream"),
    "interactions": ("interactions", "interactions-stream"),
}
_SAMPLES = {sample.name: (sample.body, sample.type) for sample in SAMPLES}
ANSWERS: dict[str, dict[str, tuple[bytes, str]]] = {
    api: {name: _SAMPLES[name] for name in names} for api, names in NAMES.items()
}
ANSWERS["chat"]["a stream named JSON"] = (_SAMPLES["stream-include-usage"][0], JSON)
ANSWERS["messages"]["a stream after a ping"] = (
    named({"type": "ping"}) + _SAMPLES["anthropic-stream"][0], SSE,
)  # fmt: skip
# By API: paths at which its clients ask.
PATHS: dict[str, tuple[str, ...]] = {
    "chat": ("/v1/chat/completions", "/openai/deployments/m/chat/completions"),
    "completions": ("/v1/completions",),
    "messages": (
        "/v1/messages",
        "/v1/projects/p/locations/l/publishers/anthropic/models/m:rawPredict",
    ),
    "responses": ("/v1/responses", "/openai/v1/responses"),
    "gemini": (
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent",
    ),
    "converse": ("/model/m/converse",),
    "ollama": ("/api/chat",),
    "cohere": ("/v2/chat",),
    "interactions": ("/v1/interactions", "/v1beta/interactions"),
}
# Mistral's /fim/completions answers with chats, and OpenAI's client reads no text of one, but goes
# on: it may be meant so.
_READ_TOO = {("completions", "chat")}
_PAIRS = [
    (f"{theirs}: {how}, at {path}", path, *answer)
    for asked, paths in PATHS.items()
    for theirs, forms in ANSWERS.items()
    if asked != theirs and (asked, theirs) not in _READ_TOO
    for path in paths
    for how, answer in forms.items()
]
_OWN = [
    (f"{own}: {how}, at {path}", path, *answer)
    for own, paths in PATHS.items()
    for path in paths
    for how, answer in ANSWERS[own].items()
]


def _asked(path: str, body: bytes, type_: str) -> Exchange:
    request = dump({"model": "m", "stream": type_ == SSE, "messages": []})
    return observed(body, path, type_=type_, request=request)


@each("name, path, body, type_", _PAIRS, ids=lambda case: case[0])
def test_another_apis_answer_has_the_wrong_shape(
    name: str, path: str, body: bytes, type_: str
) -> None:
    exchange = _asked(path, body, type_)
    assert exchange.cause is not None
    assert (exchange.cause.subcategory, exchange.cause.reason, exchange.cause.transient) == (
        Subcategory.REJECTED_REQUEST, "wrong_shape", False,
    )  # fmt: skip
    assert (exchange.answer_state, exchange.output_seen, exchange.tool_calls) == (None, False, 0)
    assert exchange.finish_reason is None
    assert not exchange.inferred


@each("name, path, body, type_", _OWN, ids=lambda case: case[0])
def test_its_own_answer_is_read_whole_and_streamed_whatever_was_asked_for(
    name: str, path: str, body: bytes, type_: str
) -> None:
    exchange = _asked(path, body, type_)
    assert (exchange.cause, exchange.answer_state) == (None, AnswerState.READ)
