"""Budgets: declared once, reserved before a call and settled after it, in all processes alike."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from classifier.records import Ending, LimitReached
from proxy.features.budgets.amounts import Amounts, BudgetLimits, InTheWay, Made, Reservation
from proxy.features.budgets.registration import AskedLimits
from proxy.features.budgets.store import Budgets, StoredBudget
from proxy.features.budgets.tables import budgets
from proxy.store.database import Database
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import CommitBatch, Registered, Registration
from tests.builders import limit_reached
from tests.proxy.store.records import FULL

HUNDRED = BudgetLimits(tokens=100)
UNREAD = Amounts(1, 1000)


def register(
    database: Database,
    rollout_id: str,
    *,
    batch: str | None = None,
    limits: BudgetLimits | None = None,
    batch_limits: BudgetLimits | None = None,
) -> Registered:
    asked = PreparedRegistration(
        registration=Registration(id=rollout_id, batch=batch),
        asked={"budgets": AskedLimits(limits, batch_limits)},
    )
    return database.rollouts.register_all([asked], now=1.0)[0]


def reserve(
    database: Database,
    call_id: str,
    rollout_id: str = "r",
    *,
    amounts: Amounts = UNREAD,
    is_agents: bool = True,
    worker: str = "w",
    since: float = 5.0,
) -> Amounts | LimitReached | None:
    """What a call reserved, or the limit in its way."""
    reservation = Reservation(
        id=call_id, rollout_id=rollout_id, is_agents=is_agents, amounts=amounts, since=since
    )
    answer = Budgets(database.connections).reserve(reservation, worker=worker, now=5.0)
    match answer:
        case Made():
            return answer.amounts
        case InTheWay():
            return answer.limit
    return None


def spend(database: Database, call_id: str, rollout_id: str = "r", **amounts: Any) -> None:
    """One call from its reservation to its end."""
    assert isinstance(reserve(database, call_id, rollout_id), Amounts)
    Budgets(database.connections).settle({call_id: Amounts(calls=1)._replace(**amounts)})


def state(database: Database, kind: str = "rollout", name: str = "r") -> StoredBudget:
    found = Budgets(database.connections).state(kind, name)
    assert found is not None
    return found


def test_a_rollout_without_limits_is_not_counted(database: Database) -> None:
    register(database, "r", batch="b")
    assert reserve(database, "c") is None
    assert Budgets(database.connections).state("rollout", "r") is None
    assert Budgets(database.connections).limited() == frozenset()


def test_a_call_that_ended_is_spent_of_its_rollout_and_its_batch(database: Database) -> None:
    register(database, "r", batch="b", limits=HUNDRED, batch_limits=BudgetLimits(cost_usd=2.5))
    register(database, "s", batch="b")
    assert Budgets(database.connections).limited() == {"r", "s"}
    spend(database, "c1", tokens=30, cost_usd=0.5, seconds=1.5)
    spend(database, "c2", "s", tokens=9, cost_usd=0.25, seconds=0.5)
    assert state(database).spent == Amounts(1, 30, 0.5, 1.5)
    assert state(database).limits == HUNDRED
    assert state(database, name="s").limits is None
    assert state(database, "batch", "b").spent == Amounts(2, 39, 0.75, 2.0)


def test_a_settled_call_counts_once(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    reserve(database, "c")
    for _ in range(2):
        Budgets(database.connections).settle({"c": Amounts(1, 30), "unknown": Amounts(1, 50)})
    assert state(database).spent == Amounts(1, 30, 0.0, 0.0)
    assert state(database).in_flight == 0


@pytest.mark.parametrize(
    ("limits", "each", "admitted"),
    [
        (BudgetLimits(calls=3), Amounts(1), 3),
        (BudgetLimits(tokens=100), Amounts(1, 30), 4),  # the one that crosses it is let end
        (BudgetLimits(tokens=90), Amounts(1, 30), 3),
        (BudgetLimits(cost_usd=1.0), Amounts(1, 0, 0.5), 2),
        (BudgetLimits(seconds=5.0), Amounts(1, 0, 0.0, 2.0), 3),
        (BudgetLimits(calls=5, tokens=60), Amounts(1, 30), 2),
        (BudgetLimits(calls=1), Amounts(0, 9), 9),  # a call that the provider failed
    ],
)
def test_calls_one_after_the_other_end_at_the_limit(
    database: Database, limits: BudgetLimits, each: Amounts, admitted: int
) -> None:
    register(database, "r", limits=limits)
    for number in range(9):
        found = reserve(database, f"c{number}")
        if isinstance(found, LimitReached):
            assert found.is_spent
            assert number == admitted
            return
        Budgets(database.connections).settle({f"c{number}": each})
    assert admitted == 9


def test_calls_at_once_do_not_pass_a_limit_together(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    spend(database, "first", tokens=30)
    thirty = Amounts(1, 30)
    answers = [reserve(database, f"c{number}", amounts=thirty) for number in range(5)]
    assert [isinstance(each, Amounts) for each in answers] == [True, True, False, False, False]
    refused = answers[-1]
    assert isinstance(refused, LimitReached)
    assert not refused.is_spent, "what is left may be settled as less"
    Budgets(database.connections).settle({"c0": Amounts(1, 5)})
    assert isinstance(reserve(database, "c2", amounts=thirty), Amounts)


def test_processes_that_reserve_at_once_do_not_pass_a_limit(database_url: str) -> None:
    replicas = [Database(database_url) for _ in range(2)]
    replicas[0].prepare()
    register(replicas[0], "r", limits=BudgetLimits(calls=7))
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(reserve, replicas[n % 2], f"c{n}") for n in range(40)]
        admitted = [each for each in asked if isinstance(each.result(), Amounts)]
    assert len(admitted) == 7
    for replica in replicas:
        replica.close()


def test_what_a_small_call_took_is_not_what_a_large_one_reserves(database: Database) -> None:
    register(database, "r", batch="b", limits=HUNDRED, batch_limits=BudgetLimits(cost_usd=1.0))
    spend(database, "small", tokens=1, cost_usd=0.01, seconds=9.0)
    large = Amounts(1, 90, 0.9, 30.0)
    assert reserve(database, "large", amounts=large) == large._replace(seconds=9.0)
    assert isinstance(reserve(database, "small-again", amounts=Amounts(1, 10)), LimitReached)


def test_a_call_without_a_price_reserves_what_the_dearest_before_it_cost(
    database: Database,
) -> None:
    register(database, "r", limits=BudgetLimits(cost_usd=1.0))
    spend(database, "first", cost_usd=0.25)
    assert reserve(database, "next", amounts=Amounts(1, 9, math.inf)) == Amounts(1, 9, 0.25)


def test_calls_that_wait_go_on_oldest_first_whoever_asks_first(database: Database) -> None:
    for name in ("r", "s", "t"):
        register(database, name, batch="b", batch_limits=HUNDRED)
    assert isinstance(reserve(database, "running", amounts=Amounts(1, 60)), Amounts)
    large, small = Amounts(1, 80), Amounts(1, 10)
    assert isinstance(reserve(database, "large", "s", amounts=large, since=6.0), LimitReached)
    behind = reserve(database, "small", "t", amounts=small, since=7.0)
    assert isinstance(behind, LimitReached), "it would keep the large one waiting"
    assert (behind.is_spent, behind.by_others) == (False, True)
    assert isinstance(reserve(database, "earlier", "t", amounts=small, since=5.5), Amounts)
    Budgets(database.connections).settle({"running": Amounts(1, 5), "earlier": Amounts(1, 5)})
    assert isinstance(reserve(database, "small", "t", amounts=small, since=7.0), LimitReached)
    assert isinstance(reserve(database, "large", "s", amounts=large, since=6.0), Amounts)
    assert isinstance(reserve(database, "small", "t", amounts=small, since=7.0), Amounts)


def test_whoever_no_longer_waits_keeps_nobody_waiting(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    assert isinstance(reserve(database, "running", amounts=Amounts(1, 60)), Amounts)
    for worker, left in (("w", "left"), ("dead", "lost")):
        large = reserve(database, left, amounts=Amounts(1, 90), since=6.0, worker=worker)
        assert isinstance(large, LimitReached)
    Budgets(database.connections).end_wait("left")
    assert isinstance(reserve(database, "next", amounts=Amounts(1, 9), since=7.0), LimitReached)
    database.heartbeat("dead", host="here", now=1000.0)
    database.workers.retire("dead")
    assert isinstance(reserve(database, "next", amounts=Amounts(1, 9), since=7.0), Amounts)


def test_a_wait_is_the_others_doing_unless_the_rollouts_own_calls_are_in_its_way(
    database: Database,
) -> None:
    for name in ("r", "s"):
        register(database, name, batch="b", batch_limits=HUNDRED)
    assert isinstance(reserve(database, "c1", amounts=Amounts(1, 60)), Amounts)
    for rollout_id, by_others in (("r", False), ("s", True)):
        reached = reserve(database, f"of-{rollout_id}", rollout_id, amounts=Amounts(1, 60))
        assert isinstance(reached, LimitReached)
        assert reached.by_others is by_others


def test_a_first_call_reserves_what_its_request_says_or_all_that_is_left(
    database: Database,
) -> None:
    register(database, "r", limits=BudgetLimits(tokens=100, cost_usd=2.0))
    assert reserve(database, "c1", amounts=Amounts(1, 40)) == Amounts(1, 40)
    assert isinstance(reserve(database, "c2", amounts=Amounts(1, 70)), LimitReached)
    Budgets(database.connections).end_wait("c2")
    unpriced = Amounts(1, 40, math.inf)
    assert isinstance(reserve(database, "c3", amounts=unpriced), LimitReached)
    Budgets(database.connections).settle({"c1": Amounts(0, 0)})
    assert reserve(database, "c3", amounts=unpriced) == Amounts(1, 40, 2.0)
    assert isinstance(reserve(database, "c4", amounts=Amounts(1, 1, 0.1)), LimitReached)


def test_a_call_larger_than_what_is_left_runs_alone(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    assert isinstance(reserve(database, "c", amounts=Amounts(1, 5000)), Amounts)


def test_a_rollout_cannot_spend_anothers_limit(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    register(database, "s", limits=HUNDRED)
    spend(database, "c", "s", tokens=500)
    assert state(database).spent == Amounts()
    assert isinstance(reserve(database, "c2", "r"), Amounts)
    assert isinstance(reserve(database, "c3", "s"), LimitReached)


def test_other_roles_count_for_the_batch_alone_and_are_never_refused(database: Database) -> None:
    register(database, "r", batch="b", limits=HUNDRED, batch_limits=BudgetLimits(tokens=50))
    assert isinstance(reserve(database, "j1", is_agents=False), Amounts)
    Budgets(database.connections).settle({"j1": Amounts(1, 60)})
    assert state(database).spent == Amounts()
    assert state(database, "batch", "b").spent == Amounts(1, 60, 0.0, 0.0)
    assert isinstance(reserve(database, "j2", is_agents=False), Amounts)
    assert isinstance(reserve(database, "c"), LimitReached)


def test_a_refusal_says_whose_limit_was_spent_by_how_many(database: Database) -> None:
    for name in ("r", "s", "t"):
        register(database, name, batch="b", batch_limits=BudgetLimits(calls=3))
    spend(database, "c1")
    spend(database, "c2")
    spend(database, "c3", "s")
    of_caller, of_other = reserve(database, "c4"), reserve(database, "c5", "t")
    assert isinstance(of_other, LimitReached)
    assert of_caller == LimitReached(
        scope="batch", limit="calls", most=3, spent=3, own=2, callers=2, at=5.0
    )
    assert (of_other.own, of_other.callers) == (0, 3)


def test_the_first_limit_that_refused_a_call_stands(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    Budgets(database.connections).refused("r", limit_reached("rollout"))
    Budgets(database.connections).refused("r", limit_reached("batch"))
    loaded = database.rollouts.load("r")
    assert loaded is not None
    assert loaded[1].limit_reached == limit_reached("rollout")


def test_a_raised_limit_lets_calls_go_on(database: Database) -> None:
    register(database, "r", limits=BudgetLimits(calls=1))
    spend(database, "c1")
    assert isinstance(reserve(database, "c2"), LimitReached)
    assert state(database).reached_at == 5.0
    assert [row["name"] for row in Budgets(database.connections).spent_ones()] == ["r"]
    assert Budgets(database.connections).change("rollout", "r", BudgetLimits(calls=2))
    assert state(database).reached_at is None
    assert isinstance(reserve(database, "c2"), Amounts)
    assert not Budgets(database.connections).change("rollout", "s", BudgetLimits(calls=2))


def test_limits_are_declared_once(database: Database) -> None:
    assert not register(database, "r", limits=HUNDRED).conflict
    assert not register(database, "r", limits=HUNDRED).conflict
    assert register(database, "r", limits=BudgetLimits(tokens=101)).conflict
    assert register(database, "r").conflict
    ten = BudgetLimits(calls=10)
    assert not register(database, "b1", batch="b", batch_limits=ten).refused
    Budgets(database.connections).change("batch", "b", BudgetLimits(calls=20))
    assert not register(database, "b2", batch="b", batch_limits=ten).refused, "as registered"
    assert not register(database, "b3", batch="b").refused
    assert register(database, "b4", batch="b", batch_limits=BudgetLimits(calls=20)).refused
    register(database, "f1", batch="free")
    assert register(database, "f2", batch="free", batch_limits=ten).refused, "f1 is not counted"


def test_limits_that_0_2_stored_are_the_same_limits(database: Database) -> None:
    register(database, "r", limits=HUNDRED)
    stated = HUNDRED._asdict() | {"on_limit": "pause", "pause_s": 9.0}
    with database.connections.writing() as connection:
        connection.execute(update(budgets).values(declared=json.dumps(stated)))
    assert not register(database, "r", limits=HUNDRED).conflict
    assert state(database).limits == HUNDRED


def test_what_a_dead_process_reserved_is_spent_if_the_call_is_on_record(
    database: Database,
) -> None:
    register(database, "r", limits=HUNDRED)
    database.heartbeat("dead", host="here", now=1000.0)
    for call in ("recorded", "lost"):
        amounts = Amounts(1, 40, 0.25, 1.0)
        assert isinstance(reserve(database, call, amounts=amounts, worker="dead"), Amounts)
    whole = replace(FULL, id="recorded", rollout_id="r", ending=Ending.COMPLETE)
    database.calls.write(CommitBatch(recorded=[whole]), worker="dead")
    database.workers.retire("dead")
    assert state(database).in_flight == 0
    assert state(database).spent == Amounts(1, 40, 0.25, 1.0)
