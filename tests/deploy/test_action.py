"""The GitHub Action's own scripts, against a real service and audited files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import truezero
from tests.house import ROOT
from tests.truezero import driving
from tests.truezero.audit.harnesses import dump_lines, maseval_report
from tests.truezero.audit.scenarios import FAILURES, Scenario

pytestmark = pytest.mark.slow

DEPLOY = ROOT / "deploy"
NASTY = "t|1 <b>`x`</b> ![i](http://x)"  # a task's name, from whoever named it


class Done(NamedTuple):
    """One run of the step: its exit code, what it printed, its outputs, its summary."""

    code: int
    printed: str
    outputs: dict[str, str]
    summary: str


@pytest.fixture(scope="module", autouse=True)
def _jq() -> None:
    if shutil.which("jq") is None:
        absent = "jq is not installed here (Debian: apt-get install jq)"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)


def measure(folder: Path, **inputs: str) -> Done:
    summary, outputs = folder / "summary.md", folder / "outputs"
    for file in (summary, outputs):
        file.write_text("")
    environment = {
        **{name: value for name, value in os.environ.items() if "TRUEZERO" not in name},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(outputs),
        "BATCH": "", "AUDIT": "", "TRUEZERO_URL": "", "TRUEZERO_ADMIN_TOKEN": "",
        **inputs,
    }  # fmt: skip
    done = subprocess.run(
        [DEPLOY / "action" / "measure.sh"], env=environment, cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    told = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    return Done(done.returncode, done.stdout + done.stderr, told, summary.read_text())


def play(client: truezero.Client, batch: str, samples: dict[str, str]) -> list[str]:
    """Make a batch with one rollout of each task, called with its key; the rollouts' ids."""
    ids = []
    for task, key in samples.items():
        registered = client.register(batch=batch, task=task)
        driving.call(registered.base_urls["openai"], key)
        reward = 1.0 if key == "sk-good" else 0.0
        client.report(
            registered.id, status="success", termination_reason="agent_stop", prompts_executed=1,
            rewards={"reward": reward},
        )  # fmt: skip
        ids.append(registered.id)
    return ids


def test_a_batch_is_told_in_the_summary_the_outputs_and_the_exit_code(tmp_path: Path) -> None:
    with driving.service(tmp_path, ADMIN_TOKEN="tok-1") as (url, _, _):
        with truezero.Client(url, "tok-1") as client:
            play(client, "fine", {"t1": "sk-good"})
            dead = play(client, "nightly|1", {"t1": "sk-good", NASTY: "sk-down"})[1]
        service = {"TRUEZERO_URL": url, "TRUEZERO_ADMIN_TOKEN": "tok-1"}
        fine = measure(tmp_path, BATCH="fine", **service)
        half = measure(tmp_path, BATCH="nightly|1", **service)
        closed = measure(tmp_path, BATCH="fine", TRUEZERO_URL=url)
        unknown = measure(tmp_path, BATCH="nigthly", **service)
    assert (fine.code, fine.outputs) == (
        0, {"valid": "true", "score_effective": "1", "coverage": "1", "rerun": "[]"},
    )  # fmt: skip
    assert fine.summary.startswith("### Batch fine: valid\n")
    assert "Run again" not in fine.summary
    assert "| zeros that are no measurements | 0 of 0 |" in fine.summary
    assert re.search(r"^\| measurement card \| export `\w{16}` \|$", fine.summary, re.M)

    assert (half.code, half.outputs) == (
        1,
        {"valid": "false", "score_effective": "1", "coverage": "0.5", "rerun": json.dumps([dead])},
    )
    assert half.summary.startswith("### Batch nightly\\|1: not a valid measurement\n")
    for row in (
        "| score over what was measured | **1** |",
        "| unhealthy counted as 0 | 0.5 |",
        "| bounds | 0.5 to 1 |",
        "| coverage | 0.5 (1 of 2) |",
        "| zeros that are no measurements | 1 of 1: 1 provider error |",
        "| to run again | 1 |",
    ):
        assert row in half.summary.splitlines()
    assert re.search(r"^- .*provider\\_error", half.summary, re.MULTILINE)
    (run,) = re.findall(r"^\|.*t\\\|1.*$", half.summary, re.MULTILINE)
    assert not re.search(r"(?<!\\)[<>`!\[\]]", run)  # no markup of a name's own
    assert "t|1" not in half.printed
    assert "valid: false" in half.printed

    assert (closed.code, closed.outputs, closed.summary) == (4, {}, "")
    assert "401" in closed.printed or "token" in closed.printed
    assert (unknown.code, unknown.outputs, unknown.summary) == (3, {}, "")
    assert "batch 'nigthly' does not exist" in unknown.printed


def test_finished_runs_are_audited(tmp_path: Path) -> None:
    good = Scenario(kind="solved", number=1, calls=("ok",), reward=1.0, failed=False)
    dead, down = (
        Scenario(kind="doomed", number=at, calls=(FAILURES[name][0],), reward=0.0, failed=True)
        for at, name in enumerate(("auth", "rate_limit"), start=2)
    )
    dump_lines(
        tmp_path / "runs" / "benchmark.jsonl",
        [maseval_report(each, adapted=True) for each in (good, dead, down)],
    )
    done = measure(tmp_path, AUDIT="runs")
    assert done.code == 1
    assert json.loads(done.outputs["rerun"]) == ["benchmark.jsonl:doomed-3#0"]
    assert (done.outputs["valid"], done.outputs["score_effective"]) == ("false", "1")
    assert "| as reported | 0.333 |" in done.summary
    assert "doomed\\-2\\#0\\: api\\_error \\[auth\\, permanent\\]" in done.summary
    dump_lines(tmp_path / "runs" / "other.jsonl", [maseval_report(good, adapted=True)])
    several = measure(tmp_path, AUDIT="runs")
    assert (several.code, several.outputs["score_effective"]) == (1, "")
    assert "| benchmark\\.jsonl | reported 0.333, over what was measured **1** (1 of 3) |" in (
        several.summary
    )
    assert (
        "| other\\.jsonl | reported 1, over what was measured **1** (1 of 1) |" in several.summary
    )
    nothing = measure(tmp_path, AUDIT="nowhere")
    assert (nothing.code, nothing.outputs, nothing.summary) == (2, {}, "")


@pytest.mark.parametrize("inputs", [{}, {"BATCH": "b", "AUDIT": "runs"}])
def test_one_of_both_is_asked_about(tmp_path: Path, inputs: dict[str, str]) -> None:
    done = measure(tmp_path, **inputs)
    assert (done.code, done.outputs) == (2, {})
    assert "give one of batch and audit" in done.printed


def test_the_action_names_what_its_steps_read_and_write() -> None:
    action: dict[str, Any] = yaml.safe_load((DEPLOY / "action.yml").read_text())
    script = (DEPLOY / "action" / "measure.sh").read_text()
    steps = {step["run"].strip('"'): step for step in action["runs"]["steps"]}
    for named in steps:
        file = Path(named.replace("$GITHUB_ACTION_PATH", str(DEPLOY)))
        assert os.access(file, os.X_OK), named
    given = steps["$GITHUB_ACTION_PATH/action/measure.sh"]
    assert {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]} == set(given["env"].values())
    assert all(name in script for name in given["env"])
    for name, output in action["outputs"].items():
        assert output["value"] == f"${{{{ steps.{given['id']}.outputs.{name} }}}}"
        assert f'"{name}=' in script
