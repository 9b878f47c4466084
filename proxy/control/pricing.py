"""Cost of calls, by the provider's own figure or the installed price table of genai-prices.

An unknown price is None; nothing is fetched and no tokens are estimated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import metadata
from typing import Any

from classifier import codec
from classifier.records import Exchange
from classifier.totals import sum_known, uses_tokens
from proxy.clock import epoch_s
from proxy.routing.upstreams import BUILT_IN, Upstream
from proxy.store.triggers import TIERS

_SAMPLE = 1000  # input tokens of which rates are taken, below every tier
_QUESTION = 48  # input tokens of a reference call
_NEXT = dict(zip((0, *TIERS), (*TIERS, float("inf")), strict=True))


@dataclass(frozen=True, slots=True)
class _Rates:
    """US dollars for one token of each kind, of calls with no more than ``tier`` input tokens."""

    fresh: float
    cache_read: float
    cache_write: float
    output: float
    tier: float

    def charge(self, inputs: int, read: int, written: int, outputs: int) -> float:
        """Return the cost of so many tokens, of which ``read`` and ``written`` are inputs too."""
        return (
            (inputs - read - written) * self.fresh
            + read * self.cache_read
            + written * self.cache_write
            + outputs * self.output
        )


class PriceTable:
    """Prices by upstream and model.

    Arguments:
        upstreams: a name of the built-in table is priced as that provider, whatever
            gateway stands in for it; any other by its URL.
    """

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams

    @property
    def version(self) -> str:
        """The version of the price table, stored beside each cost."""
        return _version()

    def model_name(self, upstream: str, model: str | None) -> str | None:
        """Return the table's own name of a model, which no caller wrote; None if it has none.

        For an upstream that the table does not know, the models of all providers are searched.
        """
        return None if model is None else _table_name(self._url(upstream), model)

    def total(self, exchanges: Iterable[Exchange]) -> float | None:
        """Sum the known cost of calls, as `proxy.store.batches.call_sums` counts them.

        It is a lower bound where `classifier.totals.cost_unknown_calls` counts any. None if no
        call's cost is known.
        """
        return sum_known(self.cost(each) for each in exchanges if uses_tokens(each))

    def cost(self, exchange: Exchange) -> float | None:
        """Return the cost of one call: the provider's own figure, else by the table.

        None of one with a service tier or paid tools: the table has no price of these.
        """
        if exchange.usage.cost_usd is None and exchange.billed_as is not None:
            return None
        return self.by_tokens(exchange)

    def by_tokens(self, exchange: Exchange) -> float | None:
        """Return the same with the standard price of its tokens, however it is billed."""
        usage = exchange.usage
        if usage.cost_usd is not None:
            return usage.cost_usd
        inputs, outputs = usage.input_total, usage.output_total
        url, model = self._url(exchange.upstream), exchange.answered_model or exchange.model
        if inputs is None or outputs is None or url is None or model is None:
            return None
        day = int(exchange.timing.started_at // 86_400)
        read, written = usage.cached_input_tokens or 0, usage.cache_write_tokens or 0
        return _price(url, model, day, inputs, read, written, outputs)

    def of_sums(
        self,
        upstream: str,
        model: str | None,
        day: int,
        *,
        calls: int,
        inputs: int,
        cached: int,
        written: int,
        outputs: int,
        above: int = 0,
    ) -> float | None:
        """Return the cost of calls of one day (since 1970) by their sums of tokens.

        None without a price. Of several calls, each is to have more input tokens than ``above``,
        a number of `proxy.store.triggers.TIERS` or 0, and no more than the next (see `holds`).
        """
        url = self._url(upstream)
        if url is None or model is None:
            return None
        if calls == 1:
            return _price(url, model, day, inputs, cached, written, outputs)
        rates = _rates(url, model, day, above)
        return None if rates is None else rates.charge(inputs, cached, written, outputs)

    def holds(self, upstream: str, model: str | None, day: int, *, above: int) -> bool:
        """Return True if one price holds for all calls with more input tokens than ``above``.

        The range ends at the next of `proxy.store.triggers.TIERS`.
        """
        url = self._url(upstream)
        rates = _rates(url, model, day, above) if url and model else None
        return rates is None or rates.tier >= _NEXT[above]

    def of_question(self, upstream: str, model: str, tokens: int) -> float | None:
        """Return what a reference call costs in US dollars; None without a price.

        Arguments:
            tokens: the limit of its answer.
        """
        return self.of_tokens(upstream, model, _QUESTION, tokens)

    def of_tokens(self, upstream: str, model: str, inputs: int, outputs: int) -> float | None:
        """Return what so many tokens cost today in US dollars; None without a price."""
        url = self._url(upstream)
        day = int(epoch_s() // 86_400)
        return None if url is None else _price(url, model, day, inputs, 0, 0, outputs)

    def encode(self, exchanges: Iterable[Exchange]) -> list[dict[str, Any]]:
        """Encode exchanges as REST returns them, each with its cost."""
        return [
            codec.encode_exchange(exchange) | {"cost_usd": self.cost(exchange)}
            for exchange in exchanges
        ]

    def _url(self, name: str) -> str | None:
        known = BUILT_IN.get(name) or self._upstreams.get(name)
        return known.url if known else None


@cache
def _version() -> str:
    """Look up the version once: parsing the package metadata takes 0.5 ms."""
    return f"genai-prices {metadata.version('genai-prices')}"


@lru_cache(maxsize=1024)
def _rates(url: str, model: str, day: int, above: int = 0) -> _Rates | None:
    """Return a model's rates on one day, cached: the library takes 90 µs per price.

    Of calls with more input tokens than ``above``: a tier's price is that of all their tokens.
    """
    one = above + 1 if above else _SAMPLE
    inputs = one if above else 0  # with an output, so that the tier applies
    charges = [
        _charge(url, model, day, one, 0, 0, 0),
        _charge(url, model, day, one, one, 0, 0),
        _charge(url, model, day, one, 0, one, 0),
        _charge(url, model, day, inputs, 0, 0, one),
    ]
    known = [charge / one for charge in charges if charge is not None]
    if len(known) < len(charges):
        return None
    fresh, read, written, output = known
    output -= fresh if above else 0.0
    return _Rates(fresh, read, written, output, _next_tier(url, model, day, above))


def _library() -> Any:
    """Load the table with the first price: 130 ms that startup need not spend.

    The whole package at once: if one thread imports it and another a module in it, each waits
    for the other, and Python lets one of them go on with a half-loaded package.
    """
    import genai_prices  # noqa: PLC0415

    return genai_prices


@lru_cache(maxsize=4096)
def _table_name(url: str | None, model: str) -> str | None:
    # Not its `find_provider_model`, which caches every name without bound.
    snapshot, written = _library().data_snapshot.get_snapshot(), model.lower()
    for at in (url, None):
        try:
            provider = snapshot.find_provider(written, None, at)
        except LookupError:
            continue
        if entry := provider.find_model(written, all_providers=snapshot.providers):
            return str(entry.id)
    return None


def _price(
    url: str, model: str, day: int, inputs: int, read: int, written: int, outputs: int
) -> float | None:
    rates = _rates(url, model, day)
    if rates is None:
        return None
    if inputs > rates.tier:
        return _charge(url, model, day, inputs, read, written, outputs)
    return rates.charge(inputs, read, written, outputs)


def _charge(
    url: str, model: str, day: int, inputs: int, read: int, written: int, outputs: int
) -> float | None:
    library = _library()
    counts = library.Usage(
        input_tokens=inputs,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=outputs,
    )
    try:
        price = library.calc_price(
            counts, model, provider_api_url=url, genai_request_timestamp=_noon(day)
        )
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


def _next_tier(url: str, model: str, day: int, above: int) -> float:
    """Return the number of input tokens, above a number, from which a price changes."""
    library = _library()
    _, priced = library.data_snapshot.get_snapshot().find_provider_model(model, None, None, url)
    prices = vars(priced.get_prices(_noon(day))).values()
    tiered = [price for price in prices if isinstance(price, library.types.TieredPrices)]
    starts = [tier.start for price in tiered for tier in price.tiers]
    return float(min((start for start in starts if start > above), default=float("inf")))


def _noon(day: int) -> datetime:
    return datetime.fromtimestamp(day * 86_400 + 43_200, tz=UTC)
