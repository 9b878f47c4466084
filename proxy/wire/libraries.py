"""JSON, brotli and zstd as payloads are read with them: by the libraries of ``truezero[server]``.

The client's install has none of them and still reads an answer (``truezero.cause_of``): JSON by the
standard library, and bodies whose encoding the HTTP client has undone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

JSONDecodeError: Final = json.JSONDecodeError  # orjson's is one


def standard_loads(text: bytes | str) -> Any:
    """Parse JSON by the standard library; NaN, other encodings and deep nesting are no JSON.

    Raises:
        json.JSONDecodeError: it is none.
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, parse_constant=_no_number)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise json.JSONDecodeError(str(error), "", 0) from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def standard_dumps(value: object, *, sort_keys: bool = False) -> bytes:
    """Write JSON by the standard library, in orjson's form.

    Raises:
        TypeError: it is nested too deep, or holds what JSON does not have.
    """
    try:
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys
        ).encode()
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None


loads: Callable[[bytes | str], Any]
dumps: Callable[[object], bytes]  # raises TypeError, as orjson.JSONEncodeError is
sorted_dumps: Callable[[object], bytes]
try:
    import orjson
except ModuleNotFoundError:
    loads, dumps = standard_loads, standard_dumps
    sorted_dumps = partial(standard_dumps, sort_keys=True)
else:
    loads, dumps = orjson.loads, orjson.dumps
    sorted_dumps = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)


class _NotRaised(Exception):
    """An error of a library that is not installed."""


brotli_decompressor: Callable[[], Any] | None
BrotliError: type[Exception]
try:
    import brotli
except ModuleNotFoundError:
    brotli_decompressor, BrotliError = None, _NotRaised
else:
    brotli_decompressor, BrotliError = brotli.Decompressor, brotli.error

zstd_decompressor: Callable[[], Any] | None
ZstdError: type[Exception]
try:
    import zstandard
except ModuleNotFoundError:
    zstd_decompressor, ZstdError = None, _NotRaised
else:
    zstd_decompressor, ZstdError = zstandard.ZstdDecompressor, zstandard.ZstdError
