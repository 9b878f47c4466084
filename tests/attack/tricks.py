"""Tricks on the reference call: what an agent does so that a zero of its own is not counted.

Unlike the claims of this package, these run in an arena: the service asks its own reference of a
world that answers others while it fails what the agent asks. Each trick says why the zero stays.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.arena.arena import Agent, Arena, arena
from tests.arena.score import Score

TRICKS_A_HOUSE = 20  # a service asks 60 references a minute, some tricks need five
AT_ONCE = 24

Attempt = Callable[[Arena], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trick:
    """What is tried, and why it is in vain; ``attempt`` fails by an ``AssertionError``."""

    family: str
    how: str
    why: str
    attempt: Attempt

    @property
    def name(self) -> str:
        return f"{self.family}: {self.how}"


TRICKS: list[Trick] = []


def trick(family: str, how: str, why: str) -> Callable[[Attempt], Attempt]:
    """Register the decorated attempt."""

    def register(attempt: Attempt) -> Attempt:
        TRICKS.append(Trick(family=family, how=how, why=why, attempt=attempt))
        return attempt

    return register


def scores(tried: Sequence[Trick], home: Path) -> list[Score]:
    """Try tricks, many at once and each on lanes of its own; what each reached."""
    with arena(home, houses=-(-len(tried) // TRICKS_A_HOUSE)) as stage:
        stages = [stage.apart() for _ in tried]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            reached = list(threads.map(broken, stages, tried))
        stage.settle()
        return [
            Score(family=one.family, name=one.name, wrong=found or _lost(mine))
            for one, mine, found in zip(tried, stages, reached, strict=True)
        ]


def broken(stage: Arena, one: Trick) -> str | None:
    """Try one; return what it reached, None where the zero stayed."""
    try:
        one.attempt(stage)
    except Exception as error:  # one that cannot be tried to its end proves nothing
        line = traceback.extract_tb(error.__traceback__)[-1]
        said = (str(error) or type(error).__name__).partition("\n")[0]
        return f"line {line.lineno}: {line.line} ({said[:300]})"
    return None


def _lost(stage: Arena) -> str | None:
    """Say which zero counted at first and does not now that all references have ended."""
    for agent in stage.zeros:
        verdict = agent.verdict()
        if verdict["scoreable"] != "yes":
            return f"a zero that counted was lost later: {verdict['rule']}, {verdict['warnings']}"
    return None


def end_on_a_zero(*agents: Agent) -> None:
    """End rollouts whose zeros must count, now and when all references have ended."""
    for agent in agents:
        agent.end()
    for agent in agents:
        assert_counted(agent)
        agent.stage.zeros.append(agent)


def assert_counted(agent: Agent) -> None:
    """The zero is scoreable and kept, and nothing is to be run again."""
    verdict, rewards = agent.verdict(), agent.result()["rewards"]
    retried = verdict["retry"]["eligible"]
    found = f"{verdict['rule']}, attributed to {verdict['attributed_to']}, {verdict['warnings']}"
    assert verdict["scoreable"] == "yes", f"scoreable {verdict['scoreable']}: {found}"
    assert not retried, f"retried: {found}"
    assert rewards == {"reward": 0.0}, f"rewards {rewards}: {found}"


def assert_excused(agent: Agent) -> None:
    """The zero is not counted, and it is not called the agent's own."""
    verdict, rewards = agent.verdict(), agent.result()["rewards"]
    found = f"{verdict['rule']}, attributed to {verdict['attributed_to']}, {verdict['warnings']}"
    assert verdict["scoreable"] in ("no", "unknown"), f"scoreable yes: {found}"
    assert verdict["scoreable"] == "unknown" or rewards is None, f"rewards {rewards}: {found}"
    assert verdict["attributed_to"] != "agent", found


def statuses(agent: Agent, expected: Sequence[int]) -> None:
    """The attempt was what it says: its calls came to these statuses."""
    assert agent.statuses == list(expected), agent.statuses
