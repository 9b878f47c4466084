"""Calls as spans: the conventions' names, the agent's own trace, and no content."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from classifier.records import Cause, Exchange, Kind, Timing, Usage
from classifier.rules import judge
from classifier.verdicts import Level, Subcategory, ValidityFinding
from proxy.features.traces import exporter
from proxy.features.traces.exporter import Traces
from proxy.recording.backlog import FlushResult
from proxy.routing.upstreams import allow_list
from tests.builders import calls, exchange, rollout
from tests.fakes import answers
from tests.proxy.api.test_routes import PATIENCE_S, Service, serving
from tests.waiting import until
from truezero.cli import app

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SECRET = "SECRET-a1b2"


def spans(*exchanges: Exchange) -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    made = Traces(SimpleSpanProcessor(kept), allow_list({}), worker="w1")
    made.observe(FlushResult(ended=exchanges, waited_s=[], took_s=0.0))
    return list(kept.get_finished_spans())


def span(call: Exchange) -> ReadableSpan:
    (only,) = spans(call)
    return only


def said(call: Exchange) -> Mapping[str, Any]:
    return dict(span(call).attributes or {})


# --- one span ------------------------------------------------------------------------------


def test_a_call_is_a_client_span_with_the_conventions_names() -> None:
    call = exchange(
        id="x1",
        rollout_id="r1",
        answered_model="gpt-5-0807",
        streamed=True,
        timing=Timing(started_at=100.0, first_byte_s=0.2, first_token_s=0.5, duration_s=2.0),
        usage=Usage(
            input_total=10, output_total=20, cached_input_tokens=4, cache_write_tokens=1,
            reasoning_tokens=7,
        ),
    )  # fmt: skip
    made = span(call)
    assert (made.name, made.kind) == ("chat gpt-5", SpanKind.CLIENT)
    assert (made.start_time, made.end_time) == (100_000_000_000, 102_000_000_000)
    assert made.status.status_code is StatusCode.UNSET
    assert dict(made.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.conversation.id": "r1",
        "session.id": "r1",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "gpt-5-0807",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "gen_ai.usage.reasoning.output_tokens": 7,
        "server.address": "api.openai.com",
        "server.port": 443,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "truezero.exchange.id": "x1",
        "truezero.api": "openai.chat",
        "truezero.role": "agent",
        "truezero.ending": "complete",
    }


def test_a_failed_call_is_an_error_without_a_message() -> None:
    made = span(exchange(429, usage=Usage()))
    assert (made.status.status_code, made.status.description) == (StatusCode.ERROR, None)
    assert not made.events
    attributes = made.attributes or {}
    assert attributes["error.type"] == "429"
    assert attributes["truezero.subcategory"] == "rate_limit"
    assert attributes["truezero.transient"] is True


@pytest.mark.parametrize(
    ("call", "error_type"),
    [
        (calls("200")[0], None),
        (calls("503")[0], "503"),
        (calls("net")[0], "network"),
        (calls("200+truncated")[0], "truncated"),
        (
            exchange(
                429,
                cause=Cause(
                    subcategory=Subcategory.QUOTA, transient=False, rule="r",
                    code="insufficient_quota",
                ),
            ),
            "insufficient_quota",
        ),
        (
            exchange(
                cause=Cause(subcategory=Subcategory.PROVIDER_ERROR, transient=True, rule="r")
            ),
            "provider_error",
        ),
    ],
)  # fmt: skip
def test_an_errors_type_is_its_code_else_its_status_else_its_reason(
    call: Exchange, error_type: str | None
) -> None:
    assert said(call).get("error.type") == error_type


@pytest.mark.parametrize(
    ("upstream", "provider"),
    [
        ("openai", "openai"), ("anthropic", "anthropic"), ("gemini", "gcp.gemini"),
        ("vertex", "gcp.vertex_ai"), ("bedrock", "aws.bedrock"), ("azure", "azure.ai.openai"),
        ("mistral", "mistral_ai"), ("xai", "x_ai"), ("groq", "groq"), ("vllm", "vllm"),
    ],
)  # fmt: skip
def test_providers_are_called_what_the_convention_calls_them(upstream: str, provider: str) -> None:
    assert said(exchange(upstream=upstream))["gen_ai.provider.name"] == provider


@pytest.mark.parametrize(
    ("api", "kind", "operation", "name"),
    [
        ("openai.responses", Kind.INFERENCE, "chat", "chat gpt-5"),
        ("openai.completions", Kind.INFERENCE, "text_completion", "text_completion gpt-5"),
        ("gemini.generateContent", Kind.INFERENCE, "generate_content", "generate_content gpt-5"),
        ("openai.embeddings", Kind.EMBEDDING, "embeddings", "embeddings gpt-5"),
        ("gemini.embed", Kind.EMBEDDING, "embeddings", "embeddings gpt-5"),
        ("probe", Kind.PROBE, None, "POST probe"),
    ],
)
def test_an_operation_is_called_what_it_does(
    api: str, kind: Kind, operation: str | None, name: str
) -> None:
    made = span(exchange(api=api, kind=kind))
    assert (made.name, (made.attributes or {}).get("gen_ai.operation.name")) == (name, operation)


def test_what_is_unknown_is_left_out() -> None:
    attributes = said(calls("net")[0])
    assert "http.response.status_code" not in attributes
    assert not [name for name in attributes if name.startswith("gen_ai.usage")]
    made = span(exchange(model=None, upstream="azure"))
    assert (made.name, "server.address" in (made.attributes or {})) == ("chat", False)


# --- the agent's own trace ---------------------------------------------------------------------


def test_a_verdict_is_a_span_of_its_rollout() -> None:
    kept = InMemorySpanExporter()
    made = Traces(SimpleSpanProcessor(kept), allow_list({}), worker="w1")
    found = ValidityFinding(
        check="starved", level=Level.SUSPECT, calls=1, of=1, evidence=(), sentence=SECRET
    )
    verdict = replace(judge(rollout("200")), validity=(found,), judged_at=100.0)
    made.judged(replace(verdict, provider_s=2.0, lost_s=1.0, agent_s=0.5))
    made.judged(replace(judge(rollout("401")), judged_at=100.0))
    fine, dead = kept.get_finished_spans()
    assert (fine.name, fine.start_time, fine.end_time) == ("verdict", 96_500_000_000, 100 * 10**9)
    assert dict(fine.attributes or {}) == {
        "gen_ai.conversation.id": "r1",
        "session.id": "r1",
        "truezero.verdict.health": "healthy",
        "truezero.verdict.rule": "healthy",
        "truezero.verdict.scoreable": "yes",
        "truezero.verdict.validity": "suspect",
        "truezero.verdict.validity_checks": ("starved",),
    }
    assert fine.status.status_code is StatusCode.UNSET
    assert dead.status.status_code is StatusCode.ERROR
    assert dict(dead.attributes or {})["error.type"] == "auth:401"


def test_a_span_goes_on_where_the_agents_trace_was() -> None:
    made = span(exchange(traceparent=TRACEPARENT))
    assert made.parent is not None
    assert made.context is not None
    assert (f"{made.context.trace_id:032x}", f"{made.parent.span_id:016x}") == (TRACE, PARENT)
    assert spans(exchange(traceparent=TRACEPARENT[:-2] + "00")) == [], "it samples none"


@pytest.mark.parametrize(
    "header", [None, "x" * 55, f"00-{'0' * 32}-{PARENT}-01", TRACEPARENT.replace("-", "_")]
)
def test_without_a_valid_parent_a_span_begins_a_trace(header: str | None) -> None:
    first, second = spans(exchange(traceparent=header), exchange(traceparent=header, at=1.0))
    assert first.parent is None
    assert first.context is not None
    assert second.context is not None
    assert first.context.trace_id != second.context.trace_id


# --- over the wire -----------------------------------------------------------------------------


class Collector:
    """An OTLP collector that keeps what it is sent."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.paths: list[str] = []
        self.bodies: list[bytes] = []

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextmanager
def collecting(before_answer: Callable[[], object] = bool) -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.paths.append(self.path)
            collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            before_answer()
            with contextlib.suppress(BrokenPipeError):
                self.send_response(200)
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def plain_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    for name in [name for name in os.environ if name.startswith("OTEL_SERVICE")]:
        monkeypatch.delenv(name)


def ask(service: Service) -> httpx.Response:
    return service.http.post(
        f"/r/r1/openai/v1/chat/completions?key={SECRET}",
        json={"model": "gpt-5", "messages": [{"role": "user", "content": SECRET}]},
        headers={"traceparent": TRACEPARENT, "authorization": f"Bearer {SECRET}"},
    )


def test_a_collector_gets_the_calls_and_the_provider_the_agents_own_header(tmp_path: Path) -> None:
    with collecting() as collector:
        with serving(tmp_path, OTLP_ENDPOINT=collector.url) as service:
            answer = ask(service)
            service.provider.plays(answers.chat_stream())
            ask(service)
            sent = [
                dict(request.headers)["traceparent"] for request in service.provider.wait_for(2)
            ]
        assert sent == [TRACEPARENT, TRACEPARENT]
        assert set(collector.paths) == {"/v1/traces"}
        assert [s.trace_id.hex() for s in collector.spans] == [TRACE, TRACE]
        assert [s.parent_span_id.hex() for s in collector.spans] == [PARENT, PARENT]
        told = str(collector.requests)
        assert answer.headers["x-truezero-exchange"] in told
        assert SECRET not in told
        assert answer.json()["choices"][0]["message"]["content"] not in told
        assert 'string_value: "truezero"' in told


def test_the_service_may_be_named_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "evals")
    with collecting() as collector:
        with serving(tmp_path, OTLP_ENDPOINT=collector.url + "/v1/traces/") as service:
            ask(service)
        (resource,) = collector.requests[0].resource_spans
        named = {a.key: a.value.string_value for a in resource.resource.attributes}
        assert named["service.name"] == "evals"
        assert collector.paths == ["/v1/traces"]


def test_a_collector_that_is_down_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes what it is sent and says nothing: who waited for it would wait until it is over."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "600")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")  # milliseconds
    over, in_time = threading.Event(), list[bool]()
    with (
        collecting(lambda: in_time.append(over.wait(PATIENCE_S))) as collector,
        serving(tmp_path, OTLP_ENDPOINT=collector.url) as service,
    ):
        assert ask(service).status_code == 200
        until(lambda: collector.paths)
        assert [ask(service).status_code for _ in range(4)] == [200] * 4
        over.set()
    assert all(in_time)


def test_a_collector_that_is_down_holds_no_end_up() -> None:
    over, ended = threading.Event(), threading.Event()

    class Hanging(SimpleSpanProcessor):
        def shutdown(self) -> None:
            over.wait(PATIENCE_S)
            ended.set()

    Traces(Hanging(InMemorySpanExporter()), allow_list({}), worker="w1").close(timeout_s=0.01)
    assert not ended.is_set()
    over.set()
    assert ended.wait(PATIENCE_S)


def test_where_the_extra_is_missing_the_start_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(exporter.MissingError):
        exporter.check()
    with pytest.raises(exporter.MissingError):
        exporter.to("http://127.0.0.1:4318", {}, worker="w1")
    variables = {
        "TRUEZERO_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"),
        "TRUEZERO_PORT": "0",
    }
    done = CliRunner().invoke(app, ["serve"], env=variables)
    assert done.exit_code == 1
    assert "pip install 'truezero[server,otel]'" in done.output
    assert "Traceback" not in done.output
