"""The reward of a run: from a file that the agent writes, or of a command that scores it."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from truezero.foreign import open_file, parse

Rewards: TypeAlias = float | Mapping[str, float]
Scorer: TypeAlias = Callable[[], Rewards]
"""Returns the rewards of a run that has ended, or raises `NoReward`."""

_LONGEST = 1_000_000  # bytes of a file, or of what a command prints


class NoReward(Exception):
    """The reward of a run cannot be read; the message says why, without what was read."""


def given(number: float) -> Scorer:
    """Return a scorer that knows the reward."""
    return lambda: number


def of_file(file: Path) -> Scorer:
    """Return a scorer that reads a file which the run writes.

    One that is as it was before the run is another run's, and no reward.
    """
    before = _state(file)

    def score() -> Rewards:
        now = _state(file)
        if now is None:
            raise NoReward(f"{file}: not written by this run")
        if now == before:
            raise NoReward(f"{file}: as it was before this run, which did not write it")
        try:
            with open_file(file) as opened:
                content = opened.read(_LONGEST + 1)
        except OSError as error:
            raise NoReward(f"{file}: {error.strerror}") from None
        return rewards_in(content, str(file))

    return score


def of_command(command: str) -> Scorer:
    """Return a scorer that runs a shell's command and reads what it prints.

    It gets none of the service's settings: what it runs may be the agent's work.
    """

    def score() -> Rewards:
        inherited = {name: value for name, value in os.environ.items() if "TRUEZERO_" not in name}
        with subprocess.Popen(  # noqa: S602  what the user asked for
            command, shell=True, env=inherited, stdout=subprocess.PIPE
        ) as process:
            content = process.stdout.read(_LONGEST + 1) if process.stdout else b""
        if process.returncode and len(content) <= _LONGEST:
            raise NoReward(f"the command that scores ended with exit code {process.returncode}")
        return rewards_in(content, "what the command that scores printed")

    return score


def rewards_in(content: bytes, name: str) -> Rewards:
    """Return the rewards in a text: a number, or JSON's ``reward`` or ``rewards``.

    Raises:
        NoReward: there are none; ``name`` says where.
    """
    try:
        told = parse(content) if len(content) <= _LONGEST else None
        if isinstance(told, dict):
            told = told["reward"] if "reward" in told else told["rewards"]
        if isinstance(told, dict) and told:
            return {key: _number(value) for key, value in told.items()}
        return _number(told)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise NoReward(
            f"{name}: neither a number nor JSON with a number as `reward`, or numbers as `rewards`"
        ) from None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no number")
    return float(value)


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
