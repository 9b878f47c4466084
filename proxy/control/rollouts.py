"""Rollouts: registration, outcomes and exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from classifier import breakers
from classifier.records import RolloutRecord
from proxy.control.closing import RolloutClosing
from proxy.control.grants import grant
from proxy.control.judge import Judge
from proxy.control.pricing import PriceTable
from proxy.control.queries import PAGE, Queries, unknown_rollout
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.routing.rollout_keys import Keyring
from proxy.routing.target import checked_rollout
from proxy.routing.upstreams import Upstream, normalised
from proxy.store.database import Database
from proxy.store.types import PolicyTerms, Registered, Registration, Reported, Row, as_json
from truezero import models

_REMEMBERED = 100_000  # registered rollouts that are not looked up again
# Of a registration, that an outcome states.
_ATTRIBUTES = {"batch", "task", "repeat", "attempt", "model"}


class RolloutService:
    """Registers rollouts and stores their outcomes.

    Arguments:
        prices: what calls cost where the provider did not say.
        proof_required: base URLs carry the rollout's secret.
        registration_required: an outcome registers no rollout.
        policy: how rollouts are judged where a batch does not say, by ``POLICY_COLUMNS``.
        new_id: makes ids for rollouts registered without one.
        wall: seconds since the epoch.
        changed: called with a rollout whose key's validity or drill has changed.
        closing: ends the calls of a rollout in every process.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        database: Database,
        judge: Judge,
        keyring: Keyring,
        upstreams: Mapping[str, Upstream],
        prices: PriceTable,
        proof_required: bool,
        registration_required: bool,
        policy: Mapping[str, str],
        new_id: Callable[[], str],
        wall: Callable[[], float],
        changed: Callable[[str], None],
        closing: RolloutClosing,
    ) -> None:
        self._queries = queries
        self._database = database
        self._judge = judge
        self._keyring = keyring
        self._upstreams = upstreams
        self._prices = prices
        self._proof_required = proof_required
        self._registration_required = registration_required
        self._policy = policy
        self._new_id = new_id
        self._wall = wall
        self._changed = changed
        self._closing = closing
        self._registered: set[str] = set()

    async def register(
        self, request: models.RolloutRequest, *, public_url: str
    ) -> models.RolloutRegistered:
        """Register a rollout and return the base URLs and key for its agent.

        Raises:
            Refusal: 409 where it is registered with other attributes, 422 for an unknown
                upstream or an id that no rollout can have.
        """
        rollout_id = _nameable(request.id or self._new_id())
        registration = _registration(request, rollout_id, self._upstreams)
        now = self._wall()
        batch, model, upstream = registration.batch, registration.model, registration.upstream
        record = RolloutRecord(id=rollout_id, batch=batch, model=model, upstream=upstream)
        registered = await self._queries.run(
            self._database.rollouts.register,
            registration,
            now=now,
            admit=lambda states: breakers.admit(record, states, now=now),
            policy=PolicyTerms(stated=_stated(request.policy), default=self._policy),
        )
        _check_registered(registration, registered)
        drilled = request.fault is not None
        if drilled:
            self._changed(rollout_id)
        access = partial(
            grant,
            self._keyring,
            self._upstreams,
            rollout_id,
            public_url=public_url,
            proven=drilled or self._proof_required,
        )
        agents = access()
        return models.RolloutRegistered(
            id=rollout_id,
            key=agents.key,
            admitted=registered.skipped is None,
            error=registered.skipped,
            base_urls=agents.base_urls,
            env=agents.env,
            roles={role: access(role=role) for role in request.roles},
        )

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
            _nameable(rollout_id),
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


def _stated(policy: models.BatchPolicy | None) -> dict[str, str]:
    return {} if policy is None else policy.model_dump(exclude_none=True)


def _check_registered(registration: Registration, registered: Registered) -> None:
    """Return if nothing that stands contradicts a registration.

    Raises:
        Refusal: 409 otherwise.
    """
    for name, value in registered.differing.items():
        raise Refusal(
            409,
            "batch_policy",
            f"batch {registration.batch!r} was registered with policy.{name} {value!r}: "
            "it is one for all of its rollouts",
        )
    if registered.conflict:
        raise _other_attributes(registration.id)


def _attributes(outcome: models.OutcomeRequest) -> dict[str, Any]:
    """Return the attributes of a registration that an outcome states, as columns."""
    stated = outcome.model_dump(include=_ATTRIBUTES, exclude_none=True)
    return stated | _models(stated["model"]) if "model" in stated else stated


def _models(named: str | list[str] | None) -> dict[str, str | None]:
    """Return a registered model and its fallbacks as columns."""
    names = list(dict.fromkeys([named] if isinstance(named, str) else named or []))
    return {"model": names[0] if names else None, "fallbacks": "\n".join(names[1:]) or None}


def _registration(
    request: models.RolloutRequest, rollout_id: str, upstreams: Mapping[str, Upstream]
) -> Registration:
    return Registration(
        id=rollout_id,
        batch=request.batch,
        task=request.task,
        repeat=request.repeat,
        repeats=request.repeats,
        attempt=request.attempt,
        **_models(request.model),
        upstream=_known_upstream(request.upstream, upstreams),
        usage_channel=request.usage_channel,
        metadata=as_json(request.metadata) if request.metadata is not None else None,
        fault=as_json(request.fault.model_dump()) if request.fault is not None else None,
    )


def _nameable(rollout_id: str) -> str:
    """Return the id if an agent's calls could have it.

    Raises:
        Refusal: 422 otherwise.
    """
    try:
        return checked_rollout(rollout_id)
    except Refusal as refusal:
        raise Refusal(422, "invalid", refusal.detail) from None


def _check_reported(rollout_id: str, reported: Reported, outcome: str) -> None:
    if reported.outcome is None:
        raise unknown_rollout(rollout_id)
    if reported.conflict:
        raise _other_attributes(rollout_id)
    if reported.outcome != outcome:
        raise Refusal(
            409, "outcome_exists", f"rollout {rollout_id!r} already has a different outcome"
        )


def _not_confirmed() -> Refusal:
    detail = "the key is revoked, but a process has not confirmed that its calls have ended"
    return Refusal(503, "not_confirmed", detail, RETRY_SOON)


def _other_attributes(rollout_id: str) -> Refusal:
    return Refusal(
        409, "rollout_exists", f"rollout {rollout_id!r} already exists with different attributes"
    )


def _known_upstream(name: str | None, upstreams: Mapping[str, Upstream]) -> str | None:
    if name is None:
        return None
    if normalised(name) not in upstreams:
        known = ", ".join(sorted(upstreams))
        raise Refusal(422, "invalid", f"upstream: unknown upstream {name!r}, not one of {known}")
    return normalised(name)
