"""Read tables of facts by a schema: those in ``classifier/data``, and an operator's.

The shipped files are TOML, each read when it is first needed. A mistake is a ``ValueError`` that
names the file, the row and the key.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from classifier.verdicts import Subcategory

Schema: TypeAlias = Mapping[str, Callable[[object], object]]
"""The reader of each key's value; it raises ``ValueError`` for one that is not valid."""

Read: TypeAlias = Callable[[str], Mapping[str, Any]]
"""Reads a file of ``classifier/data`` by its name."""

Statuses: TypeAlias = frozenset[int | None]
"""Statuses that a failure may come with; None is that of an error inside a 200 that states none."""


def shipped(file: str) -> Mapping[str, Any]:
    """Read a file of ``classifier/data``."""
    data = pkgutil.get_data("classifier", f"data/{file}")
    assert data is not None  # only a loader that has no data returns it
    return tomllib.loads(data.decode("utf-8"))


def fields(given: object, schema: Schema) -> dict[str, Any]:
    """Read the values of a table.

    Raises:
        ValueError: it is no table, or a key is unknown, or its value not valid.
    """
    values = {}
    for key, value in table(given).items():
        if key not in schema:
            raise ValueError(f"unknown key {key!r} (known: {', '.join(schema)})")
        try:
            values[key] = schema[key](value)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return values


def needed(values: Mapping[str, object], *keys: str) -> None:
    """Raise ``ValueError`` if one of these keys is not given."""
    if missing := [key for key in keys if key not in values]:
        raise ValueError(f"{missing[0]} is needed")


# --- values ------------------------------------------------------------------------------------

_CODES: Final = range(400, 1000)
_GROUPS: Final[Mapping[object, Statuses]] = {
    "4xx": frozenset(range(400, 500)),
    "5xx": frozenset(range(500, 1000)),
    200: frozenset((None,)),
}
ANY_STATUS: Final = frozenset[int | None]().union(*_GROUPS.values())


def statuses(value: object) -> Statuses:
    """Read one status or a list of them."""
    met: set[int | None] = set()
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str | int) and each in _GROUPS:
            met |= _GROUPS[each]
        elif isinstance(each, int) and each in _CODES:
            met.add(each)
        else:
            raise ValueError(f"{each!r} is none of '4xx', '5xx', 200 and the statuses from 400 on")
    return frozenset(met)


def listed(value: object) -> list[object]:
    """Read a list."""
    if not isinstance(value, list):
        raise ValueError("not a list")
    return value


def flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def text(value: object) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{value!r} is no text")
    return value


def table(value: object) -> Mapping[str, object]:
    """Read a table."""
    if not isinstance(value, Mapping):
        raise ValueError("not a table")
    return value


def texts(value: object) -> Mapping[str, str]:
    """Read a table of texts."""
    return fields(value, dict.fromkeys(table(value), text))


def word_set(value: object) -> frozenset[str]:
    """Read words separated by blanks."""
    return frozenset(text(value).split())


def subcategory(value: object) -> Subcategory:
    """Read a cause by its name."""
    try:
        return Subcategory(str(value))
    except ValueError:
        raise ValueError(f"{value!r} is none of {', '.join(Subcategory)}") from None
