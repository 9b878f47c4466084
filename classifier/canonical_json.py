"""Canonical JSON (RFC 8785), and digests of records in it that any machine computes alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring as _quoted  # what `json.dumps` escapes by
from typing import Any

Digest = bytes
SIZE = 32  # bytes of a digest, which is SHA-256's

_WHOLE = 2**53  # beyond it JSON's numbers, which are doubles, skip whole numbers
_DIGITS = 6  # behind the point: what machines add up in another order differs further back


class CanonicalError(ValueError):
    """A value has no canonical form: not a number, a whole number above 2⁵³, half a character."""


def rounded(value: Any) -> Any:
    """Return JSON's value with its numbers rounded to six digits behind the point."""
    if isinstance(value, float):
        return round(value, _DIGITS) + 0.0  # and no negative zero
    if isinstance(value, Mapping):
        return {
            key: each if type(each) in _WITHOUT_FRACTION else rounded(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


_WITHOUT_FRACTION = frozenset((str, int, bool, type(None)))


def canonical_json(value: object) -> bytes:
    """Encode a value as RFC 8785 does, so that equal values have equal bytes on any machine.

    Raises:
        CanonicalError: it has no canonical form.
    """
    try:
        return _text(value).encode()
    except UnicodeEncodeError:
        raise CanonicalError("half a surrogate pair") from None


def _text(value: Any) -> str:
    # Most values of an export are null or a string: those cost one comparison each.
    if value is None:
        return "null"
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is float:
        return _number(value)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case int():
            if abs(value) > _WHOLE:
                raise CanonicalError(f"{value} is beyond 2^53")
            return str(value)
        case float():
            return _number(value)
        case Mapping():
            members = [f"{name}{_text(value[key])}" for key, name in _members(tuple(value))]
            return f"{{{','.join(members)}}}"
        case list() | tuple():
            return f"[{','.join(map(_text, value))}]"
        case _:
            raise CanonicalError(f"{type(value).__name__} is not in JSON")


@lru_cache(maxsize=64)  # the records of an export have few sets of keys
def _members(keys: tuple[Any, ...]) -> Sequence[tuple[Any, str]]:
    """Return keys in the order of RFC 8785, each with the text before its value."""
    return [(key, f"{_quoted(key)}:") for key in sorted(keys, key=_utf_16)]


def _utf_16(key: object) -> bytes:
    if not isinstance(key, str):
        raise CanonicalError("a key is not a string")
    return key.encode("utf-16-be")


def _number(value: float) -> str:
    """Write a number as ECMAScript's ``Number::toString`` (RFC 8785 §3.2.2.3)."""
    if not math.isfinite(value):
        raise CanonicalError("not a finite number")
    if 1e-4 <= abs(value) < 1e16:  # here Python writes the same digits, without an exponent
        return repr(value).removesuffix(".0")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction.rstrip("0")).lstrip("0") or "0"
    # The value is 0.digits × 10^point.
    leading = len(whole + fraction) - len((whole + fraction).lstrip("0"))
    point = len(whole) - leading + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"{sign}{digits[0]}{'.' if len(digits) > 1 else ''}{digits[1:]}{power}"


def record_digest(record: object) -> Digest:
    """Return the digest of one record, its numbers rounded.

    Raises:
        CanonicalError: it has no canonical form.
    """
    return sha256(canonical_json(rounded(record))).digest()


def digest_of(records: Iterable[Digest]) -> str:
    """Return one digest of many records in hex, in whatever order their digests come."""
    return sha256(b"".join(sorted(records))).hexdigest()


def split(digests: bytes | bytearray) -> Iterator[Digest]:
    """Yield digests that stand one after another."""
    for at in range(0, len(digests), SIZE):
        yield bytes(digests[at : at + SIZE])
