"""Harbor's command from PyPI beside truezero that is half set up, down, silent, killed or foreign.

Part of `make integrations`, which writes the table to docs/measurements/integrations.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.provider import Provider
from tests.journeys.failing import Case, plays
from tests.journeys.harnesses import (
    AWAY,
    ENVIRONMENTS,
    HALVES,
    Beside,
    Condition,
    Ran,
    Row,
    Setup,
    execute,
)
from tests.journeys.service import Service
from tests.journeys.test_harness_failures import HARBOR

pytestmark = [
    pytest.mark.harness("harbor"),
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]

# `harbor run` itself, in the process that has the test's environment, agent and verifier.
COMMAND = (
    HARBOR.partition("async def main():")[0].replace(
        'self.extra_env["OPENAI_BASE_URL"]',
        'url if sys.argv[4] == "elsewhere" else self.extra_env["OPENAI_BASE_URL"]',
    )
    + """
Path("job.json").write_text(json.dumps({
    "job_name": "job", "jobs_dir": "jobs", "n_concurrent_trials": 1,
    "tasks": [{"path": f"tasks/{case}"} for case in cases],
    "agents": [{"import_path": "under_test:Asks", "model_name": "openai/gpt-5",
                "env": {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": url}}],
    "environment": {"import_path": "under_test:Room"},
    "verifier": {"import_path": "under_test:Reads"},
}))
from harbor.cli.main import app
plugin = [] if sys.argv[4] == "present" or not ours else ["--plugin", "truezero"]
try:
    app(["run", "--config", "job.json", "--yes", *plugin])
except SystemExit as left:
    code = left.code
for path in sorted(Path("jobs/job").glob("*/result.json")):
    one = json.loads(path.read_text())
    failed = one["exception_info"] or {}
    print(json.dumps({"case": path.parent.name.partition("__")[0],
        "rewards": (one["verifier_result"] or {}).get("rewards"),
        "type": failed.get("exception_type"), "message": failed.get("exception_message")}))
job = Path("jobs/job/result.json")
if job.exists():
    stats = json.loads(job.read_text())["stats"]
    print(json.dumps({"case": "job", "version": version("harbor"),
                      "metrics": [one["metrics"] for one in stats["evals"].values()]}))
sys.exit(code)
"""
)
# An agent of Harbor's own: its sandbox does what its command would.
INSTALLED = (
    COMMAND.replace(
        """        return ExecResult(stdout="", stderr="", return_code=0)
""",
        """        env = kwargs.get("env") or {}
        if "OPENAI_BASE_URL" in env and "--model" in command:
            headers = {"authorization": "Bearer " + (env.get("OPENAI_API_KEY") or "none")}
            asked = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}
            async with httpx.AsyncClient(timeout=120) as client:
                answer = await client.post(env["OPENAI_BASE_URL"] + "/chat/completions",
                                           headers=headers, json=asked)
            said[self.session_id] = answer.text
        return ExecResult(stdout="", stderr="", return_code=0)
""",
    )
    .replace(
        """[{"import_path": "under_test:Asks", "model_name": "openai/gpt-5",
                "env": {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": url}}]""",
        """[{"name": "aider", "model_name": "openai/gpt-5"}]""",
    )
    .replace('["--plugin", "truezero"]', '["--plugin", "truezero", *sys.argv[5:]]')
)
QUIET = {"HARBOR_TELEMETRY": "off", "COLUMNS": "200"}


def plugged(setup: Setup, home: Path) -> Ran:
    """Ask for truezero; half set up, the agent has a base URL of its own."""
    how = "elsewhere" if setup.condition in HALVES else "plugin"
    return setup.run("harbor", COMMAND, home, how, environment=QUIET)


def unplugged(setup: Setup, home: Path) -> Ran:
    """Leave it at the variable."""
    return setup.run("harbor", COMMAND, home, "present", environment=QUIET)


def score(row: Row) -> str:
    return f"reward {row['rewards']['reward']}" if row["rewards"] else "no reward"


def mean(ran: Ran) -> object:
    [[numbers]] = next(row["metrics"] for row in ran.rows if row["case"] == "job")
    return numbers["mean"]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("harbor", plugged, score, tmp_path_factory.mktemp("beside"))


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside("harbor", unplugged, score, tmp_path_factory.mktemp("present"))


@pytest.mark.parametrize("condition", HALVES)
def test_a_variable_alone_changes_nothing_of_harbors(present: Beside, condition: Condition) -> None:
    assert present.untouched(condition)
    assert present[condition].said == []
    assert present[condition].visits in (None, 0)


def test_an_agent_with_a_base_url_of_its_own_keeps_harbors_results(beside: Beside) -> None:
    assert beside.untouched(Condition.HALF)
    assert mean(beside[Condition.HALF]) == mean(beside[Condition.ALONE])
    [line] = beside[Condition.HALF].said
    assert line.startswith("truezero: no call of under_test:Asks/openai/gpt-5 came through")


@pytest.mark.parametrize("condition", AWAY)
def test_no_job_starts_without_the_service_and_one_sentence_says_so(
    beside: Beside, condition: Condition
) -> None:
    ran = beside[condition]
    assert (ran.code, ran.calls, ran.rows) == (1, 0, [])
    [line] = ran.said
    assert line.startswith("truezero: no job is started: ")


def test_what_was_measured_before_the_service_was_killed_keeps_its_reward(beside: Beside) -> None:
    ran = beside[Condition.KILLED]
    assert beside.cells(Condition.KILLED) == {
        Case.OK: "reward 1.0", Case.WRONG: "no reward", Case.AUTH: "no reward",
    }  # fmt: skip
    assert {ran.by_case[case]["type"] for case in (Case.WRONG, Case.AUTH)} == {"ApiConnectionError"}
    assert mean(ran) == 1.0, "of the one that was measured"
    waiting, away, end = ran.said
    assert waiting.startswith("truezero: cannot reach a truezero service at ")
    assert away.startswith("truezero: trials are not measured while this lasts: the outcome of")
    assert end.startswith("truezero: 2 of 3 trials not measured and left out of the metrics: ")
    assert "; 1 outcome is not delivered and kept in " in end


@pytest.mark.parametrize(
    ("words", "key"), [([], ""), ([], "unused"), (["--skip-credential-checks"], "")]
)
def test_a_key_that_only_the_service_holds_passes_harbors_check_of_credentials(
    words: list[str], key: str, tmp_path: Path
) -> None:
    operators = {"KEY_OPENAI": "sk-operator", "ADMIN_TOKEN": "t" * 20}
    with (
        Provider(plays) as provider,
        Service(tmp_path, provider.url, **operators) as service,
    ):
        ours = {"TRUEZERO_URL": service.url, "TRUEZERO_ADMIN_TOKEN": "t" * 20}
        told = ["ours", service.url, "plugin", *words]
        ran = execute(
            "harbor", INSTALLED, tmp_path / "run", Case.OK.name, *told,
            environment={**QUIET, **ours, "OPENAI_API_KEY": key},
        )  # fmt: skip
        keys = [request.header("authorization") for request in provider.requests]
    if words or key:
        assert (ran.code, keys) == (0, ["Bearer sk-operator"]), ran.stdout + ran.stderr
        assert (score(ran.by_case[Case.OK]), ran.said) == ("reward 1.0", [])
    else:
        assert (ran.code, keys, ran.by_case) == (1, [], {})
        assert "--skip-credential-checks" in ran.stdout + ran.stderr


def test_the_page_shows_harbor_beside_truezero(beside: Beside) -> None:
    version = next(row["version"] for row in beside[Condition.ALONE].rows if "version" in row)
    beside.write(
        Condition.HALF, Condition.DOWN, Condition.FOREIGN, Condition.KILLED, version=version
    )
