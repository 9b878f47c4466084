"""The runner reports other tokens than its calls had.

Harnesses count what they see of an answer: some leave out cached input, side calls or reasoning,
some count the last call only. A number that fits none of these readings is from elsewhere: calls
that passed the proxy by, another run's file, a counter that never ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from classifier.logical_calls import output_tokens
from classifier.records import Exchange, Kind
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, may_hide_cache
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

USAGE_MISMATCH = "usage_mismatch"
_FACTOR = 2  # of a reading; tokenizers of runners differ from the provider's
_CACHE_PRICE = 0.1  # of an input token's: runners that weigh tokens by price


def usage_mismatch(measured: Measurement) -> Looked | None:
    """Compare the runner's count with every way to count the calls."""
    facts = measured.facts
    reported = facts.outcome.total_tokens if facts.outcome else None
    agents = [x for x in facts.exchanges if _spends(x)] if reported else []
    if not reported or not agents or facts.exempt:
        return None
    spent = [x for x in measured.rollout.exchanges if _spends(x)]
    unknown = [x for x in agents if not _known(x)]
    coverage = Coverage(looked=len(agents) - len(unknown), of=len(agents))
    if not all(map(_known, spent)) or measured.rollout.gaps:
        return Looked(coverage=coverage)
    main = {attempt.id for call in facts.main for attempt in call.attempts}
    groups = (agents, [x for x in agents if x.id in main], spent)
    readings = [reading for group in groups for reading in _readings(group)]
    longest = max(_input(x) + _output(x) for x in agents)  # the conversation, each token once
    readings += [longest, _input(agents[-1]) + _output(agents[-1])]
    read, written = sum(map(_input, agents)), sum(map(_output, agents))
    if any(x.usage.cached_input_tokens is None for x in agents) and reported > longest:
        readings.append(min(reported, read + written))  # less what somebody else knows as cached
    if any(reading <= reported * _FACTOR and reported <= reading * _FACTOR for reading in readings):
        return Looked(coverage=coverage)
    return Looked(
        coverage=coverage,
        finding=ValidityFinding(
            check=USAGE_MISMATCH,
            level=Level.SUSPECT,
            calls=len(agents),
            of=len(agents),
            evidence=ids_of(agents),
            sentence=f"the runner reports {plural(reported, 'token')}; its calls had "
            f"{read + written:,} ({read:,} of input, {written:,} of output)",
            about={"reported": reported, "input": read, "output": written},
        ),
    )


def _spends(exchange: Exchange) -> bool:
    """Whether it is a call that may have cost tokens; an HTTP error costs none."""
    if exchange.kind in (Kind.PROBE, Kind.OTHER) or exchange.pending:
        return False
    return exchange.cause is None or (exchange.status is not None and exchange.status < 400)


def _known(exchange: Exchange) -> bool:
    if exchange.usage.input_total is None or may_hide_cache(exchange):
        return False
    return exchange.kind is Kind.EMBEDDING or output_tokens(exchange) is not None


def _input(exchange: Exchange) -> int:
    return exchange.usage.input_total or 0


def _output(exchange: Exchange) -> int:
    return output_tokens(exchange) or 0


def _readings(calls: Sequence[Exchange]) -> Iterator[float]:
    """Yield the tokens of some calls, counted in each way that a runner may."""
    read, written = sum(map(_input, calls)), sum(map(_output, calls))
    cached = sum(x.usage.cached_input_tokens or 0 for x in calls)
    created = sum(x.usage.cache_write_tokens or 0 for x in calls)
    reasoning = sum(x.usage.reasoning_tokens or 0 for x in calls)
    inputs = {read, read - cached, read - cached - created, read - cached * (1 - _CACHE_PRICE), 0}
    inputs |= {read + cached, read + cached + created}  # counted twice
    for one in inputs:
        for other in {written, written - reasoning, written + reasoning, 0}:
            if one + other > 0:
                yield one + other
