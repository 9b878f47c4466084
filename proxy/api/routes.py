"""The routes of the control plane.

Each asks the desk once; none reads a table or judges.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from proxy.control import Desk
from truezero import models

ROLLOUT_ID = Path(description="percent-encode a `/` in it as %2F")

PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": models.Problem, "description": "no such rollout"},
    409: {"model": models.Problem, "description": "it contradicts what is known"},
    422: {"model": models.Problem, "description": "a field is invalid; `detail` names it"},
    503: {"model": models.Problem, "description": "the database does not answer"},
}

PolicyName = Literal["evidence", "seed"]


def router(desk: Desk, *, version: str, public_url: str | None = None) -> APIRouter:
    """All routes of contract §2 that read and write rollouts.

    Arguments:
        public_url: how agents reach us; None takes the address the runner used.
    """
    routes = APIRouter(responses=PROBLEMS)
    _rollout_routes(routes, desk, public_url)
    _service_routes(routes, desk, version)
    return routes


def _rollout_routes(routes: APIRouter, desk: Desk, public_url: str | None) -> None:
    @routes.post("/rollouts", status_code=201, tags=["rollouts"])
    async def register(
        request: Request, rollout: models.RolloutRequest
    ) -> models.RolloutRegistered:
        """Announce a rollout; the answer says where to point its agent."""
        url = public_url or str(request.base_url)
        return await desk.register(rollout, public_url=url.rstrip("/"))

    @routes.get("/rollouts", response_model=models.RolloutPage, tags=["rollouts"])
    async def rollouts(
        batch: str | None = None,
        task: str | None = None,
        health: models.Health | None = None,
        subcategory: models.Subcategory | None = None,
        fingerprint: str | None = None,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> dict[str, Any]:
        """Rollouts with the verdict they have, oldest first."""
        named = {
            "batch": batch,
            "task": task,
            "health": health,
            "subcategory": subcategory,
            "fingerprint": fingerprint,
        }
        filters = {name: value for name, value in named.items() if value is not None}
        return await desk.rollouts(filters, after=after, limit=limit)

    @routes.post(
        "/rollouts/{rollout_id:path}/outcome", response_model=models.Result, tags=["rollouts"]
    )
    async def outcome(
        rollout_id: Annotated[str, ROLLOUT_ID], seen: models.OutcomeRequest
    ) -> dict[str, Any]:
        """Report what the runner saw; the answer is the result. Repeating it is harmless."""
        return await desk.report(rollout_id, seen)

    @routes.get(
        "/rollouts/{rollout_id:path}/verdict", response_model=models.Verdict, tags=["rollouts"]
    )
    async def verdict(
        rollout_id: Annotated[str, ROLLOUT_ID],
        wait: Literal["settled"] | None = None,
        timeout_s: Annotated[float, Query(ge=0, le=600)] = 10.0,
        policy: PolicyName | None = None,
    ) -> dict[str, Any]:
        """Judge the rollout on everything recorded before this call."""
        return await desk.verdict(
            rollout_id, policy=policy, settled=wait == "settled", timeout_s=timeout_s
        )

    @routes.get(
        "/rollouts/{rollout_id:path}/result", response_model=models.Result, tags=["rollouts"]
    )
    async def result(rollout_id: Annotated[str, ROLLOUT_ID]) -> dict[str, Any]:
        """The record a runner stores as `result.json`."""
        return await desk.stored_result(rollout_id)

    @routes.get(
        "/rollouts/{rollout_id:path}/exchanges",
        response_model=models.ExchangePage,
        tags=["rollouts"],
    )
    async def exchanges(
        rollout_id: Annotated[str, ROLLOUT_ID],
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> dict[str, Any]:
        """Each call of the rollout, oldest first."""
        return await desk.exchanges(rollout_id, after=after, limit=limit)


def _service_routes(routes: APIRouter, desk: Desk, version: str) -> None:
    @routes.get("/healthz", tags=["service"])
    async def healthz() -> models.Alive:
        """The process is alive."""
        return models.Alive(status="ok", version=version)

    @routes.get("/readyz", tags=["service"])
    async def readyz(response: Response) -> models.Ready:
        """The database answers and the recorder writes; 503 while not."""
        ready = await desk.ready()
        if ready.status != "ready":
            response.status_code = 503
        return ready
