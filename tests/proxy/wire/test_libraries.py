"""Without the libraries of the service JSON is read the same, by the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from proxy.wire.libraries import JSONDecodeError, standard_dumps, standard_loads
from tests.tables import each

ROOT = Path(__file__).parents[3]

_ALIKE = (
    b'{"error": {"message": "no credits", "code": 402}}',
    b'{"a": 1, "a": [true, null, -0.5]}',
    '"プロンプト"'.encode(),
    b" [1, 2] ",
)
_NO_JSON = (
    b"", b"nul", b"{} {}", b"\xff", b"\xef\xbb\xbf{}", b'"\x01"', b"[NaN]", b"[Infinity]",
    b"[" * 100_000,
)  # fmt: skip


@each("text", _ALIKE)
def test_json_is_the_same_by_the_standard_library(text: bytes) -> None:
    assert standard_loads(text) == orjson.loads(text)
    assert standard_loads(text.decode()) == orjson.loads(text)


@each("text", _NO_JSON, ids=lambda text: repr(text[:12]))
def test_what_orjson_refuses_is_refused(text: bytes) -> None:
    with pytest.raises(JSONDecodeError):
        orjson.loads(text)
    with pytest.raises(JSONDecodeError):
        standard_loads(text)


def test_json_is_written_the_same_by_the_standard_library() -> None:
    value = {"b": [1, None, "é"], "a": {"d": 1.5, "c": True}}
    assert standard_dumps(value) == orjson.dumps(value)
    assert standard_dumps(value, sort_keys=True) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def test_too_deep_a_value_is_an_error_of_one_type() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    for write in (orjson.dumps, standard_dumps):
        with pytest.raises(TypeError):
            write(value)


# -S: no package is found that was installed.
_PLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from proxy.wire.framing import Unreadable, decoder
from proxy.wire.libraries import dumps, loads, sorted_dumps
assert loads(b'{"a": 1}') == {"a": 1}
assert dumps({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
assert sorted_dumps({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
for name in (b"br", b"zstd"):
    try:
        decoder([name], 1000)
    except Unreadable as error:
        print(error)
"""


def test_without_its_libraries_an_encoding_is_one_that_is_not_known() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _PLAIN, str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["the content encoding is unknown"] * 2
