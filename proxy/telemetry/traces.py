"""OpenTelemetry spans of finished calls, without content; requires the extra `otel`.

Names: the GenAI semantic conventions, status Development
(open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, September 2026).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from classifier.records import Exchange, Kind
from classifier.verdicts import Verdict
from proxy.recording.backlog import FlushResult
from proxy.routing.upstreams import Upstream
from proxy.telemetry import evaluations
from proxy.telemetry.evaluations import Attributes, EventExporter

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Tracer

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
        evaluations.tell(verdict, span, self._events, _ns(ended))
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
    records = evaluations.processor(endpoint, os.environ)
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
    found = verdict.validity
    facts: dict[str, Any] = {
        "gen_ai.conversation.id": verdict.rollout_id,
        "session.id": verdict.rollout_id,
        "error.type": verdict.fingerprint,
        "truezero.verdict.health": verdict.health.value,
        "truezero.verdict.rule": verdict.rule,
        "truezero.verdict.scoreable": verdict.scoreable,
        "truezero.verdict.validity": found[0].level.value if found else None,
        "truezero.verdict.validity_checks": tuple(each.check for each in found) or None,
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
