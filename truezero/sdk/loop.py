"""A bounded agent loop that records why it stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from truezero.models import TerminationReason

Condition = Callable[[Any], object]


class ExecutionLoop:
    """A loop of at most ``max_steps`` steps that records why it stopped.

    Iterate over it and store the result of each step in ``last``::

        loop = ExecutionLoop(20, agent_done=lambda answer: answer.finished)
        for step in loop:
            loop.last = agent.act()
        loop.termination_reason  # agent_stop, user_stop, max_steps

    After each step ``agent_done`` and then ``user_satisfied`` are called with ``last``. If the
    loop is left by ``break`` or an exception, the reason is ``unknown``.

    Arguments:
        max_steps: at least 1.
        agent_done: returns whether the agent has finished.
        user_satisfied: returns whether the user, real or simulated, is satisfied.

    Raises:
        ValueError: ``max_steps`` is less than 1.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        agent_done: Condition | None = None,
        user_satisfied: Condition | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps: must be at least 1, not {max_steps}")
        self.max_steps = max_steps
        self.steps = 0
        self.last: Any = None
        self.termination_reason: TerminationReason = "unknown"
        self._conditions: tuple[tuple[TerminationReason, Condition | None], ...] = (
            ("agent_stop", agent_done),
            ("user_stop", user_satisfied),
        )

    def __iter__(self) -> Iterator[int]:
        """Yield step numbers from 0; a second iteration continues the count."""
        self.termination_reason = "unknown"
        while self.steps < self.max_steps:
            number = self.steps
            self.steps += 1
            yield number
            if reason := self._stop_reason():
                self.termination_reason = reason
                return
        self.termination_reason = "max_steps"

    def run(self, step: Callable[[int], Any]) -> Any:
        """Call ``step`` with each number; return the last result."""
        for number in self:
            self.last = step(number)
        return self.last

    async def arun(self, step: Callable[[int], Awaitable[Any]]) -> Any:
        """Await ``step`` with each number; return the last result."""
        for number in self:
            self.last = await step(number)
        return self.last

    def _stop_reason(self) -> TerminationReason | None:
        for reason, condition in self._conditions:
            if condition is not None and condition(self.last):
                return reason
        return None
