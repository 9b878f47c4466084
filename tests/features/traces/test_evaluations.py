"""Verdicts and validity findings as events by the GenAI conventions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from classifier.rules import judge
from classifier.verdicts import Level, ValidityFinding, Verdict
from proxy.features.traces import exporter as evaluations
from proxy.features.traces.exporter import Traces
from proxy.routing.upstreams import allow_list
from tests.builders import rollout
from tests.fakes import answers
from tests.features.traces.test_traces import Collector, collecting, plain_exports
from tests.proxy.api.test_routes import Service, serving

assert plain_exports  # a fixture, used by every test here too

FOUND = ValidityFinding(
    check="starved", level=Level.SUSPECT, calls=1, of=1, evidence=("x1",), sentence="it waited"
)
CALL = {"model": "gpt-5", "messages": [{"role": "user", "content": "SECRET-a1b2"}]}
OUTCOME = {
    "status": "success", "termination_reason": "agent_stop", "prompts_executed": 1,
    "rewards": {"reward": 0.0},
}  # fmt: skip


def judged(calls: str) -> Verdict:
    return replace(judge(rollout(calls)), judged_at=100.0)


def test_a_verdict_is_an_evaluation_by_the_conventions_names() -> None:
    dead = judged("401")
    assert evaluations.evaluation(dead) == {
        "gen_ai.evaluation.name": "truezero.health",
        "gen_ai.evaluation.score.label": "api_error",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.explanation": dead.error,
        "error.type": "auth:401",
        "gen_ai.conversation.id": "r1",
        "truezero.verdict.rule": dead.rule,
        "truezero.evidence": dead.evidence,
    }
    fine = evaluations.evaluation(judged("200"))
    assert (fine["gen_ai.evaluation.score.label"], fine["gen_ai.evaluation.score.value"]) == (
        "healthy",
        1.0,
    )
    assert fine.keys().isdisjoint({"error.type", "gen_ai.evaluation.explanation"})
    unknown = evaluations.evaluation(replace(dead, scoreable="unknown"))
    assert "gen_ai.evaluation.score.value" not in unknown  # not 0, which says it is known


def test_a_finding_is_an_evaluation_of_its_own() -> None:
    assert evaluations.finding(judged("200"), FOUND) == {
        "gen_ai.evaluation.name": "truezero.validity.starved",
        "gen_ai.evaluation.score.label": "suspect",
        "gen_ai.evaluation.explanation": "it waited",
        "gen_ai.conversation.id": "r1",
        "truezero.evidence": ("x1",),
    }


def test_where_only_spans_are_taken_they_are_events_of_the_span() -> None:
    kept = InMemorySpanExporter()
    made = Traces(SimpleSpanProcessor(kept), allow_list({}), worker="w1")
    verdict = replace(judged("200"), validity=(FOUND,))
    made.judged(verdict)
    (span,) = kept.get_finished_spans()
    assert [(each.name, each.timestamp, dict(each.attributes or {})) for each in span.events] == [
        (evaluations.EVENT, 100 * 10**9, evaluations.evaluation(verdict)),
        (evaluations.EVENT, 100 * 10**9, evaluations.finding(verdict, FOUND)),
    ]


@pytest.mark.parametrize(
    ("endpoint", "environment", "takes"),
    [
        ("http://127.0.0.1:9", {}, True),
        ("http://127.0.0.1:9", {"OTEL_LOGS_EXPORTER": "otlp"}, True),
        ("http://127.0.0.1:9", {"OTEL_LOGS_EXPORTER": "none"}, False),
        ("http://127.0.0.1:9/api/v1/traces/", {}, False),
    ],
)
def test_a_collector_is_sent_logs_where_it_takes_them(
    endpoint: str, environment: dict[str, str], takes: bool
) -> None:
    made = evaluations.processor(endpoint, environment)
    assert (made is not None) is takes
    if made is not None:
        made.shutdown()


# --- over the wire -----------------------------------------------------------------------------


def said(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def judge_one(service: Service) -> httpx.Response:
    """A rollout whose only call finds the account empty, and the verdict on it."""
    service.provider.plays(answers.whole({"error": {"code": "insufficient_quota"}}, 429))
    service.http.post("/r/r1/openai/v1/chat/completions", json=CALL)
    service.http.post("/rollouts/r1/outcome", json=OUTCOME).raise_for_status()
    return service.http.get("/rollouts/r1/verdict")


def of_path(collector: Collector, path: str) -> list[bytes]:
    return [body for at, body in zip(collector.paths, collector.bodies, strict=True) if at == path]


def test_a_collector_gets_the_verdict_as_an_event_of_its_span(tmp_path: Path) -> None:
    with collecting() as collector:
        with serving(tmp_path, OTLP_ENDPOINT=collector.url) as service:
            verdict = judge_one(service).json()
        (logs,) = map(ExportLogsServiceRequest.FromString, of_path(collector, "/v1/logs"))
        (resource,) = logs.resource_logs
        (record,) = resource.scope_logs[0].log_records
        traces = map(ExportTraceServiceRequest.FromString, of_path(collector, "/v1/traces"))
        (span,) = (
            each
            for request in traces
            for every in request.resource_spans
            for each in every.scope_spans[0].spans
            if each.name == "verdict"
        )
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id, record.span_id) == (span.trace_id, span.span_id)
        assert record.time_unix_nano == span.end_time_unix_nano
        assert said(resource.resource.attributes)["service.name"] == "truezero"
        told = said(record.attributes)
        assert told["truezero.evidence"].values[0].string_value == verdict["evidence"][0]
        assert told["gen_ai.evaluation.explanation"] == verdict["error"]
        assert not span.events
        assert b"SECRET" not in b"".join(collector.bodies)
