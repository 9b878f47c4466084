"""The control plane's services, composed over one database, and its readiness check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from classifier.verdicts import Policy, Verdict
from proxy.control.alerts import AlertWatch, CauseService
from proxy.control.batches import BatchList, BatchService
from proxy.control.dashboard import BatchPages, Dashboard
from proxy.control.judge import Judge, RecorderState, RolloutLoader
from proxy.control.listing import Exporter, Finder, Listing
from proxy.control.live import ChangeFeed, EventStream
from proxy.control.pricing import PriceTable
from proxy.control.queries import Queries
from proxy.control.reports import ComparisonService, GroupService, RerunService, UsageService
from proxy.control.rollout_view import RolloutPages
from proxy.control.rollouts import Registrar, RolloutClosing, RolloutService
from proxy.control.upstreams import UpstreamService
from proxy.control.virtual_keys import VirtualKeys
from proxy.routing.keys import Keyring
from proxy.routing.upstreams import Upstream
from proxy.store.database import Database
from proxy.store.tables import POLICY_COLUMNS
from truezero import models

# --- readiness ---------------------------------------------------------------------------------


class Readiness:
    """Checks the database and the recorder."""

    def __init__(self, *, queries: Queries, database: Database, recorder: RecorderState) -> None:
        self._queries = queries
        self._database = database
        self._recorder = recorder

    async def check(self) -> models.Ready:
        """Return the response to `GET /readyz`."""
        database = await self._queries.run(self._database.is_reachable)
        recorder = not self._recorder.failing
        return models.Ready(
            status="ready" if database and recorder else "not_ready",
            database=database,
            recorder=recorder,
            gaps=self._recorder.gaps_counted,
            waiting=self._recorder.waiting,
        )


# --- services ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReports:
    """The services that report on batches, in REST and on pages."""

    comparisons: ComparisonService
    reruns: RerunService
    usage: UsageService
    listing: BatchList
    pages: BatchPages


@dataclass(frozen=True, slots=True, kw_only=True)
class PageServices:
    """The services that single pages use."""

    rollout: RolloutPages
    causes: CauseService
    upstreams: UpstreamService
    finder: Finder
    changes: ChangeFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlServices:
    """The services that REST and pages call, one per subject."""

    registrar: Registrar
    rollouts: RolloutService
    listing: Listing
    judge: Judge
    batches: BatchService
    groups: GroupService
    reports: BatchReports
    events: EventStream
    exporter: Exporter
    keys: VirtualKeys
    dashboard: Dashboard
    pages: PageServices
    readiness: Readiness
    alerts: AlertWatch


async def nothing_to_close(_rollout_id: str, _number: int) -> bool:
    """Report all calls as ended, in a process that relays none."""
    return True


def compose(
    *,
    database: Database,
    recorder: RecorderState,
    keyring: Keyring,
    upstreams: Mapping[str, Upstream],
    policy: Policy,
    proof_required: bool,
    new_id: Callable[[], str],
    wall: Callable[[], float],
    registration_required: bool = False,
    changed: Callable[[str], None] = lambda _rollout_id: None,
    worker: str = "",
    close_here: Callable[[str, int], Awaitable[bool]] = nothing_to_close,
    leaving: Callable[[], bool] = lambda: False,
    refused: Callable[[], Mapping[str, int]] = dict,
    judged: Callable[[Verdict], object] = lambda _verdict: None,
    address: str | None = None,
) -> ControlServices:
    """Compose the services of one process.

    Arguments:
        policy: how to judge, retry and stop.
        proof_required: base URLs carry the rollout's secret.
        new_id: makes ids for rollouts registered without one.
        wall: seconds since the epoch.
        registration_required: an outcome registers no rollout.
        changed: called with a rollout whose key's validity or drill has changed.
        worker: this process's name in the table of workers.
        close_here: ends a rollout's calls in this process; whether all of them ended.
        leaving: whether the process is about to end, and streams with it.
        refused: counts agents' requests that were refused since the service started, by code.
        judged: called with each final verdict once, in one of all processes.
        address: base URL of the pages, for links in alerts.
    """
    queries = Queries(database)
    loader = RolloutLoader(database, recorder, wall, agents=policy.agents)
    prices = PriceTable(upstreams)
    judge = Judge(
        queries=queries, database=database, loader=loader, recorder=recorder, prices=prices,
        policy=policy, wall=wall, judged=judged,
    )  # fmt: skip
    own_policy = {name: getattr(policy, name) for name in POLICY_COLUMNS}
    registrar = Registrar(
        queries=queries, rollouts=database.rollouts, keyring=keyring, upstreams=upstreams,
        proof_required=proof_required, policy=own_policy, new_id=new_id, wall=wall, changed=changed,
    )  # fmt: skip
    rollouts = RolloutService(
        queries=queries, database=database, judge=judge, prices=prices, policy=own_policy,
        registration_required=registration_required, wall=wall, changed=changed,
        closing=RolloutClosing(
            queries=queries, database=database, worker=worker, close_here=close_here, wall=wall
        ),
    )  # fmt: skip
    batches = BatchService(
        queries=queries, database=database, judge=judge, policy=policy, wall=wall
    )
    upstream_service = UpstreamService(queries=queries, upstreams=upstreams, wall=wall)
    listing = Listing(queries=queries, judge=judge)
    return ControlServices(
        registrar=registrar,
        rollouts=rollouts,
        listing=listing,
        judge=judge,
        batches=batches,
        groups=GroupService(queries=queries, database=database, judge=judge, wall=wall),
        reports=BatchReports(
            comparisons=ComparisonService(queries=queries, judge=judge),
            reruns=RerunService(queries=queries, judge=judge, policy=policy),
            usage=UsageService(queries=queries, prices=prices),
            listing=BatchList(queries=queries, batches=batches),
            pages=BatchPages(queries=queries, database=database, judge=judge),
        ),
        events=EventStream(queries=queries, events=database.events, judge=judge, leaving=leaving),
        exporter=Exporter(queries=queries, listing=listing, loader=loader, prices=prices),
        keys=VirtualKeys(
            registrar=registrar, rollouts=rollouts, judge=judge, keyring=keyring, new_id=new_id,
            wall=wall,
        ),
        dashboard=Dashboard(
            queries=queries, deployment=database.deployment, judge=judge, listing=listing,
            batches=batches, wall=wall, refused=refused,
        ),
        pages=PageServices(
            rollout=RolloutPages(queries=queries, judge=judge, prices=prices),
            causes=CauseService(queries=queries, wall=wall),
            upstreams=upstream_service,
            finder=Finder(queries=queries),
            changes=ChangeFeed(queries=queries, leaving=leaving),
        ),
        readiness=Readiness(queries=queries, database=database, recorder=recorder),
        alerts=AlertWatch(
            queries=queries, database=database, batches=batches, upstreams=upstream_service,
            address=address, wall=wall,
        ),
    )  # fmt: skip
