"""Where mini-SWE-agent writes how it ended, and what is read of it."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePath

import pytest

from truezero.runner.agents import LaunchContext, mini_trajectory, noted

DEFAULT = "/home/u/.config/mini-swe-agent/last_mini_run.traj.json"


@pytest.mark.parametrize(
    ("words", "environment", "path"),
    [
        ("-t hi", {}, DEFAULT),
        ("-t hi -o out/t.json -y", {}, "out/t.json"),
        ("--output out/t.json", {}, "out/t.json"),
        ("--output=out/t.json", {}, "out/t.json"),
        ("-oout/t.json", {}, "out/t.json"),
        ("", {"XDG_CONFIG_HOME": "/c"}, "/c/mini-swe-agent/last_mini_run.traj.json"),
        ("", {"MSWEA_GLOBAL_CONFIG_DIR": "/m"}, "/m/last_mini_run.traj.json"),
        ("", {"MSWEA_GLOBAL_CONFIG_DIR": ""}, DEFAULT),
    ],
)
def test_its_trajectory_is_where_its_options_and_its_settings_say(
    words: str, environment: dict[str, str], path: str
) -> None:
    seen = LaunchContext(
        words=words.split(),
        environment=environment,
        home=PurePath("/home/u"),
        exists=lambda _path: False,
        read=lambda _path: None,
    )
    assert mini_trajectory(seen) == PurePath(path)


def test_what_it_wrote_says_how_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    limits = {"status": "success", "termination_reason": "max_steps"}
    agents_own = {"status": "agent_error", "error": "RepeatedFormatError"}
    for written, expected in (
        ({"info": {"exit_status": "LimitsExceeded"}}, limits),
        ({"info": {"exit_status": "RepeatedFormatError"}}, agents_own),
        ({"info": {"exit_status": "TimeExceeded"}}, {"status": "task_timeout"}),
        ({"info": {"exit_status": ""}}, None),  # saved at a step, and never at an end
        ({"info": {"exit_status": "KeyError"}}, None),
        ({"info": None}, None),
        ([], None),
    ):
        file.unlink(missing_ok=True)
        said = noted(file)
        file.write_text(json.dumps(written))
        assert said() == expected, written


def test_what_it_did_not_write_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    assert noted(None)() is None
    assert noted(file)() is None
    file.write_text(json.dumps({"info": {"exit_status": "LimitsExceeded"}}))
    said = noted(file)
    assert said() is None, "of an earlier run"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert said() is not None
    broken = noted(tmp_path / "broken.json")
    (tmp_path / "broken.json").write_text("{")
    assert broken() is None
    folder = noted(tmp_path / "out")
    (tmp_path / "out").mkdir()
    assert folder() is None
