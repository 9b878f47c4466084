"""Batches: their summary, validity check and list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from classifier.batch_summary import (
    comparable,
    declared_in,
    exclusion_in,
    summary_of,
)
from classifier.batches import RewardSpan, Scores, unmeasured_reason
from classifier.figures import CountedBatch, figures_of
from classifier.groups import TaskTotal
from classifier.repeat_counts import Counts, Shapes
from classifier.reruns import RerunCounts
from classifier.statistics import Exclusion
from classifier.whole_batch import Answering, answering_models, compare_served
from proxy.control.judge import current_version
from proxy.control.look import Condition, Conditions, link_to
from proxy.control.queries import (
    Computed,
    Service,
    computed,
    cursor_name,
    cursor_number,
    decode_cursor,
    encode_cursor,
    invalid_cursor,
    no_batch,
    path_of,
)
from proxy.routing.errors import Refusal
from proxy.store import batch_counts
from proxy.store.batch_counts import SummedBatch, sum_up
from proxy.store.batch_versions import batch_versions
from proxy.store.batches import BatchCursor, BatchRewards, newest, outdated, rewards_of, unscored
from proxy.store.tables import Row
from truezero.models.batches import BatchItem


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState(CountedBatch):
    """A batch as it stands, with the first rollouts to run again.

    ``answering`` counts its rollouts by the models that answered them, ``score_key`` is the key of
    its score as it was registered, ``tasks`` how many tasks they name.
    """

    retry: Sequence[dict[str, Any]]
    score_key: str | None
    tasks: int
    answering: Answering

    def to_dict(self, batch: str, outdated: int, as_of: float) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}`.

        Arguments:
            outdated: rollouts that have changed since they were judged.
            as_of: when its rows were read, in epoch seconds.
        """
        return {
            "batch": batch,
            "as_of": as_of,
            "outdated": outdated,
            **figures_of(self),
            "no_score": self.summary.no_score,
            "score_key": self.score_key,
            "summaries": self.summary.summaries,
            "retried_after_score": self.summary.scores.retried_after_score,
            **self._exclusion(),
            "validity_across": [asdict(finding) for finding in self.summary.across],
            "valid": self.summary.check.valid,
            "retry": self.retry,
        }

    def check_to_dict(self, batch: str) -> dict[str, Any]:
        """Return the response to `GET /batches/{id}/check`."""
        check = self.summary.check
        return {
            "batch": batch,
            "valid": check.valid,
            "repeats": self.summary.parts.tried,
            "tries": self.counts["rollouts"] - self.counts["skipped"],
            **self._exclusion(),
            "lines": check.lines,
            "lines_total": check.total,
            **figures_of(self, ("score_effective", "score_reported")),
        }

    def _exclusion(self) -> dict[str, Any]:
        exclusion = self.summary.exclusion
        return {
            "exclusion_bias": exclusion.bias,
            "exclusion_p": exclusion.p,
            "exclusion_fisher_p": exclusion.fisher_p,
        }


async def summary(service: Service, batch: str, *, fresh: bool = False) -> dict[str, Any]:
    """Sum up a batch: counts, tokens, cost, scores, and rollouts to run again.

    Arguments:
        fresh: as the batch is now, whatever it costs.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    state = await state_of(service, batch, fresh=fresh)
    return state.value.to_dict(batch, await service.read(outdated, batch), state.as_of)


async def check(service: Service, batch: str) -> dict[str, Any]:
    """Check that a batch is a valid measurement as it is now, with one line per problem.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    return (await state_of(service, batch, fresh=True)).value.check_to_dict(batch)


async def overview(service: Service, batch: str) -> dict[str, Any]:
    """Return `summary`, `check`, `reruns` (`RerunCounts`) and `named_tasks` of one state.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    state, as_of, _ = await state_of(service, batch)
    return {
        "summary": state.to_dict(batch, await service.read(outdated, batch), as_of),
        "check": state.check_to_dict(batch),
        "reruns": RerunCounts.of(state.counts, service.policy),
        "named_tasks": state.tasks,
    }


class UnscoredGroup(NamedTuple):
    """Rollouts of a batch that lack a score for one reason, with one cause on one lane.

    ``reason`` is named as in a batch's `parts`; ``first`` and ``last`` are when the first and the
    last of them began, in epoch seconds.
    """

    reason: str
    fingerprint: str | None
    cause: str | None
    lane: str | None
    attributed_to: str | None
    rollouts: int
    first: float
    last: float


async def unscored_groups(service: Service, batch: str) -> Sequence[UnscoredGroup]:
    """Return why rollouts of a batch lack a score; read once for each state of it.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await current_version(service, batch)
    groups: Sequence[UnscoredGroup]
    groups, *_ = await computed(service, service.unscored, batch, version, _unscored)
    return groups


def _unscored(service: Service, batch: str) -> Sequence[UnscoredGroup]:
    return [
        UnscoredGroup(
            reason=unmeasured_reason(row.health, row.subcategory, row.scoreable, row.validity),
            **{name: getattr(row, name) for name in UnscoredGroup._fields[1:]},
        )
        for row in service.database.read(unscored, batch)
    ]


async def objections(service: Service, batch: str) -> int:
    """Count why a batch is no valid measurement, beside rollouts that have not ended.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    state = (await state_of(service, batch)).value
    biased = sum(each.significant for each in state.summary.exclusion.comparisons)
    return biased + max(0, state.counts["lines"] - state.counts["pending"])


async def scores(service: Service, batch: str) -> Scores:
    """Return a batch's scores, as its summary has them.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    return (await state_of(service, batch)).value.summary.scores


async def states(
    service: Service, names: Sequence[str], *, judged: bool = True
) -> dict[str, BatchState]:
    """Return the state of each batch that has a rollout.

    A batch that has not changed costs one look at its version.

    Arguments:
        judged: rollouts that have changed are judged first.
    """
    versions = await service.read(batch_versions, names) if names else {}
    found = {}
    for name, version in versions.items():
        with suppress(Refusal):  # deleted meanwhile
            judges = judged and version.waits
            current = await current_version(service, name) if judges else version
            state = await computed(service, service.batch_states, name, current, _read)
            found[name] = state.value
    return found


async def mean_scores(service: Service, names: Sequence[str]) -> dict[str, float]:
    """Return the score over measured repeats of each batch that has one, as it was last judged."""
    found = await states(service, names, judged=False)
    means = {name: each.summary.scores.score_effective for name, each in found.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


async def rewards(service: Service, batch: str) -> RewardSpan:
    """Return the span of a batch's rewards.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    return (await state_of(service, batch)).value.rewards


async def task_totals(service: Service, batch: str) -> Sequence[TaskTotal]:
    """Return the totals of each task of a batch in the order of their names (`by_name`).

    They are read once for each state of it.

    Raises:
        Refusal: 404 for a batch without rollouts.
    """
    version = await current_version(service, batch)
    return (await computed(service, service.task_totals, batch, version, _task_totals)).value


def _task_totals(service: Service, batch: str) -> Sequence[TaskTotal]:
    totals = service.database.read(batch_counts.task_totals, batch)
    return sorted(totals, key=lambda each: by_name(each.task))


_NUMBER = re.compile(r"(\d+)")


def by_name(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return the place of a name among names; numbers in it are compared as numbers."""
    parts = _NUMBER.split(name.casefold())
    numbered = [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]
    return numbered, name


async def state_of(service: Service, batch: str, *, fresh: bool = False) -> Computed[BatchState]:
    """Judge the changed rollouts of a batch, and sum it up if that is due."""
    version = await current_version(service, batch)
    return await computed(service, service.batch_states, batch, version, _read, fresh=fresh)


def _read(service: Service, batch: str) -> BatchState:
    summed, rewards = service.database.read(_of_one_snapshot, batch)
    if summed is None:
        raise no_batch(batch)
    counts = summed.counts
    exclusion = _tested(service, batch, counts, summed.shapes)
    across = compare_served(summed.served, declared_in(counts))
    scored = summary_of(
        counts,
        summed.shapes,
        summed.named,
        exclusion,
        across,
        reward_range=rewards.span.registered,
        score_key=rewards.score_key,
    )
    return BatchState(
        counts=counts,
        summary=scored,
        retry=summed.retry,
        rewards=rewards.span,
        score_key=rewards.score_key,
        tasks=summed.tasks,
        answering=answering_models((each.servings, each.rollouts) for each in summed.served),
    )


def _of_one_snapshot(connection: Connection, batch: str) -> tuple[SummedBatch | None, BatchRewards]:
    return sum_up(connection, batch), rewards_of(connection, batch)


def _tested(service: Service, batch: str, counts: Counts, shapes: Shapes) -> Exclusion:
    """Test exclusions once for each state they are in: it takes up to 0.2 s."""
    if not counts["excluded"]:
        return exclusion_in(counts, {})
    zeros = {name: count for name, count in counts.items() if name.startswith("zeros:")}
    tested = comparable(shapes)  # not what has only begun
    exclusion = service.exclusions.current(batch, (zeros, tested))
    if exclusion is None:
        exclusion = exclusion_in(counts, tested)
        service.exclusions.store(batch, (zeros, tested), exclusion)
    return exclusion


# --- list of batches, newest first -------------------------------------------------------------


_SPAN = ("first_at", "last_at")
_FROM_SUMMARY = tuple(n for n in BatchItem.model_fields if n not in ("batch", *_SPAN))


async def batch_list(
    service: Service, *, after: str | None = None, limit: int = 20
) -> dict[str, Any]:
    """Return a page of batches and the cursor of the next one.

    Arguments:
        after: the `next` of the page before.

    Raises:
        Refusal: 422 if ``after`` is not a cursor.
    """
    rows = await service.read(newest, after=_read_cursor(after), limit=limit + 1)
    shown = rows[:limit]
    items = [item for row in shown if (item := await _item(service, row)) is not None]
    return {"items": items, "next": _cursor(shown[-1]) if len(rows) > limit else None}


async def _item(service: Service, row: Row) -> dict[str, Any] | None:
    """Return a batch as it is listed; None if it was deleted meanwhile."""
    try:
        figures = await summary(service, row["batch"])
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return None
    span = {name: row[name] for name in _SPAN}
    return {"batch": row["batch"], **span, **{name: figures[name] for name in _FROM_SUMMARY}}


def _cursor(row: Row) -> str:
    return encode_cursor([row["last_at"], row["batch"]])


def _read_cursor(cursor: str | None) -> BatchCursor | None:
    if cursor is None:
        return None
    try:
        last_at, batch = decode_cursor(cursor)
        return BatchCursor(cursor_number(last_at), cursor_name(batch))
    except (ValueError, TypeError, OverflowError):
        raise invalid_cursor() from None


# --- conditions that an operator is alerted of -------------------------------------------------


BATCH = "batch.unpublishable"
"""The kind of the alert."""
_RECENT_S = 3600.0  # batches without a rollout since are yesterday's
_BATCHES = 50  # the newest ones, looked at


async def unpublishable_batches(service: Service) -> Conditions:
    """Look for batches of late that are no valid measurement."""
    now = service.now()
    found, watched = [], set()
    for row in await service.read(newest, limit=_BATCHES):
        if row["last_at"] >= now - _RECENT_S:
            watched.add(f"{BATCH}:{row['batch']}")
            found += await _unpublishable(service, row["batch"], now)
    return Conditions(found=tuple(found), watched=frozenset(watched))


async def _unpublishable(service: Service, batch: str, now: float) -> list[Condition]:
    try:
        against = await objections(service, batch)
    except Refusal as refusal:
        if refusal.status != 404:
            raise
        return []  # deleted meanwhile
    if against <= 0:
        return []
    link = link_to(service, path_of("batches", batch))
    data = {"batch": batch, "objections": against, **link}
    return [Condition(kind=BATCH, subject=batch, at=now, data=data)]
