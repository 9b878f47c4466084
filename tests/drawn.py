"""Random records for hypothesis: each field of a dataclass drawn by its declared type."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

from hypothesis import strategies as st

from classifier.declarations import declared, is_record

T = TypeVar("T")

_PLAIN: Mapping[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: st.integers(0, 10**9),
    bool: st.booleans(),
    float: st.floats(0, 1e6),
    object: st.none() | st.booleans() | st.text(max_size=5),
}
_KEYS = st.text(max_size=5)


def drawn(cls: type[T], **given: st.SearchStrategy[Any]) -> st.SearchStrategy[T]:
    """Draw records of a class; what is kept in memory only has its default."""
    drawn_by_type = {
        each.name: st.none() | _of(each.type) if each.optional else _of(each.type)
        for each in declared(cls)
    }
    return st.builds(cls, **drawn_by_type | given)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    if is_record(kind):
        return drawn(kind)
    if get_origin(kind) is tuple:
        return st.lists(_of(get_args(kind)[0]), max_size=3).map(tuple)
    if get_origin(kind) is not None:
        return st.dictionaries(_KEYS, _of(get_args(kind)[1]), max_size=3)
    return st.sampled_from(kind) if issubclass(kind, Enum) else _PLAIN[kind]
