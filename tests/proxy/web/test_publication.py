"""Whether a batch can be published: the answer, and each reason with its count and its list."""

from __future__ import annotations

from typing import Any

from classifier.reruns import Rerun, RerunCounts
from proxy.web.batch_pages import Reason, publication_check
from proxy.web.batch_tabs import BatchTab, OpenTab
from tests.truezero.models.test_batches import EMPTY, LATER

VALID: dict[str, Any] = {
    **EMPTY, **LATER, "valid": True, "total": 40, "scored": 40, "coverage": 1.0,
    "score_worst": 0.5, "score_best": 0.5, "retried_after_score_total": 0,
    "repeats_planned": 40, "never_started": 0,
}  # fmt: skip


async def nothing(_tab: OpenTab) -> dict[str, Any]:
    return {}


LISTS = BatchTab(
    name="lists", label="Lists", template="lists.html", read=nothing, sections=frozenset(Rerun)
)


def reruns(running: int = 0, **counts: int) -> RerunCounts:
    return RerunCounts(running=running, kinds={kind: counts.get(kind, 0) for kind in Rerun})


def test_a_valid_batch_is_publishable() -> None:
    check = publication_check(VALID, reruns(), [LISTS])
    assert (check.valid, check.reasons) == (True, ())
    assert check.head == "40 of 40 measured (100%), and no retry was cherry-picked"


def test_each_reason_has_its_count_and_leads_to_its_list() -> None:
    spoilt = {
        **VALID, "valid": False, "scored": 27, "coverage": 0.675, "score_worst": 0.3,
        "score_best": 0.625, "retried_after_score_total": 1, "exclusion_bias": True,
        "exclusion_p": 0.0031, "diagnostics": {"own_failure_info": 2},
    }  # fmt: skip
    check = publication_check(spoilt, reruns(3, transient=1, fix_first=7, unmeasured=5), [LISTS])
    assert check.valid is False
    measured, _, bounds = check.head.partition("; ")
    assert measured == "27 of 40 measured (67.5%)"
    assert bounds == "the score over all of them lies between 0.300 and 0.625"
    assert [(reason.times, reason.link) for reason in check.reasons] == [
        (3, "?tab=rollouts&running=true"), (7, "?tab=lists#fix_first"), (1, "?tab=lists#transient"),
        (5, "?tab=lists#unmeasured"), (1, "?tab=tasks"), (None, "#check"), (2, "#check"),
    ]  # fmt: skip
    assert check.reasons[2].text == "provider failure that can be run again now"
    assert "p = 0.0031" in check.reasons[5].text


def test_a_reason_that_leaves_it_valid_is_check_too() -> None:
    check = publication_check(VALID, reruns(unmeasured=1), [LISTS])
    text = "has no score, though no provider failed"
    assert (check.valid, check.reasons) == (True, (Reason(1, text, "?tab=lists#unmeasured"),))


def test_a_reason_leads_nowhere_if_no_tab_lists_what_to_run_again() -> None:
    check = publication_check(VALID, reruns(transient=1, skipped=2), [])
    assert [(reason.times, reason.link) for reason in check.reasons] == [(1, None), (2, None)]
