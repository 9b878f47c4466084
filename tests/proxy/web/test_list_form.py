"""A page's address and the list that it asks for."""

from __future__ import annotations

import pytest

from proxy.routing.errors import Refusal
from proxy.web import list_pages


def test_a_page_asks_for_the_newest_unless_its_address_says_otherwise() -> None:
    assert list_pages.read_form([]).parameters.order == "desc"
    assert list_pages.read_form([("order", "asc"), ("sort", "task")]).parameters.order == "asc"


def test_an_empty_field_asks_nothing_and_old_names_still_work() -> None:
    form = list_pages.read_form([("q", "quota"), ("health", ""), ("page", "3"), ("limit", "5")])
    assert (form.parameters.text, form.parameters.health, form.parameters.limit) == ("quota", [], 5)
    assert form.query == "text=quota&limit=5"


def test_links_and_hidden_fields_keep_what_was_asked() -> None:
    given = [("batch", "a&b"), ("task", "t"), ("task", "u"), ("health", "healthy"), ("after", "x=")]
    form = list_pages.read_form(given)
    assert (form.parameters.task, form.parameters.after) == (["t", "u"], "x=")
    assert form.query == "batch=a%26b&task=t&task=u&health=healthy"
    assert form.following("y=") == f"{form.query}&after=y%3D"
    assert form.hidden == [("batch", "a&b"), ("task", "t"), ("task", "u")]
    assert (form.value("health"), form.value("validity")) == ("healthy", "")


def test_a_batchs_page_is_of_that_batch() -> None:
    form = list_pages.read_form([("batch", "other"), ("text", "x")], batch="mine")
    assert form.parameters.batch == ["mine"]
    assert form.query == "text=x"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("colour", "red", "colour: unknown parameter"),
        ("health", "fine", "health: Input should be"),
        ("limit", "x", "limit: Input should be a valid integer"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        list_pages.read_form([(name, value)])
    assert refused.value.status == 422
    assert refused.value.detail.startswith(said)
