"""Encode records, verdicts and results as flat dicts under REST's names, and decode them.

Decoding ignores unknown keys; what was encoded decodes to an equal value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_origin

from classifier.declarations import declared, generated, is_record
from classifier.diagnostics import REGISTRY, Diagnostic, result_fields
from classifier.records import (
    Cause,
    Exchange,
    LimitReached,
    Neighbours,
    Outcome,
    RolloutRecord,
    Timing,
    Usage,
    columns,
)
from classifier.references import ReferenceSeries
from classifier.results import Result, validate
from classifier.verdicts import Verdict

Json = dict[str, object]
E = TypeVar("E", bound=Enum)

# --- encoding ---
#
# A function is made of each record, so that there is no loop for each of its fields.


def _encoded(value: str, kind: Any, optional: bool, known: dict[str, Any]) -> str:
    """Return the expression that encodes the value of an expression; its names go to ``known``."""
    if kind is object:
        known["plain"] = _plain
        return f"plain({value})"
    encoded = value
    if is_record(kind):
        known[kind.__name__] = _encoder(kind)
        encoded = f"{kind.__name__}({value})"
    elif get_origin(kind) is tuple:
        each = _encoded("each", get_args(kind)[0], False, known)
        encoded = f"[*{value}]" if each == "each" else f"[{each} for each in {value}]"
    elif get_origin(kind) is not None:
        each = _encoded("each", get_args(kind)[1], False, known)
        items = f"**{value}" if each == "each" else f"k: {each} for k, each in {value}.items()"
        encoded = f"{{{items}}}"
    elif issubclass(kind, Enum):  # `value` costs two calls of Python's
        encoded = f"{value}._value_"
    return f"{value} and {encoded}" if optional and encoded != value else encoded


def _encoder(
    cls: type, *, sparse: Sequence[str] = (), without: Sequence[str] = (), **instead: str
) -> Callable[[Any], Json]:
    """Make the function that encodes a record under its fields' names, in their order.

    Arguments:
        sparse: fields that are left out if they have their default.
        without: fields that are left out.
        instead: entries of the dict that stand for those of a field.
    """
    known: dict[str, Any] = {"diagnosed": _diagnosed, "DEFAULTS": _defaults(cls)}
    entries = []
    for name, kind, optional, _ in declared(cls):
        entry = f"{name!r}: {_encoded(f'x.{name}', kind, optional, known)}"
        if name in sparse:
            entry = f"**({{{entry}}} if x.{name} != DEFAULTS[{name!r}] else {{}})"
        if name not in without:
            entries.append(instead.get(name, entry))
    encode: Callable[[Any], Json] = generated(
        "encode", f"def encode(x):\n return {{{', '.join(entries)}}}", **known
    )
    return encode


def _diagnosed(diagnostics: Sequence[Diagnostic]) -> Json:
    return {name: _plain(info) for name, info in result_fields(diagnostics).items()}


def _defaults(cls: type) -> Json:
    defaults: Json = {}
    for f in fields(cls):
        if f.default is not MISSING:
            defaults[f.name] = f.default
        elif f.default_factory is not MISSING:
            defaults[f.name] = f.default_factory()
    return defaults


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


# --- exchanges, outcomes and rollouts ---


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


def _exchange_encoder() -> Callable[[Exchange], Json]:
    rank = {name: place for place, name in enumerate(_ORDER)}
    known: dict[str, Any] = {}
    entries = []
    for column in sorted(columns(), key=lambda each: rank.get(each.name, len(rank))):
        value = f"{_HOLDERS[column.part]}.{column.field}"
        encoded = _encoded(value, column.type, column.optional, known)
        entries.append(f"{column.name!r}: {'c and ' * (column.part == 'cause')}{encoded}")
    encode: Callable[[Exchange], Json] = generated(
        "encode",
        f"def encode(x):\n u, c = x.usage, x.cause\n return {{{', '.join(entries)}}}",
        **known,
    )
    return encode


encode_exchange: Callable[[Exchange], Json] = _exchange_encoder()
"""Encode a call under contract §2's names, then what else classifying it again needs.

Times are seconds; ``started_at`` since the epoch. Without a cause the names of a cause are None.
"""


def encode_cause(cause: Cause | None) -> Json:
    """Encode the fields of a call that say why it failed."""
    own = [column for column in columns() if column.part == "cause"]
    values = {column.name: cause and getattr(cause, column.field) for column in own}
    return {name: _plain(values[name]) for name in _ORDER if name in values}


class CodecError(ValueError):
    """A dict cannot be decoded; ``field`` names the key."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise CodecError(name, "is not a string")
    return value


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CodecError(name, "is not a whole number")
    return value


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


def _object(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise CodecError(name, "is not an object")
    return {_text(name, key): member for key, member in value.items()}


Reader = Callable[[str, object], Any]
# Key in the dict → (field of the record, how its value is read).
Columns = Mapping[str, tuple[str, Reader]]
_READERS: Mapping[type, Reader] = {
    str: _text, int: _count, float: _number, bool: _flag, object: lambda _, value: value
}  # fmt: skip


def _reader(kind: Any, limit: float | None = None) -> Reader:
    """Return how a value of a type is read; a count or cost above its limit is unknown."""
    if limit is not None:
        return _bounded(_READERS[kind], limit)
    if kind in _READERS:
        return _READERS[kind]
    if is_record(kind):
        return _record_reader(kind)
    if get_origin(kind) is tuple:
        return _list_reader(_reader(get_args(kind)[0]))
    if get_origin(kind) is not None:
        return _mapping_reader(_reader(get_args(kind)[1]))
    return _member(kind)


def _bounded(reader: Reader, limit: float) -> Reader:
    def read(name: str, value: object) -> Any:
        number = reader(name, value)
        return number if 0 <= number <= limit else None  # an earlier version kept it

    return read


def _list_reader(reader: Reader) -> Reader:
    def read(name: str, value: object) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise CodecError(name, "is not a list")
        return tuple(reader(f"{name}.{place}", each) for place, each in enumerate(value))

    return read


def _mapping_reader(reader: Reader) -> Reader:
    def read(name: str, value: object) -> Any:
        return {key: reader(f"{name}.{key}", each) for key, each in _object(name, value).items()}

    return read


def _record_reader(cls: type) -> Reader:
    known = _columns(cls)
    optional = {each.name for each in declared(cls) if each.optional}
    unknown = dict.fromkeys(optional - set(_defaults(cls)))

    def read(name: str, value: object) -> Any:
        source = _object(name, value)
        try:
            return _read(cls, known, source, **unknown)
        except CodecError as error:
            raise CodecError(f"{name}.{error.field}", error.problem) from None

    return read


def _columns(cls: type, *without: str) -> Columns:
    return {
        each.name: (each.name, _reader(each.type, each.limit))
        for each in declared(cls)
        if each.name not in without
    }


_PARTS: Mapping[str, Columns] = {
    part: {
        each.name: (each.field, _reader(each.type, each.limit))
        for each in columns()
        if each.part == part
    }
    for part in ("", "timing", "usage", "cause")
}
_OUTCOME = _columns(Outcome)
_ROLLOUT = _columns(RolloutRecord, "exchanges", "outcome")

N = TypeVar("N")


def _read(cls: type[N], columns: Columns, source: Mapping[str, object], **more: object) -> N:
    values = {
        field: reader(name, source[name])
        for name, (field, reader) in columns.items()
        if source.get(name) is not None
    }
    build: Callable[..., N] = cls
    try:
        return build(**(more | values))
    except TypeError:
        raise CodecError(_missing(cls, columns, values), "is missing") from None


def _missing(cls: type, columns: Columns, values: Mapping[str, object]) -> str:
    """Return the name of the first field that has no default and no value."""
    names = {field: name for name, (field, _) in columns.items()}
    required = [f.name for f in fields(cls) if f.name in names and f.name not in values]
    return next((names[name] for name in required), cls.__name__)


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


encode_outcome: Callable[[Outcome], Json] = _encoder(Outcome)
"""Encode an outcome under contract §2's names."""
encode_rollout: Callable[[RolloutRecord], Json] = _encoder(
    RolloutRecord,
    sparse=(
        "client_cache",
        "reward_range",
        "score_key",
        "passes_tokens",
        "skipped",
        "limit_reached",
        "references",
    ),
    without=("exchanges", "outcome"),
)
"""Encode a rollout without its exchanges and its outcome."""
encode_limit_reached: Callable[[LimitReached], Json] = _encoder(LimitReached)
"""Encode the limit that refused a rollout's call."""
_encode_neighbours, _encode_series = _encoder(Neighbours), _encoder(ReferenceSeries)
_read_limit_reached: Callable[[str, object], LimitReached] = _record_reader(LimitReached)
_read_series: Callable[[str, object], ReferenceSeries] = _record_reader(ReferenceSeries)
_read_references: Callable[[str, object], dict[str, ReferenceSeries]]
_read_references = _mapping_reader(_read_series)
_read_neighbours: Callable[[str, object], dict[str, Neighbours]]
_read_neighbours = _mapping_reader(_record_reader(Neighbours))


def decode_outcome(source: Mapping[str, object]) -> Outcome:
    """Decode an outcome.

    ``CodecError`` names a key with a value outside its set, ``OutcomeError`` one that
    contradicts another.
    """
    return validate(_read(Outcome, _OUTCOME, source))


def encode_neighbours(neighbours: Mapping[str, Neighbours]) -> Json:
    """Encode the neighbours of failed calls, by exchange id."""
    return {call: _encode_neighbours(each) for call, each in neighbours.items()}


def decode_neighbours(source: Mapping[str, object]) -> dict[str, Neighbours]:
    """Decode neighbours; ``CodecError`` names a wrong key."""
    return _read_neighbours("neighbours", source)


def decode_series(source: Mapping[str, object]) -> ReferenceSeries:
    """Decode a series of reference calls; ``CodecError`` names a wrong key."""
    return _read_series("series", source)


def encode_references(references: Mapping[str, ReferenceSeries]) -> Json:
    """Encode the series that were asked beside failed calls, by exchange id."""
    return {call: _encode_series(each) for call, each in references.items()}


def decode_references(source: Mapping[str, object]) -> dict[str, ReferenceSeries]:
    """Decode series by exchange id; ``CodecError`` names a wrong key."""
    return _read_references("references", source)


def decode_limit_reached(source: Mapping[str, object]) -> LimitReached:
    """Decode the limit that refused a rollout's call; ``CodecError`` names a wrong key."""
    return _read_limit_reached("limit_reached", source)


def decode_rollout(source: Mapping[str, object]) -> RolloutRecord:
    """Decode a rollout without exchanges and outcome; ``CodecError`` names a wrong key."""
    return _read(RolloutRecord, _ROLLOUT, source)


def decode_diagnostics(source: Mapping[str, object]) -> tuple[Diagnostic, ...]:
    """Decode diagnostics by their result fields; ``CodecError`` names a wrong key."""
    unknown = next((name for name in source if name not in REGISTRY), None)
    if unknown is not None:
        raise CodecError(f"diagnostics.{unknown}", "is unknown")
    return tuple(_diagnostic_reader(kind)(name, source[name]) for name, kind in REGISTRY.items()
                 if source.get(name) is not None)  # fmt: skip


_diagnostic_reader = cache(_record_reader)


# --- verdicts and results ---


encode_verdict: Callable[[Verdict], Json] = _encoder(
    Verdict, health="'health': x.health._value_, 'error_category': x.error_category"
)
"""Encode a verdict with the contract's keys in the contract's order."""
encode_result: Callable[[Result], Json] = _encoder(Result, diagnostics="**diagnosed(x.diagnostics)")
"""Encode a result; every diagnostic kind's field is there, mostly None."""


def _decoded(value: str, kind: Any, optional: bool, known: dict[str, Any]) -> str:
    """Return the expression that rebuilds a value from what was stored, which is not checked."""
    decoded = value
    if is_record(kind):
        known[kind.__name__] = _decoder(kind)
        decoded = f"{kind.__name__}({'**' if known[kind.__name__] is kind else ''}{value})"
    elif get_origin(kind) is tuple:
        each = _decoded("each", get_args(kind)[0], False, known)
        items = value if each == "each" else f"[{each} for each in {value}]"
        decoded = f"tuple({items})"
    elif get_origin(kind) is not None:
        each = _decoded("each", get_args(kind)[1], False, known)
        if each != "each":
            decoded = f"{{k: {each} for k, each in {value}.items()}}"
    elif issubclass(kind, Enum):  # a look-up costs a third of an enum's call
        known[kind.__name__] = {None: None} | {member.value: member for member in kind}
        return f"{kind.__name__}[{value}]"
    return f"{value} and {decoded}" if optional and decoded != value else decoded


@cache
def _decoder(cls: type) -> Callable[..., Any]:
    """Make the function that rebuilds a record from what this or an earlier version stored.

    That of a record whose stored values need no conversion is its class, called with keywords.
    """
    known: dict[str, Any] = {}
    converted = []
    for name, kind, optional, _ in declared(cls):
        decoded = _decoded(f"v[{name!r}]", kind, optional, known)
        if decoded != f"v[{name!r}]":
            converted.append(f" v[{name!r}] = {decoded}\n")
    if not converted:
        return cls
    stored = {each.name for each in declared(cls)}
    own = [f for f in fields(cls) if f.name in stored]
    named = "".join(f", {f.name}=v[{f.name!r}]" for f in own if f.kw_only)
    decode: Callable[..., Any] = generated(
        "decode",
        f"def decode(source):\n v = {{**DEFAULTS, **source}}\n{''.join(converted)}"
        f" return RECORD(*IN_ORDER(v){named})",  # by position: a batch may have thousands
        RECORD=cls,
        IN_ORDER=itemgetter(*(f.name for f in own if not f.kw_only)),
        DEFAULTS=_plain(_defaults(cls)),
        **known,
    )
    return decode


decode_verdict: Callable[[Mapping[str, object]], Verdict] = _decoder(Verdict)
"""Decode a stored verdict, which is without the provider's wait."""
