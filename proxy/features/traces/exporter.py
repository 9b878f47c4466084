"""OpenTelemetry spans of calls and events of verdicts, without content; requires the extra `otel`.

Names: the GenAI semantic conventions, status Development
(open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md and
model/gen-ai/events.yaml, September 2026).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from classifier.diagnostics import why_unscored
from classifier.records import Exchange, Kind
from classifier.verdicts import ValidityFinding, Verdict
from proxy.recording.backlog import FlushResult
from proxy.routing.upstreams import Upstream

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Span, Tracer


# --- verdicts as events `gen_ai.evaluation.result` ---------------------------------------------
# An event is a log record with a name and the context of its span. Collectors that take spans only
# (Jaeger, Phoenix, Langfuse) get the same attributes as events of the span.


Attributes = dict[str, str | bool | int | float | tuple[str, ...]]

EVENT = "gen_ai.evaluation.result"
HEALTH = "truezero.health"
VALIDITY = "truezero.validity."  # and the name of the check
_SPANS_PATH, _LOGS_PATH = "/v1/traces", "/v1/logs"
# The score's value: whether the rollout's reward counts as a measurement; none where unknown.
_COUNTS = {"yes": 1.0, "no": 0.0}


class EventExporter:
    """Sends events as log records, each with the context of its span.

    Arguments:
        processor: receives the records, and exports them in a thread of its own.
        resource: what the spans carry too.
    """

    def __init__(self, processor: LogRecordProcessor, resource: Resource) -> None:
        self._provider = import_module("opentelemetry.sdk._logs").LoggerProvider(
            resource=resource, shutdown_on_exit=False
        )
        self._provider.add_log_record_processor(processor)
        self._logger = self._provider.get_logger("truezero", metadata.version("truezero"))
        self._severity = import_module("opentelemetry._logs").SeverityNumber.INFO

    def emit(self, attributes: Attributes, context: Context, at_ns: int) -> None:
        """Send one event; ``at_ns`` in nanoseconds since the epoch."""
        self._logger.emit(
            timestamp=at_ns,
            context=context,
            severity_number=self._severity,
            attributes=attributes,
            event_name=EVENT,
        )

    def close(self) -> None:
        """Export what is queued."""
        self._provider.shutdown()


def processor(endpoint: str, environment: Mapping[str, str]) -> LogRecordProcessor | None:
    """Return what exports log records to a collector, in batches; None if it takes none.

    Arguments:
        endpoint: as for spans; one that ends in `/v1/traces` takes only those.
        environment: `OTEL_LOGS_EXPORTER=none` says that the collector takes no logs
            (opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables).
    """
    url = endpoint.rstrip("/")
    if url.endswith(_SPANS_PATH) or environment.get("OTEL_LOGS_EXPORTER", "").strip() == "none":
        return None
    exporter = import_module("opentelemetry.exporter.otlp.proto.http._log_exporter")
    batches = import_module("opentelemetry.sdk._logs.export")
    made: LogRecordProcessor = batches.BatchLogRecordProcessor(
        exporter.OTLPLogExporter(url + _LOGS_PATH)
    )
    return made


def tell(verdict: Verdict, span: Span, events: EventExporter | None, at_ns: int) -> None:
    """Tell the verdict and each validity finding beside it as an event of the verdict's span."""
    evaluations = [evaluation(verdict), *(finding(verdict, each) for each in verdict.validity)]
    if events is None:
        for attributes in evaluations:
            span.add_event(EVENT, attributes, timestamp=at_ns)
        return
    context = import_module("opentelemetry.trace").set_span_in_context(
        span, import_module("opentelemetry.context").Context()
    )
    for attributes in evaluations:
        events.emit(attributes, context, at_ns)


def evaluation(verdict: Verdict) -> Attributes:
    """Return an event's attributes: whether a model was reached, and the reward may count.

    No `gen_ai.response.id`: a verdict is on a whole rollout, and ids of responses are not kept.
    """
    return _known(
        {
            "gen_ai.evaluation.name": HEALTH,
            "gen_ai.evaluation.score.label": verdict.health.value,
            "gen_ai.evaluation.score.value": _COUNTS.get(verdict.scoreable),
            "gen_ai.evaluation.explanation": why_unscored(verdict),
            "error.type": verdict.fingerprint,
            "gen_ai.conversation.id": verdict.rollout_id,
            "truezero.verdict.rule": verdict.rule,
            "truezero.evidence": verdict.evidence or None,
        }
    )


def finding(verdict: Verdict, finding: ValidityFinding) -> Attributes:
    """Return the attributes of the event of one validity finding."""
    return _known(
        {
            "gen_ai.evaluation.name": VALIDITY + finding.check,
            "gen_ai.evaluation.score.label": finding.level.value,
            "gen_ai.evaluation.explanation": finding.sentence,
            "gen_ai.conversation.id": verdict.rollout_id,
            "truezero.evidence": finding.evidence or None,
        }
    )


def _known(facts: Mapping[str, Any]) -> Attributes:
    return {name: value for name, value in facts.items() if value is not None}


# --- calls as spans ----------------------------------------------------------------------------


# gen_ai.provider.name; other upstreams use their own name.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
# gen_ai.operation.name by prefix of the API's name; all others are "chat".
_OPERATIONS = (
    ("openai.completions", "text_completion"),
    ("anthropic.complete", "text_completion"),
    ("ollama.generate", "text_completion"),
    ("gemini.", "generate_content"),
)
_USAGE = (
    ("gen_ai.usage.input_tokens", "input_total"),
    ("gen_ai.usage.output_tokens", "output_total"),
    ("gen_ai.usage.cache_read.input_tokens", "cached_input_tokens"),
    ("gen_ai.usage.cache_creation.input_tokens", "cache_write_tokens"),
    ("gen_ai.usage.reasoning.output_tokens", "reasoning_tokens"),
)
_PATH = "/v1/traces"  # opentelemetry.io/docs/specs/otlp: the default path of OTLP/HTTP
_SHUTDOWN_S = 3.0
_PORTS = {"http": 80, "https": 443}


class MissingError(Exception):
    """The extra `otel` is not installed; one sentence says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Host and port of an upstream."""

    host: str
    port: int | None


class Traces:
    """Makes a span of each finished call.

    Arguments:
        processor: receives the spans, and exports them in a thread of its own.
        worker: the name of this process, `service.instance.id`.
        records: receives verdicts as events; without it they are events of their spans.
    """

    def __init__(
        self,
        processor: SpanProcessor,
        upstreams: Mapping[str, Upstream],
        *,
        worker: str,
        records: LogRecordProcessor | None = None,
    ) -> None:
        self._api = import_module("opentelemetry.trace")
        self._parent = _parent_extractor()
        self._provider = _provider(processor, worker)
        self._tracer: Tracer = self._provider.get_tracer("truezero", metadata.version("truezero"))
        self._events = None if records is None else EventExporter(records, self._provider.resource)
        self._addresses = {name: _address(upstream) for name, upstream in upstreams.items()}

    def observe(self, flush: FlushResult) -> None:
        """Make spans of the calls of one flush."""
        for exchange in flush.ended:
            self._span(exchange)

    def judged(self, verdict: Verdict) -> None:
        """Make a span of a rollout with its final verdict; it ends as the verdict was given."""
        ended = verdict.judged_at or 0.0
        spent = (verdict.provider_s, verdict.lost_s, verdict.agent_s)
        span = self._tracer.start_span(
            "verdict",
            context=self._parent(None),
            attributes=verdict_attributes(verdict),
            start_time=_ns(ended - sum(part or 0.0 for part in spent)),
        )
        if verdict.health.unhealthy:
            span.set_status(self._api.StatusCode.ERROR)
        tell(verdict, span, self._events, _ns(ended))
        span.end(_ns(ended))

    def close(self, timeout_s: float = _SHUTDOWN_S) -> None:
        """Export what is queued; give up after ``timeout_s`` if the collector does not take it."""
        shutdown = threading.Thread(target=self._shut_down, daemon=True)
        shutdown.start()
        shutdown.join(timeout_s)

    def _shut_down(self) -> None:
        self._provider.shutdown()
        if self._events is not None:
            self._events.close()

    def _span(self, e: Exchange) -> None:
        at = e.timing.started_at
        span = self._tracer.start_span(
            _name(e),
            context=self._parent(e.traceparent),
            kind=self._api.SpanKind.CLIENT,
            attributes=attributes(e, self._addresses.get(e.upstream)),
            start_time=_ns(at),
        )
        if e.failed:
            span.set_status(self._api.StatusCode.ERROR)
        span.end(_ns(at + (e.timing.duration_s or 0.0)))


def to(endpoint: str, upstreams: Mapping[str, Upstream], *, worker: str) -> Traces:
    """Export spans and events to a collector, in batches, from background threads.

    Arguments:
        endpoint: URL of an OTLP/HTTP collector, or one that ends in `/v1/traces` and takes spans
            only. Its headers come from `OTEL_EXPORTER_OTLP_HEADERS`, as for any exporter.

    Raises:
        MissingError: the extra `otel` is not installed.
    """
    check()
    exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    batches = import_module("opentelemetry.sdk.trace.export")
    url = endpoint.rstrip("/")
    sender = exporter.OTLPSpanExporter(url if url.endswith(_PATH) else url + _PATH)
    records = processor(endpoint, os.environ)
    return Traces(batches.BatchSpanProcessor(sender), upstreams, worker=worker, records=records)


def check() -> None:
    """Check that the extra `otel` is installed.

    Raises:
        MissingError: the extra `otel` is not installed.
    """
    try:
        import_module("opentelemetry.sdk.trace")
        import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ModuleNotFoundError as error:
        raise MissingError(
            f"TRUEZERO_OTLP_ENDPOINT requires OpenTelemetry ({error.name} is not installed): "
            "pip install 'truezero[server,otel]'"
        ) from None


def attributes(e: Exchange, address: Address | None = None) -> Attributes:
    """Return the attributes of a call's span, leaving out unknown ones."""
    cause, streamed = e.cause, e.streamed or None
    usage = {name: getattr(e.usage, field) for name, field in _USAGE}
    facts: dict[str, Any] = {
        "gen_ai.operation.name": _operation(e),
        "gen_ai.provider.name": _PROVIDERS.get(e.upstream, e.upstream),
        "gen_ai.conversation.id": e.rollout_id,
        "session.id": e.rollout_id,  # what OpenInference and Langfuse group spans by
        "gen_ai.request.model": e.model,
        "gen_ai.request.stream": streamed,
        "gen_ai.response.model": e.answered_model,
        "gen_ai.response.finish_reasons": (e.finish_reason,) if e.finish_reason else None,
        "gen_ai.response.time_to_first_chunk": e.timing.first_token_s if streamed else None,
        **usage,
        "server.address": address.host if address else None,
        "server.port": address.port if address else None,
        "http.request.method": e.method,
        "http.response.status_code": e.status,
        "error.type": _error_type(e),
        "truezero.exchange.id": e.id,
        "truezero.api": e.api,
        "truezero.role": e.role,
        "truezero.ending": e.ending.value if e.ending else None,
        "truezero.subcategory": cause.subcategory.value if cause else None,
        "truezero.transient": cause.transient if cause else None,
        "truezero.rule": cause.rule if cause else None,
        "truezero.injected": e.injected or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def verdict_attributes(verdict: Verdict) -> Attributes:
    """Return the attributes of a verdict's span, leaving out unknown ones."""
    findings = verdict.validity
    facts: dict[str, Any] = {
        "gen_ai.conversation.id": verdict.rollout_id,
        "session.id": verdict.rollout_id,
        "error.type": verdict.fingerprint,
        "truezero.verdict.health": verdict.health.value,
        "truezero.verdict.rule": verdict.rule,
        "truezero.verdict.scoreable": verdict.scoreable,
        "truezero.verdict.validity": findings[0].level.value if findings else None,
        "truezero.verdict.validity_checks": tuple(each.check for each in findings) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _operation(e: Exchange) -> str | None:
    """Return gen_ai.operation.name; None for a probe, which calls no model."""
    if e.kind is Kind.EMBEDDING:
        return "embeddings"
    if e.kind is not Kind.INFERENCE:
        return None
    return next((name for prefix, name in _OPERATIONS if e.api.startswith(prefix)), "chat")


def _name(e: Exchange) -> str:
    operation = _operation(e)
    if operation is None:
        return f"{e.method} {e.api}"
    return f"{operation} {e.model}" if e.model else operation


def _error_type(e: Exchange) -> str | None:
    """Return the provider's allow-listed code, else the status, else why there was none."""
    if e.cause is None:
        return None
    if e.cause.code:
        return e.cause.code
    failed = e.status is not None and e.status >= 400
    return str(e.status) if failed else e.cause.reason or e.cause.subcategory.value


def _parent_extractor() -> Callable[[str | None], Context]:
    """Return a function from an agent's `traceparent` to the parent context of the span."""
    no_parent: Context = import_module("opentelemetry.context").Context()
    propagator = import_module("opentelemetry.trace.propagation.tracecontext")
    extract = propagator.TraceContextTextMapPropagator().extract

    def parent(traceparent: str | None) -> Context:
        if traceparent is None:
            return no_parent
        context: Context = extract({"traceparent": traceparent}, no_parent)
        return context

    return parent


def _provider(processor: SpanProcessor, worker: str) -> TracerProvider:
    """Make a provider; `OTEL_SERVICE_NAME` and the like override its resource."""
    resources = import_module("opentelemetry.sdk.resources")
    ours = resources.Resource(
        {
            "service.name": "truezero",
            "service.version": metadata.version("truezero"),
            "service.instance.id": worker,
        }
    )
    theirs = resources.OTELResourceDetector().detect()
    provider: TracerProvider = import_module("opentelemetry.sdk.trace").TracerProvider(
        resource=ours.merge(theirs), shutdown_on_exit=False
    )
    provider.add_span_processor(processor)
    return provider


def _address(upstream: Upstream) -> Address | None:
    if upstream.url is None:
        return None
    parts = urlsplit(upstream.url)
    return Address(host=parts.hostname or "", port=parts.port or _PORTS.get(parts.scheme))


def _ns(epoch_s: float) -> int:
    return int(epoch_s * 1e9)
