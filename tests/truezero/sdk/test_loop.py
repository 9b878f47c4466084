"""Why a loop stopped: said by the loop itself, for each way it can stop."""

from __future__ import annotations

import pytest

from truezero import ExecutionLoop


def test_an_agent_that_says_it_has_finished_stops_the_loop() -> None:
    loop = ExecutionLoop(10, agent_done=lambda said: said == "done")
    assert loop.run(["thinking", "done", "never"].__getitem__) == "done"
    assert (loop.termination_reason, loop.steps) == ("agent_stop", 2)


def test_a_satisfied_user_stops_the_loop() -> None:
    loop = ExecutionLoop(10, user_satisfied=lambda said: said == "thanks")
    loop.run(["so", "thanks"].__getitem__)
    assert (loop.termination_reason, loop.steps) == ("user_stop", 2)


def test_the_agent_is_asked_before_the_user() -> None:
    loop = ExecutionLoop(3, user_satisfied=bool, agent_done=bool)
    loop.run(lambda _number: True)
    assert (loop.termination_reason, loop.steps) == ("agent_stop", 1)


def test_a_loop_that_runs_out_says_so() -> None:
    loop = ExecutionLoop(3, agent_done=lambda said: said == "done")
    loop.run(lambda number: number)
    assert (loop.termination_reason, loop.steps) == ("max_steps", 3)


def test_an_agent_that_finishes_in_its_last_step_did_not_run_out() -> None:
    loop = ExecutionLoop(2, agent_done=lambda said: said == 1)
    loop.run(lambda number: number)
    assert (loop.termination_reason, loop.steps) == ("agent_stop", 2)


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
