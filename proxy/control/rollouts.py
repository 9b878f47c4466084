"""Everything that can be asked of the service, once: REST, pages and command line all ask here.

It moves no bytes of agents and knows no HTTP beyond a Refusal's status.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import orjson

from classifier import breakers, codec
from classifier.batches import Entry, ScoredBatch, reward_of, summarize
from classifier.diagnostics import Diagnostic, diagnose
from classifier.policy import SEED, Policy
from classifier.records import Exchange, ExecutionStatus, Outcome, RolloutRecord
from classifier.results import result
from classifier.retries import with_advice
from classifier.rules import judge
from classifier.verdicts import Verdict
from proxy.control.pricing import PriceTable
from proxy.control.threads import run_in_thread
from proxy.routing.errors import Refusal
from proxy.routing.rollout_keys import Keyring
from proxy.routing.upstreams import Upstream, normalised
from proxy.store import dashboard
from proxy.store.database import RESTART_GRACE_S, Database
from proxy.store.errors import StoreError
from proxy.store.types import Registration, Row, as_json
from proxy.store.verdicts import ENTRY_COLUMNS
from truezero import models

_PAGE = 1000
_BY_VERDICT = ("health", "subcategory", "fingerprint")
_REFRESH = 1000  # rollouts judged anew before a list is filtered by verdict
_SETTLE_POLL_S = 0.05
_SUMS_KEPT = 32  # batches whose summary is kept

_EVENTS_POLL_S = 0.3
_EVENTS_UNTOLD_S = 1.0  # where the database tells of them
_EVENTS_GAP_S = 0.05  # so that a storm of them is read in groups
_SUMMARY = (
    "health", "subcategory", "fingerprint", "summaries", "pending", "input_tokens",
    "output_tokens", "total_tokens", "cost_usd",
)  # fmt: skip

T = TypeVar("T")


class BatchEvent(NamedTuple):
    """One thing that happened in a batch; without a kind it is a sign of life."""

    id: int
    kind: str
    data: dict[str, Any]


class _JudgedCalls(NamedTuple):
    """A rollout as it was read, and whether a verdict on it may be kept."""

    rollout: RolloutRecord
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSummary:
    """A batch summed up, and the stamp of the state it was in."""

    stamp: tuple[Any, ...]
    rollouts: int
    skipped: int
    summary: ScoredBatch
    retry: list[dict[str, Any]]

    def told(self, batch: str) -> dict[str, Any]:
        """As `GET /batches/{id}` answers."""
        counted = {name: getattr(self.summary, name) for name in _SUMMARY}
        return {
            "batch": batch,
            "rollouts": self.rollouts,
            "skipped": self.skipped,
            **counted,
            **asdict(self.summary.scores),
            "valid": self.summary.check.valid,
            "retry": self.retry,
        }

    def checked(self, batch: str) -> dict[str, Any]:
        """As `GET /batches/{id}/check` answers."""
        found = self.summary.check
        return {"batch": batch, "valid": found.valid, "lines": found.lines}


class RecorderState(Protocol):
    """What the desk asks of the recorder."""

    @property
    def failing(self) -> bool:
        """Whether the database refuses writes."""
        ...

    @property
    def gaps_counted(self) -> int:
        """Calls that were served and could not be recorded."""
        ...

    @property
    def waiting(self) -> int:
        """Exchanges not yet written."""
        ...

    def missing(self, rollout_id: str) -> int:
        """A rollout's calls that were served but are not in the database."""
        ...


class RolloutService:
    """The control desk of one process.

    Arguments:
        database: asked in threads, so that a slow answer holds no agent's bytes up.
        prices: what calls cost where the provider did not say.
        policy: how to judge, retry and stop.
        proof_required: base URLs carry the rollout's secret.
        new_id: makes ids for rollouts that come without one.
        wall: seconds since the epoch.
        changed: told when what a rollout's key opens, or its drill, is another than before.
        leaving: whether the process is about to end, and streams with it.
    """

    def __init__(
        self,
        *,
        database: Database,
        recorder: RecorderState,
        keyring: Keyring,
        upstreams: Mapping[str, Upstream],
        prices: PriceTable,
        policy: Policy,
        proof_required: bool,
        new_id: Callable[[], str],
        wall: Callable[[], float],
        changed: Callable[[str], None] = lambda _rollout_id: None,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._keyring = keyring
        self._upstreams = upstreams
        self._prices = prices
        self._policy = policy
        self._proof_required = proof_required
        self._new_id = new_id
        self._wall = wall
        self._changed = changed
        self._leaving = leaving
        self._registered: set[str] = set()
        self._summed_up: dict[str, CachedSummary] = {}

    # rollouts

    async def register(
        self, request: models.RolloutRequest, *, public_url: str
    ) -> models.RolloutRegistered:
        """Announce a rollout and say where its agent finds us.

        Raises:
            Refusal: 409 where it was announced with other facts, 422 for an unknown upstream.
        """
        rollout_id = request.id or self._new_id()
        upstream = self._known_upstream(request.upstream)
        registration = Registration(
            id=rollout_id,
            batch=request.batch,
            task=request.task,
            attempt=request.attempt,
            model=request.model,
            upstream=upstream,
            usage_channel=request.usage_channel,
            metadata=as_json(request.metadata) if request.metadata is not None else None,
            fault=as_json(request.fault.model_dump()) if request.fault is not None else None,
        )
        now = self._wall()
        wanted = RolloutRecord(
            id=rollout_id, batch=request.batch, model=request.model, upstream=upstream
        )
        done = await self._ask(
            self._database.rollouts.register,
            registration,
            now=now,
            admit=lambda states: breakers.admit(wanted, states, now=now),
        )
        if done.conflict:
            raise Refusal(
                409, "rollout_exists", f"rollout {rollout_id!r} is registered with other facts"
            )
        drilled = request.fault is not None
        if drilled:
            self._changed(rollout_id)
        urls = self._base_urls(rollout_id, public_url, proven=drilled or self._proof_required)
        key = self._keyring.mint(rollout_id)
        return models.RolloutRegistered(
            id=rollout_id,
            key=key,
            admitted=done.skipped is None,
            error=done.skipped,
            base_urls=urls,
            env={
                variable: urls[name]
                for name, upstream_ in self._upstreams.items()
                for variable in upstream_.env
                if name in urls
            },
        )

    async def admits(self, rollout_id: str) -> None:
        """Let only announced rollouts through.

        Raises:
            Refusal: 401 where nobody announced it.
        """
        if rollout_id in self._registered:
            return
        if not await self._ask(self._database.rollouts.is_registered, rollout_id):
            raise Refusal(
                401,
                "unregistered_rollout",
                "this rollout was never registered, and TRUEZERO_REQUIRE_REGISTRATION is set: "
                "POST /rollouts first",
            )
        if len(self._registered) > 100_000:
            self._registered.clear()
        self._registered.add(rollout_id)

    async def known(self, rollout_id: str) -> Row | None:
        """A rollout's facts as they are stored, None where nobody has named it."""
        return await self._ask(self._database.rollouts.row, rollout_id)

    async def revoke(self, rollout_id: str, *, at: float) -> None:
        """Let a rollout's key and secret open nothing from then on, in epoch seconds."""
        await self._ask(self._database.rollouts.revoke, rollout_id, at=at)
        self._changed(rollout_id)

    async def sign_out(self, name: str, *, ends: int) -> None:
        """Let every process know of a session that was ended before its end, in epoch seconds."""
        await self._ask(self._database.deployment.end_session, name, ends=ends, now=self._wall())

    async def aliased(self, alias: str) -> list[str]:
        """Rollouts registered under an alias whose keys still open something."""
        return await self._ask(self._database.rollouts.aliased, alias, now=self._wall())

    async def report(self, rollout_id: str, request: models.OutcomeRequest) -> dict[str, Any]:
        """Keep what the runner saw, and answer with the rollout's result.

        Raises:
            Refusal: 404 for an unknown rollout, 409 where another outcome stands.
        """
        text = as_json(request.model_dump())
        stands = await self._ask(self._database.rollouts.report, rollout_id, text, now=self._wall())
        if stands is None:
            raise _unknown(rollout_id)
        self._changed(rollout_id)
        if stands != text:
            raise Refusal(
                409, "outcome_exists", f"rollout {rollout_id!r} already has another outcome"
            )
        return await self.stored_result(rollout_id)

    async def verdict(
        self,
        rollout_id: str,
        *,
        policy: str | None = None,
        settled: bool = False,
        timeout_s: float = 10.0,
    ) -> dict[str, Any]:
        """Judge a rollout on everything recorded so far.

        Arguments:
            policy: another policy than the default; its verdict is not stored.
            settled: wait up to ``timeout_s`` for calls in flight to end.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        if settled:
            await self._settle(rollout_id, timeout_s)
        return await self._ask(self._verdict, rollout_id, policy)

    def _verdict(self, rollout_id: str, policy: str | None) -> dict[str, Any]:
        seen = self._seen(rollout_id)
        by_seed = policy == SEED.name
        return codec.encode_verdict(
            self._judge(seen.rollout, SEED) if by_seed else self._judge_and_keep(seen)
        )

    async def stored_result(self, rollout_id: str) -> dict[str, Any]:
        """The record a runner stores.

        Raises:
            Refusal: 404 for an unknown rollout, 409 before its outcome is known.
        """
        return await self._ask(self._result, rollout_id)

    def _result(self, rollout_id: str) -> dict[str, Any]:
        seen = self._seen(rollout_id)
        if seen.rollout.outcome is None:
            raise Refusal(
                409,
                "no_outcome",
                f"rollout {rollout_id!r} has no outcome yet: POST /rollouts/{{id}}/outcome",
            )
        return codec.encode_result(result(seen.rollout, self._judge_and_keep(seen)))

    async def exchanges(
        self, rollout_id: str, *, after: str | None = None, limit: int = _PAGE
    ) -> dict[str, Any]:
        """A rollout's calls, oldest first.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        found = await self._ask(self._database.calls.page, rollout_id, after=after, limit=limit + 1)
        if found is None:
            raise _unknown(rollout_id)
        items = await self._ask(self._encoded, found[:limit])
        return {"items": items, "next": items[-1]["id"] if len(found) > limit else None}

    async def export(self, *, batch: str | None = None) -> AsyncIterator[list[dict[str, Any]]]:
        """All that judging again takes, of one batch or of all: facts, outcomes, calls.

        Returns:
            The records of one rollout after another.

        Raises:
            Refusal: 404 for a batch that no rollout names.
        """
        filters = {} if batch is None else {"batch": batch}
        first = await self._ask(self._database.rollouts.page, filters, after=None, limit=_PAGE)
        if batch is not None and not first:
            raise Refusal(404, "unknown_batch", f"no rollout names the batch {batch!r}")
        return self._exported(filters, first)

    async def _exported(
        self, filters: Mapping[str, str], rows: Sequence[Row]
    ) -> AsyncIterator[list[dict[str, Any]]]:
        while rows:
            for row in rows:
                yield await self._ask(self._records, row["id"])
            after = (rows[-1]["created_at"], rows[-1]["id"])
            rows = await self._ask(self._database.rollouts.page, filters, after=after, limit=_PAGE)

    def _records(self, rollout_id: str) -> list[dict[str, Any]]:
        """A rollout, its outcome and its calls, as an export has them."""
        rollout = self._seen(rollout_id).rollout
        records = [{"record": "rollout", **codec.encode_rollout(rollout)}]
        if rollout.outcome is not None:
            owner = {"record": "outcome", "rollout_id": rollout.id}
            records.append({**owner, **codec.encode_outcome(rollout.outcome)})
        return records + [
            {"record": "exchange", **call} for call in self._encoded(rollout.exchanges)
        ]

    async def rollouts(
        self, filters: Mapping[str, str], *, after: str | None = None, limit: int = 100
    ) -> dict[str, Any]:
        """Rollouts by batch, task, health, subcategory or fingerprint, oldest first.

        Raises:
            Refusal: 422 for an ``after`` that no page ended in.
        """
        position = _position(after)
        rows = await self.listed(
            filters,
            lambda: self._ask(
                self._database.rollouts.page, filters, after=position, limit=limit + 1
            ),
            lambda rows: [row["id"] for row in rows],
        )
        items = [{name: row[name] for name in models.RolloutItem.model_fields} for row in rows]
        more = len(rows) > limit
        return {
            "items": items[:limit],
            "next": _cursor(rows[limit - 1]["created_at"], rows[limit - 1]["id"]) if more else None,
        }

    # batches

    async def batch(self, batch: str) -> dict[str, Any]:
        """A batch summed up: counts, tokens, cost, scores, and who should be retried.

        Raises:
            Refusal: 404 for a batch that no rollout names.
        """
        return (await self._summed(batch)).told(batch)

    async def check(self, batch: str) -> dict[str, Any]:
        """Whether a batch is a valid measurement, and one line for each thing against it.

        Raises:
            Refusal: 404 for a batch that no rollout names.
        """
        return (await self._summed(batch)).checked(batch)

    async def batch_and_check(self, batch: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `batch` and `check` answer, for one asking.

        Raises:
            Refusal: 404 for a batch that no rollout names.
        """
        done = await self._summed(batch)
        return done.told(batch), done.checked(batch)

    async def breaker(self, batch: str) -> dict[str, Any]:
        """A batch's breakers, lane by lane, as they stand now."""
        now = self._wall()
        states = await self._ask(self._database.breakers.of_batch, batch)
        return {
            "batch": batch,
            "threshold": self._policy.breaker_threshold,
            "lanes": [_lane(breakers.at(state, now)) for state in states],
        }

    async def reset_breaker(self, batch: str, *, lane: str | None = None) -> dict[str, Any]:
        """Let a canary into one open lane, or into each of the batch.

        Raises:
            Refusal: 404 for a lane without a breaker.
        """
        states = await self._ask(self._database.breakers.reset, batch, breakers.reset, lane=lane)
        if lane is not None and all(state.lane != lane for state in states):
            raise Refusal(404, "unknown_lane", f"batch {batch!r} has no breaker on {lane!r}")
        return await self.breaker(batch)

    async def fingerprints(self) -> dict[str, Any]:
        """Which causes strike how many rollouts, across batches."""
        rows = await self._ask(self._database.verdicts.fingerprints)
        return {"items": [dict(row) for row in rows]}

    async def events(self, batch: str, *, after: int | None = None) -> AsyncIterator[BatchEvent]:
        """What happens in a batch, from now on or after an event's number, as long as we live.

        Every process sees what any of them recorded. A None is a sign of life.
        """
        position = await self._ask(self._database.events.last_id) if after is None else after
        doomed: set[str] = set()
        news, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._database.events.subscribe(lambda: loop.call_soon_threadsafe(news.set)) as told:
            while not self._leaving():
                news.clear()
                rows, position = await self._ask(
                    self._database.events.of_batch, batch, after=position
                )
                for row in rows:
                    for event in await self._told(row, doomed):
                        yield event
                if not rows:
                    yield BatchEvent(position, "", {})
                    await _until(news if told else None)

    async def _told(self, row: Row, doomed: set[str]) -> list[BatchEvent]:
        """A stored event, and the doom of its rollout where it brought that about."""
        event = BatchEvent(row["id"], row["kind"], _told(row, json.loads(row["data"])))
        if event.kind != "exchange_failed" or row["rollout_id"] in doomed:
            return [event]
        verdict = await self.verdict(row["rollout_id"])
        if not verdict["doomed"]:
            return [event]
        doomed.add(row["rollout_id"])
        return [event, BatchEvent(event.id, "rollout_doomed", _told(row, _doom(verdict)))]

    # the service itself

    async def ready(self) -> models.Ready:
        """Whether the database answers and the recorder writes."""
        database = await self._ask(self._database.is_reachable)
        recorder = not self._recorder.failing
        return models.Ready(
            status="ready" if database and recorder else "not_ready",
            database=database,
            recorder=recorder,
            gaps=self._recorder.gaps_counted,
            waiting=self._recorder.waiting,
        )

    async def read(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The answer to a question of `proxy.store.dashboard`.

        Raises:
            Refusal: 503 while the database does not answer.
        """
        return await self._ask(self._database.read, question, *args, **kwargs)

    async def refresh(
        self, batch: str | None = None, *, among: Sequence[str] | None = None
    ) -> bool:
        """Judge anew what has no final verdict yet: in a batch, among these rollouts, or in all.

        Returns:
            Whether there was any.
        """
        waiting = await self._ask(
            self._database.verdicts.unjudged, batch=batch, among=among, limit=_REFRESH
        )
        for rollout_id in waiting:
            await self.verdict(rollout_id)
        return bool(waiting)

    async def listed(
        self,
        filters: Mapping[str, str],
        page: Callable[[], Awaitable[T]],
        ids: Callable[[T], Sequence[str]],
    ) -> T:
        """A page of rollouts whose verdicts are of now.

        Only a filter by verdict has to judge more than the page shows.

        Arguments:
            filters: by the names of `GET /rollouts`.
            page: reads it; asked again where a rollout on it had to be judged anew.
            ids: the rollouts on it.
        """
        by_verdict = not filters.keys().isdisjoint(_BY_VERDICT)
        if by_verdict:
            await self.refresh(filters.get("batch"))
        found = await page()
        if not by_verdict and await self.refresh(among=ids(found)):
            found = await page()
        return found

    # steps

    async def _settle(self, rollout_id: str, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while (  # noqa: ASYNC110  no event of this process tells of another's calls
            await self._ask(self._database.calls.in_flight, rollout_id) > 0
            and loop.time() < deadline
        ):
            await asyncio.sleep(_SETTLE_POLL_S)

    def _seen(self, rollout_id: str) -> _JudgedCalls:
        """A rollout as it stands.

        Raises:
            Refusal: 404 for an unknown rollout.
            StoreError: the database does not answer, and nothing else is known of it.
        """
        # Asked before and after: what was kept may be written while the database is read, and a
        # call that ends meanwhile may be kept.
        missing = self._recorder.missing(rollout_id)
        try:
            found = self._database.rollouts.load(rollout_id)
            up_s = self._database.uptime_s()
            missing = max(missing, self._recorder.missing(rollout_id))
        except StoreError:
            missing = max(missing, self._recorder.missing(rollout_id))
            if not missing:
                raise
            up_s = found = None  # what is known is enough: that evidence is missing
        long_up = up_s is None or up_s >= 2 * RESTART_GRACE_S  # longer than the doubt below is said
        kept = long_up and not missing  # it says so until it is written, and no longer
        if found is None:
            if not missing:
                raise _unknown(rollout_id)
            return _JudgedCalls(RolloutRecord(id=rollout_id, gaps=missing), kept)
        row, rollout = found
        elsewhere = up_s is not None and up_s < RESTART_GRACE_S
        gaps = rollout.gaps + missing + elsewhere
        return _JudgedCalls(replace(rollout, gaps=gaps, outcome=_outcome(row)), kept)

    def _encoded(self, exchanges: Iterable[Exchange]) -> list[dict[str, Any]]:
        """Exchanges as REST gives them, with what they cost."""
        return [
            codec.encode_exchange(exchange) | {"cost_usd": self._prices.cost(exchange)}
            for exchange in exchanges
        ]

    def _judge_and_keep(self, seen: _JudgedCalls) -> Verdict:
        """Judge, with what earlier attempts of the same task say of a retry, and keep it."""
        rollout = seen.rollout
        verdict = self._judge(rollout, self._policy)
        if rollout.task is not None and rollout.attempt:
            earlier = self._database.verdicts.earlier_causes(
                rollout.batch, rollout.task, rollout.attempt
            )
            verdict = with_advice(verdict, rollout, self._policy, earlier)
        if self._recorder.failing or not seen.kept:  # said now, and kept when it can be
            return verdict
        now = self._wall()
        self._database.verdicts.store(
            self._verdict_row(rollout, verdict, now),
            lambda states: breakers.feed(states, verdict, now=now, policy=self._policy),
        )
        return verdict

    def _judge(self, rollout: RolloutRecord, policy: Policy) -> Verdict:
        verdict = judge(rollout, policy=policy)
        return replace(verdict, cost_usd=self._prices.total(rollout.exchanges))

    def _verdict_row(self, rollout: RolloutRecord, verdict: Verdict, now: float) -> dict[str, Any]:
        made = result(rollout, verdict)
        reported = rollout.outcome is not None
        return {
            "rollout_id": rollout.id,
            "batch": rollout.batch,
            "health": verdict.health.value,
            "subcategory": verdict.subcategory.value if verdict.subcategory else None,
            "fingerprint": verdict.fingerprint,
            "cause": verdict.cause,
            "lane": verdict.lane,
            "provisional": verdict.provisional,
            "scoreable": verdict.scoreable,
            "reward": reward_of(made),
            "input_tokens": verdict.input_tokens,
            "output_tokens": verdict.output_tokens,
            "total_tokens": verdict.total_tokens,
            "cost_usd": verdict.cost_usd,
            "price_table": None if verdict.cost_usd is None else self._prices.version,
            "given_at": now,
            "calls": sum(exchange.ending is not None for exchange in rollout.exchanges),
            "verdict": as_json(codec.encode_verdict(verdict)),
            "result": as_json(codec.encode_result(made)) if reported else None,
        }

    async def _summed(self, batch: str) -> CachedSummary:
        """A batch summed up, once for each state that it is in: pages ask again and again."""
        stamp = await self.read(dashboard.batch_stamp, batch)
        if stamp.waits:
            await self.refresh(batch)
            stamp = await self.read(dashboard.batch_stamp, batch)
        known = self._summed_up.get(batch)
        if known is not None and known.stamp == stamp:
            return known
        rows = await self._ask(self._database.verdicts.of_batch, batch)
        if not rows:
            raise Refusal(404, "unknown_batch", f"no rollout names the batch {batch!r}")
        fresh = await self._ask(_sum_up, stamp, rows)
        if len(self._summed_up) >= _SUMS_KEPT:
            self._summed_up.pop(next(iter(self._summed_up)))
        self._summed_up[batch] = fresh
        return fresh

    async def _ask(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        try:
            return await run_in_thread(question, *args, **kwargs)
        except StoreError as error:
            raise Refusal(
                503,
                "storage_unavailable",
                f"the database does not answer ({error.kind})",
                ((b"retry-after", b"1"),),
            ) from error

    def _known_upstream(self, name: str | None) -> str | None:
        if name is None:
            return None
        if normalised(name) not in self._upstreams:
            known = ", ".join(sorted(self._upstreams))
            raise Refusal(422, "invalid", f"upstream: {name!r} is not one of {known}")
        return normalised(name)

    def _base_urls(self, rollout_id: str, public_url: str, *, proven: bool) -> dict[str, str]:
        """Where to find each upstream; a proven call is looked up in every process at once."""
        segment = quote(rollout_id, safe="")
        if proven:
            segment += "~" + self._keyring.secret_of(rollout_id)
        return {
            name: f"{public_url}/r/{segment}/{name}{upstream.base_path}"
            for name, upstream in self._upstreams.items()
            if upstream.url is not None
        }


async def _until(news: asyncio.Event | None) -> None:
    """Wait until it is time to look for events again; None where nobody tells of them."""
    if news is None:
        await asyncio.sleep(_EVENTS_POLL_S)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), _EVENTS_UNTOLD_S)
    await asyncio.sleep(_EVENTS_GAP_S)


def _outcome(row: Row) -> Outcome | None:
    """What the runner reported; a rollout that was not admitted was never set up."""
    if row["outcome"]:
        return codec.decode_outcome(json.loads(row["outcome"]))
    if row["skipped"]:
        status = ExecutionStatus.SETUP_FAILED
        return Outcome(status=status, prompts_executed=0, error=row["skipped"])
    return None


def _sum_up(stamp: tuple[Any, ...], rows: Sequence[Any]) -> CachedSummary:
    advice: dict[str, Any] = {}
    entries: list[Entry] = []
    for row in rows:
        wrong: tuple[Diagnostic, ...] = ()
        if row[_TOLD]:
            told = orjson.loads(row[_TOLD])
            wrong = diagnose(codec.decode_verdict(told))
            advice[row[0]] = told["retry"]
        entries.append(Entry._make((*row[:_SKIPPED], wrong)))
    return CachedSummary(
        stamp=stamp,
        rollouts=len(rows),
        skipped=sum(row[_SKIPPED] is not None for row in rows),
        summary=summarize([entry for entry in entries if entry.health is not None]),
        retry=_to_retry(entries, advice),
    )


_SKIPPED, _TOLD = (len(ENTRY_COLUMNS) + place for place in (0, 1))  # in a row of a batch


def _to_retry(entries: Sequence[Entry], advice: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rollouts to run again: transient failures that no later attempt follows."""
    advised = {name: retry for name, retry in advice.items() if retry["eligible"]}
    latest: dict[str | None, int] = {}
    for entry in entries if advised else ():
        if entry.task is not None:
            latest[entry.task] = max(latest.get(entry.task, 0), entry.attempt or 0)
    return [
        {
            "rollout_id": entry.rollout_id,
            "task": entry.task,
            "attempt": entry.attempt,
            **advised[entry.rollout_id],
        }
        for entry in entries
        if entry.rollout_id in advised and (entry.attempt or 0) == latest.get(entry.task, 0)
    ]


def _lane(state: breakers.BreakerState) -> dict[str, Any]:
    return {name: value for name, value in asdict(state).items() if name != "batch"}


def _told(row: Row, data: dict[str, Any]) -> dict[str, Any]:
    return {"rollout_id": row["rollout_id"], "at": row["at"], **data}


def _doom(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {name: verdict[name] for name in ("subcategory", "fingerprint", "error", "lane")}


def _unknown(rollout_id: str) -> Refusal:
    return Refusal(404, "unknown_rollout", f"no rollout {rollout_id!r} has been seen here")


def _cursor(created_at: float, rollout_id: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([created_at, rollout_id]).encode()).decode()


def _position(cursor: str | None) -> tuple[float, str] | None:
    if cursor is None:
        return None
    try:
        created_at, rollout_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return float(created_at), str(rollout_id)
    except (ValueError, TypeError):
        raise Refusal(422, "invalid", "after: is not the `next` of any page") from None
