"""benchflow, MASEval and Harbor from PyPI while their provider fails: as they are, and with us.

Part of `make integrations`, which writes what it measured to docs/measurements/integrations.md.
With CI set, benchflow as it is runs only the cases where it keeps a zero, and the page is compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fakes.provider import Answer, Provider, Request, Script
from tests.journeys.failing import Case, plays
from tests.journeys.harnesses import (
    CI,
    ENVIRONMENTS,
    KEY,
    SPOKEN_TEXTS,
    Row,
    execute,
    put_on_page,
    table_by_rows,
)
from tests.journeys.service import Service
from truezero.audit.report import audit
from truezero.cli import app
from truezero.integrations.harbor import EXCEPTION_TYPES, KNOWN_AS

GONE = "http://127.0.0.1:9"

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(1800),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a harness said of each case, as it is and with ours, and what the others saw."""

    harness: str
    version: str
    service: str  # its URL
    stock: Mapping[Case, Row]
    ours: Mapping[Case, Row]
    extra: Mapping[str, Row]  # lines of ours that are no case
    alone: Path  # the folder in which it ran without us
    rollouts: list[dict[str, Any]]
    calls: Mapping[str, list[dict[str, Any]]]  # of each rollout
    asked: list[Request]
    checked: str  # what `truezero check` prints of its batch


def run(
    harness: str,
    text: str,
    home: Path,
    cases: Iterable[Case],
    *words: str,
    service: str = "",
    begun: Callable[[Path], None] | None = None,
) -> list[Row]:
    """What a program prints, in lines of JSON; without a service the harness is as it is.

    ``begun`` is called with its folder before it starts.
    """
    named = {"TRUEZERO_BENCHFLOW_UPSTREAM": "openai,anthropic"} if harness == "benchflow" else {}
    environment = {"TRUEZERO_URL": service, **named} if service else {}
    names = ",".join(case.name for case in cases)
    ran = execute(harness, text, home, names, *words, environment=environment, begun=begun)
    assert ran.code == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    return list(ran.rows)


def false_zeros(folder: Path, measured: Measured) -> set[Case]:
    """The cases of which an audit of what a harness wrote alone finds that they are no zeros."""
    found = audit(measured.alone / folder).runs
    tasks = {
        case: [run for run in found if case.name in run.task.split("@")] for case in measured.stock
    }
    assert all(tasks.values()), "a task was not read"
    failed = ("api_error", "suspected_api_error")
    return {case for case, runs in tasks.items() if runs[-1].verdict.health in failed}


def by_case(lines: list[Row]) -> dict[Case, Row]:
    return {Case[line["case"]]: line for line in lines if line.get("case") in Case.__members__}


def measure(
    harness: str,
    home: Path,
    runs: Callable[[str, str, Path, Iterable[Case]], list[Row]],
    script: Script = plays,
) -> Iterator[Measured]:
    """Run a harness without us, then with us, against one provider."""
    kept = (Case.EMPTY, Case.MIDWAY)
    without = kept if CI and harness == "benchflow" else tuple(Case)
    with Provider(script) as provider, Service(home, provider.url) as service:
        stock = runs("stock", provider.url, home / "stock", without)
        provider.requests.clear()
        ours = runs("ours", service.url, home / "ours", Case)
        rollouts = service.get("/rollouts")["items"]
        [batch] = {item["batch"] for item in rollouts}
        checked = CliRunner().invoke(app, ["check", batch, "--url", service.url])
        yield Measured(
            harness=harness,
            version=next(line["version"] for line in ours if "version" in line),
            service=service.url,
            stock=by_case(stock),
            ours=by_case(ours),
            extra={line["case"]: line for line in ours if "case" in line},
            alone=home / "stock",
            rollouts=rollouts,
            calls={item["id"]: service.exchanges(item["id"]) for item in rollouts},
            asked=list(provider.requests),
            checked=checked.output,
        )


# --- benchflow -----------------------------------------------------------------------------

# A container needs Docker. The sandbox here answers benchflow's own commands and runs none of
# them; everything else is the package: Evaluation, Rollout, its LiteLLM, verifier, retry, breaker.
BENCHFLOW = (
    SPOKEN_TEXTS
    + """
import asyncio, json, sys
from importlib.metadata import version
from pathlib import Path
import httpx
from benchflow import Evaluation, EvaluationConfig, RetryConfig, register_agent
from benchflow.rollout_planes import DefaultRolloutPlanes
from benchflow.sandbox import ExecResult

cases, model, env = sys.argv[1].split(","), sys.argv[2], json.loads(sys.argv[3])

class Sandbox:
    is_mounted = True
    default_user = sandbox_id = None
    def __init__(self, paths):
        self.paths, self.said = paths, ""
    async def nothing(self, *args, **kwargs):
        pass
    start = stop = upload_file = upload_dir = download_file = download_dir = nothing
    async def exec(self, command, **kwargs):
        if "/test.sh" in command:
            reward = float("zero is true" in self.said)
            (self.paths.verifier_dir / "reward.txt").write_text(str(reward))
        return ExecResult(return_code=0, stdout="", stderr="")

def sandbox(self, environment, task, task_path, rollout_name, rollout_paths, **kwargs):
    return Sandbox(rollout_paths)

class Session:
    def __init__(self, sandbox):
        self.sandbox, self.env, self.steps, self.on_change = sandbox, sandbox.agent_env, [], None
    async def prompt(self, text):
        case = text.split("case:")[1].split()[0]
        said = [await self.ask(case, turn) for turn in (1, 2, 3)]
        self.sandbox.sandbox.said = "" if case == "WRONG" else said[-1]
        return "end_turn"
    async def ask(self, case, turn):
        key = {"authorization": "Bearer " + self.env["BENCHFLOW_PROVIDER_API_KEY"]}
        said = [{"role": "user", "content": f"case:{case} turn:{turn}"}]
        asked = {"model": self.env["BENCHFLOW_PROVIDER_MODEL"], "stream": True, "messages": said}
        url = self.env["BENCHFLOW_PROVIDER_BASE_URL"] + "/chat/completions"
        async with httpx.AsyncClient(timeout=120) as client:
            answer = await client.post(url, headers=key, json=asked)
        return "".join(spoken(answer.text)) if answer.is_success else ""
    async def close(self):
        pass

class Agent:
    async def connect(self, sandbox, role):
        return Session(sandbox)

def build(**options):
    return Agent()

sys.modules["agent_under_test"] = sys.modules["__main__"]
made = "agent_under_test:build"
register_agent("asks", "true", "true", protocol="session-factory", session_factory=made)
DefaultRolloutPlanes.create_environment = sandbox

for case in cases:
    task = Path("tasks", case)
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM scratch\\n")
    (task / "instruction.md").write_text(f"case:{case} \\n")
    (task / "task.toml").write_text('version = "1.0"\\n[agent]\\ntimeout_sec = 240\\n')
    (task / "tests" / "test.sh").write_text("true\\n")

config = EvaluationConfig(
    agent="asks", model=model, environment="local", sandbox_user=None, agent_env=env,
    concurrency=3, retry=RetryConfig(max_retries=1, min_wait_sec=0.1),
)
job = asyncio.run(Evaluation("tasks", "jobs", config, job_name="job").run())
results = [json.loads(path.read_text()) for path in Path("jobs").rglob("result.json")]
for case in cases:
    tried = sorted((one for one in results if one["task_name"] == case),
                   key=lambda one: one["started_at"])
    print(json.dumps({**{name: tried[-1][name] for name in (
        "rewards", "error", "error_category", "api_error_info", "suspected_api_error_info",
        "verifier_error",
    )}, "case": case, "attempts": len(tried), "names": [one["rollout_name"] for one in tried]}))
print(json.dumps({
    "version": version("benchflow"), "case": "job", "passed": job.passed, "failed": job.failed,
    "errored": job.errored, "score": job.score_excl_errors,
}))
"""
)


@pytest.fixture(scope="module")
def benchflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        own = {"BENCHFLOW_PROVIDER_BASE_URL": f"{url}/v1", "BENCHFLOW_PROVIDER_API_KEY": KEY}
        env, service = (own, "") if mode == "stock" else ({}, url)
        words = ("openai/gpt-5", json.dumps(env))
        return run("benchflow", BENCHFLOW, home, cases, *words, service=service)

    yield from measure("benchflow", tmp_path_factory.mktemp("benchflow"), runs)


def test_benchflow_says_what_failed_in_its_own_fields(benchflow: Measured) -> None:
    """Its sentences and attempts stand on the page."""
    said = {case: benchflow.ours[case]["error_category"] for case in WHY}
    assert said == {**dict.fromkeys(WHY, "api_error"), Case.EMPTY: "suspected_api_error"}
    assert benchflow.ours[Case.MIDWAY]["api_error_info"] == {
        "subcategory": "quota", "transient": False, "dominant_status": 429,
        "status_counts": {"429": 2}, "total_requests": 3, "failed_requests": 2,
        "fingerprint": "quota:429",
    }  # fmt: skip
    assert benchflow.ours[Case.EMPTY]["suspected_api_error_info"]["total_requests"] == 3


def test_benchflows_score_is_of_what_was_measured(benchflow: Measured) -> None:
    job = benchflow.extra["job"]
    assert (job["passed"], job["failed"], job["errored"], job["score"]) == (1, 1, len(WHY), 0.5)


def test_benchflows_rollouts_are_ours_by_name(benchflow: Measured) -> None:
    names = {name for row in benchflow.ours.values() for name in row["names"]}
    assert {item["id"] for item in benchflow.rollouts} == names
    assert {item["batch"] for item in benchflow.rollouts} == {"job"}
    tried = {case.name: row["attempts"] for case, row in benchflow.ours.items()}
    counted: dict[str, list[int]] = {name: [] for name in tried}
    for item in benchflow.rollouts:
        counted[item["task"]].append(item["attempt"] or 0)  # one that is not repeated has none
    assert {name: sorted(numbers) for name, numbers in counted.items()} == {
        name: list(range(attempts)) for name, attempts in tried.items()
    }
    assert {len(calls) for calls in benchflow.calls.values()} == {3}


@pytest.mark.harness("benchflow")
def test_benchflow_asks_anthropics_models_through_us_too(tmp_path: Path) -> None:
    words = ("anthropic/claude-sonnet-5", "{}")
    with Provider(plays) as provider, Service(tmp_path, provider.url) as service:
        found = by_case(
            run("benchflow", BENCHFLOW, tmp_path / "run", [Case.AUTH], *words, service=service.url)
        )
        assert {request.path for request in provider.requests} == {"/v1/messages"}
        assert {request.header("x-api-key") for request in provider.requests} == {KEY}
    assert found[Case.AUTH]["error"] == (
        "provider api error [auth/permanent] HTTP 401 on 3/3 requests"
    )


@pytest.mark.harness("benchflow")
def test_benchflow_makes_no_score_where_the_service_is_gone(tmp_path: Path) -> None:
    words = ("openai/gpt-5", "{}")
    lines = run("benchflow", BENCHFLOW, tmp_path / "never", [Case.OK], *words, service=GONE)
    row = by_case(lines)[Case.OK]
    assert row["rewards"] is None
    assert "truezero" not in row["error"], "it was not asked for: benchflow goes on as it is"

    def leaves(request: Request) -> Answer:
        if b"turn:3" in request.body:
            service.kill()
        return plays(request)

    with Provider(leaves) as provider, Service(tmp_path, provider.url) as service:
        lines = run("benchflow", BENCHFLOW, tmp_path / "left", [Case.OK], *words,
                    service=service.url)  # fmt: skip
    row = by_case(lines)[Case.OK]
    assert row["rewards"] is None, "it was 0.0"
    assert row["error"].startswith("provider api error"), "what benchflow saw of its next attempt"


# --- MASEval -------------------------------------------------------------------------------

MASEVAL = """
import json, sys
from importlib.metadata import version
from pathlib import Path
import httpx2, openai
import truezero
from maseval import AgentAdapter, Benchmark, Environment, Evaluator, Task, User
from maseval.core.callbacks.result_logger import FileResultLogger
from maseval.core.user import TerminationReason
from truezero.integrations.maseval import Truezero

cases, ours, url = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3]
shared = openai.OpenAI(
    base_url=url, max_retries=0,
    http_client=httpx2.Client(event_hooks={"request": [truezero.httpx_hook]}),
)

def ask(case, turn, model="gpt-5"):
    said = [{"role": "user", "content": f"case:{case} turn:{turn}"}]
    try:
        stream = shared.chat.completions.create(model=model, messages=said, stream=True)
        return "".join(part.choices[0].delta.content or "" for part in stream if part.choices)
    except openai.OpenAIError:
        return ""

class Room(Environment):
    def setup_state(self, task_data):
        return {}
    def create_tools(self):
        return {}

class Asks(AgentAdapter):
    def _run_agent(self, query):
        case = query.split(":")[1]
        if case == "MODEL":
            ask(case, 0, "gpt-5-mini")
        said = [ask(case, turn) for turn in (1, 2, 3)]
        return "" if case == "WRONG" else said[-1]

class Reads(Evaluator):
    def __init__(self):
        pass
    def filter_traces(self, traces):
        return traces
    def __call__(self, traces, final_answer=None):
        ask("OK", 9)
        return {"score": float("zero is true" in final_answer)}

class Person(User):
    def __init__(self, patience):
        self.patience = patience
    def get_initial_query(self):
        return "case:OK"
    def respond(self, message):
        ask("OK", 8)
        self.patience -= 1
        return "case:OK"
    def is_done(self):
        return self.patience <= 0
    def gather_traces(self):
        ended = TerminationReason.USER_TERMINATED if self.is_done() else (
            TerminationReason.NOT_TERMINATED)
        return {"termination_reason": ended.value}

class Suite(Benchmark):
    def setup_environment(self, agent_data, task, seed_generator):
        return Room({})
    def setup_user(self, agent_data, environment, task, seed_generator):
        patience = task.user_data.get("patience")
        return patience and Person(patience)
    def setup_agents(self, agent_data, environment, task, user, seed_generator):
        agent = Asks(None, "agent")
        return [agent], {"agent": agent}
    def setup_evaluators(self, environment, task, agents, user, seed_generator):
        return [Reads()]
    def get_model_adapter(self, model_id, **kwargs):
        raise NotImplementedError
    def run_agents(self, agents, task, environment, query):
        return agents[0].run(query)
    def evaluate(self, evaluators, agents, final_answer, traces):
        return [evaluator(traces, final_answer) for evaluator in evaluators]

logger = FileResultLogger("logs", filename_pattern="run.jsonl", overwrite=True)
callbacks = [logger, Truezero()] if ours else [logger]
workers = int(sys.argv[4]) if sys.argv[4:] else 4
suite = Suite(callbacks=callbacks, num_workers=workers, max_invocations=3, progress_bar=False)
tasks = [Task(query=f"case:{case}", id=case) for case in cases]
if ours and workers > 1:
    tasks += [Task(query="", id=name, user_data={"patience": patience})
              for name, patience in (("satisfied", 2), ("insatiable", 9))]
reports = suite.run(tasks, agent_data={})
failed = {task.id for task in suite.get_failed_tasks()}
logged = {line["task_id"]: line for line in map(json.loads, Path("logs/run.jsonl").open())}
card = Path("logs/run.card.json")
harness = json.loads(card.read_bytes())["stated"]["harness"] if card.exists() else None
for report in reports:
    name, error = report["task_id"], report["error"] or {}
    traced = report["traces"].get("truezero")
    assert logged[name]["traces"].get("truezero") == traced
    assert all(logged[name][key] == report[key] for key in ("status", "eval", "error"))
    print(json.dumps({
        "case": name, "version": version("maseval"), "failed": name in failed,
        "status": report["status"], "eval": report["eval"], "error": error.get("error_message"),
        "reason": report.get("termination_reason"), "truezero": traced, "card": harness,
    }))
"""


@pytest.fixture(scope="module")
def maseval(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        base, service = (f"{url}/v1", "") if mode == "stock" else (f"{url}/openai/v1", url)
        return run("maseval", MASEVAL, home, cases, mode, base, service=service)

    yield from measure("maseval", tmp_path_factory.mktemp("maseval"), runs)


WHY: Mapping[Case, str] = {
    Case.AUTH: "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls",
    Case.QUOTA: "api_error [quota, permanent]: HTTP 429 on 3 of 3 calls",
    Case.RATE_LIMIT: "api_error [rate_limit, transient]: HTTP 429 on 3 of 3 calls",
    Case.OUTAGE: "api_error [provider_error, transient]: HTTP 503 on 3 of 3 calls",
    Case.IN_STREAM: "api_error [provider_error, transient]: an error inside HTTP 200 on 3 of 3 "
    "calls",
    Case.EMPTY: "suspected_api_error: 3 answered of 3 calls, none carried any output",
    Case.MIDWAY: "api_error [quota, permanent]: HTTP 429 on the last 2 of 3 calls",
    Case.MODEL: "api_error [model_not_found, permanent]: HTTP 404 on 3 of 3 calls to gpt-5",
}


def test_maseval_scores_nothing_that_no_model_made(maseval: Measured) -> None:
    assert {case: maseval.ours[case]["error"] for case in WHY} == WHY
    for case in WHY:
        row = maseval.ours[case]
        assert (row["status"], row["reason"], row["eval"]) == ("environment_error", None, None)
        assert row["failed"], "get_failed_tasks returns it"
        told = row["truezero"]
        assert (told["status"], told["termination_reason"], told["rewards"]) == (
            "success", "agent_stop", {"score": 0.0},
        ), "what the repetition itself ended with stays"  # fmt: skip


def test_maseval_keeps_what_a_model_earned(maseval: Measured) -> None:
    for case, score in ((Case.OK, 1.0), (Case.WRONG, 0.0)):
        row = maseval.ours[case]
        assert (row["status"], row["reason"], row["eval"], row["failed"]) == (
            "success", "agent_stop", [{"score": score}], False,
        )  # fmt: skip
        assert row["truezero"]["health"] == "healthy"


def test_masevals_log_has_its_measurement_card_beside_it(maseval: Measured) -> None:
    version = maseval.ours[Case.OK]["version"]
    assert {row["card"] for row in maseval.ours.values()} == {f"maseval {version}"}
    assert {row["card"] for row in maseval.stock.values()} == {None}


def test_maseval_says_why_a_conversation_ended(maseval: Measured) -> None:
    ended = {name: maseval.extra[name]["reason"] for name in ("satisfied", "insatiable")}
    assert ended == {"satisfied": "user_stop", "insatiable": "max_steps"}


def test_masevals_calls_over_one_client_and_four_threads_are_told_apart(maseval: Measured) -> None:
    told = {item["task"]: maseval.calls[item["id"]] for item in maseval.rollouts}
    roles = {task: [call["role"] for call in calls] for task, calls in told.items()}
    one = ["agent", "agent", "agent"]
    assert roles == {
        **{case.name: [*one, "judge"] for case in Case},
        Case.MODEL.name: ["agent", *one, "judge"],
        "satisfied": [*one, "user", *one, "user", "judge"],
        "insatiable": [*one, "user", *one, "user", *one, "user", "judge"],
    }
    assert {call["attribution_source"] for calls in told.values() for call in calls} == {
        "minted_key"
    }


# --- Harbor --------------------------------------------------------------------------------

# A container needs Docker here too: environment, agent and verifier are the test's own, by Harbor's
# import paths; everything else is the package.
HARBOR = (
    SPOKEN_TEXTS
    + """
import asyncio, json, sys
from importlib.metadata import version
from pathlib import Path
import httpx
from harbor.agents.base import BaseAgent
from harbor.cli.job_plugins import attach_job_plugin, finalize_job_plugins
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.job import Job
from harbor.models.job.config import JobConfig
from harbor.models.trial.result import TrialResult
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier

cases, ours, url = sys.argv[1].split(","), sys.argv[2] == "ours", sys.argv[3]
said = {}

class Room(BaseEnvironment):
    @staticmethod
    def type():
        return "room"
    @property
    def capabilities(self):
        return EnvironmentCapabilities(mounted=True)
    def _validate_definition(self):
        pass
    async def nothing(self, *args, **kwargs):
        pass
    start = stop = upload_file = upload_dir = download_file = download_dir = nothing
    async def exec(self, command, *args, **kwargs):
        return ExecResult(stdout="", stderr="", return_code=0)

class Asks(BaseAgent):
    @staticmethod
    def name():
        return "asks"
    def version(self):
        return "1"
    async def setup(self, environment):
        pass
    async def run(self, instruction, environment, context):
        case = instruction.split("case:")[1].split()[0]
        if case == "MODEL":
            await self.ask(case, 0, "gpt-5-mini")
        answers = [await self.ask(case, turn) for turn in (1, 2, 3)]
        said[environment.session_id] = "" if case == "WRONG" else answers[-1]
    async def ask(self, case, turn, model="gpt-5"):
        asked = {"model": model, "stream": True,
                 "messages": [{"role": "user", "content": f"case:{case} turn:{turn}"}]}
        key = {"authorization": "Bearer " + self.extra_env["OPENAI_API_KEY"]}
        base = self.extra_env["OPENAI_BASE_URL"]
        async with httpx.AsyncClient(timeout=120) as client:
            answer = await client.post(base + "/chat/completions", headers=key, json=asked)
        return "".join(spoken(answer.text)) if answer.is_success else ""

class Reads(BaseVerifier):
    async def verify(self):
        reward = float("zero is true" in said[self.environment.session_id])
        return VerifierResult(rewards={"reward": reward})

for case in cases:
    task = Path("tasks", case)
    (task / "tests").mkdir(parents=True)
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM scratch\\n")
    (task / "instruction.md").write_text(f"case:{case} \\n")
    (task / "task.toml").write_text('version = "1.0"\\n')
    (task / "tests" / "test.sh").write_text("true\\n")

sys.modules["under_test"] = sys.modules["__main__"]

async def main():
    env = {"OPENAI_API_KEY": "sk-own", "OPENAI_BASE_URL": url}
    config = JobConfig.model_validate({
        "job_name": "job", "jobs_dir": "jobs", "quiet": True, "n_concurrent_trials": 4,
        "tasks": [{"path": f"tasks/{case}"} for case in cases],
        "agents": [{"import_path": "under_test:Asks", "model_name": "openai/gpt-5", "env": env}],
        "environment": {"import_path": "under_test:Room"},
        "verifier": {"import_path": "under_test:Reads"},
        "retry": {"max_retries": 1, "min_wait_sec": 0.1},
    })
    job = await Job.create(config)
    plugins = [await attach_job_plugin(job, "truezero")] if ours else []
    result = await job.run()
    await finalize_job_plugins(plugins, result)
    [stats] = json.loads(Path("jobs/job/result.json").read_text())["stats"]["evals"].values()
    for path in Path("jobs/job").glob("*/result.json"):
        one = json.loads(path.read_text())
        failed = one["exception_info"] or {}
        assert TrialResult.model_validate(one).reward_valid is one["reward_valid"]
        print(json.dumps({"case": path.parent.name.partition("__")[0], "trial": one["trial_name"],
            "valid": one["reward_valid"], "policy": failed.get("policy"),
            "rewards": (one["verifier_result"] or {}).get("rewards"),
            "type": failed.get("exception_type"), "message": failed.get("exception_message"),
            "config": (path.parent / "config.json").read_text()}))
    print(json.dumps({"case": "job", "version": version("harbor"), "metrics": stats["metrics"],
                      "retries": result.stats.n_retries}))
    return config
config = asyncio.run(main())
async def again():
    job = await Job.create(JobConfig.model_validate_json(Path("jobs/job/config.json").read_text()))
    print(json.dumps({"case": "resumed", "left": len(job._remaining_trial_configs)}))
if ours: asyncio.run(again())
"""
)


@pytest.fixture(scope="module")
def harbor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    provider: list[str] = []  # ours goes there too, unless the plug-in leads it elsewhere

    def runs(mode: str, url: str, home: Path, cases: Iterable[Case]) -> list[Row]:
        provider.append(f"{url}/v1")
        service = "" if mode == "stock" else url
        return run("harbor", HARBOR, home, cases, mode, provider[0], service=service)

    yield from measure("harbor", tmp_path_factory.mktemp("harbor"), runs)


# Harbor's type, by which it retries, and how often it was tried.
TYPES: Mapping[Case, tuple[str, int]] = {
    Case.AUTH: ("AgentAuthenticationError", 1),
    Case.QUOTA: ("ApiUsageLimitError", 1),
    Case.RATE_LIMIT: ("ApiRateLimitError", 2),
    Case.OUTAGE: ("ApiInternalServerError", 2),
    Case.IN_STREAM: ("ApiInternalServerError", 2),
    Case.EMPTY: ("APIResponseValidationError", 1),
    Case.MIDWAY: ("ApiUsageLimitError", 1),
    Case.MODEL: ("ModelNotFoundError", 1),
}


def test_harbor_verifies_nothing_that_no_model_made(harbor: Measured) -> None:
    tried = [item["task"].partition("@")[0] for item in harbor.rollouts]
    seen = {case: (harbor.ours[case]["type"], tried.count(case.name)) for case in TYPES}
    assert seen == TYPES
    assert {case: harbor.ours[case]["message"] for case in TYPES} == WHY
    assert not any(harbor.ours[case]["rewards"] for case in TYPES)
    assert harbor.extra["job"]["retries"] == 3


def test_harbors_mean_is_of_what_was_measured(harbor: Measured) -> None:
    assert harbor.extra["job"]["metrics"] == [{"mean": 0.5}]


def test_harbors_attempts_are_told_apart_and_its_configs_hold_nothing_of_ours(
    harbor: Measured,
) -> None:
    counted: dict[str, list[int]] = {}
    for item in harbor.rollouts:
        counted.setdefault(item["task"].partition("@")[0], []).append(item["attempt"] or 0)
    again = {case.name for case, (_, times) in TYPES.items() if times == 2}
    assert counted == {case.name: [0, 1] if case.name in again else [0] for case in Case}
    assert not any("/r/" in row["config"] for row in harbor.ours.values())
    assert harbor.extra["resumed"]["left"] == 0, "or `harbor job resume` would not know its trials"


def test_harbor_counts_no_reward_of_a_failure(harbor: Measured) -> None:
    assert not any(harbor.ours[case]["valid"] for case in TYPES)
    assert not any(harbor.ours[case]["policy"]["has_valid_reward"] for case in TYPES)
    assert all(harbor.ours[case]["valid"] for case in (Case.OK, Case.WRONG))


# Each exception that our plug-in raises, in the result of a trial that was verified all the same.
RAISED = """
import json
from pathlib import Path
from harbor.agents.installed import base
from harbor.models.job.config import JobConfig
from harbor.models.task.id import LocalTaskId
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, ExceptionInfo, TrialResult
from harbor.models.verifier.result import VerifierResult
from truezero.integrations import harbor

kinds = {name: getattr(base, name) for name in harbor.EXCEPTION_TYPES.values()}
kinds |= {kind.__name__: harbor._named(kind) for kind in harbor.KNOWN_AS}
path = Path("t")
for name, kind in kinds.items():
    trial = TrialResult(
        task_name="t", trial_name="t__1", trial_uri="file:///t", task_checksum="0",
        task_id=LocalTaskId(path=path), config=TrialConfig(task=TaskConfig(path=path)),
        agent_info=AgentInfo(name="a", version="1"),
        verifier_result=VerifierResult(rewards={"reward": 0.0}),
        exception_info=ExceptionInfo.from_exception(kind("r", "why")))
    Path("result.json").write_text(trial.model_dump_json(indent=4))
    told = json.loads(Path("result.json").read_text())
    print(json.dumps({"case": name, "valid": told["reward_valid"],
                      "policy": told["exception_info"]["policy"]}))
config = JobConfig.model_validate({
    "retry": {"include_exceptions": ["ApiUsageLimitError"]},
    "override_error_policy": {"ModelNotFoundError": {"should_retry": True}}})
print(json.dumps({"case": "retried", "names": sorted(harbor._retried(config)),
                  "plain": sorted(harbor._retried(JobConfig()))}))
"""


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Row]:
    rows = run("harbor", RAISED, tmp_path_factory.mktemp("raised") / "run", ())
    return {row["case"]: row for row in rows}


@pytest.mark.harness("harbor")
def test_harbor_takes_no_reward_beside_an_exception_of_ours_for_valid(
    raised: Mapping[str, Row],
) -> None:
    for name in (*EXCEPTION_TYPES.values(), *(kind.__name__ for kind in KNOWN_AS)):
        assert raised[name]["policy"]["has_valid_reward"] is False, name
        assert raised[name]["valid"] is False, name


@pytest.mark.harness("harbor")
def test_what_a_job_has_tried_again_on_purpose_is_read_of_harbors_own_configuration(
    raised: Mapping[str, Row],
) -> None:
    assert raised["retried"]["names"] == ["ApiUsageLimitError", "ModelNotFoundError"]
    assert raised["retried"]["plain"] == []


# --- what was written without us, audited -------------------------------------------------


def test_an_audit_finds_the_zeros_that_benchflow_keeps(benchflow: Measured) -> None:
    found = false_zeros(Path("jobs"), benchflow)
    assert {Case.EMPTY, Case.MIDWAY} <= found
    assert not found & {Case.OK, Case.WRONG}


@pytest.mark.parametrize(("harness", "folder"), [("harbor", "jobs/job"), ("maseval", "logs")])
def test_an_audit_of_what_says_nothing_of_calls_invents_nothing(
    harness: str, folder: str, request: pytest.FixtureRequest
) -> None:
    """Agents of one's own leave no trajectory and no tokens, or have a client of their own."""
    assert false_zeros(Path(folder), request.getfixturevalue(harness)) == set()


# --- of each harness -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harness", "measured", "reported"),
    [("benchflow", "0.500", "0.100"), ("maseval", "0.750", "0.250"), ("harbor", "0.500", "0.500")],
)
def test_check_says_a_harnesss_score_beside_the_one_of_what_was_measured(
    harness: str, measured: str, reported: str, request: pytest.FixtureRequest
) -> None:
    """Harbor verifies nothing that no model made; the others reward it."""
    checked = request.getfixturevalue(harness).checked
    assert f"score {measured}, as the harness reported it {reported}" in checked


@pytest.mark.parametrize("harness", ["benchflow", "maseval"])
def test_a_provider_sees_its_own_key_and_nothing_of_ours(
    harness: str, request: pytest.FixtureRequest
) -> None:
    asked = request.getfixturevalue(harness).asked
    assert {each.header("authorization") for each in asked} == {f"Bearer {KEY}"}
    assert {each.path for each in asked} == {"/v1/chat/completions"}
    assert not [name for each in asked for name, _ in each.headers if "truezero" in name.lower()]


# --- the page ------------------------------------------------------------------------------


def said_by_benchflow(row: Row) -> str:
    tried = f", {row['attempts']} attempts" if row["attempts"] > 1 else ""
    if row["rewards"] is not None:
        return f"reward {row['rewards']['reward']}, error null{tried}"
    return f"no reward, `{row['error']}`{tried}"


def without_evidence(said: str) -> str:
    """Return a sentence of truezero up to its evidence, which is the same in every table."""
    return re.sub(r"(api_error(?: \[[^]]*\])?): .*", r"\1", said)


def said_by_maseval(row: Row) -> str:
    status = f"`{row['status']}`" + (f", `{row['reason']}`" if row["reason"] else "")
    if row["eval"] is not None:
        return f"{status}, score {row['eval'][0]['score']}"
    return f"{status}, no score, `{without_evidence(row['error'])}`"


def said_by_harbor(row: Row) -> str:
    if row["type"] is None:
        return f"reward {row['rewards']['reward']}"
    return f"no reward, `{row['type']}: {without_evidence(row['message'])}`"


SPOKEN: Mapping[str, Callable[[Row], str]] = {
    "benchflow": said_by_benchflow,
    "harbor": said_by_harbor,
    "maseval": said_by_maseval,
}


def table(old: str, measured: Measured, spoken: Callable[[Row], str]) -> str:
    """The harness's table; what was not measured now is as in the old one."""
    cells = {
        name: cell
        for names, cell in re.findall(r"^\| (.+?) \| (.+?) \|", old, re.M)
        for name in names.split(", ")
    }
    rows = {
        str(case): [
            spoken(measured.stock[case]) if case in measured.stock else cells[case],
            spoken(measured.ours[case]),
        ]
        for case in Case
    }
    name = f"{measured.harness} {measured.version}"
    return table_by_rows(["provider", name, "with truezero"], rows)


@pytest.mark.parametrize("harness", list(SPOKEN))
def test_the_page_shows_what_was_measured(harness: str, request: pytest.FixtureRequest) -> None:
    measured = request.getfixturevalue(harness)
    put_on_page(harness, lambda old: table(old, measured, SPOKEN[harness]))
