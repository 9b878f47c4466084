"""The operator's own rows: read from settings, matched against errors, applied to records."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from classifier.cause_rows import CauseRow
from classifier.cause_table import known_rows
from classifier.causes import classify
from classifier.operator_causes import PREFIX, OperatorCauses, known_reasons, operator_rows
from classifier.records import (
    Cause,
    Ending,
    Exchange,
    FailureEvidence,
    Flaw,
    Kind,
    ProviderError,
    Timing,
)
from classifier.verdicts import Subcategory

ANSWER = FailureEvidence(
    upstream="my-llm", api="openai.chat", kind=Kind.INFERENCE, status=400, ending=Ending.COMPLETE
)


def rows(toml: str) -> tuple[CauseRow, ...]:
    return operator_rows(tomllib.loads(toml)["causes"])


def one(**table: Any) -> OperatorCauses:
    return OperatorCauses(operator_rows([{"cause": "quota", **table}]))


def answer(status: int | None = 400, **facts: Any) -> FailureEvidence:
    error = {
        name: facts.pop(name) for name in ("code", "type", "message", "reasons") if name in facts
    }
    return replace(ANSWER, status=status, error=ProviderError(**error) if error else None, **facts)


def explained(causes: OperatorCauses, *answers: FailureEvidence) -> list[bool]:
    """Whether the rows name the cause of each; otherwise it is the table's."""
    found = []
    for each in answers:
        cause, table = causes.classify(each), classify(each)
        found.append(cause is not None and cause.rule.startswith(PREFIX))
        assert found[-1] or cause == table
    return found


# --- settings ---


def test_a_row_says_what_an_error_means() -> None:
    broke, busy = rows("""
        [[causes]]
        name = "flat-broke"
        upstream = "My_LLM"
        status = [400, 403]
        code = ["E1042", 1042]
        words = "Flat  Broke"
        cause = "quota"
        reason = "spend_limit"

        [[causes]]
        type = "Busy"
        cause = "provider_error"
        transient = false
    """)
    assert broke == CauseRow(
        id="operator:flat-broke",
        gives=Subcategory.QUOTA,
        reason="spend_limit",
        transient=False,
        upstreams=frozenset(["my-llm"]),
        statuses=frozenset([400, 403]),
        codes=frozenset(["e1042", "1042"]),
        words=("flat broke",),
    )
    assert (broke.id, busy.id) == ("operator:flat-broke", "operator:2")
    assert (busy.types, busy.transient) == (frozenset(["busy"]), False)


def test_what_can_be_retried_follows_from_the_cause() -> None:
    for each in Subcategory:
        (row,) = operator_rows([{"status": 418, "cause": each.value}])
        assert row.transient is each.transient


def test_a_rejection_that_the_operator_explains_is_explained() -> None:
    cause = OperatorCauses(operator_rows([{"status": 400, "cause": "rejected_request"}]))
    found = cause.classify(answer())
    assert found is not None
    assert found.reason == "malformed"
    assert known_reasons()[Subcategory.REJECTED_REQUEST] > {"malformed", "context_length"}


def test_no_row_of_the_table_has_an_operators_name() -> None:
    known = (*known_rows().table, *known_rows().without_error)
    assert not [row.id for row in known if row.id.startswith(PREFIX)]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("quota", "row 1: not a table"),
        ({"status": 400}, "row 1: cause is needed: auth, quota"),
        ({"status": 400, "cause": "money"}, "row 1: cause: 'money' is none of auth, quota"),
        ({"status": 400, "cause": ["quota"]}, "row 1: cause: ['quota'] is none of auth"),
        ({"upstream": "my-llm", "cause": "quota"}, "row 1: one of status, code, type, words is"),
        ({"stauts": 400, "cause": "quota"}, "row 1: unknown key 'stauts' (known: name, upstream,"),
        ({"status": "400", "cause": "quota"}, "row 1: status: '400' is not an HTTP status"),
        ({"status": True, "cause": "quota"}, "row 1: status: True is not an HTTP status"),
        ({"status": 99, "cause": "quota"}, "row 1: status: 99 is not an HTTP status"),
        ({"status": [], "cause": "quota"}, "row 1: status: 0 values, and 1 to 20 may be given"),
        ({"code": "", "cause": "quota"}, "row 1: code: '' is no text of a length from 1 to 200"),
        ({"type": 1.5, "cause": "quota"}, "row 1: type: 1.5 is no text of a length from 1 to 200"),
        ({"words": "x", "cause": "quota"}, "words: 'x' is no text of a length from 2 to 200"),
        ({"words": "no 'model' here", "cause": "auth"}, "holds a quotation or an echo"),
        ({"words": "invalid input: broke", "cause": "auth"}, "holds a quotation or an echo"),
        ({"status": 400, "cause": "quota", "reason": "retired"}, "reason: 'retired' is none of"),
        ({"status": 400, "cause": "quota", "transient": 1}, "row 1: transient: neither true"),
        ({"status": 400, "cause": "quota", "name": "a b"}, "row 1: name: 'a b' is not 1 to 48"),
        ({"status": 400, "cause": "quota", "upstream": 1}, "row 1: upstream: 1 is not the name"),
    ],
)  # fmt: skip
def test_a_row_that_is_not_valid_is_named(table: object, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        operator_rows([table])
    assert said in str(raised.value)


def test_rows_have_names_of_their_own_and_are_bounded() -> None:
    row = {"status": 400, "cause": "quota"}
    with pytest.raises(ValueError, match="row 2: name: 'a' is the name of an earlier row"):
        operator_rows([{**row, "name": "a"}, {**row, "name": "a"}])
    with pytest.raises(ValueError, match="there are more rows than 200"):
        operator_rows([row] * 201)
    with pytest.raises(ValueError, match="must be tables"):
        operator_rows("quota")
    with pytest.raises(ValueError, match="status: 21 values"):
        operator_rows([{**row, "status": [*range(400, 421)]}])


# --- errors ---


def test_rows_go_before_the_table_and_the_first_holds() -> None:
    known = answer(429, code="insufficient_quota", message="You exceeded your current quota")
    table = classify(known)
    assert table is not None
    assert table.rule == "openai.insufficient_quota"
    causes = OperatorCauses(
        rows("""
            [[causes]]
            code = "other"
            cause = "auth"
            [[causes]]
            name = "seconds"
            code = "insufficient_quota"
            cause = "rate_limit"
            [[causes]]
            status = 429
            cause = "provider_error"
        """)
    )
    found = causes.classify(replace(known, retry_after_s=7_200.0))
    assert found == Cause(
        subcategory=Subcategory.RATE_LIMIT,
        transient=True,
        rule="operator:seconds",
        code="insufficient_quota",
        retry_after_s=7_200.0,
    ), "not a long wait's quota either: the operator has the last word"


def test_all_conditions_of_a_row_must_hold() -> None:
    causes = one(upstream="my-llm", status=400, code="E1", words="flat broke")
    whole = answer(code="E1", message="You are flat broke.")
    assert explained(
        causes,
        whole,
        replace(whole, upstream="other"),
        replace(whole, status=403),
        answer(code="E2", message="You are flat broke."),
        answer(code="E1", message="You are rich."),
        answer(code="E1"),
    ) == [True, False, False, False, False, False]


def test_a_code_is_any_name_of_the_error_and_a_type_its_type() -> None:
    by_code, by_type = one(code="e1042"), one(type="e1042")
    answers = (
        answer(code="E1042"),
        answer(type="E1042"),
        answer(reasons=("E1042",)),
        answer(stated_type="E1042"),
        answer(code="E10422"),
        answer(),
    )
    assert explained(by_code, *answers) == [True, True, True, True, False, False]
    assert explained(by_type, *answers) == [False, True, False, True, False, False]


def test_a_word_is_not_found_inside_a_longer_one() -> None:
    causes = one(words=["broke", "欠费"])
    said = ["We broke it", "BROKE", "broken", "unbroke", "broken, so broke", "账户已欠费了"]
    assert explained(causes, *(answer(message=each) for each in said)) == [
        True, True, False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        "Invalid value: 'you are flat broke'. Supported values are: 'a', 'b'.",
        'Unknown role "you are flat broke"',
        'Unknown role "x" in "you are "flat broke" now"',
        "Unknown role 'x', you are flat broke, 'y'",
        "Unknown role `you are flat broke",
        "Bad request, got you are flat broke",
        "Bad input: you are flat broke.\nyou are flat broke",
        "Cannot parse, received: you are flat broke",
        "Invalid “you are flat broke” and 「flat broke」",
        "Ungültig: „flat broke“; «flat broke»",
        "Ungültige Eingabe: flat broke",
        "Entrée: flat broke",
        "недопустимый ввод: flat broke",
        "不正な入力：flat broke",
        "'" + "x" * 400 + " flat broke'",
    ],
)
def test_what_a_provider_repeats_of_the_request_provokes_no_row(message: str) -> None:
    assert explained(one(words="flat broke"), answer(message=message)) == [False]


def test_the_providers_words_beside_a_quotation_are_read() -> None:
    causes = one(words="flat broke")
    said = ("Sorry, it's flat broke: 'gpt'", "'gpt' can't run: you are flat broke")
    assert explained(causes, *(answer(message=each) for each in said)) == [True, True]


def test_words_of_any_language_are_found_whatever_their_accents() -> None:
    causes = one(words=["Crédit épuisé", "残高不足", "Guthaben aufgebraucht"])
    said = ("Votre credit epuise.", "申し訳ありません、残高不足です", "Ihr Guthaben  aufgebraucht")
    assert explained(causes, *(answer(message=each) for each in said)) == [True, True, True]


def test_an_error_inside_a_200_has_rows_and_a_healthy_answer_never() -> None:
    causes = OperatorCauses(
        operator_rows([{"status": [200, 302], "cause": "quota", "upstream": "my-llm"}])
    )
    assert explained(
        causes,
        answer(200, code="E1"),
        answer(200),
        answer(302),
        answer(200, flaw=Flaw.EMPTY_BODY),
        answer(200, ending=Ending.CUT_UPSTREAM),
        answer(None, ending=Ending.NEVER_CONNECTED),
        answer(200, code="E1", kind=Kind.PROBE),
    ) == [True, False, False, False, False, False, False]


def test_a_call_that_was_in_flight_when_the_proxy_died_has_no_cause() -> None:
    assert one(status=400).classify(answer(ending=Ending.LOST)) is None


def test_a_name_that_looks_like_a_key_is_not_stored() -> None:
    secret = "sk-" + "a" * 20
    found = one(code=secret).classify(answer(code=secret))
    assert found is not None
    assert found.rule == "operator:1"
    assert found.code is None


# --- records ---


def recorded(status: int = 400, **cause: Any) -> Exchange:
    facts: dict[str, Any] = {
        "subcategory": Subcategory.REJECTED_REQUEST,
        "transient": False,
        "rule": "status.400",
    }
    return Exchange(
        id="x1",
        rollout_id="r1",
        upstream="my-llm",
        api="openai.chat",
        timing=Timing(1.0),
        status=status,
        ending=Ending.COMPLETE,
        cause=Cause(**(facts | cause)),
    )


def rule_of(causes: OperatorCauses, exchange: Exchange) -> str:
    cause = causes.recorded(exchange).cause
    assert cause is not None
    return cause.rule


def test_rows_by_status_code_and_type_apply_to_what_is_on_record() -> None:
    for causes in (one(status=400), one(code="e1042"), one(type="e1042")):
        assert rule_of(causes, recorded(code="E1042")) == "operator:1"
    assert rule_of(one(code="e1042"), recorded()) == "status.400"
    assert rule_of(one(status=400, upstream="other"), recorded()) == "status.400"
    changed = one(status=400).recorded(recorded(code="E1", retry_after_s=9.0)).cause
    assert changed == Cause(
        subcategory=Subcategory.QUOTA,
        transient=False,
        rule="operator:1",
        code="E1",
        retry_after_s=9.0,
    )


def test_rows_by_words_hold_for_what_they_explained_when_it_ended() -> None:
    causes = OperatorCauses(
        rows("""
            [[causes]]
            name = "broke"
            words = "flat broke"
            cause = "quota"
            [[causes]]
            name = "any"
            status = 400
            cause = "provider_error"
            [[causes]]
            name = "both"
            status = 403
            code = "a"
            type = "b"
            cause = "auth"
        """)
    )
    assert rule_of(causes, recorded()) == "operator:any"
    assert rule_of(causes, recorded(rule="operator:broke")) == "operator:broke"
    assert rule_of(causes, recorded(403, code="a")) == "status.400"
    assert rule_of(causes, recorded(403, code="a", rule="operator:both")) == "operator:both"


def test_a_failure_without_an_error_keeps_its_cause() -> None:
    causes = one(status=[200, 502, 503])
    for status, rule in [(200, "flaw.empty_body"), (502, "ending.cut")]:
        assert rule_of(causes, recorded(status, rule=rule)) == rule
    assert rule_of(causes, recorded(503, rule="proxy.resources_exhausted")).startswith("proxy.")
    healthy = replace(recorded(200), cause=None)
    assert causes.recorded(healthy) is healthy


def test_what_was_judged_when_the_call_ended_is_what_the_record_is_judged() -> None:
    """Over rows without words, an archive says what the service said."""
    causes = OperatorCauses(
        operator_rows(
            [
                {"code": "insufficient_quota", "cause": "rate_limit"},
                {"status": 503, "cause": "model_not_found", "reason": "no_access"},
                {"type": "overloaded_error", "cause": "rate_limit"},
            ]
        )
    )
    for each in (
        answer(429, code="insufficient_quota", type="insufficient_quota", retry_after_s=3.0),
        answer(503, message="try later"),
        answer(529, type="overloaded_error"),
        answer(400, code="nothing"),
    ):
        live, before = causes.classify(each), classify(each)
        assert live is not None
        assert before is not None
        exchange = replace(recorded(each.status or 0), cause=before)
        assert causes.recorded(exchange).cause == live
        assert causes.recorded(replace(exchange, cause=live)).cause == live
