"""Batches, their lines of results, and media: output of a model, or a failure."""

from __future__ import annotations

from typing import Any

import pytest

from classifier.records import AnswerState, Ending, Exchange, Kind
from classifier.verdicts import Subcategory
from proxy.capture.observer import CallObserver, ObserverLimits
from tests.proxy.wire.observing import SALT, call, head, observed
from tests.proxy.wire.samples import JSON, SSE, chat, dump, lines, message, named

READ, EMPTY, UNREAD, UNSEEN = AnswerState
JSONL = "application/x-jsonl"


def fetched(path: str, body: bytes, type_: str = JSON, *, status: int = 200) -> Exchange:
    observer = CallObserver(call(path, method="GET"), salt=SALT)
    observer.on_response_head(status, head(type_), 100.5)
    observer.on_response_body(body, 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


def openai(status: str, completed: int = 0, failed: int = 0, **more: Any) -> dict[str, Any]:
    """Write a batch as platform.openai.com/docs/api-reference/batch/object has it."""
    return {"id": "batch_1", "object": "batch", "status": status, "errors": None,
            "output_file_id": None, "request_counts":
            {"total": 2, "completed": completed, "failed": failed}} | more  # fmt: skip


def anthropic(status: str, **counts: int) -> dict[str, Any]:
    """Write a batch as docs.claude.com/en/api/retrieving-message-batches has it."""
    every = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    return {"id": "msgbatch_1", "type": "message_batch", "processing_status": status,
            "request_counts": every | counts, "results_url": None}  # fmt: skip


def gemini(state: str, *, done: bool, **stats: str) -> dict[str, Any]:
    """Write an operation as ai.google.dev/api/batch-api has it: counts are texts."""
    told = {"name": "batches/b", "metadata": {"state": f"BATCH_STATE_{state}", "batchStats": stats}}
    return told | ({"done": True} if done else {})


OPENAI, ANTHROPIC, GEMINI = "/v1/batches/batch_1", "/v1/messages/batches/m", "/v1beta/batches/b"
BEDROCK = "/model-invocation-job/arn"

STATES: dict[str, tuple[str, object, AnswerState | None]] = {
    "openai validating": (OPENAI, openai("validating"), EMPTY),
    "openai in progress": (OPENAI, openai("in_progress"), EMPTY),
    "openai partly there": (OPENAI, openai("in_progress", 1), READ),
    "openai completed": (OPENAI, openai("completed", 2), READ),
    "openai partly failed": (OPENAI, openai("completed", 1, 1), READ),
    "openai expired, partly there": (OPENAI, openai("expired", 1, 1), READ),
    "openai of nothing": (OPENAI, openai("completed"), EMPTY),
    "openai all failed": (OPENAI, openai("completed", 0, 2), None),
    "openai failed": (OPENAI, openai("failed"), None),
    "openai expired": (OPENAI, openai("expired", 0, 2), None),
    "openai cancelled": (OPENAI, openai("cancelled"), None),
    "anthropic in progress": (ANTHROPIC, anthropic("in_progress", processing=2), EMPTY),
    "anthropic ended": (ANTHROPIC, anthropic("ended", succeeded=2), READ),
    "anthropic partly": (ANTHROPIC, anthropic("ended", succeeded=1, errored=1), READ),
    "anthropic all errored": (ANTHROPIC, anthropic("ended", errored=2), None),
    "anthropic expired": (ANTHROPIC, anthropic("ended", expired=2), None),
    "anthropic canceled": (ANTHROPIC, anthropic("ended", canceled=2), None),
    "gemini pending": (GEMINI, gemini("PENDING", done=False), EMPTY),
    "gemini running": (GEMINI, gemini("RUNNING", done=False, pendingRequestCount="2"), EMPTY),
    "gemini succeeded": (GEMINI, gemini("SUCCEEDED", done=True, successfulRequestCount="2"), READ),
    "gemini failed": (GEMINI, gemini("FAILED", done=True, failedRequestCount="2"), None),
    "gemini expired": (GEMINI, gemini("EXPIRED", done=True), None),
    "gemini inlined": (GEMINI, {"name": "batches/b", "done": True, "response": {
        "inlinedResponses": {"inlinedResponses": [{"response": {"candidates": []}}]}}}, READ),
    "gemini inlined errors": (GEMINI, {"name": "batches/b", "done": True,
        "metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "response": {"inlinedResponses": {
            "inlinedResponses": [{"error": {"code": 8, "message": "exhausted"}}]}}}, EMPTY),
    "vertex": ("/v1/projects/p/locations/l/batchPredictionJobs/1", {
        "name": "projects/p/locations/l/batchPredictionJobs/1", "state": "JOB_STATE_SUCCEEDED",
        "completionStats": {"successfulCount": "3"}}, READ),
    "mistral": ("/v1/batch/jobs/j", {"id": "j", "object": "batch", "status": "SUCCESS",
                                     "succeeded_requests": 3, "failed_requests": 0}, READ),
    "mistral timed out": ("/v1/batch/jobs/j", {"id": "j", "object": "batch", "status":
                          "TIMEOUT_EXCEEDED", "succeeded_requests": 0}, None),
    "bedrock running": (BEDROCK, {"jobArn": "a/j", "status": "InProgress"}, EMPTY),
    "bedrock failed": (BEDROCK, {"jobArn": "a/j", "status": "Failed", "message": "no access"},
                       None),
    "bedrock counted": (BEDROCK, {"jobArn": "a/j", "status": "Completed",
                                  "successRecordCount": 2}, READ),
    "bedrock video": ("/async-invoke/arn%3Aa", {"invocationArn": "a/i", "status": "Completed",
                      "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://b"}}}, READ),
    "bedrock video failed": ("/async-invoke/arn%3Aa", {"invocationArn": "a/i", "status": "Failed",
                             "failureMessage": "The content was blocked."}, None),
    "veo running": ("/v1beta/models/veo-3/operations/o", {"name": "models/veo-3/operations/o"},
                    EMPTY),
    "veo done": ("/v1beta/models/veo-3/operations/o", {"name": "models/veo-3/operations/o",
                 "done": True, "response": {"generateVideoResponse": {"generatedSamples": [{}]}}},
                 READ),
    "veo failed": ("/v1beta/models/veo-3/operations/o", {"name": "models/veo-3/operations/o",
                   "done": True, "error": {"code": 8, "message": "Resource has been exhausted"}},
                   None),
    "video queued": ("/v1/videos/v", {"id": "v", "object": "video", "status": "queued"}, EMPTY),
    "video done": ("/v1/videos/v", {"id": "v", "object": "video", "status": "completed"}, READ),
    "video failed": ("/v1/videos/v", {"id": "v", "object": "video", "status": "failed", "error":
                     {"code": "video_generation_failed", "message": "An error occurred."}}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_a_job_is_output_or_nothing_yet_or_a_failure(name: str) -> None:
    path, job, state = STATES[name]
    exchange = fetched(path, dump(job))
    assert (exchange.kind, exchange.answer_state) == (Kind.ACTIVITY, state)
    assert exchange.failed == (state is None)
    assert not (exchange.pending and exchange.failed)


@pytest.mark.parametrize(
    ("path", "job", "subcategory"),
    [
        (OPENAI, openai("failed", errors={"object": "list", "data": [
            {"code": "billing_hard_limit_reached", "message": "Billing hard limit has been reached."
             }]}), Subcategory.QUOTA),
        (OPENAI, openai("failed", errors={"object": "list", "data": [
            {"code": "model_not_found", "message": "The provided model is not supported."}]}),
         Subcategory.MODEL_NOT_FOUND),
        (OPENAI, openai("expired", 0, 2), Subcategory.PROVIDER_ERROR),
        (BEDROCK, {"jobArn": "a/j", "status": "Failed", "message":
                   "Too many requests, please wait before trying again"}, Subcategory.RATE_LIMIT),
    ],
)  # fmt: skip
def test_a_failed_job_has_the_cause_that_it_states(
    path: str, job: object, subcategory: Subcategory
) -> None:
    cause = fetched(path, dump(job)).cause
    assert cause is not None
    assert cause.subcategory is subcategory


_OPENAI_LINE = {"id": "l", "custom_id": "a", "error": None}
_ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes"}}]}
_ERROR = {"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached for requests"}}
DONE = _OPENAI_LINE | {"response": {"status_code": 200, "body": _ANSWER}}
FAILED = _OPENAI_LINE | {"response": {"status_code": 429, "body": _ERROR}}
EXPIRED = _OPENAI_LINE | {"response": None, "error": {"code": "batch_expired", "message":
          "This request could not be executed before the completion window expired."}}  # fmt: skip
SUCCEEDED = {"custom_id": "a", "result": {"type": "succeeded", "message": {"content": []}}}
ERRORED = {"custom_id": "a", "result": {"type": "errored", "error": {"type": "error", "error":
           {"type": "overloaded_error", "message": "Overloaded"}}}}  # fmt: skip
LINES: dict[str, tuple[str, list[object], AnswerState | None]] = {
    "openai": ("/v1/files/f/content", [DONE, DONE], READ),
    "openai, one": ("/v1/files/f/content", [DONE], READ),
    "openai, some": ("/v1/files/f/content", [FAILED, DONE, EXPIRED], READ),
    "openai, errors": ("/v1/files/f/content", [FAILED, FAILED], None),
    "openai, expired": ("/v1/files/f/content", [EXPIRED], None),
    "anthropic": ("/v1/messages/batches/m/results", [SUCCEEDED, ERRORED], READ),
    "anthropic, errors": ("/v1/messages/batches/m/results", [ERRORED, ERRORED], None),
    "anthropic, expired": ("/v1/messages/batches/m/results",
                           [{"custom_id": "a", "result": {"type": "expired"}}], None),
    "gemini": ("/v1beta/files/f:download", [{"key": "a", "response": {"candidates": []}}], READ),
    "gemini, errors": ("/v1beta/files/f:download", [{"key": "a", "error": {"code": 8, "message":
                       "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}], None),
    "what was uploaded": ("/v1/files/f/content", [
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}], UNREAD),
    "another file": ("/v1/files/f/content", [{"text": "It is true."}, {"text": "No."}], UNREAD),
}  # fmt: skip


@pytest.mark.parametrize("type_", [JSONL, "application/jsonl", "application/octet-stream"])
@pytest.mark.parametrize("name", LINES)
def test_a_line_of_results_is_output_where_a_request_was_answered(name: str, type_: str) -> None:
    path, told, state = LINES[name]
    exchange = fetched(path, lines(*told), type_)
    assert (exchange.kind, exchange.answer_state) == (Kind.ACTIVITY, state)
    assert exchange.failed == (state is None)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/files", {"id": "file-1", "object": "file", "status": "processed"}),
        ("/v1/uploads", {"id": "upload_1", "object": "upload", "status": "pending"}),
        ("/v1/batches", openai("validating")),
        ("/v1/messages/batches", anthropic("in_progress", processing=2)),
        ("/v1beta/models/g:batchGenerateContent", gemini("PENDING", done=False)),
        ("/v1/videos", {"id": "v", "object": "video", "status": "queued"}),
        ("/async-invoke", {"invocationArn": "arn:aws:bedrock:us-east-1:1:async-invoke/i"}),
        ("/model-invocation-job", {"jobArn": "arn:aws:bedrock:us-east-1:1:j/i"}),
        ("/v1beta/models/veo-3:predictLongRunning", {"name": "models/veo-3/operations/o"}),
    ],
)  # fmt: skip
def test_what_was_uploaded_or_created_is_no_output(path: str, told: object) -> None:
    exchange = observed(dump(told), path)
    assert (exchange.kind, exchange.cause) == (Kind.ACTIVITY, None)
    assert exchange.answer_state in (EMPTY, UNREAD)


def test_a_refused_job_is_the_failure_that_its_status_says() -> None:
    refused = dump({"error": {"message": "You exceeded your current quota", "type":
                    "insufficient_quota", "code": "insufficient_quota"}})  # fmt: skip
    exchange = observed(refused, "/v1/batches", status=429)
    assert exchange.answer_state is None
    assert exchange.cause is not None
    assert exchange.cause.subcategory is Subcategory.QUOTA


MADE: dict[str, tuple[str, bytes, str, AnswerState]] = {
    "speech": ("/v1/audio/speech", b"ID3\x03\x00\x00sound", "audio/mpeg", READ),
    "speech, wave": ("/v1/audio/speech", b"RIFF\x24\x00\x00\x00WAVE", "audio/wav", READ),
    "speech, events": ("/v1/audio/speech", named({"type": "speech.audio.delta", "audio": "SUQz"},
                       {"type": "speech.audio.done"}), SSE, READ),
    "transcript": ("/v1/audio/transcriptions", dump({"text": "It is true."}), JSON, READ),
    "transcript, text": ("/v1/audio/transcriptions", b"It is true.\n", "text/plain", READ),
    "transcript, events": ("/v1/audio/transcriptions", named(
        {"type": "transcript.text.delta", "delta": "It"},
        {"type": "transcript.text.done", "text": "It is"}), SSE, READ),
    "silence": ("/v1/audio/transcriptions", dump({"text": ""}), JSON, EMPTY),
    "picture": ("/v1/images/generations", dump({"data": [{"url": "https://x/p.png"}]}), JSON, READ),
    "picture, events": ("/v1/images/edits", named({"type": "image_generation.completed",
                        "b64_json": "iVBO"}), SSE, READ),
    "imagen": ("/v1beta/models/imagen-4:predict", dump({"predictions": [
        {"mimeType": "image/png", "bytesBase64Encoded": "iVBO"}]}), JSON, READ),
    "pages": ("/v1/ocr", dump({"pages": [{"index": 0, "markdown": "It"}]}), JSON, READ),
    "nothing known": ("/v1/images/generations", dump({"created": 1}), JSON, UNREAD),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_media_are_output(name: str) -> None:
    path, body, type_, state = MADE[name]
    exchange = observed(body, path, type_=type_)
    assert (exchange.kind, exchange.answer_state) == (Kind.ACTIVITY, state)
    assert (exchange.cause, exchange.inferred) == (None, False)


def test_a_video_longer_than_what_is_held_is_output_too() -> None:
    limits = ObserverLimits(body_bytes=1_000)
    observer = CallObserver(call("/v1/videos/v/content", method="GET"), salt=SALT, limits=limits)
    observer.on_response_head(200, head("video/mp4"), 100.5)
    observer.on_response_body(b"\x00\x00\x00\x18ftypmp42" * 200, 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert (exchange.answer_state, exchange.unreadable_reason is None) == (READ, False)
    failed = fetched("/v1/videos/v/content", b"\x00\x00\x00\x18", "video/mp4", status=500)
    assert failed.answer_state is None


def test_an_error_inside_a_success_is_a_failed_activity() -> None:
    exchange = observed(dump({"error": {"message": "Overloaded", "type": "server_error"}}),
                        "/v1/images/generations")  # fmt: skip
    assert exchange.cause is not None
    assert observed(chat(None), "/v1/files").answer_state is UNREAD
    assert observed(message(None, {"type": "text", "text": "Hi"}), "/v1/batches").inferred is False
