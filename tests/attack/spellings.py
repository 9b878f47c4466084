"""Equal spellings, aliases and features: requests for what is not there, beside what is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.arena import world
from tests.arena.arena import TRUSTED, UNTRUSTED, Arena
from tests.arena.dialects import Dialect, Question, answered
from tests.arena.world import Failure, Played, page, problem
from tests.attack.tricks import TRICKS, Trick, end_on_a_zero, trick

SPELLINGS = "equal spellings"
_EQUAL = "the registered name is asked for, and answers"
_ANEW = "the model was answered by another spelling, and none is registered"
_SPELLED: tuple[tuple[str, Dialect], ...] = (
    ("{}-2031-01-01", Dialect.CHAT),
    ("{}-latest", Dialect.CHAT),
    ("{}:free", Dialect.CHAT),
    ("openai/{}", Dialect.CHAT),
    ("{}@20310101", Dialect.CHAT),
    ("{}-20310101", Dialect.MESSAGES),
    ("{}-2031-01-01", Dialect.GEMINI),
    ("us.anthropic.{}-v1", Dialect.CONVERSE),
)
_POLICIES: Mapping[str, Mapping[str, object]] = {"trusted": TRUSTED, "untrusted": UNTRUSTED}


def _is_bound(policy: str) -> bool:
    """Return True where an agent's model is registered; a trusted one's spelling is no trick."""
    return _POLICIES[policy] is UNTRUSTED


def _spelled(form: str, dialect: Dialect, policy: str) -> Callable[[Arena], None]:
    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        agent = stage.agent(
            house, model, dialect=dialect, policy=_POLICIES[policy], batch=model,
            bound=_is_bound(policy),
        )  # fmt: skip
        assert agent.ask() == 200
        for _ in range(2):
            assert agent.ask(model=form.format(model)) in (400, 404)
        end_on_a_zero(agent)

    return attempt


TRICKS += [
    Trick(
        family=SPELLINGS,
        how=f"{form.format('m')} in {dialect.name.lower()}, {policy}",
        why=_EQUAL if _is_bound(policy) else _ANEW,
        attempt=_spelled(form, dialect, policy),
    )
    for form, dialect in _SPELLED
    for policy in _POLICIES
]


for _policy in _POLICIES:

    def _never_answered(stage: Arena, policy: str = _policy) -> None:
        house, model = stage.lane()
        other, agent = (
            stage.agent(house, model, policy=_POLICIES[policy], batch=model,
                        bound=_is_bound(policy))
            for _ in range(2)
        )  # fmt: skip
        assert other.ask() == 200
        for _ in range(2):
            assert agent.ask(model=f"{model}-2031-01-01") == 404
        end_on_a_zero(agent)

    TRICKS.append(
        Trick(
            family=SPELLINGS,
            how=f"m-2031-01-01 and no other, where m answers the batch, {_policy}",
            why=_EQUAL if _is_bound(_policy) else _ANEW,
            attempt=_never_answered,
        )
    )


# --- aliases -------------------------------------------------------------------------------

ALIASES = "aliases"


def _as(model: str) -> Callable[[Question], Played | None]:
    """Answer an alias in the name of the model behind it, unless it is asked for long answers."""

    def behave(question: Question) -> Played:
        if (question.limit or 0) >= 48_000:
            return page(504, "Gateway Time-out")(question)
        return answered(question, model=model)

    return behave


@trick(ALIASES, "an alias that answers as the model, then a dated one of it, 404",
       "the alias was answered by another spelling, and is not what is registered")  # fmt: skip
def _dated_alias(stage: Arena) -> None:
    house, model = stage.lane()
    _, alias = stage.lane("fast")
    stage.world.behaves(alias, _as(model))
    agent = stage.agent(house, model, batch=model)
    assert (agent.ask(), agent.ask(model=alias)) == (200, 200)
    for _ in range(2):
        assert agent.ask(model=f"{alias}-2031-01-01") == 404
    end_on_a_zero(agent)


@trick(ALIASES, "an alias that answers as the model, then a long answer of it, 504",
       "the name that was answered is asked for, and answers")  # fmt: skip
def _long_alias(stage: Arena) -> None:
    house, model = stage.lane()
    _, alias = stage.lane("fast")
    stage.world.behaves(alias, _as(model))
    agent = stage.agent(house, model, batch=model)
    assert (agent.ask(), agent.ask(model=alias)) == (200, 200)
    assert agent.ask(model=alias, limit=64_000) == 504
    end_on_a_zero(agent)


@trick(ALIASES, "an alias that nobody serves, beside the registered model",
       "it is outside of the binding")  # fmt: skip
def _unknown_alias(stage: Arena) -> None:
    house, model = stage.lane()
    agent = stage.agent(house, model, batch=model)
    assert agent.ask() == 200
    for _ in range(2):
        assert agent.ask(model="fast-nobody") == 404
    end_on_a_zero(agent)


@trick(ALIASES, "an alias that is down, beside the model that answered, where none is registered",
       "it is another lane than the first that was answered")  # fmt: skip
def _dead_alias(stage: Arena) -> None:
    house, model = stage.lane()
    _, alias = stage.lane("fast")
    stage.world.behaves(alias, world.down(problem(503, "The model is overloaded.")))
    agent = stage.agent(house, model, bound=False, batch=model)
    assert agent.ask() == 200
    for _ in range(2):
        assert agent.ask(model=alias) == 503
    end_on_a_zero(agent)


# --- features that the account lacks -------------------------------------------------------

FEATURES = "features that the account lacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What is asked for, and how the account is told that it has it not."""

    how: str
    asked: Mapping[str, Any]
    strikes: Callable[[Question], bool]
    fail: Failure
    dialect: Dialect = Dialect.CHAT


def _with(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.body


def _header(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.headers


def _more(name: str, value: Any) -> tuple[Mapping[str, Any], Callable[[Question], bool]]:
    return {name: value}, _with(name)


def _feature(
    how: str, name: str, value: Any, fail: Failure, dialect: Dialect = Dialect.CHAT
) -> Feature:
    asked, strikes = _more(name, value)
    return Feature(how=how, asked=asked, strikes=strikes, fail=fail, dialect=dialect)


_PICTURE = "data:image/png;base64,iVBOR"
_FEATURES: tuple[Feature, ...] = (
    _feature("a service tier without quota, 429", "service_tier", "priority",
             problem(429, "You exceeded your current quota.", chat="insufficient_quota")),
    _feature("a web search, 403", "web_search_options", {},
             problem(403, "Web search is not enabled for your organization.")),
    Feature(how="a stream, for which an organization is verified, 403", asked={"streams": True},
            strikes=lambda question: question.streams,
            fail=problem(403, "Your organization must be verified to stream this model.")),
    _feature("log probabilities, 403", "logprobs", True,
             problem(403, "You are not allowed to request logprobs from this model.")),
    _feature("audio, 404", "modalities", ["text", "audio"],
             problem(404, "The model does not exist or you do not have access to it.")),
    _feature("a provider that is not there, 404", "provider", {"only": ["nobody"]},
             problem(404, "No allowed providers are available for the selected model.")),
    Feature(how="a picture, 404", asked={"text": _PICTURE},
            strikes=lambda question: _PICTURE in question.text,
            fail=problem(404, "No endpoints found that support image input")),
    Feature(how="an answer for which the credits do not suffice, 402", asked={"limit": 64_000},
            strikes=lambda question: (question.limit or 0) >= 48_000,
            fail=problem(402, "This request requires more credits, or fewer max_tokens. You "
                         "requested up to 64000 tokens, but can only afford 12000.")),
    Feature(how="a request for which the balance does not suffice, 402",
            asked={"text": "a" * 9_000},
            strikes=lambda question: len(question.text) > 8_000,
            fail=problem(402, "Insufficient balance")),
    _feature("stored prompts of another project, 401", "prompt", {"id": "pmpt_1"},
             problem(401, "You do not have permission to use this prompt in this project.")),
    _feature("a bare 400", "store", True, problem(400, "Bad Request")),
    _feature("a bare 403 page", "store", True, page(403, "Forbidden")),
    _feature("a content filter on its prompt, 400", "user", "x",
             problem(400, "The response was filtered due to the prompt triggering our content "
                     "management policy.", chat="content_filter")),
    Feature(how="a long context, 429", dialect=Dialect.MESSAGES,
            asked={"headers": {"anthropic-beta": "context-1m-2025-08-07"}},
            strikes=_header("anthropic-beta"),
            fail=problem(429, "The long context beta is not yet available for this "
                         "subscription.")),
    Feature(how="a beta that the account has not, 403", dialect=Dialect.MESSAGES,
            asked={"headers": {"anthropic-beta": "skills-2025-10-02"}},
            strikes=_header("anthropic-beta"),
            fail=problem(403, "Your account does not have access to this beta.")),
    _feature("a container that is not there, 404", "container", "container_1",
             problem(404, "container: not found"), Dialect.MESSAGES),
    _feature("a cache of another project, 403", "cachedContent", "cachedContents/1",
             problem(403, "CachedContent not found (or permission denied)"), Dialect.GEMINI),
    _feature("grounding without quota, 429", "toolConfig", {"includeServerSideToolInvocations": 1},
             problem(429, "Quota exceeded for metric: grounding requests per day"),
             Dialect.GEMINI),
    _feature("a guardrail of another account, 403", "guardrailConfig",
             {"guardrailIdentifier": "g", "guardrailVersion": "1"},
             problem(403, "You are not authorized to perform: bedrock:ApplyGuardrail"),
             Dialect.CONVERSE),
    _feature("a latency that the region has not, 403", "performanceConfig",
             {"latency": "optimized"},
             problem(403, "You don't have access to the model with the specified latency."),
             Dialect.CONVERSE),
)  # fmt: skip


def _asking(feature: Feature) -> Callable[[Arena], None]:
    def attempt(stage: Arena) -> None:
        house, model = stage.lane()
        stage.world.behaves(model, world.when(feature.strikes, feature.fail))
        agent = stage.agent(house, model, dialect=feature.dialect, batch=model)
        assert agent.ask() == 200
        for _ in range(2):
            assert agent.ask(**feature.asked) >= 400
        end_on_a_zero(agent)

    return attempt


TRICKS += [
    Trick(
        family=FEATURES,
        how=feature.how,
        why="the account answers a plain question",
        attempt=_asking(feature),
    )
    for feature in _FEATURES
]
