"""The work of budgets in a process: to count the calls of rollouts that limits count."""

from __future__ import annotations

import time
from functools import partial

from proxy.features.budgets.hold import CountedCalls
from proxy.features.budgets.provoked import provoked
from proxy.features.budgets.reservations import Reservations
from proxy.features.budgets.settings import BudgetSettings
from proxy.features.budgets.store import Budgets
from proxy.parts import Parts, Started


def start(parts: Parts) -> Started:
    """Have calls that limits count reserve a part of them."""
    budgets, recorder, prices = Budgets(parts.database.connections), parts.recorder, parts.prices
    reservations = Reservations(
        budgets,
        worker=parts.worker,
        watch=lambda ended: recorder.add_observer(lambda result: ended(result.ended)),
        cost=prices.by_tokens,
        provoked=partial(provoked, parts.database.connections, parts.policy),
    )
    rule = CountedCalls(
        budgets,
        reservations,
        output_tokens=parts.settings_of(BudgetSettings).reserved_output_tokens,
        price=prices.of_tokens,
        clock=time.monotonic,
    )
    return Started(rule=rule, stop=reservations.stop)
