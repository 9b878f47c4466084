"""The rows of the table: what each number is called, what it stands beside, and its goal.

It measures nothing; medians and ratios are made here from the rounds that were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Numbers = dict[str, float | None]
Round = dict[str, Numbers]  # subject → numbers
Rounds = dict[str, list[Round]]  # figure → rounds

OURS = ("truezero", "compiled")
SUBJECTS = (*OURS, "nginx", "litellm", "portkey", "direct")
GATEWAYS = ("nginx", "litellm", "portkey")
# Who else stands beside us, in one run, and in this order where nothing was measured.
BOARD = (
    "nginx", "haproxy", "envoy", "caddy", "traefik", "vllm-router", "sglang-router", "rolter",
    "tensorzero", "ferrogw", "portkey", "litellm", "litellm-rust",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """At most so much: of the comparison with a peer, or without one of the number itself."""

    most: float
    said: str
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number of a figure; ``how`` it is compared: × is a ratio, + a difference."""

    figure: str
    number: str
    label: str
    against: Sequence[str] = ()
    how: str = "×"
    goals: Sequence[Goal] = ()

    @property
    def key(self) -> str:
        return f"{self.figure}.{self.number}"


def _times(most: float, peer: str = "nginx") -> Goal:
    return Goal(most=most, peer=peer, said=f"≤ {most:g} × {peer}")


def _more(most: float, unit: str = "ms") -> Goal:
    return Goal(most=most, peer="direct", said=f"≤ {most:g} {unit} more than direct")


def _most(most: float, unit: str) -> Goal:
    return Goal(most=most, said=f"≤ {most:g} {unit}")


_LITELLM = Goal(most=0.01, peer="litellm", said="≥ 100 times less than LiteLLM")


# New connections/s whose first bytes are timed, and what is wanted of them beside a peer.
PACES = (1000, 2000, 3000, 4000)
PROMPT_MS = 20.0  # the longest first byte p99 at which they are served in time
_PROMPT = {4000: (_most(PROMPT_MS, "ms"),)}


def _in_kernel(figure: str, what: str) -> Row:
    return Row(
        figure=figure, number="kernel_us", label=f"µs of {what} in the kernel", against=("nginx",)
    )


def _streams(figure: str, many: str) -> tuple[Row, ...]:
    memory, late = (_most(18, "MB"),), (_most(2, "ms"), _times(10))
    beside = ("nginx",)
    return (
        Row(figure=figure, number="at_once", label=f"streams at once, of {many} asked for"),
        Row(
            figure=figure, number="mb_per_1000", label=f"MB per 1,000 of {many} streams",
            against=beside, goals=memory,
        ),
        Row(
            figure=figure, number="chunk_p99_ms", label=f"ms chunk delay p99 at {many}",
            against=beside, goals=late,
        ),
    )  # fmt: skip


ROWS = (
    Row(
        figure="exchange", number="cpu_us", label="µs CPU per 1.5 kB exchange",
        against=GATEWAYS, goals=(_times(2.5), _LITELLM),
    ),
    _in_kernel("exchange", "an exchange"),
    Row(figure="exchange", number="per_s", label="exchanges/s on one core", against=GATEWAYS),
    Row(
        figure="added", number="p99_us", label="µs to the last byte p99, one at a time",
        against=("direct",), how="+",
    ),
    Row(
        figure="added", number="stream_p99_us", label="µs to a stream's first byte p99, alike",
        against=("direct",), how="+",
    ),
    Row(
        figure="large", number="cpu_us", label="µs CPU per 100 kB request",
        against=GATEWAYS, goals=(_times(2),),
    ),
    _in_kernel("large", "a 100 kB request"),
    Row(
        figure="chunk", number="cpu_us", label="µs CPU per SSE chunk",
        against=GATEWAYS, goals=(_times(1.3),),
    ),
    Row(
        figure="first_byte", number="p50_ms", label="ms to first byte p50",
        against=("direct",), how="+", goals=(_more(0.25),),
    ),
    Row(
        figure="first_byte", number="p99_ms", label="ms to first byte p99",
        against=("direct",), how="+", goals=(_more(0.6),),
    ),
    Row(figure="instructions", number="exchange", label="instructions of an exchange"),
    Row(
        figure="counts", number="exchange_opcodes", label="opcodes of an exchange",
        goals=(_most(2500, "opcodes"),),
    ),
    Row(
        figure="counts", number="exchange_calls", label="Python calls of an exchange",
        goals=(_most(90, "calls"),),
    ),
    Row(figure="counts", number="chunk_opcodes", label="opcodes of a chunk"),
    Row(figure="counts", number="chunk_calls", label="Python calls of a chunk"),
    Row(figure="counts", number="large_opcodes", label="opcodes of a 100 kB request"),
    Row(figure="counts", number="large_calls", label="Python calls of a 100 kB request"),
    *_streams("streams", "1,000"),
    *_streams("streams_5000", "5,000"),
    *_streams("streams_9000", "9,000"),
    Row(
        figure="connections", number="served_per_s", label="new connections/s served, of 5,000",
        against=("nginx",),
    ),
    Row(figure="connections", number="not_served_percent", label="% of new connections not served"),
    Row(figure="connections", number="after_ms", label="ms for a request right after"),
    Row(
        figure="paced", number="most_per_s", against=("nginx",),
        label=f"new connections/s with first byte p99 ≤ {PROMPT_MS:g} ms",
    ),
    *(
        Row(
            figure="paced", number=f"p99_ms_at_{rate}",
            label=f"ms to first byte p99 at {rate:,} new connections/s",
            against=("nginx",), goals=(_times(5), *_PROMPT.get(rate, ())),
        )
        for rate in PACES
    ),
    Row(figure="imports", number="package_ms", label="ms import truezero"),
    Row(figure="imports", number="client_ms", label="ms from truezero import Client"),
    Row(figure="imports", number="service_ms", label="ms import of the service"),
    Row(
        figure="cold_start", number="s", label="s from cold start to first byte",
        goals=(_most(0.3, "s"),),
    ),
    Row(figure="hour", number="exchanges", label="exchanges of an hour, in one go"),
    Row(figure="hour", number="tenth_mb", label="MB after a tenth of them"),
    Row(figure="hour", number="end_mb", label="MB after all of them"),
    Row(
        figure="hour", number="growth", label="memory at the end / at a tenth",
        goals=(_most(1.1, "times"),),
    ),
    Row(figure="hour", number="alone_p50_ms", label="ms to first byte p50 after them"),
    Row(figure="hour", number="asked_p50_ms", label="p50 while their batch is read"),
    Row(figure="hour", number="alone_p99_ms", label="ms to first byte p99 after them"),
    Row(figure="hour", number="asked_p99_ms", label="p99 while their batch is read"),
    Row(figure="hour", number="first_question_ms", label="ms for that batch's first summary"),
    Row(figure="hour", number="question_ms", label="ms for its summary or page then"),
    Row(
        figure="verdict_1000000", number="ms", label="ms verdict, 1,000 of 10⁶ calls",
        goals=(_most(10, "ms"),),
    ),
    Row(
        figure="verdict_10000000", number="ms", label="ms verdict, 1,000 of 10⁷ calls",
        goals=(_most(5, "ms"),),
    ),
    Row(
        figure="summary_1000000", number="ms", label="ms summary of 10,000 rollouts",
        goals=(_most(50, "ms"),),
    ),
    Row(
        figure="summary_fifth_failed_1000000", number="ms", label="ms summary, every fifth failed",
        goals=(_most(50, "ms"),),
    ),
)  # fmt: skip


def summary(
    rounds: Sequence[Round], number: str, against: Sequence[str] = (), how: str = "×"
) -> dict[str, object]:
    """Medians of one number for each subject, and of its comparisons inside the rounds."""
    names = {name: None for each in rounds for name in each}
    medians = {name: median_of(rounds, number, name) for name in names}
    compared, compiled = (
        {peer: _median(_compared(r, one, number, peer, how) for r in rounds) for peer in against}
        for one in OURS
    )
    return {"medians": medians, "compared": compared, "compiled": compiled, "how": how}


def median_of(rounds: Sequence[Round], number: str, name: str) -> float | None:
    """Return the median of a subject's number over the rounds that have one."""
    return _median(each.get(name, {}).get(number) for each in rounds)


def beside(
    rounds: Sequence[Round], number: str, one: str, peer: str, how: str = "×"
) -> float | None:
    """Return the median of one subject's comparisons with another inside the rounds."""
    return _median(_compared(each, one, number, peer, how) for each in rounds)


def _compared(measured: Round, one: str, number: str, peer: str, how: str) -> float | None:
    ours = measured.get(one, {}).get(number)
    theirs = measured.get(peer, {}).get(number)
    if ours is None or theirs is None or (how == "×" and theirs <= 0):
        return None
    return ours / theirs if how == "×" else ours - theirs


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def summarised(rounds: Rounds) -> dict[str, dict[str, object]]:
    """Every row that something was measured for, by its key."""
    return {
        row.key: summary(rounds[row.figure], row.number, row.against, row.how)
        for row in ROWS
        if any(
            row.number in numbers
            for each in rounds.get(row.figure, ())
            for numbers in each.values()
        )
    }


def value(found: Mapping[str, object], kind: str, name: str) -> float | None:
    """Return one figure of a row; None if unknown.

    ``kind`` is ``medians``, ``compared``, or the comparison of what is ``compiled``.
    """
    known = found[kind]
    assert isinstance(known, Mapping)
    number = known.get(name)
    return None if number is None else float(number)


def told(goal: Goal, found: Mapping[str, object], one: str = "truezero") -> float | None:
    """Return the number of a row that a goal asks for, of truezero or of its compiled copy."""
    if not goal.peer:
        return value(found, "medians", one)
    return value(found, "compared" if one == "truezero" else one, goal.peer)


def reached(goal: Goal, found: Mapping[str, object], one: str = "truezero") -> bool | None:
    """Whether a row's numbers reach a goal; None where what it asks for was not measured."""
    number = told(goal, found, one)
    return None if number is None else number <= goal.most
