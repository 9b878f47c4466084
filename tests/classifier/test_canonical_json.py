"""Canonical bytes as RFC 8785 has them, and digests of records."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.canonical_json import (
    CanonicalError,
    canonical_json,
    digest_of,
    record_digest,
    rounded,
)
from tests.tables import each

# RFC 8785, appendix B: the bits of a double, and its text.
NUMBERS = {
    "0000000000000000": "0", "8000000000000000": "0", "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324", "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308", "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992", "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22", "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23", "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000", "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7", "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332", "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333", "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343", "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}  # fmt: skip


@each("bits, text", NUMBERS.items())
def test_a_number_is_written_as_the_rfc_lists_it(bits: str, text: str) -> None:
    number: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical_json(number).decode() == text


def test_keys_are_ordered_as_the_rfc_orders_them() -> None:
    """By UTF-16 code units, in which 😀 comes before דּ (RFC 8785 §3.2.3)."""
    names = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\u00f6": 7}
    keys = list(json.loads(canonical_json(names)))
    assert keys == ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_strings_are_escaped_as_the_rfc_escapes_them() -> None:
    text = '\u20ac$\x0f\nA\'B"\\\\"/\x7f'
    assert canonical_json(text) == '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\x7f"'.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_back_as_it_was(number: float) -> None:
    assert float(canonical_json(number)) == number


@each("value", [float("nan"), float("inf"), 2**53 + 1, "\ud800", {1: 2}, b"x"])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        canonical_json(value)


def test_sums_in_another_order_are_the_same_once_rounded() -> None:
    one, other = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert one != other
    assert canonical_json(rounded({"a": [one]})) == canonical_json(rounded({"a": (other,)}))
    assert canonical_json(rounded(-0.0000001)) == b"0"


def test_a_digest_of_records_does_not_depend_on_their_order() -> None:
    one, other = record_digest({"a": 1}), record_digest({"b": 2})
    assert digest_of([one, other]) == digest_of([other, one])
    assert digest_of([one]) != digest_of([one, one])
