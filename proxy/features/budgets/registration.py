"""Limits as registrations state them: the first one of a batch says what the batch has."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select

from proxy.features.budgets.amounts import LIMITS, BudgetLimits
from proxy.features.budgets.tables import BATCH, ROLLOUT, budgets
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import IDS, as_json, insert_into, rollouts
from truezero import models

log = logging.getLogger("truezero")

FIELDS = ("limits", "batch_limits")
_FEATURE = "budgets"


class AskedLimits(NamedTuple):
    """The limits that one registration states, of its rollout and of its batch."""

    own: BudgetLimits | None = None
    together: BudgetLimits | None = None


def prepare(request: models.RolloutRequest) -> AskedLimits:
    """Return the limits that a request states."""
    own, together = request.limits, request.batch_limits
    return AskedLimits(
        None if own is None else stored_limits(own),
        None if together is None else stored_limits(together),
    )


def stored_limits(limits: models.Limits) -> BudgetLimits:
    """Return limits as they are stored; a field that is gone is logged once."""
    for name in limits.model_fields_set.difference(LIMITS):
        _warn_of(name)
    return BudgetLimits(limits.calls, limits.tokens, limits.cost_usd, limits.seconds)


@cache
def _warn_of(name: str) -> None:
    log.warning("`%s` of limits is gone: calls beyond a limit are refused", name)


class RegisteredLimits:
    """The limits that the registrations of one transaction state, and those stored before."""

    def __init__(
        self, connection: Connection, registrations: Sequence[PreparedRegistration], _now: float
    ) -> None:
        self._connection = connection
        named = [each.registration for each in registrations]
        ids, batches = {each.id for each in named}, {each.batch for each in named} - {None}
        rows = connection.execute(_DECLARED, {"ids": list(ids), "batches": list(batches)})
        self._stated = {(row.kind, row.name): _stated(row.declared) for row in rows}
        self._free: set[str | None] = set()  # batches without limits
        self._new: dict[tuple[str, str], dict[str, Any]] = {}

    def differs(self, prepared: PreparedRegistration) -> bool:
        """Return True if a rollout was registered with other limits."""
        return self._stated.get((ROLLOUT, prepared.registration.id)) != _asked(prepared).own

    def refuses(self, prepared: PreparedRegistration) -> str | None:
        """Return why a batch cannot have the limits that a registration states for it.

        Its first registration states them; each other one states the same, or none.
        """
        batch, limits = prepared.registration.batch, _asked(prepared).together
        if batch is None or limits is None:
            return None
        if (BATCH, batch) in self._stated:
            allowed = self._stated[BATCH, batch] == limits
        else:
            others = (rollouts.c.batch == batch) & (rollouts.c.id != prepared.registration.id)
            first = select(rollouts.c.id).where(others).limit(1)
            allowed = batch not in self._free and self._connection.scalar(first) is None
        if allowed:
            return None
        return (
            f"batch {batch!r} was registered with other limits, or without any: its first "
            "registration states them, and POST /batches/…/limits changes them"
        )

    def take(self, prepared: PreparedRegistration) -> None:
        """Store what a registration states with the next `write`."""
        batch, (own, together) = prepared.registration.batch, _asked(prepared)
        if batch is not None and together is not None:
            self._take(BATCH, batch, None, together)
        if (BATCH, batch) not in self._stated:
            self._free.add(batch)
        if own is not None or batch not in self._free:
            self._take(ROLLOUT, prepared.registration.id, batch, own)

    def _take(self, kind: str, name: str, batch: str | None, limits: BudgetLimits | None) -> None:
        if (kind, name) in self._stated:
            return
        self._stated[kind, name] = limits
        stated = BudgetLimits() if limits is None else limits
        text = None if limits is None else as_json(limits._asdict())
        row = {"kind": kind, "name": name, "batch": batch, "declared": text}
        self._new[kind, name] = row | stated._asdict() | _FOR_0_2

    def rules(self, rollout_id: str) -> bool:
        """Return True if limits count a rollout's calls."""
        return (ROLLOUT, rollout_id) in self._stated

    def skips(self, _prepared: PreparedRegistration) -> None:
        """Skip none: calls beyond a limit are refused."""

    def write(self) -> None:
        """Write what was taken."""
        if self._new:
            added = insert_into(self._connection.dialect.name, budgets).on_conflict_do_nothing()
            self._connection.execute(added, [self._new[key] for key in sorted(self._new)])


begin = RegisteredLimits


def _asked(prepared: PreparedRegistration) -> AskedLimits:
    asked: AskedLimits = prepared.asked.get(_FEATURE, AskedLimits())
    return asked


_DECLARED = select(budgets.c.kind, budgets.c.name, budgets.c.declared).where(
    ((budgets.c.kind == ROLLOUT) & budgets.c.name.in_(IDS))
    | ((budgets.c.kind == BATCH) & budgets.c.name.in_(bindparam("batches", expanding=True)))
)

# A service of 0.2 that runs beside this one reads them where a call meets a limit.
_FOR_0_2 = {"on_limit": "refuse", "pause_s": 60.0}


def _stated(declared: str | None) -> BudgetLimits | None:
    """Read limits as registered; 0.2 stored more fields."""
    if declared is None:
        return None
    stated = json.loads(declared)
    return BudgetLimits(*(stated[name] for name in LIMITS))
