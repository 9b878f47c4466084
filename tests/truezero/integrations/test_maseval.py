"""What becomes of MASEval's reports, on a benchmark in miniature and a real service.

MASEval itself is driven by `make integrations`.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import pytest

import truezero
from tests.fakes.provider import Provider
from truezero import Client, ServiceError
from truezero.integrations.maseval import (
    Truezero,
    outcome,
    rewards_of,
    termination_reason,
    unmeasured,
)


class Status(Enum):
    ENVIRONMENT_ERROR = "environment_error"


class Person:
    """A user simulator that asks a model."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    def get_initial_query(self) -> str:
        self._suite.ask("sk-good")
        return "go"

    def respond(self, message: str) -> str:
        self._suite.ask("sk-good")
        return message


class Suite:
    """A benchmark: one repetition sets up a user, asks with its task's key, and asks a judge."""

    def __init__(self, url: str, callback: Truezero, **of: Any) -> None:
        self.callback, self.of = callback, of
        self.callbacks: list[Any] = [callback]
        self.n_task_repeats = of.get("repeats", 1)
        hooks = [] if of.get("unnamed") else [truezero.httpx_hook]
        self.shared = httpx.Client(base_url=url, event_hooks={"request": hooks}, timeout=60)

    def ask(self, key: str) -> None:
        asked = {"model": "gpt-5", "messages": []}
        headers = {"authorization": f"Bearer {key}"}
        self.shared.post("/openai/v1/chat/completions", json=asked, headers=headers)

    def setup_user(self) -> Person | None:
        return Person(self) if self.of.get("user") else None

    def evaluate(self) -> Any:
        if self.of.get("judged"):
            self.ask("sk-good")
        return [{"score": 0.0}]

    def _execute_task_repetition(self, task: Any, agent_data: Any, repeat_idx: int) -> Any:
        if self.of.get("raises"):
            raise KeyError("a prompt")
        user = self.setup_user()
        if user is not None:
            user.get_initial_query()
        for _ in range(agent_data["calls"]):
            self.ask(agent_data["key"])
        if user is not None:
            user.respond("done")
        status = self.of.get("status", "success")
        scored = self.evaluate() if status == "success" else None
        error = None if status == "success" else {"error_type": "Why", "error_message": "a prompt"}
        return self._build_report(task, repeat_idx, status, error=error, eval_results=scored)

    def _build_report(
        self, task: Any, repeat_idx: int, status: Any, *, error: Any, eval_results: Any = None
    ) -> Any:
        status = status.value if isinstance(status, Enum) else status
        report = {"task_id": task.id, "repeat_idx": repeat_idx, "status": status, "error": error}
        return {**report, "eval": eval_results, "traces": {}}

    def run(self, *tasks: tuple[str, str, int], workers: int = 1) -> list[Any]:
        """Run as MASEval does: it swallows what callbacks raise."""
        self.callback.on_run_start(self)
        reports = self._run_parallel(tasks, workers)
        for report in reports:
            self.callback.on_task_repeat_end(self, report)
        self.callback.on_run_end(self, reports)
        return reports

    def _run_sequential(self) -> None: ...

    def _run_parallel(self, tasks: Any, workers: int) -> list[Any]:
        with ThreadPoolExecutor(workers) as pool:
            repeats = range(self.n_task_repeats)
            asked = [(task, repeat) for task in tasks for repeat in repeats]
            return list(pool.map(lambda one: self._one(*one), asked))

    def _one(self, task: tuple[str, str, int], repeat: int) -> Any:
        name, key, calls = task
        of = {"key": key, "calls": calls}
        return self._execute_task_repetition(SimpleNamespace(id=name), of, repeat)


@pytest.fixture(autouse=True)
def maseval(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("maseval.core.benchmark")
    vars(made)["TaskExecutionStatus"] = Status
    monkeypatch.setitem(sys.modules, made.__name__, made)


def facts(report: Any) -> tuple[Any, ...]:
    """Three independent facts."""
    return report["status"], report["termination_reason"], report["eval"]


@pytest.mark.slow
def test_rollouts_on_one_shared_client_are_told_apart_over_threads(url: str) -> None:
    tasks = [(f"t{n}", "sk-dead" if n % 3 == 0 else "sk-good", 1 + n % 2) for n in range(6)]
    reports = Suite(url, Truezero(url, batch="shared")).run(*tasks, workers=3)
    for (name, key, calls), report in zip(tasks, reports, strict=True):
        traced = report["traces"]["truezero"]
        assert (report["task_id"], traced["total_requests"]) == (name, calls)
        if key == "sk-good":
            assert facts(report) == ("success", "unknown", [{"score": 0.0}]), "a genuine zero"
            assert traced["health"] == "healthy"
        else:
            assert facts(report) == ("environment_error", None, None)
            assert report["error"]["error_type"] == "NotMeasured"
            assert report["error"]["error_message"].startswith("api_error [auth, permanent]")
            assert (traced["status"], traced["rewards"]) == ("success", {"score": 0.0})
    assert truezero.current.get() is None


def test_a_task_that_is_run_again_is_its_next_attempt(url: str) -> None:
    suite = Suite(url, Truezero(url, batch="again"))
    suite.run(("t", "sk-dead", 1))
    [report] = suite.run(("t", "sk-good", 1))
    assert report["status"] == "success"
    with Client(url) as client:
        items = client.rollouts(batch="again", task="t")
    assert [(item.attempt, item.health) for item in items] == [(0, "api_error"), (1, "healthy")]


def test_repetitions_are_repeats_and_each_has_its_attempts(url: str) -> None:
    suite = Suite(url, Truezero(url, batch="repeated"), repeats=2)
    for _ in range(2):
        suite.run(("t", "sk-good", 1))
    with Client(url) as client:
        items = client.rollouts(batch="repeated", task="t")
        told: list[str] = []
        for event in client.events("repeated", after=0):
            told.append(event.kind)
            if told.count("verdict_given") == 4:
                break
    assert sorted((item.repeat, item.attempt) for item in items) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert told.count("group_settled") == 1, "the first run's two repeats are the whole group"


def test_a_judge_and_a_user_that_are_answered_do_not_hide_a_dead_model(url: str) -> None:
    suite = Suite(url, Truezero(url, batch="roles"), user=True, judged=True)
    [report] = suite.run(("t", "sk-dead", 2))
    assert facts(report) == ("environment_error", None, None)
    with Client(url) as client:
        calls = client.exchanges(report["traces"]["truezero"]["rollout"])
    assert [call.role for call in calls] == ["user", "agent", "agent", "user", "judge"]


def test_no_task_is_run_without_a_service(url: str) -> None:
    suite = Suite(url, Truezero("http://127.0.0.1:9", batch="gone"))
    with pytest.raises(ServiceError, match="no task was run: cannot reach a truezero service"):
        suite.run(("t", "sk-good", 1))
    assert not {"_run_parallel", "_run_sequential"} & vars(suite).keys()


def test_no_score_is_kept_where_the_service_leaves(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leaving = Truezero(url, batch="leaving")

    def leave() -> Any:
        leaving._client = Client("http://127.0.0.1:9")
        return [{"score": 1.0}]

    suite = Suite(url, leaving)
    monkeypatch.setattr(suite, "evaluate", leave)
    [report] = suite.run(("t", "sk-good", 1))
    assert vars(suite)["evaluate"] is leave, "what was the benchmark's own is given back"
    assert facts(report) == ("environment_error", None, None)
    assert "not measured: the outcome of rollout" in report["traces"]["truezero"]["error"]
    [said] = caplog.messages
    assert said.startswith("1 of 1 repetition not measured: truezero service away (1); more with")
    assert "`truezero check leaving`; 1 outcome is not delivered and kept in" in said


def test_scores_stay_where_no_call_names_a_rollout_and_that_is_said_once(
    url: str, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    """The base URL is the provider's: the harness goes on as without truezero."""
    suite = Suite(url, Truezero(url, batch="elsewhere"))
    suite.shared.base_url = httpx.URL(provider.url)
    reports = suite.run(*[(f"t{n}", "sk-dead", 1) for n in range(3)])
    assert {report["status"] for report in reports} == {"success"}
    assert [report["eval"] for report in reports] == [[{"score": 0.0}]] * 3
    assert {report["traces"]["truezero"]["rule"] for report in reports} == {"zero_signal"}
    [said] = caplog.messages
    assert said.startswith("task t0: no call came through truezero, MASEval's own score is kept")


def test_a_rollout_whose_address_was_taken_and_that_made_no_call_keeps_no_score(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = Suite(url, Truezero(url, batch="taken"))

    def look(key: str) -> None:
        rollout = truezero.current.get()
        assert rollout is not None
        assert rollout.base_urls["openai"]

    monkeypatch.setattr(suite, "ask", look)
    [report] = suite.run(("t", "sk-good", 1))
    assert facts(report) == ("environment_error", None, None)
    assert report["traces"]["truezero"]["rule"] == "zero_signal"


def test_a_shared_client_that_names_no_rollout_is_told_so(url: str) -> None:
    suite = Suite(url, Truezero(url, batch="unnamed"), unnamed=True)
    [report] = suite.run(("t", "sk-good", 1))
    assert facts(report) == ("environment_error", None, None)
    assert report["traces"]["truezero"]["health"] == "undecided"
    assert report["error"]["error_message"] == "undecided: calls_unattributed"


def test_the_card_is_beside_the_file_of_results(url: str, tmp_path: Path) -> None:
    results = tmp_path / "benchmark_1.jsonl"
    suite = Suite(url, Truezero(url, batch="carded"))
    suite.callbacks = [suite.callback, SimpleNamespace(_output_path=results), SimpleNamespace()]
    suite.run(("t", "sk-good", 1), ("u", "sk-dead", 1))
    card = json.loads((tmp_path / "benchmark_1.card.json").read_bytes())
    assert card["stated"]["batch"] == "carded"
    assert card["stated"]["harness"].startswith("maseval")
    assert card["measured"]["score"]["score"] == 0.0
    assert [file.name for file in tmp_path.iterdir()] == ["benchmark_1.card.json"]


def test_a_card_that_cannot_be_written_is_a_warning(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    suite = Suite(url, Truezero(url, batch="uncarded"))
    suite.callbacks = [SimpleNamespace(_output_path=tmp_path / "gone" / "results.jsonl")]
    [report] = suite.run(("t", "sk-good", 1))
    assert report["status"] == "success"
    [said] = caplog.messages
    assert said.startswith("no measurement card was written: ")


@pytest.mark.slow
def test_an_open_breaker_stops_the_rest(url: str) -> None:
    suite = Suite(url, Truezero(url, batch="tripping"))
    suite.run(*[(f"t{n}", "sk-dead", 1) for n in range(5)])
    [report] = suite.run(("late", "sk-good", 1))
    assert facts(report) == ("environment_error", None, None)
    assert report["error"]["error_message"].startswith("skipped: breaker open")


def test_an_error_of_the_runs_own_stays_and_a_dead_models_is_not_the_agents(url: str) -> None:
    for status, kept in (("agent_error", "environment_error"), ("task_timeout", "task_timeout")):
        suite = Suite(url, Truezero(url, batch=f"own-{status}"), status=status)
        [report] = suite.run(("t", "sk-dead", 1))
        assert (report["status"], report["error"]["error_message"]) == (kept, "a prompt")
        assert report["traces"]["truezero"]["error"].startswith("api_error [auth")
        with Client(url) as client:
            [item] = client.rollouts(batch=f"own-{status}")
            assert client.result(item.id).status == status
            assert client.result(item.id).error == "Why", "never the message"


def test_what_aborts_a_run_is_reported_and_raised_and_the_next_run_is_whole(url: str) -> None:
    callback = Truezero(url, batch="aborted")
    suite = Suite(url, callback, raises=True)
    with pytest.raises(KeyError):
        suite.run(("t", "sk-good", 1))
    with Client(url) as client:
        [item] = client.rollouts(batch="aborted")
        assert client.result(item.id).status == "unknown_execution_error"
    suite.of = {}
    [report] = suite.run(("t", "sk-good", 1))
    assert report["traces"]["truezero"]["total_requests"] == 1
    assert not {"_execute_task_repetition", "evaluate", "setup_user"} & vars(suite).keys()


def test_a_report_that_went_past_us_keeps_no_score(url: str) -> None:
    report: Any = {"status": "success", "eval": [{"score": 0.0}], "error": None, "traces": {}}
    Truezero(url).on_task_repeat_end(None, report)
    assert facts(report) == ("environment_error", None, None)
    assert "did not see" in report["traces"]["truezero"]["error"]


# --- pure ----------------------------------------------------------------------------------


class Stock:
    def execution_loop(self) -> None: ...


Stock.execution_loop.__module__ = "maseval.core.benchmark"


@pytest.mark.parametrize(
    ("benchmark", "report", "reason"),
    [
        (Stock(), {"traces": {"user": None}}, "agent_stop"),
        (Stock(), {"traces": {}}, "agent_stop"),
        (SimpleNamespace(), {"traces": {}}, "unknown"),
        (Stock(), {"traces": {"user": {"termination_reason": "user_terminated"}}}, "user_stop"),
        (
            Stock(),
            {"traces": {"user": {"termination_reason": "max_turns_and_user_terminated"}}},
            "user_stop",
        ),
        (Stock(), {"traces": {"user": {"termination_reason": "max_turns"}}}, "max_steps"),
        (Stock(), {"traces": {"user": {"termination_reason": "not_terminated"}}}, "max_steps"),
        (Stock(), {"traces": {"user": {"name": "of the benchmark's own"}}}, "unknown"),
        (Stock(), {"traces": {}, "termination_reason": "max_steps"}, "max_steps"),
        (Stock(), {"status": "agent_error", "traces": {}}, None),
    ],
)
def test_why_a_repetition_stopped(benchmark: Any, report: Any, reason: str | None) -> None:
    assert termination_reason(benchmark, {"status": "success", **report}) == reason


def test_scores_are_named_numbers() -> None:
    assert rewards_of([{"score": 0.5, "ok": True, "why": "text"}, {"score": 1}]) == {
        "score": 0.5,
        "ok": 1.0,
        "1/score": 1.0,
    }
    assert rewards_of({"score": 0.0, "nan": float("nan")}) == {"score": 0.0}
    for nothing in (None, [], [None], "text"):
        assert rewards_of(nothing) is None


def test_what_was_not_set_up_executed_no_prompt() -> None:
    report = {"status": "setup_failed", "eval": None, "error": {"error_type": "OSError"}}
    assert outcome(report, None) == {
        "status": "setup_failed", "prompts_executed": 0, "rewards": None, "error": "OSError",
    }  # fmt: skip
    odd = outcome({**report, "status": "task_execution_failed"}, None)
    assert (odd["status"], odd["prompts_executed"]) == ("unknown_execution_error", 1)


def test_what_is_known_stays_beside_why_it_is_no_measurement() -> None:
    report: Any = {"status": "success", "eval": [1], "error": None, "traces": {"agents": {}}}
    unmeasured(report, "why", cause="one", health="undecided", status="success")
    assert report["traces"] == {
        "agents": {},
        "truezero": {
            "health": "undecided", "status": "success", "error": "why", "unmeasured": "one",
        },
    }  # fmt: skip
