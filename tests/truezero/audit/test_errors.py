"""What an exception says of a provider, and which exceptions say nothing of one."""

from __future__ import annotations

import pytest

from classifier.causes import classify
from classifier.fingerprints import fingerprint
from classifier.records import Ending, FailureEvidence, Kind
from proxy.wire.provider_error import read_error
from tests.truezero.audit.scenarios import (
    AGENTS_OWN,
    FAILURES,
    FILTERED,
    SANDBOX,
    TOO_LONG,
    Raised,
)
from truezero.audit.errors import SILENT as SILENT_ENDINGS
from truezero.audit.errors import failed_call, unsent
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError

# (text as a harness keeps it, status, subcategory)
SPOKEN = (
    ("Credit balance is too low", None, "quota"),
    ("Invalid API key · Please run /login", None, "auth"),
    (
        'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"bad"}}',
        401,
        "auth",
    ),
    ("exceeded retry limit, last status: 429 Too Many Requests", 429, "rate_limit"),
    ("unexpected status 401 Unauthorized: missing bearer", 401, "auth"),
    (
        "429 RESOURCE_EXHAUSTED. {'error': {'message': 'Quota exceeded for requests per minute'}}",
        429,
        "rate_limit",
    ),
    ("STATUS$ERROR_LLM_OUT_OF_CREDITS", 402, "quota"),
    ("Client error '401 Unauthorized' for url 'https://api.openai.com/v1/chat'", 401, "auth"),
    ("litellm.BadRequestError: AnthropicException - Your credit balance is too low", 400, "quota"),
    ("ACP error -32603: Internal error [provider auth failed (HTTP 401)]", 401, "auth"),
    ("ACP error -32603: Internal error [provider unavailable (HTTP 503)]", 503, "provider_error"),
    ("provider api error [auth/permanent] HTTP 401 on 3/3 requests", 401, "auth"),
    ("RateLimitError: limit reached, see https://console.groq.com/docs", 429, "rate_limit"),
)  # fmt: skip
# Errors of agents, tools and sandboxes beside those that scenarios draw.
SILENT = (
    "AssertionError: tests failed",
    "sandbox quota exceeded: disk limit reached",
    "Invalid token in line 4 of JSON",
    "Docker: out of memory",
    "ConnectionError: HTTPSConnectionPool(host='packages.example'): Max retries exceeded",
    "Agent openhands timed out after 900.0s",
    "RuntimeError: Agent reached maximum iteration.",
    "HTTP 404 for https://example.org/data.csv",
    "",
)


def test_what_agents_and_clients_say_of_a_provider_is_read() -> None:
    read = {
        text: (call.status, call.cause.subcategory.value) if call else None
        for text, *_ in SPOKEN
        for call in [failed_call(RecordedError(text=text), of_call=False)]
    }
    assert read == {text: (status, subcategory) for text, status, subcategory in SPOKEN}


def test_what_was_retried_until_it_was_given_up_is_named_by_its_last_exception() -> None:
    given_up = "tenacity.RetryError: RetryError[<Future at 0x7e state=finished raised {}>]"
    for raised, said in (
        ("InternalServerError", (500, "provider_error")),
        ("RateLimitError", (429, "rate_limit")),
        ("ZeroDivisionError", None),
    ):
        call = failed_call(RecordedError(text=given_up.format(raised)), of_call=False)
        assert (call and (call.status, call.cause.subcategory.value)) == said


def test_an_error_whose_json_was_cut_is_read_as_far_as_it_goes() -> None:
    client = "litellm.BadRequestError: AcmeException - "
    for text, subcategory in (
        (client + '{"error":{"message":"","type":"upstream_error","param":"502', "provider_error"),
        (client + "{'error': {'message': 'The prompt is too long: 9000 tok", "rejected_request"),
        (client + '{"error":{"message":"This model not support","type":"upst', "model_not_found"),
    ):  # fmt: skip
        call = failed_call(RecordedError(text=text), of_call=False)
        assert call is not None
        assert call.cause.subcategory.value == subcategory, text


def test_a_client_that_sent_nothing_was_given_no_status() -> None:
    for text in (
        "litellm.BadRequestError: LLM Provider NOT provided. You passed model=nobody-1",
        "litellm.AuthenticationError: Missing Acme API Key - no key is set for it",
        "openai.OpenAIError: The api_key client option must be set",
    ):
        error = RecordedError(text=text)
        call = failed_call(error, of_call=True)
        assert call is not None
        assert (call.status, unsent(error)) == (None, True), text
    assert not unsent(RecordedError(text="AuthenticationError: the API key was refused"))


def test_an_error_of_another_place_is_no_providers() -> None:
    own = [RecordedError(text=each.text, type=each.type) for each in (*AGENTS_OWN, *SANDBOX)]
    own += [RecordedError(text=each.chain) for each in (*AGENTS_OWN, *SANDBOX)]
    own += [RecordedError(text=text) for text in SILENT]
    assert [error.text for error in own if failed_call(error, of_call=False)] == []


def test_however_a_harness_keeps_an_exception_its_cause_is_the_same() -> None:
    wrong = []
    for cause, raised in [(c, r) for c, each in FAILURES.items() for r in each]:
        kept = (
            RecordedError(text=raised.chain),
            RecordedError(text=raised.text, type=raised.type),
            RecordedError(text=f"{raised.type}({raised.text!r})"),
            RecordedError(
                text=raised.text, type=raised.type, status=raised.status, body=raised.body
            ),
        )
        for error in kept:
            call = failed_call(error, of_call=False)
            if call is None or call.cause.subcategory.value != cause:
                wrong.append((cause, error))
    assert wrong == []


def test_an_exception_that_a_gateway_answers_with_is_read_for_what_it_wraps() -> None:
    within = "or code: 429 - {'error': {'message': 'no', 'code': 'insufficient_quota'}}\n\nDuring"
    wrapped = (
        (
            429,
            "RateLimitError",
            "You exceeded your current quota, check your billing",
            None,
            "quota",
        ),
        (429, "RateLimitError", "You exceeded your current quota.", within, "quota"),
        (429, "RateLimitError", "Too many requests, slow down", None, "rate_limit"),
        (500, "AuthenticationError", "the one given is wrong", None, "auth"),
        (500, "NotFoundError", "The model `gpt-9` does not exist", None, "model_not_found"),
    )
    for status, kind, words, traceback, subcategory in wrapped:
        said = f"litellm.{kind}: {kind}: OpenAIException - {words}"
        body = {"error": {"type": kind, "message": said, "traceback": traceback}}
        call = failed_call(RecordedError(status=status, body=body), of_call=True)
        assert call is not None
        assert (call.status, call.cause.subcategory.value) == (status, subcategory), words


def test_a_request_that_is_too_long_is_explained() -> None:
    reasons = [
        call and call.cause.reason
        for each in TOO_LONG
        for call in [failed_call(RecordedError(text=each.chain), of_call=False)]
    ]
    assert reasons == ["context_length"] * len(TOO_LONG)


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("APIConnectionError", Ending.NEVER_CONNECTED),
        ("APITimeoutError", Ending.TIMED_OUT),
        ("ApiConnectionClosedError", Ending.CUT_UPSTREAM),
    ],
)
def test_a_client_that_got_no_answer_has_no_status(kind: str, ending: Ending) -> None:
    call = failed_call(RecordedError(text="no more is said", type=kind), of_call=False)
    assert call is not None
    assert (call.status, call.ending, call.cause.transient) == (None, ending, True)


def test_the_error_of_a_call_needs_no_marks_of_a_client() -> None:
    error = RecordedError(text="something went wrong")
    assert failed_call(error, of_call=False) is None
    call = failed_call(error, of_call=True)
    assert call is not None
    assert call.cause.subcategory.value == "provider_error"


def test_a_number_that_is_no_error_status_is_none() -> None:
    for number in (0, 200, 700, 10**30):
        call = failed_call(RecordedError(text="it failed", status=number), of_call=True)
        assert call is not None
        assert call.status is None


def test_a_text_that_is_no_python_is_read_as_it_stands() -> None:
    broken = RecordedError(text="AuthenticationError('Error code: 401 - {')")
    call = failed_call(broken, of_call=False)
    assert call is not None
    assert call.status == 401


def fingerprints(raised: Raised) -> tuple[str | None, str | None]:
    """The fingerprint of a failure on the wire, and of its exception in a harness's files."""
    ending = SILENT_ENDINGS.get(raised.type, Ending.COMPLETE)
    error = read_error(raised.body) if raised.body else None
    answer = FailureEvidence(
        upstream="openai", api="openai.chat", kind=Kind.INFERENCE, status=raised.status,
        ending=ending, error=error,
    )  # fmt: skip
    cause = classify(answer)
    call = failed_call(RecordedError(text=raised.chain), of_call=False)
    return (
        None if cause is None else fingerprint(cause.subcategory, raised.status),
        None if call is None else fingerprint(call.cause.subcategory, call.status),
    )


def test_one_cause_has_one_fingerprint_on_the_wire_and_in_files() -> None:
    every = [raised for each in FAILURES.values() for raised in each]
    for raised in (*every, *TOO_LONG, FILTERED):
        live, audited = fingerprints(raised)
        assert live == audited != None, raised  # noqa: E711


def test_what_a_verdict_of_ours_said_is_not_read_anew() -> None:
    for text, kind, said in (
        ("api_error [quota, permanent]: HTTP 429 on 4 of 4 calls", "ApiUsageLimitError",
         "quota:429"),
        ("api_error [auth, permanent]: HTTP 400 on 1 of 1 calls", "AgentAuthenticationError",
         "auth:400"),
        ("api_error [provider_error, transient]: HTTP 200 cut midway on 1 of 1 calls",
         "ApiInternalServerError", "provider_error:200"),
        ("api_error [provider_error, transient]: no answer on 2 of 2 calls",
         "ApiInternalServerError", "provider_error:network"),
        ("api_error [quota, permanent]: an error inside HTTP 200 on 1 of 1 calls",
         "ApiUsageLimitError", "quota:200"),
        ("api_error [rejected_request, permanent]: HTTP 400 on 1 of 1 calls",
         "ProviderRejectedRequest", "rejected_request:400"),
        ("provider api error [quota/permanent] HTTP 429 on 3/3 requests", None, "quota:429"),
    ):  # fmt: skip
        call = failed_call(RecordedError(text=text, type=kind), of_call=False)
        assert call is not None, text
        assert fingerprint(call.cause.subcategory, call.status) == said
        assert call.cause.transient is ("transient" in text)
    unknown = RecordedError(text="api_error [bad luck, permanent]: HTTP 500")
    assert failed_call(unknown, of_call=False) is None


def test_an_error_inside_a_stream_has_the_status_that_the_stream_began_with() -> None:
    overloaded = "{'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}"
    for text, kind, status in (
        ("The server had an error processing your request.", "openai.APIError", 200),
        (overloaded, "anthropic.APIStatusError", 200),
        ("Error code: 402 - {'error': {'message': 'x'}}", "openai.APIStatusError", 402),
        ("litellm.APIError: APIError: OpenAIException - Overloaded", None, None),
    ):
        call = failed_call(RecordedError(text=text, type=kind), of_call=False)
        assert call is not None, text
        assert call.status == status, text


def test_the_class_of_an_exception_says_why_where_its_text_does_not() -> None:
    for kind, reason in (
        ("ContentPolicyViolationError", "content_filter"),
        ("ContextWindowExceededError", "context_length"),
        ("ContextLengthExceededError", "context_length"),
    ):
        call = failed_call(RecordedError(text="blocked", type=kind), of_call=False)
        assert call is not None
        assert call.cause.reason == reason


# --- record ---------------------------------------------------------------------------------------


def test_what_files_do_not_say_is_none_and_never_zero() -> None:
    run, call, error = FinishedRun(id="r", task="t"), RecordedCall(), RecordedError()
    assert (run.reward, run.tokens, run.tool_calls, run.calls, run.output) == (None,) * 5
    assert (call.content, call.input_tokens, call.output_tokens, call.tool_calls) == (None,) * 4
    assert (error.status, error.type, error.body) == (None,) * 3
