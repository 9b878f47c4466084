# Made of truezero/sdk/_async by `python -m tests.sync_client`: change it there.
"""The client of the REST API, for runners and for the command line.

A service that does not answer is an error, never a healthy verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from truezero import models
from truezero.foreign import ForeignError
from truezero.sdk import outcomes, rest
from truezero.sdk._sync.batches import Batch
from truezero.sdk.addresses import (
    CSV,
    EXPORT,
    HEALTH,
    ROLLOUTS,
    check_version,
    of_batch,
    of_rollout,
    present,
    service_url,
)
from truezero.sdk.arguments import (
    DrillFacts,
    GroupFilters,
    LaneFacts,
    LimitFacts,
    OutcomeFacts,
    RolloutFilters,
)
from truezero.sdk.batches import warn_of_method
from truezero.sdk.errors import ServiceError, not_truezero, refused
from truezero.sdk.events import Event, Events
from truezero.sdk.rest import Parameters

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
P = TypeVar(
    "P",
    models.ExchangePage,
    models.RolloutPage,
    models.GroupPage,
    models.BatchComparison,
    models.Reruns,
)


class Client:
    """A client of one service; safe to share between threads.

    Every method raises ``ServiceError`` if the service is unreachable or rejects the request, and
    so does making one with an address that is no URL.

    Arguments:
        url: by default ``TRUEZERO_URL``, else the address ``truezero serve`` listens on.
        token: by default ``TRUEZERO_ADMIN_TOKEN``; required if the service has one.
        timeout_s: timeout of one request, in seconds.
        keep_outcomes: keep an outcome while the service is away, and wait for it.
        transport, sleep, clock: for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        keep_outcomes: bool = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = rest.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = service_url(url)
        self._terms = outcomes.DeliveryTerms(
            service=outcomes.without_credentials(self.url),
            folder=outcomes.folder(),
            patience_s=outcomes.patience_s(),
            clock=clock,
            keeps=keep_outcomes,
        )
        self._sleep = sleep
        connection = rest.connection(self.url, token, timeout_s)
        self._http = httpx.Client(transport=transport, **connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -- rollouts ----------------------------------------------------------------------

    def greet(self) -> models.Alive:
        """Check that the service is reachable and of a compatible version.

        Raises:
            ServiceError: ``other_version`` if it is not of this client's release.
        """
        alive = self._get(models.Alive, HEALTH)
        check_version(alive.version)
        return alive

    def register(self, **facts: Unpack[DrillFacts]) -> models.RolloutRegistered:
        """Register a rollout."""
        return self._post(models.RolloutRegistered, ROLLOUTS, facts)

    def register_many(self, rollouts: Sequence[DrillFacts]) -> list[models.BulkItem]:
        """Register any number of rollouts, and return the answer to each, in their order.

        One that is refused has a ``problem`` and keeps no other back. Repeating it is harmless.
        """
        items: list[models.BulkItem] = []
        for start in range(0, len(rollouts), models.MOST_REGISTRATIONS):
            body = {"rollouts": [*rollouts[start : start + models.MOST_REGISTRATIONS]]}
            items += (self._post(models.BulkRegistered, "/rollouts/bulk", body)).items
        return items

    def report(self, rollout_id: str, **outcome: Unpack[OutcomeFacts]) -> models.Result:
        """Report what the runner observed; safe to repeat.

        Waits for a service that is away, and keeps the outcome in a file until it has arrived.

        Raises:
            Undelivered: the service was away for longer than ``TRUEZERO_OUTCOME_PATIENCE_S``.
        """
        delivery, made = self._delivered(rollout_id, outcome)
        delivery.arrived()
        return made

    def ended(
        self, rollout_id: str, **outcome: Unpack[OutcomeFacts]
    ) -> tuple[models.Result, models.Verdict]:
        """Report a rollout whose agent has exited, and wait for its last calls to end.

        Waits for a service that is away, and keeps the outcome, like ``report``.

        Raises:
            Undelivered: the service was away for longer than ``TRUEZERO_OUTCOME_PATIENCE_S``.
        """
        delivery, made = self._delivered(rollout_id, outcome)
        judged = self._until_answered(delivery, lambda: self.verdict(rollout_id, settled=True))
        if (made.model_extra or {}).get("provisional") and not judged.provisional:
            made = self._until_answered(delivery, lambda: self.result(rollout_id))
        delivery.arrived()
        return made, judged

    def verdict(
        self,
        rollout_id: str,
        *,
        settled: bool = False,
        timeout_s: float = 10.0,
        policy: str | None = None,
    ) -> models.Verdict:
        """Judge a rollout; ``settled`` waits up to ``timeout_s`` for its calls in flight."""
        params: dict[str, str | float] = {}
        if settled:
            params = {"wait": "settled", "timeout_s": timeout_s}
        if policy:
            params["policy"] = policy
        return self._get(models.Verdict, of_rollout(rollout_id, "/verdict"), params)

    def result(self, rollout_id: str) -> models.Result:
        """Return the record to store as ``result.json``."""
        return self._get(models.Result, of_rollout(rollout_id, "/result"))

    def exchanges(self, rollout_id: str) -> list[models.Exchange]:
        """Return every call of a rollout, oldest first."""
        pages = self._pages(models.ExchangePage, of_rollout(rollout_id, "/exchanges"), {})
        return [call for page in pages for call in page.items]

    def digests(self, response_ids: Sequence[str]) -> dict[str, str]:
        """Return the digest of each response id: the ``response_digest`` of its exchange."""
        digests: dict[str, str] = {}
        for start in range(0, len(response_ids), models.MOST_DIGESTS):
            body = {"response_ids": [*response_ids[start : start + models.MOST_DIGESTS]]}
            digests |= (self._post(models.Digests, "/digests", body)).digests
        return digests

    def rollouts(self, **filters: Unpack[RolloutFilters]) -> list[models.RolloutItem]:
        """Return every rollout that matches the filters, oldest first unless asked otherwise."""
        params = present(**filters, limit=1000)
        pages = self._pages(models.RolloutPage, ROLLOUTS, params)
        return [item for page in pages for item in page.items]

    def rollout_page(
        self, *, after: str | None = None, limit: int = 1000, **filters: Unpack[RolloutFilters]
    ) -> models.RolloutPage:
        """Return a page of rollouts; its ``next`` is the ``after`` of the following one."""
        params = present(**filters, after=after, limit=limit)
        return self._get(models.RolloutPage, ROLLOUTS, params)

    def iter_rollouts(self, **filters: Unpack[RolloutFilters]) -> Iterator[models.RolloutItem]:
        """Yield rollouts that match the filters, page by page as they are taken."""
        after: str | None = None
        while True:
            page = self.rollout_page(after=after, **filters)
            yield from page.items
            after = page.next
            if after is None:
                return

    def rollouts_csv(self, **filters: Unpack[RolloutFilters]) -> Iterator[str]:
        """Yield rollouts that match the filters as a CSV file, a line at a time."""
        yield from self._lines(ROLLOUTS, filters, CSV)

    def export(self, *, batch: str | None = None) -> Iterator[str]:
        """Export what `truezero classify` needs, as JSON lines: one batch, or all."""
        yield from self._lines(EXPORT, present(batch=batch), {})

    # -- batches -----------------------------------------------------------------------

    def batch(self, name: str, **facts: Unpack[LaneFacts]) -> Batch:
        """Return a batch; ``facts`` (model, upstream, …) apply to each of its rollouts."""
        return Batch(self, name, facts)

    def batch_page(self, *, after: str | None = None, limit: int = 20) -> models.BatchPage:
        """Return a page of batches, the newest first."""
        return self._get(models.BatchPage, "/batches", present(after=after, limit=limit))

    def iter_batches(self) -> Iterator[models.BatchItem]:
        """Yield batches, the newest first, page by page as they are taken."""
        after: str | None = None
        while True:
            page = self.batch_page(after=after)
            yield from page.items
            after = page.next
            if after is None:
                return

    def summary(self, batch: str) -> models.BatchSummary:
        """Return a batch's counts, tokens, cost, scores, and the rollouts to run again."""
        return self._get(models.BatchSummary, of_batch(batch))

    def check(self, batch: str) -> models.Check:
        """Check whether a batch is a valid measurement."""
        return self._get(models.Check, of_batch(batch, "/check"))

    def card(
        self,
        batch: str,
        *,
        harness: str | None = None,
        accept: str = "application/json",
        timeout_s: float = rest.CARD_S,
    ) -> bytes:
        """Return a batch's measurement card: canonical JSON, or a page or badge of it.

        Arguments:
            harness: name and version of what ran the agents; it stands on the card.
            accept: ``application/json``, ``text/html`` or ``image/svg+xml``.
            timeout_s: how long to wait for it, in seconds; the service then stops making it.
        """
        params, headers = present(harness=harness), {"accept": accept}
        path = of_batch(batch, "/card")
        return (self._send("GET", path, params, None, timeout_s, headers)).body

    def begin(self, batch: str, run: str) -> models.BatchRuns:
        """Say that rollouts of a batch are going to be started."""
        return self._post(models.BatchRuns, of_batch(batch, "/begin"), {"run": run})

    def end(self, batch: str, run: str | None = None) -> models.BatchRuns:
        """Say that a run of a batch is over; without its name, all of them."""
        return self._post(models.BatchRuns, of_batch(batch, "/end"), {"run": run})

    def groups(self, batch: str, **asked: Unpack[GroupFilters]) -> list[models.Group]:
        """Return the groups of a batch by task; of one ``task``, or ``settled`` ones alone.

        Takes the parameters of `GET /batches/{batch}/groups`.
        """
        pages = self.group_pages(batch, **asked)
        return [group for page in pages for group in page.items]

    def group_pages(self, batch: str, **asked: Unpack[GroupFilters]) -> list[models.GroupPage]:
        """Return the pages of a batch's groups, each with whether the batch had ended by then."""
        warn_of_method(asked.pop("method", None))
        settled = asked.get("settled")
        flag = None if settled is None else str(settled).lower()
        params = {"min_valid": 2, **present(**{**asked, "settled": flag}), "limit": 1000}
        return self._pages(models.GroupPage, of_batch(batch, "/groups"), params)

    def compare(self, a: str, b: str) -> models.BatchComparison:
        """Compare batch ``b`` with batch ``a``, task by task."""
        params = present(a=a, b=b, limit=10_000)
        pages = self._pages(models.BatchComparison, "/compare", params)
        return rest.joined_comparison(pages)

    def rerun(self, batch: str) -> models.Reruns:
        """Return what a batch has to run again, by what is to be done first."""
        params = present(limit=models.LONGEST_PAGE)
        pages = self._pages(models.Reruns, of_batch(batch, "/rerun"), params)
        return rest.joined_reruns(pages)

    def usage(
        self, batch: str, *, by: Sequence[models.UsageDimension] = ("model", "upstream", "role")
    ) -> models.BatchUsage:
        """Add up a batch's calls: tokens, cost, seconds, and what is not known of them."""
        return self._get(models.BatchUsage, of_batch(batch, "/usage"), {"by": ",".join(by)})

    def breaker(self, batch: str) -> models.Breaker:
        """Return the circuit breakers of a batch, lane by lane."""
        return self._get(models.Breaker, of_batch(batch, "/breaker"))

    def reset_breaker(self, batch: str, *, lane: str | None = None) -> models.Breaker:
        """Allow one probe (half-open) in one open lane, or in all of them."""
        path = of_batch(batch, "/breaker/reset")
        return self._post(models.Breaker, path, params=present(lane=lane))

    def rollout_limits(self, rollout_id: str, **limits: Unpack[LimitFacts]) -> models.Budget:
        """Return a rollout's limits and what is spent of them; change them if some are given."""
        return self._limits(of_rollout(rollout_id, "/limits"), limits)

    def batch_limits(self, batch: str, **limits: Unpack[LimitFacts]) -> models.Budget:
        """Return a batch's limits and what is spent of them; change them if some are given."""
        return self._limits(of_batch(batch, "/limits"), limits)

    def _limits(self, path: str, limits: LimitFacts) -> models.Budget:
        if limits:
            return self._post(models.Budget, path, {**limits})
        return self._get(models.Budget, path)

    def status(self) -> models.StatusReport:
        """Return the health of each upstream, model and key now, in a word with its evidence."""
        return self._get(models.StatusReport, "/status")

    def take_turn(
        self, *, upstream: str | None = None, model: str | None = None
    ) -> models.LaneTurn:
        """Ask whether a rollout may start on a lane, or has to wait while it is down."""
        asked = present(upstream=upstream, model=model)
        return self._post(models.LaneTurn, "/turns", {**asked})

    def ask_reference(self, upstream: str, model: str) -> models.ReferenceSeries:
        """Ask a model the proxy's own question, as beside an untrusted agent's failure."""
        path, body = f"/upstreams/{quote(upstream, safe='')}/reference", {"model": model}
        return self._post(models.ReferenceSeries, path, body, timeout_s=rest.REFERENCE_S)

    def fingerprints(self) -> list[models.Fingerprint]:
        """Return the causes of failures across batches, with the rollouts each affected."""
        return (self._get(models.Fingerprints, "/fingerprints")).items

    def events(
        self, batch: str, *, after: int | None = None, alive: bool = False
    ) -> Generator[Event, None, None]:
        """Follow a batch's events from now on, or after an event's id; never ends by itself.

        ``alive`` also yields heartbeats, several a second.
        """
        reader = Events(batch, after)
        while True:
            try:
                for event in self._connection(reader):
                    if alive or event.kind != "alive":
                        yield event
            except ForeignError as error:
                raise not_truezero(self.url, 200) from error
            except httpx.HTTPError as error:
                reader.lost(self.url, error)
            self._sleep(rest.RECONNECT_S)

    # -- requests ----------------------------------------------------------------------

    def _delivered(
        self, rollout_id: str, outcome: OutcomeFacts
    ) -> tuple[outcomes.Delivery, models.Result]:
        """Report an outcome; what is kept of it stays until its runner has all it waits for."""
        body = {"status": "success", **outcome}
        delivery = outcomes.Delivery(self._terms, rollout_id, body)
        path = of_rollout(rollout_id, "/outcome")
        made = self._until_answered(delivery, lambda: self._post(models.Result, path, body))
        return delivery, made

    def _until_answered(self, delivery: outcomes.Delivery, ask: Callable[[], T]) -> T:
        """Ask until the service answers, or has been away for too long."""
        while True:
            try:
                return ask()
            except ServiceError as error:
                wait_s = delivery.wait_after(error)
            except BaseException as stopped:  # Ctrl-C or a cancellation, while it was under way
                delivery.interrupted(stopped)
                raise
            self._sleep(wait_s)

    def _get(self, model: type[M], path: str, params: Parameters | None = None) -> M:
        return self._read(model, path, self._send("GET", path, params, None, None))

    def _post(
        self,
        model: type[M],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Parameters | None = None,
        timeout_s: float | None = None,
    ) -> M:
        return self._read(model, path, self._send("POST", path, params, body, timeout_s))

    def _pages(self, model: type[P], path: str, params: Parameters) -> list[P]:
        """Read every page of a list, one after the other."""
        pages = [self._get(model, path, params)]
        while (after := pages[-1].next) is not None:
            pages.append(self._get(model, path, {**params, "after": after}))
        return pages

    def _send(
        self,
        method: str,
        path: str,
        params: Parameters | None,
        body: Mapping[str, Any] | None,
        timeout_s: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> rest.Answer:
        timeout: Any = httpx.USE_CLIENT_DEFAULT if timeout_s is None else timeout_s
        content, typed = rest.encoded(body)
        shown = {**(headers or {}), **typed}
        asked: dict[str, Any] = {"params": params or {}, "timeout": timeout, "headers": shown}
        try:
            try:
                answer = self._answer(method, path, content=content, **asked)
            except rest.CLOSED:
                if method != "GET":
                    raise
                answer = self._answer(method, path, **asked)
        except httpx.HTTPError as error:
            raise rest.no_answer(self.url, error) from error
        if answer.status >= 400:
            raise self._explained(refused(answer.status, answer.body, self.url), path)
        return answer

    def _answer(self, method: str, path: str, **asked: Any) -> rest.Answer:
        with self._http.stream(method, path, **asked) as response:
            pieces = rest.Pieces(response, self.url)
            for piece in response.iter_bytes():
                pieces.add(piece)
            return pieces.answer()

    def _explained(self, error: ServiceError, path: str) -> ServiceError:
        """Return a refusal, with both releases if the service is of another one."""
        if error.code in rest.OF_ANOTHER_RELEASE and path != HEALTH:
            try:
                self.greet()
            except ServiceError as other:
                if other.code == "other_version":
                    return ServiceError(f"{error}; {other}", status=error.status, code=error.code)
        return error

    def _read(self, model: type[M], path: str, answer: rest.Answer) -> M:
        read = rest.parse(model, answer.body, path=path, url=self.url, status=answer.status)
        outcomes.answered(self._terms.service)
        return read

    def _lines(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[str]:
        try:
            with self._http.stream("GET", path, params=params, headers=headers) as response:
                pieces = rest.Pieces(response, self.url)
                for piece in response.iter_bytes():
                    for line in pieces.lines(piece):
                        yield line
                for line in pieces.last_line():
                    yield line
        except httpx.HTTPError as error:
            raise rest.no_answer(self.url, error) from error

    def _connection(self, reader: Events) -> Iterator[Event]:
        with self._http.stream(
            "GET", reader.path, params=reader.params, timeout=rest.STREAM_S
        ) as response:
            pieces = rest.Pieces(response, self.url)
            for piece in response.iter_bytes():
                for line in pieces.lines(piece):
                    if event := reader.line(line):
                        yield event
            pieces.last_line()
