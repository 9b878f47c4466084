"""One rollout as its page shows it: attributes, outcome, verdict and a part of its calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.control.call_list import CallList, Fold, Show, call_list
from proxy.control.judge import Judge
from proxy.control.pricing import PriceTable
from proxy.control.queries import Queries
from proxy.control.threads import run_in_thread
from proxy.routing.errors import Refusal
from proxy.store import calls as rollout_calls
from proxy.store import calls as stored_calls
from proxy.store import statistics as page_queries

CALLS = 10_000  # of one rollout that a page looks at

Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDetail:
    """What the page of a rollout shows.

    ``facts`` are its columns, ``outcome`` what the runner reported (None before), ``known`` how
    many calls the verdict's sums know; ``calls`` is the outline of the first of ``total`` calls,
    ``marked`` the ids that are evidence, ``details`` all fields of those listed, by id.
    """

    facts: Facts
    outcome: Facts | None
    verdict: Facts
    known: Facts
    calls: Sequence[Facts]
    total: int
    marked: Collection[str]
    listed: CallList
    details: Mapping[str, Facts]


class RolloutPages:
    """Collects the data of rollouts' pages.

    Arguments:
        prices: what calls cost where the provider did not say.
    """

    def __init__(self, *, queries: Queries, judge: Judge, prices: PriceTable) -> None:
        self._queries = queries
        self._judge = judge
        self._prices = prices

    async def page(
        self,
        rollout_id: str,
        *,
        show: Show = Show.FOLDED,
        opened: tuple[int, int] | None = None,
        at: int = 1,
    ) -> RolloutDetail:
        """Return one rollout and a page of its calls.

        Arguments:
            opened: numbers of the first and last call of a fold to list one by one.
            at: the number of a call that the page shows.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        verdict = await self._judge.verdict(rollout_id)
        row = await self._queries.read(page_queries.facts, rollout_id)
        if row is None:  # its only calls could not be recorded
            detail = f"no call of rollout {rollout_id!r} could be recorded"
            raise Refusal(404, "unknown_rollout", detail)
        outlined = await self._queries.read(rollout_calls.outline, rollout_id, limit=CALLS)
        calls, marked = outlined.calls, _marked(verdict)
        listed = await run_in_thread(
            call_list, calls, marked=marked, show=show, opened=opened, at=at
        )
        return RolloutDetail(
            facts=row,
            outcome=json.loads(row["outcome"]) if row["outcome"] else None,
            verdict=verdict,
            known=await self._queries.read(rollout_calls.known_calls, rollout_id),
            calls=calls,
            total=outlined.total,
            marked=marked,
            listed=listed,
            details=await self._details(rollout_id, calls, listed),
        )

    async def call(self, rollout_id: str, call_id: str) -> Facts:
        """Return all fields of one call.

        Raises:
            Refusal: 404 where the rollout has no such call.
        """
        found = await self._encoded(rollout_id, [call_id])
        if call_id not in found:
            detail = f"rollout {rollout_id!r} has no call {call_id!r}"
            raise Refusal(404, "unknown_call", detail)
        return found[call_id]

    async def _details(
        self, rollout_id: str, calls: Sequence[Facts], listed: CallList
    ) -> Mapping[str, Facts]:
        ids = [calls[line - 1]["id"] for line in listed.lines if not isinstance(line, Fold)]
        found = await self._encoded(rollout_id, ids)
        return {each: found[each] for each in ids if each in found}

    async def _encoded(self, rollout_id: str, ids: Sequence[str]) -> Mapping[str, Facts]:
        found = await self._queries.read(stored_calls.some_of, rollout_id, ids)
        encoded = await self._queries.run(self._prices.encode, found.values())
        return {call["id"]: call for call in encoded}


def _marked(verdict: Facts) -> frozenset[str]:
    """Return the calls that prove a verdict, of it or of a role, or a finding against it."""
    against = (found for found in verdict["validity"] if found["level"] != "info")
    parts = (*against, *verdict["roles"].values())
    return frozenset(verdict["evidence"]).union(*(part["evidence"] for part in parts))
