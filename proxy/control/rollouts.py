"""Rollouts: registration, keys and base URLs, outcomes, revocation, exchanges."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from classifier.verdicts import NO_REFERENCE, UNTRUSTED
from proxy.capture.request import response_digest
from proxy.control import judge
from proxy.control.queries import PAGE, Service, run_in_thread, unknown_rollout
from proxy.feature import modules
from proxy.routing.errors import RETRY_SOON, Refusal
from proxy.routing.keys import AGENT, Keyring
from proxy.routing.target import checked_rollout
from proxy.routing.upstreams import Upstream, normalised
from proxy.store.open_places import NotJudged
from proxy.store.rollouts import PreparedRegistration
from proxy.store.tables import (
    POLICY_COLUMNS,
    PolicyTerms,
    Registered,
    Registration,
    Reported,
    as_json,
)
from truezero import models
from truezero.mistakes import meant
from truezero.printable import plural

Stored = TypeVar("Stored")

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


async def register(
    service: Service, request: models.RolloutRequest, *, public_url: str
) -> models.RolloutRegistered:
    """Register a rollout and return the base URLs and key for its agent.

    Raises:
        Refusal: 409 if it is registered with other attributes, 422 for an unknown upstream or an
            id that no rollout can have.
    """
    (registered,) = await register_all(service, [request], public_url=public_url)
    if isinstance(registered, Refusal):
        raise registered
    return registered


async def register_all(
    service: Service, requests: Sequence[models.RolloutRequest], *, public_url: str
) -> list[models.RolloutRegistered | Refusal]:
    """Register rollouts in one transaction; one that is refused keeps no other back.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    answers, looked_up = await service.run(_register_all, service, requests, public_url)
    for rollout_id in looked_up:
        service.access_changed(rollout_id)
    return answers


def _register_all(
    service: Service, requests: Sequence[models.RolloutRequest], public_url: str
) -> tuple[list[models.RolloutRegistered | Refusal], list[str]]:
    """Return the answers, and the rollouts whose calls every process is to look up at once."""
    now = service.now()
    prepared = [_prepared(service, request) for request in requests]
    valid = [each for each in prepared if not isinstance(each, Refusal)]
    stored = _judging(service, partial(service.database.rollouts.register_all, valid, now=now))
    following = iter(stored)
    answers = [
        each
        if isinstance(each, Refusal)
        else _registered(service, request, each.registration, next(following), public_url)
        for request, each in zip(requests, prepared, strict=True)
    ]
    looked_up = [
        each.registration.id
        for each, registered in zip(valid, stored, strict=True)
        if registered.ruled
    ]
    return answers, looked_up


def _judging(service: Service, store: Callable[..., Stored]) -> Stored:
    """Store what depends on whether other rollouts are measured; those are judged first."""
    measured: dict[str, bool] = {}
    while True:
        try:
            return store(measured=measured)
        except NotJudged as missing:
            measured |= {name: judge.is_measured(service, name) for name in missing.rollout_ids}


def _prepared(service: Service, request: models.RolloutRequest) -> PreparedRegistration | Refusal:
    try:
        rollout_id = nameable(request.id or service.new_id())
        registration = _registration(request, rollout_id, service.upstreams)
        asked = _asked(request)
    except Refusal as refusal:
        return refusal
    return PreparedRegistration(
        registration=registration,
        policy=PolicyTerms(stated=_stated(request), default=_default_terms(service)),
        asked=asked,
    )


def _asked(request: models.RolloutRequest) -> dict[str, Any]:
    """Return what a request asks for of features, by their names.

    Raises:
        Refusal: 422, no feature of this service takes it.
    """
    asked, left = {}, request.model_fields_set - _OWN_FIELDS
    for name, module in modules("registration"):
        asked[name] = module.prepare(request)
        left -= set(module.FIELDS)
    for name in sorted(left):
        if getattr(request, name) is not None:
            raise Refusal(422, "invalid", f"{name}: this service has no such feature")
    return asked


def _default_terms(service: Service) -> Mapping[str, str]:
    """Return the policy of batches that state none, by ``POLICY_COLUMNS``."""
    return {name: getattr(service.policy, name) for name in POLICY_COLUMNS}


def _registered(
    service: Service,
    request: models.RolloutRequest,
    registration: Registration,
    registered: Registered,
    public_url: str,
) -> models.RolloutRegistered | Refusal:
    refusal = _refusal(registration, registered, _stated(request))
    if refusal is not None:
        return refusal
    access = partial(
        access_of,
        service.keyring,
        service.upstreams,
        registration.id,
        public_url=public_url,
        proven=service.proof_required or registered.ruled,
    )
    agents = access()
    return models.RolloutRegistered(
        id=registration.id,
        key=agents.key,
        admitted=registered.skipped is None,
        error=registered.skipped,
        **registered.place,
        base_urls=agents.base_urls,
        env=agents.env,
        roles={role: access(role=role) for role in request.roles},
        warnings=_warnings(service, registered.policy, registration.upstream),
    )


def _warnings(
    service: Service, policy: Mapping[str, str | None], upstream: str | None
) -> list[str]:
    """Name what a policy asks for that untrusted agents, or the want of a key, keep it from."""
    if (policy.get("agents") or service.policy.agents) != UNTRUSTED:
        return []
    steps = (policy.get("max_steps") or service.policy.max_steps) == "exclude"
    budget = (policy.get("budget") or service.policy.budget) == "exclude"
    keyless = upstream is not None and not service.reference_key(upstream)
    named = (("max_steps_without_effect", steps), ("budget_without_effect", budget),
             (NO_REFERENCE, keyless or not service.asks_references))  # fmt: skip
    return [name for name, applies in named if applies]


def _stated(request: models.RolloutRequest) -> dict[str, str]:
    """Return what a registration says of its batch, as columns."""
    stated = {} if request.policy is None else request.policy.model_dump(exclude_none=True)
    if request.reward_range is not None:
        stated["reward_range"] = as_json(request.reward_range)
    if request.score_key is not None:
        stated["score_key"] = request.score_key
    return stated


def _refusal(
    registration: Registration, registered: Registered, stated: Mapping[str, str]
) -> Refusal | None:
    """Refuse a registration that the stored state contradicts: 409; None if nothing does."""
    for name, value in registered.differing.items():
        standing, other = _term(name, value), _term(name, stated[name])
        return Refusal(
            409,
            "batch_policy",
            f"batch {registration.batch!r} was registered {standing}, not {other}: it is one for "
            "all of its rollouts; leave it out, or begin a new batch",
        )
    if registered.refused is not None:
        return Refusal(409, "batch_policy", registered.refused)
    if registered.measured:
        return _is_measured(registration)
    if registered.ended:
        return _has_ended(registration)
    return other_attributes(registration.id) if registered.conflict else None


def _is_measured(registration: Registration) -> Refusal:
    """Refuse a further sample of a task that has as many as its registration says."""
    task, repeats = registration.task, plural(registration.repeats or 0, "repeat")
    return Refusal(
        409,
        "measured",
        f"task {task!r} of batch {registration.batch!r} is measured, or running: it has the "
        f"{repeats} that it is to have, so there is nothing to run",
    )


def _has_ended(registration: Registration) -> Refusal:
    """Refuse to register a rollout that has an outcome; say how its task gets another go."""
    again = "leave out the id, or give a new one"
    if registration.task is not None:
        again += f": it is then the next try at task {registration.task!r}"
    return Refusal(
        409,
        "rollout_exists",
        f"rollout {registration.id!r} has ended, its outcome was given. To run it again {again}",
    )


def _term(name: str, value: str | None) -> str:
    """Return one fact or policy of a batch, as a refusal names it."""
    if value is None:
        return f"without a {name}"
    return f"with policy.{name} {value!r}" if name in POLICY_COLUMNS else f"with {name} {value}"


def models_as_columns(model: str | list[str] | None) -> dict[str, str | None]:
    """Return a registered model and its fallbacks as columns."""
    names = list(dict.fromkeys([model] if isinstance(model, str) else model or []))
    return {"model": names[0] if names else None, "fallbacks": "\n".join(names[1:]) or None}


# What is stored as a request names it; a new attribute is one of these.
_AS_GIVEN = tuple(
    each.name for each in fields(Registration) if each.name in models.RolloutRequest.model_fields
)


_OWN_FIELDS = {
    *_AS_GIVEN, "client_cache", "id", "metadata", "model", "policy", "reward_range", "roles",
    "score_key", "upstream",
}  # fmt: skip
_OWN_FIELDS -= {"fault"}  # a feature's, although it is one of its columns


def _registration(
    request: models.RolloutRequest, rollout_id: str, upstreams: Mapping[str, Upstream]
) -> Registration:
    changed = {
        "id": rollout_id,
        **models_as_columns(request.model),
        "upstream": _known_upstream(request.upstream, upstreams),
        "client_cache": request.client_cache or None,
        "metadata": as_json(request.metadata) if request.metadata is not None else None,
        "fault": as_json(request.fault.model_dump()) if request.fault is not None else None,
    }
    return Registration(**{name: getattr(request, name) for name in _AS_GIVEN} | changed)


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
    """Return the refusal of a request with other attributes than the rollout has."""
    return Refusal(
        409, "rollout_exists", f"rollout {rollout_id!r} already exists with different attributes"
    )


def _known_upstream(name: str | None, upstreams: Mapping[str, Upstream]) -> str | None:
    if name is None:
        return None
    if normalised(name) not in upstreams:
        near, known = meant(name, upstreams), ", ".join(sorted(upstreams))
        detail = f"upstream: there is no {name!r}{near or ';'} Known: {known}"
        raise Refusal(422, "invalid", detail)
    return normalised(name)


# --- ending of a rollout's calls, in every process ---------------------------------------------


log = logging.getLogger("truezero")

_ASK_S = 0.05
_CONFIRMED_WITHIN_S = 20.0  # beyond the calls' grace; a living worker confirms long before


async def close_calls(
    service: Service,
    rollout_id: str,
    number: int,
    then: Callable[[int], Stored],
    *,
    others: bool = True,
) -> Stored:
    """End a rollout's calls and sockets in every living process, and wait until all have ended.

    Arguments:
        number: of the rollout in `closings`.
        then: is called in a thread with the number of processes that did not confirm it, 0 as a
            rule.
        others: whether there are other processes to ask.

    Returns:
        Its result.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    closed_here = await service.close_here(rollout_id, number)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _CONFIRMED_WITHIN_S

    def confirmed(*, over: bool) -> tuple[Stored] | None:
        silent = _silent(service, rollout_id, number) if others else ()
        if silent and not over:
            return None
        if missing := len(silent) + (not closed_here):
            log.error(
                "the calls of an ended rollout were not confirmed as closed by %s",
                plural(missing, "process", "processes"),
            )
        return (then(missing),)

    while True:
        done = await service.run(confirmed, over=loop.time() > deadline)
        if done is not None:
            return done[0]
        await asyncio.sleep(_ASK_S)


def _silent(service: Service, rollout_id: str, number: int) -> Sequence[str]:
    return service.database.closings.unconfirmed(
        rollout_id, number, worker=service.worker, host=socket.gethostname(), now=service.now()
    )


# --- outcomes and reads ------------------------------------------------------------------------


_REMEMBERED = 100_000  # registered rollouts that are not looked up again
# Of a registration, that an outcome states.
_ATTRIBUTES = {"batch", "task", "repeat", "attempt", "model"}


async def require_registered(service: Service, rollout_id: str) -> None:
    """Return if the rollout was registered.

    Raises:
        Refusal: 401 otherwise.
    """
    if rollout_id in service.registered:
        return
    if not await service.run(service.database.rollouts.is_registered, rollout_id):
        raise Refusal(
            401,
            "unregistered_rollout",
            "rollout is not registered and TRUEZERO_REQUIRE_REGISTRATION is set; "
            "register it with POST /rollouts first",
        )
    if len(service.registered) > _REMEMBERED:
        service.registered.clear()
    service.registered.add(rollout_id)


async def expire(service: Service, rollout_id: str, *, at: float) -> None:
    """Let a rollout's key and secret expire at ``at`` (epoch seconds)."""
    await service.run(service.database.rollouts.expire, rollout_id, at=at)
    service.access_changed(rollout_id)


async def revoke(service: Service, rollout_id: str) -> None:
    """Revoke a rollout's key and secret now, and end its calls and sockets.

    Raises:
        Refusal: 503 if a process does not confirm that it has.
    """
    number = await service.run(service.database.rollouts.revoke, rollout_id, now=service.now())
    if await close_calls(service, rollout_id, number, lambda missing: missing):
        raise _not_confirmed()


async def report(
    service: Service, rollout_id: str, request: models.OutcomeRequest
) -> dict[str, Any]:
    """Store the outcome a runner reports and return the rollout's result.

    The same outcome with rewards, if it had none, adds them once. An unknown rollout is registered:
    its agent may have made no call. Calls and sockets in flight are ended; a call that begins after
    the answer is refused in every process.

    Raises:
        Refusal: 404 for an unknown rollout if registration is required, 409 if it has a
            different outcome or other attributes, 422 for an id that no rollout can have.
    """
    outcome = as_json(request.model_dump(exclude=_ATTRIBUTES))
    store = partial(
        service.database.rollouts.report,
        nameable(rollout_id),
        outcome,
        now=service.now(),
        attributes=_attributes(request),
        registers=not service.registration_required,
        policy=PolicyTerms(default=_default_terms(service)),
        worker=service.worker,
    )
    reported = await service.run(_judging, service, store)
    _check_reported(rollout_id, reported, outcome)
    if reported.closing is None:
        if reported.rewarded:
            await service.run(_add_rewards, service, rollout_id, outcome)
        return await judge.result(service, rollout_id)

    def closed(missing: int) -> judge.EndedRollout:
        if reported.rewarded:
            service.database.closings.closed(rollout_id, now=service.now(), gaps=missing)
            _add_rewards(service, rollout_id, outcome)
        return judge.judge_ended(service, rollout_id, gaps=missing)

    ended = await close_calls(service, rollout_id, reported.closing, closed, others=reported.others)
    return await judge.settled_result(service, rollout_id, ended)


async def exchanges(
    service: Service, rollout_id: str, *, after: str | None = None, limit: int = PAGE
) -> dict[str, Any]:
    """Return a page of a rollout's calls, oldest first.

    Raises:
        Refusal: 404 for an unknown rollout.
    """
    page = await service.run(service.database.calls.page, rollout_id, after=after, limit=limit + 1)
    if page is None:
        raise unknown_rollout(rollout_id)
    encoded = await service.run(service.prices.encode, page[:limit])
    before = await service.run(service.database.calls.number, rollout_id, after) if after else 0
    items = [{**call, "number": number} for number, call in enumerate(encoded, before + 1)]
    return {"items": items, "next": items[-1]["id"] if len(page) > limit else None}


async def response_digests(service: Service, response_ids: Sequence[str]) -> dict[str, str]:
    """Return the salted digest of each response id, as the exchanges of its answer have it."""

    def digests() -> dict[str, str]:
        return {each: response_digest(each, service.salt) for each in response_ids}

    return await run_in_thread(digests)


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
        raise _other_outcome(rollout_id)


def _add_rewards(service: Service, rollout_id: str, outcome: str) -> None:
    if not judge.add_rewards(service, rollout_id, outcome):
        raise _other_outcome(rollout_id)


def _other_outcome(rollout_id: str) -> Refusal:
    return Refusal(409, "outcome_exists", f"rollout {rollout_id!r} already has a different outcome")


def _not_confirmed() -> Refusal:
    detail = "the key is revoked, but a process has not confirmed that its calls have ended"
    return Refusal(503, "not_confirmed", detail, RETRY_SOON)
