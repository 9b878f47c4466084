"""The score of a rollout: one of the rewards that its runner reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

# The names under which a runner's evaluation holds the score, if it reports no rewards.
EVAL_NAMES = ("reward", "score", "resolved", "passed", "success", "accuracy")
REWARD = "reward"  # the key of the score, if no other is registered
_SHOWN = 5  # keys in one sentence
_LONGEST = 40  # characters of a key in a sentence


class ReportedScore(NamedTuple):
    """The score that a runner reported; without one, its rewards by key, none of which it is."""

    score: float | None = None
    unnamed: tuple[tuple[str, float], ...] = ()


def reported_score(
    rewards: Mapping[str, float] | None,
    eval_: Mapping[str, object] | None,
    score_key: str | None = None,
) -> ReportedScore:
    """Read the score from what a runner reported.

    It is the reward under ``score_key``, else under `REWARD`, else the only one. Without rewards
    it is read from ``eval_``, under ``score_key``, else under one of `EVAL_NAMES`; true is 1.

    Arguments:
        score_key: as the batch was registered; then no other key is the score.
    """
    if not rewards:
        names = EVAL_NAMES if score_key is None else (score_key,)
        return ReportedScore(_first_number((eval_ or {}).get(name) for name in names))
    key = score_key if score_key is not None else REWARD
    if key in rewards:
        return ReportedScore(rewards[key])
    if score_key is None and len(rewards) == 1:
        return ReportedScore(next(iter(rewards.values())))
    return ReportedScore(None, tuple(sorted(rewards.items())))


def reward_in(
    rewards: Mapping[str, float] | None,
    eval_: Mapping[str, object] | None,
    score_key: str | None = None,
) -> float | None:
    """Return the score alone, as `reported_score` reads it; None without one."""
    return reported_score(rewards, eval_, score_key).score


def _first_number(values: Iterable[object]) -> float | None:
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def keys_of(unnamed: Sequence[tuple[str, float]]) -> str:
    """Name the keys of rewards, of many the first ones, each cut if it is long."""
    names = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…" for name, _ in unnamed]
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])


def no_score(keys: str, score_key: str | None) -> str:
    """Say why rewards hold no score, and the fix.

    Arguments:
        keys: those of the rewards, as `keys_of` names them.
        score_key: as registered.
    """
    if score_key is None:
        return f"rewards under several keys ({keys}): register score_key"
    return f"no reward under the registered score_key {score_key} ({keys}): report it"
