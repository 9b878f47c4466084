"""The REST endpoints as generators of requests, shared by the sync and the async client."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TypeVar, Unpack
from urllib.parse import quote

from truezero import models
from truezero.sdk.arguments import DrillFacts, OutcomeFacts, RolloutFilters
from truezero.sdk.errors import ServiceError
from truezero.sdk.outcomes import Delivery
from truezero.sdk.steps import AskTerms, Parameters, Story, get, post, present

P = TypeVar(
    "P",
    models.ExchangePage,
    models.RolloutPage,
    models.GroupPage,
    models.BatchComparison,
    models.Reruns,
)

EXPORT = "/rollouts/export"
ROLLOUTS = "/rollouts"
CSV = {"accept": "text/csv"}


def greet() -> Story[models.Alive]:
    """Check that the service is reachable and of a compatible version.

    Raises:
        ServiceError: ``other_version`` if it is not of this client's release.
    """
    alive = yield from get(models.Alive, "/healthz")
    ours = metadata.version("truezero")
    if _release(alive.version) != _release(ours):
        raise ServiceError(
            f"the service is truezero {alive.version} and this is truezero {ours}: "
            "install the same release on both sides",
            code="other_version",
        )
    return alive


def register(**facts: Unpack[DrillFacts]) -> Story[models.RolloutRegistered]:
    """Register a rollout."""
    return (yield from post(models.RolloutRegistered, ROLLOUTS, facts))


def register_many(rollouts: Sequence[DrillFacts]) -> Story[list[models.BulkItem]]:
    """Register any number of rollouts, and return the answer to each, in their order.

    One that is refused has a ``problem`` and keeps no other back. Repeating it is harmless.
    """
    items: list[models.BulkItem] = []
    for start in range(0, len(rollouts), models.MOST_REGISTRATIONS):
        body = {"rollouts": [*rollouts[start : start + models.MOST_REGISTRATIONS]]}
        items += (yield from post(models.BulkRegistered, "/rollouts/bulk", body)).items
    return items


def report(rollout_id: str, **outcome: Unpack[OutcomeFacts]) -> Story[models.Result]:
    """Report what the runner observed; safe to repeat.

    Waits for a service that is away, and keeps the outcome in a file until it has arrived.

    Raises:
        Undelivered: the service was away for longer than ``TRUEZERO_OUTCOME_PATIENCE_S``.
    """
    delivery, made = yield from _delivered(rollout_id, outcome)
    delivery.arrived()
    return made


def _delivered(rollout_id: str, outcome: OutcomeFacts) -> Story[tuple[Delivery, models.Result]]:
    """Report an outcome; what is kept of it stays until its runner has all that it waits for."""
    body = {"status": "success", **outcome}
    terms = yield AskTerms()
    delivery = Delivery(terms, rollout_id, body)
    path = f"{_rollout(rollout_id)}/outcome"
    made = yield from delivery.until_answered(
        lambda: post(models.Result, path, body, timeout_s=delivery.timeout_s())
    )
    return delivery, made


def verdict(
    rollout_id: str, *, settled: bool = False, timeout_s: float = 10.0, policy: str | None = None
) -> Story[models.Verdict]:
    """Judge a rollout; ``settled`` waits up to ``timeout_s`` for its calls in flight."""
    params: dict[str, str | float] = {}
    if settled:
        params = {"wait": "settled", "timeout_s": timeout_s}
    if policy:
        params["policy"] = policy
    return (yield from get(models.Verdict, f"{_rollout(rollout_id)}/verdict", params))


def result(rollout_id: str) -> Story[models.Result]:
    """Return the record to store as ``result.json``."""
    return (yield from get(models.Result, f"{_rollout(rollout_id)}/result"))


def ended(
    rollout_id: str, **outcome: Unpack[OutcomeFacts]
) -> Story[tuple[models.Result, models.Verdict]]:
    """Report a rollout whose agent has exited, and wait for its last calls to end.

    Waits for a service that is away, and keeps the outcome, like ``report``.

    Raises:
        Undelivered: the service was away for longer than ``TRUEZERO_OUTCOME_PATIENCE_S``.
    """
    delivery, made = yield from _delivered(rollout_id, outcome)
    judged = yield from delivery.until_answered(lambda: verdict(rollout_id, settled=True))
    if (made.model_extra or {}).get("provisional") and not judged.provisional:
        made = yield from delivery.until_answered(lambda: result(rollout_id))
    delivery.arrived()
    return made, judged


def exchanges(rollout_id: str) -> Story[list[models.Exchange]]:
    """Return every call of a rollout, oldest first."""
    pages = yield from _pages(models.ExchangePage, f"{_rollout(rollout_id)}/exchanges", {})
    return [call for page in pages for call in page.items]


def rollouts(**filters: Unpack[RolloutFilters]) -> Story[list[models.RolloutItem]]:
    """Return every rollout that matches the filters, oldest first unless asked otherwise."""
    pages = yield from _pages(models.RolloutPage, ROLLOUTS, present(**filters, limit=1000))
    return [item for page in pages for item in page.items]


def rollout_page(
    *, after: str | None = None, limit: int = 1000, **filters: Unpack[RolloutFilters]
) -> Story[models.RolloutPage]:
    """Return a page of rollouts; its ``next`` is the ``after`` of the following one."""
    params = present(**filters, after=after, limit=limit)
    return (yield from get(models.RolloutPage, ROLLOUTS, params))


def batch_page(*, after: str | None = None, limit: int = 20) -> Story[models.BatchPage]:
    """Return a page of batches, the newest first."""
    return (yield from get(models.BatchPage, "/batches", present(after=after, limit=limit)))


def summary(batch: str) -> Story[models.BatchSummary]:
    """Return a batch's counts, tokens, cost, scores, and the rollouts to run again."""
    return (yield from get(models.BatchSummary, _batch(batch)))


def check(batch: str) -> Story[models.Check]:
    """Check whether a batch is a valid measurement."""
    return (yield from get(models.Check, f"{_batch(batch)}/check"))


def breaker(batch: str) -> Story[models.Breaker]:
    """Return the circuit breakers of a batch, lane by lane."""
    return (yield from get(models.Breaker, f"{_batch(batch)}/breaker"))


def groups(
    batch: str,
    *,
    method: models.AdvantageMethod = "grpo",
    min_valid: int = 2,
    settled: bool | None = None,
    task: str | None = None,
) -> Story[list[models.Group]]:
    """Return the groups of a batch, by task; ``settled`` leaves out the others."""
    pages = yield from group_pages(
        batch, method=method, min_valid=min_valid, settled=settled, task=task
    )
    return [group for page in pages for group in page.items]


def group_pages(
    batch: str,
    *,
    method: models.AdvantageMethod = "grpo",
    min_valid: int = 2,
    settled: bool | None = None,
    task: str | None = None,
) -> Story[list[models.GroupPage]]:
    """Return the pages of a batch's groups, each with whether the batch had ended by then."""
    params = present(
        method=method,
        min_valid=min_valid,
        settled=None if settled is None else str(settled).lower(),
        task=task,
        limit=1000,
    )
    return (yield from _pages(models.GroupPage, f"{_batch(batch)}/groups", params))


def begin(batch: str, run: str) -> Story[models.BatchRuns]:
    """Say that rollouts of a batch are going to be started."""
    return (yield from post(models.BatchRuns, f"{_batch(batch)}/begin", {"run": run}))


def end(batch: str, run: str | None = None) -> Story[models.BatchRuns]:
    """Say that a run of a batch is over; without its name, all of them."""
    return (yield from post(models.BatchRuns, f"{_batch(batch)}/end", {"run": run}))


def compare(a: str, b: str) -> Story[models.BatchComparison]:
    """Compare batch ``b`` with batch ``a``, task by task."""
    params = present(a=a, b=b, limit=10_000)
    compared, *further = yield from _pages(models.BatchComparison, "/compare", params)
    for page in further:
        compared.tasks += page.tasks
    compared.next = None
    return compared


def rerun(batch: str) -> Story[models.Reruns]:
    """Return what a batch has to run again, by what is to be done first."""
    params = present(limit=models.LONGEST_PAGE)
    found, *further = yield from _pages(models.Reruns, f"{_batch(batch)}/rerun", params)
    for name in models.RERUN_NAMES:
        _join(found.kind(name), [page.kind(name) for page in further])
    found.next = None
    return found


def _join(kind: models.RerunKind, further: Sequence[models.RerunKind]) -> None:
    """Add the items of further pages to those of the first, and count what was read."""
    groups = {(group.cause, group.fix): group for group in kind.groups}
    for group in (group for page in further for group in page.groups):
        known = groups.setdefault((group.cause, group.fix), group)
        if known is not group:
            known.items += group.items
    for group in groups.values():
        group.count = len(group.items)
    found = [group for group in groups.values() if group.items]
    kind.groups = sorted(found, key=lambda group: (-group.count, group.cause))
    kind.count = sum(group.count for group in kind.groups)


def usage(
    batch: str, *, by: Sequence[models.UsageDimension] = ("model", "upstream", "role")
) -> Story[models.BatchUsage]:
    """Add up a batch's calls: tokens, cost, seconds, and what is not known of them."""
    return (yield from get(models.BatchUsage, f"{_batch(batch)}/usage", {"by": ",".join(by)}))


def reset_breaker(batch: str, *, lane: str | None = None) -> Story[models.Breaker]:
    """Allow one probe (half-open) in one open lane, or in all of them."""
    path = f"{_batch(batch)}/breaker/reset"
    return (yield from post(models.Breaker, path, params=present(lane=lane)))


def fingerprints() -> Story[list[models.Fingerprint]]:
    """Return the causes of failures across batches, with the rollouts each affected."""
    page = yield from get(models.Fingerprints, "/fingerprints")
    return page.items


def _pages(model: type[P], path: str, params: Parameters) -> Story[list[P]]:
    """Read every page of a list, one after the other."""
    pages = [(yield from get(model, path, params))]
    while (after := pages[-1].next) is not None:
        pages.append((yield from get(model, path, {**params, "after": after})))
    return pages


def _rollout(rollout_id: str) -> str:
    return f"/rollouts/{quote(rollout_id, safe='')}"


def _batch(batch: str) -> str:
    return f"/batches/{quote(batch, safe='')}"


def _release(version: str) -> list[str]:
    """Return the part of a version that must match: before 1.0, the minor number too."""
    return version.split(".")[:2]
