"""What an exception inside a rollout's block is reported as; the rest is in test_batches."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest
import respx

import truezero
from tests.truezero.sdk.test_client import REGISTERED, RESULT, URL, VERDICT
from truezero import ExecutionLoop
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.rollouts import outcome_of


class OutOfDisk(truezero.EnvironmentError):
    """A runner's own."""


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (truezero.AgentError("why"), {"status": "agent_error", "error": "why"}),
        (truezero.AgentError(), {"status": "agent_error", "error": "AgentError"}),
        (
            truezero.SetupFailed("no image"),
            {"status": "setup_failed", "error": "no image", "prompts_executed": 0},
        ),
        (TimeoutError("sk-secret"), {"status": "task_timeout", "error": "TimeoutError"}),
        (
            subprocess.TimeoutExpired("cmd", 1),
            {"status": "task_timeout", "error": "TimeoutExpired"},
        ),
        (
            KeyError("a prompt"),
            {"status": "unknown_execution_error", "error": "KeyError"},
        ),
        (truezero.TaskTimeout("after 600 s"), {"status": "task_timeout", "error": "after 600 s"}),
        (truezero.UserError(), {"status": "user_error", "error": "UserError"}),
        (truezero.EvaluationFailed("none"), {"status": "evaluation_failed", "error": "none"}),
        (OutOfDisk(), {"status": "environment_error", "error": "OutOfDisk"}),
    ],
)
def test_an_exception_is_reported_by_status_and_never_by_a_foreign_message(
    error: Exception, outcome: OutcomeFacts
) -> None:
    assert outcome_of(error) == outcome


def test_a_rollout_knows_nothing_before_it_starts_and_no_result_before_it_ends() -> None:
    with truezero.Client("http://127.0.0.1:9") as client:  # nothing may be asked of it
        rollout = client.batch("b").rollout("t", repeat=1, attempt=2)
    assert (rollout.task, rollout.repeat, rollout.attempt) == ("t", 1, 2)
    assert not rollout.finished
    with pytest.raises(RuntimeError, match="has not started"):
        _ = rollout.id
    with pytest.raises(RuntimeError, match="has not finished"):
        _ = rollout.verdict


@respx.mock
def test_what_a_rollout_was_registered_with_is_reported_with_its_outcome() -> None:
    respx.post(f"{URL}/rollouts").respond(json=REGISTERED)
    reported = respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    with truezero.Client(URL) as client:
        batch = client.batch("b", model=("m", "n"))
        with batch.rollout("t", repeat=3, attempt=2) as rollout:
            rollout.finish(rewards=1.0)
    body = json.loads(reported.calls.last.request.content)
    assert {name: body[name] for name in ("batch", "task", "repeat", "attempt", "model")} == {
        "batch": "b",
        "task": "t",
        "repeat": 3,
        "attempt": 2,
        "model": ["m", "n"],
    }


@respx.mock
def test_a_task_that_is_measured_as_often_as_asked_is_not_entered() -> None:
    told = {"title": "measured", "status": 409, "code": "measured", "detail": "t has its 1 repeat"}
    registering = respx.post(f"{URL}/rollouts").respond(409, json=told)
    with truezero.Client(URL) as client:
        batch = client.batch("b")
        measured = pytest.raises(truezero.AlreadyMeasured, match="t has its 1 repeat")
        with measured, batch.rollout("t", repeats=1):
            pass
        registering.respond(409, json={**told, "code": "batch_policy"})
        with pytest.raises(truezero.ServiceError) as caught, batch.rollout("t"):
            pass
    assert caught.value.code == "batch_policy"


@respx.mock
def test_a_block_makes_its_rollout_the_current_one_and_gives_the_outer_back() -> None:
    respx.post(f"{URL}/rollouts").respond(json=REGISTERED)
    respx.post(f"{URL}/rollouts/r/outcome").respond(json=RESULT)
    respx.get(url__startswith=f"{URL}/rollouts/r/verdict").respond(json=VERDICT)
    with truezero.Client(URL) as client:
        with client.batch("b").rollout("outer") as outer:
            with pytest.raises(KeyError), client.batch("b").rollout("inner") as inner:
                assert truezero.current.get() is inner
                raise KeyError
            assert truezero.current.get() is outer
        assert truezero.current.get() is None

        async def block() -> None:
            async with truezero.AsyncClient(URL) as later:
                async with later.batch("b").rollout("later") as rollout:
                    assert truezero.current.get() is rollout
                assert truezero.current.get() is None

        asyncio.run(block())


# --- Why a loop stopped: said by the loop itself, for each way it can stop ------------------------


@pytest.mark.parametrize(
    ("most", "agent", "user", "said", "reason", "steps"),
    [
        (10, "done", None, ["thinking", "done", "never"], "agent_stop", 2),
        (10, None, "thanks", ["so", "thanks"], "user_stop", 2),
        (3, "done", "done", ["done"], "agent_stop", 1),  # the agent is asked before the user
        (3, "done", "thanks", ["so", "so", "so"], "max_steps", 3),
        (2, "done", None, ["so", "done"], "agent_stop", 2),  # its last step: it did not run out
    ],
)
def test_a_loop_stops_for_a_finished_agent_a_satisfied_user_or_its_last_step(
    most: int, agent: str | None, user: str | None, said: list[str], reason: str, steps: int
) -> None:
    loop = ExecutionLoop(
        most, agent_done=lambda step: step == agent, user_satisfied=lambda step: step == user
    )
    assert loop.run(said.__getitem__) == said[steps - 1]
    assert (loop.termination_reason, loop.steps) == (reason, steps)


def test_a_loop_that_was_left_does_not_know_why() -> None:
    loop = ExecutionLoop(5)
    for step in loop:
        if step == 1:
            break
    assert (loop.termination_reason, loop.steps) == ("unknown", 2)


def test_a_loop_that_broke_does_not_know_why() -> None:
    loop = ExecutionLoop(5, agent_done=bool)
    with pytest.raises(ZeroDivisionError):
        loop.run(lambda number: 1 // number)
    assert (loop.termination_reason, loop.steps) == ("unknown", 1)


async def test_steps_can_be_awaited() -> None:
    loop = ExecutionLoop(5, agent_done=lambda said: said == 2)

    async def step(number: int) -> int:
        return number

    assert await loop.arun(step) == 2
    assert loop.termination_reason == "agent_stop"


def test_a_loop_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ExecutionLoop(0)
