"""Ask reference calls about the failed calls of this process: about which, and how often.

The process that saw a failure asks, beside its relay: no agent waits. Which series others ask and
have asked is in the database, so that workers and replicas share them and count them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from classifier.logical_calls import FILTERED, canonical, ended_at, filtered
from classifier.records import ABANDONED, WRONG_SHAPE, Attribution, Exchange, KeySource, Kind
from classifier.reference_rules import (
    ALL_A_MINUTE,
    LANE_A_MINUTE,
    MINUTE_S,
    AskedName,
    Use,
    a_minute,
    answered_as,
    due_at,
    name_to_ask,
    nearest_api,
    told_to_wait,
    usual_way,
    usually_streams,
)
from classifier.references import AskedBy, NotRun, ReferenceCall, ReferenceSeries
from classifier.verdicts import UNTRUSTED, Subcategory
from proxy.asking.questioner import TOO_DEAR_USD, AskedLane, Cost, Questioner
from proxy.asking.questions import PLAIN, usual_path
from proxy.asking.ways import Way, Ways
from proxy.clock import epoch_s
from proxy.relay.context import RelayContext
from proxy.routing.errors import Refusal
from proxy.routing.keys import AGENT
from proxy.routing.upstreams import Auth, Upstream, asks_for_no_key
from proxy.store.errors import StoreError
from proxy.store.references import LONGEST_S, ReferenceLane, References
from proxy.store.rollouts import Rollouts
from proxy.store.tables import Row, as_json
from proxy.wire.request import AGENTS

log = logging.getLogger("truezero")

_PATIENCE_S: Final = 5.0  # a wait that a question was told is waited for up to here
_ASKED_S: Final = 60.0  # within which a stated wait must be over: then a verdict is final
_LOOK_S: Final = 1.0  # between two looks at what others asked, of one lane
_HOUR_S: Final = 3600.0
_USES_S: Final = 2.0  # for which it is known how other rollouts ask
_NAME_MAX: Final = 200  # characters of a model's name
_END_TRIES: Final = 10
_POLL_S: Final = 0.1  # how often somebody who waits looks if a series has ended
# How many times as dear a question is that chooses so: platform.openai.com/docs/pricing (priority),
# docs.claude.com/en/docs/build-with-claude/fast-mode.
_DEARER: Final = {("service_tier", b'"priority"'): 2.0, ("speed", b'"fast"'): 6.0}


# The API of an upstream's plain form, by where its provider expects the key. Paths of Azure and
# Vertex name a deployment or a project: only a call tells them.
_USUAL_API: Final[Mapping[Auth, str]] = {
    Auth.BEARER: "openai.chat",
    Auth.NONE: "openai.chat",
    Auth.X_API_KEY: "anthropic.messages",
    Auth.X_GOOG_API_KEY: "gemini.generateContent",
    Auth.AWS: "bedrock.converse",
}
_USUAL_APIS_OF: Final[Mapping[str, str]] = {
    "cohere": "cohere.v2.chat",  # by Bearer too: docs.cohere.com/reference/chat
}
_ASKED_TOO_OFTEN: Final = Refusal(
    429,
    "too_many_references",
    f"reference calls: at most {LANE_A_MINUTE} series a minute to one model, {ALL_A_MINUTE} in all",
    ((b"retry-after", b"10"),),
)


class _Registered(NamedTuple):
    """A rollout's registration, as far as it says which lane is asked about."""

    batch: str | None
    agents: str | None
    upstream: str | None
    models: tuple[str, ...]

    @classmethod
    def of(cls, row: Row | None) -> _Registered:
        """Take it from a row of `rollouts`; None for a rollout that has none."""
        if row is None:
            return cls(None, None, None, ())
        further = (row["fallbacks"] or "").splitlines()
        models = () if row["model"] is None else (row["model"], *further)
        return cls(row["batch"], row["agents"], row["upstream"], models)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """A failed call that waits for a series; ``at`` is its end, in epoch seconds.

    ``wait_until``: the end of the wait that its answer stated; 0 if none. ``awaited``: its rollout
    has ended, and the answer to the outcome waits.
    """

    rollout_id: str
    exchange_id: str
    at: float
    side_by_side: bool = False
    wait_until: float = 0.0
    awaited: bool = False

    def shares(self, series: ReferenceSeries) -> bool:
        """Return True if a series began or ran after this, and after the wait that it was told."""
        if self.wait_until > series.started_at:
            return False
        return series.ended_at is None or self.at <= series.ended_at


@dataclass(slots=True)
class _Waiting:
    """The failures of one lane that wait for its next series, by their exchanges' ids."""

    lane: AskedLane
    failures: dict[str, _Failure] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None
    looked_at: float = -1.0

    def add(self, failure: _Failure) -> None:
        """Add a failure in place of an earlier one of its rollout that nobody waits for.

        One that somebody waits for stays as it is, however often it comes.
        """
        known = self.failures.get(failure.exchange_id)
        if known is not None and known.awaited:
            return
        for each in [*self.failures.values()]:
            if each.rollout_id == failure.rollout_id and not each.awaited:
                del self.failures[each.exchange_id]
        self.failures[failure.exchange_id] = failure

    def drop(self, failures: Iterable[_Failure]) -> None:
        """Drop failures that have their series."""
        for failure in failures:
            self.failures.pop(failure.exchange_id, None)


class ReferenceAsker:
    """Asks about the failures that this process sees, one series a lane at a time.

    A rollout's first failure has a series asked at once. Of those that follow, the last waits for
    the lane's next.

    Arguments:
        worker: this process's name in the table of workers.
        agents: how agents are trusted where a rollout's batch does not say.
        enabled: False stores that nothing is asked.
        ways: the request forms of rollouts' calls.
        cost: returns what a question of so many tokens costs in US dollars; None is unknown.
        sleep: waits so many seconds.
    """

    def __init__(
        self,
        context: RelayContext,
        references: References,
        rollouts: Rollouts,
        *,
        worker: str,
        agents: str,
        ways: Ways,
        enabled: bool = True,
        cost: Cost = lambda _upstream, _model, _tokens: None,
        sleep: Callable[[float], Any] = asyncio.sleep,
        wall: Callable[[], float] = epoch_s,
    ) -> None:
        self._context = context
        self._references = references
        self._rollouts = rollouts
        self._worker = worker
        self._agents = agents
        self._enabled = enabled
        self._cost = cost
        self._sleep = sleep
        self._wall = wall
        self._ways = ways
        self._questioner = Questioner(context, cost=cost)
        self._incoming: dict[str, Exchange] = {}
        self._sorting: asyncio.Task[None] | None = None
        self._lanes: dict[_Key, _Waiting] = {}
        self._others: dict[tuple[str, str | None], tuple[float, list[Use]]] = {}
        self._closed = False

    async def aclose(self) -> None:
        """Stop: a series under way counts for nothing."""
        self._closed = True
        await self._ways.aclose()
        tasks = [each.task for each in self._lanes.values() if each.task is not None]
        tasks += [self._sorting] if self._sorting is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- failures that come ------------------------------------------------------------------

    def failed(self, exchange: Exchange) -> None:
        """Take a call that failed; called in the event loop, again where more is known of it."""
        if self._closed or not may_need_one(exchange):
            return
        self._incoming[exchange.rollout_id] = exchange  # the last stands for those before it
        if self._sorting is None:
            self._sorting = asyncio.create_task(self._sort())

    async def _sort(self) -> None:
        """Put failures of untrusted agents, and filters, to the lanes that are asked about them."""
        try:
            while self._incoming:
                came, self._incoming = self._incoming, {}
                for exchange in came.values():
                    registered = await self._registered(exchange.rollout_id)
                    if self._untrusted(registered) or filtered(exchange):
                        await self._put(exchange, registered)
        except StoreError as error:
            log.warning("reference calls wait for the database: %s", error.kind)
        finally:
            self._sorting = None

    async def _registered(self, rollout_id: str) -> _Registered:
        return _Registered.of(await asyncio.to_thread(self._rollouts.row, rollout_id))

    def _untrusted(self, registered: _Registered) -> bool:
        return (registered.agents or self._agents) == UNTRUSTED

    async def ask(self, failures: Sequence[Exchange], within_s: float) -> None:
        """Have failures asked about that have no series yet, and wait until it has ended.

        Arguments:
            failures: calls of one rollout, which has ended.
            within_s: how long to wait, in seconds; the verdict is provisional while others run.
        """
        if not failures or self._closed:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        waiting: set[str] = set()
        while loop.time() < deadline:
            if await self._all_ended(failures, waiting):
                return
            await asyncio.sleep(_POLL_S)

    async def _all_ended(self, failures: Sequence[Exchange], waiting: set[str]) -> bool:
        """Return True if the series of all failures have ended; let those wait that have none.

        Arguments:
            waiting: ids of those that wait already. While the database is unavailable none is
                added: the next try does so.
        """
        rollout_id = failures[0].rollout_id
        try:
            known = await asyncio.to_thread(self._references.of_rollout, rollout_id)
            lacking = [x for x in failures if x.id not in known and x.id not in waiting]
            if lacking:
                registered = await self._registered(rollout_id)
            for exchange in lacking:
                await self._put(exchange, registered, awaited=True)
                waiting.add(exchange.id)
        except StoreError as error:
            log.warning("reference calls wait for the database: %s", error.kind)
            return False
        return all(x.id in known and known[x.id]["ended_at"] is not None for x in failures)

    async def _put(
        self, exchange: Exchange, registered: _Registered, *, awaited: bool = False
    ) -> None:
        """Let a failure wait for its lane's next series, or store why there is none.

        One that is to wait for longer than a verdict does is left until its rollout has ended.
        """
        lane, reason = await self._lane(exchange, registered)
        failure = _Failure(
            rollout_id=exchange.rollout_id,
            exchange_id=exchange.id,
            at=ended_at(exchange),
            side_by_side=exchange.timed_out or exchange.cause is None,
            # What a limit says holds for the name that it was asked by.
            wait_until=_wait_until(exchange) if exchange.model == lane.model else 0.0,
            awaited=awaited,
        )
        if reason is None:
            reason = await self._reason_against(lane, registered)
        if reason is None and failure.wait_until > self._wall() + _ASKED_S:
            if not awaited:
                return
            reason = NotRun.RETRY_AFTER
        if reason is not None:
            await self._share_reason(lane, reason, [failure])
            return
        waiting = self._lanes.setdefault(_key(lane), _Waiting(lane))
        waiting.lane = lane
        waiting.add(failure)
        if waiting.task is None and not self._closed:
            waiting.task = asyncio.create_task(self._serve(waiting))

    # --- the lane that is asked --------------------------------------------------------------

    async def _lane(
        self, exchange: Exchange, registered: _Registered
    ) -> tuple[AskedLane, NotRun | None]:
        """Return which lane a failure is asked about, in which ways, and why it cannot be."""
        of_agent = exchange.role == AGENT
        uses = await self._uses(exchange, registered.batch)
        name = AskedName(exchange.model)
        if of_agent:
            name = name_to_ask(exchange.model, registered.models, uses, upstream=exchange.upstream)
        same = [x for x in uses if canonical(x.model) == canonical(name.model)]
        second = of_agent and self._untrusted(registered)
        await self._ways.store()
        way, usual = await asyncio.to_thread(self._asked_ways, exchange, same, second=second)
        asked = AskedLane(
            upstream=exchange.upstream,
            name=name,
            way=way,
            usual=usual,
            answered_as=answered_as(name, uses),
        )
        if not asked.api or not name.model or not _is_asked(name.model):
            return replace(asked, name=AskedName(asked.model[:_NAME_MAX])), NotRun.NO_FORM
        return asked, None

    async def _uses(self, exchange: Exchange, batch: str | None) -> list[Use]:
        """Return how a failed call's rollout called its upstream, then how others of its batch did.

        The others are looked up once in some seconds: in an outage many fail at once.
        """
        known, now = (exchange.upstream, batch), self._wall()
        at, others = self._others.get(known, (0.0, []))
        if not 0 <= now - at < _USES_S:
            ids = await asyncio.to_thread(self._references.last_registered, batch)
            others = await asyncio.to_thread(self._references.uses, exchange.upstream, ids)
            self._others = {x: y for x, y in self._others.items() if now - y[0] < _USES_S}
            self._others[known] = now, others
        own = await asyncio.to_thread(
            self._references.uses, exchange.upstream, [exchange.rollout_id]
        )
        return [*own, *(x for x in others if x.rollout_id != exchange.rollout_id)]

    def _asked_ways(
        self, exchange: Exchange, uses: Sequence[Use], *, second: bool
    ) -> tuple[Way | None, tuple[Way, AskedBy] | None]:
        """Return the failed call's own way, and the usual one if that may be another; in a thread.

        Arguments:
            uses: of its model.
            second: the usual way is asked too.
        """
        upstream, own = self._context.upstreams.get(exchange.upstream), self._ways.of(exchange)
        if upstream is None:
            return None, None
        own = _placed(own, upstream)
        mine = [x for x in uses if x.rollout_id == exchange.rollout_id]
        usual_api = _usual_api(upstream)
        if own.api not in PLAIN:
            api = nearest_api(own.api, uses, PLAIN) or usual_api
            return None, None if api is None else (Way(api), AskedBy.USUAL)
        if not second:
            return own, None
        known = {PLAIN.get(x.api) for x in mine if x.answered}
        plain = Way(own.api if usual_api is None or own.api in known else usual_api)
        streamed = own.streamed and usually_streams(exchange.rollout_id, uses)
        found = usual_way(own.shape, plain, self._ways_of_others(exchange, upstream, uses))
        if found is None and streamed != own.streamed:
            found = own.shape, AskedBy.USUAL
        if found is None:
            return own, None
        way, asked_by = found
        return own, (replace(way, version=own.version, streamed=streamed), asked_by)

    def _ways_of_others(
        self, exchange: Exchange, upstream: Upstream, uses: Sequence[Use]
    ) -> Counter[Way]:
        """Count the ways of other rollouts, as noted or as their calls are on record."""
        others = {x.rollout_id: x.api for x in uses if x.rollout_id != exchange.rollout_id}
        noted = self._ways.of_rollouts(upstream.name, exchange.model, others.keys())
        ways = Counter(_placed(way, upstream) for way, of in noted.items() for _ in of)
        known = {rollout for of in noted.values() for rollout in of}
        ways.update(
            Way(PLAIN[api]) for rollout, api in others.items()
            if rollout not in known and api in PLAIN
        )  # fmt: skip
        return ways

    async def _reason_against(self, lane: AskedLane, registered: _Registered) -> NotRun | None:
        """Return why a lane is not asked; None if it is."""
        upstream = self._context.upstreams.get(lane.upstream)
        if not self._enabled:
            return NotRun.OFF
        if upstream is None or upstream.url is None:
            return NotRun.FAILED_TO_RUN
        if not await self._questioner.holds_key(upstream):
            known = registered.upstream == upstream.name or bool(lane.answered_as)
            if not (asks_for_no_key(upstream) and known):
                return NotRun.NO_KEY
        tokens = self._questioner.tokens(lane)
        cost = await asyncio.to_thread(self._cost, lane.upstream, lane.model, tokens)
        if cost is None:
            return None
        dearer = max([_DEARER.get(x, 1.0) for x in (lane.way.fields if lane.way else ())] or [1.0])
        return NotRun.TOO_DEAR if cost * dearer > TOO_DEAR_USD else None

    async def _share_reason(
        self,
        lane: AskedLane,
        reason: NotRun,
        failures: Iterable[_Failure],
        calls: Iterable[ReferenceCall] = (),
    ) -> str:
        """Store why no question is asked, once a minute, lane and reason; returns the series."""
        now = self._wall()
        of_model = ReferenceLane(lane.upstream, lane.model)
        known = await asyncio.to_thread(self._references.recent, of_model, since=now - MINUTE_S)
        same = (x.id for x in known if x.not_run is reason and x.way == lane.digest)
        series_id = next(same, None)
        if series_id is None:
            series_id = self._context.new_id()
            await self._begin(series_id, lane, now)
            await asyncio.to_thread(
                self._references.end, series_id, at=now, calls=encoded(calls), not_run=reason.value
            )
        await self._share(series_id, failures)
        return series_id

    # --- a series that somebody asks for ------------------------------------------------------

    async def ask_now(self, upstream: str, model: str) -> str:
        """Ask one series whether anything failed or not; returns its id once it has ended.

        It is one of its lane's: failures that end beside it share it.

        Raises:
            Refusal: 429 if the lane, or the service, has had its series of this minute.
            StoreError: the database is unavailable.
        """
        registered = _Registered(None, None, upstream, (model,))
        known = self._context.upstreams.get(upstream)
        await self._ways.store()
        way = await asyncio.to_thread(self._ways.last_used, upstream, model)
        if way is None or way.api not in PLAIN:
            api = None if known is None else _usual_api(known)
            way = None if api is None else Way(api)
        lane = AskedLane(upstream=upstream, name=AskedName(model[:_NAME_MAX]), way=way)
        reason = None if way and _is_asked(model) else NotRun.FAILED_TO_RUN
        reason = reason or await self._reason_against(lane, registered)
        if reason is not None:
            return await self._share_reason(lane, reason, [])
        await self._require_turn(lane)
        return await self._run(_Waiting(lane))

    async def _require_turn(self, lane: AskedLane) -> None:
        since = self._wall() - MINUTE_S
        asked = ReferenceLane(lane.upstream, lane.model)
        series = await asyncio.to_thread(self._references.recent, asked, since=since)
        in_all = await asyncio.to_thread(self._references.started, since=since)
        if len(_run_series(series)) >= LANE_A_MINUTE or in_all >= ALL_A_MINUTE:
            raise _ASKED_TOO_OFTEN

    # --- series of a lane --------------------------------------------------------------------

    async def _serve(self, waiting: _Waiting) -> None:
        """Ask for as long as failures of the lane wait, whatever becomes of the database."""
        try:
            while waiting.failures:
                try:
                    wait_s = await self._step(waiting)
                except StoreError as error:
                    log.warning("reference calls wait for the database: %s", error.kind)
                    wait_s = _LOOK_S
                if wait_s > 0:
                    await self._sleep(min(wait_s, _LOOK_S))
        finally:
            waiting.task = None
            if not waiting.failures:
                self._lanes.pop(_key(waiting.lane), None)

    async def _step(self, waiting: _Waiting) -> float:
        """Share what others asked, or ask if it is time; returns the seconds to wait."""
        lane = ReferenceLane(waiting.lane.upstream, waiting.lane.model)
        now = self._wall()
        if 0 <= now - waiting.looked_at < _LOOK_S:
            return _LOOK_S - (now - waiting.looked_at)
        waiting.looked_at = now
        known = await asyncio.to_thread(self._references.recent, lane, since=now - _HOUR_S)
        await self._share_known(waiting, known, now)
        if not waiting.failures:
            return 0.0
        ready = [x for x in waiting.failures.values() if x.wait_until <= now]
        if not ready:
            return min(x.wait_until for x in waiting.failures.values()) - now
        run = _run_series(known)
        last = next((x for x in run if x.way == waiting.lane.digest and x.ended_at), None)
        until = 0.0 if last is None else told_to_wait(last)
        if last is not None and until - now > _PATIENCE_S:
            await self._share_reason(waiting.lane, NotRun.RETRY_AFTER, ready, last.calls)
            waiting.drop(ready)
            return 0.0
        awaited = any(each.awaited for each in ready)
        due = max(due_at(run, now, way=waiting.lane.digest, awaited=awaited), until)
        if due > now:
            return due - now
        in_all = await asyncio.to_thread(self._references.started, since=now - MINUTE_S)
        if in_all >= a_minute(ALL_A_MINUTE, awaited=awaited):
            return _LOOK_S
        await self._run(waiting, ready)
        return 0.0

    async def _share_known(
        self, waiting: _Waiting, known: Sequence[ReferenceSeries], now: float
    ) -> None:
        """Share the first series that asked alike and began or ran after a failure, if any did."""
        for series in reversed(known):
            if series.way != waiting.lane.digest or not _counts(series, now):
                continue
            fits = [x for x in waiting.failures.values() if x.shares(series)]
            await self._share(series.id, fits)
            waiting.drop(fits)

    async def _run(self, waiting: _Waiting, first: Sequence[_Failure] = ()) -> str:
        """Ask one series, which the failures share that end before it does; returns its id."""
        lane, series_id = waiting.lane, self._context.new_id()
        side_by_side = any(each.side_by_side for each in first)
        calls: list[ReferenceCall] = []
        reason: NotRun | None = NotRun.STOPPED
        await self._begin(series_id, lane, self._wall())
        try:
            await self._share(series_id, first)
            waiting.drop(first)
            calls = await self._questioner.series(lane, side_by_side=side_by_side)
            reason = None
        except StoreError:  # the failures wait for another series
            raise
        except Exception as error:  # of any kind: the failures go on without it
            reason = NotRun.FAILED_TO_RUN
            log.error("a series of reference calls failed: %s", type(error).__name__)
        finally:
            at = self._wall()
            end = self._end(series_id, at, calls, reason)
            await asyncio.shield(asyncio.ensure_future(end))
        during = [x for x in waiting.failures.values() if x.at <= at and x.wait_until <= at]
        await self._share(series_id, during)
        waiting.drop(during)
        return series_id

    async def _begin(self, series_id: str, lane: AskedLane, at: float) -> None:
        await asyncio.to_thread(
            self._references.begin, series_id, ReferenceLane(lane.upstream, lane.model),
            api=lane.api, worker=self._worker, at=at, way=lane.digest,
        )  # fmt: skip

    async def _end(
        self, series_id: str, at: float, calls: Sequence[ReferenceCall], reason: NotRun | None
    ) -> None:
        """Store how a series ended; one that cannot be stored in time has been stopped."""
        for tries_left in reversed(range(_END_TRIES)):
            try:
                await asyncio.to_thread(
                    self._references.end, series_id, at=at, calls=encoded(calls),
                    not_run=None if reason is None else reason.value,
                )  # fmt: skip
                return
            except StoreError:
                if not tries_left or self._closed:
                    raise
                await self._sleep(_LOOK_S)

    async def _share(self, series_id: str, failures: Iterable[_Failure]) -> None:
        pairs = [(each.rollout_id, each.exchange_id) for each in failures]
        if pairs:
            await asyncio.to_thread(self._references.share, series_id, pairs)


_Key = tuple[str, str, str, str | None]


def _key(lane: AskedLane) -> _Key:
    return lane.upstream, lane.model, lane.api, lane.digest


def _usual_api(upstream: Upstream) -> str | None:
    return _USUAL_APIS_OF.get(upstream.name) or _USUAL_API.get(upstream.auth)


def _placed(way: Way, upstream: Upstream) -> Way:
    """Return a way, without its path if its provider has the API there as a rule."""
    if way.api in PLAIN and way.path == usual_path(PLAIN[way.api], upstream.base_path):
        return replace(way, path=None)
    return way


def _is_asked(model: str) -> bool:
    """Return True if a model of this name may be asked: a hosted agent answers no question."""
    return len(model) <= _NAME_MAX and not model.startswith(AGENTS)


def may_need_one(exchange: Exchange) -> bool:
    """Return True if a verdict may hang on a reference for a failed call, by the call alone."""
    cause = exchange.cause
    if exchange.injected or exchange.attribution in (
        Attribution.UNATTRIBUTED,
        Attribution.REFERENCE,
    ):
        return False
    if exchange.kind not in (Kind.INFERENCE, Kind.CONTINUATION):
        return False
    if exchange.key_source is KeySource.OVERRIDE:
        return False
    if cause is None:
        return exchange.ending in ABANDONED and not exchange.output_seen
    rejected = cause.subcategory is Subcategory.REJECTED_REQUEST
    return not rejected or cause.reason in (None, WRONG_SHAPE, FILTERED)


def _wait_until(exchange: Exchange) -> float:
    """Return when the wait stated by a limit ends, in epoch seconds; 0 for any other failure."""
    cause = exchange.cause
    limited = cause is not None and cause.subcategory in (Subcategory.RATE_LIMIT, Subcategory.QUOTA)
    if cause is None or not limited or cause.retry_after_s is None:
        return 0.0
    return ended_at(exchange) + cause.retry_after_s


def _counts(series: ReferenceSeries, now: float) -> bool:
    """Return True if a stored series counts, or still may: it was not stopped or killed."""
    if series.not_run in (NotRun.STOPPED, NotRun.RETRY_AFTER):
        return False
    return series.ended_at is not None or now - series.started_at < LONGEST_S


def _run_series(known: Iterable[ReferenceSeries]) -> list[ReferenceSeries]:
    """Return the series in which something was asked."""
    return [x for x in known if x.not_run is None or x.not_run is NotRun.STOPPED]


def encoded(calls: Iterable[ReferenceCall]) -> str:
    """Return JSON of reference calls, as the classifier's codec reads it."""
    return as_json([asdict(call) for call in calls])
