"""mini-SWE-agent from PyPI beside truezero in each condition, by the command that a user types.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.provider import Request
from tests.journeys.failing import Case
from tests.journeys.harnesses import (
    AWAY,
    ENVIRONMENTS,
    HALVES,
    Beside,
    Condition,
    Ran,
    Row,
    Setup,
)
from tests.journeys.test_agent_harness_failures import works
from tests.journeys.test_integrations import SWEBENCH_CONFIG

pytestmark = [
    pytest.mark.harness("mini_swe_agent"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# The command as a process of its own; then what it predicted, and the version.
PROGRAM = """
import json, subprocess, sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

cases, ours, url = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3]
Path("tasks").mkdir()
rows = [{"instance_id": case, "problem_statement": f"case:{case}"} for case in cases]
Path("tasks/test.jsonl").write_text("\\n".join(map(json.dumps, rows)))
config = Path("config.yaml")
if not ours:
    config.write_text(config.read_text() + f"  model_kwargs:\\n    api_base: {url}\\n")
module = "truezero.integrations.mini_swe_agent" if ours else "minisweagent.run.benchmarks.swebench"
done = subprocess.run([sys.executable, "-m", module, "--subset", "tasks", "--split", "test",
                       "-o", "out", "-c", "config.yaml", "-w", "1"])
print(flush=True)
predicted = Path("out/preds.json")
found = json.loads(predicted.read_text()) if predicted.exists() else {}
for case in cases:
    if case in found:
        print(json.dumps({"case": case, "patch": found[case]["model_patch"],
                          "version": version("mini-swe-agent")}))
sys.exit(done.returncode)
"""


ORDER = (Case.WRONG, Case.OK, Case.AUTH)  # the service is killed while `ok` is worked on


def runs(setup: Setup, home: Path) -> Ran:
    mode = "stock" if setup.condition in HALVES else None

    def begun(folder: Path) -> None:
        (folder / "config.yaml").write_text(SWEBENCH_CONFIG)

    return setup.run("mini_swe_agent", PROGRAM, home, mode=mode, begun=begun)


def score(row: Row) -> str:
    return "a patch" if row["patch"] else "empty patch"


def second_call_of_ok(request: Request) -> bool:
    return b"case:OK" in request.body and b'"role":"assistant"' in request.body.replace(b" ", b"")


OPTIONS: Any = {"script": works, "midway": second_call_of_ok, "cases": ORDER}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    home = tmp_path_factory.mktemp("beside")
    return Beside("mini_swe_agent", runs, score, home, **OPTIONS)


@pytest.mark.parametrize("condition", AWAY)
def test_without_a_service_no_instance_is_run_and_one_sentence_says_why(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    [said] = ran.said
    assert said.startswith("truezero: no instance was run: ")
    assert ran.visits in (None, 1), "it is asked once"


@pytest.mark.parametrize("condition", [Condition.HALF, Condition.HALF_DOWN])
def test_the_runners_own_command_is_untouched_by_a_variable(
    beside: Beside, condition: Condition
) -> None:
    assert beside.untouched(condition)
    assert beside[condition].said == []


def test_an_instance_under_which_the_service_was_killed_is_not_predicted(beside: Beside) -> None:
    """Its empty patch would count as unresolved; the one before it keeps its own."""
    ran = beside[Condition.KILLED]
    assert list(beside.cells(Condition.KILLED).values()) == [
        "empty patch", "no result", "no result",
    ]  # fmt: skip
    assert ran.code == 1
    waits, said = [line for line in ran.said if line.startswith("truezero: ")]
    assert "outcomes wait for it" in waits
    assert said.startswith("truezero: 2 of 3 instances not measured: truezero service away (2);")
    assert "the same command runs them again" in said


def test_the_page_shows_mini_swe_agent_beside_truezero(beside: Beside) -> None:
    version = beside[Condition.ALONE].rows[0]["version"]
    beside.write(Condition.HALF, *AWAY, Condition.KILLED, version=version)
