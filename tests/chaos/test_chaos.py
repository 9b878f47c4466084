"""The parts of the board of a stranger's faults, without the package and without a service."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import httpx
import pytest

from tests.chaos import __main__ as board
from tests.chaos import agent
from tests.chaos.__main__ import GOAL, HERE, Fault
from tests.fakes.provider import Provider

STRUCK = Fault(
    name="llm_error_single", seed=42, fired=1, shown="another text", verdict="healthy", notes=()
)


def test_the_agent_looks_both_towns_up_and_says_so() -> None:
    with Provider(agent.answer) as model, httpx.Client(trust_env=False) as client:
        run = agent.run(client, f"{model.url}/v1")
    assert [choice["finish_reason"] for choice in run.choices] == [
        "tool_calls",
        "tool_calls",
        "stop",
    ]
    assert "Oslo" in run.said
    assert agent.shown(run.choices, run.choices) == "nothing"


def test_the_board_counts_faults_and_names_those_that_leave_no_note() -> None:
    told = board.told([STRUCK])
    assert told.startswith("Of 1 faults 1 fired; 1 of them left no note.\n\n| faults |")
    assert told.endswith("\n| llm_error_single | 1 | another text | healthy | **none** |")


def test_every_package_of_the_environment_is_pinned_by_hash() -> None:
    lines = (HERE / "agentchaos.txt").read_text().splitlines()
    named = [line for line in lines if line and line[0] not in "# "]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+ \\", line) for line in named), named
    assert all("--hash=sha256:" in lines[lines.index(line) + 1] for line in named)


def test_without_the_package_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["chaos", "--python", str(tmp_path / "bin" / "python")])
    assert board.main() == 0
    assert "not installed here" in capsys.readouterr().out


def test_the_page_keeps_to_its_goal_and_explains_each_silent_fault() -> None:
    text = board.PAGE.read_text("utf-8")
    match = re.search(r"Of (\d+) faults (\d+) fired; (\d+) of them left no note", text)
    assert match is not None
    lines = re.findall(r"^\| ([\w, ]+) \|.*\| \*\*none\*\* \|$", text, re.MULTILINE)
    silent = [name for line in lines for name in line.split(", ")]
    assert len(silent) == int(match[3]) <= GOAL
    assert f"At most {GOAL}" in text
    reasons = re.findall(r"`(…?\w+)`", text.partition("## What may stay silent")[2])
    for name in silent:
        assert any(
            name.endswith(each[1:]) if each.startswith("…") else name.startswith(each)
            for each in reasons
        ), name
