"""What checks look at."""

from __future__ import annotations

from classifier import EVIDENCE
from classifier.evidence import Evidence
from classifier.totals import TimeAccount
from classifier.validity import CHECKS
from classifier.validity.measurement import (
    Measurement,
    ValidityCheck,
    ids_of,
    may_hide_cache,
    tally,
)
from classifier.verdicts import plural
from tests.builders import rollout
from tests.classifier.validity.judged import call


def measured(text: str) -> Measurement:
    return Measurement.of(Evidence.of(rollout(text), EVIDENCE), roles={}, time=TimeAccount())


def test_only_whole_answers_are_looked_at() -> None:
    for text, answers, main, ended in (
        ("200 200", 2, 2, True),
        ("200+side 200+tool", 2, 1, True),
        ("200+tool 200+side", 2, 1, True),
        ("200 429", 1, 1, False),
        ("429 200", 1, 1, True),
        ("200+unread", 0, 0, False),
        ("200+judge", 0, 0, False),
        ("", 0, 0, False),
    ):
        set_ = measured(text)
        assert (len(set_.answers), len(set_.main)) == (answers, main), text
        assert (set_.ended_on is not None) == ended, text


def test_a_finding_names_its_last_calls() -> None:
    exchanges = measured("200*12").answers
    assert ids_of(exchanges) == tuple(x.id for x in exchanges[-10:])
    assert ids_of(exchanges[:2], limit=1) == (exchanges[1].id,)


def test_calls_are_counted_by_one_field_or_several() -> None:
    answers = measured("200+tool@a*2 200+tool@b 429@a").answers
    assert tally(answers, "model") == {"a": 2, "b": 1}
    assert tally(answers, "model", "tool_calls") == {("a", 1): 2, ("b", 1): 1}
    assert tally((), "model") == {}


def test_numbers_are_told_with_their_noun() -> None:
    assert [plural(n, "call") for n in (0, 1, 1234)] == ["0 calls", "1 call", "1,234 calls"]


def test_ollama_and_llama_cpp_may_leave_cached_tokens_out() -> None:
    for upstream, api, cached, expected in (
        ("ollama", "openai.chat", None, True),
        ("local", "ollama.chat", None, True),
        ("llamacpp", "openai.completions", None, True),
        ("ollama", "openai.chat", 0, False),
        ("openai", "openai.chat", None, False),
    ):
        one = call(upstream=upstream, api=api, cached_input_tokens=cached)
        assert may_hide_cache(one) == expected, (upstream, api, cached)


# --- Declarations of checks -----------------------------------------------------------------------


def test_a_declaration_is_one_of_the_list_under_a_name_of_its_own() -> None:
    assert all(isinstance(check, ValidityCheck) for check in CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
