"""The `/key` routes of LiteLLM's proxy, with a key for each rollout."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from proxy.api.problems import LIMITED, PROBLEMS, Service, base_url, documented
from proxy.features.virtual_keys import control
from proxy.plane import Plane
from truezero import models

# 400, not 409: as LiteLLM answers.
_TAKEN: dict[int | str, dict[str, Any]] = {400: documented("a key with this alias already exists")}

# Shapes after LiteLLM's key_management_endpoints.py (GenerateKeyResponse, info_key_fn,
# delete_key_fn).
router = APIRouter(prefix="/key", tags=["keys"], responses=PROBLEMS)


@router.post("/generate", dependencies=LIMITED, responses=_TAKEN, operation_id="generate_key")
async def generate(service: Service, request: Request, key: models.KeyRequest) -> models.KeyMinted:
    """Generate a key with a rollout of its own.

    Calls made with the key belong to that rollout: the alias is its id, the team its batch.
    """
    return await control.generate(service, key, public_url=base_url(request))


@router.get("/info", operation_id="get_key")
async def info(service: Service, key: Annotated[str, Query(max_length=1000)]) -> models.KeyInfo:
    """Get a key's attributes, spend and validity.

    Nothing in the answer is secret but the key itself, as it was given.
    """
    return await control.info(service, key)


@router.post("/delete", operation_id="delete_keys")
async def delete(service: Service, deletion: models.KeyDeletion) -> models.KeysDeleted:
    """Revoke keys.

    Their calls and WebSockets are closed; what was recorded is kept.
    """
    return await control.delete(service, deletion)


PLANE = Plane(
    routes=router.routes,
    tags=[{"name": "keys", "description": "Virtual keys, compatible with LiteLLM's proxy."}],
)
