"""Counters of calls by model: how many, tokens and cost.

A model's label is its name in the price table, never what a caller wrote: there are only so many,
and none can be a secret or a prompt. What the table does not know is ``other``.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Protocol

import prometheus_client
from prometheus_client import CollectorRegistry

from classifier.records import Exchange, Kind

OTHER = "other"
MOST = 100  # upstreams and models that have a label, over the life of a process
_FRESH = 64  # that are told apart in one sample: an agent chooses names, and each is looked up

_COUNTED = frozenset((Kind.INFERENCE, Kind.CONTINUATION, Kind.EMBEDDING))
_NO_CAUSE = "none"
_MODEL_TOKENS = {
    "input": attrgetter("usage.input_total"),
    "output": attrgetter("usage.output_total"),
}


class Prices(Protocol):
    """What the counters ask of a price table."""

    def model_name(self, upstream: str, model: str | None) -> str | None:
        """Return the table's name of a model; None where it has none."""
        ...

    def cost(self, exchange: Exchange) -> float | None:
        """Return the cost of one call in US dollars; None where it is unknown."""
        ...


class ModelCounters:
    """Prometheus counters by model.

    Arguments:
        prices: loads its table on first use, in a tenth of a second: not in the event loop.
    """

    def __init__(self, registry: CollectorRegistry, prices: Prices) -> None:
        self._prices = prices
        self._labelled: set[tuple[str, str]] = set()
        self._calls = prometheus_client.Counter(
            "truezero_model_calls",
            "Finished calls by model as the price table names it; other: it does not",
            ("upstream", "model", "subcategory"),
            registry=registry,
        )
        self._tokens = prometheus_client.Counter(
            "truezero_model_tokens",
            "Tokens by model; input includes the caches, output reasoning",
            ("upstream", "model", "kind"),
            registry=registry,
        )
        self._cost = prometheus_client.Counter(
            "truezero_cost_usd",
            "Cost of the calls whose cost is known, in US dollars",
            ("upstream", "model"),
            registry=registry,
        )
        self._costed = prometheus_client.Counter(
            "truezero_cost_calls",
            "Calls that used tokens, by whether their cost is in truezero_cost_usd_total: "
            "known, unknown",
            ("upstream", "model", "cost"),
            registry=registry,
        )

    def add(self, ended: Iterable[Exchange]) -> None:
        """Add finished calls; those of a kind that uses no tokens are left out."""
        for (upstream, model), calls in _by_model(ended).items():
            name = self._prices.model_name(upstream, model)
            label = self._label(upstream, name)
            causes = collections.Counter(
                _NO_CAUSE if e.cause is None else e.cause.subcategory for e in calls
            )
            for cause, count in causes.items():
                self._calls.labels(upstream, label, cause).inc(count)
            used = [e for e in calls if _uses_tokens(e)]
            for kind, tokens in _MODEL_TOKENS.items():
                if total := sum(filter(None, map(tokens, used))):
                    self._tokens.labels(upstream, label, kind).inc(total)
            self._add_costs(upstream, label, [self._cost_of(e, name) for e in used])

    def _cost_of(self, e: Exchange, name: str | None) -> float | None:
        cost = e.usage.cost_usd if name is None else self._prices.cost(e)
        contradictory = cost is not None and not cost >= 0  # more read from the cache than sent
        return None if contradictory else cost

    def _add_costs(self, upstream: str, label: str, costs: Sequence[float | None]) -> None:
        known = [cost for cost in costs if cost is not None]
        if known:
            self._cost.labels(upstream, label).inc(sum(known))
            self._costed.labels(upstream, label, "known").inc(len(known))
        if unknown := len(costs) - len(known):
            self._costed.labels(upstream, label, "unknown").inc(unknown)

    def _label(self, upstream: str, name: str | None) -> str:
        if name is not None and len(self._labelled) < MOST:
            self._labelled.add((upstream, name))
        return name if name is not None and (upstream, name) in self._labelled else OTHER


def _by_model(ended: Iterable[Exchange]) -> dict[tuple[str, str | None], list[Exchange]]:
    """Group calls by upstream and the model that answered, or else was asked for, as written."""
    groups: dict[tuple[str, str | None], list[Exchange]] = {}
    for e in ended:
        if e.kind not in _COUNTED:
            continue
        named = (e.upstream, e.answered_model or e.model)
        if named not in groups and len(groups) >= _FRESH:
            named = (e.upstream, None)
        groups.setdefault(named, []).append(e)
    return groups


def _uses_tokens(e: Exchange) -> bool:
    """Whether a call used tokens, unless it is known that it did not."""
    failed = e.cause is not None and (e.status is None or e.status >= 400)
    return not (failed or e.pending)
