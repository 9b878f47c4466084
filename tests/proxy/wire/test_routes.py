"""What a call's method and path say: the rows of ``routes.jsonl``.

``UPDATE_GOLDEN=1 pytest tests/proxy/wire/test_routes.py`` rewrites the routes.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import routes
from proxy.wire.routes import Route
from tests import golden, tables
from tests.tables import each

FILE = Path(__file__).with_name("routes.jsonl")
ROWS = tables.lines(FILE)
# Paths of calls to models, for tests elsewhere that send to each.
POSTS, SPELLINGS = (
    tuple(row["path"] for row in ROWS if row["fact"] == fact)
    for fact in (
        "a path's end names the dialect of an inference",
        "a path is read however it is spelled",
    )
)
PLAIN = tuple(field for field in fields(Route) if field.name not in ("dialect", "shapes"))


def found(row: dict[str, Any]) -> dict[str, Any]:
    """Tell a route, but for what is as in most: its dialect by name, and what else is known."""
    route = routes.route(row["method"], row["path"].encode())
    told = {field.name: getattr(route, field.name) for field in PLAIN
            if getattr(route, field.name) != field.default}  # fmt: skip
    told["kind"] = route.kind.value
    shapes = {"shapes": [dialect.name for dialect, *_ in route.shapes]} if route.shapes else {}
    return {"dialect": route.dialect.name, **told, **shapes}


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites the routes")
def test_the_routes_are_rewritten() -> None:
    rows = [{**row, "route": found(row)} for row in ROWS]
    tables.write_lines(FILE, rows)


@each("row", ROWS, ids=lambda row: f"{row['fact']}: {row['method']} {row['path']}")
def test_a_path_has_the_route_that_its_row_says(row: dict[str, Any]) -> None:
    assert found(row) == row["route"]


@given(st.text(max_size=8), st.binary(max_size=60))
def test_any_path_has_a_route(method: str, path: bytes) -> None:
    assert routes.route(method, path).api
