"""Scores of the labelled sets: what was made of each answer and each life, beside its label.

``proof.jsonl`` are answers: what was found in each, what kind of call it was, and whether a rollout
that hangs on it keeps its score. ``lives.jsonl`` are rollouts of real agents' habits, with the
verdict. The labels are from docs/concepts/judging.md, not from what the code says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from classifier.evidence import reported_activity
from classifier.records import Exchange
from classifier.verdicts import Health, ProofSource
from tests.labelled import play
from tests.labelled.play import Agent, Life, Played, answered_by
from tests.situations.requests import WIRES


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One labelled life.

    ``judged`` are the positions of the calls whose ``state`` and ``kind`` are labelled; either is
    empty where it is not. ``decided`` and they hold every answer that the design leaves open.
    ``proof`` are the positions of the calls in which output was read, where they are labelled.
    """

    id: str
    family: str
    calls: tuple[Played, ...]
    decided: tuple[str, ...]
    judged: tuple[int, ...] = ()
    state: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    registered: Mapping[str, Any] | None = None
    outcome: Mapping[str, Any] | None = None
    warning: str | None = None
    proof: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One case beside what was made of it, as short texts."""

    case: Case
    state: tuple[str, ...]
    kind: tuple[str, ...]
    decided: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def state_right(self) -> bool:
        return not self.case.state or all(each in self.case.state for each in self.state)

    @property
    def kind_right(self) -> bool:
        return not self.case.kind or all(each in self.case.kind for each in self.kind)

    @property
    def decided_right(self) -> bool:
        warned = self.case.warning is None or self.case.warning in self.warnings
        return warned and not set(self.case.decided).isdisjoint(self.decided)

    @property
    def right(self) -> bool:
        return self.state_right and self.kind_right and self.decided_right

    @property
    def miss(self) -> str:
        """The line of a report: what was expected, and what came."""
        case = self.case
        wanted, got = [], []
        for right, label, found in (
            (self.state_right, case.state, self.state),
            (self.kind_right, case.kind, self.kind),
            (self.decided_right, (*case.decided, *filter(None, (case.warning,))), self.decided),
        ):
            if not right:
                wanted.append("|".join(label))
                got.append("|".join(dict.fromkeys(found)))
        return f"MISS  {case.id}: {', '.join(wanted)}; got {', '.join(got)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The judgements of one set."""

    judgements: tuple[Judgement, ...]

    @property
    def right(self) -> float:
        """The share of cases that are right in every respect, in percent."""
        return _percent(each.right for each in self.judgements)

    @property
    def decided(self) -> float:
        """The share of cases whose verdict is right, in percent."""
        return _percent(each.decided_right for each in self.judgements)

    @property
    def misses(self) -> tuple[str, ...]:
        return tuple(each.miss for each in self.judgements if not each.right)

    @property
    def healthy_misread(self) -> tuple[str, ...]:
        """Healthy answers and lives whose score was taken away."""
        wrong = [j for j in self.judgements if j.case.decided == ("yes",) and not j.decided_right]
        return tuple(each.miss for each in wrong)

    def report(self, name: str) -> str:
        families: Counter[str] = Counter()
        rights: Counter[str] = Counter()
        for each in self.judgements:
            families[each.case.family] += 1
            rights[each.case.family] += each.right
        return "\n".join(
            (
                name,
                f"cases      {len(self.judgements)}",
                f"right      {self.right:.1f} %",
                f"  verdict  {self.decided:.1f} %",
                f"  state    {_percent(each.state_right for each in self.judgements):.1f} %",
                f"  kind     {_percent(each.kind_right for each in self.judgements):.1f} %",
                *(f"  {name:<22} {rights[name]} of {families[name]}" for name in families),
                f"healthy misread  {len(self.healthy_misread)}",
                *self.misses,
                "",
                "",
            )
        )


def _percent(rights: Iterable[bool]) -> float:
    found = list(rights)
    return 100 * sum(found) / len(found)


def score(cases: Iterable[Case]) -> Tally:
    return Tally(judgements=tuple(_judged(case) for case in cases))


def _judged(case: Case) -> Judgement:
    life = play.play(case.calls, outcome=case.outcome, registered=case.registered)
    looked = [life.exchanges[at] for at in case.judged]
    return Judgement(
        case=case,
        state=tuple(_state(x) for x in looked),
        kind=tuple(x.kind.value for x in looked),
        decided=_decided(life, case),
        warnings=life.verdict.warnings,
    )


def _state(exchange: Exchange) -> str:
    if exchange.cause is not None:
        return "failure"
    return "none" if exchange.answer_state is None else exchange.answer_state.value


def _decided(life: Life, case: Case) -> tuple[str, ...]:
    """Every name that a label may have for a verdict, the plainest first.

    ``yes``: the score is kept, on a proof where one is due. ``no proof``: it is not, and no
    failure is named. ``unknown``: healthy, yet nobody knows. ``not yes``: any of those and of the
    failures. A failure is its subcategory, a rule its name.
    """
    verdict = life.verdict
    names = []
    if verdict.scoreable == "yes":
        names.append("yes" if _proven(life, case) else "yes on a wrong proof")
    else:
        names.append("not yes")
        if verdict.health is Health.HEALTHY:
            names.insert(0, "unknown")
        elif verdict.health is Health.API_ERROR and verdict.subcategory is not None:
            names.insert(0, verdict.subcategory.value)
        else:
            names.insert(0, "no proof")
    return (*names, verdict.rule, verdict.health.value)


def _proven(life: Life, case: Case) -> bool:
    """Whether a verdict names the first and the last answer with output, or needs to name none."""
    proof = life.verdict.proof
    if proof is None:
        return life.record.usage_channel == "none"
    if proof.source is ProofSource.REPORTED:
        return proof.first is proof.last is None and reported_activity(life.record.outcome)
    exchanges = {x.id: x for x in life.exchanges}
    if case.proof:
        first, last = life.exchanges[case.proof[0]].id, life.exchanges[case.proof[-1]].id
        return (proof.first, proof.last) == (first, last)
    named = [exchanges.get(each or "") for each in (proof.first, proof.last)]
    return all(x is not None and (_state(x) == "read" or x.output_seen) for x in named)


# --- answers -------------------------------------------------------------------------------


@cache
def proof(each: int = 1) -> tuple[Case, ...]:
    """Expand ``proof.jsonl`` into cases, one for each wire and place; one of so many of them."""
    every = list(play.rows("proof.jsonl"))
    by_id = {row["id"]: row for row in every}
    written = [
        (row, wire, place, decided)
        for row in every
        for wire in row.get("wires", ("chat",))
        for place, decided in row["places"].items()
    ]
    return tuple(_answer_case(*one, by_id) for one in written[::each])


def _answer_case(
    row: Mapping[str, Any],
    wire: str,
    place: str,
    decided: str | list[str],
    by_id: Mapping[str, Mapping[str, Any]],
) -> Case:
    agent = Agent(wire=wire)

    def looked() -> Played:
        if place == "stream":
            return _broken_off(agent.call("tool", ("sse",)), row)
        return answered_by(row, agent.call("tool", ()), turn=agent.turn)

    def well() -> Played:
        first = by_id.get(row.get("after", row["id"])) if "path" in row else None
        asked = agent.call("tool", ())
        return asked if first is None else answered_by(first, asked, turn=agent.turn)

    sequence = {
        "alone": "x", "stream": "x", "twice": "xx", "end": "wwx", "end2": "wxx", "midway": "wxw",
        "beside": "tsx",
    }[place]  # fmt: skip
    makers: dict[str, Callable[[], Played]] = {
        "x": looked,
        "w": well,
        "t": lambda: agent.call("tool", ()),
        "s": lambda: agent.call("say", ()),
    }
    calls = tuple([makers[each]() for each in sequence])
    state = "failure" if place == "stream" else row.get("state", ())
    return Case(
        id="/".join((row["id"], *((wire,) if "wires" in row else ()), place)),
        family=row["family"],
        calls=calls,
        judged=tuple(at for at, each in enumerate(sequence) if each == "x"),
        state=_any_of(state),
        kind=_any_of(row["kind"]),
        decided=_any_of(decided),
        registered=row.get("registered"),
        proof=tuple(at for at, each in enumerate(sequence) if each != "x" or state == "read"),
    )


def _broken_off(asked: Played, row: Mapping[str, Any]) -> Played:
    """Return a stream that began well and then holds the row's body as an event."""
    begun = asked.body[:2]
    return replace(asked, body=(*begun, play.event(row["body"])))


def _any_of(label: str | Sequence[str]) -> tuple[str, ...]:
    return (label,) if isinstance(label, str) else tuple(label)


# --- lives ---------------------------------------------------------------------------------


@cache
def lives(each: int = 1) -> tuple[Case, ...]:
    """Expand ``lives.jsonl`` into cases, one for each wire; one of so many of them."""
    written = [(row, wire) for row in play.rows("lives.jsonl") for wire in row["wires"]]
    return tuple(_life_case(*one) for one in written[::each])


def _life_case(row: Mapping[str, Any], wire: str) -> Case:
    agent = Agent(wire=wire)
    return Case(
        id=f"{row['id']}/{wire}",
        family=row["family"],
        calls=tuple(agent.calls(row["calls"].replace("$model", agent.model()))),
        decided=_any_of(row["decided"]),
        registered=_named(row.get("registered"), wire),
        outcome=row.get("outcome"),
        warning=row.get("warning"),
    )


def _named(registered: Mapping[str, Any] | None, wire: str) -> Mapping[str, Any] | None:
    """Fill ``$model`` and ``$upstream`` of a registration in for the wire."""
    if registered is None:
        return None
    own = {"$model": WIRES[wire].model, "$upstream": WIRES[wire].upstream}
    return {
        name: own.get(value, value) if isinstance(value, str) else value
        for name, value in registered.items()
    }


SETS: Mapping[str, Callable[..., tuple[Case, ...]]] = {"proof": proof, "lives": lives}
