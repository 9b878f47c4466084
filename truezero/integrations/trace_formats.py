"""The traces that gateways, harnesses and trainers keep: their calls, and the field of their mask.

A record is one object of a trace as its package hands it out, as JSON has it. Field names and
shapes were looked up in the packages' sources on 2026-11-24: rllm-model-gateway 0.1.0,
agentlightning 1.0.2, atif 1.8.0, harbor 0.25.0, NeMo Gym's main (``nemo_gym/
rollout_observability.py``, schema 1.0), verifiers 0.4.0, openhands-sdk 1.58.2 with
OpenHands/benchmarks, opentelemetry-sdk 1.x and the GenAI conventions 1.37. No package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

Record = Mapping[str, Any]
Notes = Mapping[str | None, Mapping[str, Any]]

NOTE = "truezero"
"""The key under which a masked record says what was found, where its format has room for it."""

MASKED = "truezero_masked"
"""The type of an error, or the reason, that masks a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCall:
    """One model call as a trace has it; None is what the trace does not say.

    ``rollout`` is the trace's own name of its rollout. Sizes are tokens, cached and reasoning ones
    included. ``ended_at`` is in seconds since the epoch, ``took_s`` how long before that it began.
    ``failed`` and ``status`` are the trace's own word, ``retries`` those that it counts,
    ``weights`` the version of the weights that it names.
    """

    rollout: str | None
    response_id: str | None = None
    request_id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ended_at: float | None = None
    took_s: float | None = None
    failed: bool | None = None
    status: int | None = None
    retries: int | None = None
    weights: str | None = None


class TraceFormat(NamedTuple):
    """One format of traces.

    ``rollouts`` lists the rollouts that a record is of, ``calls`` its model calls in their order.
    ``write`` returns a copy of a record that says what was found, by rollout; where
    ``measured`` is false in that, the record's own mask, valid or reward field is set too.
    """

    name: str
    recognises: Callable[[Record], bool]
    rollouts: Callable[[Record], list[str | None]]
    calls: Callable[[Record], list[TraceCall]]
    write: Callable[[Record, Notes], dict[str, Any]]


def format_of(records: Sequence[Record]) -> TraceFormat:
    """Return the format of records.

    Raises:
        ValueError: no format, or several, fit them.
    """
    formats: list[TraceFormat] = []
    for number, record in enumerate(records, start=1):
        known = next((each for each in FORMATS if each.recognises(record)), None)
        if known is None:
            fields = ", ".join(sorted(map(str, record))[:8])
            raise ValueError(f"record {number} is of no known format; it has {fields or 'nothing'}")
        if known not in formats:
            formats.append(known)
    if len(formats) > 1:
        raise ValueError(f"records of {' and '.join(each.name for each in formats)} are mixed")
    return formats[0] if formats else FORMATS[0]


# --- values ------------------------------------------------------------------------------------


def _part(value: Any) -> Record:
    return value if isinstance(value, Mapping) else {}


def _parts(value: Any) -> list[Record]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _version(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _length(value: Any) -> int | None:
    """Return how many tokens a list has; None of an empty one, which engines without ids leave."""
    return len(value) if isinstance(value, list) and value else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _seconds(milliseconds: Any) -> float | None:
    number = _number(milliseconds)
    return None if number is None else number / 1000


def _moment(value: Any) -> float | None:
    """Return the epoch seconds of a time in ISO 8601 that names its zone."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _refused(status: int | None) -> bool | None:
    return None if status is None else status >= 400


def _unmeasured(note: Mapping[str, Any] | None) -> bool:
    return note is not None and note["measured"] is False


def _noted(holder: Any, note: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(_part(holder)) if note is None else {**_part(holder), NOTE: dict(note)}


def _sentence(note: Mapping[str, Any]) -> str:
    return f"{MASKED}: {note['reason']}"


# --- rllm-model-gateway: TraceRecord, one a call -----------------------------------------------


def _rllm_calls(record: Record) -> list[TraceCall]:
    response, counts = _part(record.get("raw_response")), _part(record.get("token_counts"))
    failed = None
    if response:  # of a stream there is none
        failed = not response.get("choices") and bool(response.get("error"))
    return [
        TraceCall(
            rollout=_text(record.get("session_id")),
            response_id=_text(response.get("id")),
            model=_text(record.get("model")),
            input_tokens=_count(counts.get("prompt")) or _length(record.get("prompt_token_ids")),
            output_tokens=_count(counts.get("completion"))
            or _length(record.get("completion_token_ids")),
            ended_at=_number(record.get("timestamp")),
            took_s=_seconds(record.get("latency_ms")),
            failed=failed,
        )
    ]


def _rllm_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Note it in ``metadata``: a `TraceRecord` has no reward and no mask of its own."""
    note = notes.get(_text(record.get("session_id")))
    return {**record, "metadata": _noted(record.get("metadata"), note)}


RLLM = TraceFormat(
    "rllm-model-gateway",
    lambda record: {"trace_id", "session_id", "completion_token_ids"} <= record.keys(),
    lambda record: [_text(record.get("session_id"))],
    _rllm_calls,
    _rllm_write,
)


# --- Agent Lightning 1.0: Event of the store, and CompletedRollout of the trainer --------------


def _lightning_call(event: Record) -> TraceCall:
    data = _part(event.get("data"))
    response, usage = _part(data.get("response")), _part(data.get("usage"))
    status = _count(data.get("http_status"))
    error = data.get("status") == "error" or _refused(status)
    return TraceCall(
        rollout=_text(event.get("rollout_id")),
        response_id=_text(response.get("id")),
        model=_text(response.get("model")) or _text(data.get("model")),
        input_tokens=_count(usage.get("prompt_tokens")) or _length(data.get("prompt_token_ids")),
        output_tokens=_count(usage.get("completion_tokens"))
        or _length(data.get("response_token_ids")),
        ended_at=_number(event.get("timestamp")),
        took_s=_seconds(data.get("latency_ms")),
        failed=error if "status" in data or status is not None else None,
        status=status,
        retries=_count(data.get("retry_count")),
        weights=_version(_part(data.get("server")).get("version")),
    )


def _is_request(event: Record) -> bool:
    return event.get("event_type") == "model_request"


def _event_calls(record: Record) -> list[TraceCall]:
    return [_lightning_call(record)] if _is_request(record) else []


def _event_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Make a request an error and a reward none.

    Its manager leaves out requests whose ``status`` is "error", and its adapter emits no training
    row of a rollout without any (verl/agl_rollout_manager.py, verl/rollout_adapter.py).
    """
    note = notes.get(_text(record.get("rollout_id")))
    data = _noted(record.get("data"), note)
    if _unmeasured(note):
        if _is_request(record):
            data["status"] = "error"
        elif record.get("event_type") == "reward":
            data |= {"value": None, "reason": MASKED}
    return {**record, "data": data}


def _completed_calls(record: Record) -> list[TraceCall]:
    return [_lightning_call(event) for event in _parts(record.get("events")) if _is_request(event)]


def _completed_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Take the triplets and the reward of what was not measured.

    A rollout without triplets makes no training row. With them, its adapter would fill the missing
    reward with ``reward_fillna_value``.
    """
    note = notes.get(_text(record.get("rollout_id")))
    changed: dict[str, Any] = {"metadata": _noted(record.get("metadata"), note)}
    if _unmeasured(note):
        changed |= {"triplets": [], "final_reward": None}
    return {**record, **changed}


LIGHTNING_EVENTS = TraceFormat(
    "Agent Lightning events",
    lambda record: {"event_type", "rollout_id", "attempt_id", "data"} <= record.keys(),
    lambda record: [_text(record.get("rollout_id"))],
    _event_calls,
    _event_write,
)
LIGHTNING_ROLLOUTS = TraceFormat(
    "Agent Lightning rollouts",
    lambda record: {"rollout_id", "triplets", "final_reward"} <= record.keys(),
    lambda record: [_text(record.get("rollout_id"))],
    _completed_calls,
    _completed_write,
)


# --- ATIF: one Trajectory, with those of its subagents -----------------------------------------


def _atif_name(record: Record) -> str | None:
    """Return a trajectory's id; before 1.7 it had only that of its session."""
    return _text(record.get("trajectory_id")) or _text(record.get("session_id"))


def _atif_calls(record: Record) -> list[TraceCall]:
    return list(_atif_steps(record, _atif_name(record)))


def _atif_steps(trajectory: Record, rollout: str | None) -> Iterator[TraceCall]:
    """Yield the calls of a trajectory and its subagents, all of one rollout.

    Agents of Harbor (pi, muse_code, computer_1) keep the answer's id in ``extra.response_id``.
    """
    for step in _parts(trajectory.get("steps")):
        calls = step.get("llm_call_count")
        if step.get("source") != "agent" or calls == 0 or step.get("is_copied_context"):
            continue
        metrics = _part(step.get("metrics")) if calls in (None, 1) else {}  # else sums of several
        extra, of_metrics = _part(step.get("extra")), _part(metrics.get("extra"))
        yield TraceCall(
            rollout=rollout,
            response_id=_text(extra.get("response_id")) or _text(of_metrics.get("response_id")),
            model=_text(step.get("model_name"))
            or _text(_part(trajectory.get("agent")).get("model_name")),
            input_tokens=_count(metrics.get("prompt_tokens")),
            output_tokens=_count(metrics.get("completion_tokens")),
            ended_at=_moment(step.get("timestamp")),
        )
    for subagent in _parts(trajectory.get("subagent_trajectories")):
        yield from _atif_steps(subagent, rollout)


def _atif_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Note it in ``extra``, the only field that ATIF leaves to others."""
    note = notes.get(_atif_name(record))
    return {**record, "extra": _noted(record.get("extra"), note)}


ATIF = TraceFormat(
    "ATIF",
    lambda record: str(record.get("schema_version")).startswith("ATIF") and "steps" in record,
    lambda record: [_atif_name(record)],
    _atif_calls,
    _atif_write,
)


# --- Harbor: TrialResult with rollout_details --------------------------------------------------


def _harbor_details(record: Record) -> list[Record]:
    return _parts(_part(record.get("agent_result")).get("rollout_details"))


def _harbor_calls(record: Record) -> list[TraceCall]:
    """Return a call for each turn: a `RolloutDetail` has the tokens of each, and no ids."""
    calls = []
    for detail in _harbor_details(record):
        prompts, answers = detail.get("prompt_token_ids"), detail.get("completion_token_ids")
        prompts = prompts if isinstance(prompts, list) else []
        for turn, answer in enumerate(answers if isinstance(answers, list) else []):
            calls.append(
                TraceCall(
                    rollout=_text(record.get("trial_name")),
                    input_tokens=_length(prompts[turn]) if turn < len(prompts) else None,
                    output_tokens=_length(answer),
                )
            )
    return calls


def _harbor_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Take the rewards and the rollout details, whose `RolloutDetail` has no mask."""
    note = notes.get(_text(record.get("trial_name")))
    agent = dict(_part(record.get("agent_result")))
    agent["metadata"] = _noted(agent.get("metadata"), note)
    changed: dict[str, Any] = {"agent_result": agent}
    if _unmeasured(note):
        agent["rollout_details"] = None
        changed["verifier_result"] = {**_part(record.get("verifier_result")), "rewards": None}
    return {**record, **changed}


HARBOR = TraceFormat(
    "Harbor",
    lambda record: {"trial_name", "agent_result"} <= record.keys(),
    lambda record: [_text(record.get("trial_name"))],
    _harbor_calls,
    _harbor_write,
)


# --- NeMo Gym: a rollout row with ng_trajectory ------------------------------------------------


def _nemo_name(record: Record) -> str | None:
    return _text(_part(record.get("ng_trajectory")).get("rollout_id"))


def _nemo_calls(record: Record) -> list[TraceCall]:
    calls = []
    for call in _parts(_part(record.get("ng_trajectory")).get("model_calls")):
        answered, counts = _part(call.get("response_metadata")), _part(call.get("token_stats"))
        status = _count(answered.get("status_code"))
        failed = True if answered.get("error_category") else _refused(status)
        calls.append(
            TraceCall(
                rollout=_nemo_name(record),
                response_id=_text(answered.get("response_id")),
                model=_text(answered.get("model")),
                input_tokens=_count(counts.get("prompt_tokens")),
                output_tokens=_count(counts.get("completion_tokens")),
                ended_at=_number(call.get("completed_at")),
                took_s=_seconds(call.get("duration_ms")),
                failed=failed,
                status=status,
            )
        )
    return calls


def _nemo_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Set ``mask_sample`` and ``_ng_failure_class``, as `trainers.nemo_failure` does."""
    note = notes.get(_nemo_name(record))
    changed = _noted(record, note)
    if note is not None and _unmeasured(note):
        kind = note["kind"] or "not_measured"
        changed |= {"mask_sample": True, "_ng_failure_class": f"{NOTE}:{kind}"}
    return changed


NEMO = TraceFormat(
    "NeMo Gym",
    lambda record: isinstance(record.get("ng_trajectory"), Mapping),
    lambda record: [_nemo_name(record)],
    _nemo_calls,
    _nemo_write,
)


# --- verifiers: Trace.to_record() --------------------------------------------------------------


def _verifiers_calls(record: Record) -> list[TraceCall]:
    calls = []
    for call in _parts(record.get("calls")):
        usage, span, error = (_part(call.get(key)) for key in ("usage", "time", "error"))
        new, cached = _count(usage.get("prompt_tokens")), _count(usage.get("cached_input_tokens"))
        ended, began = _number(span.get("end")) or None, _number(span.get("start")) or None
        calls.append(
            TraceCall(
                rollout=_text(record.get("id")),
                model=_text(call.get("model")),
                input_tokens=None if new is None else new + (cached or 0),
                output_tokens=_count(usage.get("completion_tokens")),
                ended_at=ended,
                took_s=None if ended is None or began is None else ended - began,
                failed=call.get("error") is not None,
                status=_count(error.get("status_code")),
            )
        )
    return calls


def _verifiers_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Make it a trace with an error, whose rewards were not scored and whose tokens do not train.

    `None` among ``rewards`` means that scoring did not run (verifiers/v1/trace.py).
    """
    note = notes.get(_text(record.get("id")))
    changed: dict[str, Any] = {"info": _noted(record.get("info"), note)}
    if note is not None and _unmeasured(note):
        changed |= {
            "ok": False,
            "rewards": dict.fromkeys(_part(record.get("rewards"))),
            "errors": [*_parts(record.get("errors")), {
                "type": MASKED, "message": _sentence(note), "status_code": None, "traceback": None,
            }],
            "agent": {**_part(record.get("agent")), "trainable": False},
            "nodes": [
                {**node, "mask": [False] * len(node["mask"])} if node.get("mask") else dict(node)
                for node in _parts(record.get("nodes"))
            ],
        }  # fmt: skip
    return {**record, **changed}


VERIFIERS = TraceFormat(
    "verifiers",
    lambda record: {"id", "calls", "nodes", "rewards"} <= record.keys(),
    lambda record: [_text(record.get("id"))],
    _verifiers_calls,
    _verifiers_write,
)


# --- OpenHands: EvalOutput of its benchmarks ---------------------------------------------------


def _openhands_name(record: Record) -> str | None:
    return _text(record.get("instance_id"))


def _openhands_calls(record: Record) -> list[TraceCall]:
    """Return the calls of ``metrics.token_usages``, and of events that those lack.

    Only answers with tokens have a usage; each event of one answer repeats its id.
    """
    name = _openhands_name(record)
    calls = [
        TraceCall(
            rollout=name,
            response_id=_text(usage.get("response_id")),
            model=_text(usage.get("model")),
            input_tokens=_count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
        )
        for usage in _parts(_part(record.get("metrics")).get("token_usages"))
    ]
    known = {call.response_id for call in calls}
    for event in _parts(record.get("history")):
        response_id = _text(event.get("llm_response_id"))
        if response_id is not None and response_id not in known:
            known.add(response_id)
            calls.append(TraceCall(rollout=name, response_id=response_id))
    return calls


def _openhands_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Set ``error``, by which its reports know an instance that was not evaluated."""
    note = notes.get(_openhands_name(record))
    changed: dict[str, Any] = {"test_result": _noted(record.get("test_result"), note)}
    if note is not None and _unmeasured(note):
        changed["error"] = record.get("error") or _sentence(note)
    return {**record, **changed}


OPENHANDS = TraceFormat(
    "OpenHands",
    lambda record: {"instance_id", "history", "test_result"} <= record.keys(),
    lambda record: [_openhands_name(record)],
    _openhands_calls,
    _openhands_write,
)


# --- OpenTelemetry: GenAI client spans, as OTLP/JSON or as the SDK prints them -----------------
# opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans, 1.37; headers: semconv/http.


_MEASURED = "truezero.measured"
_REASON = "truezero.reason"
_REQUEST_IDS = ("http.response.header.x-request-id", "http.response.header.request-id")
_CALL_SPANS = ("chat", "generate_content", "text_completion")


def _otlp_spans(record: Record) -> list[Record]:
    """Return the spans of an `ExportTraceServiceRequest`, or the one that a record is."""
    if "resourceSpans" not in record:
        return [record]
    return [
        span
        for resource in _parts(record.get("resourceSpans"))
        for scope in _parts(resource.get("scopeSpans"))
        for span in _parts(scope.get("spans"))
    ]


def _otel_trace(span: Record) -> str | None:
    stated = _text(span.get("traceId")) or _text(_part(span.get("context")).get("trace_id"))
    return None if stated is None else stated.removeprefix("0x")


def _otel_attributes(span: Record) -> dict[str, Any]:
    stated = span.get("attributes")
    if isinstance(stated, Mapping):
        return dict(stated)
    return {str(each.get("key")): _any_value(_part(each.get("value"))) for each in _parts(stated)}


def _any_value(value: Record) -> Any:
    """Return the value of an OTLP attribute; its JSON writes integers as texts."""
    if "intValue" in value:
        stated = str(value["intValue"])
        return int(stated) if stated.isdecimal() else None
    if "arrayValue" in value:
        return [_any_value(each) for each in _parts(_part(value["arrayValue"]).get("values"))]
    return next(iter(value.values()), None)


def _is_call(attributes: Mapping[str, Any]) -> bool:
    return attributes.get("gen_ai.operation.name") in _CALL_SPANS


def _otel_ended(span: Record) -> float | None:
    nanoseconds = str(span.get("endTimeUnixNano", ""))
    return int(nanoseconds) / 1e9 if nanoseconds.isdecimal() else _moment(span.get("end_time"))


def _otel_calls(record: Record) -> list[TraceCall]:
    calls = []
    for span in _otlp_spans(record):
        stated = _otel_attributes(span)
        if not _is_call(stated):
            continue
        headers = (stated.get(name) for name in _REQUEST_IDS)
        request_ids = [each[0] if isinstance(each, list) and each else each for each in headers]
        calls.append(
            TraceCall(
                rollout=_otel_trace(span),
                response_id=_text(stated.get("gen_ai.response.id")),
                request_id=next(filter(None, map(_text, request_ids)), None),
                model=_text(stated.get("gen_ai.request.model")),
                input_tokens=_count(stated.get("gen_ai.usage.input_tokens")),
                output_tokens=_count(stated.get("gen_ai.usage.output_tokens")),
                ended_at=_otel_ended(span),
                failed=True if "error.type" in stated else None,
            )
        )
    return calls


def _otel_write(record: Record, notes: Notes) -> dict[str, Any]:
    """Add attributes to each span of a trace: ``truezero.measured`` and ``truezero.reason``."""
    if "resourceSpans" not in record:
        return _otel_span(record, notes)
    return {
        **record,
        "resourceSpans": [
            {**resource, "scopeSpans": [
                {**scope, "spans": [_otel_span(span, notes) for span in _parts(scope.get("spans"))]}
                for scope in _parts(resource.get("scopeSpans"))
            ]}
            for resource in _parts(record.get("resourceSpans"))
        ],
    }  # fmt: skip


def _otel_span(span: Record, notes: Notes) -> dict[str, Any]:
    note = notes.get(_otel_trace(span))
    if note is None:
        return dict(span)
    added: dict[str, Any] = {_REASON: note["reason"]}
    if note["measured"] is not None:  # unknown: the attribute is not there
        added[_MEASURED] = note["measured"]
    stated = span.get("attributes")
    if not isinstance(stated, list):
        return {**span, "attributes": {**_part(stated), **added}}
    values = [
        {"key": key, "value": {"boolValue" if isinstance(value, bool) else "stringValue": value}}
        for key, value in added.items()
    ]
    return {**span, "attributes": [*stated, *values]}


def _otel_traces(record: Record) -> list[str | None]:
    return _distinct(_otel_trace(span) for span in _otlp_spans(record))


def _distinct(names: Iterable[str | None]) -> list[str | None]:
    return list(dict.fromkeys(names))


def _is_otel(record: Record) -> bool:
    if "resourceSpans" in record:
        return True
    return _otel_trace(record) is not None and "attributes" in record


OTEL = TraceFormat("OpenTelemetry", _is_otel, _otel_traces, _otel_calls, _otel_write)


FORMATS = (
    NEMO, RLLM, LIGHTNING_ROLLOUTS, LIGHTNING_EVENTS, ATIF, HARBOR, VERIFIERS, OPENHANDS, OTEL,
)  # fmt: skip
