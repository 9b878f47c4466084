"""Failures inside a 2xx, and answers that only look like one: bodies, and what each is.

Written after what providers, gateways and frameworks document of their envelopes; sentences and
numbers are this file's own.
"""

from __future__ import annotations

import json
from typing import Any, Final

ANY = ""  # of a failure whose words are not at stake here
AUTH, QUOTA, RATE = "auth", "quota", "rate_limit"
MODEL, REJECTED, PROVIDER = "model_not_found", "rejected_request", "provider_error"

_BUSY = "The service is overloaded, try again later"
_KEY = "The API key is not valid"
_FAST = "Rate limit exceeded, slow down"
_SPENT = "Your account balance is insufficient"
_GONE = "The model m-9 does not exist"
_LATE = "Task timed out after 30.03 seconds"

# What a body is (its name), the body, the cause of the failure that it states.
OBJECTS: Final[tuple[tuple[str, Any, str], ...]] = (
    # -- error, as it is, and under its other names ------------------------------------------
    ("error-text", {"error": _KEY}, AUTH),
    ("error-object", {"error": {"message": _SPENT, "code": "402"}}, QUOTA),
    ("error-list", {"error": [_FAST]}, RATE),
    ("error-list-of-objects", {"error": [{"message": _GONE}]}, MODEL),
    ("error-true-reason", {"error": True, "reason": _FAST}, RATE),
    ("error-true-text", {"error": True, "text": None, "message": _KEY}, AUTH),
    ("error-number", {"error": 429, "msg": _FAST}, RATE),
    ("error-and-null-choices", {"choices": None, "error": {"message": _BUSY}}, PROVIDER),
    ("error-and-no-choices", {"choices": [], "error": {"message": _KEY}}, AUTH),
    ("errors-texts", {"errors": [_KEY]}, AUTH),
    ("errors-object", {"errors": {"detail": _GONE}}, MODEL),
    ("errors-text", {"errors": _SPENT}, QUOTA),
    ("errors-by-field", {"errors": {"model": ["is required and was not given"]},
                         "message": "The request is invalid"}, ANY),
    ("capital-error", {"Error": {"Code": "RequestLimitExceeded", "Message": _FAST}}, RATE),
    ("capital-errors", {"Errors": [{"Code": "InvalidApiKey", "Message": _KEY}]}, AUTH),
    ("err", {"err": _BUSY}, PROVIDER),
    ("exception-text", {"exception": _LATE}, PROVIDER),
    ("fault-text", {"fault": _FAST}, RATE),
    ("last-error", {"object": "thread.run", "status": "failed",
                    "last_error": {"code": "rate_limit_exceeded", "message": _FAST}}, RATE),
    ("failure-reason", {"status": "failed", "failureReason": _SPENT}, QUOTA),
    # -- gateways and clouds -----------------------------------------------------------------
    ("lambda", {"errorMessage": f"2026-01-01T00:00:00Z 6f2a {_LATE}"}, PROVIDER),
    ("lambda-typed", {"errorMessage": _LATE, "errorType": "Sandbox.Timedout"}, PROVIDER),
    ("lambda-trace", {"errorType": "Runtime.ExitError", "requestId": "1", "errorMessage":
                      "RequestId: 1 Error: Runtime exited with error: signal: killed",
                      "stackTrace": []}, PROVIDER),
    ("lambda-proxied", {"statusCode": 429, "headers": {},
                        "body": json.dumps({"message": "Too Many Requests"})}, RATE),
    ("lambda-proxied-text", {"statusCode": 502, "body": "Bad gateway"}, PROVIDER),
    ("api-gateway", {"message": "Endpoint request timed out"}, PROVIDER),
    ("api-gateway-token", {"message": "The incoming token has expired"}, AUTH),
    ("apim", {"statusCode": 429, "message": "Rate limit is exceeded. Try again in 7 seconds."},
     RATE),
    ("apim-key", {"statusCode": 401,
                  "message": "Access denied due to missing subscription key."}, AUTH),
    ("apigee", {"fault": {"faultstring": "Spike arrest violation. Allowed rate : MessageRate{"
                "messagesPerPeriod=5, periodInMicroseconds=60000000}", "detail":
                {"errorcode": "policies.ratelimit.SpikeArrestViolation"}}}, RATE),
    ("apigee-key", {"fault": {"faultstring": "Invalid ApiKey", "detail":
                    {"errorcode": "oauth.v2.InvalidApiKey"}}}, AUTH),
    ("aws-json", {"__type": "com.amazonaws.runtime#ThrottlingException", "message": "Slow"}, RATE),
    ("aws-json-bare", {"__type": "UnrecognizedClientException"}, AUTH),
    ("sagemaker", {"ErrorCode": "CLIENT_ERROR_FROM_MODEL", "LogStreamArn": "arn:aws:logs:1",
                   "Message": "Received client error (429) from model. See the logs.",
                   "OriginalMessage": json.dumps({"error": _FAST}), "OriginalStatusCode": 429},
     RATE),
    ("sagemaker-key", {"OriginalStatusCode": 503, "OriginalMessage": _BUSY}, PROVIDER),
    ("databricks", {"error_code": "RESOURCE_DOES_NOT_EXIST",
                    "message": "Endpoint with name 'm-9' does not exist."}, MODEL),
    ("databricks-limit", {"error_code": "REQUEST_LIMIT_EXCEEDED",
                          "message": "Exceeded workspace rate limit"}, RATE),
    ("cloudflare", {"success": False, "errors": [{"code": 10000, "message":
                    "Authentication error"}], "messages": [], "result": None}, AUTH),
    ("cloudflare-no-number", {"success": False, "result": None, "errors": [{"message": _BUSY}]},
     PROVIDER),
    ("grpc-json", {"code": 8, "message": "grpc: received message after limit", "details": []},
     RATE),
    ("grpc-json-auth", {"code": 16, "message": "Request had no credentials", "details": []}, AUTH),
    ("grpc-json-away", {"code": 14, "message": "upstream went away", "details": []}, PROVIDER),
    ("grpc-web", {"error": "stream gone", "code": 14, "message": "stream gone"}, PROVIDER),
    ("problem", {"type": "about:blank", "title": "Too Many Requests", "status": 429}, RATE),
    ("problem-detail", {"type": "https://e.example/spent", "title": "Payment Required",
                        "status": 402, "detail": _SPENT}, QUOTA),
    ("spring", {"timestamp": "2026-01-01T00:00:00", "status": 503,
                "error": "Service Unavailable", "path": "/v1/chat"}, PROVIDER),
    ("oauth", {"error": "invalid_client", "error_description": "unknown client id"}, AUTH),
    ("oauth-shorter", {"error": "invalid_client", "description": "client id is invalid"}, AUTH),
    ("fastapi", {"detail": "Not authenticated"}, ANY),
    ("fastapi-object", {"detail": {"error": _SPENT}}, QUOTA),
    ("fastapi-list", {"detail": [{"loc": ["body", "messages"], "msg": "field required",
                                  "type": "value_error.missing"}]}, REJECTED),
    ("graphql", {"data": None, "errors": [{"message": _FAST,
                                           "extensions": {"code": "RATE_LIMITED"}}]}, RATE),
    ("graphql-name", {"errors": [{"message": "Nope", "extensions": {"code": "UNAUTHENTICATED"}}]},
     AUTH),
    ("json-api", {"errors": [{"status": "402", "title": "Payment", "detail": _SPENT}]}, QUOTA),
    ("json-rpc", {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": _BUSY}},
     PROVIDER),
    ("envoy", {"code": 503, "message": "no healthy upstream"}, PROVIDER),
    ("kong", {"message": "API rate limit exceeded", "request_id": "1"}, RATE),
    ("traefik-status", {"status": "error", "status_code": 502, "message": "Bad Gateway"}, PROVIDER),
    ("kubernetes", {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message":
                    "Unauthorized", "reason": "Unauthorized", "code": 401}, AUTH),
    ("openstack", {"code": 429, "title": "Too Many Requests", "explanation": _FAST}, RATE),
    ("other-spelling", {"ErrCode": 10003, "ErrMsg": _KEY}, AUTH),
    ("other-spelling-ucloud", {"RetCode": 171, "Action": "Chat", "Message": _SPENT}, QUOTA),
    ("http-status", {"httpStatus": 401, "statusMessage": _KEY}, AUTH),
    ("resp-code", {"resp_code": "500", "resp_msg": _BUSY}, PROVIDER),
    ("has-error", {"hasError": True, "message": _FAST}, RATE),
    ("success-0", {"success": 0, "msg": _KEY}, AUTH),
    ("nested-response", {"response": {"status": "error", "message": _KEY}}, AUTH),
    ("nested-data", {"data": {"error": {"message": _SPENT}}}, QUOTA),
    ("nested-result", {"result": {"success": False, "message": _BUSY}}, PROVIDER),
    ("nested-meta", {"meta": {"code": 429, "error_message": _FAST}, "data": None}, RATE),
    # -- outcomes that are negative, beside a sentence ------------------------------------------
    ("success-false", {"success": False, "message": _KEY}, AUTH),
    ("success-false-msg", {"success": False, "msg": _FAST, "data": None}, RATE),
    ("success-false-error", {"success": False, "error": _SPENT}, QUOTA),
    ("is-success", {"isSuccess": False, "message": _BUSY}, PROVIDER),
    ("succeeded", {"succeeded": False, "errorMessage": _KEY}, AUTH),
    ("success-text", {"success": "false", "message": _KEY}, AUTH),
    ("ok-false", {"ok": False, "error": "rate_limited"}, RATE),
    ("ok-telegram", {"ok": False, "error_code": 429,
                     "description": "Too Many Requests: retry after 5"}, RATE),
    ("status-fail", {"status": "fail", "message": _KEY}, AUTH),
    ("status-error", {"status": "error", "msg": _SPENT}, QUOTA),
    ("status-error-data", {"status": "ERROR", "data": {"message": _FAST}}, RATE),
    ("status-failed", {"status": "FAILED", "reason": _BUSY}, PROVIDER),
    ("status-number", {"status": 429, "msg": _FAST}, RATE),
    ("status-minus", {"status": -1, "info": None, "msg": _KEY}, AUTH),
    ("result-fail", {"result": "fail", "message": _KEY}, AUTH),
    ("state-error", {"state": "error", "message": _BUSY}, PROVIDER),
    # -- numbered families --------------------------------------------------------------------
    ("zhipu", {"code": 1113, "msg": "Insufficient balance, please recharge", "success": False},
     QUOTA),
    ("code-msg", {"code": 40103, "msg": _KEY, "data": None}, AUTH),
    ("code-text", {"code": "E4290", "message": _FAST}, RATE),
    ("code-data-empty", {"code": 50001, "message": _BUSY, "data": {}}, PROVIDER),
    ("code-minus", {"code": -1, "msg": _BUSY}, PROVIDER),
    ("code-name-alone", {"code": "InsufficientBalance"}, QUOTA),
    ("code-number-alone", {"code": 50010}, PROVIDER),
    ("code-and-null-choices", {"code": 500, "msg": _BUSY, "choices": None}, PROVIDER),
    ("errcode", {"errcode": 40001, "errmsg": "invalid credential, access_token is invalid"}, AUTH),
    ("errno", {"errno": 6, "errmsg": "No permission to access data"}, AUTH),
    ("err-no", {"err_no": 18, "err_msg": _FAST}, RATE),
    ("error-code", {"error_code": 17, "error_msg": "Daily quota reached"}, QUOTA),
    ("error-code-and-text", {"error_code": 10400, "text": _GONE}, MODEL),
    ("error-code-camel", {"errorCode": "InvalidModel", "errorMsg": _GONE}, MODEL),
    ("retcode", {"retcode": -1, "retmsg": _BUSY}, PROVIDER),
    ("ret", {"ret": 1001, "msg": _KEY}, AUTH),
    ("result-code", {"resultCode": "9999", "resultMsg": _BUSY}, PROVIDER),
    ("return-code", {"return_code": "FAIL", "return_msg": _KEY}, AUTH),
    ("status-code", {"status_code": 401, "message": _KEY}, AUTH),
    ("status-code-dashscope", {"status_code": 429, "request_id": "1", "code": "Throttling",
                               "message": _FAST, "output": None, "usage": None}, RATE),
    ("tencent", {"Response": {"Error": {"Code": "AuthFailure.SecretIdNotFound",
                                        "Message": "The SecretId is not found"},
                              "RequestId": "1"}}, AUTH),
    ("tencent-limit", {"Response": {"Error": {"Code": "LimitExceeded.Frequency", "Message":
                       _FAST}, "RequestId": "1"}}, RATE),
    ("volcengine", {"ResponseMetadata": {"RequestId": "1", "Action": "Chat", "Error":
                    {"CodeN": 100010, "Code": "SignatureDoesNotMatch", "Message":
                     "The request signature we calculated does not match"}}}, AUTH),
    ("spark", {"header": {"code": 11201, "message": "Daily flow control limit reached",
                          "sid": "a", "status": 2}}, QUOTA),
    ("minimax", {"base_resp": {"status_code": 1004, "status_msg": "login fail: bad api key"}},
     AUTH),
    ("minimax-choices", {"id": "1", "choices": None, "base_resp":
                         {"status_code": 1008, "status_msg": "insufficient balance"}}, QUOTA),
    ("clova", {"status": {"code": "42901", "message": "Too many requests"}, "result": None}, RATE),
    ("clova-key", {"status": {"code": "40103", "message": "Invalid API key"}}, AUTH),
)  # fmt: skip

# Bodies that are no JSON objects.
TEXTS: Final[tuple[tuple[str, bytes, str], ...]] = (
    ("envoy", b"upstream connect error or disconnect/reset before headers. reset reason: timeout",
     PROVIDER),
    ("internal", b"Internal Server Error", PROVIDER),
    ("limited", b"Rate limit exceeded", RATE),
    ("too-many", b"Too Many Requests\n", RATE),
    ("gateway", b"502 Bad Gateway", PROVIDER),
    ("no-healthy", b"no healthy upstream", PROVIDER),
    ("unauthorized", b"Unauthorized", AUTH),
    ("json-text", json.dumps("Invalid API key provided").encode(), AUTH),
    ("json-in-text", json.dumps(json.dumps({"error": {"message": _SPENT}})).encode(), QUOTA),
    ("array", json.dumps([{"error": {"code": 503, "message": _BUSY}}]).encode(), PROVIDER),
    ("array-of-codes", json.dumps([{"code": 429, "msg": _FAST}]).encode(), RATE),
    ("lines", b'{"code": 40103, "msg": "%s"}\n{"end": true}\n' % _KEY.encode(), AUTH),
    ("s3", b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>""", RATE),
    ("aws-query", b"""<ErrorResponse xmlns="https://iam.example/"><Error>
<Type>Sender</Type><Code>InvalidClientTokenId</Code>
<Message>The security token included in the request is invalid</Message>
</Error></ErrorResponse>""", AUTH),
    ("soap", b"""<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>
<soap:Fault><faultcode>soap:Server</faultcode>
<faultstring>Rate limit quota violation. Quota limit exceeded.</faultstring></soap:Fault>
</soap:Body></soap:Envelope>""", RATE),
    ("soap-12", b"""<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><s:Fault>
<s:Code><s:Value>s:Receiver</s:Value></s:Code>
<s:Reason><s:Text xml:lang="en">The service is overloaded</s:Text></s:Reason>
</s:Fault></s:Body></s:Envelope>""", PROVIDER),
    ("xml-problem", b"""<problem xmlns="urn:ietf:rfc:7807"><title>Unauthorized</title>
<status>401</status><detail>The API key is not valid</detail></problem>""", AUTH),
    ("xml-fault", b"<fault><faultstring>Invalid ApiKey</faultstring></fault>", AUTH),
)  # fmt: skip

_USAGE = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}


def _chat(content: str | None, **more: Any) -> dict[str, Any]:
    """Make an answer of a chat; what is more stands beside its choices."""
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice],
            "usage": _USAGE} | more  # fmt: skip


def _responses(*output: Any, **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "status": "completed", "model": "m",
            "error": None, "incomplete_details": None, "output": list(output),
            "usage": {"input_tokens": 9, "output_tokens": 7}} | more  # fmt: skip


def _messages(*content: Any, **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": list(content), "stop_reason": "end_turn",
            "usage": {"input_tokens": 9, "output_tokens": 7}} | more  # fmt: skip


def _interaction(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"id": "i", "object": "interaction", "model": "m", "status": "completed",
            "steps": list(steps), "usage": {"total_output_tokens": 7}} | more  # fmt: skip


def _gemini(*parts: Any, **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}
    return {"candidates": [candidate], "modelVersion": "m",
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 7}} | more  # fmt: skip


CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m:generateContent"
INTERACTIONS = "/v1/interactions"

_SAID = json.dumps({"error": {"code": 429, "message": _FAST}, "status": "error", "success": False})
_TEXT = {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": _SAID}]}  # fmt: skip


# Whole answers without a failure: a name, the path, the body.
def _output(said: str) -> dict[str, Any]:
    return {"type": "model_output", "content": [{"type": "text", "text": said}]}


HEALTHY: Final[tuple[tuple[str, str, Any], ...]] = (
    ("says-json", CHAT, _chat(_SAID)),
    ("says-error", CHAT, _chat("Error: 429 Too Many Requests. Your API key is invalid.")),
    ("error-null", CHAT, _chat("a", error=None)),
    ("error-empty", CHAT, _chat("a", error={}, errors=[], err="", Error=None)),
    ("error-false", CHAT, _chat("a", error=False, fault=None)),
    ("error-none", CHAT, _chat("a", error="none")),
    ("error-blank-fields", CHAT, _chat("a", error={"code": None, "message": "", "type": ""})),
    ("code-null", CHAT, _chat("a", code=None, message=None)),
    ("code-0", CHAT, _chat("a", code=0, message="success")),
    ("code-200", CHAT, _chat("a", code=200, msg="OK")),
    ("error-code-0-and-text", "/worker_generate", {"error_code": 0, "text": _FAST}),
    ("code-1000", CHAT, _chat("a", code=1000, msg="request accepted")),
    ("code-20000", CHAT, _chat("a", code="20000", message="OK")),
    ("code-empty", CHAT, _chat("a", code="", message="")),
    ("code-other-success", CHAT, _chat("a", code=1, msg="success")),
    ("code-alone-beside-output", CHAT, _chat("a", code=7)),
    ("code-version", CHAT, _chat("a", code="v3.1")),
    ("status-completed", CHAT, _chat("a", status="completed")),
    ("status-object", CHAT, _chat("a", status={"code": "20000", "message": "OK"})),
    ("status-code-200", CHAT, _chat("a", status_code=200, statusCode=200)),
    ("other-spelling", CHAT, _chat("a", ErrCode=0, ErrMsg="", Success=True, HasError=False)),
    ("success", CHAT, _chat("a", success=True, message="ok", errors=[])),
    ("base-resp", CHAT, _chat("a", base_resp={"status_code": 0, "status_msg": ""})),
    ("message-object", CHAT, _chat("a", message={"role": "assistant", "content": _SAID})),
    ("message-text", CHAT, _chat("a", message="Invalid API key")),
    ("header", CHAT, _chat("a", header={"code": 0, "message": "Success", "sid": "1"})),
    ("x-groq", CHAT, _chat("a", x_groq={"id": "r", "usage": _USAGE})),
    ("metadata", CHAT, _chat("a", metadata={"error": _FAST, "success": False, "code": 429})),
    ("filters", CHAT, _chat("a", content_filter_results={"error": {
        "code": "content_filter_error", "message": "The contents are not filtered"}},
        prompt_filter_results=[{"prompt_index": 0, "content_filter_results":
                                {"error": {"code": "content_filter_error"}}}])),
    ("search", CHAT, _chat("a", search_results=[{"title": _FAST, "error": _KEY}],
                           citations=["https://e.example/429"])),
    ("debug-echo", CHAT, _chat("a", request={"error": _KEY}, input={"success": False},
                               arguments={"code": 429, "message": _FAST})),
    ("tool-call", CHAT, _chat(None) | {"choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": None, "tool_calls": [{"id": "t", "type":
        "function", "function": {"name": "report", "arguments": _SAID}}]}}]}),
    ("responses", RESPONSES, _responses(_TEXT)),
    ("responses-metadata", RESPONSES, _responses(_TEXT, metadata={
        "error": _FAST, "code": "429", "message": _KEY, "success": "false"})),
    ("responses-incomplete", RESPONSES, _responses(_TEXT, status="incomplete",
        incomplete_details={"reason": "max_output_tokens"})),
    ("responses-mcp", RESPONSES, _responses({"type": "mcp_call", "name": "t", "arguments": "{}",
        "status": "failed", "error": {"code": 500, "message": _BUSY}}, _TEXT)),
    ("responses-code", RESPONSES, _responses({"type": "code_interpreter_call", "code":
        "raise RuntimeError", "status": "failed", "outputs": None}, _TEXT)),
    ("responses-instructions", RESPONSES, _responses(_TEXT, instructions=_SAID, text={
        "format": {"type": "json_schema", "name": "error", "schema": {"error": _KEY}}})),
    ("messages", MESSAGES, _messages({"type": "text", "text": _SAID})),
    ("messages-tool-result", MESSAGES, _messages(
        {"type": "web_search_tool_result", "tool_use_id": "t", "content": {
            "type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
        {"type": "text", "text": "a"})),
    ("messages-mcp", MESSAGES, _messages(
        {"type": "mcp_tool_result", "is_error": True, "content": [
            {"type": "text", "text": _FAST}]}, {"type": "text", "text": "a"})),
    ("messages-tool-use", MESSAGES, _messages({"type": "tool_use", "id": "t", "name": "f",
        "input": {"error": _KEY, "status": "error"}}, stop_reason="tool_use")),
    ("gemini", GEMINI, _gemini({"text": _SAID})),
    ("gemini-call", GEMINI, _gemini({"functionCall": {"name": "f", "args": {"error": _KEY,
        "success": False}}})),
    ("gemini-code", GEMINI, _gemini({"codeExecutionResult": {"outcome": "OUTCOME_FAILED",
        "output": "Error: quota exceeded"}}, {"text": "a"})),
    ("interactions", INTERACTIONS, _interaction(_output(_SAID))),
    ("interactions-call", INTERACTIONS, _interaction({"type": "function_call", "id": "f", "name":
        "f", "arguments": {"error": _KEY, "success": False}}, status="requires_action")),
    ("interactions-tool", INTERACTIONS, _interaction({"type": "code_execution_result", "call_id":
        "c", "result": "Error: quota exceeded", "is_error": True}, _output("a"))),
    ("interactions-step", INTERACTIONS, _interaction({"type": "model_output", "error":
        {"code": 8, "message": _FAST}}, _output("a"))),
    ("interactions-faults", INTERACTIONS, _interaction(_output("a"), errors=[
        {"code": "rate_limit_exceeded", "message": _FAST}, {"code": 500, "message": _BUSY}])),
    ("interactions-labels", INTERACTIONS, _interaction(_output("a"), labels={"error": _KEY,
        "status": "failed"}, metadata={"error": _FAST})),
    ("interactions-stopped", INTERACTIONS, _interaction(status="budget_exceeded", errors=[
        {"code": "budget_exceeded", "message": "The budget is spent"}])),
    ("interactions-cancelled", INTERACTIONS, _interaction(status="cancelled", errors=[
        {"code": "cancelled", "message": "The client cancelled"}])),
    ("interactions-pending", INTERACTIONS, _interaction(status="in_progress", errors=[
        {"code": "api_error", "message": _BUSY}])),
    ("gemini-feedback", GEMINI, _gemini({"text": "a"}, promptFeedback={"safetyRatings": []})),
    ("gemini-blocked", GEMINI, {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage":
        "The prompt was blocked"}, "usageMetadata": {"promptTokenCount": 9}}),
    ("converse", "/model/m/converse", {"output": {"message": {"role": "assistant", "content": [
        {"text": _SAID}]}}, "stopReason": "end_turn", "usage": {"inputTokens": 9,
        "outputTokens": 7, "totalTokens": 16}, "metrics": {"latencyMs": 5},
        "trace": {"guardrail": {"error": _KEY}}}),
    ("cohere", "/v2/chat", {"id": "1", "finish_reason": "COMPLETE", "message": {"role":
        "assistant", "content": [{"type": "text", "text": _SAID}]}, "usage": {"tokens":
        {"input_tokens": 9, "output_tokens": 7}}}),
    ("ollama", "/api/chat", {"model": "m", "message": {"role": "assistant", "content": _SAID},
        "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 7}),
    ("ollama-generate", "/api/generate", {"model": "m", "response": _FAST, "done": True,
        "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 7}),
    ("dashscope", CHAT, {"status_code": 200, "request_id": "1", "code": "", "message": "",
        "output": {"text": _FAST, "finish_reason": "stop"}, "usage": {"input_tokens": 9}}),
    ("clova", "/v3/chat-completions/m", {"status": {"code": "20000", "message": "OK"},
        "result": {"message": {"role": "assistant", "content": _FAST}, "outputLength": 7}}),
    ("spark", CHAT, {"header": {"code": 0, "message": "Success", "status": 2}, "payload":
        {"choices": {"text": [{"content": _SPENT, "role": "assistant"}]}}}),
    ("cloudflare", "/client/v4/accounts/a/ai/run/m", {"success": True, "errors": [],
        "messages": [], "result": {"response": _FAST}}),
    ("predictions", "/v1/predictions", {"id": "p", "status": "succeeded", "error": None,
        "input": {"prompt": _KEY, "error": _FAST}, "logs": _BUSY, "output": [_SPENT]}),
    ("predictions-structured", "/v1/predictions", {"status": "succeeded", "output":
        {"error": _FAST, "success": False, "code": 429, "message": _KEY}}),
    ("embeddings", "/v1/embeddings", {"object": "list", "data": [{"object": "embedding",
        "index": 0, "embedding": [0.1]}], "model": "m", "usage": {"prompt_tokens": 2}}),
    ("images", "/v1/images/generations", {"created": 1, "data": [{"url": "https://e.example",
        "revised_prompt": _FAST}]}),
    ("mcp-tool", "/mcp", {"jsonrpc": "2.0", "id": 1, "result": {"isError": True, "content": [
        {"type": "text", "text": _FAST}]}}),
    ("greeting", CHAT, {"message": "Welcome to the gateway"}),
    ("greeting-with-version", CHAT, {"message": "The model server is ready", "version": "1.2"}),
    ("telemetry", "/api/ingest", {"status": "ok", "accepted": 3}),
    ("telemetry-207", "/api/public/ingestion", {"successes": [{"id": "1", "status": 201}],
                                                "errors": []}),
    ("webhook", "/hooks/1", {"message": "The event was queued", "id": "1"}),
    ("app-sentence", "/app/tasks", {"message": "Your quota is used up", "items": []}),
    ("graphql-data", "/graphql", {"data": {"error": None, "user": {"status": "failed"}}}),
    ("scraper", "/v1/scrape", {"success": True, "data": {"markdown": _FAST, "metadata":
        {"statusCode": 429, "error": _FAST}}}),
    ("echo", "/post", {"args": {}, "data": _SAID, "json": {"error": _KEY}, "headers": {}}),
    ("plain-endpoint", "/invocations", {"predictions": [{"error": _KEY}], "metadata":
        {"error": _FAST}}),
    ("moderation", "/v1/moderations", {"id": "1", "model": "m", "results": [{"flagged": True,
        "categories": {"error": False}}]}),
)  # fmt: skip

# Bodies that are no JSON objects, of which none is read as a failure: the path, the body.
HEALTHY_TEXTS: Final[tuple[tuple[str, str, bytes], ...]] = (
    ("ok", CHAT, b"OK"),
    ("null", CHAT, b"null"),
    ("empty-list", CHAT, b"[]"),
    ("number", CHAT, b"200"),
    ("pong", CHAT, b"pong"),
    ("queued", CHAT, b"Accepted"),
    ("true", CHAT, b"true"),
    ("transcript", "/v1/audio/transcriptions", b"Rate limit exceeded, said the speaker."),
    ("generated-text", "/generate", b"Internal Server Error"),
    ("page-elsewhere", "/hooks/1", b"Too Many Requests"),
    ("long-text", CHAT, b"Too many requests were counted in the city that year. " * 60),
    ("generated", "/generate", json.dumps([{"generated_text": _FAST}]).encode()),
    ("xml", CHAT, b"<answer><text>Rate limit exceeded</text></answer>"),
    ("svg", "/v1/images/generations", b"<svg><title>Error</title><desc>Unauthorized</desc></svg>"),
)  # fmt: skip
