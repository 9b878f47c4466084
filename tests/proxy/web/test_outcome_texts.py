"""What a runner reported is shown as it is, but not without end."""

from __future__ import annotations

import json

from proxy.web import rollout_page


def test_only_what_was_reported_is_shown() -> None:
    assert rollout_page.outcome_texts(None, None) == []
    outcome = {"error": "boom", "verifier_error": None, "eval": {"é": [1]}, "status": "success"}
    found = rollout_page.outcome_texts(outcome, json.dumps({"seed": 3}))
    assert {each.label: each.text for each in found} == {
        "Error": "boom",
        "Evaluation": '{\n  "é": [\n    1\n  ]\n}',
        "Metadata": '{\n  "seed": 3\n}',
    }
    assert [each.left_out for each in found] == [0, 0, 0]


def test_a_long_text_is_cut_and_says_by_how_much() -> None:
    (found,) = rollout_page.outcome_texts({"export_error": "x" * 5000}, None)
    assert (found.label, len(found.text), found.left_out) == ("Export error", 4000, 1000)
