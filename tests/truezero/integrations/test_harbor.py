"""What becomes of Harbor's trials, on a job in miniature and a real service.

Harbor itself is driven by `make integrations`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.truezero import driving
from truezero import Client, ServiceError
from truezero.integrations import harbor as plugin
from truezero.integrations.attempts import finite
from truezero.integrations.cards import CARD_FILE
from truezero.integrations.harbor import TruezeroPlugin, failure
from truezero.sdk.errors import NotMeasured

GONE = "http://127.0.0.1:9"
KEYS = {"good": "sk-good", "dead": "sk-dead"}


class Event(Enum):
    START = "start"
    ENVIRONMENT_START = "environment-start"
    VERIFICATION_START = "verification-start"
    END = "end"


class Info(SimpleNamespace):
    @classmethod
    def from_exception(cls, error: BaseException) -> Info:
        return cls(exception_type=type(error).__name__, exception_message=str(error))


class Result(SimpleNamespace):
    @property
    def reward_valid(self) -> bool:
        return self.verifier_result is not None

    def model_dump_json(self, *, indent: int) -> str:
        info = self.exception_info
        return json.dumps({"type": info and info.exception_type}, indent=indent)


class Config(SimpleNamespace):
    """A trial's; equal but for its name, as Harbor compares them."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and other.agent == self.agent


class Trial:
    """One attempt; ``does`` is the agent: keys it calls with, or an exception."""

    def __init__(self, config: Any, folder: Path, does: Any) -> None:
        self.config, self._does = config, does
        self.agent = SimpleNamespace(_extra_env={"OPENAI_BASE_URL": "https://own.example"})
        (folder / config.trial_name).mkdir(exist_ok=True)
        self.paths = SimpleNamespace(result_path=folder / config.trial_name / "result.json")
        self.verified = False
        self.result = Result(
            trial_name=config.trial_name,
            exception_info=None,
            verifier_result=None,
            agent_execution=None,
        )

    async def run(self, emit: Callable[[Event], Awaitable[None]]) -> None:
        """As harbor/trial/trial.py does: what a hook raises here is the trial's exception."""
        await emit(Event.START)
        try:
            await emit(Event.ENVIRONMENT_START)
            self.result.agent_execution = object()
            for step in self._does:
                if isinstance(step, Exception):
                    self._record(step)
                    continue
                if step == "unverified":
                    raise type("VerifierTimeoutError", (TimeoutError,), {})
                base = self.agent._extra_env["OPENAI_BASE_URL"]
                await asyncio.to_thread(driving.call, base, KEYS[step])
            await emit(Event.VERIFICATION_START)
            self.verified = True
            self.result.verifier_result = SimpleNamespace(rewards={"reward": 0.0})
        except Exception as error:
            self._record(error)
        self.paths.result_path.write_text(self.result.model_dump_json(indent=4))
        await emit(Event.END)

    def _record(self, error: Exception) -> None:
        self.result.exception_info = self.result.exception_info or Info.from_exception(error)


class Retry(SimpleNamespace):
    def model_copy(self, *, update: dict[str, Any]) -> Retry:
        return Retry(**{**vars(self), **update})


class Job:
    """A job of trials of one task, one after the other."""

    def __init__(self, folder: Path, *does: Any, name: str = "job", agent: str = "codex") -> None:
        self.job_dir, self.does = folder, does
        self.hooks: dict[Event, list[Any]] = {event: [] for event in Event}
        retry = Retry(exclude_exceptions={"AgentTimeoutError"})
        self.config = SimpleNamespace(job_name=name, retry=retry, n_attempts=len(does))
        self._trial_queue = SimpleNamespace(_setup_hooks=lambda trial: None, _retry_config=retry)
        self.trial_configs = [self._config(number, agent) for number in range(len(does))]

    @staticmethod
    def _config(number: int, agent: str) -> Any:
        of = SimpleNamespace(name=agent, import_path=None, model_name="openai/gpt-5")
        return Config(trial_name=f"t1__{number}", agent=of, is_regrade=False)

    def add_hook(self, event: Event, hook: Any) -> None:
        self.hooks[event].append(hook)

    async def attempt(self, config: Any, does: Any) -> Trial:
        trial = Trial(config, self.job_dir, does)
        self._trial_queue._setup_hooks(trial)

        async def emit(kind: Event) -> None:
            of = SimpleNamespace(
                trial_name=config.trial_name, task_name="t1", config=config, result=trial.result
            )
            for hook in self.hooks[kind]:
                await hook(of)

        await trial.run(emit)
        return trial

    async def run(self) -> Any:
        pairs = zip(self.trial_configs, self.does, strict=True)
        self.trials = [await self.attempt(config, does) for config, does in pairs]
        return self.ended([trial.result for trial in self.trials])

    def ended(self, results: list[Any]) -> Any:
        """As harbor/job.py sums up: over the trials whose reward is valid."""
        kept = [one.verifier_result.rewards for one in results if one.reward_valid]
        return SimpleNamespace(trial_results=results, metrics=kept)

    async def whole(self, truezero: TruezeroPlugin) -> Any:
        """As Harbor's command does."""
        await truezero.on_job_start(self)
        result = await self.run()
        self.metrics = result.metrics
        await truezero.on_job_end(result)
        return result


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, members in (
        ("harbor.trial.hooks", {"TrialEvent": Event}),
        ("harbor.models.trial.result", {"ExceptionInfo": Info}),
        ("typer", {"Exit": type("Exit", (RuntimeError,), {"__init__": lambda self, code=0: None})}),
        (
            "harbor.agents.installed.base",
            {kind: type(kind, (RuntimeError,), {}) for kind in plugin.EXCEPTION_TYPES.values()},
        ),
    ):
        made = ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)


def run(job: Job, truezero: TruezeroPlugin) -> list[Trial]:
    asyncio.run(job.whole(truezero))
    return job.trials


def ended(trial: Trial) -> tuple[str | None, float | None, str | None]:
    """The exception, the reward, and the exception in result.json."""
    info, verified = trial.result.exception_info, trial.result.verifier_result
    told = json.loads(trial.paths.result_path.read_text())["type"]
    return info and info.exception_type, verified and verified.rewards["reward"], told


@pytest.mark.slow
def test_a_dead_model_is_not_verified_and_a_genuine_zero_is(url: str, tmp_path: Path) -> None:
    job = Job(tmp_path, ["good"], ["dead", "dead"], [], name="hb-kinds")
    good, dead, mute = run(job, TruezeroPlugin(url))
    assert ended(good) == (None, 0.0, None)
    assert ended(dead) == ("AgentAuthenticationError", None, "AgentAuthenticationError")
    assert ended(mute) == ("APIResponseValidationError", None, "APIResponseValidationError")
    assert "check the agent's base URL" in mute.result.exception_info.exception_message
    assert [trial.verified for trial in (good, dead, mute)] == [True, False, False]
    with Client(url) as client:
        items = client.rollouts(batch="hb-kinds", task="t1@codex")
    assert [(item.repeat, item.attempt, item.health) for item in items] == [
        (0, 0, "healthy"), (1, 0, "api_error"), (2, 0, "suspected_api_error"),
    ]  # fmt: skip
    excluded = job._trial_queue._retry_config.exclude_exceptions
    assert excluded == {
        "AgentTimeoutError", "AgentAuthenticationError", "ApiUsageLimitError", "ModelNotFoundError",
        "APIResponseValidationError", "BadRequestError", "CancelledError",
    }  # fmt: skip
    assert job.config.retry.exclude_exceptions == {"AgentTimeoutError"}, (
        "Harbor compares it with the configuration of the job that it resumes"
    )


def test_the_jobs_metrics_are_of_what_was_measured(url: str, tmp_path: Path) -> None:
    job = Job(tmp_path, ["good"], ["dead"], name="hb-metrics")
    run(job, TruezeroPlugin(url))
    assert job.metrics == [{"reward": 0.0}], "of the trials that have a valid reward"
    card = json.loads((tmp_path / CARD_FILE).read_bytes())
    assert card["stated"]["batch"] == "hb-metrics"
    assert card["stated"]["harness"].startswith("harbor")
    assert card["measured"]["score"]["score"] == 0.0


def test_a_resumed_job_leaves_out_what_was_not_measured_before(url: str, tmp_path: Path) -> None:
    first = Job(tmp_path, ["good"], ["dead"], name="hb-resumed")
    run(first, TruezeroPlugin(url))

    class Resumed(Job):
        async def run(self) -> Any:
            self.trials: list[Trial] = []
            return self.ended([trial.result for trial in first.trials])

    again, truezero = Resumed(tmp_path, [], [], name="hb-resumed"), TruezeroPlugin(url)
    run(again, truezero)
    assert again.metrics == [{"reward": 0.0}]
    assert list(truezero._unmeasured) == ["t1__1"]


def test_an_agent_that_never_calls_keeps_harbors_results_and_one_line_says_so(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(tmp_path, [], [], name="hb-elsewhere")
    for trial in run(job, TruezeroPlugin(url)):
        assert (ended(trial), trial.verified) == ((None, 0.0, None), True)
    assert job.metrics == [{"reward": 0.0}, {"reward": 0.0}]
    [line] = caplog.messages
    assert line.startswith(
        "truezero: no call of codex/openai/gpt-5 came through the service in 2 of 2 trials, which"
    )


def test_a_trial_without_a_call_keeps_its_result_until_its_agent_was_seen_calling(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(tmp_path, [], ["good"], [], name="hb-mute-first")
    first, good, last = run(job, TruezeroPlugin(url))
    assert ended(first) == ended(good) == (None, 0.0, None)
    assert ended(last) == ("APIResponseValidationError", None, "APIResponseValidationError")
    told, left_out = caplog.messages
    assert "in 1 of 3 trials, which keep Harbor's own results, unmeasured" in told
    assert "1 of 3 trials not measured and left out" in left_out
    with Client(url) as client:
        assert client.summary("hb-mute-first").score_effective == 0.0
        assert client.summary("hb-mute-first").scored == 1


def test_a_trial_that_was_not_verified_counts_no_zero(url: str, tmp_path: Path) -> None:
    job = Job(tmp_path, ["good", "unverified"], ["good"], name="hb-unverified")
    run(job, TruezeroPlugin(url))
    assert job.metrics == [{"reward": 0.0}]


def test_a_trial_that_is_tried_again_is_the_next_attempt(url: str, tmp_path: Path) -> None:
    job, truezero = Job(tmp_path, ["dead"], name="hb-again"), TruezeroPlugin(url)

    async def twice() -> Trial:
        await job.whole(truezero)
        return await job.attempt(job.trial_configs[0], ["good"])

    assert ended(asyncio.run(twice())) == (None, 0.0, None)
    assert truezero._unmeasured == {}
    with Client(url) as client:
        items = client.rollouts(batch="hb-again")
    assert [(item.repeat, item.attempt) for item in items] == [(None, 0), (None, 1)]


def test_what_harbor_itself_recorded_is_reported_by_its_type(url: str, tmp_path: Path) -> None:
    timeout = type("AgentTimeoutError", (TimeoutError,), {})("a prompt")
    exited = type("NonZeroAgentExitCodeError", (RuntimeError,), {})("a prompt")
    job = Job(
        tmp_path, ["dead", timeout], ["good", timeout], ["dead", exited], name="hb-own"
    )  # fmt: skip
    dead, slow, left = run(job, TruezeroPlugin(url))
    assert ended(dead)[0] == "AgentAuthenticationError", "the cause, not what came of it"
    assert ended(slow)[:2] == ("AgentTimeoutError", 0.0)
    assert ended(left)[:2] == ("AgentAuthenticationError", None)
    with Client(url) as client:
        results = [client.result(item.id) for item in client.rollouts(batch="hb-own")]
    assert [(one.status, one.error, one.rewards) for one in results] == [
        ("task_timeout", "AgentTimeoutError", None),
        ("task_timeout", "AgentTimeoutError", {"reward": 0.0}),
        ("unknown_execution_error", "NonZeroAgentExitCodeError", None),
    ]


def test_agents_without_a_model_are_left_alone(url: str, tmp_path: Path) -> None:
    [trial] = run(Job(tmp_path, [], name="hb-oracle", agent="oracle"), TruezeroPlugin(url))
    assert ended(trial) == (None, 0.0, None)
    assert trial.agent._extra_env == {"OPENAI_BASE_URL": "https://own.example"}


def test_no_job_starts_without_the_service(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no job is started: cannot reach a truezero") as stopped:
        run(Job(tmp_path, ["good"]), TruezeroPlugin(GONE))
    assert isinstance(stopped.value, sys.modules["typer"].Exit), (
        "Harbor's command prints no traceback"
    )
    assert vars(stopped.value)["exit_code"] == str(stopped.value)


@pytest.mark.parametrize("when", ["start", "verification-start", "end"])
def test_a_trial_says_where_the_service_has_gone(when: str, url: str, tmp_path: Path) -> None:
    job, truezero = Job(tmp_path, ["good"], name=f"hb-gone-{when}"), TruezeroPlugin(url)

    async def leaves(event: Any) -> None:
        truezero._service = (GONE, None)

    job.add_hook(Event(when), leaves)  # before ours
    [trial] = run(job, truezero)
    assert ended(trial) == ("ApiConnectionError", None, "ApiConnectionError")
    assert trial.verified == (when != "start"), "its rewards are in the outcome that is kept"
    assert "cannot reach" in trial.result.exception_info.exception_message


@pytest.mark.slow
def test_an_open_breaker_stops_trials(url: str, tmp_path: Path) -> None:
    last = run(Job(tmp_path, *[["dead"]] * 6, name="hb-tripping"), TruezeroPlugin(url))[-1]
    assert ended(last) == ("CancelledError", None, "CancelledError")
    assert last.result.agent_execution is None


# --- pure ----------------------------------------------------------------------------------


def verdict(**facts: Any) -> Any:
    known: dict[str, Any] = {
        "health": "healthy", "subcategory": None, "error": None, "rule": "healthy",
        "warnings": [], "total_requests": 1, "spoilt": None, "error_category": None,
        "rollout_id": "r",
    }  # fmt: skip
    if facts.get("health") in ("api_error", "suspected_api_error"):
        known["error_category"] = facts["health"]
    return SimpleNamespace(**{**known, **facts})


def test_each_cause_has_the_type_by_which_harbor_retries() -> None:
    for subcategory, name in (
        ("auth", "AgentAuthenticationError"),
        ("quota", "ApiUsageLimitError"),
        ("model_not_found", "ModelNotFoundError"),
        ("rate_limit", "ApiRateLimitError"),
        ("provider_error", "ApiInternalServerError"),
        ("rejected_request", "BadRequestError"),
    ):
        found = failure(
            verdict(health="api_error", subcategory=subcategory, error="why"), over=True
        )
        assert (type(found).__name__, str(found)) == (name, "why")
    undecided = failure(verdict(health="undecided", warnings=["calls_unattributed"]), over=True)
    assert isinstance(undecided, NotMeasured)
    assert (type(undecided).__name__, str(undecided)) == (
        "ApiConnectionError", "undecided: calls_unattributed",
    )  # fmt: skip
    assert failure(verdict(health="not_judged", total_requests=0), over=True) is None
    refused = failure(verdict(health="not_judged", error="budget: spent"), over=True)
    assert (type(refused).__name__, str(refused)) == ("CancelledError", "budget: spent")
    spoilt = failure(verdict(spoilt="not scored: why"), over=True)
    assert (type(spoilt).__name__, str(spoilt)) == (
        "APIResponseValidationError", "not scored: why",
    )  # fmt: skip


def test_a_job_that_says_so_tries_a_permanent_failure_again(url: str, tmp_path: Path) -> None:
    job = Job(tmp_path, name="hb-refilled")
    job.config.retry.include_exceptions = {"ApiUsageLimitError"}
    job.config.override_error_policy = {
        "ModelNotFoundError": SimpleNamespace(should_retry=True),
        "AgentAuthenticationError": SimpleNamespace(should_retry=None),
    }
    asyncio.run(TruezeroPlugin(url).on_job_start(job))
    excluded = job._trial_queue._retry_config.exclude_exceptions
    assert "AgentAuthenticationError" in excluded
    assert not {"ApiUsageLimitError", "ModelNotFoundError"} & excluded


def test_rewards_are_finite_numbers() -> None:
    assert finite({"reward": 1, "nan": float("nan")}) == {"reward": 1.0}
    assert finite(None) is None
    assert finite({}) is None
