"""A look-up of what a rollout's key still opens, and of the rules that its calls are under.

Results are cached for a second. No key is kept, no verdict is decided, and agents are let through
while the database is away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from proxy.outbound.connection import Origin
from proxy.relay.hold import Hold
from proxy.routing import refusals
from proxy.routing.keys import AGENT
from proxy.routing.target import Target

log = logging.getLogger("truezero")

TTL_S = 1.0  # in which every process sees that a key was revoked
_LOOKUP_TIMEOUT_S = 2.0  # for a database that does not answer: agents are served all the same
_STATES_LIMIT = 100_000  # rollouts remembered; a bound, not a policy


class StandIn(Origin, Protocol):
    """An origin that answers in the provider's place; its calls are recorded as injected.

    ``resets``: where it fails a call, the agent's connection is reset.
    """

    @property
    def resets(self) -> bool: ...  # noqa: D102  see the class


class RolloutRule(Protocol):
    """Has the calls of some rollouts begin otherwise than at once.

    ``why_no_socket`` ends the sentence by which such a rollout gets no WebSocket: ``is drilled``.
    """

    @property
    def why_no_socket(self) -> str: ...  # noqa: D102  see the class

    def look_up(self, rollout: Mapping[Any, Any]) -> object | None:
        """Return what it has to know of a rollout, None if it leaves that alone; in a thread.

        Arguments:
            rollout: its row.

        Raises:
            StoreError: the database is unavailable.
        """
        ...

    def watched(self) -> Collection[str]:
        """Return rollouts whose calls are looked up although they prove nothing; in a thread."""
        ...

    async def stand_in(self, known: Any, target: Target, method: str) -> StandIn | None:
        """Return what answers a call in its provider's place, if anything does."""
        ...

    def hold(self, known: Any, target: Target, method: str) -> Hold | None:
        """Return what has a call wait, if anything does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessState:
    """One rollout's access, and the rules that its calls are under, as they are stored.

    ``ends_at``: from when its keys and secrets open nothing, in epoch seconds. ``upstream``:
    the only one that its agent's open; None is any. ``rules``: with what each has to know.
    ``at_once``: there are none. ``untrusted``: its agents are.
    """

    ends_at: float | None = None
    upstream: str | None = None
    rules: Mapping[RolloutRule, Any] = field(default_factory=dict)
    untrusted: bool = False
    at_once: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_once", not self.rules)


class AccessUnknownError(Exception):
    """The database did not answer."""


OPEN_ACCESS = AccessState()


class Access:
    """Every rollout's access state, as one process knows it.

    ``on_untrusted`` takes each whose agents are not trusted, before a call of its is admitted.

    Arguments:
        look_up: a rollout's state as it is stored, None if it is unknown; called in
            threads; raises AccessUnknownError.
        answered: whether a rollout was answered a response, by upstream and digest of the
            response's id; likewise.
        wall: seconds since the epoch.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        look_up: Callable[[str], AccessState | None],
        answered: Callable[[str, str, str], bool],
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self.on_untrusted: Callable[[str], object] = bool  # nobody takes them
        self._look_up = look_up
        self._answered = answered
        self._wall = wall
        self._clock = clock
        self._states: dict[str, tuple[float, AccessState]] = {}
        self._lookups: dict[str, asyncio.Task[AccessState]] = {}
        self._expiries: dict[str, float] = {}  # ends that were still to come when they were read
        self._watched: set[str] = set()

    def ended(self, rollout_id: str) -> None:
        """Note that a rollout ended: its key and its secret open nothing from now on.

        A call that is being admitted meanwhile is not admitted by what was read before.
        """
        self.changed(rollout_id)
        self._states[rollout_id] = self._clock(), AccessState(ends_at=self._wall())

    def expired(self) -> list[str]:
        """Return the rollouts whose end was known beforehand and has come; each once."""
        now = self._wall()
        come = [rollout_id for rollout_id, at in self._expiries.items() if at <= now]
        for rollout_id in come:
            del self._expiries[rollout_id]
        return come

    def changed(self, rollout_id: str) -> None:
        """Forget what is known of a rollout, and look at its unproven calls too."""
        self._lookups.pop(rollout_id, None)
        self._states.pop(rollout_id, None)
        self._watched.add(rollout_id)

    def watch(self, rollout_ids: Iterable[str]) -> None:
        """Replace the rollouts that rules watch, whose unproven calls are looked up."""
        self._watched = set(rollout_ids)

    def concerns(self, target: Target) -> bool:
        """Return True if a call needs a look-up: it shows a key or secret, or is watched."""
        return target.proven or target.rollout_id in self._watched

    async def admit(self, target: Target) -> None:
        """Let a call pass whose key or secret opens what it asks for.

        Raises:
            Refusal: 403 after the rollout's end, or at another upstream than its own.
        """
        if not target.proven:
            return
        state = await self._state(target.rollout_id)
        if state.ends_at is not None and state.ends_at <= self._wall():
            raise refusals.rollout_ended()
        if target.role == AGENT and state.upstream not in (None, target.upstream.name):
            raise refusals.upstream_not_allowed(state.upstream)

    def admit_cached(self, target: Target) -> bool:
        """Return True if a cached look-up says that a call is admitted, and under no rule."""
        cached = self._states.get(target.rollout_id)
        if cached is None or self._clock() - cached[0] >= TTL_S:
            return False
        state = cached[1]
        return (
            state.at_once
            and (state.ends_at is None or state.ends_at > self._wall())
            and state.upstream in (None, target.upstream.name)
        )

    async def rules(self, target: Target) -> Mapping[RolloutRule, Any]:
        """Return the rules that a rollout's calls are under, with what each knows of it."""
        return (await self._state(target.rollout_id)).rules

    async def was_answered(self, target: Target, response_digest: str) -> bool:
        """Return True if a rollout received this response as an answer.

        Raises:
            Refusal: 503, the database does not say.
        """
        ask = (target.rollout_id, target.upstream.name, response_digest)
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                return await asyncio.to_thread(self._answered, *ask)
        except (AccessUnknownError, TimeoutError):
            raise refusals.responses_unknown() from None

    async def _state(self, rollout_id: str) -> AccessState:
        cached = self._states.get(rollout_id)
        if cached is not None and self._clock() - cached[0] < TTL_S:
            return cached[1]
        task = self._lookups.get(rollout_id)
        if task is None:
            task = asyncio.create_task(self._fetch(rollout_id))
            self._lookups[rollout_id] = task
            task.add_done_callback(partial(self._looked_up, rollout_id))
        state = await asyncio.shield(task)
        known = self._states.get(rollout_id)  # it may have ended since the look-up did
        return state if known is None else known[1]

    def _looked_up(self, rollout_id: str, task: asyncio.Task[AccessState]) -> None:
        if self._lookups.get(rollout_id) is task:
            del self._lookups[rollout_id]

    async def _fetch(self, rollout_id: str) -> AccessState:
        """Read the state from the database; while it is away, the last known one holds."""
        before = self._clock()
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                stored = await asyncio.to_thread(self._look_up, rollout_id)
        except (AccessUnknownError, TimeoutError) as error:
            log.warning("a rollout's access state cannot be looked up: %s", type(error).__name__)
            return self._states.get(rollout_id, (before, OPEN_ACCESS))[1]
        if self._lookups.get(rollout_id) is not asyncio.current_task():
            return await self._state(rollout_id)  # it changed meanwhile
        while len(self._states) > _STATES_LIMIT:
            oldest = next(iter(self._states))
            del self._states[oldest]
            self._expiries.pop(oldest, None)
        state = stored or OPEN_ACCESS
        self._states[rollout_id] = (before, state)
        if state.untrusted:
            self.on_untrusted(rollout_id)
        if state.ends_at is not None and state.ends_at > self._wall():
            self._expiries[rollout_id] = state.ends_at
        return state
