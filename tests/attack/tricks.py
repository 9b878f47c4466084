"""Tricks on the reference call: what an agent does so that a zero of its own is not counted.

Unlike the claims of this package, these run in an arena: the service asks its own reference of a
world that answers others while it fails what the agent asks. Each trick says why the zero stays.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.arena import world
from tests.arena.arena import PATIENCE_S, TRUSTED, UNTRUSTED, Agent, Arena, arena
from tests.arena.dialects import Dialect, Question
from tests.arena.score import Score
from tests.arena.world import Behaviour, Failure

TRICKS_A_HOUSE = 20  # a service asks 60 references a minute, some tricks need five
AT_ONCE = 24

POLICIES: Mapping[str, Mapping[str, object]] = {"trusted": TRUSTED, "untrusted": UNTRUSTED}

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


@dataclass(frozen=True, slots=True)
class Alone:
    """An attempt by what is asked: ``asked`` (of `Agent.ask`) fails, a plain question does not.

    Arguments:
        fail: None where the name that is asked for is not served.
        strikes: which questions fail, where that is not seen by ``asked``.
        calls: how often it is asked so.
        first: no call was answered before; ``usual``: it was asked so from the first call on.
        beside: another rollout of the batch is answered.
        named: the model that is asked for, of the lane's own name.
        answers: what other questions get.
    """

    how: str
    fail: Failure | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    calls: int = 2
    strikes: Callable[[Question], bool] | None = None
    dialect: Dialect = Dialect.CHAT
    first: bool = False
    usual: bool = False
    beside: bool = False
    named: str = "{}"
    answers: Behaviour = world.well
    bound: bool = True
    policy: str = "untrusted"
    patience_s: float = PATIENCE_S

    def __call__(self, stage: Arena) -> None:
        house, model = stage.lane()
        name = self.named.format(model)
        agent, *others = (
            stage.agent(house, model, dialect=self.dialect, policy=POLICIES[self.policy],
                        batch=model, bound=self.bound)
            for _ in range(1 + self.beside)
        )  # fmt: skip
        if self.fail:
            stage.world.serve(name)
        assert all(other.ask() == 200 for other in others)
        if not self.first:
            assert agent.ask(**({**self.asked, "model": name} if self.usual else {})) == 200
        if self.fail:
            stage.world.behaves(name, self._behaviour(self.fail))
        for _ in range(self.calls):
            agent.ask(model=name, patience_s=self.patience_s, **self.asked)
        if self.fail:
            assert any(map(self._strikes, stage.world.serve(name).asked)), "nothing was struck"
        else:
            assert agent.statuses[-1] in (400, 404), agent.statuses
        end_on_a_zero(agent)

    def _behaviour(self, fail: Failure) -> Behaviour:
        return lambda asked: fail(asked) if self._strikes(asked) else self.answers(asked)

    def _strikes(self, question: Question) -> bool:
        if self.strikes is not None:
            return self.strikes(question)
        return world.asks(**self.asked)(question)


def alone(family: str, why: str, attempts: Iterable[Alone]) -> None:
    """Register attempts of one family that are in vain for one reason."""
    TRICKS.extend(Trick(family=family, how=each.how, why=why, attempt=each) for each in attempts)


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
    verdict, rewards, found = _came_out(agent)
    retried = verdict["retry"]["eligible"]
    assert verdict["scoreable"] == "yes", f"scoreable {verdict['scoreable']}: {found}"
    assert not retried, f"retried: {found}"
    assert rewards == {"reward": 0.0}, f"rewards {rewards}: {found}"


def assert_excused(agent: Agent) -> None:
    """The zero is not counted, and it is not called the agent's own."""
    verdict, rewards, found = _came_out(agent)
    assert verdict["scoreable"] in ("no", "unknown"), f"scoreable yes: {found}"
    assert verdict["scoreable"] == "unknown" or rewards is None, f"rewards {rewards}: {found}"
    assert verdict["attributed_to"] != "agent", found


def _came_out(agent: Agent) -> tuple[dict[str, Any], object, str]:
    """The verdict, the rewards, and words for what is wrong with them."""
    verdict = agent.verdict()
    found = f"{verdict['rule']}, attributed to {verdict['attributed_to']}, {verdict['warnings']}"
    return verdict, agent.result()["rewards"], found
