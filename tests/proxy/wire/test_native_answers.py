"""Play the native answers of wires that have no dialect here, and what only looks like one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest

from classifier.logical_calls import CallState, calls_of, with_continuations
from classifier.records import AnswerState, Ending, Exchange, Kind
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import Conversations
from proxy.wire.generic import WINDOW
from tests.proxy.wire.observing import SALT, call, head, observed
from tests.proxy.wire.samples import EVENTS, JSON, NDJSON, SSE, dump, event, lines, named, sse

Tokens = tuple[int | None, int | None]
NO_TOKENS: Tokens = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """One answer as its server writes it, and what is to be read of it."""

    name: str
    source: str
    path: str
    body: bytes
    type: str = JSON
    api: str = "opaque"
    tokens: Tokens = NO_TOKENS
    finish: str | None = None
    model: str | None = None
    calls: int | None = None


def openai(**more: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": "It is true."}
    return {
        "id": "c", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "message": told, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    } | more  # fmt: skip


_CHUNK = {"id": "c", "object": "chat.completion.chunk", "model": "m-1"}
_CALLED = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls":
    [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}  # fmt: skip

# At a path of no dialect: a POST becomes an inference call by what is read.
NATIVE = (
    Native(name="databricks", source="docs.databricks.com/machine-learning/foundation-model-apis",
           path="/serving-endpoints/x/invocations", body=dump(openai()), api="openai.chat",
           tokens=(9, 4), finish="stop", model="m-1"),
    Native(name="databricks-tool", source="the same",
           path="/serving-endpoints/x/invocations", body=dump(openai(choices=[_CALLED])),
           api="openai.chat", tokens=(9, 4), finish="tool_calls", model="m-1", calls=1),
    Native(name="databricks-stream", source="the same",
           path="/serving-endpoints/x/invocations", type=SSE, api="openai.chat", tokens=(9, 4),
           finish="stop", model="m-1", calls=0,
           body=sse(_CHUNK | {"choices": [{"index": 0, "delta": {"content": "It"}}]},
                    _CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                              "usage": {"prompt_tokens": 9, "completion_tokens": 4}})),
    Native(name="minimax-v2", source="platform.minimax.io/docs/api-reference/text-post",
           path="/v1/text/chatcompletion_v2", api="openai.chat", tokens=(9, 4), finish="stop",
           model="m-1", body=dump(openai(base_resp={"status_code": 0, "status_msg": ""}))),
    Native(name="watsonx", source="cloud.ibm.com/apidocs/watsonx-ai#text-generation",
           path="/ml/v1/text/generation", tokens=(12, 5), finish="eos_token", model="ibm/granite-3",
           body=dump({"model_id": "ibm/granite-3", "created_at": "2026-01-01T00:00:00Z", "results":
                      [{"generated_text": "It is", "generated_token_count": 5,
                        "input_token_count": 12, "stop_reason": "eos_token"}]})),
    Native(name="watsonx-stream", source="cloud.ibm.com/apidocs/watsonx-ai#text-generation-stream",
           path="/ml/v1/text/generation_stream", type=SSE, tokens=(12, 5), finish="max_tokens",
           model="ibm/granite-3",
           body=b"".join(b"event: message\ndata: %s\n\n" % dump(each) for each in (
               {"model_id": "ibm/granite-3", "results": [{"generated_text": "It",
                "generated_token_count": 1, "input_token_count": 12,
                "stop_reason": "not_finished"}]},
               {"model_id": "ibm/granite-3", "results": [{"generated_text": " is",
                "generated_token_count": 5, "input_token_count": 12,
                "stop_reason": "max_tokens"}]}))),
    Native(name="oci", source="docs.oracle.com/iaas/api (GenericChatResponse)",
           path="/20231130/actions/chat", tokens=(7, 3), finish="stop", model="meta.llama-4",
           body=dump({"modelId": "meta.llama-4", "modelVersion": "1.0", "chatResponse": {
               "apiFormat": "GENERIC", "timeCreated": "2026-01-01T00:00:00Z",
               "choices": [{"index": 0, "finishReason": "stop", "message": {"role": "ASSISTANT",
                            "content": [{"type": "TEXT", "text": "Yes"}], "toolCalls": []}}],
               "usage": {"promptTokens": 7, "completionTokens": 3, "totalTokens": 10}}})),
    Native(name="oci-cohere", source="docs.oracle.com/iaas/api (CohereChatResponse)",
           path="/20231130/actions/chat", finish="COMPLETE", model="cohere.command-a",
           body=dump({"modelId": "cohere.command-a", "chatResponse": {
               "apiFormat": "COHERE", "text": "Yes", "finishReason": "COMPLETE"}})),
    Native(name="clova", source="api.ncloud-docs.com/docs/clovastudio-chatcompletions",
           path="/testapp/v1/chat-completions/HCX-003", tokens=(39, 14), finish="stop_before",
           body=dump({"status": {"code": "20000", "message": "OK"}, "result": {
               "message": {"role": "assistant", "content": "Ja"}, "stopReason": "stop_before",
               "inputLength": 39, "outputLength": 14, "seed": 1}})),
    Native(name="sagemaker", source="sagemaker.readthedocs.io (Hugging Face TGI)",
           path="/endpoints/e/invocations", body=dump([{"generated_text": "Yes"}])),
    Native(name="sagemaker-object", source="the same", path="/endpoints/e/invocations",
           body=dump({"generated_text": "Yes"})),
    Native(name="hugging-face-history", source="huggingface.co/docs/transformers (pipelines)",
           path="/models/o/m", body=dump([{"generated_text": [
               {"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes"}]}])),
    Native(name="tgi-stream-elsewhere", source="huggingface.co/docs/text-generation-inference",
           path="/endpoints/e/invocations-response-stream", type=SSE, tokens=(None, 2),
           finish="eos_token",
           body=sse({"index": 1, "token": {"id": 1, "text": "Y", "special": False},
                     "generated_text": None, "details": None},
                    {"index": 2, "token": {"id": 2, "text": "es", "special": False},
                     "generated_text": "Yes", "details": {"finish_reason": "eos_token",
                     "generated_tokens": 2}}, done=False)),
    Native(name="mistral-conversation", source="docs.mistral.ai/api#tag/beta.conversations",
           path="/v1/conversations", tokens=(11, 6), model="mistral-large",
           body=dump({"object": "conversation.response", "conversation_id": "conv_1", "outputs": [
               {"object": "entry", "type": "message.output", "role": "assistant",
                "model": "mistral-large", "content": "Yes"}],
               "usage": {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17}})),
    Native(name="mistral-conversation-tool", source="the same", path="/v1/conversations",
           tokens=(11, 6), calls=1,
           body=dump({"object": "conversation.response", "conversation_id": "conv_1", "outputs": [
               {"object": "entry", "type": "function.call", "tool_call_id": "t", "name": "f",
                "arguments": "{}"}], "usage": {"prompt_tokens": 11, "completion_tokens": 6}})),
    Native(name="mistral-conversation-stream", source="the same", path="/v1/conversations",
           type=SSE, tokens=(11, 6), model="mistral-large",
           body=named({"type": "conversation.response.started", "conversation_id": "conv_1"},
                      {"type": "message.output.delta", "role": "assistant", "content": "Yes",
                       "model": "mistral-large", "output_index": 0},
                      {"type": "conversation.response.done", "usage":
                       {"prompt_tokens": 11, "completion_tokens": 6, "total_tokens": 17}})),
    Native(name="ernie", source="cloud.baidu.com/doc/WENXINWORKSHOP (chat)", tokens=(3, 6),
           path="/rpc/2.0/ai_custom/v1/wenxinworkshop/chat/eb-instant",
           body=dump({"id": "as-1", "object": "chat.completion", "created": 1, "result": "Yes",
                      "is_truncated": False, "need_clear_history": False, "usage":
                      {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}})),
    Native(name="hunyuan", source="cloud.tencent.com/document/api/1729/105701", path="/",
           tokens=(4, 2), finish="stop",
           body=dump({"Response": {"RequestId": "r", "Created": 1, "Usage": {
               "PromptTokens": 4, "CompletionTokens": 2, "TotalTokens": 6}, "Choices": [
               {"FinishReason": "stop", "Message": {"Role": "assistant", "Content": "Yes"}}]}})),
    Native(name="spark", source="www.xfyun.cn/doc/spark (HTTP)", path="/v3.5/chat", tokens=(5, 7),
           body=dump({"header": {"code": 0, "message": "Success", "sid": "s", "status": 2},
                      "payload": {"choices": {"status": 2, "seq": 0, "text": [
                          {"content": "Yes", "role": "assistant", "index": 0}]},
                          "usage": {"text": {"prompt_tokens": 5, "completion_tokens": 7,
                                             "total_tokens": 12}}}})),
    Native(name="yandex", source="yandex.cloud/docs/foundation-models (completion)",
           path="/foundationModels/v1/completionAsync/result", tokens=(19, 6), model="18.01.2026",
           body=dump({"result": {"alternatives": [{"message": {"role": "assistant", "text": "Yes"},
                      "status": "ALTERNATIVE_STATUS_FINAL"}], "usage": {"inputTextTokens": "19",
                      "completionTokens": "6", "totalTokens": "25"},
                      "modelVersion": "18.01.2026"}})),
    Native(name="ai21", source="docs.ai21.com (complete)", path="/studio/v1/j2-ultra/generate-text",
           finish="endoftext",
           body=dump({"id": "1", "prompt": None, "completions": [{"data": {
               "text": "Yes", "tokens": []}, "finishReason": {"reason": "endoftext"}}]})),
    Native(name="reka", source="docs.reka.ai/api-reference/chat", path="/v1/chat/reka",
           tokens=(3, 2), finish="stop", model="reka-core",
           body=dump({"id": "i", "model": "reka-core", "usage": {"input_tokens": 3,
                      "output_tokens": 2}, "responses": [{"finish_reason": "stop", "message": {
                          "content": "Yes", "role": "assistant"}}]})),
    Native(name="triton-infer", source="github.com/kserve/kserve (v2 protocol)",
           path="/v2/models/ensemble/infer", model="ensemble",
           body=dump({"model_name": "ensemble", "model_version": "1", "outputs": [
               {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["It is true."]}]})),
    Native(name="vertex-endpoint", source="cloud.google.com/vertex-ai/docs (predict)",
           path="/v1/projects/p/locations/l/endpoints/1:predict", model="7",
           body=dump({"predictions": ["Prompt:\nIs it?\nOutput:\nIt is."],
                      "deployedModelId": "7"})),
    Native(name="runpod", source="docs.runpod.io/serverless/vllm", path="/v2/e/runsync",
           tokens=(11, 16),
           body=dump({"delayTime": 1, "executionTime": 2, "id": "sync-1", "status": "COMPLETED",
                      "output": [{"choices": [{"tokens": ["It is"]}],
                                  "usage": {"input": 11, "output": 16}}]})),
    Native(name="dify", source="docs.dify.ai (chat-messages)", path="/v1/chat-messages",
           tokens=(33, 13),
           body=dump({"event": "message", "message_id": "m", "conversation_id": "c",
                      "mode": "chat", "answer": "Yes.", "metadata": {"usage": {
                          "prompt_tokens": 33, "completion_tokens": 13, "total_tokens": 46},
                          "retriever_resources": []}})),
    Native(name="langserve", source="github.com/langchain-ai/langserve", path="/chain/invoke",
           body=dump({"output": {"content": "Yes", "type": "ai", "additional_kwargs": {}},
                      "metadata": {"run_id": "r"}})),
    Native(name="trl", source="huggingface/trl trl/scripts/vllm_serve.py", path="/generate/batch",
           body=dump({"prompt_ids": [[1, 2]], "completion_ids": [[3, 4]], "logprobs": [[-0.1]]})),
    Native(name="sampler", source="tinker-docs.thinkingmachines.ai (sampling)",
           path="/api/v1/sample", finish="length",
           body=dump({"sequences": [{"tokens": [3, 4], "stop_reason": "length"}]})),
    Native(name="sglang-elsewhere", source="sgl-project/sglang", path="/worker/0/gen",
           api="sglang.generate", tokens=(4, 2), finish="stop", calls=0,
           body=dump({"text": "Yes", "output_ids": [1, 2], "meta_info": {"prompt_tokens": 4,
                      "completion_tokens": 2, "finish_reason": {"type": "stop"}}})),
    Native(name="messages-elsewhere", source="docs.claude.com/en/api/messages",
           path="/claude/invoke-proxy", api="anthropic.messages", tokens=(4, 2), finish="end_turn",
           model="claude-x", calls=0,
           body=dump({"type": "message", "role": "assistant", "model": "claude-x", "content":
                      [{"type": "text", "text": "Yes"}], "stop_reason": "end_turn",
                      "usage": {"input_tokens": 4, "output_tokens": 2}})),
    Native(name="gemini-elsewhere", source="ai.google.dev/api/generate-content", path="/gw/gemini",
           api="gemini.generateContent", tokens=(4, 2), finish="STOP", calls=0,
           body=dump({"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes"}]},
                      "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 4,
                      "candidatesTokenCount": 2}})),
    Native(name="interactions-elsewhere", source="ai.google.dev/gemini-api/docs/interactions",
           path="/gw/ask", api="gemini.interactions", tokens=(4, 2), model="gemini-y", calls=0,
           finish="completed",
           body=dump({"id": "i", "object": "interaction", "status": "completed",
                      "model": "gemini-y", "outputs": [{"type": "text", "text": "Yes"}],
                      "usage": {"total_input_tokens": 4, "total_output_tokens": 2}})),
    Native(name="interactions-stream-elsewhere", source="ai.google.dev/gemini-api/docs/streaming",
           path="/gw/ask", type=SSE, api="gemini.interactions", tokens=(4, 2), model="gemini-y",
           calls=0, finish="completed",
           body=named({"event_type": "interaction.created", "interaction": {
                           "id": "i", "model": "gemini-y", "status": "in_progress"}},
                      {"event_type": "step.delta", "index": 0,
                       "delta": {"type": "text", "text": "Yes"}},
                      {"event_type": "interaction.completed", "interaction": {
                           "id": "i", "status": "completed",
                           "usage": {"total_input_tokens": 4, "total_output_tokens": 2}}})),
    Native(name="responses-elsewhere", source="platform.openai.com/docs/api-reference/responses",
           path="/agents/x/invocations", api="openai.responses", finish="completed", model="m-2",
           calls=0,
           body=dump({"object": "response", "id": "r", "model": "m-2", "status": "completed",
                      "output": [{"type": "message", "content":
                                  [{"type": "output_text", "text": "Yes"}]}]})),
    Native(name="converse-elsewhere", source="botocore service-2.json", path="/gw/bedrock",
           type=EVENTS, api="bedrock.converse", tokens=(4, 2), finish="end_turn", calls=0,
           body=event("contentBlockDelta", {"delta": {"text": "Hi"}, "contentBlockIndex": 0})
           + event("messageStop", {"stopReason": "end_turn"})
           + event("metadata", {"usage": {"inputTokens": 4, "outputTokens": 2}})),
    Native(name="ollama-lines-elsewhere", source="ollama docs/api.md", path="/gw/ollama",
           type=NDJSON, api="ollama.chat", tokens=(4, 2), finish="stop", model="q", calls=0,
           body=lines({"model": "q", "message": {"role": "assistant", "content": "Hi"},
                       "done": False},
                      {"model": "q", "message": {"role": "assistant", "content": ""},
                       "done": True, "done_reason": "stop", "prompt_eval_count": 4,
                       "eval_count": 2})),
    Native(name="own-chat", source="a service of one's own", path="/ask", model="m-1",
           body=dump({"model": "m-1", "response": "Yes"})),
    Native(name="own-assistant", source="a service of one's own", path="/assistant",
           body=dump({"answer": "It is true."})),
)  # fmt: skip

# At a path that is known to be one of model calls.
KNOWN = (
    Native(name="dashscope", source="help.aliyun.com/zh/model-studio (text generation)",
           path="/api/v1/services/aigc/text-generation/generation", tokens=(8, 5), finish="stop",
           body=dump({"output": {"text": "Yes", "finish_reason": "stop"}, "request_id": "r",
                      "usage": {"input_tokens": 8, "output_tokens": 5}})),
    Native(name="dashscope-message", source="the same", tokens=(8, 5), finish="stop",
           path="/api/v1/services/aigc/multimodal-generation/generation",
           body=dump({"output": {"choices": [{"finish_reason": "stop", "message": {
               "role": "assistant", "content": [{"text": "Yes"}]}}]},
               "usage": {"input_tokens": 8, "output_tokens": 5}, "request_id": "r"})),
    Native(name="tgi", source="huggingface.co/docs/text-generation-inference", path="/generate",
           tokens=(None, 3), finish="length",
           body=dump({"generated_text": "Yes", "details": {"finish_reason": "length",
                      "generated_tokens": 3, "seed": None, "tokens": []}})),
    Native(name="tgi-stream", source="the same", path="/generate_stream", type=SSE,
           tokens=(None, 2), finish="eos_token",
           body=sse({"token": {"id": 1, "text": "Y"}, "generated_text": None, "details": None},
                    {"token": {"id": 2, "text": "es"}, "generated_text": "Yes", "details":
                     {"finish_reason": "eos_token", "generated_tokens": 2}}, done=False)),
    Native(name="llama-cpp", source="ggml-org/llama.cpp tools/server/README.md", path="/completion",
           tokens=(5, 3), finish="eos", model="q.gguf",
           body=dump({"content": "Yes", "stop": True, "stop_type": "eos", "model": "q.gguf",
                      "tokens_predicted": 3, "tokens_evaluated": 5, "timings": {}})),
    Native(name="infill", source="the same", path="/infill", type=SSE, tokens=(5, 3),
           finish="limit",
           body=sse({"content": "Y", "stop": False},
                    {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 3,
                     "tokens_evaluated": 5}, done=False)),
    Native(name="vllm-generate", source="vllm-project/vllm api_server.py", path="/generate",
           body=dump({"text": ["Is it? Yes"]})),
    Native(name="kobold", source="lite.koboldai.net/koboldcpp_api", path="/api/v1/generate",
           body=dump({"results": [{"text": "Yes"}]})),
    Native(name="triton", source="triton-inference-server generate extension",
           path="/v2/models/llama/generate", model="llama",
           body=dump({"model_name": "llama", "model_version": "1", "text_output": "Yes"})),
    Native(name="cohere-generate", source="docs.cohere.com/v1/reference/generate",
           path="/v1/generate", tokens=(2, 3),
           body=dump({"id": "g", "generations": [{"id": "1", "text": "Yes"}], "prompt": "Is it?",
                      "meta": {"billed_units": {"input_tokens": 2, "output_tokens": 3}}})),
    Native(name="workers-ai", source="developers.cloudflare.com/workers-ai",
           path="/client/v4/accounts/a/ai/run/@cf/meta/llama", tokens=(4, 2),
           body=dump({"result": {"response": "Yes", "tool_calls": [], "usage":
                                 {"prompt_tokens": 4, "completion_tokens": 2}},
                      "success": True, "errors": [], "messages": []})),
    Native(name="workers-ai-stream", source="the same", type=SSE,
           path="/client/v4/accounts/a/ai/run/@cf/meta/llama",
           body=sse({"response": "Y", "p": "a"}, {"response": "es", "p": "b"})),
    Native(name="snowflake", source="docs.snowflake.com (Cortex REST)", type=SSE,
           path="/api/v2/cortex/inference:complete", api="openai.chat", tokens=(4, 2), calls=0,
           model="m-1",
           body=sse(_CHUNK | {"choices": [{"delta": {"type": "text", "content": "Yes"}}],
                              "usage": {"prompt_tokens": 4, "completion_tokens": 2}}, done=False)),
    Native(name="replicate", source="replicate.com/docs/reference/http", tokens=(7, 2),
           path="/v1/models/meta/llama/predictions", model="meta/llama",
           body=dump({"id": "p", "model": "meta/llama", "version": "v", "input": {"prompt": "Is?"},
                      "output": ["Y", "es"], "error": None, "status": "succeeded",
                      "urls": {"get": "https://api.example/p"}, "logs": "",
                      "metrics": {"input_token_count": 7, "output_token_count": 2}})),
    Native(name="runs-stream", source="platform.openai.com/docs/api-reference/assistants-streaming",
           path="/v1/threads/t/runs", type=SSE, tokens=(9, 3),
           body=b"".join(b"event: %s\ndata: %s\n\n" % (name, dump(data)) for name, data in (
               (b"thread.run.created", {"object": "thread.run", "status": "queued"}),
               (b"thread.message.delta", {"object": "thread.message.delta", "delta": {"content":
                   [{"index": 0, "type": "text", "text": {"value": "Yes"}}]}}),
               (b"thread.run.completed", {"object": "thread.run", "status": "completed", "usage":
                   {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})))),
    Native(name="aleph-alpha", source="docs.aleph-alpha.com (complete)", path="/complete",
           api="anthropic.complete", tokens=(3, 2), finish="end_of_text", model="20220302",
           body=dump({"model_version": "20220302", "completions": [
               {"completion": " Yes", "finish_reason": "end_of_text"}],
               "num_tokens_prompt_total": 3, "num_tokens_generated": 2})),
)  # fmt: skip


def check(native: Native) -> None:
    exchange = observed(native.body, native.path, type_=native.type)
    assert exchange.cause is None
    assert (exchange.kind, exchange.inferred) == (Kind.INFERENCE, True)
    assert exchange.answer_state is AnswerState.READ
    assert (exchange.output_seen, exchange.content_seen) == (True, True)
    usage = exchange.usage
    assert (exchange.api, usage.input_total, usage.output_total) == (native.api, *native.tokens)
    assert (exchange.finish_reason, exchange.answered_model) == (native.finish, native.model)
    if native.calls is not None:
        assert exchange.tool_calls == native.calls


@pytest.mark.parametrize("native", NATIVE, ids=lambda native: native.name)
def test_a_post_whose_answer_holds_output_is_a_model_call(native: Native) -> None:
    opened = CallObserver(call(native.path), salt=SALT).in_flight()
    assert (opened.kind, opened.inferred) == (Kind.OTHER, None)
    check(native)


@pytest.mark.parametrize("native", KNOWN, ids=lambda native: native.name)
def test_a_model_call_is_read_in_the_shape_of_its_own_wire(native: Native) -> None:
    assert CallObserver(call(native.path), salt=SALT).in_flight().kind is Kind.INFERENCE
    check(native)


@pytest.mark.parametrize("native", (*NATIVE, *KNOWN), ids=lambda native: native.name)
def test_the_same_is_read_however_the_bytes_are_cut(native: Native) -> None:
    pieces = [native.body[at : at + 7] for at in range(0, len(native.body), 7)]
    assert observed(pieces, native.path, type_=native.type).answer_state is AnswerState.READ


# --- what only looks like an answer ------------------------------------------------------------

_TOOL = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "It is."}],
         "isError": False}}  # fmt: skip
_ROW = {"id": 7, "model": "m-1", "prompt": "Is it?", "response": "It is.", "prompt_tokens": 4,
        "completion_tokens": 2}  # fmt: skip
# path and body: telemetry, embedding, moderation, scraping, searching, tools, stored rows.
LOOK_ALIKES: dict[str, tuple[str, object]] = {
    "status": ("/v1/logs", {"status": "ok"}),
    "success": ("/capture", {"success": True}),
    "an id": ("/api/0/envelope/", {"id": "fc6d8c0c43fc4630ad850ee518f1b9d0"}),
    "otlp": ("/v1/traces", {"partialSuccess": {}}),
    "langfuse": ("/api/public/ingestion", {"successes": [{"id": "a", "status": 201}],
                                           "errors": []}),
    "langsmith": ("/runs/batch", {"message": "Runs batch ingested"}),
    "posthog": ("/batch/", {"status": 1}),
    "segment": ("/v1/track", {"success": True, "response": "accepted 3 events"}),
    "graphql": ("/graphql", {"data": {"upsertBucket": {"bucket": {"id": "x", "output": "done"},
                                                       "text": "It is."}}}),
    "mlflow": ("/api/2.0/mlflow/runs/create", {"run": {"info": {"run_id": "r"}, "data": {}}}),
    "helicone": ("/v1/trace/custom/log", {"request": _ROW, "response": openai()}),
    "a stored row": ("/rest/v1/generations", [_ROW]),
    "a stored message": ("/v1/threads/t/messages", {"object": "thread.message", "role": "user",
                         "content": [{"type": "text", "text": {"value": "Is it?"}}]}),
    "feedback": ("/feedback", {"result": "success"}),
    "moderation": ("/v1/moderations", {"id": "m", "model": "omni-moderation", "results": [
        {"flagged": False, "categories": {"hate": False}, "category_scores": {"hate": 0.1}}]}),
    "embedding": ("/serving-endpoints/e/invocations", {"object": "list", "model": "bge",
                  "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}],
                  "usage": {"prompt_tokens": 4, "total_tokens": 4}}),
    "vectors": ("/embed", [[0.1, 0.2], [0.3, 0.4]]),
    "vertex embedding": ("/v1/publishers/google/models/e:predict", {"predictions": [
        {"embeddings": {"values": [0.1], "statistics": {"token_count": 4}}}]}),
    "rerank": ("/v1/rerank/x", {"model": "rerank", "usage": {"total_tokens": 9}, "results": [
        {"index": 0, "relevance_score": 0.9, "document": {"text": "It is true."}}]}),
    "rerank with texts": ("/ranking", [{"index": 0, "score": 0.9, "text": "It is true."}]),
    "classes": ("/predict", {"predictions": ["spam"], "model_name": "spam-or-ham"}),
    "labels": ("/models/x/y", [[{"label": "POSITIVE", "score": 0.99}]]),
    "numbers": ("/v1/models/half:predict", {"predictions": [[0.1], [0.2]]}),
    "tokens": ("/v1/encode", {"tokens": [1, 2, 3], "count": 3}),
    "scraper": ("/v1/scrape", {"success": True, "data": {"markdown": "# It is true.",
                "metadata": {"title": "It", "statusCode": 200}}}),
    "reader": ("/r", {"code": 200, "status": 20000, "data": {"title": "It", "url": "https://x.org",
               "content": "It is true.", "usage": {"tokens": 1234}}}),
    "search": ("/search", {"query": "it", "answer": "It is true.", "response_time": 1.2,
               "results": [{"title": "It", "url": "https://x.org", "content": "It is true."}]}),
    "pages": ("/search", {"results": [{"title": "It", "url": "https://x.org", "text": "It is."}],
                          "costDollars": {"total": 0.005}}),
    "a tool's server": ("/mcp", _TOOL),
    "a program": ("/execute", {"output": "It is true.\n", "exit_code": 0}),
    "a notebook": ("/execute", {"results": [{"text": "4"}], "logs": {"stdout": [], "stderr": []}}),
    "a chat room": ("/api/chat.postMessage", {"ok": True, "channel": "C", "message": {
        "type": "message", "text": "It is true.", "user": "U", "bot_id": "B"}}),
    "a post": ("/api/v10/channels/1/messages", {"id": "1", "content": "It is true.",
                                                 "author": {"id": "2", "username": "u"}}),
    "a file": ("/repos/o/r/contents", {"content": "SXQgaXMu", "encoding": "base64", "sha": "a"}),
    "a transcript": ("/v1/listen", {"metadata": {"models": ["nova"]}, "results": {"channels": [
        {"alternatives": [{"transcript": "It is true.", "confidence": 0.99}]}]}}),
    "a translation": ("/v2/translate", {"translations": [{"detected_source_language": "DE",
                                                          "text": "It is true."}]}),
    "a poll": ("/polls", {"id": 1, "choices": [{"id": 1, "text": "Yes", "votes": 3}]}),
    "places": ("/maps/find", {"status": "OK", "candidates": [{"name": "It", "place_id": "p"}]}),
    "memories": ("/v1/memories", {"results": [{"id": "m", "memory": "It is.", "event": "ADD"}]}),
    "an echo": ("/post", {"args": {}, "data": "x", "json": {"model": "m-1", "messages": [
        {"role": "assistant", "content": "It is."}]}, "url": "https://echo"}),
    "devices": ("/devices", {"model": "router-7", "content": "It is true."}),
    "an empty answer": ("/serving-endpoints/x/invocations", openai(choices=[
        {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}])),
    "tokens alone": ("/meter", {"usage": {"prompt_tokens": 4, "completion_tokens": 9}}),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_what_no_model_wrote_makes_no_model_call(name: str) -> None:
    path, told = LOOK_ALIKES[name]
    exchange = observed(dump(told), path)
    assert exchange.kind is Kind.OTHER
    assert exchange.answer_state is not AnswerState.READ
    assert not exchange.inferred or not exchange.content_seen
    streamed = observed(sse(told, told), path, type_=SSE)
    assert streamed.kind is Kind.OTHER


def test_what_is_no_json_makes_no_model_call() -> None:
    for body in (b"OK", b"", b"<html><body>It is true.</body></html>", bytes(range(256))):
        assert observed(body, "/ingest", type_=None).kind is Kind.OTHER


def test_a_request_s_shape_and_other_methods_make_no_model_call() -> None:
    asked = dump({"model": "m-1", "messages": [{"role": "user", "content": "Is it?"}]})
    assert observed(dump({"ok": 1}), "/collect", request=asked).kind is Kind.OTHER
    observer = CallObserver(call("/collect", method="PUT"), salt=SALT)
    observer.on_response_head(200, head(JSON), 100.5)
    observer.on_response_body(dump(openai()), 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert (exchange.kind, exchange.answer_state) == (Kind.OTHER, None)
    failed = observed(dump(openai()), "/collect", status=500)
    assert (failed.kind, failed.answer_state) == (Kind.OTHER, None)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/embeddings", Kind.EMBEDDING), ("/v1/files", Kind.ACTIVITY), ("/rerank", Kind.OTHER),
     ("/v1/messages/count_tokens", Kind.PROBE), ("/tokenize", Kind.PROBE)],
)  # fmt: skip
def test_a_route_that_is_known_to_be_something_else_keeps_its_kind(path: str, kind: Kind) -> None:
    exchange = observed(dump(openai()), path)
    assert (exchange.kind, bool(exchange.inferred)) == (kind, False)


def test_the_request_s_model_is_on_record_wherever_it_was_sent() -> None:
    asked = dump({"model": "m-9", "inputs": "Is it?"})
    assert observed(dump({"ok": 1}), "/collect", request=asked, status=500).model == "m-9"
    named = observed(dump(openai()), "/serving-endpoints/dbrx/invocations")
    assert named.model == "dbrx"
    for key in ("model_id", "modelId", "model_name"):
        assert observed(dump({"ok": 1}), "/ml", request=dump({key: "granite"})).model == "granite"


# --- long answers ------------------------------------------------------------------------------

_LONG = "It is true. " * 20_000  # 240 kB


@pytest.mark.parametrize(
    ("told", "finish", "tokens"),
    [
        ({"generated_text": _LONG, "details": {"finish_reason": "length", "generated_tokens": 9}},
         "length", 9),
        ({"details": {"finish_reason": "eos_token", "generated_tokens": 9},
          "generated_text": "It is", "prefill": [{"id": n, "text": "x"} for n in range(20_000)]},
         "eos_token", 9),
        (openai(logprobs=[0.5] * 60_000), "stop", 4),
        ([{"generated_text": _LONG}], None, None),
    ],
    ids=["a long text", "a long list behind", "a long list inside", "a list"],
)  # fmt: skip
def test_the_beginning_and_the_end_of_a_long_answer_are_read(
    told: object, finish: str | None, tokens: int | None
) -> None:
    body = dump(told)
    assert len(body) > 2 * WINDOW
    exchange = observed(body, "/endpoints/e/invocations")
    assert (exchange.kind, exchange.answer_state) == (Kind.INFERENCE, AnswerState.READ)
    assert (exchange.finish_reason, exchange.usage.output_total) == (finish, tokens)


def test_what_lies_between_is_unseen() -> None:
    rows = [0.5] * 60_000
    hidden = dump({"before": rows, "generated_text": "It is true.", "after": rows})
    exchange = observed(hidden, "/endpoints/e/invocations")
    assert (exchange.kind, exchange.answer_state) == (Kind.OTHER, AnswerState.UNSEEN)
    known = observed(hidden, "/generate_stream")
    assert (known.kind, known.answer_state) == (Kind.INFERENCE, AnswerState.UNSEEN)
    assert known.cause is None


def test_a_long_stream_is_read_at_both_its_ends() -> None:
    token = {"token": {"id": 1, "text": "x" * 80}, "generated_text": None}
    last = {"token": {"id": 2, "text": ""}, "generated_text": "It is", "details": {
        "finish_reason": "eos_token", "generated_tokens": 3_000}}  # fmt: skip
    exchange = observed(sse(*[token] * 3_000, last, done=False), "/generate_stream", type_=SSE)
    assert (exchange.finish_reason, exchange.usage.output_total) == ("eos_token", 3_000)
    assert exchange.answer_state is AnswerState.READ
    ticks = sse(*[{"tick": "x" * 80}] * 3_000, done=False)
    assert observed(ticks, "/generate_stream", type_=SSE).answer_state is AnswerState.UNSEEN
    late = json.loads(json.dumps(last))
    ended = observed(ticks + sse(late, done=False), "/generate_stream", type_=SSE)
    assert ended.answer_state is AnswerState.READ


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 8, 13, 40, 41, 42, 60])
def test_a_long_answer_is_read_wherever_its_beginning_is_cut(cut: int) -> None:
    told = {"generated_text": "It is true.", "n": -1.5e3, "on": True, "no": None,
            "s": 'a "quoted" \\ é ☃', "deep": [{"k": [1, [2, {}]]}]}  # fmt: skip
    start = dump([told])[1:-1]
    padded = b'{"pad":"%s",%s' % (b"x" * (WINDOW - len(start) + cut - 9), start[1:])
    body = padded[:-1] + b',"rest":[' + b"1," * WINDOW + b"1]}"
    exchange = observed(body, "/endpoints/e/invocations")
    assert exchange.answer_state in (AnswerState.READ, AnswerState.UNSEEN)
    if cut < 40:
        assert exchange.answer_state is AnswerState.READ


def test_a_document_nested_without_end_is_read_as_far_as_it_goes() -> None:
    deep = b'{"output":' * 100_000 + b'"x"' + b"}" * 100_000
    assert observed(deep, "/endpoints/e/invocations").kind is Kind.OTHER
    flat = dump({"results": [{"results": [{"n": n}] * 50} for n in range(50)]})
    assert observed(flat, "/endpoints/e/invocations").kind is Kind.OTHER
    limits = ObserverLimits(body_bytes=1_000)
    observer = CallObserver(call("/endpoints/e/invocations"), salt=SALT, limits=limits)
    observer.on_response_head(200, head(JSON), 100.5)
    observer.on_response_body(dump({"generated_text": "x" * 2_000}), 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert (exchange.kind, exchange.answer_state) == (Kind.OTHER, AnswerState.UNSEEN)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/client/v4/accounts/a/ai/run/@cf/baai/bge", {"result": {"shape": [1, 2], "data":
         [[0.1, 0.2]]}, "success": True, "errors": [], "messages": []}),
        ("/model/amazon.titan-embed/invoke", {"embedding": [0.1, 0.2], "inputTextTokenCount": 4}),
        ("/v1/models/o/embedder/predictions", {"status": "succeeded", "output": {"embedding":
         [0.1, 0.2]}}),
    ],
)  # fmt: skip
def test_a_model_call_that_gives_vectors_is_an_embedding(path: str, told: object) -> None:
    exchange = observed(dump(told), path)
    assert (exchange.kind, exchange.answer_state) == (Kind.EMBEDDING, None)


# --- short answers, which the question explains ------------------------------------------------

_CHAT = {"messages": [{"role": "user", "content": "Is it?"}]}
_PROMPT = {"inputs": "Is it?", "parameters": {"max_new_tokens": 9}}
_SAID = "It is true."
EXPLAINED: dict[str, tuple[object, object]] = {
    "output": (_PROMPT, {"output": _SAID}),
    "one word": (_PROMPT, {"output": "Yes"}),
    "output text": (_CHAT, {"status": "ok", "output": {"text": _SAID}}),
    "candidates": ({"prompt": "Is it?"}, {"candidates": [{"output": _SAID}]}),
    "wrapped messages": (_CHAT, {"code": 0, "msg": "", "data": {"messages": [
        {"role": "assistant", "content": _SAID}]}}),
    "text beside the question": ({"question": "Is it?"}, {
        "text": _SAID, "question": "Is it?", "chatId": "c", "chatMessageId": "m"}),
    "response": (_CHAT, {"response": _SAID}),
    "list": (_PROMPT, {"outputs": [_SAID]}),
    "content": (_CHAT, {"content": _SAID}),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_text_that_answers_a_question_is_output(name: str) -> None:
    asked, told = EXPLAINED[name]
    exchange = observed(dump(told), "/own/service", request=dump(asked))
    assert (exchange.kind, exchange.inferred) == (Kind.INFERENCE, True)
    assert (exchange.answer_state, exchange.content_seen) == (AnswerState.READ, True)
    unasked = observed(dump(told), "/own/service", request=dump({"event": "x", "prompt": "Is it?"}))
    assert unasked.kind is Kind.OTHER


def test_lines_and_events_that_answer_a_question_are_output() -> None:
    asked = dump(_PROMPT | {"stream": True})
    told = [{"response": "It", "done": False}, {"response": " is", "done": True}]
    assert observed(lines(*told), "/own", type_=NDJSON).kind is Kind.INFERENCE
    pieces = [{"text": "It"}, {"text": " is"}]
    assert observed(sse(*pieces), "/own", type_=SSE, request=asked).kind is Kind.INFERENCE
    assert observed(sse(*pieces), "/own", type_=SSE).kind is Kind.OTHER


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_question_makes_no_answer_of_what_is_none(name: str) -> None:
    path, told = LOOK_ALIKES[name]
    asked: dict[str, dict[str, Any]] = {
        "scraper": {"url": "https://x.org", "prompt": "Is it?"},
        "a program": {"code": "print('It is true.')", "inputs": {}},
        "a translation": {"text": ["Es ist wahr."], "target_lang": "EN"},
        "devices": {"model": "router-7", "content": "It is true."},
        "a chat room": {"channel": "C", "text": "It is true."},
        "a post": {"content": "It is true."},
        "a poll": {"question": "Is it?", "choices": ["Yes", "No"]},
        "segment": {"event": "asked", "properties": {"prompt": "Is it?"}},
        "a notebook": {"code": "2 + 2", "inputs": {}},
        "pages": {"query": "it", "contents": {"text": True}},
    }
    request = dump(asked.get(name, {"inputs": "Is it?", "messages": [{"role": "user"}]}))
    assert observed(dump(told), path, request=request).kind is Kind.OTHER


@pytest.mark.parametrize(
    "told",
    [{"response": "ok"}, {"output": "success"}, {"text": "Success", "code": 0}, {"output": None},
     {"content": ""}, {"response": "Accepted."}, {"result": "3 events accepted"},
     {"message": "It was stored"}, {"completion": 0.5}, {"output": "It", "exit_code": 0},
     {"text": "It", "score": 0.3}],
)  # fmt: skip
def test_a_status_is_no_answer_to_a_question(told: object) -> None:
    assert observed(dump(told), "/own", request=dump(_CHAT)).kind is Kind.OTHER


# --- what is fetched later ---------------------------------------------------------------------


class Caller:
    """The calls of one rollout, in one process."""

    def __init__(self) -> None:
        self.known = Conversations(b"a secret of this process")

    def made(
        self, method: str, path: str, told: object, *, rollout: str = "r1", asked: object = None,
        status: int = 200,
    ) -> Exchange:  # fmt: skip
        one = replace(call(path, method=method), rollout_id=rollout)
        observer = CallObserver(one, salt=SALT, conversations=self.known)
        if asked is not None:
            observer.on_request_body(dump(asked))
        observer.on_response_head(status, head(JSON), 100.5)
        observer.on_response_body(dump(told), 101.0)
        return observer.finish(Ending.COMPLETE, 102.0)


def replicate(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "pred1", "status": status, "input": {"prompt": "Is?"}, "output": None,
            "error": None, "logs": "", "urls": {"get": "https://x/p"}} | more  # fmt: skip


def task(status: str, **more: Any) -> dict[str, Any]:
    return {"output": {"task_id": "task1", "task_status": status} | more, "request_id": "r"}


def run(status: str, **more: Any) -> dict[str, Any]:
    return {"id": "run_1", "object": "thread.run", "thread_id": "t", "status": status} | more


FETCHED = {
    "replicate": ("/v1/models/o/m/predictions", "/v1/predictions/pred1", replicate("starting"),
                  replicate("processing"), replicate("succeeded", output=["It", " is"]),
                  replicate("failed", error="CUDA out of memory")),
    "dashscope": ("/api/v1/services/aigc/text-generation/generation", "/api/v1/tasks/task1",
                  task("PENDING"), task("RUNNING"),
                  task("SUCCEEDED", text="It is", finish_reason="stop"),
                  task("FAILED", code="InternalError.Timeout", message="The engine timed out")),
    "runs": ("/v1/threads/t/runs", "/v1/threads/t/runs/run_1", run("queued"), run("in_progress"),
             run("completed", usage={"prompt_tokens": 3, "completion_tokens": 5}),
             run("failed", last_error={"code": "rate_limit_exceeded", "message": "Rate limit"})),
}  # fmt: skip


@pytest.mark.parametrize("name", FETCHED)
def test_a_get_of_what_a_call_began_goes_on_with_it(name: str) -> None:
    post, get, begun, waiting, done, failed = FETCHED[name]
    caller = Caller()
    first = caller.made("POST", post, begun)
    assert (first.kind, first.pending, first.cause) == (Kind.INFERENCE, True, None)
    assert first.answer_state is AnswerState.EMPTY
    assert first.response_digest is not None
    for told, pending, state in (
        (waiting, True, AnswerState.EMPTY), (done, False, AnswerState.READ), (failed, False, None)
    ):  # fmt: skip
        later = caller.made("GET", get, told)
        assert (later.kind, later.pending) == (Kind.CONTINUATION, pending)
        assert (later.answer_state, later.failed) == (state, state is None)
        assert later.response_digest == first.response_digest
    calls = calls_of(with_continuations([first, replace(later, id="x2")]))
    assert [c.state for c in calls] == [CallState.FAILED]
    assert caller.made("GET", get + "0", done).response_digest != first.response_digest


def test_a_run_that_asks_for_tools_and_one_that_was_cancelled() -> None:
    wanted = {
        "type": "submit_tool_outputs",
        "submit_tool_outputs": {
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ]
        },
    }
    caller = Caller()
    asks = caller.made("GET", "/v1/threads/t/runs/run_1", run("requires_action",
                       required_action=wanted))  # fmt: skip
    assert (asks.tool_calls, asks.answer_state) == (1, AnswerState.READ)
    gone = caller.made("POST", "/v1/threads/t/runs/run_1/cancel", run("cancelled"))
    assert (gone.kind, gone.cause, gone.finish_reason) == (Kind.CONTINUATION, None, "cancelled")
    sent = caller.made("POST", "/v1/threads/t/runs/run_1/submit_tool_outputs", run("queued"))
    assert (sent.kind, sent.response_digest) == (Kind.INFERENCE, asks.response_digest)


def test_a_job_at_an_unknown_path_is_a_model_call_once_its_output_is_fetched() -> None:
    caller = Caller()
    begun = caller.made("POST", "/v2/e/run", {"id": "a-1", "status": "IN_QUEUE"},
                        asked={"model": "m-1", "input": {"prompt": "Is it?"}})  # fmt: skip
    assert (begun.kind, begun.pending) == (Kind.OTHER, True)
    waits = caller.made("GET", "/v2/e/status/a-1", {"id": "a-1", "status": "IN_PROGRESS"})
    assert (waits.kind, waits.inferred) == (Kind.OTHER, False)
    done = {"id": "a-1", "status": "COMPLETED", "output": [{"choices": [{"tokens": ["It is"]}],
            "usage": {"input": 3, "output": 5}}]}  # fmt: skip
    ended = caller.made("GET", "/v2/e/status/a-1", done)
    assert (ended.kind, ended.inferred, ended.model) == (Kind.INFERENCE, True, "m-1")
    assert (ended.usage.output_total, ended.answer_state) == (5, AnswerState.READ)
    assert ended.response_digest == begun.response_digest
    other = caller.made("GET", "/v2/e/status/a-1", done, rollout="r2")
    assert (other.kind, other.answer_state) == (Kind.OTHER, None)
    assert caller.made("GET", "/v2/e/status/a-2", done).kind is Kind.OTHER
    elsewhere = Caller().made("GET", "/v2/e/status/a-1", done)
    assert elsewhere.kind is Kind.OTHER


def test_begun_jobs_are_bounded() -> None:
    caller = Caller()
    for number in range(200):
        caller.made("POST", "/v2/e/run", {"id": f"a-{number}", "status": "IN_QUEUE"})
    done = {"output": {"text": "It is", "finish_reason": "stop"}}
    assert caller.made("GET", "/v2/e/status/a-0", done).kind is Kind.OTHER
    assert caller.made("GET", "/v2/e/status/a-199", done).kind is Kind.INFERENCE
