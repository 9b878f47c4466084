"""An agent's loop, step by step, that knows why it stopped.

It runs no agent and counts nothing but its own steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from truezero.models import TerminationReason

Seen = Callable[[Any], object]


class ExecutionLoop:
    """At most so many steps, and the reason why there were no more.

    Iterate over it, and put what each step came to into ``last``::

        loop = ExecutionLoop(20, agent_done=lambda answer: answer.finished)
        for step in loop:
            loop.last = agent.act()
        loop.termination_reason  # agent_stop, user_stop, max_steps

    After each step the questions are asked of ``last``; the agent's comes first. A loop
    that was left by ``break`` or by an exception stopped for a reason it does not know.

    Arguments:
        max_steps: at least 1.
        agent_done: whether the agent says that it has finished.
        user_satisfied: whether the user, or who plays it, wants no more.

    Raises:
        ValueError: there would be no step at all.
    """

    def __init__(
        self,
        max_steps: int,
        *,
        agent_done: Seen | None = None,
        user_satisfied: Seen | None = None,
    ) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps: a loop has at least 1 step, not {max_steps}")
        self.max_steps = max_steps
        self.steps = 0
        self.last: Any = None
        self.termination_reason: TerminationReason = "unknown"
        self._questions: tuple[tuple[TerminationReason, Seen | None], ...] = (
            ("agent_stop", agent_done),
            ("user_stop", user_satisfied),
        )

    def __iter__(self) -> Iterator[int]:
        """The numbers of the steps, from 0; a second iteration goes on with the count."""
        self.termination_reason = "unknown"
        while self.steps < self.max_steps:
            number = self.steps
            self.steps += 1
            yield number
            if reason := self._asked():
                self.termination_reason = reason
                return
        self.termination_reason = "max_steps"

    def run(self, step: Callable[[int], Any]) -> Any:
        """Call ``step`` with each number; returns what the last one returned."""
        for number in self:
            self.last = step(number)
        return self.last

    async def arun(self, step: Callable[[int], Awaitable[Any]]) -> Any:
        """Await ``step`` with each number; returns what the last one returned."""
        for number in self:
            self.last = await step(number)
        return self.last

    def _asked(self) -> TerminationReason | None:
        for reason, question in self._questions:
            if question is not None and question(self.last):
                return reason
        return None
