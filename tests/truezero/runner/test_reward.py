"""The reward of a run: read from what this run wrote or printed, and from nothing else."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from truezero.runner.reward import NoReward, of_command, of_file, rewards_in


@pytest.mark.parametrize(
    ("content", "rewards"),
    [
        (b"0.5\n", 0.5),
        (b"1", 1.0),
        (b"-2e-3", -0.002),
        (b'{"reward": 0.25, "why": "half of a half"}', 0.25),
        (b'{"rewards": 1}', 1.0),
        (b'{"rewards": {"tests": 1, "style": 0.5}}', {"tests": 1.0, "style": 0.5}),
        (b'{"reward": {"tests": 0}}', {"tests": 0.0}),
    ],
)
def test_a_reward_is_a_number_or_stands_in_json(content: bytes, rewards: object) -> None:
    assert rewards_in(content, "it") == rewards


@pytest.mark.parametrize(
    "content",
    [
        b"", b"secret", b"NaN", b"-Infinity", b"1e999", b"true", b"null", b"[1]", b"{}", b"0,5",
        b'{"score": 1}', b'{"reward": "1"}', b'{"rewards": {}}', b'{"rewards": {"a": null}}',
        b"\xff\xfe", b"[" * 100_000, b"9" * 1_000, b"1" + b" " * 1_000_000,
    ],
)  # fmt: skip
def test_what_holds_no_number_is_no_reward_and_is_not_repeated(content: bytes) -> None:
    with pytest.raises(NoReward) as raised:
        rewards_in(content, "it")
    assert str(raised.value) == (
        "it: neither a number nor JSON with a number as `reward`, or numbers as `rewards`"
    )


def test_a_file_counts_if_the_run_wrote_it(tmp_path: Path) -> None:
    file = tmp_path / "reward.json"
    score = of_file(file)
    with pytest.raises(NoReward, match="not written by this run"):
        score()
    file.write_text("1")
    assert score() == 1.0


def test_a_pipe_in_the_files_place_is_no_reward_and_never_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "reward.json"
    score = of_file(file)
    os.mkfifo(file)
    with pytest.raises(NoReward, match="not a regular file but a pipe"):
        score()


def test_the_reward_of_an_earlier_run_is_none(tmp_path: Path) -> None:
    file = tmp_path / "reward.json"
    file.write_text("1")
    score = of_file(file)
    with pytest.raises(NoReward, match="as it was before this run"):
        score()
    file.write_text("0.0")
    assert score() == 0.0


def test_a_command_scores_without_the_services_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_ADMIN_TOKEN", "t0ken")
    monkeypatch.setenv("SCORE", "0.75")
    assert of_command("echo $SCORE")() == 0.75
    code = "import os; print(sum(name.startswith('TRUEZERO_') for name in os.environ))"
    assert of_command(shlex.join([sys.executable, "-S", "-c", code]))() == 0.0
    with pytest.raises(NoReward, match="ended with exit code 3"):
        of_command("echo 1; exit 3")()


def test_a_command_that_prints_without_end_is_read_no_further() -> None:
    with pytest.raises(NoReward, match="neither a number nor JSON"):
        of_command("yes")()
