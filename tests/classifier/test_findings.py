"""The rules and what they find."""

from __future__ import annotations

from classifier import EVIDENCE, judge
from classifier.evidence import Evidence, ids
from classifier.rules import RULES
from tests.builders import calls
from tests.classifier.truth import TABLE
from tests.classifier.truth_sequences import SEQUENCES


def test_ids_keep_the_order_of_the_exchanges() -> None:
    assert ids(calls("429 200 401")) == ("x0", "x1", "x2")


def test_the_first_rule_that_fires_gives_the_verdict() -> None:
    fired = set()
    for row in (*TABLE, *SEQUENCES):
        seen = row.rollout
        facts = Evidence.of(seen, EVIDENCE)
        found = [finding.rule for rule in RULES if (finding := rule(facts)) is not None]
        proven = facts.proof is not None or facts.exempt
        last = "healthy" if proven else "undecided"
        assert judge(seen).rule == (found[0] if found else last), str(row)
        fired |= set(found)
    assert fired == {rule.__name__.strip("_") for rule in RULES}
