"""Write a group's mask into the field that each RL trainer reads; no trainer is imported.

Each function takes a settled group, as ``groups()`` yields it or `GET /batches/{id}/groups` has it,
and the trainer's own rows, one for each of the group's ``rollout_ids`` in that order. It returns
new rows and changes none. Field names and shapes were looked up in the trainers' sources on
2026-11-22.

Some trainers go on counting a masked row in the baseline of its group. There, its reward
becomes the baseline of the measured ones, which shifts no mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from truezero import models
from truezero.integrations.attempts import failure_kind, no_measurement
from truezero.printable import plural

Group = models.Group | Mapping[str, Any]
Row = Mapping[str, Any]
T = TypeVar("T")

ERROR = "truezero_masked"
"""What a masked row's error or stop reason is called."""


def trl(group: Group) -> list[float | None]:
    """Return what a reward function of TRL's `GRPOTrainer` returns: None if masked.

    None is left out of the baseline since https://github.com/huggingface/trl/pull/5902 (merged
    2026-06-01); releases before it make it 0.0 where no other reward function has a number.
    """
    return list(_settled(group).rewards)


def verl(group: Group, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Set verl's ``response_mask`` to 0 for each token of a masked row.

    A row's ``uid`` is the group that verl compares it with; it counts masked rows
    (https://github.com/verl-project/verl/pull/6375), so that a masked row gets one of its own.
    ``response_mask`` and ``reward_score`` are fields of `AgentLoopOutput`
    (verl/experimental/agent_loop/agent_loop.py).
    """

    settled = _settled(group)

    def mask(row: Row, rollout_id: str) -> dict[str, Any]:
        changed: dict[str, Any] = {
            "response_mask": [0] * len(row["response_mask"]),
            "reward_score": _neutral(settled),
        }
        return changed | ({"uid": f"{row['uid']}/{rollout_id}"} if "uid" in row else {})

    return _masked(settled, rows, mask)


def slime(group: Group, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Set slime's ``remove_sample``, which zeroes the sample's loss mask.

    Both fields are of `Sample` (slime/utils/types.py). Group normalisation counts removed
    samples (slime/ray/rollout.py, `_post_process_rewards`): their ``reward`` becomes the baseline.
    """
    settled = _settled(group)
    return _masked(
        settled, rows, lambda _row, _id: {"remove_sample": True, "reward": _neutral(settled)}
    )


def prime_rl(group: Group, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Set prime-rl's ``error``, in the shape in which its orchestrator reads it.

    A rollout with an error is never trained on. Since
    https://github.com/PrimeIntellect-ai/prime-rl/pull/2581 its whole group is dropped; before,
    it was scheduled again (pull/2016).
    """

    def error(_row: Row, rollout_id: str) -> dict[str, Any]:
        message = f"{ERROR}: rollout {rollout_id} was not measured"
        return {"error": {"error": ERROR, "error_chain_repr": message, "error_chain_str": message}}

    return _masked(_settled(group), rows, error)


def skyrl(group: Group, output: Mapping[str, Any]) -> dict[str, Any]:
    """Set SkyRL's ``stop_reasons``, and zero the ``loss_masks`` of what is masked.

    Arguments:
        output: a `GeneratorOutput` (skyrl_train/generators/base.py): lists with a place for each
            trajectory, here those of the group. Its rewards are numbers, or lists by token.
    """
    settled = _settled(group)
    columns = {
        "stop_reasons": output.get("stop_reasons") or [None] * len(settled.rollout_ids),
        "loss_masks": output["loss_masks"],
        "rewards": output["rewards"],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def mask(row: Row, _rollout_id: str) -> dict[str, Any]:
        return {
            "stop_reasons": ERROR,
            "loss_masks": [0] * len(row["loss_masks"]),
            "rewards": _in_shape_of(row["rewards"], _neutral(settled)),
        }

    masked = _masked(settled, rows, mask)
    return {**output, **{name: [row[name] for row in masked] for name in columns}}


def nemo(group: Group, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Set ``mask_sample`` of NeMo Gym's verify responses, which NeMo RL leaves out of the loss.

    NeMo RL takes such a row out of the baseline as well, unless
    ``grpo.masked_sample_rewards_in_baseline`` is set
    (nemo_rl/algorithms/single_controller_utils/sample_masks.py).
    """
    return _masked(_settled(group), rows, lambda _row, _id: {"mask_sample": True})


def nemo_failure(verdict: models.Verdict, row: Row) -> dict[str, Any]:
    """Mask one NeMo Gym row by its rollout's verdict, and name what failed; no group is needed.

    ``_ng_failure_class`` is `truezero:<kind>`, the form of nemo_gym/failure_kinds.py (0.7.0) for
    kinds of one's own: the subcategory, or the health without one. A row of a rollout whose model
    was reached, or that is not judged, stays.
    """
    if verdict.health == "not_judged" or no_measurement(verdict) is None:
        return dict(row)
    kind = failure_kind(verdict) or "excluded"
    return {**row, "mask_sample": True, "_ng_failure_class": f"truezero:{kind}"}


def agent_lightning(group: Group, rows: Sequence[T]) -> list[T]:
    """Leave masked rollouts out of Agent Lightning's `CompletedRollout` rows of a group.

    Its adapter gives a row without a reward ``reward_fillna_value``, 0.0 by default, and has no
    mask (agentlightning 1.0.2, verl/rollout_adapter.py); its advantages are of the rows that are
    left. `truezero.integrations.agent_lightning` does this without groups.
    """
    settled = _settled(group)
    _check_length(settled, rows)
    return [row for row, counts in zip(rows, settled.valid, strict=True) if counts]


def _masked(
    group: _Settled, rows: Sequence[Row], mask: Callable[[Row, str], Row]
) -> list[dict[str, Any]]:
    """Return the rows, with what ``mask`` returns in those that are masked."""
    _check_length(group, rows)
    return [
        dict(row) if counts else {**row, **mask(row, rollout_id)}
        for row, rollout_id, counts in zip(rows, group.rollout_ids, group.valid, strict=True)
    ]


def _check_length(group: _Settled, rows: Sequence[object]) -> None:
    if len(rows) != len(group.rollout_ids):
        rollouts = plural(len(group.rollout_ids), "rollout")
        raise ValueError(f"{plural(len(rows), 'row')} for {rollouts} of task {group.task!r}")


class _Settled(NamedTuple):
    """The facts of a settled group that trainers need."""

    task: str
    rollout_ids: Sequence[str]
    valid: Sequence[bool]
    rewards: Sequence[float | None]
    baseline: float | None


def _settled(group: Group) -> _Settled:
    """Read a group, of the SDK or as JSON.

    Raises:
        ValueError: it has not settled; what runs would be masked for good.
    """
    facts = group if isinstance(group, Mapping) else group.__dict__
    if not facts["settled"]:
        raise ValueError(f"the group of task {facts['task']!r} has not settled")
    return _Settled._make(facts[name] for name in _Settled._fields)


def _neutral(group: _Settled) -> float:
    """Return a reward that shifts no mean: the baseline; 0 where no row of the group counts."""
    return 0.0 if group.baseline is None else group.baseline


def _in_shape_of(rewards: Any, reward: float) -> Any:
    """Return the reward as a number, or on the last token where rewards are by token."""
    if not isinstance(rewards, list):
        return reward
    return [*[0.0] * (len(rewards) - 1), reward] if rewards else []
