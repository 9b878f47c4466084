"""REST routes of rollouts, batches, reports, upstreams and metrics."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from proxy.api.problems import (
    BATCH,
    LIMITED,
    PROBLEMS,
    ROLLOUT_ID,
    Authorized,
    ClientVersion,
    Service,
    StatusPage,
    Version,
    base_url,
    json_answer,
    known_to,
)
from proxy.control import batches, judge, reports, rollouts
from proxy.control.health import public_status, status_report
from proxy.control.queries import readiness
from proxy.control.turns import take_turn
from proxy.control.upstreams import ask_reference, upstream_report
from proxy.routing.errors import Refusal
from truezero import models
from truezero.models.batches import Moment

PolicyName = Literal["evidence", "seed"]

router = APIRouter(responses=PROBLEMS)


@router.post(
    "/rollouts",
    status_code=201,
    tags=["rollouts"],
    dependencies=LIMITED,
    operation_id="register_rollout",
)
async def register(
    service: Service, request: Request, rollout: models.RolloutRequest
) -> models.RolloutRegistered:
    """Register a rollout.

    The answer has the base URLs, variables and key for its agent. `admitted` is false while
    an open breaker skips the batch's lane. Registering alike again has the same answer;
    otherwise it is 409.
    """
    return await rollouts.register(service, rollout, public_url=base_url(request))


@router.post(
    "/rollouts/{rollout_id:path}/outcome",
    response_model=models.Result,
    tags=["rollouts"],
    operation_id="report_outcome",
)
async def outcome(
    service: Service,
    rollout_id: Annotated[str, ROLLOUT_ID],
    request: models.OutcomeRequest,
    client: ClientVersion = None,
) -> dict[str, Any]:
    """Report what the runner observed, and get the result to store.

    Ends the rollout: its calls in flight are closed, and its key and secret open nothing
    any more. An unknown rollout is registered. Idempotent: the same outcome again has the
    same answer, a different one is 409.
    """
    return known_to(client, await rollouts.report(service, rollout_id, request))


@router.get(
    "/rollouts/{rollout_id:path}/verdict",
    response_model=models.Verdict,
    tags=["rollouts"],
    operation_id="get_verdict",
)
async def verdict(
    service: Service,
    rollout_id: Annotated[str, ROLLOUT_ID],
    wait: Literal["settled"] | None = None,
    timeout_s: Annotated[float, Query(ge=0, le=600)] = 10.0,
    policy: PolicyName | None = None,
    client: ClientVersion = None,
) -> dict[str, Any]:
    """Get the verdict on a rollout.

    Does its reward count (`scoreable`), why (`sentence`, which says all four in one line), whose
    failure decided (`attributed_to`), and what next (`retry`). Judged on everything recorded so
    far, and final once the outcome is judged (`judged_at`). A rollout that never made a call and
    was not registered is 404.
    """
    judged = await judge.verdict(
        service, rollout_id, policy=policy, settled=wait == "settled", timeout_s=timeout_s
    )
    return known_to(client, judged)


@router.get(
    "/rollouts/{rollout_id:path}/result",
    response_model=models.Result,
    tags=["rollouts"],
    operation_id="get_result",
)
async def result(
    service: Service,
    rollout_id: Annotated[str, ROLLOUT_ID],
    client: ClientVersion = None,
) -> dict[str, Any]:
    """Get the record to store as `result.json`.

    The same as the answer to the outcome; 409 before it. `rewards` is null where the verdict's
    `scoreable` is `no`; `error` then says why, if the runner reported none.
    """
    return known_to(client, await judge.result(service, rollout_id))


@router.get(
    "/rollouts/{rollout_id:path}/exchanges",
    response_model=models.ExchangePage,
    tags=["rollouts"],
    operation_id="list_exchanges",
)
async def exchanges(
    service: Service,
    rollout_id: Annotated[str, ROLLOUT_ID],
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """List a rollout's calls, oldest first.

    Counts, timing and causes; never a prompt, a completion or a key. Pass `next` of a page
    as `after` to get the following one.
    """
    page = await rollouts.exchanges(service, rollout_id, after=after, limit=limit)
    return await json_answer(page)


@router.post(
    "/digests", response_model=models.Digests, tags=["rollouts"], operation_id="get_digests"
)
async def digests(service: Service, body: models.DigestRequest) -> dict[str, Any]:
    """Get the digests of up to 10,000 response ids, to find their calls by.

    A call has the `response_digest` of its answer's own id. The salt is the service's own: nobody
    else can make them, and none of the ids is stored.
    """
    return {"digests": await rollouts.response_digests(service, body.response_ids)}


@router.get(
    "/batches/{batch:path}/check",
    response_model=models.Check,
    tags=["batches"],
    operation_id="check_batch",
)
async def check(service: Service, batch: Annotated[str, BATCH]) -> Response:
    """Check whether a batch is a valid measurement.

    `lines` has a sentence for each objection. What is suspect and counts all the same is
    said last and leaves the batch valid.
    """
    return await json_answer(await batches.check(service, batch))


@router.post(
    "/batches/{batch:path}/begin",
    response_model=models.BatchRuns,
    tags=["batches"],
    operation_id="begin_batch",
)
async def begin_batch(
    service: Service, batch: Annotated[str, BATCH], request: models.BatchBegin
) -> dict[str, Any]:
    """Say that you start rollouts of a batch, until you say that it is over.

    The batch does not end before. Runs have names, so that several machines share a batch;
    beginning one again is harmless.
    """
    return await reports.begin_run(service, batch, request.run)


@router.post(
    "/batches/{batch:path}/end",
    response_model=models.BatchRuns,
    tags=["batches"],
    operation_id="end_batch",
)
async def end_batch(
    service: Service, batch: Annotated[str, BATCH], request: models.BatchEnd
) -> dict[str, Any]:
    """Say that a run of a batch is over, or all of them.

    Nobody starts further rollouts. Those without an outcome are then given up; one that comes
    later counts all the same. The batch has ended once every outcome is judged, which the event
    `batch_ended` tells.
    """
    return await reports.end_run(service, batch, request.run)


# After the others: its path matches theirs.
@router.get(
    "/batches/{batch:path}",
    response_model=models.BatchSummary,
    tags=["batches"],
    operation_id="get_batch",
)
async def summary(service: Service, batch: Annotated[str, BATCH]) -> Response:
    """Get the summary of a batch.

    Counts by health and cause, tokens and cost with how many calls they stand on, scores
    with bounds and coverage, and the rollouts to run again, all as the batch is now.
    """
    return await json_answer(await batches.summary(service, batch, fresh=True))


@router.get("/healthz", tags=["service"], operation_id="get_health")
async def healthz(version: Version) -> models.Alive:
    """Check that the process is alive.

    Needs no token and asks nothing of the database.
    """
    return models.Alive(status="ok", version=version)


@router.get("/readyz", tags=["service"], operation_id="get_readiness")
async def readyz(service: Service, response: Response) -> models.Ready:
    """Check that calls can be recorded.

    503 while the database does not answer or the recorder cannot write. Needs no token.
    """
    ready = models.Ready(**await readiness(service))
    if ready.status != "ready":
        response.status_code = 503
    return ready


# --- reports on batches ------------------------------------------------------------------------


# Its routes come before `/batches/{batch}`, whose path matches theirs.
reports_router = APIRouter(responses=PROBLEMS, tags=["batches"])


@reports_router.get(
    "/batches/{batch:path}/usage", response_model=models.BatchUsage, operation_id="get_usage"
)
async def usage(
    service: Service,
    batch: Annotated[str, BATCH],
    by: Annotated[
        str,
        Query(description="any of model, upstream, role, task; separated by commas"),
    ] = ",".join(reports.DEFAULT),
) -> Response:
    """Add up a batch's calls by model, upstream, role or task.

    Inference calls of every role count, once they have ended. Each sum says how many calls it
    stands on: `tokens_known_calls` and `cost_known_calls` of `billable_calls`.
    """
    return await json_answer(await reports.usage(service, batch, by=_dimensions(by)))


def _dimensions(by: str) -> list[str]:
    """Return the names in a list.

    Raises:
        Refusal: 422 if one is no dimension.
    """
    names = list(dict.fromkeys(filter(None, by.split(","))))
    for name in names:
        if name not in models.USAGE_DIMENSIONS:
            known = ", ".join(models.USAGE_DIMENSIONS)
            raise Refusal(422, "invalid", f"by: {name!r} is none of {known}")
    return names


# --- upstreams ---------------------------------------------------------------------------------


upstreams_router = APIRouter(responses=PROBLEMS)


@upstreams_router.get(
    "/upstreams",
    response_model=models.UpstreamReport,
    tags=["service"],
    operation_id="get_upstreams",
)
async def report(
    service: Service,
    since: Annotated[
        Moment | None, Query(description="seconds since the epoch; an hour ago by default")
    ] = None,
) -> Response:
    """Report how upstreams did, by model, by key and over time.

    Every ended call that began in the window is counted; latencies and keys stand on a
    sample of inference calls.
    """
    return await json_answer((await upstream_report(service, since)).to_dict())


@upstreams_router.post(
    "/upstreams/{upstream}/reference",
    response_model=models.ReferenceSeries,
    tags=["service"],
    operation_id="ask_reference",
)
async def reference(
    service: Service,
    upstream: Annotated[str, Path(description="its name in a base URL")],
    request: models.ReferenceRequest,
) -> dict[str, Any]:
    """Ask a model the proxy's own question, as beside an untrusted agent's failure.

    With the operator's key, up to three times: the series ends with the first that is not answered.
    Its calls are recorded under `_reference`; some 100 tokens in all.
    """
    return await ask_reference(service, upstream, request.model)


@upstreams_router.post(
    "/turns",
    response_model=models.LaneTurn,
    tags=["service"],
    operation_id="ask_turn",
)
async def turns(service: Service, request: models.LaneRequest) -> dict[str, Any]:
    """Ask whether a rollout may start on a lane, or has to wait while it is down.

    Of all that ask, whichever process they are of, one is let go when a try is due; the others are
    when it is answered. Nothing is held: an agent that starts without asking is served.
    """
    return await take_turn(service, request.upstream, request.model)


@upstreams_router.get(
    "/status",
    response_model=models.StatusReport,
    tags=["service"],
    operation_id="get_status",
)
async def status(
    service: Service,
    request: Request,
    page: StatusPage,
    authorized: Authorized,
    public: Annotated[
        bool, Query(description="the short form that everybody gets with `status_public`")
    ] = False,
) -> Response:
    """Get the health of each upstream, model and key in a word, with its evidence.

    Failures count that are the provider's or the operator's, over the last hour. Where answers tell
    servers apart, each has a word of its own. `Accept: text/html` gets a page.
    """
    short = public or not authorized(dict(request.scope))
    if short:
        answer = await public_status(service)
    else:
        answer = (await status_report(service)).to_dict()
    shown = await page(request, answer, short)
    return await json_answer(answer) if shown is None else shown
