"""Tricks by listings, judges, breakers, bursts, closes and usage that is hidden."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.arena import world
from tests.arena.arena import PATIENCE_S, Agent, Arena, closing
from tests.arena.dialects import Dialect, Question, answered
from tests.arena.world import Behaviour, Failure, Played, page, problem
from tests.attack.tricks import (
    POLICIES,
    Alone,
    alone,
    assert_counted,
    assert_excused,
    end_on_a_zero,
    trick,
)
from tests.fakes.provider import Step, Wait
from tests.fakes.talker import RESPONSES, create
from tests.waiting import until


def _marked(question: Question) -> bool:
    """The agent asks for what its account has not."""
    return "store" in question.body


# --- listings ------------------------------------------------------------------------------


def _listing(target: str, fail: Failure) -> Callable[[Arena], None]:
    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        stage.world.behaves(model, world.when(_marked, fail))
        agent = stage.agent(house, model, batch=model)
        assert agent.ask() == 200
        # A listing of a lane's own words: the world fails it as it fails the agent's question.
        stage.world.fails_listing(target, fail)
        for _ in range(2):
            agent.send("GET", f"/v1/models{target}")
            agent.ask(store=True)
        agent.send("GET", f"/v1/models{target}")
        end_on_a_zero(agent)

    return attempt


_NO_QUOTA = problem(429, "You exceeded your current quota.", chat="insufficient_quota")
for _name, _target, _fail in (
    ("503", "?limit=-1", problem(503, "The service is overloaded.")),
    ("a gateway's 502", "?limit=-1", page(502, "Bad Gateway")),
    ("401", "?project=none", problem(401, "You have no access to this project.")),
    ("429, no quota", "?all", _NO_QUOTA),
    ("500", "/%00", problem(500, "Internal Server Error")),
):
    trick("listings", f"its own failing GET /models beside a failing request, {_name}",
          "a listing is no witness: the reference is, and it is answered",
          )(_listing(_target, _fail))  # fmt: skip


# --- judges --------------------------------------------------------------------------------

JUDGES = "judges"
_POISON = "~poison~"


def _poisoned(stage: Arena, behaviour: Behaviour) -> Agent:
    """An agent whose work fails its judge, and is judged all the same."""
    house, model = stage.lane()
    _, judge = stage.lane("judge")
    agent = stage.agent(house, model, batch=model, roles=["judge"])
    assert agent.ask() == 200
    assert agent.ask(model=judge, role="judge", text="Is it well written?", tools=False) == 200
    stage.world.behaves(judge, behaviour)
    for number in range(2):
        text = f"Grade this, {number}: {_POISON}"
        agent.ask(model=judge, role="judge", text=text, tools=False)
    return agent


for _name, _fail in (
    ("500", problem(500, "The server had an error while processing your request.")),
    ("503", problem(503, "The model is overloaded. Please try again later.")),
    ("a gateway's 504", page(504, "Gateway Time-out")),
    ("an answer that is cut", world.cut),
    ("an empty 200", world.empty),
    ("a content filter", problem(400, "The response was filtered due to the prompt triggering our "
                                 "content management policy.", chat="content_filter")),
    ("too long a context", problem(400, "This model's maximum context length is 8192 tokens.",
                                   chat="context_length_exceeded")),
    ("403", problem(403, "You are not allowed to do this.")),
):  # fmt: skip

    @trick(JUDGES, f"words that fail its judge, {_name}",
           "the judge's lane answers a plain question: what the agent wrote failed it")  # fmt: skip
    def _judge(stage: Arena, fail: Failure = _fail) -> None:
        end_on_a_zero(_poisoned(stage, world.when(lambda question: _POISON in question.text, fail)))


@trick(JUDGES, "nothing: its judge is down for whoever asks", "such a zero does not count")
def _honest_judge(stage: Arena) -> None:
    agent = _poisoned(stage, problem(503, "The model is overloaded."))
    agent.end()
    verdict = agent.verdict()
    assert verdict["scoreable"] in ("no", "unknown"), verdict["validity"]


# --- collusion on breakers -----------------------------------------------------------------

BREAKERS = "collusion on breakers"
_FIVE = 5
_SHUT = "a breaker asks once before it opens, and is answered"


def _colluding(
    stage: Arena, policy: Mapping[str, object], failing: Callable[[Agent], object], fail: Failure
) -> Agent:
    """Have five rollouts fail by themselves; the last of them."""
    house, model = stage.lane()
    stage.world.behaves(model, world.when(_marked, fail))
    for _ in range(_FIVE + 1):
        agent = stage.agent(house, model, policy=policy, batch=model)
        assert agent.ask() == 200
        for _ in range(2):
            failing(agent)
        agent.end()
    return agent


def _assert_admitted(last: Agent) -> None:
    given = last.house.register(batch=last.model, model=last.model, upstream=last.upstream)
    assert given["admitted"], given["error"]


for _name, _fail in (
    ("403", problem(403, "You are not allowed to use this feature.")),
    ("401", problem(401, "You do not have permission to use this prompt in this project.")),
    ("402", problem(402, "Insufficient balance")),
    ("404", problem(404, "The model does not exist or you do not have access to it.")),
    ("429, no quota", _NO_QUOTA),
):
    for _policy in POLICIES:

        @trick(BREAKERS, f"five rollouts' own failures, {_name}, {_policy}", _SHUT)
        def _collusion(stage: Arena, policy: str = _policy, fail: Failure = _fail) -> None:
            last = _colluding(stage, POLICIES[policy], lambda agent: agent.ask(store=True), fail)
            _assert_admitted(last)
            if policy == "untrusted":
                assert_counted(last)


@trick(BREAKERS, "five rollouts' dated names, trusted", _SHUT)
def _dated_names(stage: Arena) -> None:
    dated = _colluding(
        stage, POLICIES["trusted"], lambda agent: agent.ask(model=f"{agent.model}-2031-01-01"),
        world.empty,
    )  # fmt: skip
    _assert_admitted(dated)


for _policy in POLICIES:

    @trick(BREAKERS, f"nothing: the key is dead, {_policy}",
           "the reference fails alike, and the batch is stopped")  # fmt: skip
    def _dead_key(stage: Arena, policy: str = _policy) -> None:
        house, model = stage.lane()
        stage.world.behaves(model, world.down(problem(401, "Your API key has been revoked.")))
        for _ in range(_FIVE + 1):
            agent = stage.agent(house, model, policy=POLICIES[policy], batch=model)
            for _ in range(2):
                agent.ask()
            agent.end()

        def stopped() -> bool:
            given = house.register(batch=model, model=model, upstream=agent.upstream)
            return not given["admitted"]

        until(stopped, within_s=300)


# --- bursts and their victims --------------------------------------------------------------

BURSTS = "victims of bursts"
_LIMITED = problem(429, "Rate limit reached for requests per minute.")
_BURST = "it started 20 calls in ten seconds itself"


for _dialect in Dialect:
    for _name, _whom in (
        ("everybody", lambda _: True),
        ("large requests", lambda asked: asked.tools),
    ):

        @trick(BURSTS, f"24 calls, and a limit that meets {_name}, {_dialect.name.lower()}",
               f"{_BURST}; the victim of it is excused")  # fmt: skip
        def _burst(
            stage: Arena,
            dialect: Dialect = _dialect,
            whom: Callable[[Question], bool] = _whom,
        ) -> None:
            house, model = stage.lane()
            culprit, victim = (
                stage.agent(house, model, dialect=dialect, batch=model) for _ in range(2)
            )
            assert victim.ask() == 200
            with ThreadPoolExecutor(6) as threads:
                assert {*threads.map(lambda _: culprit.ask(), range(24))} == {200}
            stage.world.behaves(model, world.when(whom, _LIMITED))
            assert (culprit.ask(), victim.ask()) == (429, 429)
            end_on_a_zero(culprit)
            victim.end()
            assert_excused(victim)


@trick(BURSTS, "twelve calls held open, and a limit",
       "it holds over half of the lane's open calls, and more than ten")  # fmt: skip
def _held_open(stage: Arena) -> None:
    house, model = stage.lane()
    numbers = iter(range(1, 100))
    held, limited, released, ended = (threading.Event() for _ in range(4))

    def behave(question: Question) -> Played | None:
        if not question.tools:
            return None
        number = next(numbers)
        if number == 12:
            held.set()
        if number <= 12:
            return (Wait(released), *_steps(answered(question)))
        limited.set()
        return (Wait(ended), *_steps(_LIMITED(question)))

    stage.world.behaves(model, behave)
    agent = stage.agent(house, model, batch=model)
    with ThreadPoolExecutor(13) as threads:
        asked = [threads.submit(agent.ask) for _ in range(12)]
        assert held.wait(PATIENCE_S)
        last = threads.submit(agent.ask)
        assert limited.wait(PATIENCE_S)
        released.set()
        assert {each.result() for each in asked} == {200}
        ended.set()
        assert last.result() == 429
    end_on_a_zero(agent)


def _steps(played: Played) -> Sequence[Step]:
    return played if isinstance(played, tuple) else tuple(played.steps("POST"))


alone(BURSTS, "the provider's message says so", (
    Alone("one request that is over the limit by itself",
          problem(429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested "
                  "41000. The input or output tokens must be reduced in order to run "
                  "successfully."),
          {"text": "a" * 9_000}),
))  # fmt: skip


# --- closes --------------------------------------------------------------------------------

CLOSES = "closes"
_CLOSED = "a close answers what the agent sent"


def _closed(stage: Arena, policy: str, code: int) -> Agent:
    """Be answered over a WebSocket, and be closed on the second message."""
    house, model = stage.lane()
    agent = stage.agent(house, model, policy=POLICIES[policy], upstream="xai", batch=model)
    url = f"{agent.base}/xai/v1/responses".replace("http", "ws", 1)
    with connect(url, proxy=None, close_timeout=1) as socket:
        socket.send(create(model))
        for _ in RESPONSES:
            socket.recv(PATIENCE_S)
        socket.send(closing(model, code))
        try:
            while True:
                socket.recv(PATIENCE_S)
        except ConnectionClosed as closed:
            assert closed.rcvd is not None
            assert closed.rcvd.code == code, closed

    until(lambda: len(_messages(agent)) == 2)
    return agent


def _messages(agent: Agent) -> list[dict[str, Any]]:
    """The calls over a WebSocket that have ended, without its upgrade."""
    calls = (call for call in agent.exchanges() if call["method"] == "WEBSOCKET")
    return [call for call in calls if call["ending"]]


for _code in (1003, 1007, 1008, 1009):
    for _policy in POLICIES:

        @trick(CLOSES, f"a message that is closed on by {_code}, {_policy}", _CLOSED)
        def _closing(stage: Arena, policy: str = _policy, code: int = _code) -> None:
            agent = _closed(stage, policy, code)
            last = _messages(agent)[-1]
            assert last["subcategory"] == "rejected_request", last["subcategory"]
            if policy == "untrusted" or code == 1009:
                end_on_a_zero(agent)
                return
            agent.end()
            verdict = agent.verdict()
            assert verdict["health"] == "healthy", verdict["rule"]
            assert not verdict["retry"]["eligible"], verdict["retry"]


# --- hidden usage --------------------------------------------------------------------------

for _how, _fetches in (("never fetched", 0), ("left while it is in progress", 1)):

    @trick(
        "hidden usage", f"a background response that is {_how}", "its usage is unknown, not zero"
    )
    def _in_background(stage: Arena, fetches: int = _fetches) -> None:
        house, model = stage.lane()
        agent = stage.agent(house, model, batch=model)
        assert agent.ask() == 200
        asked = {"model": model, "input": "Repair it.", "background": True, "store": True}
        assert agent.send("POST", "/v1/responses", json.dumps(asked).encode()) == 200
        for _ in range(fetches):
            agent.send("GET", f"/v1/responses/resp_{model}")
        agent.end()
        verdict = agent.verdict()
        assert "usage_missing" in verdict["warnings"], verdict["warnings"]
        assert verdict["total_tokens"] is None, verdict["total_tokens"]
        if not fetches:
            end_on_a_zero(agent)


# --- steps ---------------------------------------------------------------------------------


@trick("steps", "running out of steps where that is excluded",
       "exclude does not hold for untrusted agents")  # fmt: skip
def _out_of_steps(stage: Arena) -> None:
    house, model = stage.lane()
    policy = {"agents": "untrusted", "max_steps": "exclude"}
    agent = stage.agent(house, model, policy=policy, batch=model)
    assert agent.ask() == 200
    agent.end(termination_reason="max_steps")
    assert_counted(agent)
