"""Play the native answers of wires that have no dialect here, and what only looks like one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from classifier.logical_calls import CallState, calls_of, with_continuations
from classifier.records import AnswerState, Ending, Exchange, Kind
from proxy.capture.observer import CallObserver, ObserverLimits
from proxy.capture.request import Conversations
from proxy.wire.generic import WINDOW
from tests import tables
from tests.proxy.wire.observing import SALT, call, head, observed
from tests.proxy.wire.samples import EVENTS, JSON, SSE, dump, event, sse
from tests.tables import each


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """One answer as its server writes it, and what is to be read of it."""

    name: str
    path: str
    body: bytes
    type: str = JSON
    api: str = "opaque"
    totals: tuple[int | None, int | None] = (None, None)
    finish: str | None = None
    model: str | None = None
    calls: int | None = None


def _native(row: dict[str, Any]) -> Native:
    body = row["body"]
    read = {name: row[name] for name in ("api", "finish", "model", "calls") if name in row}
    return Native(
        name=row["name"],
        path=row["url"],
        body=body.encode() if isinstance(body, str) else dump(body),
        type=row.get("headers", {}).get("content-type", JSON),
        totals=tuple(row["totals"]),
        **read,
    )


ROWS = tables.lines(Path(__file__).parents[2] / "answers" / "native.jsonl")


def openai(**more: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": "It is true."}
    return {
        "id": "c", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "message": told, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    } | more  # fmt: skip


# At a path of no dialect: a POST becomes an inference call by what is read.
NATIVE = (
    *(_native(row) for row in ROWS if row["set"] == "elsewhere"),
    Native(name="converse-elsewhere", path="/gw/bedrock",  # botocore, service-2.json
           type=EVENTS, api="bedrock.converse", totals=(4, 2), finish="end_turn", calls=0,
           body=event("contentBlockDelta", {"delta": {"text": "Hi"}, "contentBlockIndex": 0})
           + event("messageStop", {"stopReason": "end_turn"})
           + event("metadata", {"usage": {"inputTokens": 4, "outputTokens": 2}})),
)  # fmt: skip
# At a path that is known to be one of model calls.
KNOWN = tuple(_native(row) for row in ROWS if row["set"] == "known")
# What no model wrote: telemetry, embedding, moderation, scraping, searching, tools, stored rows.
LOOK_ALIKES = {row["name"]: (row["url"], row["body"]) for row in ROWS if row["set"] == "no model"}


def check(native: Native) -> None:
    exchange = observed(native.body, native.path, type_=native.type)
    assert exchange.cause is None
    assert (exchange.kind, exchange.inferred) == (Kind.INFERENCE, True)
    assert exchange.answer_state is AnswerState.READ
    assert (exchange.output_seen, exchange.content_seen) == (True, True)
    usage = exchange.usage
    assert (exchange.api, usage.input_total, usage.output_total) == (native.api, *native.totals)
    assert (exchange.finish_reason, exchange.answered_model) == (native.finish, native.model)
    if native.calls is not None:
        assert exchange.tool_calls == native.calls


@each("native", NATIVE, ids=lambda native: native.name)
def test_a_post_whose_answer_holds_output_is_a_model_call(native: Native) -> None:
    opened = CallObserver(call(native.path), salt=SALT).in_flight()
    assert (opened.kind, opened.inferred) == (Kind.OTHER, None)
    check(native)


@each("native", KNOWN, ids=lambda native: native.name)
def test_a_model_call_is_read_in_the_shape_of_its_own_wire(native: Native) -> None:
    assert CallObserver(call(native.path), salt=SALT).in_flight().kind is Kind.INFERENCE
    check(native)


@each("native", (*NATIVE, *KNOWN), ids=lambda native: native.name)
def test_the_same_is_read_however_the_bytes_are_cut(native: Native) -> None:
    pieces = [native.body[at : at + 7] for at in range(0, len(native.body), 7)]
    assert observed(pieces, native.path, type_=native.type).answer_state is AnswerState.READ


# --- what only looks like an answer ------------------------------------------------------------


@each("name", LOOK_ALIKES)
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


@each("cut", [0, 1, 2, 3, 5, 8, 13, 40, 41, 42, 60])
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


# --- short answers, which the question explains ------------------------------------------------


@each("name", LOOK_ALIKES)
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


@each("name", FETCHED)
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
