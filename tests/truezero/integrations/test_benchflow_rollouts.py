"""What is made of benchflow's rollouts, on its seams in miniature and a real service.

The classes of benchflow itself are driven by `make integrations`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.truezero import driving
from tests.truezero.integrations import fake_benchflow
from tests.truezero.integrations.fake_benchflow import Rollout
from truezero import Client
from truezero.integrations import benchflow_rollouts as glue
from truezero.integrations.attempts import Contact
from truezero.sdk.errors import NotMeasured

KEYS = {"good": "sk-good", "dead": "sk-dead", "down": "sk-down"}


@pytest.fixture
def rollouts(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Rollout]]:
    """Makes rollouts of a benchflow whose methods are wrapped."""
    fake_benchflow.install(monkeypatch)
    monkeypatch.setenv("TRUEZERO_URL", url)
    monkeypatch.setenv(glue.UPSTREAM, "openai")
    monkeypatch.setattr(glue, "_told", set())
    monkeypatch.setattr(glue, "_measured_jobs", {})
    monkeypatch.setattr(glue, "_contact", Contact(glue._goes_on))
    own = type("Own", (Rollout,), {})
    glue.attach(SimpleNamespace(Rollout=own))
    planes = sys.modules["benchflow.rollout_planes"].DefaultRolloutPlanes

    def rollout(name: str, **ended: Any) -> Rollout:
        made: Rollout = own(tmp_path, f"t1__{name}", planes(), **ended)
        return made

    yield rollout


def run(rollout: Rollout, *keys: str) -> Rollout:
    """Connect, call once with each key as LiteLLM would, clean up and classify."""

    async def whole() -> None:
        await rollout.connect()
        for key in keys:
            base = rollout._planes.env["BENCHFLOW_PROVIDER_BASE_URL"]
            await asyncio.to_thread(driving.call, base, KEYS[key])
        await rollout.cleanup()
        await rollout.cleanup()

    asyncio.run(whole())
    rollout._maybe_classify_api_error()
    return rollout


Made = Callable[..., Rollout]


def test_a_genuine_zero_stays_and_benchflows_heuristics_do_not_judge_it(rollouts: Made) -> None:
    done = run(rollouts("genuine"), "good")
    assert (done._rewards, done._error, done.classified) == ({"reward": 0.0}, None, 0)
    assert json.loads((done._rollout_dir / "truezero.json").read_text())["health"] == "healthy"


def test_a_dead_key_is_said_in_the_words_that_benchflow_reads(rollouts: Made) -> None:
    done = run(rollouts("dead"), "dead", "dead", "dead")
    assert done._rewards is None
    assert done._error == "provider api error [auth/permanent] HTTP 401 on 3/3 requests"
    assert done._diagnostics._events["api_error_info"].fields == {
        "subcategory": "auth", "transient": False, "dominant_status": 401,
        "status_counts": {"401": 3}, "total_requests": 3, "failed_requests": 3,
        "fingerprint": "auth:401",
    }  # fmt: skip
    again = run(rollouts("dead"), "down")
    assert again._error == "provider api error [provider_error/transient] HTTP 503 on 1/1 requests"
    with Client() as client:
        mine = {item.id: item for item in client.rollouts(batch="night", task="t1")}
    numbers = [item.attempt for item in mine.values()]
    assert len(numbers) == len(set(numbers)) > 1, "benchflow's attempts are told apart"
    assert mine["t1__dead"].fingerprint == "auth:401", "a name that comes twice is two rollouts"


def test_an_error_of_benchflows_own_stays_beside_the_cause(rollouts: Made) -> None:
    done = rollouts("slow", error="agent idle")
    done._diagnostics._events["idle_timeout_info"] = object()
    run(done, "dead")
    assert (done._error or "").endswith("HTTP 401 on 1/1 requests; agent idle")
    assert list(done._diagnostics._events) == ["api_error_info"], "or the category is idle_timeout"


def test_no_call_is_suspected(rollouts: Made) -> None:
    done = run(rollouts("mute"))
    assert done._rewards is None
    assert done._error == (
        "suspected provider api error: a prompt was executed, yet no call, token or tool call was "
        "seen"
    )
    assert done._diagnostics._events["suspected_api_error_info"].fields["total_requests"] == 0


def test_what_never_ran_is_left_to_benchflow(rollouts: Made) -> None:
    done = rollouts("unprepared", error="no image")
    done._executed_prompts = []
    run(done)
    assert (done.classified, done._error) == (1, "no image")


def test_a_reconnect_and_another_role_stay_one_rollout(rollouts: Made) -> None:
    done = rollouts("roles")

    async def connects() -> list[dict[str, str]]:
        await done.connect()
        seen = [done._planes.env]
        await done.connect_as("reviewer")
        seen.append(done._planes.env)
        done.env = {"BENCHFLOW_LITELLM_MASTER_KEY": "sk-benchflow"}
        await done.connect()
        return [*seen, done._planes.env]

    first, second, third = asyncio.run(connects())
    assert first == second
    assert "/r/t1__roles" in first["BENCHFLOW_PROVIDER_BASE_URL"]
    assert third == done.env


def test_an_agent_that_grades_is_kept_out_of_the_jobs_batch(rollouts: Made) -> None:
    done = rollouts("grades")
    done._config.purpose = "reviewer"
    run(done, "good")
    with Client() as client:
        assert [item.id for item in client.rollouts(batch="night-reviewers")] == ["t1__grades"]
        assert "t1__grades" not in {item.id for item in client.rollouts(batch="night")}


def test_an_agent_on_its_own_subscription_is_left_alone(
    rollouts: Made, caplog: pytest.LogCaptureFixture
) -> None:
    done = run(rollouts("elsewhere", env={"OAUTH": "1"}))
    assert (done._planes.env, done._rewards) == ({"OAUTH": "1"}, {"reward": 0.0})
    assert (done.classified, caplog.messages) == (1, [])


def test_without_an_upstreams_name_benchflow_goes_on_and_one_sentence_a_job_asks_for_it(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(glue.UPSTREAM)
    own = {"BENCHFLOW_PROVIDER_BASE_URL": "https://own.example/v1"}
    for number in range(3):
        done = run(rollouts(f"own-{number}", env=own))
        assert (done._planes.env, done._rewards, done.classified) == (own, {"reward": 0.0}, 1)
    [line] = caplog.messages
    assert line == (
        "truezero: benchflow goes on unmeasured (TRUEZERO_BENCHFLOW=on would stop it): set "
        "TRUEZERO_BENCHFLOW_UPSTREAM to the upstream of the service that has the models, such as "
        "openai"
    )
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "on")
    with pytest.raises(NotMeasured, match="set TRUEZERO_BENCHFLOW_UPSTREAM"):
        asyncio.run(rollouts("own-asked", env=own).connect())


def test_a_service_that_was_not_asked_for_may_be_away(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
    for number in range(3):
        done = rollouts(f"untouched-{number}")
        asyncio.run(done.connect())
        asyncio.run(done.cleanup())
        done._maybe_classify_api_error()
        assert (done._planes.env, done._rewards, done.classified) == ({}, {"reward": 0.0}, 1)
    [line] = caplog.messages
    assert line.startswith("truezero: benchflow goes on unmeasured")


def test_a_service_that_leaves_is_not_asked_again(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(rollouts("before"), "good")
    monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
    for number in range(2):
        done = rollouts(f"after-{number}")
        asyncio.run(done.connect())
        assert done._planes.env == {}
    [line] = caplog.messages
    assert "benchflow goes on unmeasured" in line


@pytest.mark.slow
def test_a_breaker_stops_nothing_that_did_not_ask_for_it(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRUEZERO_BATCH", "tripped-unasked")
    for number in range(5):
        run(rollouts(f"unasked-{number}"), "dead")
    for number in range(2):
        late = rollouts(f"unasked-late-{number}")
        asyncio.run(late.connect())
        assert late._planes.env == {}
    [line] = caplog.messages
    assert "skipped: breaker open on auth:401" in line


def test_without_the_service_nothing_runs(rollouts: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "on")
    monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
    done = rollouts("gone")
    with pytest.raises(NotMeasured, match="temporarily unavailable: cannot reach"):
        asyncio.run(done.connect())


def test_where_the_service_has_gone_no_reward_stays(
    rollouts: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = rollouts("left", rewards={"reward": 1.0})

    async def whole() -> None:
        await done.connect()
        monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
        await done.cleanup()

    asyncio.run(whole())
    done._maybe_classify_api_error()
    assert done._rewards is None
    assert "truezero: not measured, temporarily unavailable: the outcome of rollout" in (
        done._error or ""
    )


def test_a_rollout_that_was_never_settled_keeps_no_reward(rollouts: Made) -> None:
    done = rollouts("unsettled")
    asyncio.run(done.connect())
    done._maybe_classify_api_error()
    assert done._rewards is None
    assert done._error == "truezero: not measured: the rollout was never judged"


@pytest.mark.slow
def test_an_open_breaker_stops_rollouts(rollouts: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUEZERO_BENCHFLOW", "on")
    monkeypatch.setenv("TRUEZERO_BATCH", "tripped")
    for number in range(5):
        run(rollouts(f"tripping-{number}"), "dead")
    with pytest.raises(NotMeasured, match=r"^skipped: breaker open"):
        asyncio.run(rollouts("late").connect())


# --- the summary of a job ------------------------------------------------------------------


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> str:
    """A job of its own."""
    monkeypatch.setenv("TRUEZERO_BATCH", name := "bf-carded")
    return name


def summarized(folder: Path, *, above: str | None = None) -> bytes:
    """Run a wrapped job that writes its summary as benchflow does; return the one in its folder."""
    file = folder / "night" / "summary.json"

    async def run_job(job: Any) -> str:
        file.parent.mkdir()
        file.write_text('{"score": "0/1"}')
        (folder / "summary.json").write_text(above or file.read_text())
        return "ran"

    module = SimpleNamespace(Evaluation=type("Evaluation", (), {"run": run_job}))
    glue.attach_evaluation(module)
    job = module.Evaluation()
    job._job_name, job._jobs_dir = "night", folder
    assert asyncio.run(job.run()) == "ran"
    return file.read_bytes()


def test_the_measurement_card_is_in_the_summary_of_a_job(
    rollouts: Made, night: str, tmp_path: Path
) -> None:
    run(rollouts("carded"), "good")
    written = summarized(tmp_path)
    summary = json.loads(written)
    card = summary["measurement_card"]
    assert summary["score"] == "0/1"
    assert card["stated"]["batch"] == night
    assert card["stated"]["harness"].startswith("benchflow")
    assert card["measured"]["score"]["score"] == 0.0
    assert (tmp_path / "summary.json").read_bytes() == written


def test_the_summary_of_a_job_beside_it_is_left_alone(
    rollouts: Made, night: str, tmp_path: Path
) -> None:
    run(rollouts("beside"), "good")
    assert night.encode() in summarized(tmp_path, above='{"score": "5/5"}')
    assert (tmp_path / "summary.json").read_text() == '{"score": "5/5"}'


@pytest.mark.usefixtures("night")
def test_a_job_of_which_no_rollout_was_measured_has_no_card(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRUEZERO_URL", url)
    assert summarized(tmp_path) == b'{"score": "0/1"}'


def test_a_service_that_left_is_a_warning_and_the_summary_stays(
    rollouts: Made,
    night: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run(rollouts("left"), "good")
    monkeypatch.setenv("TRUEZERO_URL", "http://127.0.0.1:9")
    assert summarized(tmp_path) == b'{"score": "0/1"}'
    [said] = caplog.messages
    assert said.startswith("truezero: no measurement card was written: cannot reach a truezero")
    assert said.endswith(f"`truezero card {night}` shows it")
