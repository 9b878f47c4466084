"""`truezero breaker`: the lanes that a batch has stopped calling."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from truezero.cli.options import (
    connected,
    fail,
    json_option,
    print_json,
    print_page,
    reading,
    service_options,
)
from truezero.cli.text import escape, make_console, moment
from truezero.printable import plural

if TYPE_CHECKING:
    from truezero import models

_NAMED = 10  # rollouts on a line


@click.command()
@click.argument("words", metavar="[reset] BATCH", nargs=-1, required=True)
@click.option("--lane", help="Reset only this lane: upstream/model/key digest.")
@service_options
@json_option
def breaker(
    *,
    words: tuple[str, ...],
    lane: str | None,
    url: str | None,
    token: str | None,
    as_json: bool,
) -> None:
    """Print a batch's breakers: which are open, since when, by what, whom they skipped.

    A breaker opens after the same permanent failure in a row, so that further rollouts cost
    nothing. With `reset` before the batch, each open one admits the next rollout as a probe; do so
    once the cause is fixed.
    """
    *verb, name = words
    if verb not in ([], ["reset"]) or (lane is not None and not verb):
        fail("usage: truezero breaker BATCH, or truezero breaker reset BATCH [--lane LANE]", 2)
    shown: models.Breaker
    if verb:
        with connected(url, token) as client:
            shown, address = client.reset_breaker(name, lane=lane), client.url
    else:
        with reading(url, token) as service:
            shown, address = service.breaker(name), service.url
    if as_json:
        print_json(shown)
        return
    print_breaker(shown)
    print_page(address, "batches", name)


def print_breaker(shown: models.Breaker) -> None:
    """Print each breaker that has a streak, the open ones first."""
    console = make_console(soft_wrap=True)
    lanes = [lane for lane in shown.lanes if lane.streak or lane.phase != "closed"]
    for lane in sorted(lanes, key=lambda lane: (lane.phase == "closed", lane.lane)):
        for line in lane_lines(shown.batch, lane):
            console.print(escape(line))
    if not lanes:
        console.print("no breaker is close to opening: nothing is skipped")


def lane_lines(batch: str, lane: models.BreakerLane) -> list[str]:
    """Return the lines of one breaker: its state, by which rollouts, whom it skipped, the end."""
    since = "" if lane.opened_at is None else f", opened at {moment(lane.opened_at)} UTC"
    streak = f"{plural(lane.streak, 'rollout')} in a row failed with {lane.fingerprint}"
    lines = [
        f"{lane.lane}: {lane.phase.replace('_', ' ')}{since}",
        f"  {streak} (it opens at {lane.threshold}): {_names(lane, lane.tripped_by, lane.streak)}",
    ]
    if lane.phase == "closed":
        return lines
    skipped = _names(lane, lane.skipped, lane.skipped_total) if lane.skipped else "nobody yet"
    lines.append(f"  skipped: {skipped}")
    if lane.canary is not None:
        lines.append(f"  probe: {lane.names.get(lane.canary, lane.canary)} is under way")
    elif lane.phase == "half_open":
        lines.append("  probe: the next rollout is admitted")
    elif lane.probe_at is not None:
        lines.append(f"  probe: the next rollout from {moment(lane.probe_at)} UTC on is admitted")
    if lane.phase == "open" or lane.canary is not None:
        lines.append(f"  fix the cause, then: truezero breaker reset {shlex.quote(batch)}")
    return lines


def _names(lane: models.BreakerLane, rollouts: list[str], total: int) -> str:
    named = [lane.names.get(each, each) for each in rollouts[:_NAMED]]
    more = total - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
