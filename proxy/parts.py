"""The parts of a process that features are given as it starts, and what they do there.

`proxy.feature` says what a feature is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from classifier.causes import Classify
from classifier.records import Exchange
from classifier.verdicts import Policy, Verdict
from proxy.control.look import Conditions
from proxy.control.pricing import PriceTable
from proxy.feature import OF_SETTINGS, FeatureError, modules, settings_of
from proxy.recording.backlog import FlushResult
from proxy.recording.recorder import Recorder
from proxy.relay.admission import RolloutRule
from proxy.relay.context import RefusedRequests
from proxy.relay.hold import Hold
from proxy.routing.upstreams import Upstream
from proxy.store.database import Database

ADDED = TypeVar("ADDED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a process that a feature may use.

    ``policy``: by which rollouts are judged whose batch states none.
    ``refused``: counts of requests that this process refused.
    ``worker``: the process's name in the table of workers. ``agents_only``: another process serves
    the control plane. ``conditions``: looks once for everything that an operator is alerted of;
    raises Refusal 503 while the database is unavailable.
    """

    settings: object
    policy: Policy
    environment: Mapping[str, str]
    database: Database
    recorder: Recorder
    upstreams: Mapping[str, Upstream]
    prices: PriceTable
    refused: RefusedRequests
    worker: str
    workers: int
    agents_only: bool
    conditions: Callable[[], Awaitable[Conditions]]

    def settings_of(self, kind: type[OF_SETTINGS]) -> OF_SETTINGS:
        """Return the settings as those that a feature declares."""
        return settings_of(self.settings, kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The work of a feature in one process.

    ``run``: its work beside agents' calls, until cancelled. ``stop``: leaves nothing behind, once
    all calls are written; the database may be away.
    ``flushed``: called with what the recorder wrote, in its thread. ``failed``: with each call that
    failed, in the event loop. ``judged``: with each final verdict once, in one of all processes.
    ``classify``: names the causes of failed calls, in the cause table's place; one feature's alone.
    ``refused_calls``: counts agents' refused requests by code, in all processes of the service.
    ``state``: values that the feature's routes read from `app.state`, by name.
    """

    rule: RolloutRule | None = None
    hold: Hold | None = None
    run: Callable[[], Coroutine[Any, Any, None]] | None = None
    stop: Callable[[], Coroutine[Any, Any, None]] | None = None
    flushed: Callable[[FlushResult], None] | None = None
    failed: Callable[[Exchange], object] | None = None
    judged: Callable[[Verdict], object] | None = None
    classify: Classify | None = None
    refused_calls: Callable[[], Mapping[str, int]] | None = None
    state: Mapping[str, object] = field(default_factory=dict)


NOTHING = Started()


def start(parts: Parts) -> list[Started]:
    """Start every feature of a process, in their order."""
    return [module.start(parts) for _, module in modules("start")]


def only(added: Iterable[ADDED | None]) -> ADDED | None:
    """Return what one feature adds where no other may; None if none adds it.

    Raises:
        FeatureError: several add it.
    """
    found = [each for each in added if each is not None]
    if len(found) > 1:
        raise FeatureError(f"only one feature may add it: {', '.join(map(repr, found))}")
    return found[0] if found else None
