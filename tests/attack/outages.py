"""Outages by request: the agent's own request ends as an outage does, while others are answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.arena import world
from tests.arena.arena import SILENT_S, Arena
from tests.arena.dialects import Dialect, Question, answered, said
from tests.arena.world import Played, page, problem
from tests.attack.tricks import Alone, alone, end_on_a_zero, trick
from tests.fakes.replies import Finish, Reply

FAMILY = "outages by request"
_ANSWERED = "the same upstream answers a plain question: the request failed by what it was"
_DEEP: Any = 0
for _ in range(60):
    _DEEP = [_DEEP]


def _thinking(question: Question) -> bool:
    return "thinking" in question.text.casefold()


_LASTS: dict[str, Any] = {"limit": 64_000}
_LONG: dict[str, Any] = {"text": "It counts on. " * 2_000}
_STREAM: dict[str, Any] = {"streams": True}
_EOS: dict[str, Any] = {"ignore_eos": True}
_TIMED_OUT = page(504, "Gateway Time-out")
_DOWN = problem(503, "The model is overloaded. Please try again later.")
_DEAD = problem(500, "EngineCore encountered an issue. See above.")
_GEMINI_THINKS = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 32_000}}}
_MESSAGES, _GEMINI, _CONVERSE = Dialect.MESSAGES, Dialect.GEMINI, Dialect.CONVERSE

alone(FAMILY, _ANSWERED, (
    Alone("an answer so long that its gateway gives up, 504", _TIMED_OUT, _LASTS, 1),
    Alone("the same, twice", _TIMED_OUT, _LASTS),
    Alone("the same, five times", _TIMED_OUT, _LASTS, 5),
    Alone("the same, and nothing else", _TIMED_OUT, _LASTS, first=True),
    Alone("the same request each time", _TIMED_OUT, {**_LASTS, "text": "Count to a million."}, 3),
    Alone("a prompt longer than a buffer, 502", page(502, "Bad Gateway"), _LONG, 1),
    Alone("a prompt longer than a buffer, 503", page(503, "Service Temporarily Unavailable"),
          _LONG, 1),
    Alone("a prompt that ends its worker, reset", world.reset, _LONG, 1),
    Alone("a long answer, cut midway", world.cut, _LASTS, 1),
    Alone("a long stream, cut midway", world.cut, _LASTS | _STREAM, 1),
    Alone("a lone surrogate, 500",
          problem(500, "The server had an error while processing your request."),
          {"text": "\ud800"}, 1),
    Alone("nested metadata, 500", problem(500, "Internal Server Error"), {"metadata": _DEEP}, 1),
    Alone("128 choices, 503", _DOWN, {"n": 128}, 1),
    Alone("logprobs that end the engine, 500", _DEAD, {"logprobs": True, "top_logprobs": 20}, 1),
    Alone("a grammar that no memory holds, 500",
          problem(500, "CUDA out of memory. Tried to allocate 2.00 GiB."),
          {"response_format": {"type": "json_schema"}}, 1),
    Alone("much reasoning, 524", page(524, "A timeout occurred", "cloudflare"),
          {"reasoning_effort": "high"}, 1),
    Alone("a large head, 520", page(520, "Unknown error", "cloudflare"),
          {"headers": {"x-padding": "a" * 16_000}}, 1),
    Alone("a stop sequence, an empty 200", world.empty, {"stop": [" "]}, 1),
    Alone("another accept, a web page", page(200, "Welcome"), {"headers": {"accept": "text/html"}},
          1),
    Alone("a slow answer, 408", problem(408, "The request timed out."), _LASTS, 1),
    Alone("a temperature, an error inside a 200",
          problem(503, "The service is overloaded.", inside=True), {"temperature": 2.0}, 1,
          lambda question: question.body.get("temperature") == 2.0),
    Alone("a stream, overloaded midway", problem(503, "The server is overloaded", inside=True),
          _STREAM, 1),
    Alone("an engine's own parameter, aborted before a word", world.aborted, _EOS, 1),
))  # fmt: skip
alone(FAMILY, "no reference ends so: the abort is suspect, and takes no score", (
    Alone("an engine's own parameter, aborted midway", partial(world.aborted, text="I am"), _EOS,
          1),
))  # fmt: skip
alone(FAMILY, _ANSWERED, (
    Alone("a long answer that it leaves while nothing comes", world.silent, _LASTS, 1,
          patience_s=SILENT_S),
    Alone("a long stream that it leaves while nothing comes", world.stalled, _LASTS | _STREAM, 1,
          patience_s=SILENT_S),
    Alone("Anthropic's thinking, 529", problem(529, "Overloaded"),
          {"thinking": {"type": "enabled", "budget_tokens": 32_000}}, dialect=_MESSAGES),
    Alone("Anthropic's stream, overloaded midway", problem(529, "Overloaded", inside=True),
          _STREAM, 1, dialect=_MESSAGES),
    Alone("a long message, 504", _TIMED_OUT, _LASTS, 1, dialect=_MESSAGES),
    Alone("Gemini's thinking, 503", _DOWN, _GEMINI_THINKS, 2, _thinking, _GEMINI),
    Alone("a long prompt to Gemini, 500", problem(500, "An internal error has occurred."), _LONG, 1,
          dialect=_GEMINI),
    Alone("a long Converse, ModelTimeoutException", problem(408, "The model timed out."), _LASTS, 1,
          dialect=_CONVERSE),
    Alone("a Converse, ModelErrorException",
          problem(424, "The model returned the following errors: unable to process"),
          {"additionalModelRequestFields": {"n": 128}}, dialect=_CONVERSE),
))  # fmt: skip
alone(FAMILY, "a routing header is a selection, and the plain question is answered", (
    Alone(f"a header that sets its gateway's patience, {name}", fail, {"headers": {name: value}})
    for name, value, fail in (
        ("x-envoy-upstream-rq-timeout-ms", "1", problem(504, "upstream request timeout")),
        ("x-litellm-timeout", "0.001", problem(408, "The request timed out.")),
        ("x-portkey-config", '{"request_timeout":1}', problem(408, "Request timed out")),
        ("cf-aig-request-timeout", "1", _TIMED_OUT),
        ("helicone-target-url", "http://nowhere", page(502, "Bad Gateway")),
    )
))  # fmt: skip


def _no_small_limit(question: Question) -> Played:
    """Refuse fewer than 512 tokens, as models that reason do."""
    if question.limit is not None and question.limit < 512:
        return problem(400, "Invalid 'max_tokens': integer below minimum value. Expected >= 512.",
                       chat="integer_below_min_value")(question)  # fmt: skip
    return answered(question)


def _other_limit(question: Question) -> Played:
    """Know the limit by its later name only, as OpenAI's models that reason do."""
    if "max_tokens" in question.body:
        return problem(400, "Unsupported parameter: 'max_tokens' is not supported with this model."
                       " Use 'max_completion_tokens' instead.",
                       chat="unsupported_parameter")(question)  # fmt: skip
    return answered(question)


def _cut_short(question: Question) -> Played:
    """Use up the limit by reasoning; it is an answer all the same."""
    if question.tools:
        return answered(question)
    return said(question, Reply(model=question.model, input_tokens=18, output_tokens=16,
                                reasoning="Let me", reasoning_tokens=16,
                                finish=Finish.LENGTH))  # fmt: skip


def _missed(question: Question) -> Played:
    return answered(question).with_headers(("x-cache", "MISS"), ("cf-aig-cache-status", "MISS"))


alone(FAMILY, "the reference is answered there too", (
    Alone(f"a long answer, 504, where {where}", _TIMED_OUT, _LASTS, 1, answers=answers,
          dialect=dialect)
    for where, answers, dialect in (
        ("no answer may be shorter than 512 tokens", _no_small_limit, Dialect.CHAT),
        ("the limit has another name", _other_limit, Dialect.CHAT),
        ("reasoning uses up the question's limit", _cut_short, Dialect.CHAT),
        ("a cache says that it was missed", _missed, Dialect.CHAT),
        ("Anthropic's cache says that it was missed", _missed, _MESSAGES),
    )
))  # fmt: skip
_long = world.when(world.asks(**_LASTS), _TIMED_OUT)


@trick(FAMILY, "a long answer, 504, while other rollouts are answered", _ANSWERED)
def _while_others_are_answered(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, _long)
    agent, *others = (stage.agent(house, model, batch=model) for _ in range(3))
    assert agent.ask() == 200
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(other.ask) for other in others]
        assert agent.ask(**_LASTS) == 504
        assert [each.result() for each in asked] == [200, 200]
    end_on_a_zero(agent)


alone(FAMILY, _ANSWERED, (
    Alone("a long answer, 504, in a batch whose runs name no model", _TIMED_OUT, _LASTS, 1,
          bound=False),
))  # fmt: skip


@trick(FAMILY, "an agent that solves 4 of 10 and ends the others so scores 0.4", _ANSWERED)
def _four_of_ten(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, _long)
    for number in range(10):
        agent = stage.agent(house, model, batch=model, task=f"t{number}")
        assert agent.ask() == 200
        if number < 4:
            agent.end(rewards={"reward": 1.0})
            continue
        assert agent.ask(**_LASTS) == 504
        end_on_a_zero(agent)
    batch = house.get(f"/batches/{model}")
    assert batch["score_effective"] == 0.4, batch["score_effective"]
    assert not batch["retry"], batch["retry"]
