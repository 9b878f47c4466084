"""Another provider or engine behind one model."""

from __future__ import annotations

from classifier.validity.serving import SERVING_CHANGED
from tests.classifier.validity.judged import call, coverage, found, level, record


def test_a_change_behind_one_model_is_worth_knowing() -> None:
    for one, two, expected in (
        ({"served_by": "Azure"}, {"served_by": "Azure"}, None),
        ({"served_by": "Azure"}, {"served_by": "OpenAI"}, "info"),
        ({"served_by": "Azure"}, {}, None),  # the other does not say
        ({"system_fingerprint": "fp_1"}, {"system_fingerprint": "fp_2"}, "info"),
        ({"system_fingerprint": "fp_1"}, {"served_by": "Azure"}, None),
        ({"served_by": "A", "model": "gpt-5"}, {"served_by": "B", "model": "mini"}, None),
        ({"weight_version": "41"}, {"weight_version": "41"}, None),
        ({"weight_version": "41"}, {"weight_version": "42"}, "info"),
        ({"weight_version": "41,42"}, {"weight_version": "42"}, "info"),  # within one answer
        ({"weight_version": "41"}, {}, None),
        ({"served_by": "A"}, {"served_by": "B", "upstream": "other"}, None),
        ({"served_by": "A", "model": "gpt-5"}, {"served_by": "B", "model": "openai/gpt-5"}, "info"),
    ):
        assert level(SERVING_CHANGED, record([call(**one), call(**two)])) == expected, (one, two)


def test_the_finding_lists_what_served() -> None:
    calls = [
        call(served_by=name, system_fingerprint=fp)
        for name, fp in (("Together", "a"), ("Groq", "a"), ("Groq", "b"))
    ]
    finding = found(SERVING_CHANGED, record([*calls, call()]))
    assert finding is not None
    assert finding.sentence == (
        "one model was served by 2 providers (Groq, Together) and 2 engine "
        "configurations (a, b) over 3 calls"
    )
    assert (finding.calls, finding.of, finding.evidence) == (3, 3, ("x0", "x1", "x2"))
    assert finding.about == {"served_by": ["Groq", "Together"], "system_fingerprint": ["a", "b"]}


def test_a_rollout_that_spans_versions_of_the_weights_says_which() -> None:
    calls = [call(weight_version=version) for version in ("step-41", "step-41,step-42", "step-42")]
    finding = found(SERVING_CHANGED, record([*calls, call()]))
    assert finding is not None
    assert (finding.calls, finding.of) == (3, 3)
    assert finding.about == {"weight_version": ["step-41", "step-42"]}
    assert "2 weight versions (step-41, step-42) over 3 calls" in finding.sentence


def test_answers_that_name_neither_are_not_covered() -> None:
    assert coverage(SERVING_CHANGED, record([call(served_by="A"), call(), call("429")])) == (1, 2)
    assert coverage(SERVING_CHANGED, record([call("429")])) is None
