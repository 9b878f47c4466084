"""Tricks by a way of its own: a mount, tier, beta or name that fails while the usual one answers.

The agent uses it from its first call on, so that nothing about it changes when it begins to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.arena import world
from tests.arena.arena import Arena
from tests.arena.dialects import Dialect, Question
from tests.arena.world import Failure, page, problem
from tests.attack.tricks import TRICKS, Trick, assert_excused, end_on_a_zero, trick

WAYS = "a way of its own from the first call on"
LED_ASTRAY = "the question is led astray"
FILTERS = "filters"
MOVED = "another rollout's result"
_USUAL = "the usual way answers, and nobody else asks by this one"


def _field(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.body


def _header(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.headers


_DOWN = problem(503, "The model is overloaded. Please try again later.")
_TIMED_OUT = page(504, "Gateway Time-out")
_LIMIT = problem(429, "Rate limit reached: the ramp rate of this tier was exceeded.")
_DAILY = problem(429, "Rate limit reached: free models are limited to 50 requests per day.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A way: ``asked`` is what each call of the agent has, ``strikes`` what such a call is."""

    how: str
    asked: Mapping[str, Any]
    strikes: Callable[[Question], bool]
    fail: Failure
    dialect: Dialect = Dialect.CHAT


_CHOSEN: tuple[Chosen, ...] = (
    Chosen(how="service_tier priority, 429", asked={"service_tier": "priority"},
           strikes=_field("service_tier"), fail=_LIMIT),
    Chosen(how="service_tier flex, 503", asked={"service_tier": "flex"},
           strikes=_field("service_tier"), fail=_DOWN),
    Chosen(how="service_tier flex, 402", asked={"service_tier": "flex"},
           strikes=_field("service_tier"), fail=problem(402, "Insufficient balance")),
    Chosen(how="Anthropic's speed fast, 529", asked={"speed": "fast"}, dialect=Dialect.MESSAGES,
           strikes=_field("speed"), fail=problem(529, "Overloaded")),
    Chosen(how="Anthropic's inference_geo, 429", asked={"inference_geo": "us"},
           dialect=Dialect.MESSAGES, strikes=_field("inference_geo"), fail=_LIMIT),
    Chosen(how="a beta, 500", asked={"headers": {"anthropic-beta": "a-2031-01-01"}},
           dialect=Dialect.MESSAGES, strikes=_header("anthropic-beta"),
           fail=problem(500, "Internal server error")),
    Chosen(how="OpenRouter's provider.only, 503", asked={"provider": {"only": ["p"]}},
           strikes=_field("provider"), fail=_DOWN),
    Chosen(how="a gateway's route, 502", asked={"headers": {"x-portkey-config": "pc-1"}},
           strikes=_header("x-portkey-config"), fail=page(502, "Bad Gateway")),
    Chosen(how="reasoning_effort, 504", asked={"reasoning_effort": "high"},
           strikes=_field("reasoning_effort"), fail=_TIMED_OUT),
    Chosen(how="a mount of a beta, 503", asked={"mount": "/beta"},
           strikes=lambda question: question.path.startswith("/beta"), fail=_DOWN),
    Chosen(how="a mount whose plain questions alone fail, 504", asked={"mount": "/beta"},
           strikes=lambda question: question.path.startswith("/beta"), fail=_TIMED_OUT),
)  # fmt: skip


def _by(way: Chosen) -> Callable[[Arena], None]:
    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        agent = stage.agent(house, model, dialect=way.dialect, batch=model)
        other = stage.agent(house, model, dialect=way.dialect, batch=model)
        assert (agent.ask(**way.asked), other.ask()) == (200, 200)
        stage.world.behaves(model, world.when(way.strikes, way.fail))
        for _ in range(2):
            assert agent.ask(**way.asked) >= 400
        end_on_a_zero(agent)

    return attempt


def _alone(way: Chosen) -> Callable[[Arena], None]:
    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        agent = stage.agent(house, model, dialect=way.dialect, batch=model)
        assert agent.ask(**way.asked) == 200
        stage.world.behaves(model, world.when(way.strikes, way.fail))
        assert agent.ask(**way.asked) >= 400
        end_on_a_zero(agent)

    return attempt


TRICKS += [
    Trick(family=WAYS, how=f"{way.how}, {where}", why=_USUAL, attempt=make(way))
    for way in _CHOSEN
    for where, make in (("beside another rollout", _by), ("alone in its batch", _alone))
]


# --- names and APIs ------------------------------------------------------------------------


def _free(fail: Failure) -> Callable[[Arena], None]:
    """Use a route of a registered model that another name has, and meet what that has not."""

    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        stage.world.serve(f"{model}:free")
        agent = stage.agent(house, model, batch=model)
        assert agent.ask(model=f"{model}:free") == 200
        stage.world.behaves(f"{model}:free", fail)
        assert agent.ask(model=f"{model}:free") >= 400
        end_on_a_zero(agent)

    return attempt


for _how, _fail in (
    ("its daily limit, 429", _DAILY),
    ("no provider, 503", _DOWN),
    ("not served any more, 404", world.not_served),
):
    TRICKS.append(Trick(family=LED_ASTRAY, how=f"the free route from its first call on, {_how}",
                        why="the registered name answers", attempt=_free(_fail)))  # fmt: skip


@trick(LED_ASTRAY, "a dated name that answers once, then 404", "the registered name answers")
def _retired(stage: Arena) -> None:
    house, model = stage.lane()
    dated = f"{model}-2031-01-01"
    stage.world.serve(dated)
    agent = stage.agent(house, model, batch=model)
    assert agent.ask(model=dated) == 200
    stage.world.behaves(dated, world.not_served)
    assert agent.ask(model=dated) == 404
    end_on_a_zero(agent)


@trick(LED_ASTRAY, "the registered name is served as vendor/NAME alone, its own 504",
       "the name that answered is asked where the registered one is not found")  # fmt: skip
def _vendor(stage: Arena) -> None:
    house, model = stage.lane(serve=False)
    served = f"vendor/{model}"
    stage.world.serve(served)
    agent = stage.agent(house, model, batch=model)
    assert agent.ask(model=served) == 200
    stage.world.behaves(served, world.when(lambda question: question.tools, _TIMED_OUT))
    assert agent.ask(model=served) == 504
    end_on_a_zero(agent)


@trick(
    LED_ASTRAY, "2,100 free listings before its own 504", "a lane is looked up, not the last calls"
)
def _listings(stage: Arena) -> None:
    house, model = stage.lane()
    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    for _ in range(2_100):
        agent.send("GET", "/v1/models")
    stage.world.behaves(model, world.when(lambda question: question.tools, _TIMED_OUT))
    agent.statuses.clear()
    assert agent.ask() == 504
    end_on_a_zero(agent)


@trick(LED_ASTRAY, "a call without a plain question beside its own 504", "the plain form answers")
def _opaque(stage: Arena) -> None:
    house, model = stage.lane()
    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    stage.world.behaves(model, world.when(lambda question: question.tools, _TIMED_OUT))
    agent.send("POST", "/generate", b'{"inputs": "a"}')
    assert agent.ask() == 504
    end_on_a_zero(agent)


# --- filters and others --------------------------------------------------------------------

_FILTERED = problem(400, "The response was filtered due to the prompt triggering our content "
                    "management policy.", chat="content_filter")  # fmt: skip


@trick(FILTERS, "a prompt that is filtered, after an answer", "a plain question is not filtered")
def _filtered(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, world.when(lambda question: "~poison~" in question.text, _FILTERED))
    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    assert agent.ask(text="~poison~") == 400
    end_on_a_zero(agent)


@trick(FILTERS, "a prompt that is filtered, and nothing else", "a plain question is not filtered")
def _filtered_first(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, world.when(lambda question: "~poison~" in question.text, _FILTERED))
    agent = stage.agent(house, model, batch=model)
    for _ in range(2):
        assert agent.ask(text="~poison~") == 400
    end_on_a_zero(agent)


@trick(MOVED, "the usual mount is down, and it is answered at another one",
       "a victim's question goes by the victim's own way")  # fmt: skip
def _victim(stage: Arena) -> None:
    house, model = stage.lane()
    victim, attacker = (stage.agent(house, model, batch=model) for _ in range(2))
    assert (victim.ask(), attacker.ask(mount="/beta")) == (200, 200)
    usual = world.when(lambda question: question.path.startswith("/v1/"), _DOWN)
    stage.world.behaves(model, usual)
    assert [victim.ask(), attacker.ask(mount="/beta"), victim.ask()] == [503, 200, 503]
    victim.end()
    assert_excused(victim)
    end_on_a_zero(attacker)
