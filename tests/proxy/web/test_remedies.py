"""Every cause has a remedy, and a reason that is known has its own."""

from __future__ import annotations

import pytest

from classifier.rules import (
    empty_answers,
    never_answered,
    unexplained_rejections,
    unread_answers,
)
from classifier.verdicts import Subcategory
from proxy.web.remedies import remedy


@pytest.mark.parametrize("cause", list(Subcategory))
def test_every_subcategory_has_advice_of_its_own(cause: Subcategory) -> None:
    said = {each: remedy("x:429", each.value, None) for each in Subcategory}
    assert said[cause].endswith(".")
    assert list(said.values()).count(said[cause]) == 1


def test_a_known_reason_has_its_own_remedy() -> None:
    long = remedy("rejected_request:400", "rejected_request", "v1:rejected_request:o:400:too_large")
    assert long == "Send smaller requests."
    code = remedy("quota:429", "quota", "v1:quota:openai:429:insufficient_quota")
    assert code == remedy("quota:429", "quota", None)


def test_every_suspicion_has_remedy() -> None:
    ruled = (unread_answers, empty_answers, never_answered, unexplained_rejections)
    rules = ["zero_signal", *(rule.__name__ for rule in ruled)]
    said = {remedy(f"suspected:{rule}", None, None) for rule in rules}
    assert len(said) == 5
    assert remedy("suspected:of_later", None, None) not in said
