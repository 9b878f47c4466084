"""What harnesses from PyPI write is audited, and what an audit writes is theirs still.

Part of `make integrations`. The files are written by the packages' own models and recorders, and
the copies with verdicts are read by them again.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest import approx

from classifier.verdicts import Policy
from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.harnesses import ENVIRONMENTS, SWALLOWING, python_of, spawned
from tests.journeys.service import ROOT
from tests.journeys.test_integrations import DOOMED, fails_the_doomed
from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.audit.judge import Audited
from truezero.audit.report import AuditReport, audit, lines
from truezero.integrations.swebench import with_failures

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real harnesses are run by `make integrations`"),
    pytest.mark.timeout(300),
]


def run(harness: str, text: str, home: Path, *words: str, ends: int = 0) -> list[Any]:
    """What a program prints, in lines of JSON, that runs where its harness is and we are not."""
    done = spawned(python_of(harness), "-c", text, *words, home=home, environment={})
    assert done.returncode == ends, done.stdout[-3000:] + done.stderr[-6000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def audited(path: Path) -> dict[str, Audited]:
    """Audit a path into a copy beside it, by task."""
    return {run.task: run for run in audit(path, write=True).runs}


def told(runs: dict[str, Audited]) -> dict[str, tuple[str, str | None, float | None]]:
    return {
        task: (run.verdict.health.value, run.verdict.fingerprint, run.score)
        for task, run in runs.items()
    }


# --- Inspect -------------------------------------------------------------------------------

INSPECT = (
    SWALLOWING
    + """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import includes

@solver
def raising():
    async def solve(state, generate):
        return await generate(state)
    return solve

words = ("well", "doomed")
samples = [Sample(id=word, input=word, target="nothing of the sort") for word in words]
for name, solve in (("swallowed", swallowing()), ("raised", raising())):
    for form in ("eval", "json"):
        [log] = eval(Task(name=name, dataset=samples, solver=solve, scorer=includes()),
                     model="openai/gpt-5", model_base_url=sys.argv[1], display="none",
                     log_dir=f"logs/{name}/{form}", log_format=form, fail_on_error=False,
                     score_on_error=True)
"""
)
INSPECT_READ = """
import json, math, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
from pathlib import Path
for path in sorted(Path(sys.argv[1]).rglob("*.*")):
    log = read_eval_log(str(path))
    listed = read_eval_log_sample_summaries(str(path))
    print(json.dumps({
        "invalidated": log.invalidated,
        "samples": {s.id: s.invalidation and s.invalidation.author for s in log.samples},
        "unscored": sorted(s.id for s in log.samples for score in s.scores.values()
                           if isinstance(score.value, float) and math.isnan(score.value)),
        "listed": sorted(s.id for s in listed for score in (s.scores or {}).values()
                         if isinstance(score.value, float) and math.isnan(score.value)),
    }))
"""


def filters_the_doomed(request: Request) -> Answer:
    """A provider whose filter rejects the prompt of whoever says so."""
    return answers.FILTERED if DOOMED in request.body else fails_the_doomed(request)


@pytest.mark.harness("inspect_ai")
@pytest.mark.parametrize(
    ("script", "cause"),
    [(fails_the_doomed, "auth:401"), (filters_the_doomed, "rejected_request:400")],
)
def test_inspects_logs_are_audited_and_its_reader_reads_the_copies(
    tmp_path: Path, script: Callable[[Request], Answer], cause: str
) -> None:
    with Provider(script) as provider:
        run("inspect_ai", INSPECT, tmp_path, f"{provider.url}/openai/v1")
    for name, form in itertools.product(("swallowed", "raised"), ("eval", "json")):
        folder = tmp_path / "logs" / name / form
        runs = audited(folder)
        seen = {"well": ("healthy", None, 0.0), "doomed": ("api_error", cause, None)}
        assert told(runs) == seen, (name, form)
        if script is filters_the_doomed:
            assert runs["doomed"].reward == 0.0, "Inspect itself scores it"
            tested = audit(folder, policy=Policy(content_filter="answer"))
            assert {each.task: each.score for each in tested.runs} == {"well": 0.0, "doomed": 0.0}
            continue
        assert runs["doomed"].verdict.total_requests >= 1
        [log] = run("inspect_ai", INSPECT_READ, tmp_path, f"{folder}.audited")
        assert log["invalidated"]
        assert log["samples"] == {"well": None, "doomed": "truezero"}
        unscored = ["doomed"] if runs["doomed"].reward == 0 else []
        assert log["unscored"] == log["listed"] == unscored


# Ten samples of two epochs, of which the first seven are doomed, and what is told of their log.
METRICS = (
    SWALLOWING
    + """
import json, math, sys
from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, get_model
from inspect_ai.scorer import (Score, accuracy, ci, grouped, includes, mean, metric, scorer, std,
                               stderr, var)

@metric
def share():
    return lambda scores: float(len(scores))

@scorer(metrics={"a": [mean(), std()], "b": [accuracy(), var()]})
def two():
    async def score(state, target):
        return Score(value={"a": state.epoch * 0.25, "b": "C" if state.sample_id == 9 else "I"})
    return score

@scorer(metrics=[grouped(mean(), "kind"), grouped(accuracy(), "kind", all="groups"), std(), var()])
def one():
    async def score(state, target):
        return Score(value=float(state.sample_id * state.epoch))
    return score

@scorer(metrics=[accuracy(), ci()])
def intervals():
    return includes()

@scorer(metrics=[accuracy(), share()])
def shares():
    return includes()

samples = [Sample(id=n, input="doomed" if n < 7 else "well", metadata={"kind": n % 2},
                  target="zero" if n != 7 else "nothing of the sort") for n in range(10)]
many = Epochs(2, ["mean", "max", "pass_at_2", "at_least_1"])
for place, form, scorers, epochs in (
    ("plain/eval", "eval", [includes()], 1),
    ("plain/json", "json", [includes()], 1),
    ("many/eval", "eval", [includes(), two(), one()], many),
    ("many/json", "json", [includes(), two(), one()], many),
    ("median", "json", [includes(), one()], Epochs(3, "median")),
    ("own/intervals", "eval", [includes(), intervals()], 1),
    ("own/shares", "eval", [includes(), shares()], 1),
):
    eval(Task(dataset=samples, solver=swallowing(), scorer=scorers, epochs=epochs),
         model="openai/gpt-5", model_base_url=sys.argv[1], display="none", max_retries=0,
         log_dir="logs/" + place, log_format=form)
"""
)
METRICS_READ = """
import json, math, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries, recompute_metrics
from pathlib import Path
def unscored(samples):
    return [sum(isinstance(score.value, float) and math.isnan(score.value)
                for s in samples for score in s.scores.values()), len(samples)]
def figures(log):
    return [[s.scorer, s.name, s.reducer, s.scored_samples, s.unscored_samples,
             {k: m.value for k, m in s.metrics.items()}] for s in log.results.scores]
def values(log):
    return [[r.scorer, r.reducer, s.sample_id, s.value] for r in log.reductions for s in r.samples]
for path in [path for folder in sys.argv[1:] for path in Path(folder).rglob("*.*")]:
    log, head = read_eval_log(str(path)), read_eval_log(str(path), header_only=True)
    seen = {"figures": figures(log), "head": figures(head), "reductions": values(log),
            "missing": [k for s in log.results.scores for k, m in s.metrics.items() if m.metadata],
            "headline": log.results.headline.metric, "path": str(path),
            "listed": unscored(read_eval_log_sample_summaries(str(path)))}
    try:
        recompute_metrics(log)
    except LookupError:
        print(json.dumps(seen))
    else:
        print(json.dumps({**seen, "theirs": figures(log), "reduced": values(log)}))
"""


AUDITED_BESIDE = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["truezero", "audit", "logs/own", "--write", "--out", "beside"]
runpy.run_module("truezero", run_name="__main__")
"""


class Doomed:
    """Logs in which seven of ten samples are false zeros, and what Inspect reads of each.

    ``beside`` are copies that were written where Inspect is installed; tests have none.
    """

    def __init__(self, home: Path) -> None:
        with Provider(fails_the_doomed) as provider:
            run("inspect_ai", METRICS, home, f"{provider.url}/openai/v1")
        found = sorted((home / "logs").rglob("*.*"))
        self.reports = {
            file: audit(file, write=True, out=home / "copies" / file.parent.relative_to(home))
            for file in found
        }
        run("inspect_ai", AUDITED_BESIDE, home, str(ROOT), ends=1)
        read = run("inspect_ai", METRICS_READ, home, "logs", "copies", "beside")
        self.read = {Path(log["path"]).parent.as_posix(): log for log in read}

    def report(self, name: str) -> AuditReport:
        [report] = [each for file, each in self.reports.items() if name in file.as_posix()]
        return report


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Doomed:
    return Doomed(tmp_path_factory.mktemp("doomed"))


@pytest.mark.harness("inspect_ai")
@pytest.mark.parametrize("form", ["eval", "json"])
def test_a_written_log_has_the_metrics_of_what_was_measured(doomed: Doomed, form: str) -> None:
    before, after = doomed.read[f"logs/plain/{form}"], doomed.read[f"copies/logs/plain/{form}"]
    report = doomed.report(f"plain/{form}")
    assert before["figures"][0][3:] == [10, 0, approx({"accuracy": 0.2, "stderr": 0.1333333})]
    assert (len(report.false_zeros), report.uncorrected) == (7, ())
    assert after["figures"][0][3:] == [3, 7, approx({"accuracy": 2 / 3, "stderr": 1 / 3})]
    assert after["figures"][0][5]["accuracy"] == approx(report.parts[0].scores.score_effective)
    assert (after["head"], after["headline"]) == (after["figures"], "accuracy")
    assert (before["listed"], after["listed"]) == ([0, 10], [7, 10])


@pytest.mark.harness("inspect_ai")
@pytest.mark.parametrize("name", ["plain/eval", "many/eval", "many/json", "median"])
def test_metrics_are_recomputed_as_inspects_own_function_does(doomed: Doomed, name: str) -> None:
    log = doomed.read[f"copies/logs/{name}"]
    assert log["missing"] == []
    for ours, theirs in zip(log["figures"], log["theirs"], strict=True):
        # a group of which nothing is scored is NaN here, and missing there
        known = {key: value for key, value in ours[5].items() if key in theirs[5]}
        assert [*ours[:5], known] == [*theirs[:5], approx(theirs[5], nan_ok=True)], ours[:3]
        assert all(math.isnan(ours[5][key]) for key in ours[5].keys() - known.keys())
    for mine, others in zip(log["reductions"], log["reduced"], strict=True):
        assert mine == [*others[:3], approx(others[3], nan_ok=True)]


@pytest.mark.harness("inspect_ai")
def test_what_only_inspect_computes_is_recomputed_where_it_is_installed(doomed: Doomed) -> None:
    report = doomed.report("own/intervals")
    [line] = report.uncorrected
    assert "not recomputed and now NaN: lower of intervals, upper of intervals" in line
    assert line in lines(report)
    alone, beside = doomed.read["copies/logs/own/intervals"], doomed.read["beside/intervals"]
    for log, missing in ((alone, ["lower", "upper"]), (beside, [])):
        assert [score[5]["accuracy"] for score in log["figures"]] == approx([2 / 3, 2 / 3])
        assert log["missing"] == missing
        assert all(math.isnan(log["figures"][1][5][name]) for name in missing)
    assert beside["figures"] == beside["theirs"]


@pytest.mark.harness("inspect_ai")
def test_a_tasks_own_metric_is_unknown_rather_than_stale(doomed: Doomed) -> None:
    for log in (doomed.read["copies/logs/own/shares"], doomed.read["beside/shares"]):
        assert log["missing"] == ["share"]
        assert [score[5]["accuracy"] for score in log["figures"]] == approx([2 / 3, 2 / 3])
        assert math.isnan(log["figures"][1][5]["share"])
        assert "theirs" not in log, "Inspect does not know it either"


# --- MASEval -------------------------------------------------------------------------------

MASEVAL = """
import sys
from maseval import AgentAdapter, Benchmark, Environment, Evaluator, Task
from maseval.core.callbacks.result_logger import FileResultLogger
from maseval.core.model import ChatResponse, ModelAdapter

class AuthenticationError(Exception):
    pass

class Model(ModelAdapter):
    model_id = "gpt-5"
    def __init__(self, word):
        super().__init__()
        self.word = word
    def _chat_impl(self, messages, generation_params=None, tools=None, tool_choice=None, **more):
        if "doomed" in self.word:
            raise AuthenticationError("Error code: 401 - {'error': {'message': 'Invalid API key'}}")
        return ChatResponse(content="" if self.word == "empty" else "an answer", role="assistant")

class Agent(AgentAdapter):
    def __init__(self, model):
        super().__init__(model, "agent")
    def _run_agent(self, query):
        try:
            return self.agent.chat([{"role": "user", "content": query}]).content
        except AuthenticationError:
            if query == "doomed-raised":
                raise
            return ""
    def get_messages(self):
        return []

class Nowhere(Environment):
    def setup_state(self, task_data):
        return {}
    def create_tools(self):
        return {}

class Zero(Evaluator):
    def __init__(self):
        pass
    def filter_traces(self, traces):
        return traces
    def __call__(self, traces, final_answer=None):
        return {"score": 0.0}

class Bench(Benchmark):
    def setup_environment(self, agent_data, task, seed_generator=None):
        return Nowhere({})
    def setup_agents(self, agent_data, environment, task, user, seed_generator=None):
        model = Model(task.query)
        self.register("models", "main", model)
        agent = Agent(model)
        return [agent], {"agent": agent}
    def setup_evaluators(self, environment, task, agents, user, seed_generator=None):
        return [Zero()]
    def run_agents(self, agents, task, environment, query=""):
        return agents[0].run(task.query)
    def evaluate(self, evaluators, agents, final_answer, traces):
        return [each(traces, final_answer) for each in evaluators]
    def get_model_adapter(self, model_id, **kwargs):
        return Model("")

words = ("well", "doomed", "doomed-raised", "empty")
Bench(callbacks=[FileResultLogger(output_dir="results")]).run(
    [Task(query=word, id=word) for word in words], agent_data={})
"""
MASEVAL_READ = """
import json, sys
from pathlib import Path
from maseval import TaskExecutionStatus
for path in Path(sys.argv[1]).glob("*.jsonl"):
    for line in path.read_text().splitlines():
        report = json.loads(line)
        print(json.dumps({"task": report["task_id"], "eval": report["eval"],
                          "status": TaskExecutionStatus(report["status"]).name}))
"""


@pytest.mark.harness("maseval")
def test_masevals_reports_are_audited_and_its_statuses_hold(tmp_path: Path) -> None:
    run("maseval", MASEVAL, tmp_path)
    runs = audited(tmp_path / "results")
    assert told(runs) == {
        "well": ("healthy", None, 0.0),
        "doomed": ("api_error", "auth:401", None),
        "doomed-raised": ("api_error", "auth:401", None),
        "empty": ("undecided", None, 0.0),
    }
    reports = run("maseval", MASEVAL_READ, tmp_path, "results.audited")
    kept = {report["task"]: (report["status"], report["eval"]) for report in reports}
    assert kept["well"] == kept["empty"] == ("SUCCESS", [{"score": 0.0}])
    assert kept["doomed"] == ("ENVIRONMENT_ERROR", None)
    assert kept["doomed-raised"] == ("UNKNOWN_EXECUTION_ERROR", None)


# --- benchflow -----------------------------------------------------------------------------

BENCHFLOW = """
from datetime import datetime
from pathlib import Path
from benchflow.diagnostics import ProviderApiErrorDiagnostic, RolloutDiagnostics
from benchflow.rollout._results import _build_rollout_result
from benchflow.trajectories.types import LLMExchange, LLMRequest, LLMResponse, Trajectory

def write(task, statuses=None, **facts):
    folder = Path("jobs", "job", task + "__1")
    folder.mkdir(parents=True)
    used = {"total_tokens": None, "usage_source": "unavailable"}
    base = dict(task_name=task, rollout_name=task + "__1", agent="a", agent_name="A",
                model="openai/gpt-5", n_tool_calls=0, prompts=["q"], error=None,
                verifier_error=None, trajectory=[],
                partial_trajectory=False, rewards={"reward": 0.0}, timing={},
                started_at=datetime.now())
    _build_rollout_result(folder, **{**base, **used, **facts})
    if statuses is None:
        return
    calls = []
    for status in statuses:
        said = {"role": "assistant", "content": "" if status == 204 else "an answer"}
        used = {"prompt_tokens": 9, "completion_tokens": 1}
        body = {"choices": [{"message": said}], "usage": used}
        if status >= 400:
            body = {"error": {"message": "no credit left", "code": "insufficient_quota"}}
        answer = LLMResponse(status_code=200 if status == 204 else status, body=body)
        calls.append(LLMExchange(request=LLMRequest(body={"model": "gpt-5"}), response=answer))
    (folder / "trajectory" / "llm_trajectory.jsonl").write_text(
        Trajectory(session_id="s", exchanges=calls).to_jsonl())

counted = {"total_tokens": 30, "usage_source": "provider_response", "n_tool_calls": 2}
write("well", [200, 200], **counted)
write("midway", [200, 429, 429], **counted)
write("empty", [204, 204], **counted)
write("silent")
found = RolloutDiagnostics()
found.set(ProviderApiErrorDiagnostic(
    subcategory="auth", dominant_status=401, status_counts={"401": 3}, total_requests=3,
    failed_requests=3, fingerprint="auth:401"))
write("known", rewards=None, diagnostics=found,
      error="provider api error [auth/permanent] HTTP 401 on 3/3 requests")
"""
BENCHFLOW_READ = """
import json, sys
from pathlib import Path
from benchflow._utils.result_paths import iter_task_result_paths
from benchflow._utils.scoring import extract_reward
from benchflow.diagnostics import DIAGNOSTIC_BY_FIELD
for path in iter_task_result_paths(Path(sys.argv[1])):
    result = json.loads(path.read_text())
    issues = [kind.format_issue_from_dict(result["task_name"], result[field])
              for field, kind in DIAGNOSTIC_BY_FIELD.items() if result.get(field)]
    reward = extract_reward(result)
    print(json.dumps({"task": result["task_name"], "reward": reward, "issues": issues}))
"""


@pytest.mark.harness("benchflow")
def test_benchflows_results_are_audited_and_its_diagnostics_read_the_copy(tmp_path: Path) -> None:
    run("benchflow", BENCHFLOW, tmp_path)
    assert told(audited(tmp_path / "jobs")) == {
        "well": ("healthy", None, 0.0),
        "midway": ("api_error", "quota:429", None),
        "empty": ("undecided", None, 0.0),
        "silent": ("undecided", None, 0.0),
        "known": ("api_error", "auth:401", None),
    }
    results = run("benchflow", BENCHFLOW_READ, tmp_path, "jobs.audited")
    found = {each["task"]: (each["reward"], " ".join(each["issues"])) for each in results}
    assert found["well"] == found["silent"] == found["empty"] == (0.0, "")
    assert found["midway"][0] is found["known"][0] is None
    assert "provider api error [quota/permanent] HTTP 429 on 2/3 requests" in found["midway"][1]
    assert "[auth/permanent] HTTP 401 on 3/3 requests" in found["known"][1]


# --- Harbor --------------------------------------------------------------------------------

HARBOR = """
from datetime import datetime, timezone
from pathlib import Path
from harbor.models.agent.context import AgentContext
from harbor.models.task.id import LocalTaskId
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, ExceptionInfo, ModelInfo, TrialResult
from harbor.models.verifier.result import VerifierResult

def write(name, context=None, raised=None):
    path, now = Path("tasks", name), datetime.now(timezone.utc)
    exception = raised and ExceptionInfo(exception_type=raised[0], exception_message=raised[1],
                                         exception_traceback="", occurred_at=now)
    trial = TrialResult(
        task_name=name, trial_name=name + "__1", trial_uri="file:///x",
        task_id=LocalTaskId(path=path), task_checksum="0",
        config=TrialConfig(task=TaskConfig(path=path)), agent_result=context,
        agent_info=AgentInfo(name="a", version="1",
                             model_info=ModelInfo(name="gpt-5", provider="openai")),
        verifier_result=VerifierResult(rewards={"reward": 0.0}), exception_info=exception,
        started_at=now, finished_at=now)
    folder = Path("job", trial.trial_name)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(trial.model_dump_json(indent=4))

worked = AgentContext(n_input_tokens=9, n_output_tokens=3)
write("well", worked)
write("dead", AgentContext(n_input_tokens=0, n_output_tokens=0),
      ("AuthenticationError", "litellm.AuthenticationError: Incorrect API key provided"))
write("midway", worked, ("ApiUsageLimitError", "the account has no credit left"))
write("tool", worked, ("RuntimeError", "docker compose failed: image not found"))
write("silent", AgentContext())
"""
HARBOR_READ = """
import json, sys
from pathlib import Path
from harbor.models.trial.result import TrialResult
for path in Path(sys.argv[1]).rglob("result.json"):
    trial = TrialResult.model_validate_json(path.read_text())
    raised = trial.exception_info and trial.exception_info.exception_type
    scored = trial.verifier_result and trial.verifier_result.rewards
    print(json.dumps({"task": trial.task_name, "raised": raised, "rewards": scored}))
"""


@pytest.mark.harness("harbor")
def test_harbors_trials_are_audited_and_its_model_validates_the_copy(tmp_path: Path) -> None:
    run("harbor", HARBOR, tmp_path)
    assert told(audited(tmp_path / "job")) == {
        "well": ("healthy", None, 0.0),
        "dead": ("api_error", "auth:401", None),
        "midway": ("api_error", "quota:402", None),
        "tool": ("healthy", None, 0.0),
        "silent": ("undecided", None, 0.0),
    }
    trials = run("harbor", HARBOR_READ, tmp_path, "job.audited")
    found = {each["task"]: (each["raised"], each["rewards"]) for each in trials}
    zero = {"reward": 0.0}
    assert found == {
        "well": (None, zero),
        "dead": ("AgentAuthenticationError", None),
        "midway": ("ApiUsageLimitError", None),
        "tool": ("RuntimeError", zero),
        "silent": (None, zero),
    }


# --- LiteLLM -------------------------------------------------------------------------------

# As its proxy writes a row, in the release that benchflow pins.
LITELLM = """
import json
from collections import defaultdict
from datetime import datetime, timedelta, timezone
import litellm
from litellm.proxy.spend_tracking.spend_tracking_utils import get_logging_payload

def row(session, number, error=None):
    status = "failure" if error else "success"
    told = {"status": status, **({"error_information": error} if error else {})}
    logged = defaultdict(lambda: None, metadata={}, hidden_params={}, trace_id=session, **told)
    call = {"model": "gpt-5", "call_type": "acompletion", "litellm_call_id": f"{session}-{number}",
            "custom_llm_provider": "openai", "standard_logging_object": logged,
            "litellm_params": {"metadata": told, "litellm_trace_id": session}}
    used = litellm.Usage(prompt_tokens=9, completion_tokens=3, total_tokens=12)
    answer = {} if error else litellm.ModelResponse(model="gpt-5", usage=used)
    at = datetime.now(timezone.utc) + timedelta(seconds=number)
    return get_logging_payload(kwargs=call, response_obj=answer, start_time=at, end_time=at)

spent = {"error_code": "429", "error_class": "RateLimitError", "llm_provider": "openai",
         "error_message": "You exceeded your current quota: check your plan and billing details"}
rows = [row("well", 0), row("midway", 0), row("midway", 1, spent)]
with open("spend.json", "w") as file:
    json.dump(rows, file, default=str)
"""


@pytest.mark.harness("benchflow")
def test_the_rows_of_litellms_spend_log_are_audited(tmp_path: Path) -> None:
    run("benchflow", LITELLM, tmp_path)
    runs = audited(tmp_path / "spend.json")
    assert told(runs) == {
        "well": ("healthy", None, None),
        "midway": ("api_error", "quota:429", None),
    }
    rows = json.loads((tmp_path / "spend.audited" / "spend.json").read_text())
    tags = {row["session_id"]: json.loads(row["request_tags"]) for row in rows}
    assert tags == {"well": [], "midway": ["truezero:quota:429"]}


# --- SWE-bench -----------------------------------------------------------------------------

# Three runs of its own tests as it logs them: one resolved, one whose log is ambiguous, one plain.
SWEBENCH = """
import json
from pathlib import Path
from swebench.harness.constants import LOG_REPORT, LOG_TEST_OUTPUT, RUN_EVALUATION_LOG_DIR
from swebench.harness.reporting import make_run_report

names = ("resolved", "ambiguous", "plain", "dead", "empty", "missing")
patches = {name: "" if name in ("dead", "empty") else "diff" for name in names[:-1]}
predictions = {
    name: {"instance_id": name, "model_name_or_path": "gpt-5", "model_patch": patch}
    for name, patch in patches.items()
}
for name in names[:3]:
    folder = RUN_EVALUATION_LOG_DIR / "run1" / "gpt-5" / name
    folder.mkdir(parents=True)
    report = {name: {"resolved": name == "resolved"}}
    (folder / LOG_REPORT).write_text(json.dumps(report))
    said = "ModuleNotFoundError: no module" if name == "ambiguous" else "1 failed"
    (folder / LOG_TEST_OUTPUT).write_text(said)
Path("preds.json").write_text(json.dumps(predictions))
make_run_report(predictions, [{"instance_id": name} for name in names], "run1")
"""


@pytest.mark.harness("swebench")
def test_swebenchs_own_report_takes_verdicts_into_its_own_fields(tmp_path: Path) -> None:
    run("swebench", SWEBENCH, tmp_path)
    path = tmp_path / "gpt-5.run1.json"
    report = json.loads(path.read_text())
    assert report["ambiguous_failure_ids"] == ["ambiguous"]
    why = "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls"
    failed = {"health": "failed", "error_category": "api_error", "error": why}
    dead = models.Verdict.model_validate({**VERDICT, **failed})
    healthy = {"health": "healthy", "error_category": None, "error": None, "scoreable": "yes"}
    reached = models.Verdict.model_validate({**VERDICT, **healthy})
    verdicts = {"dead": dead, "ambiguous": dead, "plain": reached, "resolved": reached}
    found = with_failures(report, verdicts)
    assert found.keys() == report.keys(), "no field of our own"
    changed = {name: found[name] for name in found if found[name] != report[name]}
    assert changed == {
        "infra_failure_instances": 2,
        "ambiguous_failure_instances": 0,
        "infra_failure_ids": ["ambiguous", "dead"],
        "ambiguous_failure_ids": [],
        "failure_reasons": {"ambiguous": why, "dead": why},
    }
    assert with_failures(found, verdicts) == found
    runs = audited(path)
    assert {task: run.reward for task, run in runs.items()} == {
        "resolved": 1.0, "ambiguous": 0.0, "plain": 0.0, "dead": 0.0, "empty": 0.0, "missing": 0.0,
    }  # fmt: skip
