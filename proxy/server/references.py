"""Asking of reference calls in one process: about which failures, and how often.

The process that saw a failure asks, beside its relay: no agent waits. Which series others ask and
have asked is in the database, so that workers and replicas share them and count them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

from classifier.logical_calls import canonical, ended_at
from classifier.records import ABANDONED, WRONG_SHAPE, Attribution, Exchange, KeySource, Kind
from classifier.references import NotRun, ReferenceCall
from classifier.verdicts import UNTRUSTED, Subcategory
from proxy.clock import epoch_s
from proxy.relay.context import RelayContext
from proxy.relay.references import AskedLane, Questioner
from proxy.routing.errors import Refusal
from proxy.routing.keys import AGENT
from proxy.routing.upstreams import Auth, asks_for_no_key
from proxy.store.errors import StoreError
from proxy.store.references import LONGEST_S, ReferenceLane, References
from proxy.store.rollouts import Rollouts
from proxy.store.tables import Row, as_json
from proxy.wire import routes
from proxy.wire.questions import api_asked
from proxy.wire.request import AGENTS

log = logging.getLogger("truezero")

_TOO_DEAR_USD: Final = 0.01
_PATIENCE_S: Final = 5.0  # a wait that a provider states is waited for up to here

_LANE_A_MINUTE: Final = 12
_ALL_A_MINUTE: Final = 60
_AT_ENDS: Final = 3  # one in so many of both is kept for failures whose outcome waits
_MINUTE_S: Final = 60.0
_LOOK_S: Final = 1.0  # between two looks at what others asked, of one lane
_FARTHEST_S: Final = 300.0  # between series that fail alike
_AWAITED_S: Final = 5.0  # the same, where the answer to an outcome waits for one
_HOUR_S: Final = 3600.0
_NAME_MAX: Final = 200  # characters of a model's name
_END_TRIES: Final = 10
_POLL_S: Final = 0.1  # how often somebody who waits looks if a series has ended


# The API of a model that was never answered, by where its provider expects the key. Paths of Azure
# and Vertex name a deployment or a project: only an answered call tells them.
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
    f"reference calls: at most {_LANE_A_MINUTE} series a minute to one model, "
    f"{_ALL_A_MINUTE} in all",
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

    ``wait_until``: until when its answer said to wait. ``awaited``: its rollout has ended, and the
    answer to the outcome waits.
    """

    rollout_id: str
    exchange_id: str
    at: float
    side_by_side: bool = False
    wait_until: float | None = None
    awaited: bool = False


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
        cost: returns what a question to a model costs in US dollars; None is unknown.
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
        enabled: bool = True,
        cost: Callable[[str, str], float | None] = lambda _upstream, _model: None,
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
        self._questioner = Questioner(context)
        self._incoming: dict[str, Exchange] = {}
        self._sorting: asyncio.Task[None] | None = None
        self._lanes: dict[tuple[str, str, str], _Waiting] = {}
        self._closed = False

    async def aclose(self) -> None:
        """Stop: a series under way counts for nothing."""
        self._closed = True
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
        """Put failures of untrusted agents to the lanes that are asked about them."""
        try:
            while self._incoming:
                came, self._incoming = self._incoming, {}
                for exchange in came.values():
                    registered = await self._registered(exchange.rollout_id)
                    if (registered.agents or self._agents) == UNTRUSTED:
                        await self._put(exchange, registered)
        except StoreError as error:
            log.warning("reference calls wait for the database: %s", error.kind)
        finally:
            self._sorting = None

    async def _registered(self, rollout_id: str) -> _Registered:
        return _Registered.of(await asyncio.to_thread(self._rollouts.row, rollout_id))

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
        """Let a failure wait for its lane's next series, or store why there is none."""
        lane, reason = await self._lane(exchange, registered)
        failure = _Failure(
            rollout_id=exchange.rollout_id,
            exchange_id=exchange.id,
            at=ended_at(exchange),
            side_by_side=exchange.timed_out or exchange.cause is None,
            # What a limit says holds for the name that it was asked by.
            wait_until=_wait_until(exchange) if exchange.model == lane.model else None,
            awaited=awaited,
        )
        if reason is None:
            reason = await self._reason_against(lane, registered)
        if reason is not None:
            await self._share_reason(lane, reason, [failure])
            return
        waiting = self._lanes.setdefault((lane.upstream, lane.model, lane.api), _Waiting(lane))
        waiting.lane = lane
        waiting.add(failure)
        if waiting.task is None and not self._closed:
            waiting.task = asyncio.create_task(self._serve(waiting))

    # --- the lane that is asked --------------------------------------------------------------

    async def _lane(
        self, exchange: Exchange, registered: _Registered
    ) -> tuple[AskedLane, NotRun | None]:
        """Return which lane a failure is asked about, and why it cannot be.

        An agent's is the one of its registration: the name that was last answered for it, else
        the registered one. Where none is registered, what its batch was last answered by stands
        for it, and only then what the agent named. Of a registered model that is not found, the
        registered name is asked for. Of a call that streamed, questions do where the last answered
        call did: no agent chooses a way that nobody was answered by.
        """
        upstream, model, answered = exchange.upstream, exchange.model, None
        if exchange.role == AGENT:
            names = registered.models
            spelled = await self._registered_name(exchange, registered)
            answered = await asyncio.to_thread(
                self._references.last_answered,
                upstream,
                names,
                batch=None if names else registered.batch,
                now=self._wall(),
                named=spelled,
            )
            if spelled is not None:
                model = spelled
            elif answered is not None:
                model = answered.model
            elif names and model not in names:
                model = names[0]
        api = api_asked(exchange.api if answered is None else answered.api)
        lane = AskedLane(
            upstream=upstream,
            model=model or "",
            api=api or exchange.api,
            answered_as=() if answered is None else answered.answered_as,
            streamed=answered is not None and bool(answered.streamed and exchange.streamed),
        )
        if answered is not None and answered.method == routes.WEBSOCKET:
            return lane, NotRun.WEBSOCKET_ONLY
        if api is None or model is None or not _is_asked(model):
            return replace(lane, model=lane.model[:_NAME_MAX]), NotRun.FAILED_TO_RUN
        return lane, None

    async def _registered_name(self, exchange: Exchange, registered: _Registered) -> str | None:
        """Return the name to ask for where a registered model is not found; None elsewhere.

        That is the failed call's own if it is registered, else the equal one that is: as the batch
        was answered by it under another spelling, or without the upstream's name before it.
        """
        model, cause = exchange.model, exchange.cause
        if cause is None or cause.subcategory is not Subcategory.MODEL_NOT_FOUND:
            return None
        if model in registered.models:
            return model
        own = next((x for x in registered.models if canonical(x) == canonical(model)), None)
        if own is None:
            return None
        known = await asyncio.to_thread(
            self._references.answered_names,
            exchange.upstream,
            registered.models,
            batch=registered.batch,
            now=self._wall(),
        )
        others = [x for x in known if x != model and canonical(x) == canonical(own)]
        plain = own.removeprefix(f"{exchange.upstream}/")
        return own if own in others else next(iter(others), plain)

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
        cost = await asyncio.to_thread(self._cost, lane.upstream, lane.model)
        return NotRun.TOO_DEAR if cost is not None and cost > _TOO_DEAR_USD else None

    async def _share_reason(
        self, lane: AskedLane, reason: NotRun, failures: Iterable[_Failure], calls: str = "[]"
    ) -> str:
        """Store why no question is asked, once a minute, lane and reason; returns the series."""
        now = self._wall()
        of_model = ReferenceLane(lane.upstream, lane.model)
        rows = await asyncio.to_thread(self._references.recent, of_model, since=now - _MINUTE_S)
        series_id = next((row["id"] for row in rows if row["not_run"] == reason), None)
        if series_id is None:
            series_id = self._context.new_id()
            await self._begin(series_id, lane, now)
            await asyncio.to_thread(
                self._references.end, series_id, at=now, calls=calls, not_run=reason.value
            )
        await self._share(series_id, failures)
        return str(series_id)

    # --- a series that somebody asks for ------------------------------------------------------

    async def ask_now(self, upstream: str, model: str) -> str:
        """Ask one series whether anything failed or not; returns its id once it has ended.

        It is one of its lane's: failures that end beside it share it.

        Raises:
            Refusal: 429 if the lane, or the service, has had its series of this minute.
            StoreError: the database is unavailable.
        """
        registered = _Registered(None, None, upstream, (model,))
        answered = await asyncio.to_thread(
            self._references.last_answered, upstream, registered.models, now=self._wall()
        )
        api = self._usual_api(upstream) if answered is None else api_asked(answered.api)
        lane = AskedLane(
            upstream=upstream,
            model=model[:_NAME_MAX],
            api=api or "",
            answered_as=() if answered is None else answered.answered_as,
        )
        reason = None if api and _is_asked(model) else NotRun.FAILED_TO_RUN
        reason = reason or await self._reason_against(lane, registered)
        if reason is not None:
            return await self._share_reason(lane, reason, [])
        await self._require_turn(lane)
        return await self._run(_Waiting(lane))

    def _usual_api(self, name: str) -> str | None:
        upstream = self._context.upstreams.get(name)
        if upstream is None:
            return None
        return _USUAL_APIS_OF.get(name) or _USUAL_API.get(upstream.auth)

    async def _require_turn(self, lane: AskedLane) -> None:
        since = self._wall() - _MINUTE_S
        asked = ReferenceLane(lane.upstream, lane.model)
        rows = await asyncio.to_thread(self._references.recent, asked, since=since)
        in_all = await asyncio.to_thread(self._references.started, since=since)
        if len(_run_series(rows)) >= _LANE_A_MINUTE or in_all >= _ALL_A_MINUTE:
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
                lane = waiting.lane
                self._lanes.pop((lane.upstream, lane.model, lane.api), None)

    async def _step(self, waiting: _Waiting) -> float:
        """Share what others asked, or ask if it is time; returns the seconds to wait."""
        lane = ReferenceLane(waiting.lane.upstream, waiting.lane.model)
        now = self._wall()
        if 0 <= now - waiting.looked_at < _LOOK_S:
            return _LOOK_S - (now - waiting.looked_at)
        waiting.looked_at = now
        rows = await asyncio.to_thread(self._references.recent, lane, since=now - _HOUR_S)
        await self._share_known(waiting, rows, now)
        failures = list(waiting.failures.values())
        if not failures:
            return 0.0
        until = max([_asked_to_wait(rows), *(each.wait_until or 0.0 for each in failures)])
        if until - now > _PATIENCE_S:
            calls = next((row["calls"] for row in rows if row["not_run"] is None), "[]")
            await self._share_reason(waiting.lane, NotRun.RETRY_AFTER, failures, calls)
            waiting.drop(failures)
            return 0.0
        awaited = any(each.awaited for each in failures)
        due = max(due_at(rows, now, awaited=awaited), until)
        if due > now:
            return due - now
        in_all = await asyncio.to_thread(self._references.started, since=now - _MINUTE_S)
        if in_all >= _a_minute(_ALL_A_MINUTE, awaited=awaited):
            return _LOOK_S
        await self._run(waiting)
        return 0.0

    async def _share_known(self, waiting: _Waiting, rows: Sequence[Row], now: float) -> None:
        """Share the first series that began or ran after a failure, if there is one."""
        for row in reversed(rows):
            if not _counts(row, now):
                continue
            ended = row["ended_at"]
            fits = [x for x in waiting.failures.values() if ended is None or x.at <= ended]
            await self._share(row["id"], fits)
            waiting.drop(fits)

    async def _run(self, waiting: _Waiting) -> str:
        """Ask one series, which the failures share that end before it does; returns its id."""
        lane, series_id = waiting.lane, self._context.new_id()
        first = list(waiting.failures.values())
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
        during = [each for each in waiting.failures.values() if each.at <= at]
        await self._share(series_id, during)
        waiting.drop(during)
        return series_id

    async def _begin(self, series_id: str, lane: AskedLane, at: float) -> None:
        await asyncio.to_thread(
            self._references.begin, series_id, ReferenceLane(lane.upstream, lane.model),
            api=lane.api, worker=self._worker, at=at,
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
    return not rejected or cause.reason in (None, WRONG_SHAPE)


def _wait_until(exchange: Exchange) -> float | None:
    """Return until when a limit said to wait, in epoch seconds; an outage's word is no proof."""
    cause = exchange.cause
    limited = cause is not None and cause.subcategory in (Subcategory.RATE_LIMIT, Subcategory.QUOTA)
    if cause is None or not limited or cause.retry_after_s is None:
        return None
    return ended_at(exchange) + cause.retry_after_s


def _counts(row: Row, now: float) -> bool:
    """Return True if a stored series counts, or still may: it was not stopped or killed."""
    if row["not_run"] in (NotRun.STOPPED, NotRun.RETRY_AFTER):
        return False
    return row["ended_at"] is not None or now - row["started_at"] < LONGEST_S


def _asked_to_wait(rows: Sequence[Row]) -> float:
    """Return until when the last series was told to wait, in epoch seconds; 0 if it was not."""
    last = next((row for row in rows if row["not_run"] is None and row["ended_at"]), None)
    calls = json.loads(last["calls"]) if last is not None else []
    waits = [c["ended_at"] + c["retry_after_s"] for c in calls if c.get("retry_after_s")]
    return max(waits, default=0.0)


def due_at(rows: Sequence[Row], now: float, *, awaited: bool = False) -> float:
    """Return from when on a lane may be asked again, in epoch seconds.

    At most twelve series a minute, eight where nobody waits: an agent that fails and is answered by
    turns cannot use up what its last failure needs. While they fail alike, the distance of two
    doubles from a second up to five minutes.

    Arguments:
        rows: the lane's series, the newest first.
        awaited: somebody waits, so that series that fail alike are at most five seconds apart.
    """
    run = _run_series(rows)
    due, most = 0.0, _a_minute(_LANE_A_MINUTE, awaited=awaited)
    if len(run) >= most and run[most - 1]["started_at"] > now - _MINUTE_S:
        due = run[most - 1]["started_at"] + _MINUTE_S
    ends = [_failed_as(row) for row in run]
    alike = next((at for at, end in enumerate(ends) if end is None or end != ends[0]), len(ends))
    if alike:
        distance = min(2.0 ** (alike - 1), _AWAITED_S if awaited else _FARTHEST_S)
        due = max(due, run[0]["started_at"] + distance)
    return due


def _a_minute(most: int, *, awaited: bool) -> int:
    return most if awaited else most - most // _AT_ENDS


def _run_series(rows: Sequence[Row]) -> list[Row]:
    """Return the series in which something was asked."""
    return [row for row in rows if row["not_run"] is None or row["not_run"] == NotRun.STOPPED]


def _failed_as(row: Row) -> str | None:
    """Return the subcategory that the last question of a series failed with; None elsewhere."""
    calls = json.loads(row["calls"])
    if not calls or calls[-1].get("answered") is not False:
        return None
    return str(calls[-1].get("subcategory"))


def encoded(calls: Iterable[ReferenceCall]) -> str:
    """Return JSON of reference calls, as the classifier's codec reads it."""
    return as_json([asdict(call) for call in calls])
