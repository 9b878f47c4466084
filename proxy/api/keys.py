"""The routes that runners know from LiteLLM's proxy: a virtual key for each instance.

Each asks the mint once; a key opens none of them, only the operator's token does.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from proxy.api.routes import PROBLEMS, Address, paced
from proxy.control.virtual_keys import VirtualKeys
from proxy.routing.limits import RateLimiter
from truezero import models

# What LiteLLM answers 400 for, this does too.
_TAKEN: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Problem, "description": "a key with this alias is there"}
}


def router(mint: VirtualKeys, pace: RateLimiter, address: Address) -> APIRouter:
    """`/key/generate`, `/key/info` and `/key/delete`.

    Shapes after LiteLLM's key_management_endpoints.py (GenerateKeyResponse, info_key_fn,
    delete_key_fn).

    Arguments:
        pace: how often a key may be minted; the same as for rollouts.
        address: how agents reach us.
    """
    routes = APIRouter(prefix="/key", tags=["keys"], responses=PROBLEMS)

    @routes.post("/generate", dependencies=paced(pace), responses=_TAKEN)
    async def generate(request: Request, asked: models.KeyRequest) -> models.KeyMinted:
        """Mint a key, and with it a rollout; every call that shows it is that rollout's."""
        return await mint.generate(asked, public_url=address(request))

    @routes.get("/info")
    async def info(key: Annotated[str, Query(max_length=1000)]) -> models.KeyInfo:
        """What a key is, what it spent, and whether it still opens anything."""
        return await mint.info(key)

    @routes.post("/delete")
    async def delete(named: models.KeyDeletion) -> models.KeysDeleted:
        """Revoke keys; what was recorded under them stays."""
        return await mint.delete(named)

    return routes
