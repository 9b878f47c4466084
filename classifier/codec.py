"""Encode records, verdicts and results as flat dicts under REST's names, and decode them.

Decoding ignores unknown keys; what was encoded decodes to an equal value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from operator import itemgetter
from typing import Any, TypeVar

from classifier.diagnostics import result_fields
from classifier.records import (
    COST_LIMIT,
    COUNT_LIMIT,
    Cause,
    Exchange,
    ExecutionStatus,
    Neighbours,
    Outcome,
    RecordedField,
    RolloutRecord,
    TerminationReason,
    Timing,
    Usage,
    columns,
)
from classifier.references import NotRun, ReferenceCall, ReferenceSeries
from classifier.results import OutcomeError, Result, validate
from classifier.verdicts import (
    AttributedTo,
    Coverage,
    Health,
    Layer,
    Level,
    Proof,
    ProofSource,
    Retry,
    RoleVerdict,
    Subcategory,
    ValidityFinding,
    Verdict,
)

# --- exchanges, outcomes and rollouts ---


Json = dict[str, object]
E = TypeVar("E", bound=Enum)


# The contract's keys in its order; what is declared later follows them.
_ORDER = (
    "id", "rollout_id", "status", "ending", "upstream", "api", "model", "role", "streamed",
    "started_at", "first_byte_s", "first_token_s", "duration_s", "input_tokens", "output_tokens",
    "cached_input_tokens", "cache_write_tokens", "reasoning_tokens", "total_tokens",
    "input_total", "output_total", "cost_usd", "usage_source", "finish_reason", "tool_calls",
    "subcategory", "transient", "rule", "reason", "error_code", "retry_after_s", "request_bytes",
    "response_bytes", "attribution_source", "injected", "kind", "method", "answered_model",
    "output_seen", "content_seen", "has_tools", "provider_request_id", "request_digest",
    "sdk_retry", "response_digest", "pending", "key_digest", "deaf", "selector_digest",
    "key_source", "model_ambiguous", "held", "output_limit", "prompt_words", "continues",
    "begun_elsewhere", "written_call", "fallback", "served_by", "system_fingerprint",
    "weight_version", "answer_state", "inferred", "output_digest", "output_reads_as",
)  # fmt: skip
_HOLDERS = {"": "x", "timing": "x.timing", "usage": "u", "cause": "c"}


def _encoder() -> Callable[[Exchange], Json]:
    """Make `encode_exchange`, as ``dataclasses`` makes its methods: no loop for each call."""
    rank = {name: place for place, name in enumerate(_ORDER)}
    entries = []
    for column in sorted(columns(), key=lambda each: rank.get(each.name, len(rank))):
        value = f"{_HOLDERS[column.part]}.{column.field}"
        if issubclass(column.type, Enum):
            plain = f"{value}._value_"
            value = f"{value} and {plain}" if column.optional else plain
        if column.part == "cause":
            value = f"c and {value}"
        entries.append(f"{column.name!r}: {value}")
    source = f"def encode(x):\n u, c = x.usage, x.cause\n return {{{', '.join(entries)}}}"
    made: dict[str, Any] = {}
    exec(source, made)  # noqa: S102  of our own names
    encode: Callable[[Exchange], Json] = made["encode"]
    return encode


_encode = _encoder()


def encode_exchange(exchange: Exchange) -> Json:
    """Encode a call under contract §2's names, then what else classifying it again needs.

    Times are seconds; ``started_at`` since the epoch. Without a cause the names of a cause are
    None.
    """
    return _encode(exchange)


def encode_cause(cause: Cause | None) -> Json:
    """Encode the fields of a call that say why it failed."""
    own = [column for column in columns() if column.part == "cause"]
    values = {column.name: cause and getattr(cause, column.field) for column in own}
    return {name: _plain(values[name]) for name in _ORDER if name in values}


def _value(member: Enum | None) -> object:
    return None if member is None else member.value


class CodecError(ValueError):
    """A dict cannot be decoded; ``field`` names the key."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CodecError(name, "is not a string")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise CodecError(name, "is not a list")
    return tuple(_text(f"{name}.{place}", each) for place, each in enumerate(value))


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError(name, "is not a whole number")
    return value


def _tokens(name: str, value: object) -> int | None:
    """Read a count of tokens; one that no call can have is unknown (an earlier version kept it)."""
    limit = COUNT_LIMIT if name in _STATED else len(_STATED) * COUNT_LIMIT
    count = _count(name, value)
    return count if 0 <= count <= limit else None


def _cost(name: str, value: object) -> float | None:
    cost = _number(name, value)
    return cost if 0 <= cost <= COST_LIMIT else None


def _number(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise CodecError(name, "is not a number")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise CodecError(name, "is neither true nor false")
    return value


def _member(kind: type[E]) -> Callable[[str, object], E]:
    def read(name: str, value: object) -> E:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise CodecError(name, f"is none of {known}") from None

    return read


def _rewards(name: str, value: object) -> dict[str, float]:
    return {key: _number(f"{name}.{key}", number) for key, number in _object(name, value).items()}


def _object(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise CodecError(name, "is not an object")
    return {_text(name, key): member for key, member in value.items()}


def _neighbours(name: str, value: object) -> dict[str, Neighbours]:
    return {
        call: Neighbours(**{f: read(f"{name}.{call}.{f}", found[f]) for f, read in _NEAR.items()})
        for call, each in _object(name, value).items()
        for found in [_NEAR_BEFORE | _object(f"{name}.{call}", each)]
    }


_NEAR_BEFORE: dict[str, object] = {
    "alike": None, "answered": None, "answered_between": None, "listing_failed": None,
    "starts": None, "respelled": False,  # which earlier versions did not look for
}  # fmt: skip
_NEAR: Mapping[str, Callable[[str, object], Any]] = {
    "alike": _count,
    "answered": _count,
    "answered_between": _flag,
    "listing_failed": _flag,
    "starts": _count,
    "respelled": _flag,
}
Reader = Callable[[str, object], object]


def _optional(reader: Reader) -> Reader:
    return lambda name, value: None if value is None else reader(name, value)


def _fields(
    name: str, value: object, readers: Mapping[str, tuple[Reader, object]]
) -> dict[str, Any]:
    """Read an object's fields, of which those that are missing have their default."""
    source = _object(name, value)
    return {
        field: reader(f"{name}.{field}", source.get(field, default))
        for field, (reader, default) in readers.items()
    }


def _reference_call(name: str, value: object) -> ReferenceCall:
    return ReferenceCall(**_fields(name, value, _REFERENCE_CALL))


def _reference_calls(name: str, value: object) -> tuple[ReferenceCall, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise CodecError(name, "is not a list")
    return tuple(_reference_call(f"{name}.{place}", each) for place, each in enumerate(value))


def _series(name: str, value: object) -> ReferenceSeries:
    return ReferenceSeries(**_fields(name, value, _SERIES))


def _references(name: str, value: object) -> dict[str, ReferenceSeries]:
    return {
        call: _series(f"{name}.{call}", series) for call, series in _object(name, value).items()
    }


_REFERENCE_CALL: Mapping[str, tuple[Reader, object]] = {
    "exchange_id": (_text, None),
    "started_at": (_number, None),
    "ended_at": (_number, None),
    "answered": (_optional(_flag), None),
    "subcategory": (_optional(_member(Subcategory)), None),
    "reason": (_optional(_text), None),
    "explained": (_flag, False),
    "timed_out": (_flag, False),
    "retry_after_s": (_optional(_number), None),
}
_SERIES: Mapping[str, tuple[Reader, object]] = {
    "id": (_text, None),
    "upstream": (_text, None),
    "model": (_optional(_text), None),
    "api": (_optional(_text), None),
    "started_at": (_number, None),
    "ended_at": (_optional(_number), None),
    "calls": (_reference_calls, ()),
    "not_run": (_optional(_member(NotRun)), None),
}
# Key in the dict → (field of the noun, how its value is read).
Columns = Mapping[str, tuple[str, Reader]]


def _columns(reader: Reader, *names: str) -> dict[str, tuple[str, Reader]]:
    return {name: (name, reader) for name in names}


_STATED = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens",
           "reasoning_tokens", "total_tokens")  # fmt: skip


def _reader(column: RecordedField) -> Reader:
    """Return how a recorded value is read; a count or cost that no call can have is unknown."""
    if column.part == "usage" and column.type in _BOUNDED:
        return _BOUNDED[column.type]
    return _member(column.type) if issubclass(column.type, Enum) else _READERS[column.type]


_BOUNDED: Mapping[type, Reader] = {int: _tokens, float: _cost}
_READERS: Mapping[type, Reader] = {str: _text, int: _count, float: _number, bool: _flag}
_PARTS: Mapping[str, Columns] = {
    part: {each.name: (each.field, _reader(each)) for each in columns() if each.part == part}
    for part in ("", "timing", "usage", "cause")
}
_OUTCOME: Columns = {
    "status": ("status", _member(ExecutionStatus)),
    "termination_reason": ("termination_reason", _member(TerminationReason)),
    **_columns(_count, "prompts_executed", "tool_calls", "total_tokens"),
    "rewards": ("rewards", _rewards),
    "eval": ("eval", _object),
    **_columns(_text, "error", "verifier_error", "export_error"),
}
_ROLLOUT: Columns = {
    **_columns(_text, "id", "batch", "task", "model", "upstream", "usage_channel"),
    **_columns(_count, "repeat", "attempt", "gaps", "unattributed_calls"),
    **_columns(_texts, "fallbacks"),
    **_columns(_text, "agents", "validity", "max_steps", "content_filter", "skipped"),
    **_columns(_number, "began_at", "ended_at"),
    **_columns(_neighbours, "neighbours"),
    **_columns(_references, "references"),
}

N = TypeVar("N", Usage, Timing, Cause, Exchange, Outcome, RolloutRecord)


def _read(noun: type[N], columns: Columns, source: Mapping[str, object], **more: object) -> N:
    values = {
        field: reader(name, source[name])
        for name, (field, reader) in columns.items()
        if source.get(name) is not None
    }
    build: Callable[..., N] = noun
    try:
        return build(**values, **more)
    except TypeError:
        raise CodecError(_missing(noun, columns, values), "is missing") from None


def _missing(noun: type[N], columns: Columns, values: Mapping[str, object]) -> str:
    """Return the name of the first field that has no default and no value."""
    names = {field: name for name, (field, _) in columns.items()}
    required = [f.name for f in fields(noun) if f.name in names and f.name not in values]
    return next((names[name] for name in required), noun.__name__)


def decode_exchange(source: Mapping[str, object]) -> Exchange:
    """Decode an exchange; ``CodecError`` names the key that cannot be read."""
    caused = source.get("subcategory") is not None
    return _read(
        Exchange,
        _PARTS[""],
        source,
        timing=_read(Timing, _PARTS["timing"], source),
        usage=_read(Usage, _PARTS["usage"], source),
        cause=_read(Cause, _PARTS["cause"], source) if caused else None,
    )


def encode_outcome(outcome: Outcome) -> Json:
    """Encode an outcome under contract §2's names."""
    encoded: Json = {name: getattr(outcome, field) for name, (field, _) in _OUTCOME.items()}
    return encoded | {
        "status": outcome.status.value,
        "termination_reason": _value(outcome.termination_reason),
    }


def decode_outcome(source: Mapping[str, object]) -> Outcome:
    """Decode an outcome.

    ``CodecError`` names a key with a value outside its set, ``OutcomeError`` one that
    contradicts another.
    """
    return validate(_read(Outcome, _OUTCOME, source))


def encode_rollout(rollout: RolloutRecord) -> Json:
    """Encode a rollout without its exchanges and its outcome."""
    encoded: Json = {name: getattr(rollout, field) for name, (field, _) in _ROLLOUT.items()}
    near = encode_neighbours(rollout.neighbours)
    encoded |= {"fallbacks": list(rollout.fallbacks), "neighbours": near}
    if rollout.skipped is None:
        del encoded["skipped"]
    if rollout.references:
        encoded["references"] = encode_references(rollout.references)
    else:
        del encoded["references"]
    return encoded


def encode_neighbours(neighbours: Mapping[str, Neighbours]) -> Json:
    """Encode the neighbours of failed calls, by exchange id."""
    return {call: asdict(found) for call, found in neighbours.items()}


def decode_neighbours(source: Mapping[str, object]) -> dict[str, Neighbours]:
    """Decode neighbours; ``CodecError`` names a wrong key."""
    return _neighbours("neighbours", source)


def encode_series(series: ReferenceSeries) -> Json:
    """Encode a series of reference calls."""
    return {field.name: _plain(getattr(series, field.name)) for field in fields(series)}


def decode_series(source: Mapping[str, object]) -> ReferenceSeries:
    """Decode a series of reference calls; ``CodecError`` names a wrong key."""
    return _series("series", source)


def encode_references(references: Mapping[str, ReferenceSeries]) -> Json:
    """Encode the series that were asked beside failed calls, by exchange id."""
    return {call: encode_series(series) for call, series in references.items()}


def decode_references(source: Mapping[str, object]) -> dict[str, ReferenceSeries]:
    """Decode series by exchange id; ``CodecError`` names a wrong key."""
    return _references("references", source)


def decode_rollout(source: Mapping[str, object]) -> RolloutRecord:
    """Decode a rollout without exchanges and outcome; ``CodecError`` names a wrong key."""
    return _read(RolloutRecord, _ROLLOUT, source)


__all__ = [
    "CodecError",
    "OutcomeError",
    "decode_exchange",
    "decode_neighbours",
    "decode_outcome",
    "decode_references",
    "decode_rollout",
    "decode_series",
    "encode_cause",
    "encode_exchange",
    "encode_neighbours",
    "encode_outcome",
    "encode_references",
    "encode_rollout",
    "encode_series",
]


# --- verdicts and results ---


def encode_verdict(verdict: Verdict) -> Json:
    """Encode a verdict with the contract's keys in the contract's order."""
    return {
        "rollout_id": verdict.rollout_id,
        "batch": verdict.batch,
        "health": verdict.health.value,
        "error_category": verdict.error_category,
        "subcategory": _plain(verdict.subcategory),
        "transient": verdict.transient,
        "fingerprint": verdict.fingerprint,
        "cause": verdict.cause,
        "lane": verdict.lane,
        "layer": _plain(verdict.layer),
        "rule": verdict.rule,
        "policy": verdict.policy,
        "error": verdict.error,
        "total_requests": verdict.total_requests,
        "failed_requests": verdict.failed_requests,
        "recovered_requests": verdict.recovered_requests,
        "status_counts": dict(verdict.status_counts),
        "dominant_status": verdict.dominant_status,
        "input_tokens": verdict.input_tokens,
        "output_tokens": verdict.output_tokens,
        "total_tokens": verdict.total_tokens,
        "tool_calls": verdict.tool_calls,
        "cost_usd": verdict.cost_usd,
        "lost_s": verdict.lost_s,
        "scoreable": verdict.scoreable,
        "doomed": verdict.doomed,
        "provisional": verdict.provisional,
        "retry": {
            "eligible": verdict.retry.eligible,
            "after_s": verdict.retry.after_s,
            "reason": verdict.retry.reason,
        },
        "warnings": list(verdict.warnings),
        "evidence": list(verdict.evidence),
        "classifier": verdict.classifier,
        "late_calls": verdict.late_calls,
        "judged_at": verdict.judged_at,
        "attributed_to": _plain(verdict.attributed_to),
        "corroborated": verdict.corroborated,
        "validity": _plain(verdict.validity),
        "validity_coverage": _plain(verdict.validity_coverage),
        "roles": _plain(verdict.roles),
        "provider_s": verdict.provider_s,
        "agent_s": verdict.agent_s,
        "excluded_by": list(verdict.excluded_by),
        "proof": _plain(verdict.proof),
    }


# A look-up costs a third of an enum's call.
_HEALTHS = {member.value: member for member in Health}
_SUBCATEGORIES = {member.value: member for member in Subcategory}
_LAYERS = {member.value: member for member in Layer}
_ATTRIBUTED: dict[str | None, AttributedTo | None] = {
    None: None,
    **{member.value: member for member in AttributedTo},
}
# All of a verdict but its last fields, the provider's wait and the servings.
_VERDICT = tuple(f.name for f in fields(Verdict))[:-2]
_IN_ORDER = itemgetter(*_VERDICT)
_DEFAULTS = asdict(Verdict(rollout_id="", batch=None, health=Health.HEALTHY, rule="", policy=""))
for _required in ("rollout_id", "batch", "health", "rule", "policy"):
    del _DEFAULTS[_required]


def decode_verdict(source: Mapping[str, object]) -> Verdict:
    """Decode a stored verdict, which is without the provider's wait."""
    values: dict[str, Any] = {**_DEFAULTS, **source}
    subcategory, layer, retry = values["subcategory"], values["layer"], values["retry"]
    values["health"] = _HEALTHS[values["health"]]
    values["subcategory"] = _SUBCATEGORIES[subcategory] if subcategory else None
    values["layer"] = _LAYERS[layer] if layer else None
    values["attributed_to"] = _ATTRIBUTED[values["attributed_to"]]
    values["retry"] = Retry(**retry)
    values["warnings"], values["evidence"] = tuple(values["warnings"]), tuple(values["evidence"])
    values["excluded_by"] = tuple(values["excluded_by"])
    if values["proof"]:
        values["proof"] = _proof(values["proof"])
    if values["validity"]:
        values["validity"] = tuple(map(_finding, values["validity"]))
    values["validity_coverage"] = {
        check: Coverage(**seen) for check, seen in values["validity_coverage"].items()
    }
    values["roles"] = {role: _role(each) for role, each in values["roles"].items()}
    return Verdict(*_IN_ORDER(values))  # by position: a batch may have thousands


def _proof(source: Mapping[str, Any]) -> Proof:
    return Proof(**{**source, "source": ProofSource(source["source"])})


def _finding(source: Mapping[str, Any]) -> ValidityFinding:
    level, evidence = Level(source["level"]), tuple(source["evidence"])
    return ValidityFinding(**{**source, "level": level, "evidence": evidence})


def _role(source: Mapping[str, Any]) -> RoleVerdict:
    subcategory = source["subcategory"]
    return RoleVerdict(
        **{
            **source,
            "health": _HEALTHS[source["health"]],
            "subcategory": _SUBCATEGORIES[subcategory] if subcategory else None,
            "evidence": tuple(source["evidence"]),
        }
    )


def encode_result(result: Result) -> Json:
    """Encode a result; every diagnostic kind's field is there, mostly None."""
    encoded: Json = {}
    for field in fields(Result):
        if field.name == "diagnostics":
            encoded |= {
                name: _plain(info) for name, info in result_fields(result.diagnostics).items()
            }
        else:
            encoded[field.name] = _plain(getattr(result, field.name))
    return encoded


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return value
