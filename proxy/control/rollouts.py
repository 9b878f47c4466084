"""Rollouts: registration, keys and base URLs, outcomes, revocation, exchanges."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from classifier import breakers
from classifier.records import RolloutRecord
from proxy.control import judge
from proxy.control.pricing import PriceTable
from proxy.control.queries import PAGE, Service, unknown_rollout
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.routing.keys import AGENT, Keyring
from proxy.routing.target import checked_rollout
from proxy.routing.upstreams import Upstream, normalised
from proxy.store.database import Database
from proxy.store.rollouts import PreparedRegistration, Rollouts
from proxy.store.tables import PolicyTerms, Registered, Registration, Reported, Row, as_json
from truezero import models
from truezero.printable import plural

# --- keys and base URLs of a rollout's agent and other roles -----------------------------------


def access_of(
    keyring: Keyring,
    upstreams: Mapping[str, Upstream],
    rollout_id: str,
    *,
    role: str = AGENT,
    public_url: str,
    proven: bool,
) -> models.RoleAccess:
    """Return the access of one role in a rollout; nothing of it is stored.

    Arguments:
        proven: base URLs carry a secret; such a call is looked up in every process at once.
    """
    segment = quote(rollout_id, safe="")
    if proven:
        segment += "~" + keyring.secret_of(rollout_id, role)
    if role != AGENT:
        segment += f"/as/{role}"
    urls = {
        name: f"{public_url}/r/{segment}/{name}{upstream.base_path}"
        for name, upstream in upstreams.items()
        if upstream.url is not None
    }
    return models.RoleAccess(
        key=keyring.mint(rollout_id, role), base_urls=urls, env=_env(urls, upstreams)
    )


def _env(urls: Mapping[str, str], upstreams: Mapping[str, Upstream]) -> dict[str, str]:
    """Map the environment variables of common agents to base URLs."""
    return {
        variable: urls[name]
        for name, upstream in upstreams.items()
        for variable in upstream.env
        if name in urls
    }


# --- registration ------------------------------------------------------------------------------


class Registrar:
    """Registers rollouts and hands out the keys and base URLs of their agents.

    Arguments:
        proof_required: base URLs carry the rollout's secret.
        policy: how rollouts are judged where a batch does not say, by ``POLICY_COLUMNS``.
        new_id: makes ids for rollouts registered without one.
        wall: seconds since the epoch.
        changed: called with a rollout whose drill has changed.
    """

    def __init__(
        self,
        *,
        queries: Service,
        rollouts: Rollouts,
        keyring: Keyring,
        upstreams: Mapping[str, Upstream],
        proof_required: bool,
        policy: Mapping[str, str],
        new_id: Callable[[], str],
        wall: Callable[[], float],
        changed: Callable[[str], None],
    ) -> None:
        self._queries = queries
        self._rollouts = rollouts
        self._keyring = keyring
        self._upstreams = upstreams
        self._proof_required = proof_required
        self._policy = policy
        self._new_id = new_id
        self._wall = wall
        self._changed = changed

    async def register(
        self, request: models.RolloutRequest, *, public_url: str
    ) -> models.RolloutRegistered:
        """Register a rollout and return the base URLs and key for its agent.

        Raises:
            Refusal: 409 where it is registered with other attributes, 422 for an unknown
                upstream or an id that no rollout can have.
        """
        (registered,) = await self.register_all([request], public_url=public_url)
        if isinstance(registered, Refusal):
            raise registered
        return registered

    async def register_all(
        self, requests: Sequence[models.RolloutRequest], *, public_url: str
    ) -> list[models.RolloutRegistered | Refusal]:
        """Register rollouts in one transaction; one that is refused keeps no other back.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        done = await self._queries.run(self._register_all, requests, public_url)
        for request, registered in zip(requests, done, strict=True):
            if request.fault is not None and not isinstance(registered, Refusal):
                self._changed(registered.id)
        return done

    def _register_all(
        self, requests: Sequence[models.RolloutRequest], public_url: str
    ) -> list[models.RolloutRegistered | Refusal]:
        now = self._wall()
        asked = [self._enrolment(request, now) for request in requests]
        valid = [each for each in asked if not isinstance(each, Refusal)]
        stored = iter(self._rollouts.register_all(valid, now=now))
        return [
            each
            if isinstance(each, Refusal)
            else self._answer(request, each.registration, next(stored), public_url)
            for request, each in zip(requests, asked, strict=True)
        ]

    def _enrolment(
        self, request: models.RolloutRequest, now: float
    ) -> PreparedRegistration | Refusal:
        try:
            rollout_id = nameable(request.id or self._new_id())
            registration = _registration(request, rollout_id, self._upstreams)
        except Refusal as refusal:
            return refusal
        record = RolloutRecord(
            id=rollout_id,
            batch=registration.batch,
            model=registration.model,
            upstream=registration.upstream,
        )
        return PreparedRegistration(
            registration=registration,
            admit=lambda states: breakers.admit(record, states, now=now),
            policy=PolicyTerms(stated=_stated(request.policy), default=self._policy),
        )

    def _answer(
        self,
        request: models.RolloutRequest,
        registration: Registration,
        registered: Registered,
        public_url: str,
    ) -> models.RolloutRegistered | Refusal:
        refusal = _refusal(registration, registered)
        if refusal is not None:
            return refusal
        access = partial(
            access_of,
            self._keyring,
            self._upstreams,
            registration.id,
            public_url=public_url,
            proven=request.fault is not None or self._proof_required,
        )
        agents = access()
        return models.RolloutRegistered(
            id=registration.id,
            key=agents.key,
            admitted=registered.skipped is None,
            error=registered.skipped,
            base_urls=agents.base_urls,
            env=agents.env,
            roles={role: access(role=role) for role in request.roles},
        )


def _stated(policy: models.BatchPolicy | None) -> dict[str, str]:
    return {} if policy is None else policy.model_dump(exclude_none=True)


def _refusal(registration: Registration, registered: Registered) -> Refusal | None:
    """Refuse a registration that what stands contradicts: 409; None where nothing does."""
    for name, value in registered.differing.items():
        return Refusal(
            409,
            "batch_policy",
            f"batch {registration.batch!r} was registered with policy.{name} {value!r}: "
            "it is one for all of its rollouts",
        )
    return other_attributes(registration.id) if registered.conflict else None


def models_as_columns(named: str | list[str] | None) -> dict[str, str | None]:
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
        **models_as_columns(request.model),
        upstream=_known_upstream(request.upstream, upstreams),
        usage_channel=request.usage_channel,
        metadata=as_json(request.metadata) if request.metadata is not None else None,
        fault=as_json(request.fault.model_dump()) if request.fault is not None else None,
    )


def nameable(rollout_id: str) -> str:
    """Return the id if an agent's calls could have it.

    Raises:
        Refusal: 422 otherwise.
    """
    try:
        return checked_rollout(rollout_id)
    except Refusal as refusal:
        raise Refusal(422, "invalid", refusal.detail) from None


def other_attributes(rollout_id: str) -> Refusal:
    """Refuse what names a rollout that stands with other attributes."""
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


# --- ending of a rollout's calls, in every process ---------------------------------------------


log = logging.getLogger("truezero")

_ASK_S = 0.05
_CONFIRMED_WITHIN_S = 20.0  # a worker that lives has said so long before; beyond the calls' grace


class RolloutClosing:
    """Ends the calls and sockets of rollouts that have ended, and waits until all are.

    Arguments:
        worker: this process's name in the table of workers.
        close_here: ends the calls of a rollout, under its number, in this process; whether all
            of them ended.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        queries: Service,
        database: Database,
        worker: str,
        close_here: Callable[[str, int], Awaitable[bool]],
        wall: Callable[[], float],
    ) -> None:
        self._queries = queries
        self._closings = database.closings
        self._worker = worker
        self._close_here = close_here
        self._wall = wall

    async def close(self, rollout_id: str, number: int) -> int:
        """End a rollout's calls in every living process, under this number in `closings`.

        Returns:
            How many processes did not confirm that they had, 0 as a rule.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        closed_here = await self._close_here(rollout_id, number)
        silent = await self._elsewhere(rollout_id, number)
        if silent or not closed_here:
            log.error(
                "the calls of an ended rollout were not confirmed as closed by %s",
                plural(len(silent) + (not closed_here), "process", "processes"),
            )
        return len(silent) + (not closed_here)

    async def freeze(self, rollout_id: str, number: int) -> None:
        """Close a rollout and store that; a process that did not confirm is a gap."""
        unconfirmed = await self.close(rollout_id, number)
        await self._queries.run(
            self._closings.closed, rollout_id, now=self._wall(), gaps=unconfirmed
        )

    async def _elsewhere(self, rollout_id: str, number: int) -> list[str]:
        """Wait for the other processes; return those that did not confirm in time."""
        host, loop = socket.gethostname(), asyncio.get_running_loop()
        deadline = loop.time() + _CONFIRMED_WITHIN_S
        while True:
            silent = await self._queries.run(
                self._closings.unconfirmed,
                rollout_id,
                number,
                worker=self._worker,
                host=host,
                now=self._wall(),
            )
            if not silent or loop.time() > deadline:
                return silent
            await asyncio.sleep(_ASK_S)


# --- outcomes and reads ------------------------------------------------------------------------


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
        queries: Service,
        database: Database,
        prices: PriceTable,
        registration_required: bool,
        policy: Mapping[str, str],
        wall: Callable[[], float],
        changed: Callable[[str], None],
        closing: RolloutClosing,
    ) -> None:
        self._queries = queries
        self._database = database
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
        return await judge.result(self._queries, rollout_id)

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
