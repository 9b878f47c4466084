"""A database of believable batches, made by the real observer, control services and store.

A clock of its own drives it. It states no verdict: it plays what providers answered, and the
service judges. Run it as ``python -m tests.fakes.seed FILE``.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from classifier.records import Ending, Exchange
from proxy.capture.observer import CallObserver
from proxy.capture.request import Call
from proxy.control import rollouts
from proxy.routing.headers import key_digest
from proxy.routing.keys import Keyring
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.fakes import answers
from tests.fakes.answers import FAILURES, Api, Fault
from tests.fakes.control import control_over
from tests.fakes.provider import Answer
from truezero import models

SALT = b"seed"
_MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Whom an agent asks: dialect, upstream, path, model and key."""

    api: Api
    upstream: str
    path: str
    model: str
    key: str


GPT = Lane(
    api=Api.CHAT, upstream="openai", path="/v1/chat/completions", model="gpt-5", key="sk-alpha"
)
MINI = replace(GPT, model="gpt-5-mini")
SONNET = Lane(
    api=Api.MESSAGES, upstream="anthropic", path="/v1/messages", model="claude-sonnet-4-5",
    key="sk-ant-beta",
)  # fmt: skip
GEMINI = Lane(
    api=Api.GEMINI, upstream="gemini", path="/v1beta/models/gemini-2.5-pro:generateContent",
    model="gemini-2.5-pro", key="AIza-gamma",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call: what is asked, what comes, and how long it and the pause after it take."""

    lane: Lane
    answer: Answer | None  # None: it is still in flight
    first_byte_s: float
    duration_s: float
    pause_s: float = 0.4
    ending: Ending = Ending.COMPLETE
    ask: int = 0  # equal numbers are the same request sent again


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one agent does, and what its verifier says; no reward: it is still running."""

    task: str
    lane: Lane
    steps: Sequence[Step]
    reward: float | None
    attempt: int = 0
    status: models.ExecutionStatus = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A batch: how many agents at once, when it began, and each run as it comes up.

    ``runs`` yields a function from the seconds since the batch began to the run.
    """

    name: str | None
    began: float
    agents: int
    runs: Iterator[Callable[[float], Run]]
    again: Callable[[Run], Callable[[float], Run]] | None = None


@dataclass
class Clock:
    """Seconds since the epoch, turned by hand."""

    now: float


@dataclass
class Stage:
    """A database, control services and a clock to play batches on."""

    database: Database
    clock: Clock
    luck: random.Random
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.control = control_over(
            self.database,
            keyring=Keyring(self.database.deployment.secret("keyring")),
            new_id=lambda: self.id_at(self.clock.now),
            now=lambda: self.clock.now,
        )

    def id_at(self, at: float) -> str:
        return f"{int(at * 1e6):013x}{next(self.numbers):011x}"

    async def play(self, plan: Plan) -> None:
        """Play a batch in the order in which things happen in it."""
        moments: list[tuple[float, int, str | None, Run | None]] = []
        order = itertools.count()
        for agent in range(plan.agents):
            heapq.heappush(moments, (plan.began + agent * 1.7, next(order), None, None))
        again: list[Callable[[float], Run]] = []
        while moments:
            at, _, ended, run = heapq.heappop(moments)
            self.clock.now = at
            if ended is not None and run is not None:
                verdict = await self._report(ended, run)
                if plan.again and verdict.get("error_category") and verdict.get("transient"):
                    again.append(plan.again(run))
            coming = next(plan.runs, None) or (again.pop(0) if again else None)
            if coming is not None:
                found = coming(at - plan.began)
                done = await self._begin(plan, found)
                who = (done.rollout_id, found) if done.admitted else (None, None)
                heapq.heappush(moments, (done.at, next(order), *who))

    async def _begin(self, plan: Plan, run: Run) -> Begun:
        name = f"{plan.name}/" if plan.name else ""
        asked = models.RolloutRequest(
            id=f"{name}{run.task}.{run.attempt}" if plan.name else run.task,
            batch=plan.name,
            task=run.task if plan.name else None,
            attempt=run.attempt if plan.name else None,
            model=run.lane.model,
            upstream=run.lane.upstream,
        )
        got = await rollouts.register(self.control, asked, public_url="http://127.0.0.1:8383")
        at = self.clock.now + 1.2
        if got.admitted:
            at = self._calls(got.id, run.steps, at) + 2.5
        return Begun(got.id, at, got.admitted)

    def _calls(self, rollout_id: str, steps: Sequence[Step], at: float) -> float:
        opened, recorded = [], []
        for step in steps:
            began, ended = self._call(rollout_id, step, at)
            opened.append(began)
            if ended is not None:
                recorded.append(ended)
                at += step.duration_s + step.pause_s
        self.database.calls.write(CommitBatch(opened=opened, recorded=recorded), worker="seed")
        return at

    def _call(self, rollout_id: str, step: Step, at: float) -> tuple[Exchange, Exchange | None]:
        lane = step.lane
        headers = ((b"content-type", b"application/json"),)
        call = Call(
            id=self.id_at(at), rollout_id=rollout_id, upstream=lane.upstream, method="POST",
            path=lane.path.encode(), key_digest=key_digest(lane.key.encode(), SALT),
            started_at=at, began=at, request_headers=headers,
        )  # fmt: skip
        tap = CallObserver(call, salt=SALT)
        asked = {"model": lane.model, "messages": [step.ask], "tools": [{"type": "function"}]}
        tap.on_request_body(json.dumps(asked).encode())
        opened = tap.in_flight()
        if step.answer is None:
            return opened, None
        named = [(name.encode(), value.encode()) for name, value in step.answer.headers]
        tap.on_response_head(step.answer.status, named, at + step.first_byte_s)
        tap.on_response_body(step.answer.content, at + step.duration_s)
        return opened, tap.finish(step.ending, at + step.duration_s)

    async def _report(self, rollout_id: str, run: Run) -> dict[str, object]:
        if run.reward is None:
            return {}
        seen = models.OutcomeRequest(
            status=run.status,
            termination_reason="agent_stop" if run.status == "success" else None,
            prompts_executed=1,
            rewards={"reward": run.reward},
        )
        return await rollouts.report(self.control, rollout_id, seen)


@dataclass(frozen=True, slots=True)
class Begun:
    """A rollout that was registered, and when its agent will be done."""

    rollout_id: str
    at: float
    admitted: bool


# --- what agents do --------------------------------------------------------------------------


def spoken(lane: Lane, inputs: int, outputs: int, *, tools: bool) -> Answer:
    """A whole healthy answer with these token counts."""
    plain, called = _SPOKEN[lane.api]
    payload = json.loads((called if tools else plain)(lane.model).content)
    usage = payload.get("usage", payload.get("usageMetadata"))
    match lane.api:
        case Api.CHAT:
            usage |= {"prompt_tokens": inputs, "completion_tokens": outputs}
            usage |= {"total_tokens": inputs + outputs}
            usage["prompt_tokens_details"]["cached_tokens"] = inputs // 2
        case Api.MESSAGES:
            usage |= {"input_tokens": inputs // 4, "output_tokens": outputs}
            usage["cache_read_input_tokens"] = inputs - inputs // 4
        case _:
            usage |= {"promptTokenCount": inputs, "candidatesTokenCount": outputs}
            usage |= {"totalTokenCount": inputs + outputs, "cachedContentTokenCount": 0}
    return answers.whole(payload)


_SPOKEN: dict[Api, tuple[Callable[[str], Answer], Callable[[str], Answer]]] = {
    Api.CHAT: (answers.chat, answers.chat_tools),
    Api.MESSAGES: (answers.messages, answers.messages_tools),
    Api.GEMINI: (answers.gemini, answers.gemini_tools),
}


@dataclass
class Agent:
    """An agent like many: it retries a little, and then ends politely."""

    lane: Lane
    luck: random.Random

    def works(self, turns: int) -> list[Step]:
        """Turn after turn, each with a longer context than the one before."""
        return [self._turn(n, last=n == turns - 1) for n in range(turns)]

    def _turn(self, n: int, *, last: bool) -> Step:
        luck = self.luck
        inputs = 2_800 + n * luck.randint(900, 2_600)
        outputs = luck.randint(60, 900)
        first = luck.uniform(0.4, 1.6)
        return Step(
            lane=self.lane,
            answer=spoken(self.lane, inputs, outputs, tools=not last),
            first_byte_s=first,
            duration_s=first + outputs / luck.uniform(60, 120),
            pause_s=luck.uniform(0.3, 4.0),
            ask=luck.getrandbits(40),
        )

    def fails(self, fault: Fault, times: int = 3, *, wait_s: float = 1.0) -> list[Step]:
        """The same request again and again, refused each time."""
        ask = self.luck.getrandbits(40)
        slow = fault is Fault.PROVIDER_ERROR
        return [
            Step(
                lane=self.lane,
                answer=FAILURES[self.lane.api][fault],
                first_byte_s=(took := self.luck.uniform(4, 9) if slow else 0.2),
                duration_s=took + 0.05,
                pause_s=wait_s * 2**n,
                ask=ask,
            )
            for n in range(times)
        ]

    def waits(self) -> Step:
        """A call that nobody has answered yet."""
        return Step(lane=self.lane, answer=None, first_byte_s=0, duration_s=0)


def _bugs(luck: random.Random, count: int) -> list[str]:
    names = ("django", "astropy", "sympy", "matplotlib", "scikit-learn", "sphinx", "xarray")
    return [f"{luck.choice(names)}-{n}" for n in luck.sample(range(10_000, 29_999), count)]


def _first_batch(luck: random.Random, began: float, size: int) -> Plan:
    """An outage in the middle of a long run: what failed is run again, and mends."""
    agent = Agent(GPT, luck)

    def run(task: str, attempt: int = 0) -> Callable[[float], Run]:
        def at(elapsed: float) -> Run:
            steps = agent.works(luck.randint(5, 14))
            reward = float(luck.random() < 0.44)
            if 9 * _MINUTE < elapsed < 14 * _MINUTE and luck.random() < 0.85:
                steps = [*steps[: luck.choice((0, 0, 2, 4))], *agent.fails(Fault.PROVIDER_ERROR)]
                reward = 0.0
            elif luck.random() < 0.22:
                at = luck.randrange(1, len(steps))
                limited = agent.fails(Fault.RATE_LIMIT, luck.randint(1, 2), wait_s=1.5)
                steps = [*steps[:at], *limited, *steps[at:]]
            elif luck.random() < 0.03:
                steps = [*steps[:3], *agent.fails(Fault.REJECTED_REQUEST, 1)]
                reward = 0.0
            elif luck.random() < 0.06:
                steps, reward = agent.fails(Fault.QUOTA), 0.0
            return Run(task=task, lane=GPT, steps=steps, reward=reward, attempt=attempt)

        return at

    return Plan(
        name="swe-verified-gpt-5",
        began=began,
        agents=max(10, size // 12),
        runs=iter([run(task) for task in _bugs(luck, size)]),
        again=lambda failed: run(failed.task, failed.attempt + 1),
    )


def _second_batch(luck: random.Random, began: float, size: int) -> Plan:
    """A key that is revoked on the way: the breaker opens, the rest is held back."""
    agent = Agent(SONNET, luck)

    def run(task: str) -> Callable[[float], Run]:
        def at(elapsed: float) -> Run:
            steps, reward = agent.works(luck.randint(4, 11)), float(luck.random() < 0.55)
            alive = list(_until(4 * _MINUTE - elapsed, steps))
            if len(alive) < len(steps):
                steps, reward = [*alive, *agent.fails(Fault.AUTH, 2)], 0.0
            return Run(task=task, lane=SONNET, steps=steps, reward=reward)

        return at

    tasks = [f"tb-{n:03d}" for n in range(size)]
    return Plan(
        name="terminal-bench-sonnet",
        began=began,
        agents=max(6, size // 8),
        runs=iter([run(t) for t in tasks]),
    )


def _until(moment_s: float, steps: Sequence[Step]) -> Iterator[Step]:
    """The steps that begin before so many seconds have passed."""
    elapsed = 0.0
    for step in steps:
        if elapsed >= moment_s:
            return
        yield step
        elapsed += step.duration_s + step.pause_s


def _third_batch(luck: random.Random, began: float, size: int, name: str = "gaia-nightly") -> Plan:
    """A model that some configurations misspell, and agents that never call."""
    agent = Agent(GEMINI, luck)
    path = "/v1beta/models/gemini-2.5-ultra:generateContent"
    lost = Agent(replace(GEMINI, model="gemini-2.5-ultra", path=path), luck)

    def run(task: str) -> Callable[[float], Run]:
        def at(_elapsed: float) -> Run:
            kind = luck.random()
            if kind < 0.12:
                steps = lost.fails(Fault.MODEL_NOT_FOUND, 2)
                return Run(task=task, lane=lost.lane, steps=steps, reward=0.0)
            if kind < 0.17:
                return Run(task=task, lane=GEMINI, steps=(), reward=0.0)
            if kind < 0.2:
                return Run(
                    task=task, lane=GEMINI, steps=agent.works(3), reward=0.0, status="task_timeout"
                )
            steps = agent.works(luck.randint(2, 7))
            return Run(task=task, lane=GEMINI, steps=steps, reward=float(luck.random() < 0.63))

        return at

    tasks = [f"gaia-level{1 + n % 3}-{n:03d}" for n in range(size)]
    return Plan(
        name=name,
        began=began,
        agents=max(8, size // 8),
        runs=iter([run(t) for t in tasks]),
    )


def _fourth_batch(luck: random.Random, began: float) -> Plan:
    """A batch under way: some are done, some wait for an answer."""
    agent = Agent(MINI, luck)

    def run(n: int) -> Callable[[float], Run]:
        def at(_elapsed: float) -> Run:
            if n < 11:
                steps, reward = agent.works(luck.randint(3, 6)), float(luck.random() < 0.5)
                if n in (4, 7):
                    steps = [*steps[:2], *agent.fails(Fault.RATE_LIMIT, 1), *steps[2:]]
                return Run(task=f"retail-{n:02d}", lane=MINI, steps=steps, reward=reward)
            begun = agent.works(2) if n < 15 else []
            steps = [*begun, agent.waits()]
            return Run(task=f"retail-{n:02d}", lane=MINI, steps=steps, reward=None)

        return at

    runs = iter([run(n) for n in range(16)])
    return Plan(name="tau-bench-live", began=began, agents=5, runs=runs)


def _alone(luck: random.Random, began: float) -> Plan:
    """What a newcomer's first calls leave: rollouts of no batch."""
    agent = Agent(MINI, luck)
    dead = Agent(replace(MINI, key="sk-typo"), luck)

    def good(_elapsed: float) -> Run:
        return Run(task="my-first-rollout", lane=MINI, steps=agent.works(1), reward=None)

    def bad(_elapsed: float) -> Run:
        return Run(
            task="my-second-rollout", lane=MINI, steps=dead.fails(Fault.AUTH, 2), reward=None
        )

    return Plan(name=None, began=began, agents=1, runs=iter([good, bad]))


async def fill(database: Database, *, now: float, scale: float = 1.0) -> None:
    """Play every batch into a prepared database, the last of them ending about ``now``."""
    luck = random.Random(11)
    stage = Stage(database, Clock(now), luck)
    size = int(120 * scale)
    before = random.Random(12)  # its own, so that the others play out as ever
    await stage.play(_third_batch(before, now - 50 * 60 * _MINUTE, size // 4, "gaia-nightly-1"))
    await stage.play(_third_batch(luck, now - 26 * 60 * _MINUTE, size // 2))
    await stage.play(_second_batch(luck, now - 5 * 60 * _MINUTE, size * 2 // 5))
    await stage.play(_first_batch(luck, now - 62 * _MINUTE, size))
    await stage.play(_alone(luck, now - 9 * _MINUTE))
    await stage.play(_fourth_batch(luck, now - 4 * _MINUTE))


def main(path: str, scale: float = 1.0) -> None:
    database = Database(path)
    database.prepare()
    asyncio.run(fill(database, now=time.time(), scale=scale))
    # A worker that lives: its calls in flight are not lost when the service starts.
    database.heartbeat("seed", host="elsewhere", now=time.time() + 3600)
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], *(float(word) for word in sys.argv[2:3]))
