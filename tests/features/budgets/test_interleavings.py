"""Limits under random interleavings: none is passed by more than a call, and nobody is starved.

The database is real; clients, clock and the order of events are drawn from a seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from proxy.features.budgets.amounts import Amounts, BudgetKey, BudgetLimits, Made, Reservation
from proxy.features.budgets.store import Budgets
from proxy.features.budgets.tables import BATCH, ROLLOUT
from proxy.store.database import Database
from tests.features.budgets.test_store import register

BATCH_KEY = BudgetKey(BATCH, "b")
ROLLOUTS = ("r", "s", "t")
WORKERS = ("a", "b")
SIZES = (20, 300, 4_096, 32_000)  # the last is the output limit that agents name
LIMITS = (10_000, 50_000, 200_000)
LONGEST_S = 8.0


@dataclass(eq=False, kw_only=True)
class Client:
    """Whoever makes one call of a rollout after the other; an agent is several of them.

    ``calls``: those it has yet to make. ``way``: the budget that its call waits for. ``spent``: the
    limit that refused it is.
    """

    name: str
    rollout_id: str
    calls: int
    size: int
    background: bool
    call: Reservation | None = None
    way: BudgetKey | None = None
    made: Made | None = None
    ends: float = 0.0
    spent: bool = False

    @property
    def is_done(self) -> bool:
        return self.spent or (self.call is None and self.calls == 0)


class Interleaving:
    """A batch's clients, one of which goes on at each step."""

    def __init__(self, database: Database, seed: int) -> None:
        self.random = Random(seed)
        self.budgets = Budgets(database.connections)
        self.now = 0.0
        self.limits = {BATCH_KEY: self.random.choice(LIMITS)}
        for rollout_id in ROLLOUTS:
            own = self.random.choice((None, *LIMITS))
            register(
                database,
                rollout_id,
                batch="b",
                limits=None if own is None else BudgetLimits(tokens=own),
                batch_limits=BudgetLimits(tokens=self.limits[BATCH_KEY]),
            )
            if own is not None:
                self.limits[BudgetKey(ROLLOUT, rollout_id)] = own
        self.clients = [self.client(number) for number in range(12)]
        self.largest = max(client.size for client in self.clients)

    def client(self, number: int) -> Client:
        return Client(
            name=f"c{number}",
            rollout_id=self.random.choice(ROLLOUTS),
            calls=self.random.randint(1, 5),
            size=self.random.choice(SIZES),
            background=self.random.random() < 0.2,
        )

    def run(self) -> None:
        """Let all make their calls, until these are made or a limit is spent."""
        for _ in range(20_000):
            busy = [client for client in self.clients if not client.is_done]
            if not busy:
                return
            self.now += self.random.random()
            able = [each for each in busy if each.made is None or each.ends <= self.now]
            if able:
                self.step(self.random.choice(able))
            else:
                self.now += LONGEST_S / 10
        raise AssertionError("somebody waits for ever, though no limit of theirs is spent")

    def step(self, client: Client) -> None:
        if client.made is not None:
            self.end(client)
        elif client.call is not None and self.random.random() < 0.02:
            self.leave(client, client.call)
        else:
            self.ask(client)

    def ask(self, client: Client) -> None:
        """Try to reserve, for the first time or again, in whichever process."""
        if client.call is None:
            client.call = Reservation(
                id=f"{client.name}-{client.calls}",
                rollout_id=client.rollout_id,
                is_agents=True,
                amounts=Amounts(1, client.size),
                since=self.now,
            )
            client.calls -= 1
        worker = self.random.choice(WORKERS)
        answer = self.budgets.reserve(client.call, worker=worker, now=self.now)
        assert answer is not None
        if isinstance(answer, Made):
            self.check_overtakes_nobody(client.call, answer)
            client.made, client.way = answer, None
            client.ends = self.now + self.random.uniform(0.0, LONGEST_S)
        elif answer.limit.is_spent:
            self.leave(client, client.call)
            client.spent = True
        else:
            client.way = answer.budget

    def leave(self, client: Client, call: Reservation) -> None:
        self.budgets.end_wait(call.id)
        client.call = client.way = None

    def end(self, client: Client) -> None:
        """Settle a call that was answered, given up or failed by its provider, or goes on."""
        call = client.call
        assert call is not None
        unknown = client.background or self.random.random() < 0.2
        failed = not unknown and self.random.random() < 0.1
        tokens = client.size if unknown else self.random.randint(0, client.size)
        self.budgets.settle({call.id: Amounts() if failed else Amounts(1, tokens)})
        client.made = client.call = None
        self.check_limits()

    def check_overtakes_nobody(self, call: Reservation, made: Made) -> None:
        waiting = [x.call for x in self.clients if x.call is not None and x.way in made.budgets]
        overtaken = [each.id for each in waiting if each.since < call.since]
        assert overtaken == [], f"{call.id} overtakes"

    def check_limits(self) -> None:
        for key, most in self.limits.items():
            state = self.budgets.state(*key)
            assert state is not None
            assert state.spent.tokens < most + self.largest, f"{key} is passed by several calls"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_no_limit_is_passed_by_more_than_one_call_and_nobody_is_starved(
    database: Database, seed: int
) -> None:
    interleaving = Interleaving(database, seed)
    interleaving.run()
    for client in interleaving.clients:
        if client.spent:
            own = BudgetKey(ROLLOUT, client.rollout_id)
            states = [interleaving.budgets.state(*key) for key in (own, BATCH_KEY)]
            limits = [interleaving.limits.get(key) for key in (own, BATCH_KEY)]
            assert any(
                state is not None and most is not None and state.spent.tokens >= most
                for state, most in zip(states, limits, strict=True)
            ), f"{client.name} is refused, though spending has room"
