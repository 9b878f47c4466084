"""The control plane's services, composed over one context."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.control.alerts import AlertWatch, CauseService
from proxy.control.dashboard import BatchPages, Dashboard
from proxy.control.listing import Exporter, Finder, Listing
from proxy.control.live import ChangeFeed, EventStream
from proxy.control.queries import Service
from proxy.control.rollout_view import RolloutPages
from proxy.control.upstreams import UpstreamService


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReports:
    """The services that report on batches, in REST and on pages."""

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

    listing: Listing
    service: Service
    reports: BatchReports
    events: EventStream
    exporter: Exporter
    dashboard: Dashboard
    pages: PageServices
    alerts: AlertWatch


def compose(service: Service) -> ControlServices:
    """Compose the services of one process."""
    queries, database = service, service.database
    wall, upstreams, prices = service.now, service.upstreams, service.prices
    upstream_service = UpstreamService(queries=queries, upstreams=upstreams, wall=wall)
    listing = Listing(queries=queries)
    return ControlServices(
        listing=listing,

        service=service,
        reports=BatchReports(
            pages=BatchPages(queries=queries, database=database),
        ),
        events=EventStream(
            queries=queries, events=database.events, leaving=service.stopping
        ),
        exporter=Exporter(queries=queries, listing=listing, prices=prices),
        dashboard=Dashboard(
            queries=queries, deployment=database.deployment, listing=listing,
            wall=wall, refused=service.refused_calls,
        ),
        pages=PageServices(
            rollout=RolloutPages(queries=queries, prices=prices),
            causes=CauseService(queries=queries, wall=wall),
            upstreams=upstream_service,
            finder=Finder(queries=queries),
            changes=ChangeFeed(service),
        ),
        alerts=AlertWatch(
            queries=queries, database=database, upstreams=upstream_service,
            address=service.pages_url, wall=wall,
        ),
    )  # fmt: skip
