"""The REST routes of rollouts, batches and the service."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from classifier.groups import MIN_VALID, Method
from proxy.api.answers import json_answer as _json
from proxy.control.batches import BatchService
from proxy.control.events import BatchEvent, EventStream
from proxy.control.groups import GroupService
from proxy.control.readiness import Readiness
from proxy.control.services import ControlServices
from proxy.routing.limits import RateLimiter
from truezero import models

Address = Callable[[Request], str]  # the base URL handed to agents, by a runner's request

BATCH = Path(description="percent-encode `/` as `%2F`")
ROLLOUT_ID = Path(description="percent-encode `/` as `%2F`")

PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": models.Problem, "description": "missing or wrong admin token"},
    404: {"model": models.Problem, "description": "not found"},
    409: {"model": models.Problem, "description": "conflicts with the stored state"},
    422: {"model": models.Problem, "description": "invalid field, named in `detail`"},
    429: {
        "model": models.Problem,
        "description": "rate limit exceeded; see `retry-after`",
    },
    503: {"model": models.Problem, "description": "database unavailable"},
}

_SSE = "text/event-stream"
_LIVE = {"cache-control": "no-cache", "x-accel-buffering": "no"}

PolicyName = Literal["evidence", "seed"]


def _content(media_type: str) -> dict[int | str, dict[str, Any]]:
    """Describe a response that is not a JSON object."""
    return {200: {"content": {media_type: {"schema": {"type": "string"}}}, "description": "OK"}}


def router(
    services: ControlServices, limiter: RateLimiter, address: Address, *, version: str
) -> APIRouter:
    """Make the routes of rollouts, batches and the service.

    Arguments:
        limiter: limits how often rollouts are registered.
        address: the base URL handed to agents.
    """
    routes = APIRouter(responses=PROBLEMS)
    _registration_routes(routes, services, limiter, address)
    _rollout_routes(routes, services)
    _breaker_routes(routes, services.batches)
    _group_routes(routes, services.groups)
    _batch_routes(routes, services.batches, services.events)
    _service_routes(routes, services.readiness, version)
    return routes


def limited(limiter: RateLimiter) -> list[Any]:
    """Make the dependencies of a route that is rate-limited."""

    async def step() -> None:
        limiter.step()

    return [Depends(step)]


def _registration_routes(
    routes: APIRouter, services: ControlServices, limiter: RateLimiter, address: Address
) -> None:
    @routes.post("/rollouts", status_code=201, tags=["rollouts"], dependencies=limited(limiter))
    async def register(
        request: Request, rollout: models.RolloutRequest
    ) -> models.RolloutRegistered:
        """Register a rollout.

        The answer has the base URLs, variables and key for its agent. `admitted` is false while
        an open breaker skips the batch's lane. Registering alike again has the same answer;
        otherwise it is 409.
        """
        return await services.registrar.register(rollout, public_url=address(request))


def _rollout_routes(routes: APIRouter, services: ControlServices) -> None:
    @routes.post(
        "/rollouts/{rollout_id:path}/outcome", response_model=models.Result, tags=["rollouts"]
    )
    async def outcome(
        rollout_id: Annotated[str, ROLLOUT_ID], request: models.OutcomeRequest
    ) -> dict[str, Any]:
        """Report what the runner observed, and get the result to store.

        Ends the rollout: its calls in flight are closed, and its key and secret open nothing
        any more. An unknown rollout is registered. Idempotent: the same outcome again has the
        same answer, a different one is 409.
        """
        return await services.rollouts.report(rollout_id, request)

    @routes.get(
        "/rollouts/{rollout_id:path}/verdict", response_model=models.Verdict, tags=["rollouts"]
    )
    async def verdict(
        rollout_id: Annotated[str, ROLLOUT_ID],
        wait: Literal["settled"] | None = None,
        timeout_s: Annotated[float, Query(ge=0, le=600)] = 10.0,
        policy: PolicyName | None = None,
    ) -> dict[str, Any]:
        """Get the verdict on a rollout.

        Judged on everything recorded so far, and final once the outcome is judged (`judged_at`).
        A rollout that never made a call and was not registered is 404.
        """
        return await services.judge.verdict(
            rollout_id, policy=policy, settled=wait == "settled", timeout_s=timeout_s
        )

    @routes.get(
        "/rollouts/{rollout_id:path}/result", response_model=models.Result, tags=["rollouts"]
    )
    async def result(rollout_id: Annotated[str, ROLLOUT_ID]) -> dict[str, Any]:
        """Get the record to store as `result.json`.

        The same as the answer to the outcome; 409 before it. `rewards` is null where the verdict
        takes them away.
        """
        return await services.judge.result(rollout_id)

    @routes.get(
        "/rollouts/{rollout_id:path}/exchanges",
        response_model=models.ExchangePage,
        tags=["rollouts"],
    )
    async def exchanges(
        rollout_id: Annotated[str, ROLLOUT_ID],
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        """List a rollout's calls, oldest first.

        Counts, timing and causes; never a prompt, a completion or a key. Pass `next` of a page
        as `after` to get the following one.
        """
        page = await services.rollouts.exchanges(rollout_id, after=after, limit=limit)
        return await _json(page)


def _breaker_routes(routes: APIRouter, batches: BatchService) -> None:
    @routes.get("/batches/{batch:path}/check", response_model=models.Check, tags=["batches"])
    async def check(batch: Annotated[str, BATCH]) -> Response:
        """Check whether a batch is a valid measurement.

        `lines` has a sentence for each objection. What is suspect and counts all the same is
        said last and leaves the batch valid.
        """
        return await _json(await batches.check(batch))

    @routes.post(
        "/batches/{batch:path}/breaker/reset", response_model=models.Breaker, tags=["batches"]
    )
    async def reset_breaker(
        batch: Annotated[str, BATCH], lane: str | None = None
    ) -> dict[str, Any]:
        """Reset open breakers, after their cause is fixed.

        Each becomes half-open: one rollout is admitted as a probe, and its health closes the
        breaker or opens it again.
        """
        return await batches.reset_breaker(batch, lane=lane)

    @routes.get("/batches/{batch:path}/breaker", response_model=models.Breaker, tags=["batches"])
    async def breaker(batch: Annotated[str, BATCH]) -> dict[str, Any]:
        """Get a batch's circuit breakers.

        There is one for each lane (`upstream/model/key digest`). It opens when the same
        permanent failure has ended `threshold` rollouts in a row.
        """
        return await batches.breaker(batch)


def _group_routes(routes: APIRouter, service: GroupService) -> None:
    @routes.get("/batches/{batch:path}/groups", response_model=models.GroupPage, tags=["batches"])
    async def groups(
        batch: Annotated[str, BATCH],
        method: models.AdvantageMethod = "grpo",
        min_valid: Annotated[int, Query(ge=1, le=10_000)] = MIN_VALID,
        settled: bool | None = None,
        task: str | None = None,
        after: str | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Get a batch's rollouts as groups for RL, one for each task.

        Baseline and advantages are over what was measured only; the lists of a group have one
        place for each repeat.
        """
        found = await service.page(
            batch, method=Method(method), min_valid=min_valid, settled=settled, task=task,
            after=after, limit=limit,
        )  # fmt: skip
        return await _json(found)


def _batch_routes(routes: APIRouter, batches: BatchService, stream: EventStream) -> None:
    @routes.get(
        "/batches/{batch:path}/events",
        tags=["batches"],
        response_class=StreamingResponse,
        responses=_content(_SSE),
    )
    async def events(
        batch: Annotated[str, BATCH],
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    ) -> StreamingResponse:
        """Follow a batch live, as server-sent events.

        `exchange_failed`, `rollout_doomed`, `verdict_given`, `group_settled` and
        `breaker_opened`; the stream does not end by itself and resumes by `Last-Event-ID`.
        """
        start = after if after is not None else last_event_id
        body = _as_sse(stream.follow(batch, after=start))
        return StreamingResponse(body, media_type=_SSE, headers=_LIVE)

    # After the others: its path matches theirs.
    @routes.get("/batches/{batch:path}", response_model=models.BatchSummary, tags=["batches"])
    async def summary(batch: Annotated[str, BATCH]) -> Response:
        """Get the summary of a batch.

        Counts by health and cause, tokens and cost with how many calls they stand on, scores
        with bounds and coverage, and the rollouts to run again.
        """
        return await _json(await batches.summary(batch))

    @routes.get("/fingerprints", response_model=models.Fingerprints, tags=["batches"])
    async def fingerprints() -> dict[str, Any]:
        """List causes across batches, most frequent first.

        Each with the rollouts and batches that it affected, and when it was seen.
        """
        return await batches.fingerprints()


async def _as_sse(events: AsyncIterator[BatchEvent]) -> AsyncIterator[bytes]:
    async for event in events:
        if event.kind:
            data = json.dumps(event.data)
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {data}\n\n".encode()
        else:
            yield f": alive\nid: {event.id}\n\n".encode()  # a stream that breaks resumes there


def _service_routes(routes: APIRouter, readiness: Readiness, version: str) -> None:
    @routes.get("/healthz", tags=["service"])
    async def healthz() -> models.Alive:
        """Check that the process is alive.

        Needs no token and asks nothing of the database.
        """
        return models.Alive(status="ok", version=version)

    @routes.get("/readyz", tags=["service"])
    async def readyz(response: Response) -> models.Ready:
        """Check that calls can be recorded.

        503 while the database does not answer or the recorder cannot write. Needs no token.
        """
        ready = await readiness.check()
        if ready.status != "ready":
            response.status_code = 503
        return ready
