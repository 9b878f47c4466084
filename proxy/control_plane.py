"""The control plane, put together: REST, keys, numbers, pages and documentation as one application.

It decides nothing, and moves no byte of an agent's: agents are served while it is still being made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

from proxy.api import keys, problems, routes
from proxy.api import metrics as metrics_module
from proxy.api.auth import ControlAuth
from proxy.control.dashboard import Dashboard
from proxy.control.pricing import PriceTable
from proxy.control.rollouts import RecorderState, RolloutService
from proxy.control.threads import run_in_thread
from proxy.control.virtual_keys import VirtualKeys
from proxy.routing.limits import RateLimiter
from proxy.routing.rollout_keys import Keyring
from proxy.routing.upstreams import Upstream
from proxy.server.workers import LEAVING
from proxy.settings import Settings
from proxy.store.database import Database
from proxy.telemetry.metrics import Metrics
from proxy.web import pages


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What the control plane is given of the service around it.

    ``changed`` is told when what a rollout's key opens, or its drill, is another than before.
    """

    database: Database
    recorder: RecorderState
    keyring: Keyring
    upstreams: Mapping[str, Upstream]
    guard: ControlAuth
    metrics: Metrics
    new_id: Callable[[], str]
    changed: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The application that answers, and the desk behind it."""

    app: FastAPI
    desk: RolloutService


def build(settings: Settings, near: ServiceParts) -> ControlPlane:
    """Make all of it; takes a third of a second where FastAPI is not loaded yet."""
    desk = RolloutService(
        database=near.database,
        recorder=near.recorder,
        keyring=near.keyring,
        upstreams=near.upstreams,
        prices=PriceTable(near.upstreams),
        policy=settings.policy,
        proof_required=settings.admin_token is not None,
        new_id=near.new_id,
        wall=time.time,
        changed=near.changed,
        leaving=LEAVING.is_set,
    )
    mint = VirtualKeys(desk=desk, keyring=near.keyring, new_id=near.new_id, wall=time.time)
    pace = RateLimiter(settings.registrations_per_s or None, time.monotonic)
    overview = Dashboard(
        desk=desk, upstreams=near.upstreams, wall=time.time, leaving=LEAVING.is_set
    )
    version, address = metadata.version("truezero"), _address(settings)
    app = FastAPI(
        title="truezero",
        version=version,
        summary="Tells an agent's honest zero from a provider failure, by watching the wire.",
        docs_url=None,  # a page of ours, which keeps to its origin as all do
        redoc_url=None,
        openapi_url=None,  # FastAPI would describe itself on the event loop, 90 ms the first time
    )

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(await run_in_thread(app.openapi))

    # Of that package only the files of Swagger UI are used.
    app.mount("/static/docs", StaticFiles(packages=[("fastapi_offline", "static")]))
    problems.install(app)
    for router in (
        routes.router(desk, pace, address, version=version),
        keys.router(mint, pace, address),
        metrics_module.router(near.metrics.exposition),
        pages.router(overview, desk, near.guard, address, version=version),
    ):
        app.include_router(router)
    return ControlPlane(app=app, desk=desk)


def _address(settings: Settings) -> routes.Address:
    """How agents reach us: as they were told to, else as the runner does, at their own port."""

    def address(request: Request) -> str:
        if settings.public_url:
            return settings.public_url.rstrip("/")
        url = request.base_url
        return str(url.replace(port=settings.port) if settings.control_port else url).rstrip("/")

    return address
