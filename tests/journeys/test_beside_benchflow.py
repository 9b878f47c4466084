"""benchflow's command from PyPI beside truezero that is half set up, down, killed or foreign.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.failing import Case
from tests.journeys.harnesses import AWAY, ENVIRONMENTS, HALVES, Beside, Condition, Ran, Row, Setup
from tests.journeys.test_harness_failures import BENCHFLOW

pytestmark = [
    pytest.mark.harness("benchflow"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# `benchflow eval run` itself, in the process that has the test's agent and sandbox. The address
# that benchflow knows of its provider is the test's.
COMMAND = (
    BENCHFLOW.partition("config = EvaluationConfig(")[0].replace(
        'cases, model, env = sys.argv[1].split(","), sys.argv[2], json.loads(sys.argv[3])',
        'cases, provider, own = sys.argv[1].split(","), sys.argv[4], sys.argv[5:] == ["gateway"]',
    )
    + """
from dataclasses import replace
from benchflow.agents.providers import PROVIDERS
from benchflow.cli.main import app
if not own:
    PROVIDERS["openai"] = replace(PROVIDERS["openai"], base_url=provider)
Path("job.yaml").write_text(json.dumps({
    "tasks_dir": "tasks", "jobs_dir": "jobs", "agent": "asks", "model": "openai/gpt-5",
    "environment": "local", "sandbox_user": None, "concurrency": 1, "max_retries": 1,
    "agent_env": {"BENCHFLOW_PROVIDER_BASE_URL": provider} if own else {},
}))
try:
    app(["eval", "run", "--config", "job.yaml"])
except SystemExit as left:
    code = left.code
results = [json.loads(path.read_text()) for path in Path("jobs").rglob("result.json")]
for case in cases:
    tried = sorted((one for one in results if one["task_name"] == case),
                   key=lambda one: one["started_at"])
    if tried:
        print(json.dumps({"case": case, "attempts": len(tried), "rewards": tried[-1]["rewards"],
                          "error": tried[-1]["error"], "category": tried[-1]["error_category"]}))
print(json.dumps({"case": "job", "version": version("benchflow")}))
sys.exit(code)
"""
)
UPSTREAM = {"TRUEZERO_BENCHFLOW_UPSTREAM": "openai"}
WIDE = {"COLUMNS": "400"}  # or its console breaks a sentence into lines


def asked(setup: Setup, home: Path) -> Ran:
    """Ask for truezero; half set up there is its URL alone, and a gateway of one's own."""
    half = setup.condition in HALVES
    words = (f"{setup.provider}/v1", "gateway" if half else "default")
    on = {} if half or setup.mode == "stock" else {"TRUEZERO_BENCHFLOW": "on", **UPSTREAM}
    return setup.run("benchflow", COMMAND, home, *words, environment={**WIDE, **on})


def unasked(setup: Setup, home: Path) -> Ran:
    """Leave it at the variables."""
    words = (f"{setup.provider}/v1", "default")
    return setup.run("benchflow", COMMAND, home, *words, environment={**WIDE, **UPSTREAM})


def score(row: Row) -> str:
    return f"reward {row['rewards']['reward']}" if row["rewards"] else "no reward"


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("benchflow", asked, score, tmp_path_factory.mktemp("beside"))


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    two = (Case.OK, Case.WRONG)
    return Beside("benchflow", unasked, score, tmp_path_factory.mktemp("present"), cases=two)


def test_a_gateway_of_ones_own_is_left_alone_and_one_sentence_says_how_to_measure(
    beside: Beside,
) -> None:
    assert beside.untouched(Condition.HALF)
    [line] = beside[Condition.HALF].said
    assert line.startswith("truezero: benchflow goes on unmeasured (TRUEZERO_BENCHFLOW=on would")
    assert "set TRUEZERO_BENCHFLOW_UPSTREAM" in line


@pytest.mark.parametrize("condition", AWAY)
def test_no_job_starts_without_the_service_and_one_sentence_says_so(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.by_case) == (1, 0, {})
    [line] = ran.said
    assert "truezero: no job is started: " in line


@pytest.mark.parametrize("condition", AWAY)
def test_a_service_that_was_not_asked_for_may_be_away(
    present: Beside, condition: Condition
) -> None:
    assert present.untouched(condition), present.cells(condition)
    [line] = present[condition].said
    assert line.startswith("truezero: benchflow goes on unmeasured (TRUEZERO_BENCHFLOW=on would")
    assert present[condition].visits in (None, 1)


def test_a_service_that_was_not_asked_for_may_die(present: Beside) -> None:
    """What was in flight is run again by benchflow, as it is without truezero."""
    assert present.never_worse(Condition.KILLED)
    assert present.cells(Condition.KILLED) == present.cells(Condition.ALONE)


def test_what_was_measured_before_the_service_was_killed_keeps_its_reward(beside: Beside) -> None:
    ran = beside[Condition.KILLED]
    assert beside.cells(Condition.KILLED) == {
        Case.OK: "reward 1.0", Case.WRONG: "no reward", Case.AUTH: "no reward",
    }  # fmt: skip
    # What was in flight failed by its calls, in benchflow's eyes; what began later was not run.
    said = {ran.by_case[case]["category"] for case in (Case.WRONG, Case.AUTH)}
    assert said <= {"api_error", "infra_failure"}


def test_the_page_shows_benchflow_beside_truezero(beside: Beside) -> None:
    version = next(row["version"] for row in beside[Condition.ALONE].rows if "version" in row)
    beside.write(
        Condition.HALF, Condition.DOWN, Condition.FOREIGN, Condition.KILLED, version=version
    )
