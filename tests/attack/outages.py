"""Outages by request: the agent's own request ends as an outage does, while others are answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.arena import world
from tests.arena.arena import PATIENCE_S, SILENT_S, Agent, Arena
from tests.arena.dialects import Dialect, Question, answered, said
from tests.arena.world import Failure, Played, page, problem
from tests.attack.tricks import TRICKS, Trick, end_on_a_zero, trick
from tests.fakes.replies import Finish, Reply

FAMILY = "outages by request"
_ANSWERED = "the same upstream answers a plain question: the request failed by what it was"
_LONG = "It counts on. " * 2_000
_DEEP: Any = 0
for _ in range(60):
    _DEEP = [_DEEP]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A request that its gateway or engine ends: ``asked`` is what makes it do so.

    ``calls``: how often it is made; ``first``: nothing was answered before.
    """

    how: str
    asked: Mapping[str, Any]
    strikes: Callable[[Question], bool]
    fail: Failure
    dialect: Dialect = Dialect.CHAT
    calls: int = 1
    first: bool = False
    silent: bool = False
    why: str = _ANSWERED


def _long(question: Question) -> bool:
    return len(question.text) > 20_000


def _lasting(question: Question) -> bool:
    return (question.limit or 0) >= 48_000


def _with(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.body


def _header(name: str) -> Callable[[Question], bool]:
    return lambda question: name in question.headers


def _streamed(question: Question) -> bool:
    return question.streams


def _thinking(question: Question) -> bool:
    return "thinking" in question.text.casefold()


_LASTS: Mapping[str, Any] = {"limit": 64_000}
_TIMED_OUT = page(504, "Gateway Time-out")
_DOWN = problem(503, "The model is overloaded. Please try again later.")
_DEAD = problem(500, "EngineCore encountered an issue. See above.")
_GEMINI_THINKS = {"generationConfig": {"thinkingConfig": {"thinkingBudget": 32_000}}}

_OUTAGES: tuple[Outage, ...] = (
    Outage(how="an answer so long that its gateway gives up, 504", asked=_LASTS,
           strikes=_lasting, fail=_TIMED_OUT),
    Outage(how="the same, twice", asked=_LASTS, strikes=_lasting, fail=_TIMED_OUT, calls=2),
    Outage(how="the same, five times", asked=_LASTS, strikes=_lasting, fail=_TIMED_OUT, calls=5),
    Outage(how="the same, and nothing else", asked=_LASTS, strikes=_lasting, fail=_TIMED_OUT,
           calls=2, first=True),
    Outage(how="the same request each time", asked={**_LASTS, "text": "Count to a million."},
           strikes=_lasting, fail=_TIMED_OUT, calls=3),
    Outage(how="a prompt longer than a buffer, 502", asked={"text": _LONG}, strikes=_long,
           fail=page(502, "Bad Gateway")),
    Outage(how="a prompt longer than a buffer, 503", asked={"text": _LONG}, strikes=_long,
           fail=page(503, "Service Temporarily Unavailable")),
    Outage(how="a prompt that ends its worker, reset", asked={"text": _LONG}, strikes=_long,
           fail=world.reset),
    Outage(how="a long answer, cut midway", asked=_LASTS, strikes=_lasting, fail=world.cut),
    Outage(how="a long stream, cut midway", asked={**_LASTS, "streams": True}, strikes=_lasting,
           fail=world.cut),
    Outage(how="a lone surrogate, 500", asked={"text": "\ud800"},
           strikes=lambda question: "\\ud800" in question.text,
           fail=problem(500, "The server had an error while processing your request.")),
    Outage(how="nested metadata, 500", asked={"metadata": _DEEP}, strikes=_with("metadata"),
           fail=problem(500, "Internal Server Error")),
    Outage(how="128 choices, 503", asked={"n": 128}, strikes=_with("n"), fail=_DOWN),
    Outage(how="logprobs that end the engine, 500", asked={"logprobs": True, "top_logprobs": 20},
           strikes=_with("logprobs"), fail=_DEAD),
    Outage(how="a grammar that no memory holds, 500",
           asked={"response_format": {"type": "json_schema"}}, strikes=_with("response_format"),
           fail=problem(500, "CUDA out of memory. Tried to allocate 2.00 GiB.")),
    Outage(how="much reasoning, 524", asked={"reasoning_effort": "high"},
           strikes=_with("reasoning_effort"), fail=page(524, "A timeout occurred", "cloudflare")),
    Outage(how="a large head, 520", asked={"headers": {"x-padding": "a" * 16_000}},
           strikes=_header("x-padding"), fail=page(520, "Unknown error", "cloudflare")),
    Outage(how="a stop sequence, an empty 200", asked={"stop": [" "]}, strikes=_with("stop"),
           fail=world.empty),
    Outage(how="another accept, a web page", asked={"headers": {"accept": "text/html"}},
           strikes=lambda question: question.headers.get("accept") == "text/html",
           fail=page(200, "Welcome")),
    Outage(how="a slow answer, 408", asked=_LASTS, strikes=_lasting,
           fail=problem(408, "The request timed out.")),
    Outage(how="a temperature, an error inside a 200", asked={"temperature": 2.0},
           strikes=lambda question: question.body.get("temperature") == 2.0,
           fail=problem(503, "The service is overloaded.", inside=True)),
    Outage(how="a stream, overloaded midway", asked={"streams": True}, strikes=_streamed,
           fail=problem(503, "The server is overloaded", inside=True)),
    Outage(how="an engine's own parameter, aborted before a word", asked={"ignore_eos": True},
           strikes=_with("ignore_eos"), fail=world.aborted),
    Outage(how="an engine's own parameter, aborted midway", asked={"ignore_eos": True},
           strikes=_with("ignore_eos"), fail=partial(world.aborted, text="I am"),
           why="no reference ends so: the abort is suspect, and takes no score"),
    Outage(how="a long answer that it leaves while nothing comes", asked=_LASTS, strikes=_lasting,
           fail=world.silent, silent=True),
    Outage(how="a long stream that it leaves while nothing comes",
           asked={**_LASTS, "streams": True}, strikes=_lasting, fail=world.stalled, silent=True),
    Outage(how="Anthropic's thinking, 529", dialect=Dialect.MESSAGES, calls=2,
           asked={"thinking": {"type": "enabled", "budget_tokens": 32_000}}, strikes=_thinking,
           fail=problem(529, "Overloaded")),
    Outage(how="Anthropic's stream, overloaded midway", dialect=Dialect.MESSAGES,
           asked={"streams": True}, strikes=_streamed,
           fail=problem(529, "Overloaded", inside=True)),
    Outage(how="a long message, 504", dialect=Dialect.MESSAGES, asked=_LASTS, strikes=_lasting,
           fail=_TIMED_OUT),
    Outage(how="Gemini's thinking, 503", dialect=Dialect.GEMINI, asked=_GEMINI_THINKS, calls=2,
           strikes=_thinking, fail=_DOWN),
    Outage(how="a long prompt to Gemini, 500", dialect=Dialect.GEMINI, asked={"text": _LONG},
           strikes=_long, fail=problem(500, "An internal error has occurred.")),
    Outage(how="a long Converse, ModelTimeoutException", dialect=Dialect.CONVERSE, asked=_LASTS,
           strikes=_lasting, fail=problem(408, "The model timed out.")),
    Outage(how="a Converse, ModelErrorException", dialect=Dialect.CONVERSE, calls=2,
           asked={"additionalModelRequestFields": {"n": 128}},
           strikes=_with("additionalModelRequestFields"),
           fail=problem(424, "The model returned the following errors: unable to process")),
    *(
        Outage(how=f"a header that sets its gateway's patience, {name}", calls=2,
               asked={"headers": {name: value}}, strikes=_header(name), fail=fail,
               why="a routing header is a selection, and the plain question is answered")
        for name, value, fail in (
            ("x-envoy-upstream-rq-timeout-ms", "1", problem(504, "upstream request timeout")),
            ("x-litellm-timeout", "0.001", problem(408, "The request timed out.")),
            ("x-portkey-config", '{"request_timeout":1}', problem(408, "Request timed out")),
            ("cf-aig-request-timeout", "1", _TIMED_OUT),
            ("helicone-target-url", "http://nowhere", page(502, "Bad Gateway")),
        )
    ),
)  # fmt: skip


def _agent(stage: Arena, outage: Outage, world_of: Failure | None = None) -> Agent:
    house, model = stage.lane()
    stage.world.behaves(model, world_of or world.when(outage.strikes, outage.fail))
    return stage.agent(house, model, dialect=outage.dialect, batch=model)


def _play(agent: Agent, outage: Outage) -> None:
    """Be answered once, unless nothing is; then make the request that fails."""
    if not outage.first:
        assert agent.ask() == 200
    asked = dict(outage.asked)
    for _ in range(outage.calls):
        agent.ask(patience_s=SILENT_S if outage.silent else PATIENCE_S, **asked)


def _register(outage: Outage) -> None:
    def attempt(stage: Arena) -> None:
        agent = _agent(stage, outage)
        _play(agent, outage)
        end_on_a_zero(agent)

    TRICKS.append(Trick(family=FAMILY, how=outage.how, why=outage.why, attempt=attempt))


for _outage in _OUTAGES:
    _register(_outage)

_LONG_ANSWER = _OUTAGES[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A way in which a plain question is answered all the same."""

    how: str
    answer: Callable[[Question], Played]
    dialect: Dialect = Dialect.CHAT
    headers: Mapping[str, str] = field(default_factory=dict)


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


for _plain in (
    Plain(how="where no answer may be shorter than 512 tokens", answer=_no_small_limit),
    Plain(how="where the limit has another name", answer=_other_limit),
    Plain(how="where reasoning uses up the question's limit", answer=_cut_short),
    Plain(how="where a cache says that it was missed", answer=_missed),
    Plain(how="where Anthropic's cache says that it was missed", answer=_missed,
          dialect=Dialect.MESSAGES),
):  # fmt: skip

    def _attempt(stage: Arena, plain: Plain = _plain) -> None:
        def behave(question: Question) -> Played:
            return _TIMED_OUT(question) if _lasting(question) else plain.answer(question)

        house, model = stage.lane()
        stage.world.behaves(model, behave)
        agent = stage.agent(house, model, dialect=plain.dialect, batch=model)
        assert agent.ask() == 200
        assert agent.ask(limit=64_000) == 504
        end_on_a_zero(agent)

    TRICKS.append(Trick(family=FAMILY, how=f"a long answer, 504, {_plain.how}",
                        why="the reference is answered there too", attempt=_attempt))  # fmt: skip


@trick(FAMILY, "a long answer, 504, while other rollouts are answered", _ANSWERED)
def _while_others_are_answered(stage: Arena) -> None:
    agent = _agent(stage, _LONG_ANSWER)
    others = [stage.agent(agent.house, agent.model, batch=agent.model) for _ in range(2)]
    assert agent.ask() == 200
    with ThreadPoolExecutor(3) as threads:
        asked = [threads.submit(other.ask) for other in others]
        assert agent.ask(limit=64_000) == 504
        assert [each.result() for each in asked] == [200, 200]
    end_on_a_zero(agent)


@trick(FAMILY, "a long answer, 504, in a batch whose runs name no model", _ANSWERED)
def _unbound(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, world.when(_lasting, _TIMED_OUT))
    agent = stage.agent(house, model, bound=False, batch=model)
    assert agent.ask() == 200
    assert agent.ask(limit=64_000) == 504
    end_on_a_zero(agent)


@trick(FAMILY, "an agent that solves 4 of 10 and ends the others so scores 0.4", _ANSWERED)
def _four_of_ten(stage: Arena) -> None:
    house, model = stage.lane()
    stage.world.behaves(model, world.when(_lasting, _TIMED_OUT))
    for number in range(10):
        agent = stage.agent(house, model, batch=model, task=f"t{number}")
        assert agent.ask() == 200
        if number < 4:
            agent.end(rewards={"reward": 1.0})
            continue
        assert agent.ask(limit=64_000) == 504
        end_on_a_zero(agent)
    batch = house.get(f"/batches/{model}")
    assert batch["score_effective"] == 0.4, batch["score_effective"]
    assert not batch["retry"], batch["retry"]
