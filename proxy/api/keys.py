"""The `/key` routes of LiteLLM's proxy: a virtual key for each rollout."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from proxy.api.routes import PROBLEMS, Address, limited
from proxy.control.virtual_keys import VirtualKeys
from proxy.routing.limits import RateLimiter
from truezero import models

# 400, not 409: as LiteLLM answers.
_TAKEN: dict[int | str, dict[str, Any]] = {
    400: {"model": models.Problem, "description": "a key with this alias already exists"}
}


def router(virtual_keys: VirtualKeys, limiter: RateLimiter, address: Address) -> APIRouter:
    """Make `/key/generate`, `/key/info` and `/key/delete`.

    Shapes after LiteLLM's key_management_endpoints.py (GenerateKeyResponse, info_key_fn,
    delete_key_fn).

    Arguments:
        limiter: limits how often keys are generated, together with registrations.
        address: the base URL handed to agents.
    """
    routes = APIRouter(prefix="/key", tags=["keys"], responses=PROBLEMS)

    @routes.post("/generate", dependencies=limited(limiter), responses=_TAKEN)
    async def generate(request: Request, key: models.KeyRequest) -> models.KeyMinted:
        """Generate a key with a rollout of its own; calls with the key belong to it."""
        return await virtual_keys.generate(key, public_url=address(request))

    @routes.get("/info")
    async def info(key: Annotated[str, Query(max_length=1000)]) -> models.KeyInfo:
        """Return a key's attributes, spend and validity."""
        return await virtual_keys.info(key)

    @routes.post("/delete")
    async def delete(deletion: models.KeyDeletion) -> models.KeysDeleted:
        """Revoke keys; their recorded calls stay."""
        return await virtual_keys.delete(deletion)

    return routes
