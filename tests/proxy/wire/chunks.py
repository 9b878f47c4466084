"""Any way of cutting bytes into chunks, for the property tests of the framings."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut the data at the places, empty pieces included."""
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(marks)] or [data]


places = st.lists(st.integers(0, 10_000), max_size=40)
