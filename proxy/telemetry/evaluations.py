"""Verdicts as OpenTelemetry events `gen_ai.evaluation.result`; requires the extra `otel`.

Names: the GenAI semantic conventions, status Development
(open-telemetry/semantic-conventions-genai, model/gen-ai/events.yaml, September 2026). An event
is a log record with a name and the context of its span. Collectors that take spans only (Jaeger,
Phoenix, Langfuse) get the same attributes as events of the span.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

from classifier.diagnostics import why_unscored
from classifier.verdicts import ValidityFinding, Verdict

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Span

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
    """Return what exports log records to a collector, in batches; None where it takes none.

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
    told = [evaluation(verdict), *(finding(verdict, each) for each in verdict.validity)]
    if events is None:
        for attributes in told:
            span.add_event(EVENT, attributes, timestamp=at_ns)
        return
    context = import_module("opentelemetry.trace").set_span_in_context(
        span, import_module("opentelemetry.context").Context()
    )
    for attributes in told:
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


def finding(verdict: Verdict, found: ValidityFinding) -> Attributes:
    """Return the attributes of the event of one validity finding."""
    return _known(
        {
            "gen_ai.evaluation.name": VALIDITY + found.check,
            "gen_ai.evaluation.score.label": found.level.value,
            "gen_ai.evaluation.explanation": found.sentence,
            "gen_ai.conversation.id": verdict.rollout_id,
            "truezero.evidence": found.evidence or None,
        }
    )


def _known(facts: Mapping[str, Any]) -> Attributes:
    return {name: value for name, value in facts.items() if value is not None}
