"""Virtual keys with LiteLLM's API: each key belongs to a rollout of its own.

Budgets and model lists are not enforced. Keys are not stored: a key encodes its rollout.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from proxy.control import judge
from proxy.control.queries import Service
from proxy.control.rollouts import Registrar, RolloutService
from proxy.routing.errors import Refusal
from proxy.routing.keys import Keyring
from truezero import models

# The name in a rollout's metadata for attributes that LiteLLM's clients expect back.
_LITELLM = "litellm_key"


class VirtualKeys:
    """Generates, describes and revokes keys.

    Arguments:
        new_id: makes ids for rollouts whose key has no alias, or a reused one.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        service: Service,
        *,
        registrar: Registrar,
        rollouts: RolloutService,
        keyring: Keyring,
        new_id: Callable[[], str],
        wall: Callable[[], float],
    ) -> None:
        self._service = service
        self._registrar = registrar
        self._rollouts = rollouts
        self._keyring = keyring
        self._new_id = new_id
        self._wall = wall

    async def generate(self, request: models.KeyRequest, *, public_url: str) -> models.KeyMinted:
        """Register a rollout and return its key, valid for ``duration`` seconds if given.

        Raises:
            Refusal: 400 if a valid key has the alias, as LiteLLM does.
        """
        rollout = await self._registrar.register(
            models.RolloutRequest(
                id=await self._free_id(request.key_alias),
                batch=request.team_id,
                task=request.key_alias,
                metadata=_metadata(request),
            ),
            public_url=public_url,
        )
        if request.duration is not None:
            await self._rollouts.expire(rollout.id, at=self._wall() + request.duration)
        facts = await self._facts(rollout.id, spend=0.0)
        return models.KeyMinted(**facts.model_dump(), key=rollout.key, base_urls=rollout.base_urls)

    async def info(self, key: str) -> models.KeyInfo:
        """Describe a key; its spend is the cost of its rollout's calls.

        Raises:
            Refusal: 404 for an unknown key.
        """
        rollout_id = await self._owner(key)
        return models.KeyInfo(
            key=key, info=await self._facts(rollout_id, spend=await self._spend(rollout_id))
        )

    async def delete(self, request: models.KeyDeletion) -> models.KeysDeleted:
        """Revoke keys and end their calls and sockets; rollouts and recorded calls stay.

        Raises:
            Refusal: 404 if one of them is unknown; then none is revoked.
        """
        keys, aliases = request.keys or [], request.key_aliases or []
        owners = [await self._owner(key) for key in keys]
        for alias in aliases:
            aliased = await self._rollouts.aliased(alias)
            if not aliased:
                raise Refusal(404, "unknown_key", f"no valid key has the alias {alias!r}")
            owners += aliased
        await asyncio.gather(*map(self._rollouts.revoke, owners))
        return models.KeysDeleted(deleted_keys=[*keys, *aliases])

    async def _free_id(self, alias: str | None) -> str:
        """Return the alias itself if unused, so that a runner finds its verdict under it."""
        if alias is None:
            return self._new_id()
        if await self._rollouts.aliased(alias):
            raise Refusal(
                400,
                "key_alias_exists",
                f"a key with the alias {alias!r} already exists; delete it first",
            )
        if await self._rollouts.row(alias) is None:
            return alias
        return f"{alias}.{self._new_id()}"

    async def _owner(self, key: str) -> str:
        rollout_id = self._keyring.rollout_of(key)
        if rollout_id is None or await self._rollouts.row(rollout_id) is None:
            raise Refusal(404, "unknown_key", "unknown key")
        return rollout_id

    async def _spend(self, rollout_id: str) -> float | None:
        """Return US dollars: 0 before the first call, None if a call's cost is unknown."""
        calls = await self._rollouts.exchanges(rollout_id, limit=1)
        if not calls["items"]:
            return 0.0
        cost: float | None = (await judge.verdict(self._service, rollout_id))["cost_usd"]
        return cost

    async def _facts(self, rollout_id: str, *, spend: float | None) -> models.KeyFacts:
        row = await self._rollouts.row(rollout_id)
        assert row is not None, "it existed a moment ago, and rollouts are not deleted while in use"
        metadata: dict[str, Any] = json.loads(row["metadata"] or "{}")
        attributes: Mapping[str, Any] = metadata.pop(_LITELLM, {})
        ends = [at for at in (row["outcome_at"], row["revoked_at"]) if at is not None]
        return models.KeyFacts(
            key_name=f"tz-...{self._keyring.mint(rollout_id)[-4:]}",
            key_alias=row["task"],
            token_id=rollout_id,
            rollout_id=rollout_id,
            team_id=row["batch"],
            user_id=attributes.get("user_id"),
            models=attributes.get("models") or [],
            metadata=metadata,
            expires=_time(row["revoked_at"]),
            created_at=datetime.fromtimestamp(row["created_at"], UTC),
            blocked=bool(ends) and min(ends) <= self._wall(),
            spend=spend,
        )


def _metadata(request: models.KeyRequest) -> dict[str, Any]:
    attributes = {"user_id": request.user_id, "models": request.models}
    return {**(request.metadata or {}), _LITELLM: attributes}


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
