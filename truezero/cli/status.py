"""`truezero status`: how each upstream, model and key is now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.exceptions import Exit

import truezero  # its Client and ServiceError are loaded where they are first used
from truezero.cli.options import (
    connected,
    csv_option,
    json_option,
    print_csv,
    print_json,
    print_page,
    service_options,
)
from truezero.cli.text import escape, moment, print_list
from truezero.printable import plural, visible

if TYPE_CHECKING:
    from truezero import models


_DEGRADED, _DOWN = 75, 76  # as `truezero run` exits: transient, permanent
_EACH_S = 5.0


@click.command()
@click.option("--upstream", help="Only this upstream.")
@click.option("--model", help="Only this model.")
@click.option("--watch", is_flag=True, help="Go on, and print each change of a word.")
@service_options
@csv_option
@json_option
def status(
    *,
    upstream: str | None,
    model: str | None,
    watch: bool,
    url: str | None,
    token: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Print how each upstream, model and key is now, in a word with its evidence.

    Exit code: 0 if none fails, 75 if one is degraded, 76 if one is down. With --watch, which ends
    when it is interrupted, those of the last look.
    """
    with connected(url, token) as client:
        report = client.status()
        lanes = _chosen(report.items, upstream, model)
        if as_csv:
            print_csv(_CSV, map(_csv_row, lanes))
        elif as_json:
            print_json(report.model_copy(update={"items": lanes}))
        else:
            print_status(lanes, left_out=report.lanes - len(report.items))
            print_page(client.url, "status")
        with suppress(KeyboardInterrupt):
            for report in repeated_status(client) if watch else ():
                known = {lane_name(lane): lane.word for lane in lanes}
                lanes = _chosen(report.items, upstream, model)
                for lane in lanes:
                    if known.get(lane_name(lane), "unknown") != lane.word:
                        click.echo(lane_line(lane))
    words = {lane.word for lane in lanes}
    raise Exit(_DOWN if "down" in words else _DEGRADED if "degraded" in words else 0)


def repeated_status(
    client: truezero.Client, sleep: Callable[[float], object] = time.sleep
) -> Iterator[models.StatusReport]:
    """Yield the status every few seconds, without end; wait for a service that is away."""
    from truezero.sdk.outcomes import is_away  # noqa: PLC0415  loads httpx

    away = False
    while True:
        sleep(_EACH_S)
        try:
            report = client.status()
        except truezero.ServiceError as error:
            if not is_away(error):
                raise
            if not away:
                click.echo(visible(f"truezero: {error}; waiting for it"), err=True)
            away = True
            continue
        if away:
            click.echo(visible(f"truezero: the service at {client.url} is back"), err=True)
        away = False
        yield report


def _chosen(
    lanes: Iterable[models.LaneStatus], upstream: str | None, model: str | None
) -> list[models.LaneStatus]:
    return [
        lane for lane in lanes if upstream in (None, lane.upstream) and model in (None, lane.model)
    ]


_CSV = (
    "upstream", "model", "key", "server", "key_from", "word", "since", "answered_at", "cause",
    "reason", "calls", "failed", "open", "waiting", "last_at", "next_at",
)  # fmt: skip


def _csv_row(lane: models.LaneStatus) -> dict[str, Any]:
    return {**{name: getattr(lane, name) for name in _CSV}, "failed": sum(lane.failed.values())}


_WORD_STYLE = {"healthy": "green", "degraded": "yellow", "down": "red"}


def print_status(lanes: Sequence[models.LaneStatus], *, left_out: int = 0) -> None:
    """Print a line for each lane, with the evidence of its word.

    Arguments:
        left_out: lanes that the service did not list.
    """
    rows = [
        {
            "upstream · model · key": escape(lane_name(lane)),
            "health": f"[{_WORD_STYLE.get(lane.word, 'dim')}]{lane.word}[/]",
            "since (UTC)": _if_failing(lane, lane.since),
            "last answered (UTC)": _if_failing(lane, lane.answered_at),
            "cause": escape("; ".join(_reasons(lane))),
            "failed": f"{sum(lane.failed.values()):,d} of {lane.calls:,d}",
            "in flight": f"{lane.open:,d}" if lane.open else "",
            "waiting": f"{lane.waiting:,d}" if lane.waiting else "",
            "key from": escape(lane.key_from or ""),
        }
        for lane in lanes
    ]
    columns = (
        "upstream · model · key", "health", "since (UTC)", "last answered (UTC)", "cause", "failed",
        "in flight", "waiting", "key from",
    )  # fmt: skip
    dispensable = (
        "waiting", "in flight", "last answered (UTC)", "since (UTC)", "key from", "failed",
    )  # fmt: skip
    what = "calls within the last hour"
    print_list(columns, rows, dispensable, what, more=False, foldable=("cause",))
    if left_out > 0:
        click.echo(
            f"the service left out {plural(left_out, 'lane')}: it lists those that fail first"
        )


def _reasons(lane: models.LaneStatus) -> list[str]:
    """Return why a lane has its word."""
    reasons = [] if lane.cause is None else [lane.cause]
    if lane.next_at is not None and lane.word == "down":
        reasons.append(f"who waits may try from {moment(lane.next_at)[11:]} on")
    if lane.cause is None and lane.word == "unknown":
        reasons += list(lane.failed)
    return reasons if lane.reason is None else [*reasons, lane.reason]


def _fails(lane: models.LaneStatus) -> bool:
    return lane.word in ("degraded", "down")


def _if_failing(lane: models.LaneStatus, at: float | None) -> str:
    """Return a time of a lane that fails, to the second."""
    if not _fails(lane):
        return ""
    return "not known" if at is None else moment(at)


def lane_name(lane: models.LaneStatus) -> str:
    """Return a lane's name: ``openai · gpt-5 · key-3f9a``."""
    parts = (lane.upstream, lane.model or "no model named", lane.key, lane.server)
    return " · ".join(filter(None, parts))


def lane_line(lane: models.LaneStatus) -> str:
    """Return a lane's word as a line, with the time of now."""
    why = "".join(f", {each}" for each in _reasons(lane))
    failed = f"{sum(lane.failed.values())} of {plural(lane.calls, 'call')} failed"
    return visible(f"{moment(time.time())}  {lane_name(lane)}: {lane.word}{why} ({failed})")
