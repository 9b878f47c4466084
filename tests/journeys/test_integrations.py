"""The harnesses themselves, from PyPI, against a real service: `make integrations`.

Each runs in an environment of its own, for they need different releases of one client, and is
asked for nothing but what it printed and wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.environments import as_installed
from tests.journeys.harnesses import ENVIRONMENTS, KEY, SWALLOWING, python_of, spawned
from tests.journeys.service import ROOT, Service

DOOMED = b"doomed"

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(300),
]


def fails_the_doomed(request: Request) -> Answer:
    """A provider whose account is dead for whoever says so."""
    if request.path.endswith(("/count_tokens", "/models")):
        return answers.whole({"input_tokens": 3, "object": "list", "data": []})
    if DOOMED in request.body:
        api = Api.RESPONSES if request.path.endswith("/responses") else Api.CHAT
        return answers.FAILURES[api][Fault.AUTH]
    return answers.healthy(request)


def run(harness: str, text: str, *words: str, url: str, home: Path) -> list[str]:
    """What a program prints, in lines of JSON, that runs where its harness is."""
    as_installed(home)
    environment = {"PYTHONPATH": str(ROOT), "TRUEZERO_URL": url, "TRUEZERO_BATCH": home.name}
    done = spawned(python_of(harness), "-c", text, *words, home=home, environment=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return [line for line in done.stdout.splitlines() if line.startswith("{")]


# --- Inspect -------------------------------------------------------------------------------

INSPECT = (
    SWALLOWING
    + """
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes
from truezero.integrations.inspect_ai import measured

@solver
def silent():
    async def solve(state, generate):
        return state
    return solve

samples = [Sample(id=word, input=word, target="true") for word in ("well", "doomed")]
def run(solve):
    task = Task(dataset=samples, solver=solve, scorer=measured(includes()))
    [log] = eval(task, model="openai/gpt-5", model_base_url=sys.argv[1] + "/openai/v1",
                 display="none", log_dir="logs", epochs=int(sys.argv[2]))
    assert log.status == "success", log.error
    scores = {f"{s.id}#{s.epoch}": s.scores["includes"] for s in log.samples}
    print(json.dumps({
        "batch": log.eval.eval_id,
        "accuracy": log.results.scores[0].metrics["accuracy"].value,
        "unscored": {k: s.reason for k, s in scores.items() if isinstance(s.value, float)},
    }))
run(swallowing())
run(silent())
"""
)


@pytest.mark.harness("inspect_ai")
def test_inspects_samples_are_rollouts_and_those_that_asked_no_model_are_not_scored(
    tmp_path: Path,
) -> None:
    with Provider(fails_the_doomed) as provider, Service(tmp_path, provider.url) as service:
        lines = run("inspect_ai", INSPECT, service.url, "2", url=service.url, home=tmp_path)
        swallowed, silent = map(json.loads, lines)
        dead, unasked = (
            service.get("/rollouts", batch=one["batch"])["items"] for one in (swallowed, silent)
        )
        summary = service.get(f"/batches/{swallowed['batch']}")
    assert (swallowed["accuracy"], set(swallowed["unscored"])) == (1.0, {"doomed#1", "doomed#2"})
    health = {(item["task"], item["repeat"]): item["health"] for item in dead}
    assert health == {
        **dict.fromkeys((("well", 0), ("well", 1)), "healthy"),
        **dict.fromkeys((("doomed", 0), ("doomed", 1)), "api_error"),
    }
    assert (summary["score_effective"], summary["coverage"]) == (1.0, 0.5)
    assert not any(item["provisional"] for item in dead)
    assert len(silent["unscored"]) == 4
    assert {item["health"] for item in unasked} == {"suspected_api_error"}
    assert {each.header("authorization") for each in provider.requests} == {f"Bearer {KEY}"}
    names = {name.lower() for request in provider.requests for name, _ in request.headers}
    assert not {name for name in names if name == "api-key" or name.startswith("x-truezero")}


# --- mini-SWE-agent ------------------------------------------------------------------------

SWEBENCH = "from truezero.integrations.mini_swe_agent import main; main()"
SWEBENCH_CONFIG = """
agent:
  system_template: "You are an agent."
  instance_template: "{{ task }}"
  step_limit: 5
  cost_limit: 0
environment:
  environment_class: local
model:
  model_name: openai/gpt-5
  cost_tracking: ignore_errors
"""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo diff --git a/zero"


def submits_unless_doomed(request: Request) -> Answer:
    dead = answers.FAILURES[Api.CHAT][Fault.AUTH]
    return dead if DOOMED in request.body else submitting()


def submitting() -> Answer:
    """An answer that has mini-SWE-agent hand in a patch."""
    return answers.chat_tools(name="bash", arguments=json.dumps({"command": SUBMIT}))


def swebench(service: Service, home: Path) -> dict[str, Any]:
    """What the runner predicts; two instances, one of them doomed."""
    tasks = home / "tasks"
    tasks.mkdir(exist_ok=True)
    rows = [{"instance_id": f"it-{word}", "problem_statement": word} for word in ("well", "doomed")]
    (tasks / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (home / "config.yaml").write_text(SWEBENCH_CONFIG)
    options = ("--subset", str(tasks), "--split", "test", "-o", "out", "-c", "config.yaml")
    run("mini_swe_agent", SWEBENCH, *options, "-w", "2", url=service.url, home=home)
    predicted: dict[str, Any] = json.loads((home / "out" / "preds.json").read_text())
    return predicted


@pytest.mark.harness("mini_swe_agent")
def test_mini_swe_agents_false_empty_predictions_go_and_are_run_again(tmp_path: Path) -> None:
    with Provider(submits_unless_doomed) as provider, Service(tmp_path, provider.url) as service:
        assert set(swebench(service, tmp_path)) == {"it-well"}
        first = len(provider.requests)
        provider.plays(submitting())
        predicted = swebench(service, tmp_path)
        rollouts = service.get("/rollouts", batch=tmp_path.name)["items"]
    assert {name: bool(one["model_patch"]) for name, one in predicted.items()} == {
        "it-well": True,
        "it-doomed": True,
    }
    assert len(provider.requests) == first + 1, "what was measured is not run again"
    assert {(item["task"], item["attempt"], item["health"]) for item in rollouts} == {
        ("it-well", 0, "healthy"),
        ("it-doomed", 0, "api_error"),
        ("it-doomed", 1, "healthy"),
    }
    trajectories = "".join(path.read_text() for path in tmp_path.rglob("*.traj.json"))
    assert "LitellmModel" in trajectories
    assert service.url not in trajectories


# What SWE-bench writes of mini-SWE-agent's predictions; it runs no tests here.
REPORT = """
import json
from pathlib import Path
from swebench.harness.reporting import make_run_report

predictions = json.loads(Path("out/preds.json").read_text())
names = [json.loads(line)["instance_id"] for line in Path("tasks/test.jsonl").open()]
make_run_report(predictions, [{"instance_id": name} for name in names], "run-1")
"""


@pytest.mark.harness("maseval", "mini_swe_agent", "swebench")
def test_the_guides_snippet_names_what_mini_swe_agent_could_not_measure_in_swebenchs_report(
    tmp_path: Path,
) -> None:
    guide = (ROOT / "docs" / "guides" / "integrations.md").read_text()
    section = guide.partition("## SWE-bench")[2].partition("```python\n")[2]
    snippet = section.partition("```")[0].replace('batch="verified-1"', f'batch="{tmp_path.name}"')
    with Provider(submits_unless_doomed) as provider, Service(tmp_path, provider.url) as service:
        swebench(service, tmp_path)
        run("swebench", REPORT, url=service.url, home=tmp_path)
        path = tmp_path / "openai__gpt-5.run-1.json"
        before = json.loads(path.read_text())
        run("maseval", snippet, url=service.url, home=tmp_path)
        told = json.loads(path.read_text())
        provider.plays(submitting())
        swebench(service, tmp_path)  # the doomed one again: its last attempt reaches a model
        path.write_text(json.dumps(before))
        run("maseval", snippet, url=service.url, home=tmp_path)
    assert (before["submitted_ids"], before["infra_failure_ids"]) == (["it-well"], [])
    assert told["infra_failure_ids"] == ["it-doomed"]
    assert told["failure_reasons"] == {
        "it-doomed": "api_error [auth, permanent]: HTTP 401 on 1 of 1 call"
    }
    assert json.loads(path.read_text()) == before
