"""What an exception inside a rollout's block is reported as; the rest is in test_batches."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest
import respx

import truezero
from tests.truezero.sdk.test_client import REGISTERED, RESULT, URL, VERDICT
from truezero.sdk.arguments import OutcomeFacts
from truezero.sdk.rollouts import outcome_of


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
