"""One entry of the vocabulary."""

from __future__ import annotations

from classifier.grammar.vocabulary import Term


def test_a_term_lists_its_phrases_and_those_of_single_providers() -> None:
    term = Term(id="x", words="too low|gone", only={"acme": "out of widgets"}, source="a page")
    assert list(term.phrases()) == [("too", "low"), ("gone",), ("out", "of", "widgets")]


def test_an_empty_alternative_is_no_phrase() -> None:
    assert list(Term(id="x", words="a||b", source="a page").phrases()) == [("a",), ("b",)]
