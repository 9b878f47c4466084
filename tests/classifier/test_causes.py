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


# -- what is stored ----------------------------------------------------------------------


@each(
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


SECRET = "Zq7-the-prompt-itself-Zq7"


@each(
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
