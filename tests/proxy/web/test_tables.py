"""The view of a table at hand: what its addresses say, and the order of its rows."""

from __future__ import annotations

import pytest

from proxy.routing.errors import Refusal
from proxy.web.tables import TableView, read_table


def table(**query: str) -> TableView:
    return read_table(
        list(query.items()), kept=("a",), filters=("text", "subcategory"),
        columns=("name", "count", "note"), usual_sort="count", down=("count",),
        several=("subcategory",),
    )  # fmt: skip


def test_what_is_as_usual_is_left_out_of_an_address() -> None:
    assert table().query() == ""
    assert table(a="x", text="", sort="count", order="desc").query() == "a=x"
    assert table(a="x", text="q", sort="name").query(after="z") == "a=x&text=q&sort=name&after=z"
    assert table(text="q", sort="name", order="desc").query(text=None) == "sort=name&order=desc"


def test_a_header_sorts_in_its_own_way_first_and_then_turns() -> None:
    usual = table(text="q")
    assert (usual.direction("count"), usual.direction("name")) == ("descending", None)
    assert usual.sorted_by("count") == "text=q&order=asc"
    assert usual.sorted_by("name") == "text=q&sort=name"
    up = table(sort="name")
    assert (up.direction("name"), up.sorted_by("name")) == ("ascending", "sort=name&order=desc")
    assert table(sort="name", order="desc").sorted_by("name") == "sort=name"
    assert table(order="asc").sorted_by("count") == ""


def test_each_filter_can_be_taken_away_and_a_form_keeps_the_rest() -> None:
    view = table(a="x", text="q&r", sort="name")
    assert view.chips == [("text", "q&r", "a=x&sort=name")]
    assert view.without("text") == [("a", "x"), ("sort", "name")]


def test_each_of_several_values_of_a_filter_is_a_chip_of_its_own() -> None:
    view = table(text="q,r", subcategory="a,b,a", sort="name")
    assert view.values("subcategory") == ["a", "b"]
    assert view.values("text") == ["q,r"], "which has one value"
    assert view.query() == "text=q,r&sort=name&subcategory=a,b"
    assert [(name, value, to) for name, value, to in view.chips] == [
        ("text", "q,r", "sort=name&subcategory=a,b"),
        ("subcategory", "a", "text=q,r&sort=name&subcategory=b"),
        ("subcategory", "b", "text=q,r&sort=name&subcategory=a"),
    ]
    assert view.cleared == "sort=name"


def test_chosen_columns_are_in_the_address_and_in_the_file() -> None:
    view = table(columns="note", text="q")
    assert (table().columns, view.columns) == (["count", "note"], ["note"])
    assert (view.query(), view.query(columns=None)) == ("text=q&columns=note", "text=q")
    assert view.sorted_by("name") == "text=q&sort=name&columns=note"
    of = {"name": ("name",), "count": ("count",), "note": ("note", "by")}
    assert view.file_columns(of, "name") == ["name", "note", "by"]
    assert view.shorter([("text", "q"), ("columns", "note")]) is None
    assert view.shorter([("text", "q"), ("sort", "")]) == "text=q&columns=note"
    ticked = [("columns", "count"), ("columns", "note")]
    assert view.shorter(ticked) is not None, "each box by itself"


def test_rows_without_a_value_come_last_and_alike_ones_stay() -> None:
    rows = [("a", 1), ("b", None), ("c", 2), ("d", 1)]
    for order, names in (("desc", "cadb"), ("asc", "adcb")):
        sorted_ = table(order=order).ordered(rows, lambda row: row[1])
        assert "".join(name for name, _ in sorted_) == names


def test_a_column_or_an_order_that_there_is_not_is_refused() -> None:
    for query, said in (
        ({"sort": "age"}, "sort: 'age'"), ({"order": "up"}, "order: "),
        ({"columns": "count,age"}, "columns: 'age'"), ({"columns": "name"}, "columns: 'name'"),
    ):  # fmt: skip
        with pytest.raises(Refusal) as refused:
            table(**query)
        assert (refused.value.status, refused.value.detail[: len(said)]) == (422, said)
