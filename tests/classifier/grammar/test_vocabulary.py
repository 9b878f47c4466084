"""The words that the grammar reads."""

from __future__ import annotations

import tomllib
from collections import Counter

import pytest

from classifier.grammar.meanings import meanings
from classifier.grammar.vocabulary import FILE, Term, read_vocabulary, vocabulary
from tests.classifier.test_cause_table import DATA
from tests.tables import each

WORDS = vocabulary()
KINDS = pytest.mark.parametrize(
    "terms", [WORDS.subjects, WORDS.predicates], ids=["subjects", "predicates"]
)


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
        for row in meanings()
        for name in (*row.subjects, *row.predicates, *row.beside, *row.without, *row.also)
    }
    assert [term.id for term in terms if term.id not in used] == []


def test_words_of_advice_of_conditions_and_of_negation_are_apart() -> None:
    assert WORDS.advice.isdisjoint(WORDS.conditions)
    assert WORDS.negations.isdisjoint(WORDS.advice | WORDS.conditions)


# --- One entry of the vocabulary ------------------------------------------------------------------


def test_a_term_lists_its_phrases_and_those_of_single_providers() -> None:
    term = Term(id="x", words="too low|gone", only={"acme": "out of widgets"}, source="a page")
    assert list(term.phrases()) == [("too", "low"), ("gone",), ("out", "of", "widgets")]


def test_an_empty_alternative_is_no_phrase() -> None:
    assert list(Term(id="x", words="a||b", source="a page").phrases()) == [("a",), ("b",)]


# --- mistakes in the file -------------------------------------------------------------------------


@each(
    "before, after, said",
    [
        ('negations = "', "negations = 1  # ", "negations: 1 is no text"),
        ('negations = "', 'negation = "', "unknown key 'negation' (known: subjects,"),
        ('turns = "', '# "', "turns is needed"),
        ("[subjects]\n", "[subjects]\nx = {words = 'a'}\n", "subjects: x: source is needed"),
        ("[subjects]\n", "[subjects]\nx = {word = 'a'}\n", "subjects: x: unknown key 'word'"),
        ("[subjects]\n", "[subjects]\nx = 'a'\n", "subjects: x: not a table"),
        ('source = "<money>"', 'source = "<gold>"', "balance: source: <gold> is not in [sources]"),
        ("negated = true", "negated = 1", "predicates: not_found: negated: neither true nor false"),
        ('only = {cloudflare = "neurons"}', "only = 'neurons'", "subjects: credits: only: not a t"),
    ],
    ids=lambda case: case[2],
)
def test_a_mistake_is_told_by_file_term_and_key(before: str, after: str, said: str) -> None:
    text = (DATA / FILE).read_text("utf-8")
    assert before in text
    with pytest.raises(ValueError) as raised:
        read_vocabulary(lambda _: tomllib.loads(text.replace(before, after, 1)))
    assert str(raised.value).startswith(f"{FILE}: ")
    assert said in str(raised.value)
