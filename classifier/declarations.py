"""Records: dataclasses that are declared once, and the functions that are made of them at import.

Codec, rows and exports read `declared` instead of repeating a record's fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeGuard,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")

IN_MEMORY: Mapping[str, object] = {"recorded": False}
"""Metadata of a field that is neither stored nor encoded."""


class AtMost(NamedTuple):
    """Metadata of a number's type: a value below 0 or above ``limit`` is unknown."""

    limit: float


class DeclaredField(NamedTuple):
    """One field of a record that is stored and encoded.

    ``type`` is without ``None``, which the field may be if it is ``optional``. ``limit`` is that
    of `AtMost`.
    """

    name: str
    type: Any
    optional: bool
    limit: float | None = None


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Make a dataclass that is frozen to the type checker only.

    It is constructed in a third of the time: a frozen one sets each field by a call.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


def is_record(kind: object) -> TypeGuard[type]:
    """Return True for a dataclass itself, False for one of its instances and all else."""
    return isinstance(kind, type) and is_dataclass(kind)


def declared(cls: type) -> Iterator[DeclaredField]:
    """Yield the fields of a dataclass in their order, without those kept in memory only."""
    hints = get_type_hints(cls, include_extras=True)
    for each in fields(cls):
        if each.metadata.get("recorded", True):
            yield _field(each.name, hints[each.name])


def _field(name: str, hint: Any) -> DeclaredField:
    limit = None
    if get_origin(hint) is Annotated:
        hint, bound = get_args(hint)
        limit = bound.limit
    if get_origin(hint) in (Union, UnionType):
        (kind,) = (each for each in get_args(hint) if each is not NoneType)
        return DeclaredField(name, kind, True, limit)
    return DeclaredField(name, hint, False, limit)


def generated(name: str, source: str, **known: object) -> Any:
    """Make a function from its source, as ``dataclasses`` makes methods.

    Arguments:
        source: Python's text of our own, never anybody else's.
        known: the names that it uses.
    """
    exec(source, known)  # noqa: S102
    return known[name]
