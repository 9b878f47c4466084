"""Batches, their lines of results, and media: output of a model, or a failure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import AnswerState, Ending, Exchange, Kind
from classifier.rules import judge
from classifier.verdicts import Health, Subcategory, Verdict
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import Conversations
from tests.builders import rollout
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


# --- work in the background: what an answer began, and what fetches it by its id -----------------


FOUR = chat({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11})
PENDING = dump({"status": "pending"})
DEFERRED = "/v1/chat/deferred-completion/f15c"
_QUESTION = {"model": "m", "messages": [{"role": "user", "content": "?"}], "deferred": True}
_PROMPT = {"model": "m", "prompt": "a cat"}
_FAL = {
    "request_id": "r-1", "queue_position": 0, "response_url": "https://queue/fal/requests/r-1",
    "status_url": "https://queue/fal/requests/r-1/status",
}  # fmt: skip
_FILM = {"status": "done", "video": {"url": "https://x/v.mp4", "duration": 8}, "model": "m"}
_PICTURE = {"images": [{"url": "https://x/1.png", "content_type": "image/png"}], "prompt": "a cat"}

Step = tuple[str, dict[str, Any] | None, int, bytes, str]  # path, question, status, answer, type


def asks(path: str, answer: object, question: dict[str, Any] = _PROMPT, status: int = 200) -> Step:
    return path, question, status, dump(answer), JSON


def gets(path: str, answer: bytes | object = b"", status: int = 200, type_: str = JSON) -> Step:
    return path, None, status, answer if isinstance(answer, bytes) else dump(answer), type_


def lived(
    *steps: Step, headers: dict[str, str] | None = None, **registered: Any
) -> tuple[list[Exchange], Verdict]:
    """Return the calls of a rollout, one a second, and its verdict; headers are of each answer."""
    conversations, calls = Conversations(b"of these tests"), []
    for at, (path, question, status, answer, type_) in enumerate(steps):
        method = "GET" if question is None else "POST"
        where, _, query = path.partition("?")
        one = replace(call(where, method=method), id=f"x{at}", started_at=1_800_000_000.0 + at,
                      query=query.encode())  # fmt: skip
        observer = CallObserver(one, salt=SALT, conversations=conversations)
        if question is not None:
            observer.on_request_body(dump(question))
        observer.on_response_head(status, head(type_, headers), 100.1)
        if answer:
            observer.on_response_body(answer, 100.2)
        calls.append(observer.finish(Ending.COMPLETE, 100.5))
    return calls, judge(replace(rollout("", **registered), exchanges=tuple(calls)))


DEFERS = asks("/v1/chat/completions", {"request_id": "f15c"}, _QUESTION)
_WAITS = gets(DEFERRED, status=202)
_FILMS = asks("/v1/videos/generations", {"request_id": "vid-1"})
LIVES: dict[str, tuple[tuple[Step, ...], str]] = {
    "a deferred completion": ((DEFERS, _WAITS, _WAITS, gets(DEFERRED, FOUR)), "healthy"),
    "one that was there at once": ((DEFERS, gets(DEFERRED, FOUR)), "healthy"),
    "one whose polls have a body": ((DEFERS, gets(DEFERRED, PENDING, 202),
                                     gets(DEFERRED, FOUR)), "healthy"),
    "one that was never fetched": ((DEFERS,), "never_answered"),
    "one that never was there": ((DEFERS, _WAITS, _WAITS), "never_answered"),
    "one that failed": ((DEFERS, _WAITS, gets(DEFERRED, {"error": {
        "code": "insufficient_quota", "message": "You exceeded your quota"}}, 429)), "all_failed"),
    "one that failed in a 200": ((DEFERS, gets(DEFERRED, {"status": "failed"})), "all_failed"),
    "one that expired": ((DEFERS, gets(DEFERRED, {"status": "expired"})), "all_failed"),
    "a job of chats under another name": ((
        asks("/v1/chat/completions", {"job_id": "j-9"}, _QUESTION),
        gets("/v1/jobs/j-9", {"status": "running"}, 202),
        gets("/v1/jobs/j-9/result", FOUR)), "healthy"),
    "messages in the background": ((
        asks("/v1/messages", {"requestId": "q.7"}, _QUESTION),
        gets("/v1/results/q.7", status=202), gets("/v1/results/q.7", {
            "type": "message", "role": "assistant", "content": [{"type": "text", "text": "4"}],
            "stop_reason": "end_turn"})), "healthy"),
    "a job that names its reason": ((
        asks("/v1/chat/completions", {"jobId": "j-9"}, _QUESTION),
        gets("/v1/jobs/j-9", {"data": {"state": "FAILED", "message": "no credit left"}})),
        "all_failed"),
    "a film": ((_FILMS, gets("/v1/videos/vid-1", status=202),
                gets("/v1/videos/vid-1", PENDING, 202),
                gets("/v1/videos/vid-1", _FILM)), "healthy"),
    "a film that failed": ((_FILMS, gets("/v1/videos/vid-1", {
        "status": "failed", "error": {"code": "internal_error", "message": "it broke"}})),
        "all_failed"),
    "a film that expired": ((_FILMS, gets("/v1/videos/vid-1", {"status": "expired"})),
                            "all_failed"),
    "a film that never was there": ((_FILMS, gets("/v1/videos/vid-1", status=202)), "zero_signal"),
    "a film that was edited": ((asks("/v1/videos/edits", {"request_id": "vid-1"}),
                                gets("/v1/videos/vid-1", _FILM)), "healthy"),
    "pictures of a queue": ((asks("/fal/flux", _FAL),
                             gets("/fal/flux/requests/r-1/status", {"status": "IN_PROGRESS"}, 202),
                             gets("/fal/flux/requests/r-1/status", {"status": "COMPLETED"}),
                             gets("/fal/flux/requests/r-1", _PICTURE)), "healthy"),
    "a picture in bytes": ((asks("/fal/flux", _FAL),
                            gets("/fal/flux/requests/r-1", b"\x89PNG\r\n\x1a\n" + bytes(64),
                                 type_="image/png")), "healthy"),
    "a text of a queue": ((asks("/fal/llm", {"status": "IN_QUEUE", "request_id": "r-1"}),
                           gets("/fal/llm/requests/r-1", {"output": "A cat is a small animal.",
                                "model": "m"})), "healthy"),
    "a queue of which nothing came": ((asks("/fal/flux", _FAL),
                                       gets("/fal/flux/requests/r-1/status",
                                            {"status": "IN_PROGRESS"}, 202)), "zero_signal"),
    "bytes that are no picture": ((asks("/fal/flux", _FAL),
                                   gets("/fal/flux/requests/r-1", b"\x00\x01" * 40,
                                        type_="application/octet-stream")), "zero_signal"),
    "a log server's word": ((asks("/v1/traces", {"request_id": "t"}, {"spans": []}),
                             gets("/v1/traces/t", {"status": "ok"})), "zero_signal"),
    "a picture that nobody asked for": ((asks("/log", {"ok": True}),
                                         gets("/logo", b"\x89PNG" + bytes(64),
                                              type_="image/png")), "zero_signal"),
    "an empty 202 to a question": ((asks("/v1/chat/completions", {"id": "x"}, _QUESTION),),
                                   "unread_answers"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIVES)
def test_work_in_the_background_is_judged_by_what_was_fetched(name: str) -> None:
    steps, rule = LIVES[name]
    _, verdict = lived(*steps)
    assert verdict.rule == rule
    assert verdict.scoreable == ("yes" if rule == "healthy" else "no")


def test_what_fetches_goes_on_with_the_call_and_the_question_that_began_it() -> None:
    calls, verdict = lived(*LIVES["a deferred completion"][0])
    assert [x.kind for x in calls] == [Kind.INFERENCE, *[Kind.CONTINUATION] * 3]
    assert len({x.response_digest for x in calls}) == 1
    assert [x.pending for x in calls] == [True, True, True, None]
    assert (verdict.total_requests, verdict.failed_requests) == (1, 0)
    assert verdict.total_tokens == 11
    assert verdict.lane is not None
    assert verdict.lane.startswith("any/m")


def test_a_failed_job_has_its_own_cause() -> None:
    _, verdict = lived(*LIVES["one that failed"][0])
    assert (verdict.subcategory, verdict.transient) == (Subcategory.QUOTA, False)
    _, verdict = lived(*LIVES["a job that names its reason"][0])
    assert verdict.subcategory is Subcategory.QUOTA
    failed = (asks("/fal/llm", _FAL), gets("/fal/llm/requests/r-1/status", {
        "status": "FAILED", "error": "Exhausted balance: top up your account"}))  # fmt: skip
    _, verdict = lived(*failed, upstream="any", model="m")
    assert (verdict.rule, verdict.subcategory) == ("all_failed", Subcategory.QUOTA)


def test_pictures_and_films_are_no_inference_calls() -> None:
    for name in ("a film", "pictures of a queue", "a picture in bytes"):
        calls, verdict = lived(*LIVES[name][0])
        assert calls[-1].kind is Kind.ACTIVITY, name
        assert verdict.total_requests == 0
        assert verdict.proof is not None
        assert verdict.proof.last == calls[-1].id


# Answers that begin work, and what is asked for it: the id has any name, and any place.
_HANDED = {"ticket": "k-77", "eta": "soon enough, we hope"}
ECHOED: dict[str, tuple[object, str]] = {
    "one level down": ({"code": 0, "data": {"task_id": "k-77"}}, "/v1/tasks/query/k-77"),
    "two levels down": ({"data": {"job": {"id": "k-77"}}}, "/v1/jobs/k-77"),
    "another name": (_HANDED, "/v1/tickets/k-77"),
    "a uuid": ({"uuid": "0f3c-77", "created_at": 1}, "/jobs/0f3c-77/result"),
    "a number": ({"runId": 77123}, "/runs/77123/output"),
    "a name with slashes": ({"name": "operations/op-77"}, "/v1/x/operations-of/op-77"),
    "in an address": ({"status_url": "https://q.example/v2/requests/k-77/status?x=1",
                       "response_url": "https://q.example/v2/requests/k-77"},
                      "/v2/requests/k-77/status"),
    "in the query": ({"task_id": "k-77", "base_resp": {"status_code": 0}},
                     "/v1/query/chat?task_id=k-77"),
}  # fmt: skip


@pytest.mark.parametrize("name", ECHOED)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_a_get_goes_on_with_the_answer_whose_id_it_echoes(name: str, path: str) -> None:
    answer, where = ECHOED[name]
    began = asks(path, answer, _QUESTION)
    calls, verdict = lived(began, gets(where, status=202), gets(where, FOUR))
    assert [x.kind for x in calls] == [Kind.INFERENCE, *[Kind.CONTINUATION] * 2]
    assert len({x.response_digest for x in calls}) == 1
    assert (verdict.rule, verdict.scoreable, verdict.total_requests) == ("healthy", "yes", 1)
    _, verdict = lived(began, gets(where, {"status": "failed", "error": "no credit left"}))
    assert (verdict.rule, verdict.subcategory) == ("all_failed", Subcategory.QUOTA)
    _, verdict = lived(began, gets("/v1/others/k-78", FOUR))
    assert verdict.health is not Health.HEALTHY


@pytest.mark.parametrize("header", ["location", "operation-location", "azure-asyncoperation"])
def test_a_get_goes_on_where_a_header_says(header: str) -> None:
    place = {header: "https://p.example/openai/operations/op-77?api-version=2026-01-01"}
    here, other = "/openai/operations/op-77", "/openai/op-78"
    for said, where, rule in ((b"", here, "healthy"), (b"Accepted", here, "healthy"),
                              (b"", other, ""), (b"", "/v1/models/op-77", "")):  # fmt: skip
        began = ("/v1/chat/completions", _QUESTION, 202, said, JSON)
        calls, verdict = lived(began, gets(where, FOUR), headers=place)
        assert (calls[-1].kind is Kind.CONTINUATION) is bool(rule)
        assert (verdict.rule == "healthy") is bool(rule)


def test_an_answer_that_was_read_begins_nothing() -> None:
    answer = {**json.loads(FOUR), "job_id": "k-77"}
    calls, _ = lived(asks("/v1/chat/completions", answer, _QUESTION), gets("/v1/jobs/k-77", FOUR))
    assert [x.kind for x in calls] == [Kind.INFERENCE, Kind.OTHER]


def test_at_a_path_of_no_api_an_id_needs_a_job_s_name() -> None:
    for answer, found in (({"task_id": "k-77"}, True), ({"event_id": "k-77"}, False)):
        calls, _ = lived(asks("/v9/anything", answer, _QUESTION), gets("/v9/anything/k-77", FOUR))
        assert (calls[-1].kind is Kind.INFERENCE) is found


def test_an_id_is_found_anywhere_in_a_path_and_another_is_not() -> None:
    began = asks("/v1/chat/completions", {"request_id": "b-c"}, _QUESTION)
    for path, found in (
        ("/v1/x/b-c", True), ("/v1/x/b%2Dc/result/1", True), ("/b-c/x", True),
        ("/v1/x/b", False), ("/v1/x/b-c-d", False), ("/v1/x?id=b-c", True), ("/v1/x?b-c", False),
    ):  # fmt: skip
        calls, _ = lived(began, gets(path, FOUR))
        assert (calls[-1].kind is Kind.CONTINUATION) is found, path
