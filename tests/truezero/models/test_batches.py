"""Models of a batch: unknown values are null, and fields are the documented ones."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import get_args

import pytest
from pydantic import ValidationError

from classifier import groups
from classifier.groups import ChangeKind
from classifier.reruns import Rerun
from tests.classifier.test_groups import member
from truezero import models
from truezero.models.batches import BatchSummary, Breaker, Group, RetryItem

EMPTY = {
    "batch": "b", "rollouts": 0, "pending": 0, "skipped": 0, "health": {}, "subcategory": {},
    "fingerprint": {}, "summaries": [], "input_tokens": None, "output_tokens": None,
    "total_tokens": None, "cost_usd": None, "total": 0, "scoreable": 0, "scored": 0,
    "coverage": None, "score_all": None, "score_effective": None, "score_worst": None,
    "score_best": None, "score_first": None, "score_retried": None, "retried": 0,
    "retried_after_score": [], "valid": False, "retry": [],
}  # fmt: skip
# What a service of 0.1.0 does not send.
LATER = dict.fromkeys(
    (
        "exclusion_bias", "exclusion_p", "exclusion_fisher_p", "calls", "tokens_known_calls",
        "cost_known_calls", "lost_s", "held_s", "diagnostics", "validity", "validity_checks",
        "validity_across", "unearned", "as_of",
        "score_ci", "pass_at", "outdated", "retried_after_score_total", "retry_total", "zeros",
        "own_failures", "running", "verdicts",
        "reward_least", "reward_greatest", "reward_range", "score_key",
        "no_score", "score_reported", "repeats_planned", "never_started", "parts", "ones",
    )
)  # fmt: skip


def test_what_is_unknown_of_a_batch_is_null() -> None:
    summary = BatchSummary.model_validate(EMPTY)
    assert summary.model_dump() == EMPTY | LATER
    assert summary.score_all is None


def test_no_field_of_a_summary_may_be_missing() -> None:
    for field in EMPTY:
        with pytest.raises(ValidationError, match=field):
            BatchSummary.model_validate({name: EMPTY[name] for name in EMPTY if name != field})


def test_a_rollout_to_run_again_carries_the_advice() -> None:
    item = RetryItem(
        eligible=True, after_s=2.0, reason="transient", rollout_id="r", task="t", attempt=None
    )
    assert (item.after_s, item.attempt) == (2.0, None)


def test_a_breaker_is_in_one_of_three_phases_or_in_one_of_a_later_service() -> None:
    lane: dict[str, object] = {
        "lane": "openai/gpt-5/key-1", "phase": "half_open", "fingerprint": None, "streak": 0,
        "threshold": 5, "opened_at": None, "retry_at": None, "tripped_by": [], "canary": None,
    }  # fmt: skip
    for phase in ("half_open", "ajar"):
        lanes = [{**lane, "phase": phase}]
        breaker = Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": lanes})
        assert [each.phase for each in breaker.lanes] == [phase]
    with pytest.raises(ValidationError, match="phase"):
        Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": [{**lane, "phase": None}]})


# --- The model of a group is the classifier's own, field by field ---------------------------------


def test_a_group_reads_back_as_it_was_computed() -> None:
    kept = [name for name in Group.model_fields if name not in ("method", "advantages")]
    assert kept == [field.name for field in fields(groups.Group)]
    computed = groups.group("t", [member(0, 1.0), member(1, 0.0, "401*3"), member(2, 0.0)])
    read = Group.model_validate(asdict(computed))
    assert (read.valid, read.rewards) == ([True, False, True], [1.0, None, 0.0])


# --- Models of reports: the names that a judgement has, and none beside them ----------------------

NOTHING = {"count": 0, "groups": []}
REPORTS_EMPTY: dict[str, object] = {
    "batch": "b",
    "running": 0,
    **dict.fromkeys(models.RERUN_NAMES, NOTHING),
}


def test_their_names_are_those_of_the_judgement() -> None:
    assert list(get_args(models.Change)) == [change.value for change in ChangeKind]
    assert list(models.RERUN_NAMES) == [kind.value for kind in Rerun]


def test_a_list_is_found_by_its_name() -> None:
    group = {"cause": "auth:401", "fix": "replace the key", "count": 0, "items": []}
    found = models.Reruns.model_validate(
        {**REPORTS_EMPTY, "fix_first": {"count": 0, "groups": [group]}}
    )
    assert [each.cause for each in found.kind("fix_first").groups] == ["auth:401"]
    assert found.kind("transient").groups == []


def test_no_list_may_be_missing() -> None:
    for name in models.RERUN_NAMES:
        with pytest.raises(ValidationError, match=name):
            models.Reruns.model_validate(
                {key: REPORTS_EMPTY[key] for key in REPORTS_EMPTY if key != name}
            )
