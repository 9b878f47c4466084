"""Everything that can be asked of the service, once: REST, pages and command line all ask here.

It moves no bytes of agents and knows no HTTP beyond a Refusal's status.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from classifier import codec
from classifier.outcomes import result
from classifier.policy import POLICIES
from classifier.records import Exchange, Rollout
from classifier.rollouts import judge
from classifier.verdicts import Verdict
from proxy.keys import Keyring
from proxy.prices import PriceTable
from proxy.refusals import Refusal
from proxy.store.database import Database, Registration, StorageError, as_json
from proxy.upstreams import Upstream, normalised
from truezero import models

_PAGE = 1000
_REFRESH = 1000  # rollouts judged anew before a list is filtered by verdict
_SETTLE_POLL_S = 0.05

T = TypeVar("T")


class Recording(Protocol):
    """What the desk asks of the recorder."""

    failing: bool
    gaps_counted: int

    @property
    def waiting(self) -> int:
        """Exchanges not yet written."""
        ...

    def missing(self, rollout_id: str) -> int:
        """A rollout's calls that were served but are not in the database."""
        ...


class Desk:
    """The control desk of one process.

    Arguments:
        database: asked in threads, so that a slow answer holds no agent's bytes up.
        prices: what calls cost where the provider did not say.
        proof_required: base URLs carry the rollout's secret.
        new_id: makes ids for rollouts that come without one.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        *,
        database: Database,
        recorder: Recording,
        keyring: Keyring,
        upstreams: Mapping[str, Upstream],
        prices: PriceTable,
        proof_required: bool,
        new_id: Callable[[], str],
        wall: Callable[[], float],
    ) -> None:
        self._database = database
        self._recorder = recorder
        self._keyring = keyring
        self._upstreams = upstreams
        self._prices = prices
        self._proof_required = proof_required
        self._new_id = new_id
        self._wall = wall
        self._registered: set[str] = set()

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
        )
        if not await self._ask(self._database.register, registration, now=self._wall()):
            raise Refusal(
                409, "rollout_exists", f"rollout {rollout_id!r} is registered with other facts"
            )
        urls = self._base_urls(rollout_id, public_url)
        key = self._keyring.mint(rollout_id)
        return models.RolloutRegistered(
            id=rollout_id,
            key=key,
            admitted=True,
            error=None,
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
        if not await self._ask(self._database.registered, rollout_id):
            raise Refusal(
                401,
                "unregistered_rollout",
                "this rollout was never registered, and TRUEZERO_REQUIRE_REGISTRATION is set: "
                "POST /rollouts first",
            )
        if len(self._registered) > 100_000:
            self._registered.clear()
        self._registered.add(rollout_id)

    async def report(self, rollout_id: str, request: models.OutcomeRequest) -> dict[str, Any]:
        """Keep what the runner saw, and answer with the rollout's result.

        Raises:
            Refusal: 404 for an unknown rollout, 409 where another outcome stands.
        """
        text = as_json(request.model_dump())
        stands = await self._ask(self._database.report, rollout_id, text, now=self._wall())
        if stands is None:
            raise _unknown(rollout_id)
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
        rollout = await self._rollout(rollout_id)
        if policy is not None:
            return codec.encode_verdict(judge(rollout, policy=POLICIES[policy]))
        verdict = judge(rollout)
        await self._store(rollout, verdict)
        return codec.encode_verdict(verdict)

    async def stored_result(self, rollout_id: str) -> dict[str, Any]:
        """The record a runner stores.

        Raises:
            Refusal: 404 for an unknown rollout, 409 before its outcome is known.
        """
        rollout = await self._rollout(rollout_id)
        if rollout.outcome is None:
            raise Refusal(
                409,
                "no_outcome",
                f"rollout {rollout_id!r} has no outcome yet: POST /rollouts/{{id}}/outcome",
            )
        verdict = judge(rollout)
        await self._store(rollout, verdict)
        return codec.encode_result(result(rollout, verdict))

    async def exchanges(
        self, rollout_id: str, *, after: str | None = None, limit: int = _PAGE
    ) -> dict[str, Any]:
        """A rollout's calls, oldest first.

        Raises:
            Refusal: 404 for an unknown rollout.
        """
        found = await self._ask(
            self._database.exchanges_page, rollout_id, after=after, limit=limit + 1
        )
        if found is None:
            raise _unknown(rollout_id)
        priced = await self._ask(self._priced, found[:limit])
        items = [codec.encode_exchange(exchange) for exchange in priced]
        return {"items": items, "next": items[-1]["id"] if len(found) > limit else None}

    async def rollouts(
        self, filters: Mapping[str, str], *, after: str | None = None, limit: int = 100
    ) -> dict[str, Any]:
        """Rollouts by batch, task, health, subcategory or fingerprint, oldest first.

        Raises:
            Refusal: 422 for an ``after`` that no page ended in.
        """
        for rollout_id in await self._ask(
            self._database.unjudged, batch=filters.get("batch"), limit=_REFRESH
        ):
            await self.verdict(rollout_id)
        rows = await self._ask(
            self._database.rollouts_page, filters, after=_position(after), limit=limit + 1
        )
        items = [{name: row[name] for name in models.RolloutItem.model_fields} for row in rows]
        more = len(rows) > limit
        return {
            "items": items[:limit],
            "next": _cursor(rows[limit - 1]["created_at"], rows[limit - 1]["id"]) if more else None,
        }

    # the service itself

    async def ready(self) -> models.Ready:
        """Whether the database answers and the recorder writes."""
        database = await self._ask(self._database.answers)
        recorder = not self._recorder.failing
        return models.Ready(
            status="ready" if database and recorder else "not_ready",
            database=database,
            recorder=recorder,
            gaps=self._recorder.gaps_counted,
            waiting=self._recorder.waiting,
        )

    # steps

    async def _settle(self, rollout_id: str, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while (  # noqa: ASYNC110  no event of this process tells of another's calls
            await self._ask(self._database.in_flight, rollout_id) > 0 and loop.time() < deadline
        ):
            await asyncio.sleep(_SETTLE_POLL_S)

    async def _rollout(self, rollout_id: str) -> Rollout:
        found = await self._ask(self._database.rollout, rollout_id)
        missing = self._recorder.missing(rollout_id)
        if found is None:
            if not missing:
                raise _unknown(rollout_id)
            return Rollout(id=rollout_id, gaps=missing)
        row, rollout = found
        outcome = codec.decode_outcome(json.loads(row["outcome"])) if row["outcome"] else None
        priced = await self._ask(self._priced, rollout.exchanges)
        return replace(
            rollout, exchanges=tuple(priced), gaps=rollout.gaps + missing, outcome=outcome
        )

    def _priced(self, exchanges: Iterable[Exchange]) -> list[Exchange]:
        return [self._prices.priced(exchange) for exchange in exchanges]

    async def _store(self, rollout: Rollout, verdict: Verdict) -> None:
        reported = rollout.outcome is not None
        row = {
            "rollout_id": rollout.id,
            "batch": rollout.batch,
            "health": verdict.health.value,
            "subcategory": verdict.subcategory.value if verdict.subcategory else None,
            "fingerprint": verdict.fingerprint,
            "cause": verdict.cause,
            "lane": verdict.lane,
            "provisional": verdict.provisional,
            "given_at": self._wall(),
            "price_table": None if verdict.cost_usd is None else self._prices.version,
            "verdict": as_json(codec.encode_verdict(verdict)),
            "result": as_json(codec.encode_result(result(rollout, verdict))) if reported else None,
        }
        await self._ask(self._database.store_verdict, row)

    async def _ask(self, question: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        try:
            return await asyncio.to_thread(question, *args, **kwargs)
        except StorageError as error:
            raise Refusal(
                503,
                "storage_unavailable",
                f"the database does not answer ({type(error).__name__})",
                ((b"retry-after", b"1"),),
            ) from error

    def _known_upstream(self, name: str | None) -> str | None:
        if name is None:
            return None
        if normalised(name) not in self._upstreams:
            known = ", ".join(sorted(self._upstreams))
            raise Refusal(422, "invalid", f"upstream: {name!r} is not one of {known}")
        return normalised(name)

    def _base_urls(self, rollout_id: str, public_url: str) -> dict[str, str]:
        segment = quote(rollout_id, safe="")
        if self._proof_required:
            segment += "~" + self._keyring.secret_of(rollout_id)
        return {
            name: f"{public_url}/r/{segment}/{name}{upstream.base_path}"
            for name, upstream in self._upstreams.items()
            if upstream.url is not None
        }


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
