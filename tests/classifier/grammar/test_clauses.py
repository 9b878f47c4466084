"""Sentences and names, cut into clauses of words."""

from __future__ import annotations

from classifier.grammar.clauses import CLAUSE_CAP, NAME, Speech, clauses, split_name
from classifier.grammar.vocabulary import FIELD
from tests.tables import each

SPEECH = Speech.of((), frozenset(("余额", "不足", "max_seq_len")))


def cut(text: str) -> list[str]:
    shown = {FIELD: "<field>", NAME: "<name>"}
    return [
        " ".join(shown.get(word, word) for word in clause.words) for clause in clauses(text, SPEECH)
    ]


@each(
    "name, words",
    [
        ("InvalidEndpointOrModel.NotFound", "invalid endpoint or model not found"),
        ("AccountOverdueError", "account overdue error"),
        ("insufficient_quota", "insufficient quota"),
        ("EndpointTPMExceeded", "endpoint tpm exceeded"),
        ("personal-team-blocked:spending-limit", "personal team blocked spending limit"),
        ("RESOURCE_EXHAUSTED", "resource exhausted"),
        ("1113", "1113"),
        ("", ""),
    ],
)
def test_a_name_is_split_into_words(name: str, words: str) -> None:
    assert " ".join(split_name(name)) == words


@each(
    "text, expected",
    [
        ("Balance is low. Top up; or wait", ["balance is low", "top up", "or wait"]),
        ("It isn't found, but it's there", ["it is not found", "it there"]),
        ("The model `x-1` is gone", ["the model <name> is gone"]),
        ("Invalid 'messages[1].content'", ["invalid <field>"]),
        ("`max_tokens` must be less", ["max_tokens must be less"]),
        ("max_seq_len and top_p differ", ["max_seq_len and <field> differ"]),
        ("code rate_limit_exceeded", ["code rate limit exceeded"]),
        ("2 calls / month, 10/min", ["2 calls per month", "10 per min"]),
        ("The user's “whole quota is gone” text", ["the user <name> text"]),
        ("See https://example.com/a.b?c=quota now", ["see now"]),
        ("**Bold** <b>tag</b> text", ["bold tag text"]),
        ("账户余额不足，请充值", ["账 户 余额 不足", "请 充 值"]),
        ("expected a number, got credits exhausted", ["expected a number", ""]),
        ("input: my quota is exceeded. So is credit\nNext", ["input", "next"]),
        ("Fails if your credits are exhausted. Done", ["fails", "done"]),
        ("model gpt-4o of openai/gpt-5", ["model <name> of <name>"]),
    ],
)
def test_a_text_is_cut_into_clauses(text: str, expected: list[str]) -> None:
    found = [clause.replace("max_tokens", "max_tokens") for clause in cut(text)]
    assert [c for c in found if c] == [e.replace("max_tokens", "<field>") for e in expected if e]


def test_advice_is_a_hint_and_a_report_is_not() -> None:
    found = list(clauses("Credits are gone. Please buy credits. 请充值", SPEECH))
    assert [clause.hint for clause in found] == [False, True, True]


def test_a_text_of_many_clauses_is_read_to_a_bound() -> None:
    assert len(cut("a. " * 100_000)) <= CLAUSE_CAP


@each("text", ["", "\x00", "\ud800", "'''", '"' * 5_000, "`" * 5_000, "“" * 5_000])
def test_no_text_makes_it_raise(text: str) -> None:
    assert isinstance(cut(text), list)
