"""The workflows run what a contributor runs, with actions that nobody can exchange."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned_by_its_commit_and_may_only_read(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
    assert yaml.safe_load(workflow.read_text("utf-8"))["permissions"] == {"contents": "read"}


def test_a_change_runs_ci_and_each_week_everything_is_run() -> None:
    run = {w.stem: [s["run"] for s in steps(w) if "run" in s] for w in WORKFLOWS}
    assert run == {"ci": [".ci/run"], "weekly": [".ci/run all"]}
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
