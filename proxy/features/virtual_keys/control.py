"""Virtual keys with LiteLLM's API: each key belongs to a rollout of its own.

Budgets and model lists are not enforced. Keys are not stored: a key encodes its rollout.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from proxy.control import judge, rollouts
from proxy.control.queries import Service
from proxy.features.virtual_keys.store import aliased
from proxy.routing.errors import Refusal
from proxy.store.tables import Row
from truezero import models

# The name in a rollout's metadata for attributes that LiteLLM's clients expect back.
_LITELLM = "litellm_key"


async def generate(
    service: Service, request: models.KeyRequest, *, public_url: str
) -> models.KeyMinted:
    """Register a rollout and return its key, valid for ``duration`` seconds if given.

    Raises:
        Refusal: 400 if a valid key has the alias, as LiteLLM does.
    """
    rollout = await rollouts.register(
        service,
        models.RolloutRequest(
            id=await _free_id(service, request.key_alias),
            batch=request.team_id,
            task=request.key_alias,
            metadata=_metadata(request),
        ),
        public_url=public_url,
    )
    if request.duration is not None:
        await rollouts.expire(service, rollout.id, at=service.now() + request.duration)
    facts = await _facts(service, rollout.id, spend=0.0)
    return models.KeyMinted(**facts.model_dump(), key=rollout.key, base_urls=rollout.base_urls)


async def info(service: Service, key: str) -> models.KeyInfo:
    """Describe a key; its spend is the cost of its rollout's calls.

    Raises:
        Refusal: 404 for an unknown key.
    """
    rollout_id = await _owner(service, key)
    return models.KeyInfo(
        key=key, info=await _facts(service, rollout_id, spend=await _spend(service, rollout_id))
    )


async def delete(service: Service, request: models.KeyDeletion) -> models.KeysDeleted:
    """Revoke keys and end their calls and sockets; rollouts and recorded calls stay.

    Raises:
        Refusal: 404 if one of them is unknown; then none is revoked.
    """
    keys, aliases = request.keys or [], request.key_aliases or []
    owners = [await _owner(service, key) for key in keys]
    for alias in aliases:
        rollouts_of = await _aliased(service, alias)
        if not rollouts_of:
            raise Refusal(404, "unknown_key", f"no valid key has the alias {alias!r}")
        owners += rollouts_of
    await asyncio.gather(*(rollouts.revoke(service, owner) for owner in owners))
    return models.KeysDeleted(deleted_keys=[*keys, *aliases])


async def _row(service: Service, rollout_id: str) -> Row | None:
    return await service.run(service.database.rollouts.row, rollout_id)


async def _aliased(service: Service, alias: str) -> list[str]:
    """List the rollouts registered under an alias whose keys are still valid."""
    return await service.read(aliased, alias, now=service.now())


async def _free_id(service: Service, alias: str | None) -> str:
    """Return the alias itself if unused, so that a runner finds its verdict under it."""
    if alias is None:
        return service.new_id()
    if await _aliased(service, alias):
        raise Refusal(
            400,
            "key_alias_exists",
            f"a key with the alias {alias!r} already exists; delete it first",
        )
    if await _row(service, alias) is None:
        return alias
    return f"{alias}.{service.new_id()}"


async def _owner(service: Service, key: str) -> str:
    rollout_id = service.keyring.rollout_of(key)
    if rollout_id is None or await _row(service, rollout_id) is None:
        raise Refusal(404, "unknown_key", "unknown key")
    return rollout_id


async def _spend(service: Service, rollout_id: str) -> float | None:
    """Return US dollars: 0 before the first call, None if a call's cost is unknown."""
    calls = await rollouts.exchanges(service, rollout_id, limit=1)
    if not calls["items"]:
        return 0.0
    verdict = await judge.verdict(service, rollout_id)
    cost: float | None = verdict["cost_usd"]
    return None if verdict.get("cost_unknown_calls") else cost


async def _facts(service: Service, rollout_id: str, *, spend: float | None) -> models.KeyFacts:
    row = await _row(service, rollout_id)
    assert row is not None, "it existed a moment ago, and rollouts are not deleted while in use"
    metadata: dict[str, Any] = json.loads(row["metadata"] or "{}")
    attributes: Mapping[str, Any] = metadata.pop(_LITELLM, {})
    ends = [at for at in (row["outcome_at"], row["revoked_at"]) if at is not None]
    return models.KeyFacts(
        key_name=f"tz-...{service.keyring.mint(rollout_id)[-4:]}",
        key_alias=row["task"],
        token_id=rollout_id,
        rollout_id=rollout_id,
        team_id=row["batch"],
        user_id=attributes.get("user_id"),
        models=attributes.get("models") or [],
        metadata=metadata,
        expires=_time(row["revoked_at"]),
        created_at=datetime.fromtimestamp(row["created_at"], UTC),
        blocked=bool(ends) and min(ends) <= service.now(),
        spend=spend,
    )


def _metadata(request: models.KeyRequest) -> dict[str, Any]:
    attributes = {"user_id": request.user_id, "models": request.models}
    return {**(request.metadata or {}), _LITELLM: attributes}


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
