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
from tests.proxy.wire.observing import SALT, call, head
from tests.proxy.wire.samples import JSON, chat, dump
from tests.tables import each

READ, EMPTY, UNREAD, UNSEEN = AnswerState


def fetched(path: str, body: bytes, type_: str = JSON, *, status: int = 200) -> Exchange:
    observer = CallObserver(call(path, method="GET"), salt=SALT)
    observer.on_response_head(status, head(type_), 100.5)
    observer.on_response_body(body, 101.0)
    return observer.finish(Ending.COMPLETE, 102.0)


_OPENAI_LINE = {"id": "l", "custom_id": "a", "error": None}
_ERROR = {"error": {"code": "rate_limit_exceeded", "message": "Rate limit reached for requests"}}
FAILED = _OPENAI_LINE | {"response": {"status_code": 429, "body": _ERROR}}


def test_a_video_longer_than_what_is_held_is_output_too() -> None:
    limits = ObserverLimits(body_bytes=1_000)
    observer = CallObserver(call("/v1/videos/v/content", method="GET"), salt=SALT, limits=limits)
    observer.on_response_head(200, head("video/mp4"), 100.5)
    observer.on_response_body(b"\x00\x00\x00\x18ftypmp42" * 200, 101.0)
    exchange = observer.finish(Ending.COMPLETE, 102.0)
    assert (exchange.answer_state, exchange.unreadable_reason is None) == (READ, False)
    failed = fetched("/v1/videos/v/content", b"\x00\x00\x00\x18", "video/mp4", status=500)
    assert failed.answer_state is None


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


@each("name", LIVES)
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


@each("header", ["location", "operation-location", "azure-asyncoperation"])
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
