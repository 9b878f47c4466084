"""Verdicts and results of rollouts: judged on request, stored, and refreshed for lists."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from classifier import breakers, codec, totals
from classifier.batches import reward_of, validity_names
from classifier.diagnostics import why_unscored
from classifier.records import RolloutRecord
from classifier.results import result
from classifier.retries import with_advice
from classifier.rules import judge
from classifier.verdicts import SEED, Policy, Verdict
from proxy.control.loader import LoadedRollout, RecorderState, RolloutLoader
from proxy.control.pricing import PriceTable
from proxy.control.queries import Queries
from proxy.routing.errors import Refusal, TokenBucket
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.store.tables import Row, as_json
from proxy.store.verdicts import LastChange

_REFRESH = 1000  # rollouts judged again before a list is filtered by verdict
_AGAIN_PER_S = 0.5  # rollouts that run and are judged again, at most
# Of them at once, where there are as many: in between their batch keeps its version. No more are
# saved up, lest they all be judged when several pages are opened.
_TOGETHER = 2
_SETTLE_POLL_S = 0.05
_SERVINGS = 20  # ways of being served that are stored of one rollout

T = TypeVar("T")


class Judge:
    """Judges rollouts and stores their verdicts.

    Arguments:
        prices: what calls cost where the provider did not say.
        policy: how to judge, retry and stop.
        wall: seconds since the epoch.
        judged: called with each final verdict once, in one of all processes.
    """

    def __init__(
        self,
        *,
        queries: Queries,
        database: Database,
        loader: RolloutLoader,
        recorder: RecorderState,
        prices: PriceTable,
        policy: Policy,
        wall: Callable[[], float],
        judged: Callable[[Verdict], object],
    ) -> None:
        self._queries = queries
        self._database = database
        self._loader = loader
        self._recorder = recorder
        self._prices = prices
        self._policy = policy
        self._wall = wall
        self._judged = judged
        self._again = TokenBucket(_AGAIN_PER_S, most=_TOGETHER, clock=wall)

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
        return await self._queries.run(self._verdict, rollout_id, policy)

    async def result(self, rollout_id: str) -> dict[str, Any]:
        """Return the record a runner stores.

        Raises:
            Refusal: 404 for an unknown rollout, 409 before its outcome is reported.
        """
        return await self._queries.run(self._result, rollout_id)

    async def refresh(
        self,
        batch: str | None = None,
        *,
        among: Sequence[str] | None = None,
        running: int | None = None,
    ) -> bool:
        """Judge rollouts without an up-to-date verdict: of a batch, among these, or of all.

        Arguments:
            running: at most so many that run, those first that were never judged; where ``among``
                does not name them, of the others fewer or none if it is asked for so often that
                all of them would be judged all the time. One of a hundred calls takes 10 ms.

        Returns:
            Whether there was any.
        """
        outdated = await self._queries.run(
            self._database.verdicts.unjudged,
            batch=batch,
            among=among,
            limit=_REFRESH,
            running=running,
        )
        ids = outdated.ids
        if running is not None and among is None:
            ids = ids[: len(ids) - outdated.again + self._allowed(outdated.again)]
        for rollout_id in ids:
            await self.verdict(rollout_id)
        return bool(ids)

    def _allowed(self, running: int) -> int:
        """Return how many of so many may be judged again now, and count them."""
        left = int(self._again.left)
        allowed = min(running, left) if left >= min(running, _TOGETHER) else 0
        self._again.take(allowed)
        return allowed

    async def _settle(self, rollout_id: str, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while (  # noqa: ASYNC110  no event of this process announces another's calls
            await self._queries.run(self._database.calls.in_flight, rollout_id) > 0
            and loop.time() < deadline
        ):
            await asyncio.sleep(_SETTLE_POLL_S)

    def _verdict(self, rollout_id: str, policy: str | None) -> dict[str, Any]:
        if policy != SEED.name and (final := self._final(rollout_id)) is not None:
            verdict = codec.decode_verdict(json.loads(final["verdict"]))
            return codec.encode_verdict(replace(verdict, late_calls=final["late_calls"]))
        loaded = self._loader.load(rollout_id)
        if policy == SEED.name:
            return codec.encode_verdict(self._judge(loaded, SEED))
        return codec.encode_verdict(self._judge_and_store(loaded))

    def _result(self, rollout_id: str) -> dict[str, Any]:
        final = self._final(rollout_id)
        if final is not None and final["result"] is not None:
            return {**_spoken(final), "late_calls": final["late_calls"]}
        loaded = self._loader.load(rollout_id)
        if loaded.rollout.outcome is None:
            raise Refusal(
                409,
                "no_outcome",
                f"rollout {rollout_id!r} has no outcome yet; "
                "report it with POST /rollouts/{id}/outcome",
            )
        return codec.encode_result(result(loaded.rollout, self._judge_and_store(loaded)))

    def _judge_and_store(self, loaded: LoadedRollout) -> Verdict:
        """Judge with the causes of earlier attempts at the task, and store the verdict."""
        rollout, now = loaded.rollout, self._wall()
        verdict = self._judge(loaded, self._policy, now)
        if rollout.task is not None and rollout.attempt:
            earlier = self._database.verdicts.earlier_causes(
                rollout.batch, rollout.task, rollout.attempt, repeat=rollout.repeat
            )
            verdict = with_advice(verdict, rollout, self._policy, earlier)
        if self._recorder.failing or not loaded.storable:
            return verdict
        feed = partial(
            breakers.feed, verdict=verdict, now=now, policy=self._policy, seen=self._seen(verdict)
        )
        first = self._database.verdicts.store(
            self._verdict_row(rollout, verdict, now),
            feed,
            known=LastChange(loaded.change),
        )
        if first:
            self._judged(verdict)
        return verdict

    def _seen(self, verdict: Verdict) -> bool:
        """Whether a call of the batch was seen where a suspicion needs one to open a breaker."""
        lane = breakers.lane_to_prove(verdict)
        if lane is None or verdict.batch is None:
            return False
        return self._database.calls.seen_on(verdict.batch, lane)

    def _final(self, rollout_id: str) -> Row | None:
        """Return the final verdict, which stands; None while there is none, or none can be read."""
        try:
            return self._database.verdicts.final(rollout_id)
        except StoreError:  # what is missing here may still be known
            return None

    def _judge(self, loaded: LoadedRollout, policy: Policy, now: float | None = None) -> Verdict:
        rollout = loaded.rollout
        verdict = judge(rollout, policy=policy)
        return replace(
            verdict,
            cost_usd=self._prices.total(rollout.exchanges),
            late_calls=loaded.late_calls,
            judged_at=None if verdict.provisional else now,
        )

    def _verdict_row(self, rollout: RolloutRecord, verdict: Verdict, now: float) -> dict[str, Any]:
        record = result(rollout, verdict)
        reported = rollout.outcome is not None
        return {
            "rollout_id": rollout.id,
            "batch": rollout.batch,
            "health": verdict.health.value,
            "subcategory": verdict.subcategory.value if verdict.subcategory else None,
            "fingerprint": verdict.fingerprint,
            "cause": verdict.cause,
            "lane": verdict.lane,
            "neighbours": _neighbours(rollout),
            "validity": validity_names(verdict.validity),
            "unattributed_calls": rollout.unattributed_calls or None,
            "servings": _servings(verdict),
            "attributed_to": verdict.attributed_to and verdict.attributed_to.value,
            "provisional": verdict.provisional,
            "scoreable": verdict.scoreable,
            "reward": reward_of(record),
            "input_tokens": verdict.input_tokens,
            "output_tokens": verdict.output_tokens,
            "total_tokens": verdict.total_tokens,
            "cost_usd": verdict.cost_usd,
            **_stands_on(rollout, verdict, self._prices),
            "price_table": None if verdict.cost_usd is None else self._prices.version,
            "given_at": now,
            "began_at": rollout.began_at,
            "calls": sum(exchange.ending is not None for exchange in rollout.exchanges),
            "verdict": _in_order(codec.encode_verdict(verdict)),
            "result": _in_order(codec.encode_result(record)) if reported else None,
        }


def _spoken(final: Row) -> dict[str, Any]:
    """Return the stored result, in which a verdict that is not scoreable has taken the rewards.

    Earlier versions left them where the model was reached.
    """
    record: dict[str, Any] = json.loads(final["result"])
    if record.get("scoreable") != "no" or record["rewards"] is None:
        return record
    verdict = codec.decode_verdict(json.loads(final["verdict"]))
    return record | {"rewards": None, "error": record["error"] or why_unscored(verdict)}


def _servings(verdict: Verdict) -> str | None:
    """Encode how main calls were served; equal text where they were served alike."""
    ways = sorted(verdict.servings, key=repr)[:_SERVINGS]
    return json.dumps(ways, separators=(",", ":")) if ways else None


def _stands_on(rollout: RolloutRecord, verdict: Verdict, prices: PriceTable) -> dict[str, int]:
    """Count the calls behind a verdict's sums: all that used tokens, and those in the sums."""
    calls = totals.using_tokens(rollout.exchanges)
    priced = 0 if verdict.cost_usd is None else sum(prices.in_total(x) for x in calls)
    return {
        "summed_calls": len(calls),
        "tokens_known_calls": sum(map(totals.tokens_known, calls)),
        "cost_known_calls": priced,
    }


def _in_order(record: Mapping[str, Any]) -> str:
    """Return JSON text with the record's keys in its order: it is answered as it was stored."""
    return json.dumps(record, separators=(",", ":"))


def _neighbours(rollout: RolloutRecord) -> str | None:
    """Encode what the verdict stands on of other rollouts; None where nothing was read."""
    return as_json(codec.encode_neighbours(rollout.neighbours)) if rollout.neighbours else None
