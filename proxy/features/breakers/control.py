"""The breakers of a batch: their states, what came of each, and alerts of those that opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from classifier.breakers import BreakerState, Phase, at, reset
from classifier.reruns import opened_by
from proxy.control.look import Condition, Conditions, link_to
from proxy.control.queries import Service, path_of
from proxy.features.breakers.store import Breakers
from proxy.routing.errors import Refusal


async def breaker(service: Service, batch: str) -> dict[str, Any]:
    """Return a batch's breakers, one per lane, and the rollouts that each skipped."""
    states, missed = await breaker_states(service, batch), []
    if any(state.streak for state in states):
        stored = Breakers(service.database.connections)
        missed = await service.run(stored.not_admitted, batch, limit=_IN_STORY)
    skipped = [_skipped_by(state, missed) for state in states]
    shown = [_shown(state, of_one) for state, of_one in zip(states, skipped, strict=True)]
    names = await _names(service, *shown)
    return {
        "batch": batch,
        "threshold": service.policy.breaker_threshold,
        "lanes": [
            _lane(state, of_one, names={name: names[name] for name in here if name in names})
            for state, of_one, here in zip(states, skipped, shown, strict=True)
        ],
    }


async def breaker_states(service: Service, batch: str) -> list[BreakerState]:
    """Return a batch's breakers as they are now, one per lane."""
    states = await service.run(Breakers(service.database.connections).of_batch, batch)
    return [at(state, service.now()) for state in states]


async def open_states(service: Service) -> list[BreakerState]:
    """Return the breakers of all batches that are not closed, as they are now."""
    now = service.now()
    opened = Breakers(service.database.connections).opened
    return [at(state, now) for state in await service.run(opened, since=0.0, now=now)]


async def open_by_batch(service: Service) -> dict[str, str]:
    """Return the worst state of the breakers of each batch that has one open or half-open."""
    phases: dict[str, set[Phase]] = {}
    for state in await open_states(service):
        phases.setdefault(state.batch, set()).add(state.phase)
    return {
        batch: "breaker open" if Phase.OPEN in found else "breaker half-open"
        for batch, found in phases.items()
    }


def _skipped_by(state: BreakerState, missed: Iterable[tuple[str, str]]) -> list[str]:
    """Return the rollouts that this breaker skipped, of all that the batch's breakers skipped."""
    return [name for name, why in missed if opened_by(why) == state.fingerprint]


def _shown(state: BreakerState, *lists: Sequence[str]) -> list[str]:
    """Return the rollouts of a breaker that are named: its probe, and the first of each list."""
    probe = [] if state.canary is None else [state.canary]
    return [*probe, *chain(*(names[:_NAMED] for names in (state.tripped_by, *lists)))]


async def _names(service: Service, *shown: Iterable[str]) -> dict[str, str]:
    """Return the display names of rollouts, by id."""
    wanted = set(chain(*shown))
    if not wanted:
        return {}
    return await service.run(Breakers(service.database.connections).names, wanted)


_IN_STORY = 1000  # rollouts of a kind that a story counts; one with more says so


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerStory:
    """A breaker that has a streak, and what came of it.

    ``tripped_by`` are the rollouts of its streak, ``failed_alike`` others that failed so in its
    lane, ``skipped`` those that it did not admit, each the oldest first; of the last two there are
    more if ``cut``. ``names``: display names of the first of each list, by id.
    """

    state: BreakerState
    tripped_by: Sequence[str]
    failed_alike: Sequence[str]
    skipped: Sequence[str]
    names: Mapping[str, str]
    cut: bool


async def breaker_stories(service: Service, batch: str, *, skipped: int) -> list[BreakerStory]:
    """Return the stories of a batch's breakers, the open ones first.

    Arguments:
        skipped: rollouts that its breakers did not admit, as its summary has them.
    """
    stored = Breakers(service.database.connections)
    states = await breaker_states(service, batch)
    states = [each for each in states if each.streak or each.phase is not Phase.CLOSED]
    missed = []
    if states and skipped:
        missed = await service.run(stored.not_admitted, batch, limit=_IN_STORY + 1)
    told = []
    for state in sorted(states, key=lambda each: (each.phase is Phase.CLOSED, each.lane)):
        alike = await service.run(stored.failed_alike, state, limit=_IN_STORY + 1)
        others = [name for name in alike if name not in state.tripped_by]
        kept_out = _skipped_by(state, missed)
        told.append(
            BreakerStory(
                state=state,
                tripped_by=state.tripped_by,
                failed_alike=others,
                skipped=kept_out,
                names=await _names(service, _shown(state, others, kept_out)),
                cut=len(alike) > _IN_STORY or len(missed) > _IN_STORY,
            )
        )
    return told


async def reset_breaker(service: Service, batch: str, *, lane: str | None = None) -> dict[str, Any]:
    """Allow one probe in an open lane, or in each lane of the batch.

    Raises:
        Refusal: 404 for a lane without a breaker.
    """
    stored = Breakers(service.database.connections)
    states = await service.run(stored.reset, batch, reset, lane=lane)
    if lane is not None and all(state.lane != lane for state in states):
        raise Refusal(404, "unknown_lane", f"batch {batch!r} has no breaker for lane {lane!r}")
    return await breaker(service, batch)


_NAMED = 100  # rollouts of a lane


def _lane(
    state: BreakerState, skipped: Sequence[str], *, names: Mapping[str, str]
) -> dict[str, Any]:
    return {
        **asdict(state),
        "probe_at": state.probe_at,
        "skipped": skipped[:_NAMED],
        "skipped_total": len(skipped),
        "names": names,
    }


# --- conditions that an operator is alerted of -------------------------------------------------


KIND = "breaker.opened"
"""The kind of the alert."""
_RECENT_S = 3600.0  # breakers that opened before are yesterday's
_IN_MESSAGE = 10  # rollouts


async def open_breakers(service: Service) -> Conditions:
    """Look for breakers that opened within the last hour and are open or half-open."""
    now = service.now()
    opened = Breakers(service.database.connections).opened
    states = await service.run(opened, since=now - _RECENT_S, now=now)
    found = [
        Condition(
            kind=KIND,
            subject=f"{state.batch}/{state.lane}",
            at=state.opened_at or now,
            data={
                "batch": state.batch,
                "lane": state.lane,
                "fingerprint": state.fingerprint,
                "streak": state.streak,
                "tripped_by": list(state.tripped_by[:_IN_MESSAGE]),
                **link_to(service, path_of("batches", state.batch)),
            },
        )
        for state in states
    ]
    return Conditions(found=tuple(found), watched=frozenset((KIND,)))
