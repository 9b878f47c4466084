"""The score that was reported, what of it was measured, and what was taken away: on every surface.

A rollout may report several rewards, of which one is the score if its batch says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from proxy.control import judge
from proxy.store.errors import StoreError
from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.proxy.api.test_routes import Service, problem
from tests.proxy.control.test_batches import play
from tests.proxy.web.test_pages import page, words
from truezero.cli import app as command_line

DEAD = answers.FAILURES[Api.CHAT][Fault.AUTH]
SPENT = answers.FAILURES[Api.CHAT][Fault.QUOTA]
SCORES = (
    "score_all", "score_effective", "score_reported", "score_worst", "score_best", "score_first",
    "score_retried", "score_ci", "pass_at",
)  # fmt: skip
SEVERAL = "rewards under several keys (correctness, safety, style): register score_key"


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both(BREAKER_THRESHOLD="50")


def cli(service: Service, *command: str) -> Result:
    where, wide = ["--url", str(service.http.base_url)], {"COLUMNS": "300"}
    return CliRunner().invoke(command_line, [*command, *where], env=wide)


def batch_page(service: Service, batch: str = "b") -> str:
    return words(page(service, f"/ui/batches/{batch}"))


# --- several keys ---------------------------------------------------------------------------------


def judged_by_three(service: Service, **facts: Any) -> None:
    for n in range(3):
        rewards = {"correctness": 1.0, "style": 0.5, "safety": float(n > 0)}
        play(service, f"r{n}", task=f"t{n}", reward=rewards, **facts)


def test_several_rewards_of_which_none_is_the_score_are_none_and_say_the_fix(
    service: Service,
) -> None:
    judged_by_three(service)
    summary = service.get("/batches/b")
    assert {name: summary[name] for name in SCORES} == dict.fromkeys(SCORES)
    assert (summary["no_score"], summary["score_key"]) == (f"no score: {SEVERAL}", None)
    assert (summary["scored"], summary["scoreable"], summary["coverage"]) == (0, 3, 0.0)
    assert summary["parts"]["not_scored"] == {"score_key": 3}
    (listed,) = service.get("/batches")["items"]
    assert (listed["no_score"], listed["score_all"]) == (f"no score: {SEVERAL}", None)
    checked = service.get("/batches/b/check")
    assert (checked["valid"], checked["lines"]) == (False, [f"no score: {SEVERAL}"])
    groups = service.get("/batches/b/groups")["items"]
    assert {(each["valid"][0], each["no_score"]) for each in groups} == {(False, SEVERAL)}


def test_a_rollout_says_of_its_rewards_what_its_batch_does(service: Service) -> None:
    judged_by_three(service)
    said = f"counts: the model answered 1 of 1 call; no score: {SEVERAL}"
    assert service.get("/rollouts/r0/verdict")["sentence"] == said
    assert service.get("/rollouts/r0/result")["sentence"] == said
    assert said in words(page(service, "/ui/rollouts/r0"))
    assert f"No score: {SEVERAL}." in batch_page(service)
    printed = " ".join(cli(service, "batch", "b").stdout.split())
    assert f"no score: {SEVERAL} coverage 0 of 3 measured (0%)" in printed


def test_zeros_under_any_key_are_reported_zeros(service: Service) -> None:
    """Three were measured; the quota of the fourth was spent, and it has zeros under two keys."""
    for n in range(3):
        play(service, f"r{n}", task=f"t{n}", reward=0.0)
    play(service, "spent", SPENT, task="t3", reward={"correctness": 0.0, "style": 0.0})
    summary = service.get("/batches/b")
    assert summary["zeros"] == {"reported": 4, "not_measured": 1, "by_cause": {"quota": 1}}
    assert summary["ones"]["reported"] == 0
    assert "1 of 4 zeros is not a measurement." in batch_page(service)


def test_a_registered_key_is_the_score_and_its_batchs(service: Service) -> None:
    judged_by_three(service, score_key="safety")
    play(service, "dead", DEAD, task="t3", reward={"correctness": 1.0, "safety": 0.0})
    summary = service.get("/batches/b")
    assert (summary["no_score"], summary["score_key"]) == (None, "safety")
    assert (summary["scored"], summary["score_effective"]) == (3, 2 / 3)
    assert summary["score_reported"] == 0.5
    assert summary["zeros"] == {"reported": 2, "not_measured": 1, "by_cause": {"auth": 1}}
    items = {item["id"]: item for item in service.get("/rollouts")["items"]}
    assert (items["r0"]["reward"], items["r1"]["reward"]) == (0.0, 1.0)
    assert (items["dead"]["reward"], items["dead"]["reported_reward"]) == (None, 0.0)
    assert "no score" not in service.get("/rollouts/r0/verdict")["sentence"]
    by_reward = service.get("/rollouts", sort="reported_reward", order="desc")["items"]
    assert [item["reported_reward"] for item in by_reward] == [1.0, 1.0, 0.0, 0.0]


def test_another_key_in_the_same_batch_is_refused_and_both_are_named(service: Service) -> None:
    first = {"id": "r0", "batch": "b", "score_key": "correctness"}
    for _ in range(2):
        assert service.http.post("/rollouts", json=first).status_code == 201
    assert service.http.post("/rollouts", json={"id": "r1", "batch": "b"}).status_code == 201
    other = {"id": "r2", "batch": "b", "score_key": "style"}
    refused = problem(service.http.post("/rollouts", json=other), 409, "batch_policy")
    assert refused["detail"] == (
        "batch 'b' was registered with score_key correctness, not with score_key style: it is one "
        "for all of its rollouts; leave it out, or begin a new batch"
    )
    late = {"id": "r3", "batch": "begun", "score_key": "style"}
    service.http.post("/rollouts", json={"id": "r4", "batch": "begun"})
    refused = problem(service.http.post("/rollouts", json=late), 409, "batch_policy")
    assert "was registered without a score_key, not with score_key style" in refused["detail"]


def test_rewards_that_lack_the_registered_key_hold_no_score(service: Service) -> None:
    play(service, "r0", task="t0", score_key="style", reward={"style": 1.0, "speed": 0.0})
    play(service, "r1", task="t1", reward={"reward": 1.0})
    summary = service.get("/batches/b")
    assert (summary["no_score"], summary["score_effective"], summary["scored"]) == (None, 1.0, 1)
    assert summary["parts"]["not_scored"] == {"score_key": 1}
    said = "no score: no reward under the registered score_key style (reward): report it"
    assert service.get("/rollouts/r1/verdict")["sentence"].endswith(f"; {said}")


# --- planned, and never started -------------------------------------------------------------------


def test_a_batch_of_which_repeats_never_started_is_not_valid(service: Service) -> None:
    play(service, "r0", task="t", repeat=0, repeats=2, reward=1.0)
    summary = service.get("/batches/b")
    assert (summary["repeats_planned"], summary["never_started"], summary["total"]) == (2, 1, 2)
    assert (summary["scored"], summary["coverage"], summary["valid"]) == (1, 0.5, False)
    assert (summary["score_worst"], summary["score_best"]) == (0.5, 1.0)
    checked = service.get("/batches/b/check")
    assert (checked["valid"], checked["lines"]) == (False, ["1 of 2 planned repeats never started"])
    assert "never started 1 run again" in batch_page(service)
    assert cli(service, "check", "b").exit_code == 1
    play(service, "r1", task="t", repeat=1, repeats=2, reward=1.0)
    assert service.get("/batches/b")["valid"]


def test_each_planned_repeat_is_in_one_part(service: Service) -> None:
    play(service, "won", task="t0", reward=1.0)
    play(service, "dead", DEAD, task="t1", reward=0.0)
    play(service, "spent", SPENT, task="t2", reward=0.0)
    play(service, "unscored", task="t3", reward=None)
    play(service, "first", task="t4", repeat=0, repeats=3, reward=0.0)
    service.http.post("/rollouts", json={"id": "runs", "batch": "b", "task": "t5"})
    summary = service.get("/batches/b")
    assert summary["parts"] == {
        "measured": 2, "own_failures": 0, "not_measured": {"auth": 1, "quota": 1},
        "not_scored": {"no_reward": 1}, "skipped": 0, "running": 1, "never_started": 2,
    }  # fmt: skip
    assert summary["repeats_planned"] == summary["total"] == 8
    said = (
        "2 measured, 2 not measured (1 auth, 1 quota), 1 not scored (1 no reward was reported), "
        "1 running, 2 never started"
    )
    assert "6 without a score 2 6 of 8" in batch_page(service)
    assert f"8 planned: {said}" in cli(service, "batch", "b").stdout


# --- reported, and taken away ---------------------------------------------------------------------


def test_what_a_harness_reads_is_named_so_and_a_one_that_was_taken_away_is_counted(
    service: Service,
) -> None:
    """Of five, the one that passed had no model, and one reported nothing."""
    for n in range(3):
        play(service, f"r{n}", task=f"t{n}", reward=0.0)
    play(service, "passed", DEAD, task="t3", reward=1.0)
    play(service, "silent", DEAD, task="t4", reward=None)
    summary = service.get("/batches/b")
    assert (summary["score_reported"], summary["score_all"]) == (0.25, 0.0)
    assert summary["score_effective"] == 0.0
    assert summary["ones"] == {"reported": 1, "not_measured": 1, "by_cause": {"auth": 1}}
    assert "1 of 1 score above zero is not a measurement : auth 1" in batch_page(service)
    printed = cli(service, "batch", "b").stdout
    assert "1 of 1 score above 0 is not a measurement: 1 auth" in printed
    assert "reported 0.250" in " ".join(printed.split())
    lines = service.get("/batches/b/check")["lines"]
    assert "1 of 1 score above 0 is no measurement: 1 auth" in lines
    (listed,) = service.get("/batches")["items"]
    assert (listed["score_reported"], listed["ones"]) == (0.25, summary["ones"])


def test_of_several_attempts_the_last_one_reported_is_what_a_harness_keeps(
    service: Service,
) -> None:
    play(service, "a0", DEAD, task="t0", attempt=0, reward=0.25)
    play(service, "a1", task="t0", attempt=1, reward=1.0)
    play(service, "b0", task="t1", attempt=0, reward=0.5)
    play(service, "b1", task="t1", attempt=1, reward=0.0)
    play(service, "c0", DEAD, task="t2", attempt=0, reward=0.75)
    summary = service.get("/batches/b")
    assert summary["score_reported"] == (1.0 + 0.0 + 0.75) / 3
    assert summary["score_effective"] == 0.75


# --- rewards that come later ----------------------------------------------------------------------


def test_an_outcome_without_rewards_may_be_given_them_once(service: Service) -> None:
    play(service, "r0", task="t0", reward=None)
    play(service, "dead", DEAD, task="t1", reward=None)
    assert service.get("/batches/b")["parts"]["not_scored"] == {"no_reward": 1}
    said = {"status": "success", "prompts_executed": 1}

    def sent(name: str, **facts: object) -> httpx.Response:
        return service.http.post(f"/rollouts/{name}/outcome", json={**said, **facts})

    problem(sent("r0", rewards=0.5, tool_calls=1), 409, "outcome_exists")
    before = service.get("/rollouts/r0/verdict")
    for _ in range(2):
        answer = sent("r0", rewards=0.5)
        assert (answer.status_code, answer.json()["rewards"]) == (200, {"reward": 0.5})
    assert service.get("/rollouts/r0/result")["rewards"] == {"reward": 0.5}
    after = service.get("/rollouts/r0/verdict")
    assert {name for name in after if after[name] != before[name]} <= {"validity_coverage"}
    problem(sent("r0", rewards=0.75), 409, "outcome_exists")
    problem(sent("r0"), 409, "outcome_exists")
    summary = service.get("/batches/b")
    assert (summary["scored"], summary["score_effective"]) == (1, 0.5)
    assert sent("dead", rewards=1.0).json()["rewards"] is None, "no model answered it"
    assert service.get("/rollouts/dead/verdict")["validity"][0]["check"] == "unearned"
    summary = service.get("/batches/b")
    assert (summary["score_reported"], summary["unearned"]) == (0.75, 1)
    assert summary["ones"] == {"reported": 2, "not_measured": 1, "by_cause": {"auth": 1}}


def test_rewards_that_come_later_may_lack_a_score_too(service: Service) -> None:
    play(service, "r0", reward=None)
    rewards = {"a": 1.0, "b": 0.0}
    seen = {"status": "success", "prompts_executed": 1, "rewards": rewards}
    assert service.http.post("/rollouts/r0/outcome", json=seen).json()["rewards"] == rewards
    said = service.get("/rollouts/r0/verdict")["sentence"]
    assert said.endswith("; no score: rewards under several keys (a, b): register score_key")


def test_rewards_that_come_later_and_their_verdict_are_stored_together(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in between has taken nothing, so that the runner says it again."""
    play(service, "r0", reward=None)
    seen = {"status": "success", "prompts_executed": 1, "rewards": 0.5}

    def died(*_: object) -> None:
        raise StoreError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(judge, "add_rewards", died)
        assert service.http.post("/rollouts/r0/outcome", json=seen).status_code == 503
    assert service.http.post("/rollouts/r0/outcome", json=seen).status_code == 200
    assert service.get("/rollouts/r0/result")["rewards"] == {"reward": 0.5}
    assert service.get("/batches/b")["score_effective"] == 0.5
