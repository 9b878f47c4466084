"""Registration of rollouts, one or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from classifier import breakers
from classifier.records import RolloutRecord
from proxy.control.grants import grant
from proxy.control.queries import Queries
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring
from proxy.routing.target import checked_rollout
from proxy.routing.upstreams import Upstream, normalised
from proxy.store.rollouts import Enrolment, Rollouts
from proxy.store.tables import PolicyTerms, Registered, Registration, as_json
from truezero import models


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
        queries: Queries,
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

    def _enrolment(self, request: models.RolloutRequest, now: float) -> Enrolment | Refusal:
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
        return Enrolment(
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
            grant,
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
