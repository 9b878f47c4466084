"""What each trainer finds in its own rows of a group, of which one rollout was not measured."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from classifier.groups import group
from tests.classifier.test_groups import member, unjudged
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.integrations import trainers

MIXED = asdict(group("t", [member(0, 1.0), member(1, 0.0, "401*3"), member(2, 0.5)]))
DEAD = asdict(group("t", [member(0, 0.0, "401*3"), member(1, 0.0, "503*3")]))
OPEN = asdict(group("t", [member(0, 1.0), unjudged(1)]))
MASKED = MIXED["rollout_ids"][1]

ROW: dict[str, Any] = {
    "response_mask": [1, 0, 1], "reward_score": 0.0, "uid": "u", "reward": 0.0,
    "remove_sample": False, "error": None, "mask_sample": False, "tokens": [1, 2, 3],
}  # fmt: skip
ADAPTERS: dict[str, tuple[Callable[..., list[dict[str, Any]]], dict[str, Any]]] = {
    "verl": (
        trainers.verl,
        {"response_mask": [0, 0, 0], "reward_score": 0.75, "uid": f"u/{MASKED}"},
    ),
    "slime": (trainers.slime, {"remove_sample": True, "reward": 0.75}),
    "nemo": (trainers.nemo, {"mask_sample": True}),
    "prime-rl": (
        trainers.prime_rl,
        {
            "error": {
                "error": "truezero_masked",
                "error_chain_repr": f"truezero_masked: rollout {MASKED} was not measured",
                "error_chain_str": f"truezero_masked: rollout {MASKED} was not measured",
            }
        },
    ),
}


def yielded(group: dict[str, Any]) -> models.Group:
    """The group as `Batch.groups` yields it."""
    return models.Group.model_validate(group)


ROWS = [{**ROW, "tokens": [place]} for place in range(3)]
OUTPUT: dict[str, Any] = {"loss_masks": [[1], [1, 1], [1]], "rewards": [1.0, 0.0, 0.5]}
EVERY: dict[str, Callable[[Any], object]] = {
    "trl": trainers.trl,
    "verl": lambda group: trainers.verl(group, ROWS),
    "slime": lambda group: trainers.slime(group, ROWS),
    "prime_rl": lambda group: trainers.prime_rl(group, ROWS),
    "skyrl": lambda group: trainers.skyrl(group, OUTPUT),
    "nemo": lambda group: trainers.nemo(group, ROWS),
    "agent_lightning": lambda group: trainers.agent_lightning(group, ROWS),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_trainer_is_given_the_object_that_groups_yields_as_well_as_its_json(name: str) -> None:
    mask = EVERY[name]
    assert mask(yielded(MIXED)) == mask(MIXED)
    assert mask(yielded(MIXED)) not in (OUTPUT, ROWS)
    for open_one in (OPEN, yielded(OPEN)):
        with pytest.raises(ValueError, match="task 't' has not settled"):
            mask(open_one)


@pytest.mark.parametrize("name", ADAPTERS)
def test_only_the_masked_row_changes_and_only_in_its_fields(name: str) -> None:
    adapt, changed = ADAPTERS[name]
    rows = [{**ROW, "tokens": [place]} for place in range(3)]
    before = copy.deepcopy(rows)
    first, masked, last = adapt(MIXED, rows)
    assert (first, last, rows) == (before[0], before[2], before)
    assert masked == {**before[1], **changed}


def test_a_row_of_verl_without_a_group_gets_none() -> None:
    rows = [{"response_mask": [1]} for _ in range(3)]
    assert trainers.verl(MIXED, rows)[1] == {"response_mask": [0], "reward_score": 0.75}


def test_trl_is_given_none_and_never_a_number() -> None:
    assert trainers.trl(MIXED) == [1.0, None, 0.5]
    assert trainers.trl(DEAD) == [None, None]


def test_agent_lightning_gets_no_row_whose_reward_it_would_fill() -> None:
    assert trainers.agent_lightning(MIXED, ROWS) == [ROWS[0], ROWS[2]]
    assert trainers.agent_lightning(DEAD, ROWS[:2]) == []
    with pytest.raises(ValueError, match="2 rows for 3 rollouts of task 't'"):
        trainers.agent_lightning(MIXED, ROWS[:2])


def test_skyrl_has_columns() -> None:
    output = {
        "response_ids": [[1], [2, 3], [4]], "loss_masks": [[1], [1, 1], [1]],
        "rewards": [1.0, 0.0, 0.5], "stop_reasons": ["stop", "length", "stop"],
    }  # fmt: skip
    seen = trainers.skyrl(MIXED, output)
    assert seen == {
        "response_ids": [[1], [2, 3], [4]], "loss_masks": [[1], [0, 0], [1]],
        "rewards": [1.0, 0.75, 0.5], "stop_reasons": ["stop", "truezero_masked", "stop"],
    }  # fmt: skip
    by_token = {"loss_masks": [[1], [1, 1], [1]], "rewards": [[1.0], [0.0, 0.0], [0.5]]}
    seen = trainers.skyrl(MIXED, by_token)
    assert seen["rewards"] == [[1.0], [0.0, 0.75], [0.5]]
    assert seen["stop_reasons"] == [None, "truezero_masked", None]


def test_a_neutral_reward_shifts_no_mean() -> None:
    rewards = [row["reward"] for row in trainers.slime(MIXED, [{"reward": r} for r in (1, 0, 0.5)])]
    measured = [1, 0.75, 0.5]
    assert rewards == measured
    assert sum(measured) / 3 == MIXED["baseline"]


def test_of_a_dead_group_every_row_is_masked() -> None:
    assert [row["remove_sample"] for row in trainers.slime(DEAD, [ROW, ROW])] == [True, True]
    assert [sum(row["response_mask"]) for row in trainers.verl(DEAD, [ROW, ROW])] == [0, 0]


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_group_that_runs_and_rows_that_do_not_fit_are_refused(name: str) -> None:
    adapt, _ = ADAPTERS[name]
    with pytest.raises(ValueError, match="task 't' has not settled"):
        adapt(OPEN, [ROW, ROW])
    with pytest.raises(ValueError, match="2 rows for 3 rollouts of task 't'"):
        adapt(MIXED, [ROW, ROW])


def test_trl_and_skyrl_refuse_a_group_that_runs() -> None:
    with pytest.raises(ValueError, match="has not settled"):
        trainers.trl(OPEN)
    with pytest.raises(ValueError, match="has not settled"):
        trainers.skyrl(OPEN, {"loss_masks": [[1], [1]], "rewards": [0.0, 0.0]})


def test_nemo_gym_gets_a_verdicts_failure_by_name() -> None:
    row = {"reward": 0.0, "mask_sample": False}
    for health, category, subcategory, kind in (
        ("api_error", "api_error", "rate_limit", "truezero:rate_limit"),
        ("suspected_api_error", "suspected_api_error", None, "truezero:suspected_api_error"),
        ("healthy", None, None, None),
        ("undecided", None, None, None),
    ):
        said = {"health": health, "error_category": category, "subcategory": subcategory}
        seen = trainers.nemo_failure(models.Verdict.model_validate({**VERDICT, **said}), row)
        masked = {"mask_sample": True, "_ng_failure_class": kind} if kind else {}
        assert seen == {**row, **masked}, health
    assert row == {"reward": 0.0, "mask_sample": False}


def test_nemo_gym_masks_a_score_that_does_not_count() -> None:
    said = {
        "health": "healthy", "error_category": None, "subcategory": None, "scoreable": "no",
        "excluded_by": ["judge_failed"],
    }  # fmt: skip
    seen = trainers.nemo_failure(
        models.Verdict.model_validate({**VERDICT, **said}), {"reward": 0.0}
    )
    assert seen == {
        "reward": 0.0, "mask_sample": True, "_ng_failure_class": "truezero:judge_failed",
    }  # fmt: skip
