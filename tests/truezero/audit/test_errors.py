"""Causes of exceptions, however they are kept, are those of the wire; one by one in `told`."""

from __future__ import annotations

from classifier.causes import classify
from classifier.fingerprints import fingerprint
from classifier.records import Ending, FailureEvidence, Kind
from proxy.wire.provider_error import read_error
from tests.truezero.audit.scenarios import (
    FAILURES,
    FILTERED,
    TOO_LONG,
    Raised,
)
from truezero.audit.errors import CLIENT_ERRORS, SILENT, STATUSES, failed_call
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError


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


def fingerprints(raised: Raised) -> tuple[str | None, str | None]:
    """The fingerprint of a failure on the wire, and of its exception in a harness's files."""
    ending = SILENT.get(raised.type, Ending.COMPLETE)
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


def test_an_exception_without_an_answer_has_no_status() -> None:
    assert {STATUSES[name] for name in SILENT} == {None}
    assert STATUSES.keys() > CLIENT_ERRORS.keys()


def test_what_files_do_not_say_is_none_and_never_zero() -> None:
    run, call, error = FinishedRun(id="r", task="t"), RecordedCall(), RecordedError()
    assert (run.reward, run.tokens, run.tool_calls, run.calls, run.output) == (None,) * 5
    assert (call.content, call.input_tokens, call.output_tokens, call.tool_calls) == (None,) * 4
    assert (error.status, error.type, error.body) == (None,) * 3
