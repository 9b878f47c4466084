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
from tests.tables import each

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


def subcategory(
    status: int, message: str, wait: float | None = None, type: str | None = None
) -> Any:
    cause = classify(answer(status, ProviderError(message=message, type=type), wait))
    assert cause is not None
    return cause.subcategory


# -- what it was not written for --------------------------------------------------------------


def test_a_route_that_is_named_is_told_by_words_and_not_by_its_status() -> None:
    """Rules take ``status.404`` for a 404 that says nothing."""
    routes = [
        each for each in WORDED if each.set == "elsewhere" and each.reason == "wrong_endpoint"
    ]
    rules = [cause.rule for row in routes if (cause := row.observed().cause)]
    assert len(rules) == len(routes) >= 10
    assert [rule for rule in rules if rule.startswith("status.")] == []


@each(
    "status, message",
    [
        (400, "Thinking blocks are not supported by this model"),
        (400, "Invalid request: reasoning content is not supported here"),
        (400, "encrypted_content is not supported"),
        (400, "Invalid value: 'reasoning.encrypted_content'. Supported values are: 'file_search'"),
        (400, "messages.0.content: thinking blocks are not allowed in user messages"),
        (400, "thinking_budget is invalid"),
        (400, "Tool names must be unique"),
        (400, "Tool choice is required, but the model did not call a tool"),
        (400, "Function call arguments are not valid JSON"),
        (400, "This model does not support function calling"),
        (400, "Tool call validation failed: the tool was not in the request"),
        (404, "The model `conversation-7b` does not exist"),
        (404, "The route of this response was not found"),
        (500, "can't start new thread"),
        (502, "Invalid response from upstream: reasoning_content is missing"),
    ],
)
def test_what_only_names_a_conversations_state_is_not_its_loss(status: int, message: str) -> None:
    cause = classify(answer(status, ProviderError(message=message)))
    assert cause is not None
    assert cause.reason != "lost_state", cause.rule


# -- how it reads -----------------------------------------------------------------------------


def test_a_decision_says_which_subject_and_predicate_met() -> None:
    found = GRAMMAR.read("Your balance is insufficient", (), status=400)
    assert found is not None
    assert found.rule == "said.quota:balance+insufficient"
    named = GRAMMAR.read(None, ("InsufficientBalance",), status=400)
    assert named is not None
    assert (named.rule, named.name) == ("named.quota:balance+insufficient", "InsufficientBalance")


def test_subject_and_predicate_stand_in_either_order() -> None:
    assert read("insufficient balance") is QUOTA
    assert read("balance insufficient") is QUOTA


def test_they_must_share_a_clause() -> None:
    assert read("This concerns your balance. The number of rows is insufficient") is None


def test_they_must_be_close() -> None:
    far = "the balance between what was asked for and what had been given was insufficient"
    assert read(far) is None


@pytest.mark.parametrize(
    ("said", "denied", "gives"),
    [
        ("The quota is exhausted", "The quota is not exhausted", QUOTA),
        ("Your credits have been depleted", "Your credits have not been depleted", QUOTA),
        ("The content was flagged", "The content was not flagged", REJECTED),
        ("The api key has expired", "The api key hasn't expired", AUTH),
        ("The account is suspended", "The account isn't suspended", AUTH),
        ("The context is exceeded", "The context was never exceeded", REJECTED),
        ("The server crashed", "The server has not crashed", PROVIDER),
        ("余额已用尽", "余额未用尽", QUOTA),
    ],
)
def test_a_negation_denies_a_predicate(said: str, denied: str, gives: Subcategory) -> None:
    assert read(said) is gives
    assert read(denied) is None


@pytest.mark.parametrize(
    ("denied", "affirmed", "gives"),
    [
        ("The model 'x' was not found", "The model 'x' was found", MODEL),
        ("The api key is not valid", "The api key is valid", AUTH),
        ("The model is no longer available", "The model is available", MODEL),
        ("No models are loaded", "Models are loaded", MODEL),
        ("Your account is not active", "Your account is active", AUTH),
    ],
)
def test_some_predicates_fail_only_under_a_negation(
    denied: str, affirmed: str, gives: Subcategory
) -> None:
    assert read(denied) is gives
    assert read(affirmed) is None


def test_advice_and_conditions_report_nothing() -> None:
    assert read("Please make sure that your api key is not expired") is None
    assert read("It fails if your credits are exhausted") is None
    assert read("Try again when the quota was exceeded", status=429) is None


@pytest.mark.parametrize(
    "message",
    [
        "Cannot parse 'my account balance is insufficient'",
        'Unexpected text "the api key expired" at line 1',
        "Row rejected, got: credits exhausted",
        "Bad row. input: the model was not found",
        "Row 3 received quota exceeded",
    ],
)
def test_an_echo_of_the_request_is_not_read(message: str) -> None:
    assert read(message, status=418) is None


def test_a_feature_that_a_model_lacks_is_no_missing_model() -> None:
    assert read("Tools with model x-1 are not supported") is not MODEL
    assert read("This feature is not available for model gpt-4") is not MODEL
    assert read("The model does not support images") is REJECTED


@pytest.mark.parametrize(
    ("message", "daily"),
    [
        ("Rate limit reached on tokens per day (TPD)", True),
        ("You exceeded your monthly quota", True),
        ("5-hour usage limit reached", True),
        ("Limit: 3 requests per min, 200 requests per day", False),
        ("Rate limit reached on tokens per min (TPM)", False),
    ],
)
def test_a_limit_over_more_than_an_hour_is_an_allotment(message: str, *, daily: bool) -> None:
    assert subcategory(429, message) is (QUOTA if daily else RATE)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422, 429, 500, 503])
def test_money_outranks_generic_names_at_every_status(status: int) -> None:
    for name in ("permission_error", "api_error", "rate_limit_error", "invalid_request_error"):
        assert subcategory(status, "insufficient balance (1008)", type=name) is QUOTA


def test_advice_about_rate_limits_makes_no_rate_limit_of_a_quota() -> None:
    told = "You exceeded your current quota. Please read about requests per minute and rate limits"
    assert subcategory(429, told) is QUOTA


def test_advice_to_pay_tells_why_an_account_is_shut() -> None:
    assert subcategory(403, "Your account is suspended. Please top up") is QUOTA
    assert subcategory(403, "Your account is suspended. Please write to us") is AUTH


def test_the_word_quota_alone_proves_nothing() -> None:
    assert subcategory(429, "Ask for a quota increase") is RATE
    assert subcategory(429, "Quota exceeded for tokens per minute") is RATE
    assert subcategory(429, "You exceeded your current quota. Please retry in 56.1s") is RATE
    boilerplate = "You exceeded your current quota, please check your plan and billing details."
    assert subcategory(429, boilerplate, type="RESOURCE_EXHAUSTED") is RATE
    assert subcategory(429, boilerplate) is QUOTA


@pytest.mark.parametrize("status", [402, 403, 429])
def test_a_wait_of_an_hour_is_an_allotment_whatever_its_name(status: int) -> None:
    assert subcategory(status, "Slow down", 3_600.0, type="rate_limit_error") is QUOTA
    assert subcategory(status, "Slow down. Please retry after 86400 seconds") is QUOTA
    assert subcategory(503, "Slow down", 86_400.0, type="server_error") is not QUOTA


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


@pytest.mark.parametrize(
    "error",
    [
        ProviderError(type="validation_error", message="one of them is wrong"),
        ProviderError(code="invalid_argument_error"),
        ProviderError(message="The prompt violates our content policy"),
        ProviderError(message="The input is longer than the context length", type="server_error"),
    ],
)
def test_an_error_inside_a_200_about_the_request_is_no_provider_failure(
    error: ProviderError,
) -> None:
    cause = classify(answer(200, error))
    assert cause is not None
    assert (cause.subcategory, cause.transient) == (REJECTED, False)


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (400, ProviderError(), None),
        (422, ProviderError(message="That did not work"), None),
        (400, ProviderError(type="invalid_request_error", message="Invalid request"), None),
        (400, ProviderError(type="INVALID_ARGUMENT", message="Invalid argument."), None),
        (418, ProviderError(message="No"), None),
        (400, ProviderError(type="invalid_request_error", param="top_p"), "malformed"),
        (400, ProviderError(message="Missing required parameter: 'messages'"), "malformed"),
        (400, ProviderError(message="prompt is too long: 9 > 8 tokens"), "context_length"),
        (400, ProviderError(message="Streaming is not supported here"), "unsupported"),
        (413, ProviderError(), "too_large"),
        (404, ProviderError(message="404 page"), "wrong_endpoint"),
        (403, ProviderError(message="Your content was flagged"), "content_filter"),
    ],
)
def test_a_rejection_has_a_reason_only_where_something_explains_it(
    status: int, error: ProviderError, reason: str | None
) -> None:
    cause = classify(answer(status, error))
    assert cause is not None
    assert (cause.subcategory, cause.reason) == (REJECTED, reason)


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
ORDERS = (
    ("exhausted is your credit balance", QUOTA),
    ("has reached the monthly usage limit", QUOTA),
    ("not found was the model", MODEL),
    ("invalid api key", AUTH),
    ("a policy is violated by the content", REJECTED),
    ("too long is the prompt", REJECTED),
    ("per minute too many requests", RATE),
    ("overloaded is the engine", PROVIDER),
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


def test_the_order_of_words_does_not_change_the_cause() -> None:
    for message, gives in (*SENTENCES, *ORDERS):
        assert read(message) is gives, message


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


@given(message=st.text(max_size=300), names=st.lists(st.text(max_size=40), max_size=4))
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

    small, large = BAD[kind](10_000), BAD[kind](20_000)
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
