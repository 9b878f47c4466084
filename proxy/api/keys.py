"""The `/key` routes of LiteLLM's proxy: a virtual key for each rollout."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from proxy.api.problems import documented
from proxy.api.routes import PROBLEMS
from proxy.api.state import LIMITED, Services, base_url
from truezero import models

# 400, not 409: as LiteLLM answers.
_TAKEN: dict[int | str, dict[str, Any]] = {400: documented("a key with this alias already exists")}

# Shapes after LiteLLM's key_management_endpoints.py (GenerateKeyResponse, info_key_fn,
# delete_key_fn).
keys_router = APIRouter(prefix="/key", tags=["keys"], responses=PROBLEMS)


@keys_router.post("/generate", dependencies=LIMITED, responses=_TAKEN, operation_id="generate_key")
async def generate(
    services: Services, request: Request, key: models.KeyRequest
) -> models.KeyMinted:
    """Generate a key with a rollout of its own.

    Calls made with the key belong to that rollout: the alias is its id, the team its batch.
    """
    return await services.keys.generate(key, public_url=base_url(request))


@keys_router.get("/info", operation_id="get_key")
async def info(services: Services, key: Annotated[str, Query(max_length=1000)]) -> models.KeyInfo:
    """Get a key's attributes, spend and validity.

    Nothing in the answer is secret but the key itself, as it was given.
    """
    return await services.keys.info(key)


@keys_router.post("/delete", operation_id="delete_keys")
async def delete(services: Services, deletion: models.KeyDeletion) -> models.KeysDeleted:
    """Revoke keys.

    Their calls and WebSockets are closed; what was recorded is kept.
    """
    return await services.keys.delete(deletion)
