"""Errors that no row lists, told by a subject and a predicate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.causes import classify
from classifier.grammar import GRAMMAR, Grammar, stated_wait
from classifier.records import Ending, FailureEvidence, Kind, ProviderError
from classifier.verdicts import Subcategory
from proxy.wire.provider_error import read_error, read_text_error
from tests.answers.table import WORDED
from tests.opcodes import opcodes

AUTH = Subcategory.AUTH
QUOTA = Subcategory.QUOTA
MODEL = Subcategory.MODEL_NOT_FOUND
RATE = Subcategory.RATE_LIMIT
PROVIDER = Subcategory.PROVIDER_ERROR
REJECTED = Subcategory.REJECTED_REQUEST


def read(message: str, *names: str, status: int | None = 400, wait: float | None = None) -> Any:
    found = GRAMMAR.read(message, names, status=status, retry_after_s=wait)
    return found and found.meaning.gives


def answer(status: int, error: ProviderError | None, wait: float | None = None) -> FailureEvidence:
    return FailureEvidence(
        upstream="mygateway",
        api="openai.chat",
        kind=Kind.INFERENCE,
        status=status,
        ending=Ending.COMPLETE,
        error=error,
        retry_after_s=wait,
    )


# -- what it was not written for --------------------------------------------------------------


def test_a_route_that_is_named_is_told_by_words_and_not_by_its_status() -> None:
    """Rules take ``status.404`` for a 404 that says nothing."""
    routes = [
        each for each in WORDED if each.set == "elsewhere" and each.reason == "wrong_endpoint"
    ]
    rules = [cause.rule for row in routes if (cause := row.observed().cause)]
    assert len(rules) == len(routes) >= 10
    assert [rule for rule in rules if rule.startswith("status.")] == []


# -- how it reads -----------------------------------------------------------------------------


def test_a_decision_says_which_subject_and_predicate_met() -> None:
    found = GRAMMAR.read("Your balance is insufficient", (), status=400)
    assert found is not None
    assert found.rule == "said.quota:balance+insufficient"
    named = GRAMMAR.read(None, ("InsufficientBalance",), status=400)
    assert named is not None
    assert (named.rule, named.name) == ("named.quota:balance+insufficient", "InsufficientBalance")


def test_a_wait_is_read_from_the_sentence() -> None:
    assert stated_wait("Please try again in 1h2m", None) == 3_720.0
    assert stated_wait("Limit 30 per 1m. Try again in 1m12s.", None) == 72.0
    assert stated_wait("Try again in 1 hour and 5 minutes, or pay", None) == 3_900.0
    assert stated_wait("resets in 1 day, 2 hrs", None) == 26 * 3_600.0
    assert stated_wait("retry in 500ms", None) == 0.5
    assert stated_wait("wait 250 milliseconds", None) == 0.25
    assert stated_wait("Retry-After: 30", None) == 30.0
    assert stated_wait("retry after 2.5.", None) == 2.5
    assert stated_wait("retry after 3 attempts", None) is None
    assert stated_wait("wait 5 months", None) is None
    assert stated_wait("resets in 4 days", 5.0) == 4 * 86_400.0
    assert stated_wait("Please retry with 9000 max_tokens", None) is None
    assert stated_wait("wait for 3 hours", None) == 3 * 3_600.0
    assert stated_wait("no wait", None) is None


def test_words_that_are_left_out_are_not_read() -> None:
    deaf = Grammar(leave_out=frozenset(("insufficient",)))
    assert deaf.read("insufficient balance", (), status=400) is None
    assert deaf.read("balance exhausted", (), status=400) is not None


# -- what does not change a cause -------------------------------------------------------------

SENTENCES = (
    ("your credit balance is exhausted", QUOTA),
    ("the monthly usage limit has been reached", QUOTA),
    ("the model was not found", MODEL),
    ("the api key is invalid", AUTH),
    ("the content violates a policy", REJECTED),
    ("the prompt is too long", REJECTED),
    ("too many requests per minute", RATE),
    ("the engine is overloaded", PROVIDER),
)
_POLITE = (
    "please see the documentation for more details and contact our support team with this id"
    " or visit the page about errors to learn how it works thank you"
)
HINT = st.lists(st.sampled_from(_POLITE.split()), max_size=60).map(
    lambda words: "Please " + " ".join(words)
)
PLAIN = st.sampled_from([str.upper, str.lower, str.title, str.capitalize])
MARK = st.sampled_from(["", "**", "<b>", "- ", "# ", "> ", "\n", "<p>"])
POINT = st.sampled_from(["", ".", "!", "...", "。", ";", "\n", "…"])


@given(
    sentence=st.sampled_from(SENTENCES),
    case=PLAIN,
    mark=MARK,
    point=POINT,
    before=st.none() | HINT,
    after=st.none() | HINT,
)
def test_casing_markup_punctuation_and_hints_do_not_change_the_cause(
    sentence: tuple[str, Subcategory],
    case: Callable[[str], str],
    mark: str,
    point: str,
    before: str | None,
    after: str | None,
) -> None:
    message, gives = sentence
    closing = mark if mark == "**" else mark.replace("<", "</") if "<" in mark else ""
    dressed = f"{mark}{case(message)}{closing}{point}"
    parts = [part for part in (before, dressed, after) if part]
    assert read(". ".join(parts)) is gives


@given(message=st.text(max_size=80), names=st.lists(st.text(max_size=20), max_size=3))
def test_no_text_makes_it_raise(message: str, names: list[str]) -> None:
    GRAMMAR.read(message, names, status=400)


# -- bad input --------------------------------------------------------------------------------


def _nested(depth: int) -> Any:
    inner: Any = {"message": "deep"}
    for _ in range(depth):
        inner = {"error": inner}
    return inner


BAD: Mapping[str, Callable[[int], object]] = {
    "one word": lambda n: {"error": {"message": "quota" * n}},
    "words": lambda n: {"error": {"message": "quota " * n, "code": "x" * n, "type": "y" * n}},
    "clauses": lambda n: {"error": {"message": "not exceeded. " * n}},
    "quotes": lambda n: {"error": {"message": "'\"`“" * n}},
    "NULs": lambda n: {"error": {"message": "\x00" * n}},
    "surrogates": lambda n: {"error": {"message": "\ud800" * n}},
    "Chinese": lambda n: {"error": {"message": "余额不足" * n}},
    "links": lambda n: {"error": {"message": "https://" * n}},
    "tags": lambda n: {"error": {"message": "<a" * n}},
    "digits": lambda n: {"error": {"message": "retry in " + "1" * n + "s"}},
    "a list": lambda n: {"errors": [{"message": "quota exceeded"}] * n},
    "nested": lambda n: _nested(min(n, 20_000)),
    "strings of JSON": lambda n: {"error": {"message": "[" * n}},
}


@pytest.mark.parametrize("kind", BAD)
def test_the_work_of_a_reading_does_not_grow_with_a_bad_body(kind: str) -> None:
    def read(body: object) -> object:
        return classify(answer(429, read_error(body)))

    def work(body: object) -> int:
        return opcodes(lambda: read(body))

    small, large = BAD[kind](3_000), BAD[kind](6_000)
    read(small)  # whatever is made once
    first = work(small)
    assert work(large) <= first * 1.01  # the order of a set
    assert first < 1_000_000


def test_bodies_of_megabytes_and_of_any_depth_are_read() -> None:
    word = "quota" * 2_000_000
    assert classify(answer(429, read_text_error(word))) is not None
    assert classify(answer(429, read_error({"error": {"message": word}}))) is not None
    deep = '{"error": {"message": "' + "[" * 10_000 + '"}}'
    assert classify(answer(429, read_error(json.loads(deep)))) is not None
