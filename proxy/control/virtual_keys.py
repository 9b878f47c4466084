"""Keys asked for as one asks LiteLLM's proxy: each is a rollout, and its agent's only pass.

It enforces no budget and no list of models, and keeps no key: a key says itself whose it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from proxy.control.rollouts import RolloutService
from proxy.routing.errors import Refusal
from proxy.routing.rollout_keys import Keyring
from truezero import models

# Under this name a rollout's metadata holds what LiteLLM's clients want to be told again.
_KEPT = "litellm_key"


class VirtualKeys:
    """Makes, tells of and revokes keys.

    Arguments:
        new_id: makes ids for rollouts whose key has no alias, or one that was used before.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        desk: RolloutService,
        keyring: Keyring,
        new_id: Callable[[], str],
        wall: Callable[[], float],
    ) -> None:
        self._desk = desk
        self._keyring = keyring
        self._new_id = new_id
        self._wall = wall

    async def generate(self, request: models.KeyRequest, *, public_url: str) -> models.KeyMinted:
        """Register a rollout for a key; ``duration`` bounds the key's life.

        Raises:
            Refusal: 400 where a key that still opens something has the alias, as at LiteLLM.
        """
        rollout = await self._desk.register(
            models.RolloutRequest(
                id=await self._free_id(request.key_alias),
                batch=request.team_id,
                task=request.key_alias,
                metadata=_kept(request),
            ),
            public_url=public_url,
        )
        if request.duration is not None:
            await self._desk.revoke(rollout.id, at=self._wall() + request.duration)
        facts = await self._facts(rollout.id, spend=0.0)
        return models.KeyMinted(**facts.model_dump(), key=rollout.key, base_urls=rollout.base_urls)

    async def info(self, key: str) -> models.KeyInfo:
        """Tell of a key; its spend is what its rollout's calls cost.

        Raises:
            Refusal: 404 for a key that is not one of ours.
        """
        rollout_id = await self._owner(key)
        return models.KeyInfo(
            key=key, info=await self._facts(rollout_id, spend=await self._spend(rollout_id))
        )

    async def delete(self, request: models.KeyDeletion) -> models.KeysDeleted:
        """Revoke keys; their rollouts and all that was recorded stay.

        Raises:
            Refusal: 404 where one of them is unknown; then none is revoked.
        """
        keys, aliases = request.keys or [], request.key_aliases or []
        owners = [await self._owner(key) for key in keys]
        for alias in aliases:
            found = await self._desk.aliased(alias)
            if not found:
                raise Refusal(404, "unknown_key", f"no key has the alias {alias!r}")
            owners += found
        for rollout_id in owners:
            await self._desk.revoke(rollout_id, at=self._wall())
        return models.KeysDeleted(deleted_keys=[*keys, *aliases])

    async def _free_id(self, alias: str | None) -> str:
        """The alias itself, so that a runner finds its verdict by the name it gave."""
        if alias is None:
            return self._new_id()
        if await self._desk.aliased(alias):
            raise Refusal(
                400, "key_alias_exists", f"a key with the alias {alias!r} exists: delete it first"
            )
        if await self._desk.known(alias) is None:
            return alias
        return f"{alias}.{self._new_id()}"

    async def _owner(self, key: str) -> str:
        rollout_id = self._keyring.rollout_of(key)
        if rollout_id is None or await self._desk.known(rollout_id) is None:
            raise Refusal(404, "unknown_key", "this key is not one of ours")
        return rollout_id

    async def _spend(self, rollout_id: str) -> float | None:
        """US dollars: 0 before the first call, None where a call's cost is not known."""
        calls = await self._desk.exchanges(rollout_id, limit=1)
        if not calls["items"]:
            return 0.0
        cost: float | None = (await self._desk.verdict(rollout_id))["cost_usd"]
        return cost

    async def _facts(self, rollout_id: str, *, spend: float | None) -> models.KeyFacts:
        row = await self._desk.known(rollout_id)
        assert row is not None, "it was there a moment ago, and rollouts stay"
        metadata: dict[str, Any] = json.loads(row["metadata"] or "{}")
        asked: Mapping[str, Any] = metadata.pop(_KEPT, {})
        ends = [at for at in (row["outcome_at"], row["revoked_at"]) if at is not None]
        return models.KeyFacts(
            key_name=f"tz-...{self._keyring.mint(rollout_id)[-4:]}",
            key_alias=row["task"],
            token_id=rollout_id,
            rollout_id=rollout_id,
            team_id=row["batch"],
            user_id=asked.get("user_id"),
            models=asked.get("models") or [],
            metadata=metadata,
            expires=_time(row["revoked_at"]),
            created_at=datetime.fromtimestamp(row["created_at"], UTC),
            blocked=bool(ends) and min(ends) <= self._wall(),
            spend=spend,
        )


def _kept(request: models.KeyRequest) -> dict[str, Any]:
    asked = {"user_id": request.user_id, "models": request.models}
    return {**(request.metadata or {}), _KEPT: asked}


def _time(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
