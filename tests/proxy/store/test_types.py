"""What goes into the store: attributes as columns, JSON in one spelling."""

from __future__ import annotations

from proxy.store.tables import Registration, as_json, rollouts


def test_attributes_of_a_registration_are_columns_of_rollouts() -> None:
    attributes = Registration(id="r1", batch="b").attributes
    assert "id" not in attributes
    assert set(attributes) <= set(rollouts.columns.keys())
    assert (attributes["batch"], attributes["task"]) == ("b", None)


def test_one_value_has_one_spelling() -> None:
    assert as_json({"b": 1, "a": [None, "é"]}) == as_json({"a": [None, "é"], "b": 1})
    assert as_json({"b": 1, "a": None}) == '{"a":null,"b":1}'
