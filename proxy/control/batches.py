"""Batches: their summary, validity check, circuit breakers and list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from classifier import breakers
from classifier.batch_summary import (
    ScoredBatch,
    comparable,
    declared_in,
    exclusion_in,
    summary_of,
)
from classifier.reruns import RerunCounts
from classifier.rollup import Counts, Shapes
from classifier.statistics import Exclusion
from classifier.validity.serving import BatchFinding, ServingGroup, Way, compare_ways
from classifier.verdicts import Policy
from proxy.control.judge import current_version
from proxy.control.queries import (
    Service,
    VersionedCache,
    cursor_name,
    cursor_number,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
    unknown_batch,
)
from proxy.routing.errors import Refusal
from proxy.store.batches import BatchPlace, BatchVersion, ServedAlike, newest, outdated
from proxy.store.database import Database
from proxy.store.tables import Row
from truezero.models.batches import BatchItem

_TESTED = 32  # batches whose state and test of exclusions are kept
_SUMMARY = (
    "health", "subcategory", "fingerprint", "summaries", "pending", "input_tokens",
    "output_tokens", "total_tokens", "cost_usd", "calls", "tokens_known_calls",
    "cost_known_calls", "diagnostics", "validity", "validity_checks",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """A batch as it stands: its counts, its summary, and the first rollouts to run again."""

    counts: Counts
    summary: ScoredBatch
    retry: Sequence[dict[str, Any]]

    def to_dict(self, batch: str, outdated: int) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}`.

        Arguments:
            outdated: rollouts that have changed since they were judged.
        """
        counted = {name: getattr(self.summary, name) for name in _SUMMARY}
        return {
            "batch": batch,
            "rollouts": self.counts["rollouts"],
            "skipped": self.counts["skipped"],
            "outdated": outdated,
            **counted,
            **asdict(self.summary.scores),
            "retried_after_score_total": self.counts["picked"],
            **self._exclusion(),
            "validity_across": [asdict(found) for found in self.summary.across],
            "valid": self.summary.check.valid,
            "retry": self.retry,
            "retry_total": self.counts["retry"],
        }

    def check_to_dict(self, batch: str) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/check`."""
        check = self.summary.check
        return {
            "batch": batch,
            "valid": check.valid,
            **self._exclusion(),
            "lines": check.lines,
            "lines_total": check.total,
        }

    def _exclusion(self) -> dict[str, Any]:
        found = self.summary.exclusion
        return {
            "exclusion_bias": found.bias,
            "exclusion_p": found.p,
            "exclusion_fisher_p": found.fisher_p,
        }


class BatchService:
    """Summarizes batches and reads and resets their breakers.

    Arguments:
        policy: when breakers open.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        queries: Service,
        database: Database,
        policy: Policy,
        wall: Callable[[], float],
    ) -> None:
        self._queries = queries
        self._database = database
        self._policy = policy
        self._wall = wall
        self._states = VersionedCache[str, BatchVersion, BatchState](_TESTED)
        self._exclusions = VersionedCache[str, tuple[Mapping[str, int], Shapes], Exclusion](_TESTED)

    async def summary(self, batch: str) -> dict[str, Any]:
        """Sum up a batch: counts, tokens, cost, scores, and rollouts to run again.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        state = await self._state(batch)
        return state.to_dict(batch, await self._queries.read(outdated, batch))

    async def check(self, batch: str) -> dict[str, Any]:
        """Return whether a batch is a valid measurement, with one line per problem.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        return (await self._state(batch)).check_to_dict(batch)

    async def overview(self, batch: str) -> dict[str, Any]:
        """Return `summary`, `check` and `reruns` (`RerunCounts`) of one state of a batch.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        state = await self._state(batch)
        return {
            "summary": state.to_dict(batch, await self._queries.read(outdated, batch)),
            "check": state.check_to_dict(batch),
            "reruns": RerunCounts.of(state.counts, self._policy),
        }

    async def objections(self, batch: str) -> int:
        """Count why a batch is no valid measurement, beside rollouts that have not ended.

        Raises:
            Refusal: 404 for a batch without rollouts.
        """
        state = await self._state(batch)
        biased = sum(each.significant for each in state.summary.exclusion.comparisons)
        return biased + max(0, state.counts["lines"] - state.counts["pending"])

    async def breaker(self, batch: str) -> dict[str, Any]:
        """Return a batch's breakers, one per lane."""
        now = self._wall()
        states = await self._queries.run(self._database.breakers.of_batch, batch)
        return {
            "batch": batch,
            "threshold": self._policy.breaker_threshold,
            "lanes": [_lane(breakers.at(state, now)) for state in states],
        }

    async def reset_breaker(self, batch: str, *, lane: str | None = None) -> dict[str, Any]:
        """Allow one probe in an open lane, or in each lane of the batch.

        Raises:
            Refusal: 404 for a lane without a breaker.
        """
        states = await self._queries.run(
            self._database.breakers.reset, batch, breakers.reset, lane=lane
        )
        if lane is not None and all(state.lane != lane for state in states):
            raise Refusal(404, "unknown_lane", f"batch {batch!r} has no breaker for lane {lane!r}")
        return await self.breaker(batch)

    async def fingerprints(self) -> dict[str, Any]:
        """Count the rollouts affected by each cause, across batches."""
        rows = await self._queries.run(self._database.verdicts.fingerprints)
        return {"items": [dict(row) for row in rows]}

    async def _state(self, batch: str) -> BatchState:
        """Judge what has changed in a batch, and read what it adds up to."""
        found = await current_version(self._queries, batch)
        version = found._replace(waits=False)  # what waits is in no sum
        known = self._states.current(batch, version)
        if known is None:
            known = await self._queries.run(self._read, batch)
            self._states.store(batch, version, known)
        return known

    def _read(self, batch: str) -> BatchState:
        summed = self._database.batches.summed(batch)
        if summed is None:
            raise unknown_batch(batch)
        counts = summed.counts
        found = self._tested(batch, counts, summed.shapes)
        across = _compared(summed.served, declared_in(counts))
        summary = summary_of(counts, summed.shapes, summed.named, found, across)
        return BatchState(counts=counts, summary=summary, retry=summed.retry)

    def _tested(self, batch: str, counts: Counts, shapes: Shapes) -> Exclusion:
        """Test exclusions once for each state they are in: it takes up to 0.2 s."""
        if not counts["excluded"]:
            return exclusion_in(counts, {})
        zeros = {name: count for name, count in counts.items() if name.startswith("zeros:")}
        tested = comparable(shapes)  # not what has only begun
        known = self._exclusions.current(batch, (zeros, tested))
        if known is None:
            known = exclusion_in(counts, tested)
            self._exclusions.store(batch, (zeros, tested), known)
        return known


def _compared(served: Sequence[ServedAlike], declared: Sequence[str]) -> list[BatchFinding]:
    """Compare how the rollouts of a batch were served."""
    if len(served) < 2:  # nothing differs between them
        return []
    ways: dict[Way, list[ServingGroup]] = {}
    for text, rollouts, examples in served:
        for way in orjson.loads(text):
            ways.setdefault(tuple(way), []).append(ServingGroup(rollouts, tuple(examples)))
    return compare_ways(ways, declared=declared)


def _lane(state: breakers.BreakerState) -> dict[str, Any]:
    return {name: value for name, value in asdict(state).items() if name != "batch"}


# --- list of batches, newest first -------------------------------------------------------------


_SPAN = ("first_at", "last_at")
_FROM_SUMMARY = tuple(n for n in BatchItem.model_fields if n not in ("batch", *_SPAN))


class BatchList:
    """Lists batches."""

    def __init__(self, *, queries: Service, batches: BatchService) -> None:
        self._queries = queries
        self._batches = batches

    async def page(self, *, after: str | None = None, limit: int = 20) -> dict[str, Any]:
        """Return a page of batches and the cursor of the next one.

        Arguments:
            after: the `next` of the page before.

        Raises:
            Refusal: 422 if ``after`` is not a cursor.
        """
        rows = await self._queries.read(newest, after=_place(after), limit=limit + 1)
        shown = rows[:limit]
        items = [item for row in shown if (item := await self._item(row)) is not None]
        return {"items": items, "next": _cursor(shown[-1]) if len(rows) > limit else None}

    async def _item(self, row: Row) -> dict[str, Any] | None:
        """Return a batch as it is listed; None if it was deleted meanwhile."""
        try:
            summary = await self._batches.summary(row["batch"])
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None
        span = {name: row[name] for name in _SPAN}
        return {"batch": row["batch"], **span, **{name: summary[name] for name in _FROM_SUMMARY}}


def _cursor(row: Row) -> str:
    return encode_cursor([row["last_at"], row["batch"]])


def _place(cursor: str | None) -> BatchPlace | None:
    if cursor is None:
        return None
    try:
        last_at, batch = decode_cursor(cursor)
        return BatchPlace(cursor_number(last_at), cursor_name(batch))
    except (ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None
