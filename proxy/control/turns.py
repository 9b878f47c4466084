"""Turns on a lane: whether one that waits for it may start, by `classifier.lane`."""

from __future__ import annotations

import random
from functools import partial
from itertools import chain
from typing import Any

from classifier import lane
from classifier.fingerprints import plain
from proxy.control.queries import Service
from proxy.store.database import Database


async def take_turn(service: Service, upstream: str | None, model: str | None) -> dict[str, Any]:
    """Answer one that asks to start on a lane; None is any upstream or model.

    Raises:
        Refusal: 503 while the database is unavailable.
    """
    now = service.now()
    key, version = f"\n{upstream or ''}\n{plain(model) or ''}", int(now / _KNOWN_S)
    known: tuple[lane.Silence | None] | None = service.statuses.current(key, version)
    if known is None:
        known = (await service.run(_silence, service.database, upstream, model, now),)
        service.statuses.store(key, version, known)
    return await service.run(_take_turn, service.database, upstream, model, known[0], now)


_KNOWN_S = 0.05  # for which a lane's calls are not read again: hundreds ask at once


def _take_turn(
    database: Database,
    upstream: str | None,
    model: str | None,
    silent: lane.Silence | None,
    now: float,
) -> dict[str, Any]:
    if silent is None:
        turn = lane.TurnTaken(lane.State.ANSWERING)
    else:
        pending = database.lane_probes.pending(upstream, model, silent, now=now)
        decide = partial(
            _decided,
            silent,
            pending=pending,
            now=now,
            drawn=random.random(),  # noqa: S311
        )
        turn = database.lane_probes.take(upstream, model, decide, now=now)
    down = silent is not None and turn.state is not lane.State.ANSWERING
    return {
        "state": turn.state.value,
        "ask_s": round(turn.ask_s, 3),
        "since": silent.since if silent is not None and down else None,
        "cause": silent.cause if silent is not None and down else None,
        "next_at": turn.next_at,
        "sentence": lane.sentence(_name(upstream, model), silent, turn, now=now)
        if silent is not None and down
        else None,
    }


def _decided(
    silent: lane.Silence, probed_at: float | None, *, pending: int, now: float, drawn: float
) -> lane.TurnTaken:
    return lane.turn(silent, pending=pending, probed_at=probed_at, now=now, drawn=drawn)


def _silence(
    database: Database, upstream: str | None, model: str | None, now: float
) -> lane.Silence | None:
    tallies = database.lane_minutes.tallies(
        since=now - lane.LOOKED_BACK_S,
        until=now,
        upstreams=None if upstream is None else [upstream],
    )
    return lane.silence(
        chain.from_iterable(
            minutes
            for place, minutes in tallies.items()
            if place.server is None and (model is None or plain(place.model) == plain(model))
        )
    )


def _name(upstream: str | None, model: str | None) -> str:
    return "/".join(filter(None, (upstream, plain(model)))) or "every lane"
