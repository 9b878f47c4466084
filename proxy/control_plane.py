"""The control plane as one application: REST, metrics, pages and API documentation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import FastAPI, Request

from proxy.api import bulk, lists, problems, routes
from proxy.api.auth import ControlAuth
from proxy.api.problems import Address
from proxy.control import rollouts
from proxy.control.batches import unpublishable_batches
from proxy.control.look import Conditions
from proxy.control.queries import Service, version
from proxy.control.upstreams import failing_lanes
from proxy.plane import all_routes, all_tabs, planes
from proxy.routing.errors import RateLimiter
from proxy.settings import Settings
from proxy.web import pages
from proxy.web.batch_pages import TABS
from proxy.web.context import PageContext, problem
from proxy.web.upstream_pages import status_page


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """The application and the context that its routes work with."""

    app: FastAPI
    service: Service

    async def require_registered(self, rollout_id: str) -> None:
        """Return if the rollout was registered.

        Raises:
            Refusal: 401 otherwise.
        """
        await rollouts.require_registered(self.service, rollout_id)

    async def conditions(self) -> Conditions:
        """Look once for everything that an operator is alerted of.

        Raises:
            Refusal: 503 while the database is unavailable.
        """
        return await conditions(self.service)


_LOOKS = (failing_lanes, unpublishable_batches)


async def conditions(service: Service) -> Conditions:
    """Look once for everything that an operator is alerted of.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    looks = [*_LOOKS, *(plane.look for plane in planes() if plane.look is not None)]
    seen = [await look(service) for look in looks]
    return Conditions(
        found=tuple(one for each in seen for one in each.found),
        watched=frozenset(one for each in seen for one in each.watched),
    )


# Made once for all applications of this process: they read from `app.state` what they need.
_ROUTES = [
    *routes.reports_router.routes,  # before the next: one of its paths matches theirs
    *routes.router.routes,
    *bulk.router.routes,
    *lists.router.routes,
    *routes.upstreams_router.routes,
    *pages.router.routes,
]


def build(
    settings: Settings,
    service: Service,
    *,
    auth: ControlAuth,
    state: Mapping[str, object],
) -> ControlPlane:
    """Build the control plane: a millisecond, once this module is loaded, which takes 400.

    Arguments:
        state: values that routes of features read from `app.state`, by name.
    """
    address = _address(settings)
    app = FastAPI(
        title="truezero",
        version=version(),
        summary="Records LLM agents' provider calls and tells a real zero from a provider failure.",
        docs_url=None,  # it would load from other origins
        redoc_url=None,
        openapi_url=None,  # it would be generated in the event loop: the first time takes 90 ms
        openapi_tags=_tags(),
    )
    app.routes.extend(all_routes(_ROUTES))  # `include_router` would build each of them again
    problems.install(app, problem)
    app.state.service = service
    app.state.limiter = RateLimiter(settings.registrations_per_s or None, time.monotonic)
    app.state.address = address
    app.state.version = version()
    app.state.authorized = auth.authorized
    for name, value in state.items():
        setattr(app.state, name, value)
    app.state.pages = PageContext(
        service=service,
        auth=auth,
        address=address,
        version=version(),
        registration_required=settings.require_registration,
        panels=[each for plane in planes() for each in plane.panels],
        navigation=[each for plane in planes() for each in plane.navigation],
        batch_actions=[each for plane in planes() for each in plane.batch_actions],
        batch_marks=[each for plane in planes() for each in plane.batch_marks],
        lane_columns=[each for plane in planes() for each in plane.lane_columns],
        head=[each for plane in planes() for each in plane.head],
        sharing=next((e.sharing(service) for e in planes() if e.sharing is not None), None),
    )
    app.state.batch_tabs = all_tabs(TABS)
    app.state.status_page = partial(status_page, app.state.pages)
    return ControlPlane(app=app, service=service)


def _tags() -> list[dict[str, Any]]:
    """Return the tags of OpenAPI, in the order in which paths are listed."""
    return [
        {"name": "rollouts", "description": "One run of an agent: register, report, judge."},
        {"name": "batches", "description": "Rollouts that are counted and scored together."},
        *(dict(tag) for plane in planes() for tag in plane.tags),
        {"name": "service", "description": "Health checks and metrics."},
    ]


def _address(settings: Settings) -> Address:
    """Return agents' base URL: as configured, else that of the request, with the agents' port."""

    def address(request: Request) -> str:
        if settings.public_url:
            return settings.public_url.rstrip("/")
        url = request.base_url
        return str(url.replace(port=settings.port) if settings.control_port else url).rstrip("/")

    return address
