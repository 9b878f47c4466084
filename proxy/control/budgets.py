"""The limits of rollouts and batches, what is spent of them, and their change."""

from __future__ import annotations

import logging
from functools import cache

from proxy.budgets import LIMITS, BudgetLimits
from proxy.control.queries import Service, unknown_batch, unknown_rollout
from proxy.routing.errors import Refusal
from proxy.store.batch_versions import batch_version
from proxy.store.budgets import ROLLOUT, StoredBudget
from truezero import models

log = logging.getLogger("truezero")


async def budget(service: Service, kind: str, name: str) -> models.Budget:
    """Return the budget of a rollout or a batch.

    Arguments:
        kind: as in `proxy.store.budgets`.

    Raises:
        Refusal: 404, it does not exist.
    """
    state = await service.run(service.database.budgets.state, kind, name)
    if state is None and kind == ROLLOUT:
        if await service.run(service.database.rollouts.row, name) is None:
            raise unknown_rollout(name)
    elif state is None and await service.read(batch_version, name) is None:
        raise unknown_batch(name)
    return _model(state)


async def shown(service: Service, kind: str, name: str) -> models.Budget | None:
    """Return the budget that a page shows; None if no limits apply."""
    state = await service.run(service.database.budgets.state, kind, name)
    return None if state is None else _model(state)


async def change(service: Service, kind: str, name: str, limits: models.Limits) -> models.Budget:
    """Change limits.

    Raises:
        Refusal: 404, it does not exist; 409, no registration stated limits.
    """
    changed = stored_limits(limits)
    if not await service.run(service.database.budgets.change, kind, name, changed):
        await budget(service, kind, name)
        raise Refusal(
            409, "no_limits", f"{kind} {name!r} was registered without limits: nothing is counted"
        )
    return await budget(service, kind, name)


def stored_limits(limits: models.Limits) -> BudgetLimits:
    """Return limits as they are stored; a field that is gone is logged once."""
    for name in limits.model_fields_set.difference(LIMITS):
        _warn_of(name)
    return BudgetLimits(limits.calls, limits.tokens, limits.cost_usd, limits.seconds)


@cache
def _warn_of(name: str) -> None:
    log.warning("`%s` of limits is gone: calls beyond a limit are refused", name)


def _model(state: StoredBudget | None) -> models.Budget:
    if state is None:
        return models.Budget(limits=None, spent=None, in_flight=0, reached_at=None)
    return models.Budget(
        limits=None if state.limits is None else models.Limits(**state.limits._asdict()),
        spent=models.Spent(**state.spent._asdict()),
        in_flight=state.in_flight,
        reached_at=state.reached_at,
    )
