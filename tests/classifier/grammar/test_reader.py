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
from tests.classifier.grammar.fresh_samples import ELSEWHERE, FRESH, LATER, STATE, WHOSE, Fresh
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


@each(
    "sample",
    [*FRESH, *LATER, *ELSEWHERE, *STATE, *WHOSE],
    ids=lambda s: f"{s.upstream}-{s.status}-{s.message[:40]}",
)
def test_an_error_that_no_row_lists_is_understood(sample: Fresh) -> None:
    cause = classify(sample.answer())
    assert cause is not None
    assert cause.subcategory is sample.gives, cause.rule
    assert sample.reason is None or cause.reason == sample.reason


def test_a_route_that_is_named_is_told_by_words_and_not_by_its_status() -> None:
    """Rules take ``status.404`` for a 404 that says nothing."""
    routes = [sample for sample in ELSEWHERE if sample.reason == "wrong_endpoint"]
    rules = [cause.rule for sample in routes if (cause := classify(sample.answer()))]
    assert len(rules) == len(routes) >= 10
    assert [rule for rule in rules if rule.startswith("status.")] == []


LOOKALIKES = (
    (400, REJECTED, "Invalid key 'foo' in tools[0].function"),
    (400, REJECTED, "Missing key 'role' in messages[0]"),
    (400, REJECTED, "Image generation is disabled for this model"),
    (400, REJECTED, "Field 'abort' is not allowed in the request"),
    (400, REJECTED, "Unexpected token } in JSON at position 9"),
    (400, REJECTED, "Invalid token at line 3 of the grammar"),
    (422, REJECTED, "user must be a string"),
    (400, REJECTED, "Invalid user message: content is empty"),
    (400, REJECTED, "messages.1.content.0: Invalid `signature` in `thinking` block"),
    (401, AUTH, "Invalid token signature, the conversation was not found"),
    (403, AUTH, "The request signature we calculated does not match the signature you provided"),
    (401, AUTH, "The signature of the JWT could not be verified"),
    (400, AUTH, "Request signature is missing or invalid"),
    (400, REJECTED, "The model generated invalid JSON"),
    (400, REJECTED, "The model called a tool that was not found"),
    (400, REJECTED, "Function 'lookup' was not found in the tools of the request"),
    (400, REJECTED, "The thinking budget exceeds the maximum of 24576"),
    (400, REJECTED, "The date must be within a month of the request"),
    (400, REJECTED, "Invalid response format: the schema of the account object is invalid"),
    (400, REJECTED, "file_id file-123 not found"),
    (404, REJECTED, "Conversation conv_1 not found"),
    (404, REJECTED, "Thread with id thread_1 was not found"),
    (404, REJECTED, "File not found"),
    (404, REJECTED, "Assistant asst_1 not found"),
    (404, REJECTED, "Vector store vs_1 not found."),
    (404, REJECTED, "Batch batch_1 does not exist"),
    (400, REJECTED, "The model response is missing a tool call id"),
    (400, REJECTED, "The system prompt is required"),
    (400, REJECTED, "Unknown field: budget"),
    (400, REJECTED, "image location is not supported: only https urls are allowed"),
    (400, REJECTED, "Invalid region value in the tool parameters"),
    (
        500,
        PROVIDER,
        "The model produced invalid content. Consider modifying your prompt.",
    ),
    (
        500,
        PROVIDER,
        "Internal error: failed to fetch the account of this key, whether or not over quota",
    ),
    (500, PROVIDER, "Something went wrong while processing your request"),
    (502, PROVIDER, "Invalid response received from the upstream server"),
    (500, PROVIDER, "upstream returned an invalid JSON body"),
    (500, PROVIDER, "database connection limit reached"),
    (503, PROVIDER, "No capacity left in this region, try another region"),
    (500, PROVIDER, "worker failed: tensor shape mismatch"),
    (500, PROVIDER, "KeyError: 'choices'"),
    (500, PROVIDER, "Failed to parse response of the model server"),
    (503, PROVIDER, "The model is temporarily unavailable due to maintenance"),
    (503, PROVIDER, "Model is currently unavailable. Please try again later."),
    (
        429,
        RATE,
        "Too many requests. If you need a higher quota, ask billing to raise your limit.",
    ),
    (429, RATE, "Rate limit exceeded. Upgrade your plan or purchase credits to get higher limits."),
    (429, RATE, "Slow down! Free accounts are limited; see pricing for credits."),
    (429, RATE, "You are being rate limited. Please check your subscription plan."),
    (429, RATE, "Requests per minute limit exceeded, daily limit is 1000"),
    (429, RATE, "Concurrent request limit reached for your plan"),
    (403, REJECTED, "Prompt blocked by safety settings"),
    (400, REJECTED, "Input contains disallowed content"),
    (403, AUTH, "Organization policy constraint denies this project access"),
    (403, AUTH, "Blocked by organization policy"),
    (403, AUTH, "Your IP address is not allowed"),
    (403, AUTH, "Cloudflare: access denied"),
    (401, AUTH, "Rate limit information unavailable: invalid key"),
    (400, REJECTED, "This model does not support the parameter top_k"),
    (400, REJECTED, "tool_choice 'required' is not supported by this model"),
    (400, REJECTED, "reasoning_effort is not available for model gpt-4o"),
    (
        400,
        REJECTED,
        "max_tokens is too large: 99999. This model supports at most 16384 completion tokens",
    ),
    (400, REJECTED, "seed is required to be an integer"),
    (400, REJECTED, "The payment field of the function schema is invalid"),
    (400, REJECTED, "Property 'credits' is required"),
    (400, REJECTED, "Unknown parameter: 'usage'. Did you mean 'user'?"),
    (422, REJECTED, "plan: field required"),
    (400, REJECTED, "Audio is too short: minimum audio length is 0.1 seconds"),
    (200, PROVIDER, "Something failed"),
    (200, PROVIDER, "The provider returned an unknown error"),
    (200, PROVIDER, "stream reset by upstream"),
    (200, PROVIDER, "Upstream idle timeout exceeded"),
    (408, PROVIDER, "Request timed out"),
    (400, REJECTED, "Total size of images exceeds the limit of 20 MB"),
    (413, REJECTED, "Payload too large"),
    (400, REJECTED, "You must provide a model parameter"),
    (400, REJECTED, "Bad request: no messages"),
    (404, REJECTED, "The requested resource was not found"),
    (404, REJECTED, "Cannot POST /v1/chat/completion"),
    (404, REJECTED, "Route not found"),
    (404, REJECTED, "Unknown request URL: GET /v2/models"),
    (400, REJECTED, "Instructions are not valid"),
    (400, REJECTED, "stop sequence is too long"),
    (400, REJECTED, "There are too many images in the request"),
    (400, REJECTED, "too many tools: 200 > 128"),
    (400, REJECTED, "Too many stop sequences"),
    (429, RATE, "Too many tokens in the last minute"),
    (400, REJECTED, "The value of stream_options.include_usage must be a boolean"),
    (400, REJECTED, "Duplicate tool name: get_account_balance"),
    (400, REJECTED, "Tool names must be unique; quota_check appears twice"),
    (400, REJECTED, "response_format of type json_schema requires a schema"),
    (400, REJECTED, "The first message must use the user role"),
    (400, REJECTED, "Roles must alternate between user and assistant"),
    (400, REJECTED, "Image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"),
    (400, REJECTED, "Could not fetch image from the url: 404"),
    (400, REJECTED, "unsupported file format, only pdf is allowed"),
    (400, REJECTED, "PDF pages exceed limit: 120 > 100"),
    (400, REJECTED, "n must be 1 when best_of is unset"),
    (400, REJECTED, "logit_bias contains an invalid token id"),
    (400, REJECTED, "Only one of max_tokens and max_completion_tokens may be given"),
    (422, REJECTED, "value is not a valid integer"),
    (400, REJECTED, "The conversation must begin with a user message"),
    (400, REJECTED, "Previous response with id resp_1 not found."),
    (400, REJECTED, "cached content is too small: 100 tokens, minimum 1024"),
    (404, REJECTED, "cachedContents/abc not found"),
    (400, REJECTED, "background mode is not supported with store=false"),
    (400, REJECTED, "Zero data retention is enabled; store must be false"),
    (400, REJECTED, "metadata keys may have at most 64 characters"),
    (400, REJECTED, "safety_identifier is too long"),
    (400, REJECTED, "service_tier must be one of auto, default or flex"),
    (400, REJECTED, "parallel_tool_calls is only allowed when tools are specified"),
    (413, REJECTED, "Content Too Large"),
    (415, REJECTED, "Unsupported media type: expected application/json"),
    (405, REJECTED, "Method not allowed"),
    (404, REJECTED, "no Route matched with those values"),
    (404, REJECTED, "The page you were looking for does not exist"),
    (500, PROVIDER, "panic: runtime error: index out of range"),
    (500, PROVIDER, "CUDA error: device-side assert triggered"),
    (500, PROVIDER, "NCCL communicator was aborted"),
    (500, PROVIDER, "Internal error encountered."),
    (502, PROVIDER, "Bad Gateway"),
    (
        503,
        PROVIDER,
        "upstream connect error or disconnect/reset before headers. reason: connection failure",
    ),
    (503, PROVIDER, "Service Unavailable: the backend pool has no healthy members"),
    (504, PROVIDER, "Gateway Time-out"),
    (500, PROVIDER, "Failed to get token count from tokenizer service"),
    (500, PROVIDER, "Error in generating: torch.OutOfMemoryError: CUDA out of memory"),
    (529, PROVIDER, "Site is overloaded"),
    (521, PROVIDER, "Web server is down"),
    (500, PROVIDER, "failed to load key value cache"),
    (500, PROVIDER, "Redis connection to the rate limiter failed"),
    (500, PROVIDER, "Could not validate the response of the billing service"),
    (429, RATE, "Request limit hit, retry in 2 seconds"),
    (429, RATE, "RPM limit reached"),
    (429, RATE, "Requests are throttled"),
    (429, RATE, "try later"),
    (429, RATE, "Your requests exceeded the per-second limit, daily usage is unaffected"),
    (429, RATE, "You've sent too many messages, wait 30 seconds"),
    (429, PROVIDER, "The server is busy now"),
    (429, PROVIDER, "We are at capacity right now"),
    (503, PROVIDER, "Too busy, try later"),
    (401, AUTH, "Missing bearer token"),
    (401, AUTH, "JWT expired"),
    (401, AUTH, "Signature mismatch"),
    (401, AUTH, "Unknown user"),
    (403, AUTH, "Missing permission: models.invoke"),
    (403, AUTH, "Your team may not use this endpoint"),
    (403, AUTH, "This project has been deleted"),
    (403, AUTH, "Account verification is required"),
    (403, AUTH, "Country blocked"),
    (403, REJECTED, "Message rejected by content filter"),
    (403, REJECTED, "Guardrail intervened"),
    (400, REJECTED, "The generated output was blocked as it violates a usage policy"),
    (400, REJECTED, "the prompt has 9000 tokens, which is more than the maximum of 8192"),
    (400, REJECTED, "Conversation too long for this model"),
    (400, REJECTED, "tokens in prompt + max_tokens > context"),
    (402, QUOTA, "no active subscription"),
    (403, QUOTA, "trial ended"),
    (429, QUOTA, "You have used all of your included requests this month"),
    (403, QUOTA, "insufficient funds in wallet"),
    (429, QUOTA, "Out of tokens for today"),
    (429, QUOTA, "Your plan's weekly allowance is used up"),
    (403, QUOTA, "Prepaid balance is empty"),
    (500, PROVIDER, "loader: unable to map GPU_Heap"),
    (400, REJECTED, "unable to map tool_spec"),
    (404, MODEL, "Deployment llm-a not found"),
    (404, MODEL, "There is no model named foo"),
    (400, MODEL, "foo is not a known model"),
    (400, MODEL, "Model foo isn't served here"),
    (404, MODEL, "Model foo has been sunset"),
    (403, MODEL, "Your key has no access to model foo"),
    (400, MODEL, "You have not enabled model foo"),
    (404, MODEL, "unknown deployment"),
    (400, MODEL, "model foo is disabled for this workspace"),
)
"""Sentences with words of money, keys and models in them that are about something else."""


@each("status, gives, message", LOOKALIKES)
def test_a_look_alike_is_told_apart(status: int, gives: Subcategory, message: str) -> None:
    assert subcategory(status, message) is gives


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
