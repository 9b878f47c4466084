"""The limits of rollouts and batches, what is spent of them, and their change."""

from __future__ import annotations

from proxy.control.look import Condition, Conditions, link_to
from proxy.control.queries import Service, path_of, unknown_batch, unknown_rollout
from proxy.features.budgets.amounts import LIMITS
from proxy.features.budgets.registration import stored_limits
from proxy.features.budgets.store import Budgets, StoredBudget
from proxy.features.budgets.tables import BATCH, ROLLOUT
from proxy.routing.errors import Refusal
from proxy.store.batch_versions import batch_version
from truezero import models

REACHED = "budget.reached"
"""The kind of alert."""


def _budgets(service: Service) -> Budgets:
    return Budgets(service.database.connections)


async def budget(service: Service, kind: str, name: str) -> models.Budget:
    """Return the budget of a rollout or a batch.

    Arguments:
        kind: ``rollout`` or ``batch``.

    Raises:
        Refusal: 404, it does not exist.
    """
    state = await service.run(_budgets(service).state, kind, name)
    if state is None and kind == ROLLOUT:
        if await service.run(service.database.rollouts.row, name) is None:
            raise unknown_rollout(name)
    elif state is None and await service.read(batch_version, name) is None:
        raise await unknown_batch(service, name)
    return _model(state)


async def shown(service: Service, name: str, *, kind: str) -> models.Budget | None:
    """Return the budget that a page shows; None if no limits are stated."""
    state = await service.run(_budgets(service).state, kind, name)
    return None if state is None or state.limits is None else _model(state)


async def change(service: Service, kind: str, name: str, limits: models.Limits) -> models.Budget:
    """Change limits.

    Raises:
        Refusal: 404, it does not exist; 409, no registration stated limits.
    """
    changed = stored_limits(limits)
    if not await service.run(_budgets(service).change, kind, name, changed):
        await budget(service, kind, name)
        raise Refusal(
            409, "no_limits", f"{kind} {name!r} was registered without limits: nothing is counted"
        )
    return await budget(service, kind, name)


def _model(state: StoredBudget | None) -> models.Budget:
    if state is None:
        return models.Budget(limits=None, spent=None, in_flight=0, reached_at=None)
    return models.Budget(
        limits=None if state.limits is None else models.Limits(**state.limits._asdict()),
        spent=models.Spent(**state.spent._asdict()),
        in_flight=state.in_flight,
        reached_at=state.reached_at,
    )


async def spent_limits(service: Service) -> Conditions:
    """Look for limits that are spent while rollouts of theirs run."""
    found = []
    for row in await service.run(_budgets(service).spent_ones):
        names = [name for name in LIMITS if row[name] is not None]
        pages = "batches" if row["kind"] == BATCH else "rollouts"
        data = {
            row["kind"]: row["name"],
            "limits": {name: row[name] for name in names},
            "spent": {name: row[f"spent_{name}"] for name in names},
            **link_to(service, path_of(pages, row["name"])),
        }
        subject = f"{row['kind']}/{row['name']}"
        found.append(Condition(kind=REACHED, subject=subject, at=row["reached_at"], data=data))
    return Conditions(found=tuple(found), watched=frozenset((REACHED,)))
