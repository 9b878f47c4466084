"""Equal spellings, aliases and features: requests for what is not there, beside what is."""

from __future__ import annotations

from tests.arena import world
from tests.arena.arena import Arena
from tests.arena.dialects import Dialect, Question, answered
from tests.arena.world import Played, page, problem
from tests.attack.tricks import Alone, alone, end_on_a_zero, trick

SPELLINGS = "equal spellings"
_SPELLED: tuple[tuple[str, Dialect], ...] = (
    ("{}-2031-01-01", Dialect.CHAT), ("{}-latest", Dialect.CHAT), ("{}:free", Dialect.CHAT),
    ("openai/{}", Dialect.CHAT), ("{}@20310101", Dialect.CHAT),
    ("{}-20310101", Dialect.MESSAGES), ("{}-2031-01-01", Dialect.GEMINI),
    ("us.anthropic.{}-v1", Dialect.CONVERSE),
)  # fmt: skip
# A trusted agent's spelling of a registered model is no trick.
for _policy, _why in (
    ("trusted", "the model was answered by another spelling, and none is registered"),
    ("untrusted", "the registered name is asked for, and answers"),
):
    _bound = _policy == "untrusted"
    alone(SPELLINGS, _why, (
        Alone(f"{form.format('m')} in {dialect.name.lower()}, {_policy}", dialect=dialect,
              named=form, policy=_policy, bound=_bound)
        for form, dialect in _SPELLED
    ))  # fmt: skip
    alone(SPELLINGS, _why, (
        Alone(f"m-2031-01-01 and no other, where m answers the batch, {_policy}", first=True,
              beside=True, named="{}-2031-01-01", policy=_policy, bound=_bound),
    ))  # fmt: skip


# --- aliases -------------------------------------------------------------------------------

ALIASES = "aliases"


def _alias(stage: Arena, *, long: bool) -> None:
    """Ask for an alias that answers in its model's name, then for what it does not answer."""
    house, model = stage.lane()
    _, alias = stage.lane("fast")

    def behave(question: Question) -> Played:
        if (question.limit or 0) >= world.LONG_ANSWER:
            return page(504, "Gateway Time-out")(question)
        return answered(question, model=model)

    stage.world.behaves(alias, behave)
    agent = stage.agent(house, model, batch=model)
    assert (agent.ask(), agent.ask(model=alias)) == (200, 200)
    if long:
        assert agent.ask(model=alias, limit=64_000) == 504
    else:
        assert {agent.ask(model=f"{alias}-2031-01-01") for _ in range(2)} == {404}
    end_on_a_zero(agent)


@trick(ALIASES, "an alias that answers as the model, then a dated one of it, 404",
       "the alias was answered by another spelling, and is not what is registered")  # fmt: skip
def _dated_alias(stage: Arena) -> None:
    _alias(stage, long=False)


@trick(ALIASES, "an alias that answers as the model, then a long answer of it, 504",
       "the name that was answered is asked for, and answers")  # fmt: skip
def _long_alias(stage: Arena) -> None:
    _alias(stage, long=True)


alone(ALIASES, "it is outside of the binding", (
    Alone("an alias that nobody serves, beside the registered model", named="fast-nobody"),
))  # fmt: skip


@trick(ALIASES, "an alias that is down, beside the model that answered, where none is registered",
       "it is another lane than the first that was answered")  # fmt: skip
def _dead_alias(stage: Arena) -> None:
    house, model = stage.lane()
    _, alias = stage.lane("fast")
    stage.world.behaves(alias, world.down(problem(503, "The model is overloaded.")))
    agent = stage.agent(house, model, bound=False, batch=model)
    assert agent.ask() == 200
    assert [agent.ask(model=alias) for _ in range(2)] == [503, 503]
    end_on_a_zero(agent)


# --- features that the account lacks -------------------------------------------------------

_STORE = {"store": True}
_BETA = "anthropic-beta"
_MESSAGES, _GEMINI, _CONVERSE = Dialect.MESSAGES, Dialect.GEMINI, Dialect.CONVERSE
alone("features that the account lacks", "the account answers a plain question", (
    Alone("a service tier without quota, 429",
          problem(429, "You exceeded your current quota.", chat="insufficient_quota"),
          {"service_tier": "priority"}),
    Alone("a web search, 403", problem(403, "Web search is not enabled for your organization."),
          {"web_search_options": {}}),
    Alone("a stream, for which an organization is verified, 403",
          problem(403, "Your organization must be verified to stream this model."),
          {"streams": True}),
    Alone("log probabilities, 403",
          problem(403, "You are not allowed to request logprobs from this model."),
          {"logprobs": True}),
    Alone("audio, 404",
          problem(404, "The model does not exist or you do not have access to it."),
          {"modalities": ["text", "audio"]}),
    Alone("a provider that is not there, 404",
          problem(404, "No allowed providers are available for the selected model."),
          {"provider": {"only": ["nobody"]}}),
    Alone("a picture, 404", problem(404, "No endpoints found that support image input"),
          {"text": "data:image/png;base64,iVBOR"}),
    Alone("an answer for which the credits do not suffice, 402",
          problem(402, "This request requires more credits, or fewer max_tokens. You requested up "
                  "to 64000 tokens, but can only afford 12000."),
          {"limit": 64_000}),
    Alone("a request for which the balance does not suffice, 402",
          problem(402, "Insufficient balance"), {"text": "a" * 9_000}),
    Alone("stored prompts of another project, 401",
          problem(401, "You do not have permission to use this prompt in this project."),
          {"prompt": {"id": "pmpt_1"}}),
    Alone("a bare 400", problem(400, "Bad Request"), _STORE),
    Alone("a bare 403 page", page(403, "Forbidden"), _STORE),
    Alone("a content filter on its prompt, 400",
          problem(400, "The response was filtered due to the prompt triggering our content "
                  "management policy.", chat="content_filter"),
          {"user": "x"}),
    Alone("a long context, 429",
          problem(429, "The long context beta is not yet available for this subscription."),
          {"headers": {_BETA: "context-1m-2025-08-07"}}, dialect=_MESSAGES),
    Alone("a beta that the account has not, 403",
          problem(403, "Your account does not have access to this beta."),
          {"headers": {_BETA: "skills-2025-10-02"}}, dialect=_MESSAGES),
    Alone("a container that is not there, 404", problem(404, "container: not found"),
          {"container": "container_1"}, dialect=_MESSAGES),
    Alone("a cache of another project, 403",
          problem(403, "CachedContent not found (or permission denied)"),
          {"cachedContent": "cachedContents/1"}, dialect=_GEMINI),
    Alone("grounding without quota, 429",
          problem(429, "Quota exceeded for metric: grounding requests per day"),
          {"toolConfig": {"includeServerSideToolInvocations": 1}}, dialect=_GEMINI),
    Alone("a guardrail of another account, 403",
          problem(403, "You are not authorized to perform: bedrock:ApplyGuardrail"),
          {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
          dialect=_CONVERSE),
    Alone("a latency that the region has not, 403",
          problem(403, "You don't have access to the model with the specified latency."),
          {"performanceConfig": {"latency": "optimized"}}, dialect=_CONVERSE),
))  # fmt: skip
