"""Rollouts: outcomes, revocation and exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from proxy.control.closing import RolloutClosing
from proxy.control.judge import Judge
from proxy.control.pricing import PriceTable
from proxy.control.queries import PAGE, Queries, unknown_rollout
from proxy.control.registrar import models_as_columns, nameable, other_attributes
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.store.database import Database
from proxy.store.tables import PolicyTerms, Reported, Row, as_json
from truezero import models

_REMEMBERED = 100_000  # registered rollouts that are not looked up again
# Of a registration, that an outcome states.
_ATTRIBUTES = {"batch", "task", "repeat", "attempt", "model"}


class RolloutService:
    """Stores the outcomes of rollouts, and reads and revokes them.

    Arguments:
        prices: what calls cost where the provider did not say.
        registration_required: an outcome registers no rollout.
        policy: how rollouts are judged where a batch does not say, by ``POLICY_COLUMNS``.
        wall: seconds since the epoch.
        changed: called with a rollout whose key's validity has changed.
        closing: ends the calls of a rollout in every process.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        database: Database,
        judge: Judge,
        prices: PriceTable,
        registration_required: bool,
        policy: Mapping[str, str],
        wall: Callable[[], float],
        changed: Callable[[str], None],
        closing: RolloutClosing,
    ) -> None:
        self._queries = queries
        self._database = database
        self._judge = judge
        self._prices = prices
        self._registration_required = registration_required
        self._policy = policy
        self._wall = wall
        self._changed = changed
        self._closing = closing
        self._registered: set[str] = set()

    async def require_registered(self, rollout_id: str) -> None:
        """Return if the rollout was registered.

        Raises:
            Refusal: 401 otherwise.
        """
        if rollout_id in self._registered:
            return
        if not await self._queries.run(self._database.rollouts.is_registered, rollout_id):
            raise Refusal(
                401,
                "unregistered_rollout",
                "rollout is not registered and TRUEZERO_REQUIRE_REGISTRATION is set; "
                "register it with POST /rollouts first",
            )
        if len(self._registered) > _REMEMBERED:
            self._registered.clear()
        self._registered.add(rollout_id)

    async def row(self, rollout_id: str) -> Row | None:
        """Return a rollout's stored attributes, None if it is unknown."""
        return await self._queries.run(self._database.rollouts.row, rollout_id)

    async def expire(self, rollout_id: str, *, at: float) -> None:
        """Have a rollout's key and secret open nothing from ``at`` (epoch seconds) on."""
        await self._queries.run(self._database.rollouts.expire, rollout_id, at=at)
        self._changed(rollout_id)

    async def revoke(self, rollout_id: str) -> None:
        """Revoke a rollout's key and secret now, and end its calls and sockets.

        Raises:
            Refusal: 503 where a process does not confirm that it has.
        """
        revoke = self._database.rollouts.revoke
        number = await self._queries.run(revoke, rollout_id, now=self._wall())
        if await self._closing.close(rollout_id, number):
            raise _not_confirmed()

    async def aliased(self, alias: str) -> list[str]:
        """List the rollouts registered under an alias whose keys are still valid."""
        return await self._queries.run(self._database.rollouts.aliased, alias, now=self._wall())

    async def report(self, rollout_id: str, request: models.OutcomeRequest) -> dict[str, Any]:
        """Store the outcome a runner reports and return the rollout's result.

        An unknown rollout is registered: its agent may have made no call. Calls and sockets in
        flight are ended; what begins after the answer passes in no process.

        Raises:
            Refusal: 404 for an unknown rollout where registration is required, 409 if it has a
                different outcome or other attributes, 422 for an id that no rollout can have.
        """
        outcome = as_json(request.model_dump(exclude=_ATTRIBUTES))
        reported = await self._queries.run(
            self._database.rollouts.report,
            nameable(rollout_id),
            outcome,
            now=self._wall(),
            attributes=_attributes(request),
            registers=not self._registration_required,
            policy=PolicyTerms(default=self._policy),
        )
        _check_reported(rollout_id, reported, outcome)
        if reported.closing is not None:
            await self._closing.freeze(rollout_id, reported.closing)
        return await self._judge.result(rollout_id)

    async def exchanges(
        self, rollout_id: str, *, after: str | None = None, limit: int = PAGE
    ) -> dict[str, Any]:
        """Return a page of a rollout's calls, oldest first.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        exchanges = await self._queries.run(
            self._database.calls.page, rollout_id, after=after, limit=limit + 1
        )
        if exchanges is None:
            raise unknown_rollout(rollout_id)
        items = await self._queries.run(self._prices.encode, exchanges[:limit])
        return {"items": items, "next": items[-1]["id"] if len(exchanges) > limit else None}


def _attributes(outcome: models.OutcomeRequest) -> dict[str, Any]:
    """Return the attributes of a registration that an outcome states, as columns."""
    stated = outcome.model_dump(include=_ATTRIBUTES, exclude_none=True)
    return stated | models_as_columns(stated["model"]) if "model" in stated else stated


def _check_reported(rollout_id: str, reported: Reported, outcome: str) -> None:
    if reported.outcome is None:
        raise unknown_rollout(rollout_id)
    if reported.conflict:
        raise other_attributes(rollout_id)
    if reported.outcome != outcome:
        raise Refusal(
            409, "outcome_exists", f"rollout {rollout_id!r} already has a different outcome"
        )


def _not_confirmed() -> Refusal:
    detail = "the key is revoked, but a process has not confirmed that its calls have ended"
    return Refusal(503, "not_confirmed", detail, RETRY_SOON)
