"""The words that the grammar reads."""

from __future__ import annotations

from collections import Counter

import pytest

from classifier.grammar.meanings import MEANINGS
from classifier.grammar.vocabulary import ADVICE, CONDITIONS, NEGATIONS, PREDICATES, SUBJECTS, Term

KINDS = pytest.mark.parametrize("terms", [SUBJECTS, PREDICATES], ids=["subjects", "predicates"])


@KINDS
def test_each_term_has_an_id_of_its_own_and_a_source(terms: tuple[Term, ...]) -> None:
    assert [name for name, n in Counter(term.id for term in terms).items() if n > 1] == []
    assert [term.id for term in terms if not term.source.strip()] == []


@KINDS
def test_no_phrase_means_two_things(terms: tuple[Term, ...]) -> None:
    counts = Counter(phrase for term in terms for phrase in term.phrases())
    assert [phrase for phrase, n in counts.items() if n > 1] == []


@KINDS
def test_words_are_written_as_clauses_are_cut(terms: tuple[Term, ...]) -> None:
    words = [word for term in terms for phrase in term.phrases() for word in phrase]
    assert [word for word in words if word != word.lower()] == []
    assert [word for word in words if "-" in word or "'" in word] == []


@KINDS
def test_every_term_is_used_by_a_row(terms: tuple[Term, ...]) -> None:
    used = {
        name
        for row in MEANINGS
        for name in (*row.subjects, *row.predicates, *row.beside, *row.without)
    }
    assert [term.id for term in terms if term.id not in used] == []


def test_words_of_advice_of_conditions_and_of_negation_are_apart() -> None:
    assert ADVICE.isdisjoint(CONDITIONS)
    assert NEGATIONS.isdisjoint(ADVICE | CONDITIONS)


# --- One entry of the vocabulary ------------------------------------------------------------------


def test_a_term_lists_its_phrases_and_those_of_single_providers() -> None:
    term = Term(id="x", words="too low|gone", only={"acme": "out of widgets"}, source="a page")
    assert list(term.phrases()) == [("too", "low"), ("gone",), ("out", "of", "widgets")]


def test_an_empty_alternative_is_no_phrase() -> None:
    assert list(Term(id="x", words="a||b", source="a page").phrases()) == [("a",), ("b",)]
