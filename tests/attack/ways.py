"""Tricks by a way of its own: a mount, tier, beta or name that fails while the usual one answers.

The agent uses it from its first call on, so that nothing about it changes when it begins to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.arena import world
from tests.arena.arena import Agent, Arena
from tests.arena.dialects import Dialect
from tests.arena.world import Failure, page, problem
from tests.attack.tricks import Alone, alone, assert_excused, end_on_a_zero, trick

LED_ASTRAY = "the question is led astray"
FILTERS = "filters"
_DOWN = problem(503, "The model is overloaded. Please try again later.")
_TIMED_OUT = page(504, "Gateway Time-out")
_LIMIT = problem(429, "Rate limit reached: the ramp rate of this tier was exceeded.")
_MOUNT: dict[str, Any] = {"mount": "/beta"}
_CHAT, _MESSAGES = Dialect.CHAT, Dialect.MESSAGES
_CHOSEN: tuple[tuple[str, Failure, Mapping[str, Any], Dialect], ...] = (
    ("service_tier priority, 429", _LIMIT, {"service_tier": "priority"}, _CHAT),
    ("service_tier flex, 503", _DOWN, {"service_tier": "flex"}, _CHAT),
    ("service_tier flex, 402", problem(402, "Insufficient balance"), {"service_tier": "flex"},
     _CHAT),
    ("Anthropic's speed fast, 529", problem(529, "Overloaded"), {"speed": "fast"}, _MESSAGES),
    ("Anthropic's inference_geo, 429", _LIMIT, {"inference_geo": "us"}, _MESSAGES),
    ("a beta, 500", problem(500, "Internal server error"),
     {"headers": {"anthropic-beta": "a-2031-01-01"}}, _MESSAGES),
    ("OpenRouter's provider.only, 503", _DOWN, {"provider": {"only": ["p"]}}, _CHAT),
    ("a gateway's route, 502", page(502, "Bad Gateway"), {"headers": {"x-portkey-config": "pc-1"}},
     _CHAT),
    ("reasoning_effort, 504", _TIMED_OUT, {"reasoning_effort": "high"}, _CHAT),
    ("a mount of a beta, 503", _DOWN, _MOUNT, _CHAT),
    ("a mount whose plain questions alone fail, 504", _TIMED_OUT, _MOUNT, _CHAT),
)  # fmt: skip
alone(
    "a way of its own from the first call on",
    "the usual way answers, and nobody else asks by this one",
    (
        Alone(f"{how}, {where}", fail, asked, calls, dialect=dialect, usual=True, beside=beside)
        for how, fail, asked, dialect in _CHOSEN
        for where, calls, beside in (
            ("beside another rollout", 2, True), ("alone in its batch", 1, False)
        )
    ),
)  # fmt: skip


# --- names and APIs ------------------------------------------------------------------------

alone(LED_ASTRAY, "the registered name answers", (
    Alone(how, fail, calls=1, named=named, usual=True)
    for how, fail, named in (
        ("the free route from its first call on, its daily limit, 429",
         problem(429, "Rate limit reached: free models are limited to 50 requests per day."),
         "{}:free"),
        ("the free route from its first call on, no provider, 503", _DOWN, "{}:free"),
        ("the free route from its first call on, not served any more, 404", world.not_served,
         "{}:free"),
        ("a dated name that answers once, then 404", world.not_served, "{}-2031-01-01"),
    )
))  # fmt: skip

_tools = world.when(lambda question: question.tools, _TIMED_OUT)


@trick(LED_ASTRAY, "the registered name is served as vendor/NAME alone, its own 504",
       "the name that answered is asked where the registered one is not found")  # fmt: skip
def _vendor(stage: Arena) -> None:
    house, model = stage.lane(serve=False)
    served = f"vendor/{model}"
    stage.world.serve(served)
    agent = stage.agent(house, model, batch=model)
    assert agent.ask(model=served) == 200
    stage.world.behaves(served, _tools)
    assert agent.ask(model=served) == 504
    end_on_a_zero(agent)


def _between(calls: Callable[[Agent], object]) -> Callable[[Arena], None]:
    """Make other calls between an answer and a failure of the agent's own."""

    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        agent = stage.agent(house, model, batch=model)
        assert agent.ask() == 200
        stage.world.behaves(model, _tools)
        calls(agent)
        assert agent.ask() == 504
        end_on_a_zero(agent)

    return attempt


for _how, _why, _calls in (
    ("2,100 free listings before its own 504", "a lane is looked up, not the last calls",
     lambda agent: [agent.send("GET", "/v1/models") for _ in range(2_100)]),
    ("a call without a plain question beside its own 504", "the plain form answers",
     lambda agent: agent.send("POST", "/generate", b'{"inputs": "a"}')),
):  # fmt: skip
    trick(LED_ASTRAY, _how, _why)(_between(_calls))

# --- filters and others --------------------------------------------------------------------

_FILTERED = problem(400, "The response was filtered due to the prompt triggering our content "
                    "management policy.", chat="content_filter")  # fmt: skip
alone(FILTERS, "a plain question is not filtered", (
    Alone("a prompt that is filtered, after an answer", _FILTERED, {"text": "~poison~"}, 1),
    Alone("a prompt that is filtered, and nothing else", _FILTERED, {"text": "~poison~"},
          first=True),
))  # fmt: skip


@trick("another rollout's result", "the usual mount is down, and it is answered at another one",
       "a victim's question goes by the victim's own way")  # fmt: skip
def _victim(stage: Arena) -> None:
    house, model = stage.lane()
    victim, attacker = (stage.agent(house, model, batch=model) for _ in range(2))
    assert (victim.ask(), attacker.ask(**_MOUNT)) == (200, 200)
    usual = world.when(lambda question: question.path.startswith("/v1/"), _DOWN)
    stage.world.behaves(model, usual)
    assert [victim.ask(), attacker.ask(**_MOUNT), victim.ask()] == [503, 200, 503]
    victim.end()
    assert_excused(victim)
    end_on_a_zero(attacker)
