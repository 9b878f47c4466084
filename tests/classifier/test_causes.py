"""What one call's answer means: the table's claims, row by row and against each other."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.cause_rows import CauseRow
from classifier.cause_table import known_rows
from classifier.causes import CauseTable, classify, status_only
from classifier.records import Ending, FailureEvidence, Flaw, Kind, ProviderError
from classifier.verdicts import Subcategory
from proxy.wire.provider_error import read_error
from tests import corpus_score
from tests.tables import each

KNOWN = known_rows()

KEYS = [
    *("error", "message", "code", "type", "detail", "errors", "status", "metadata", "raw"),
    *("details", "innererror", "choices", "base_resp", "status_code", "response", "delta"),
    *("retryDelay", "violations", "__type", "loc", "param", "finish_reason", "success"),
]
WORDS = [
    *("quota", "credits", "credit", "billing", "budget", "limit", "plan", "spending", "model"),
    *("deployment", "key", "token", "auth", "context", "image", "region", "country", "day"),
    *("daily", "month", "policy", "filter", "moderation", "429", "401", "overloaded", "timeout"),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


def answer(**given: object) -> FailureEvidence:
    plain = FailureEvidence(
        upstream="openai",
        api="openai.chat",
        kind=Kind.INFERENCE,
        status=200,
        ending=Ending.COMPLETE,
    )
    return replace(plain, **given)  # type: ignore[arg-type]


# -- the table -------------------------------------------------------------------------


@each(
    "row, name",
    [
        (row, name)
        for row in KNOWN.table
        for name in sorted(row.codes)
        if not (row.pattern or row.params)
    ],
    ids=lambda case: f"{case[0].id}-{case[1]}",
)
def test_a_coined_name_means_the_same_inside_a_200(row: CauseRow, name: str) -> None:
    """Without a status to lean on, each name must be the first to be recognised."""
    upstream = min(row.upstreams, default="openai")
    status = 200 if row.on is None or None in row.on else min(s for s in row.on if s)
    said = ProviderError(code=name)
    cause = classify(answer(status=status, upstream=upstream, error=said))
    assert cause is not None
    assert cause.rule == row.id
    assert cause.code is not None
    assert cause.code == name


def test_no_later_row_is_hidden_behind_an_unconditional_one() -> None:
    def unconditional(row: CauseRow) -> bool:
        textual = row.codes or row.pattern or row.reason_pattern or row.params
        return not (textual or row.upstreams or row.on)

    assert [row.id for row in KNOWN.table if unconditional(row)] == []


@each("status", range(400, 600))
def test_no_failed_status_is_without_a_cause(status: int) -> None:
    assert classify(answer(status=status)) is not None


@each("status, word", itertools.product([400, 404, 429, 500], WORDS))
def test_a_bare_word_proves_nothing(word: str, status: int) -> None:
    said = ProviderError(message=f"Ask about your {word}, or the {word} of others.")
    cause = classify(answer(status=status, error=said))
    assert cause == classify(answer(status=status))


def test_the_status_that_a_wrapper_states_is_the_one_that_counts() -> None:
    """SageMaker answers 424 to whatever a container said."""
    stated = ProviderError(code="CLIENT_ERROR_FROM_MODEL", status=422)
    for status in (400, 424, 502):
        cause = classify(answer(status=status, error=stated))
        assert cause is not None
        assert cause.subcategory is Subcategory.REJECTED_REQUEST, status


def test_a_code_outranks_a_type_and_a_type_outranks_the_status() -> None:
    both = ProviderError(code="context_length_exceeded", type="rate_limit_error")
    cause = classify(answer(status=429, error=both))
    assert cause is not None
    assert cause.reason == "context_length"
    typed = classify(answer(status=400, error=ProviderError(type="rate_limit_error")))
    assert typed is not None
    assert typed.subcategory is Subcategory.RATE_LIMIT


# -- a 200 that failed -------------------------------------------------------------------


@pytest.mark.parametrize("flaw", list(Flaw))
def test_a_flawed_answer_to_inference_is_a_failure(flaw: Flaw) -> None:
    cause = classify(answer(flaw=flaw))
    assert cause is not None
    assert (cause.subcategory, cause.rule) == (KNOWN.flaws[flaw].gives, KNOWN.flaws[flaw].id)
    passes = flaw is not Flaw.WRONG_SHAPE
    assert (cause.subcategory is Subcategory.PROVIDER_ERROR, cause.transient) == (passes, passes)
    assert cause.reason == flaw.value


@pytest.mark.parametrize("kind", [Kind.PROBE, Kind.OTHER, Kind.EMBEDDING])
@pytest.mark.parametrize("flaw", list(Flaw))
def test_a_flaw_matters_to_inference_only(kind: Kind, flaw: Flaw) -> None:
    assert classify(answer(kind=kind, flaw=flaw)) is None


def test_a_whole_answer_has_no_cause() -> None:
    assert classify(answer()) is None


def test_an_error_inside_a_200_counts_for_all_but_probes() -> None:
    error = ProviderError(message="no")
    assert classify(answer(error=error, kind=Kind.EMBEDDING)) is not None
    assert classify(answer(error=error, kind=Kind.PROBE)) is None
    assert classify(answer(error=error, kind=Kind.OTHER)) is not None
    assert classify(answer(error=error, kind=Kind.ACTIVITY)) is not None


# -- endings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (Ending.CUT_UPSTREAM, "truncated"),
        (Ending.TIMED_OUT, "timeout"),
        (Ending.NEVER_CONNECTED, "network"),
    ],
)
def test_a_broken_transport_is_the_providers_failure(ending: Ending, reason: str) -> None:
    cause = classify(answer(ending=ending))
    assert cause is not None
    assert (cause.subcategory, cause.reason) == (Subcategory.PROVIDER_ERROR, reason)
    assert cause.rule == KNOWN.endings[ending].id
    assert cause.transient


def test_a_connection_that_broke_before_an_answer_is_the_network() -> None:
    cause = classify(answer(status=None, ending=Ending.CUT_UPSTREAM))
    assert cause is not None
    assert (cause.rule, cause.reason) == (KNOWN.no_answer.id, "network")


def test_an_agent_that_leaves_proves_nothing() -> None:
    assert classify(answer(ending=Ending.LEFT_BY_AGENT, silent_s=59.0)) is None
    assert classify(answer(status=None, ending=Ending.LEFT_BY_AGENT, silent_s=5.0)) is None


def test_an_agent_that_leaves_a_silent_provider_was_stalled() -> None:
    left = answer(status=None, ending=Ending.LEFT_BY_AGENT, silent_s=61.0)
    cause = classify(left)
    assert cause is not None
    assert (cause.subcategory, cause.reason) == (Subcategory.PROVIDER_ERROR, "stalled")
    assert classify(left, stall_s=120.0) is None


def test_a_call_closed_at_the_outcome_is_judged_as_a_hang_up() -> None:
    for status in (None, 200, 429):
        for silent_s in (5.0, 61.0):
            left, closed = (
                classify(answer(status=status, ending=ending, silent_s=silent_s))
                for ending in (Ending.LEFT_BY_AGENT, Ending.CLOSED_AT_OUTCOME)
            )
            assert closed == left
            assert (closed is None) is (status != 429 and silent_s < 60.0)


def test_an_agent_that_leaves_a_failure_leaves_a_failure() -> None:
    cause = classify(answer(status=429, ending=Ending.LEFT_BY_AGENT))
    assert cause is not None
    assert cause.subcategory is Subcategory.RATE_LIMIT


def test_an_agent_that_leaves_after_an_error_event_saw_a_failure() -> None:
    error = ProviderError(type="overloaded_error")
    cause = classify(answer(error=error, ending=Ending.LEFT_BY_AGENT))
    assert cause is not None
    assert cause.rule == "anthropic.overloaded"


def test_an_error_says_more_than_the_cut_that_followed_it() -> None:
    error = ProviderError(code="insufficient_quota")
    cause = classify(answer(error=error, ending=Ending.CUT_UPSTREAM))
    assert cause is not None
    assert cause.subcategory is Subcategory.QUOTA


def test_a_lost_call_is_left_to_the_rules_of_the_rollout() -> None:
    assert classify(answer(status=None, ending=Ending.LOST)) is None


@pytest.mark.parametrize("status", [101, 204, 301, 304, 307])
def test_an_upgrade_an_empty_success_and_a_redirect_are_no_failures(status: int) -> None:
    assert classify(answer(status=status, kind=Kind.OTHER)) is None
    assert classify(answer(status=status)) is None


@pytest.mark.parametrize("status", [101, 307])
def test_what_ends_after_an_upgrade_or_a_redirect_is_no_cut_answer(status: int) -> None:
    assert classify(answer(status=status, ending=Ending.CUT_UPSTREAM)) is None


@pytest.mark.parametrize("kind", list(Kind))
def test_a_failed_status_is_a_cause_for_every_kind_of_call(kind: Kind) -> None:
    cause = classify(answer(status=401, kind=kind))
    assert cause is not None
    assert cause.subcategory is Subcategory.AUTH


# -- the wait ----------------------------------------------------------------------------


def test_a_wait_in_a_header_is_preferred_to_one_in_the_body() -> None:
    error = ProviderError(retry_after_s=30.0)
    both = classify(answer(status=429, error=error, retry_after_s=2.0))
    body = classify(answer(status=429, error=error))
    zero = classify(answer(status=429, error=error, retry_after_s=0.0))
    assert [c and c.retry_after_s for c in (both, body, zero)] == [2.0, 30.0, 0.0]


def test_a_wait_is_read_in_the_sentence_where_nothing_else_states_it() -> None:
    said = ProviderError(message="Rate limit: 30 a minute. Please try again in 1m12s.")
    both = replace(said, retry_after_s=30.0)
    echoed = ProviderError(message='Too many requests: got "please try again in 9 days"')
    causes = [classify(answer(status=429, error=error)) for error in (said, both, echoed)]
    assert [c and c.retry_after_s for c in causes] == [72.0, 30.0, None]


def test_a_wait_is_kept_only_where_waiting_can_help() -> None:
    def waited(status: int) -> float | None:
        cause = classify(answer(status=status, retry_after_s=9.0))
        return cause.retry_after_s if cause else None

    assert [waited(s) for s in (401, 404, 400)] == [None, None, None]
    assert [waited(s) for s in (429, 503, 402, 409)] == [9.0, 9.0, 9.0, 9.0]


# -- what is stored ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "sk-proj-abcdefghijklmnop1234",
        "AIzaSyA-abcdefghijklmnopqrstuvw",
        "gsk_abcdefghijklmnopqrstuvwx",
        "a sentence that quotes a prompt",
        "x" * 65,
        "Ünïcode",
        "{json}",
    ],
)
def test_a_code_that_could_be_a_key_or_a_sentence_is_not_stored(code: str) -> None:
    cause = classify(answer(status=400, error=ProviderError(code=code)))
    assert cause is not None
    assert cause.code is None


def test_the_name_that_matched_is_the_one_stored() -> None:
    error = ProviderError(code="Weird", type="Insufficient_Quota")
    cause = classify(answer(status=429, error=error))
    assert cause is not None
    assert cause.code == "Insufficient_Quota"


SECRET = "Zq7-the-prompt-itself-Zq7"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": SECRET, "type": "t", "code": "c"}},
        {"error": SECRET},
        {"message": SECRET},
        {"detail": SECRET},
        {"detail": [{"msg": SECRET, "loc": ["body"], "type": "missing", "input": SECRET}]},
        {"error": {"code": 403, "message": "x", "metadata": {"flagged_input": SECRET}}},
        {"error": {"code": 500, "message": "x", "metadata": {"raw": SECRET}}},
        {"error": {"message": json.dumps({"error": {"message": SECRET}})}},
        {"error": {"code": 400, "message": SECRET, "status": "INVALID_ARGUMENT"}},
        {"base_resp": {"status_code": 2013, "status_msg": SECRET}},
        {"success": False, "errors": [{"code": 5004, "message": SECRET}]},
        {"type": "message-end", "delta": {"error": SECRET}},
        {"choices": [{"error": {"message": SECRET}}]},
        {"error": {"message": "x", "param": SECRET}},
    ],
)
def test_no_message_text_reaches_the_cause(body: object) -> None:
    cause = classify(answer(status=400, error=read_error(body)))
    assert cause is not None
    assert SECRET not in repr(cause)


@given(
    body=JSON,
    event=st.none() | st.sampled_from(["error", "throttlingException", "x"]) | st.text(max_size=8),
    status=st.none() | st.integers(100, 999),
    ending=st.sampled_from(Ending),
    flaw=st.none() | st.sampled_from(Flaw),
    stated=st.none() | st.text(max_size=20),
)
def test_no_answer_makes_it_raise(
    body: object,
    event: str | None,
    status: int | None,
    ending: Ending,
    flaw: Flaw | None,
    stated: str | None,
) -> None:
    error = read_error(body, event=event)
    cause = classify(
        answer(status=status, ending=ending, error=error, flaw=flaw, stated_type=stated)
    )
    assert cause is None or cause.code is None or len(cause.code) <= 64


# -- by status alone -----------------------------------------------------------------------


def test_by_status_alone_is_the_published_table_of_benchflow() -> None:
    said = {status: status_only(status) for status in range(100, 1000)}
    odd = {
        401: Subcategory.AUTH,
        403: Subcategory.AUTH,
        402: Subcategory.QUOTA,
        404: Subcategory.MODEL_NOT_FOUND,
        429: Subcategory.RATE_LIMIT,
        408: Subcategory.PROVIDER_ERROR,
    }
    assert {s: said[s] for s in odd} == odd
    assert {said[s] for s in range(100, 400)} == {None}
    rest = set(range(400, 500)) - set(odd)
    assert {said[s] for s in rest} == {Subcategory.REJECTED_REQUEST}
    assert {said[s] for s in range(500, 1000)} == {Subcategory.PROVIDER_ERROR}


# -- real answers ----------------------------------------------------------------------------


# Sets that the table has seen; others are read as a stranger's answers are.
WRITTEN_AFTER = ("errors.jsonl", "errors-wild.jsonl", "errors-far.jsonl")


@pytest.fixture(scope="module")
def real() -> dict[str, list[corpus_score.Labelled]]:
    folder = corpus_score.corpus_folder()
    if folder is None:
        pytest.skip("no corpus of real answers: set TRUEZERO_CORPUS to score against one")
    return {name: corpus_score.labelled(folder, name) for name in corpus_score.files(folder)}


def test_real_answers_are_told_apart(real: dict[str, list[corpus_score.Labelled]]) -> None:
    result = corpus_score.score(row for name in WRITTEN_AFTER for row in real[name])
    assert len(result.judged) > 200
    assert result.sure_category >= 97, result.misses
    assert result.category >= 98, result.misses
    assert result.transient >= 98, result.misses


@pytest.mark.slow
def test_so_are_those_of_a_provider_that_nobody_has_seen(
    real: dict[str, list[corpus_score.Labelled]],
) -> None:
    known = [row for name in WRITTEN_AFTER for row in real[name] if row.category]
    left_out = corpus_score.score_left_out(known)
    judged = [judged for score in left_out.values() for judged in score.judged]
    assert corpus_score.Score(judged=tuple(judged)).category >= 90


@pytest.mark.slow
def test_so_are_those_that_nothing_was_written_after(
    real: dict[str, list[corpus_score.Labelled]],
) -> None:
    for name, unseen in real.items():
        score = corpus_score.score(unseen)
        assert score.misread == (), name
        assert score.category >= 80, (name, score.misses)


def test_a_provider_that_is_left_out_has_neither_rows_nor_words() -> None:
    table = corpus_score.without("llamacpp")
    assert [row.id for row in table.coined if row.id.startswith("llamacpp.")] == []
    assert any(row.id.startswith("llamacpp.") for row in CauseTable().coined)
    told = answer(status=500, error=ProviderError(message="context shift is disabled"))
    whole, other = classify(told), classify(told, table=table)
    assert whole is not None
    assert other is not None
    assert (whole.reason, other.reason) == ("context_length", None)
    google = corpus_score.without("vertex")
    assert [row.id for row in google.coined if row.id.startswith("gemini.")] == []
