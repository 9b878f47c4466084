"""The situations in which an agent meets an honest failure, and what must come out.

No zero is counted: the reward is null, or `scoreable` is unknown where the design says so, and
the failure is called somebody's who had it, or nobody's; never the agent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tests.arena import world
from tests.arena.arena import NEVER_THERE, PATIENCE_S, SILENT_S, Agent, Arena
from tests.arena.dialects import Dialect, Question, answered
from tests.arena.world import Behaviour, Played, page, problem
from tests.fairness.failures import (
    ABORTS,
    AFFORDED,
    FAILURES,
    FILTERS,
    LIMITS,
    NAMING,
    NOT_SERVED,
    ONCE,
    PARTS,
    PROVIDER,
    SELDOM,
    STREAMS,
    WORDLESS,
    Blamed,
    Honest,
)
from tests.fakes.provider import Answer

NO, UNKNOWN = frozenset({"no"}), frozenset({"unknown"})
NOBODYS = Blamed({"unknown"})
LARGE = 6_000  # bytes of a request that a limit on tokens meets


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must come out; ``retried`` None: either is right."""

    scoreable: frozenset[str]
    blamed: Blamed
    retried: bool | None

    def wrong(self, agent: Agent) -> str | None:
        """Say what is wrong with a rollout's verdict or result; None where nothing is."""
        verdict, rewards = agent.verdict(), agent.result()["rewards"]
        scoreable, blamed = verdict["scoreable"], verdict["attributed_to"]
        retried = verdict["retry"]["eligible"]
        found = {
            f"scoreable {scoreable}": scoreable in self.scoreable,
            f"attributed to {blamed}": blamed in self.blamed,
            "retried" if retried else "not retried": self.retried in (None, retried),
            f"rewards {rewards}": scoreable != "no" or rewards is None,
        }
        wrong = ", ".join(name for name, right in found.items() if not right)
        return f"{wrong} ({verdict['rule']}, {', '.join(verdict['warnings'])})" if wrong else None


def proven(failure: Honest) -> Expected:
    """It struck the reference alike: somebody else's, and run again where that helps."""
    return Expected(scoreable=NO, blamed=failure.blamed, retried=failure.transient)


def partly(failure: Honest) -> Expected:
    """It strikes some: nobody can say that this zero was one; run again once.

    Where the first question met it too, it is proven; where only others did, it is nobody's.
    """
    retried = True if failure.transient else None
    blamed = failure.blamed | PROVIDER | NOBODYS
    return Expected(scoreable=NO | UNKNOWN, blamed=blamed, retried=retried)


def without_output(_: Honest) -> Expected:
    """Nobody can say if the model had done its work; nothing proves that it had not."""
    return Expected(scoreable=UNKNOWN, blamed=NOBODYS, retried=None)


def unsettled(_: Honest) -> Expected:
    """No reference can say whose it was."""
    return Expected(scoreable=UNKNOWN, blamed=NOBODYS, retried=True)


def unjudged(_: Honest) -> Expected:
    """Its judge has not judged: the finding takes the reward away, whoever the agent is."""
    return Expected(scoreable=NO, blamed=Blamed({None}), retried=None)


def limited(failure: Honest) -> Expected:
    """A small question passes where a large one does not: that settles no rate limit.

    The provider's own word that nothing was left does.
    """
    if failure.used_up:
        return proven(failure)
    return Expected(scoreable=NO | UNKNOWN, blamed=NOBODYS | PROVIDER, retried=True)


Play = Callable[[Arena, Honest, Dialect], Sequence[Agent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A situation; ``play`` returns the agents whose zeros must not count, before they end.

    ``failures``: those that are met in it. ``dialects``: in how many each of them is.
    """

    name: str
    play: Play
    expected: Callable[[Honest], Expected]
    failures: Sequence[Honest] = FAILURES
    dialects: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One failure in one situation and dialect."""

    situation: Situation
    failure: Honest
    dialect: Dialect

    @property
    def name(self) -> str:
        return f"{self.situation.name} / {self.failure.name} / {self.dialect.name.lower()}"


# --- what agents do ------------------------------------------------------------------------


def _ask(agent: Agent, failure: Honest, *, fails: bool = True, times: int = 1, **more: Any) -> None:
    """Ask as an agent that meets this failure does; one that meets silence gives up."""
    patience_s = SILENT_S if failure.silent and fails else PATIENCE_S
    for _ in range(times):
        status = agent.ask(streams=failure.streams, patience_s=patience_s, **more)
        assert fails or status == 200, f"the lane is not well: {status}"


def _answered(arena: Arena, failure: Honest, dialect: Dialect, *, agents: int = 1) -> list[Agent]:
    """So many agents of one lane, each answered once."""
    house, model = arena.lane()
    upstream = None
    if failure.gone:
        house = arena.houses[0]
        upstream = house.spare()
    there = [
        arena.agent(house, model, dialect=dialect, upstream=upstream, batch=model)
        for _ in range(agents)
    ]
    for agent in there:
        _ask(agent, failure, fails=False)
    return there


def _fails(arena: Arena, agent: Agent, failure: Honest) -> None:
    """Have an agent's lane, or all of its provider, fail from now on."""
    if failure.gone:
        agent.house.spares[agent.upstream].end()
    else:
        arena.world.behaves(agent.model, failure.fail)


def _alone(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    (agent,) = _answered(arena, failure, dialect)
    _fails(arena, agent, failure)
    _ask(agent, failure, times=2)
    return [agent]


def _from_the_first_call(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    house, model = arena.lane()
    upstream = NEVER_THERE if failure.gone else None
    agent = arena.agent(house, model, dialect=dialect, upstream=upstream, batch=model)
    arena.world.behaves(model, failure.fail)
    _ask(agent, failure, times=2)
    return [agent]


def _others_struck(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    agents = _answered(arena, failure, dialect, agents=3)
    _fails(arena, agents[0], failure)
    _all_at_once(agents, failure, times=2)
    return agents


def _all_at_once(agents: Sequence[Agent], failure: Honest, *, times: int = 1) -> None:
    with ThreadPoolExecutor(len(agents)) as threads:
        list(threads.map(lambda agent: _ask(agent, failure, times=times), agents))


def _behaving(
    arena: Arena, failure: Honest, dialect: Dialect, behaviour: Behaviour, *, answers: int
) -> Sequence[Agent]:
    """One agent on a lane that behaves so: it is answered so often, then fails once."""
    house, model = arena.lane()
    agent = arena.agent(house, model, dialect=dialect, batch=model)
    arena.world.behaves(model, behaviour)
    _ask(agent, failure, fails=False, times=answers)
    _ask(agent, failure)
    return [agent]


def _one_replica_of(count: int) -> Play:
    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        behaviour = world.by_turns(failure.fail, of=count)
        return _behaving(arena, failure, dialect, behaviour, answers=count - 1)

    return play


def _blip_met(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    """Be well again after the agent's call and a series that was begun in time."""
    (agent,) = _answered(arena, failure, dialect)
    arena.world.behaves(agent.model, world.blip(failure.fail, questions=2))
    _ask(agent, failure)
    return [agent]


def _blip_missed(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    return _all_struck(arena, failure, dialect, agents=3)


def _weights_updated(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    return _all_struck(arena, failure, dialect, agents=5)


def _all_struck(arena: Arena, failure: Honest, dialect: Dialect, *, agents: int) -> Sequence[Agent]:
    """Strike all that run at once, and be well before anybody can ask again."""
    there = _answered(arena, failure, dialect, agents=agents)
    arena.world.behaves(there[0].model, world.together(failure.fail, calls=agents))
    _all_at_once(there, failure)
    return there


def _answered_before(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    """Answer a request, and fail the very same one; then be well again."""
    (agent,) = _answered(arena, failure, dialect)
    same = "Name the function that counts empty fields."
    _ask(agent, failure, fails=False, text=same)
    arena.world.behaves(agent.model, world.blip(failure.fail, questions=1))
    _ask(agent, failure, text=same)
    return [agent]


def _only_large(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    (agent,) = _answered(arena, failure, dialect)
    large = world.when(lambda question: len(question.text) > LARGE, failure.fail)
    arena.world.behaves(agent.model, large)
    for turn in range(2):
        _ask(agent, failure, text=f"Turn {turn} of {agent.id}. {'It counts on. ' * 600}")
    return [agent]


def _only(agents: int = 1, strikes: Callable[[Question], bool] | None = None, **more: Any) -> Play:
    """Answer what is asked so at first, then fail that and nothing else."""
    struck = strikes or world.asks(**more)

    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        there = _answered(arena, failure, dialect, agents=agents)
        _ask(there[0], failure, fails=False, **more)
        arena.world.behaves(there[0].model, world.when(struck, failure.fail))
        with ThreadPoolExecutor(agents) as threads:
            list(threads.map(lambda agent: _ask(agent, failure, times=2, **more), there))
        return there

    return play


def _beside_another_model(*, bound: bool, first: bool = False) -> Play:
    """Fail one of two models that a batch runs; the other is answered before, between and after."""

    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        house, model = arena.lane()
        _, another = arena.lane()
        arena.world.serve(another)
        agent, other = (
            arena.agent(house, name, dialect=dialect, batch=model, bound=bound, beside=[beside])
            for name, beside in ((model, another), (another, model))
        )
        if not first:
            _ask(agent, failure, fails=False)
        _ask(other, failure, fails=False)
        arena.world.behaves(model, failure.fail)
        for _ in range(2):
            _ask(agent, failure)
            _ask(other, failure, fails=False)
        return [agent]

    return play


def _shared(**asked: Any) -> Play:
    """Fail a way that two of a batch's rollouts ask by; a third asks otherwise and is answered."""

    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        *there, plain = _answered(arena, failure, dialect, agents=3)
        for agent in there:
            _ask(agent, failure, fails=False, **asked)
        arena.world.behaves(plain.model, world.when(world.asks(**asked), failure.fail))
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda agent: _ask(agent, failure, **asked), there))
        _ask(plain, failure, fails=False)
        return there

    return play


def _judge_filtered(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    """Answer the agent, and filter whatever its judge asks."""
    house, model = arena.lane()
    _, judge = arena.lane("judge")
    agent = arena.agent(house, model, dialect=dialect, batch=model, roles=["judge"])
    _ask(agent, failure, fails=False)
    arena.world.behaves(judge, failure.fail)
    _ask(agent, failure, times=2, model=judge, role="judge", tools=False)
    return [agent]


def _tied(count: int) -> Play:
    """So many conversations are tied to a replica that fails, one to another that does not."""

    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        *struck, well = _answered(arena, failure, dialect, agents=count + 1)
        tied = [agent.id for agent in struck]
        fails = world.when(lambda asked: any(name in asked.text for name in tied), failure.fail)
        arena.world.behaves(well.model, fails)
        _all_at_once(struck, failure, times=2)
        _ask(well, failure, fails=False)
        return struck

    return play


def _half_struck(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
    """Fail three of six calls at once, and answer the others."""
    there = _answered(arena, failure, dialect, agents=6)
    struck = there[::2]
    tied = [agent.id for agent in struck]
    at_once = world.together(
        lambda asked: (
            failure.fail(asked) if any(name in asked.text for name in tied) else answered(asked)
        ),
        calls=6,
    )
    arena.world.behaves(there[0].model, at_once)
    _all_at_once(there, failure)
    return struck


def _behind(gateway: Callable[[Question], Played]) -> Play:
    """Be down behind a gateway that answers plain questions by itself."""

    def play(arena: Arena, failure: Honest, dialect: Dialect) -> Sequence[Agent]:
        (agent,) = _answered(arena, failure, dialect)
        arena.world.behaves(
            agent.model,
            lambda question: failure.fail(question) if question.tools else gateway(question),
        )
        _ask(agent, failure, times=2)
        return [agent]

    return play


def _with(*headers: tuple[str, str], model: str | None = None) -> Callable[[Question], Answer]:
    def answer(question: Question) -> Answer:
        return answered(question, model=model).with_headers(*headers)

    return answer


_OUTAGES = tuple(each for each in FAILURES if each.name in ("502, a gateway's page", "529"))
_NAMED = tuple(replace(each, dialects=NAMING) for each in _OUTAGES)
_CHATS = tuple(replace(each, dialects=frozenset({Dialect.CHAT})) for each in _OUTAGES)
_BETAS = tuple(replace(each, dialects=frozenset({Dialect.MESSAGES})) for each in _OUTAGES)

# What answers the question while the provider is down, when, and in how many dialects.
_GATEWAYS: Mapping[str, tuple[Callable[[Question], Played], Sequence[Honest], int]] = {
    "a cache answers the question": (_with(("x-cache", "HIT")), _OUTAGES, 4),
    "an old answer to the question": (_with(("age", "61")), _OUTAGES, 2),
    "Cloudflare's cache answers the question":
        (_with(("cf-aig-cache-status", "HIT")), _OUTAGES, 2),
    "LiteLLM's cache answers the question": (_with(("x-litellm-cache-key", "5f2c")), _OUTAGES, 1),
    "another model answers the question": (_with(model="gpt-4.1-nano"), _NAMED, 2),
    "LiteLLM's fallback answers the question":
        (_with(("x-litellm-attempted-fallbacks", "1")), _OUTAGES, 1),
    "the question is refused":
        (problem(400, "Missing required parameter: 'tools'."), _OUTAGES, 2),
    "the question is not allowed": (page(405, "Method Not Allowed"), _OUTAGES, 1),
    "the question fails otherwise":
        (problem(401, "Your API key has been revoked."), _OUTAGES, 2),
}  # fmt: skip

SITUATIONS: tuple[Situation, ...] = (
    Situation(name="alone", play=_alone, expected=proven, dialects=4),
    Situation(name="from the first call", play=_from_the_first_call, expected=proven),
    Situation(name="others struck", play=_others_struck, expected=proven),
    Situation(name="one replica of two", play=_one_replica_of(2), expected=partly,
              failures=ONCE),
    Situation(name="one replica of three", play=_one_replica_of(3), expected=partly,
              failures=ONCE),
    Situation(name="a blip", play=_blip_met, expected=partly, failures=ONCE),
    Situation(name="a blip that no question meets", play=_blip_missed, expected=partly,
              failures=ONCE),
    Situation(name="answered on another try", play=_answered_before, expected=partly,
              failures=ONCE[::4]),
    Situation(name="a name that is not served", play=_from_the_first_call, expected=proven,
              failures=NOT_SERVED, dialects=2),
    Situation(name="only large requests", play=_only_large, expected=limited,
              failures=LIMITS, dialects=4),
    Situation(name="new weights", play=_weights_updated, expected=partly,
              failures=ABORTS, dialects=2),
    Situation(name="alone, what is seldom seen", play=_alone, expected=proven, failures=SELDOM),
    Situation(name="no output for anybody", play=_alone, expected=without_output,
              failures=WORDLESS, dialects=4),
    Situation(name="no output for anybody, from the first call", play=_from_the_first_call,
              expected=without_output, failures=WORDLESS, dialects=2),
    Situation(name="only streams", play=_only(strikes=lambda asked: asked.streams), expected=proven,
              failures=STREAMS, dialects=3),
    Situation(name="only with tools", play=_only(tools=True), expected=partly, failures=PARTS),
    Situation(name="only with tools, others struck",
              play=_only(3, tools=True), expected=partly, failures=PARTS),
    Situation(name="only what the account cannot afford",
              play=_only(strikes=lambda asked: (asked.limit or 0) > 312, limit=4096),
              expected=partly, failures=AFFORDED),
    Situation(name="a conversation tied to a replica", play=_tied(1), expected=partly,
              failures=PARTS),
    Situation(name="three conversations tied to a replica", play=_tied(3), expected=partly,
              failures=PARTS),
    Situation(name="half of all at once", play=_half_struck, expected=partly, failures=PARTS[:1]),
    Situation(name="another registered model is answered",
              play=_beside_another_model(bound=True), expected=proven, failures=_OUTAGES,
              dialects=2),
    Situation(name="another registered model is answered, from the first call",
              play=_beside_another_model(bound=True, first=True), expected=proven,
              failures=_OUTAGES),
    Situation(name="none is registered, and another model is answered",
              play=_beside_another_model(bound=False), expected=proven, failures=_OUTAGES,
              dialects=2),
    Situation(name="none is registered, and another model is answered, from the first call",
              play=_beside_another_model(bound=False, first=True), expected=proven,
              failures=_OUTAGES),
    Situation(name="one of two mounts", expected=partly, failures=_CHATS,
              play=_shared(mount="/openai")),
    Situation(name="the tier that its batch asks for", expected=partly, failures=_CHATS,
              play=_shared(service_tier="flex")),
    Situation(name="the reasoning that its batch asks for", expected=partly, failures=_CHATS,
              play=_shared(reasoning_effort="high")),
    Situation(name="the beta that its batch sends", expected=partly, failures=_BETAS,
              play=_shared(headers={"anthropic-beta": "a-2031-01-01"})),
    Situation(name="a filter that refuses whoever asks", play=_alone, expected=proven,
              failures=FILTERS),
    Situation(name="a filter that refuses whoever asks, from the first call",
              play=_from_the_first_call, expected=proven, failures=FILTERS),
    Situation(name="a judge's filter that refuses whoever asks", play=_judge_filtered,
              expected=unjudged, failures=FILTERS[:1]),
    *(
        Situation(name=name, play=_behind(gateway), expected=unsettled,
                  failures=outages, dialects=dialects)
        for name, (gateway, outages, dialects) in _GATEWAYS.items()
    ),
)  # fmt: skip


def cells() -> list[Cell]:
    """All that is played: each situation in so many dialects, others for each failure."""
    found = []
    for row, situation in enumerate(SITUATIONS):
        for number, failure in enumerate(situation.failures):
            spoken = [dialect for dialect in Dialect if dialect in failure.dialects]
            for turn in range(min(situation.dialects, len(spoken))):
                dialect = spoken[(row + number + turn) % len(spoken)]
                found.append(Cell(situation=situation, failure=failure, dialect=dialect))
    return found
