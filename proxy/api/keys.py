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
        """Generate a key with a rollout of its own.

        Calls made with the key belong to that rollout: the alias is its id, the team its batch.
        """
        return await virtual_keys.generate(key, public_url=address(request))

    @routes.get("/info")
    async def info(key: Annotated[str, Query(max_length=1000)]) -> models.KeyInfo:
        """Get a key's attributes, spend and validity.

        Nothing in the answer is secret but the key itself, as it was given.
        """
        return await virtual_keys.info(key)

    @routes.post("/delete")
    async def delete(deletion: models.KeyDeletion) -> models.KeysDeleted:
        """Revoke keys.

        Their calls and WebSockets are closed; what was recorded is kept.
        """
        return await virtual_keys.delete(deletion)

    return routes
