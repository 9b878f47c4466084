"""What subjects and predicates mean together."""

from __future__ import annotations

import tomllib

import pytest

from classifier.grammar import GRAMMAR
from classifier.grammar.meanings import FILE, RANKS, Meaning, meanings, read_meanings
from classifier.grammar.vocabulary import Term, vocabulary
from classifier.verdicts import Subcategory
from tests.classifier.test_cause_table import DATA
from tests.tables import each

RULE_COLUMN = 64  # characters, proxy.store.tables
SAID_OF = {term.id: term for term in vocabulary().subjects}
SAID = {term.id: term for term in vocabulary().predicates}
CIRCUMSTANCES = {"wait.short", "name", "name.resource_exhausted"}


def _first(term: Term) -> str:
    phrase = next(iter(term.phrases()))
    return ("not " if term.negated else "") + " ".join(phrase).replace("*", "")


def test_rows_name_terms_that_exist() -> None:
    subjects = {name for row in meanings() for name in row.subjects}
    predicates = {name for row in meanings() for name in row.predicates} - {"no"}
    anywhere = {name for row in meanings() for name in (*row.beside, *row.without, *row.also)}
    assert sorted(subjects - SAID_OF.keys()) == []
    assert sorted(predicates - SAID.keys()) == []
    assert sorted(anywhere - SAID_OF.keys() - SAID.keys() - CIRCUMSTANCES) == []


def test_every_rule_fits_its_column_and_their_number_is_bounded_by_the_tables() -> None:
    rules = {
        f"{where}.{row.gives.value}:{subject}+{predicate}"
        for row in meanings()
        for where in (("said",) if row.said_only else ("said", "named"))
        for subject in row.subjects or ("it",)
        for predicate in row.predicates
    }
    assert max(len(rule) for rule in rules) <= RULE_COLUMN
    assert len(rules) < 1_300


def test_money_is_tried_first_and_general_words_last() -> None:
    assert tuple(dict.fromkeys(row.rank for row in meanings())) == RANKS
    quota = {row.rank for row in meanings() if row.gives is Subcategory.QUOTA}
    assert quota == {RANKS[0]} == {"money"}


@each("row", meanings(), ids=lambda row: f"{row.gives}-{sorted(row.subjects)}")
def test_every_row_decides_some_sentence(row: Meaning) -> None:
    """A row that others always forestall would be dead."""
    statuses = (429,) if row.on is None else sorted(row.on, key=lambda s: s or 0)
    named = "'x'" if "name" in row.beside else ""
    circumstances = [
        _first(SAID.get(name) or SAID_OF[name]) for name in sorted(row.beside - CIRCUMSTANCES)
    ]
    for subject in sorted(row.subjects) or [""]:
        about = _first(SAID_OF[subject]) if subject else "it"
        for predicate in sorted(row.predicates - {"no"}):
            for beside in circumstances or [""]:
                more = " ".join(_first(SAID[name]) for name in sorted(row.also)[:1])
                core = f"{about} {_first(SAID[predicate])} {more}"
                said = f"the {core}; {beside} {named}"
                for status in {statuses[0], statuses[-1]}:
                    wait = 5.0 if "wait.short" in row.beside else None
                    found = GRAMMAR.read(said, (), status=status, retry_after_s=wait)
                    if found is not None and found.meaning is row:
                        return
    pytest.fail("no sentence reaches this row")


@each(
    "row, said",
    [
        ("{subjects = 'limit', cause = 'quota'}", "predicates is needed"),
        ("{subject = 'limit'}", "unknown key 'subject' (known: subjects, predicates, cause,"),
        ("{subjects = 1}", "subjects: 1 is no text"),
        ("{cause = 'money'}", "cause: 'money' is none of auth,"),
        ("{within = -1}", "within: -1 is no number of words"),
        ("{not_on = 200.5}", "not_on: 200.5 is none of '4xx', '5xx', 200 and"),
        ("1", "not a table"),
    ],
    ids=lambda case: case[1],
)
def test_a_mistake_is_told_by_file_row_and_key(row: str, said: str) -> None:
    text = (DATA / FILE).read_text("utf-8").replace("money = [\n", f"money = [\n{row},\n")
    with pytest.raises(ValueError) as raised:
        list(read_meanings(lambda _: tomllib.loads(text)))
    assert str(raised.value).startswith(f"{FILE}: money: row 1: {said}")
