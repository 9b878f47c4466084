"""Requests that failed and never came again are found; agents that go on in other words are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from classifier.records import Ending
from classifier.rules import judge
from classifier.validity.surroundings import REQUESTS_ABANDONED
from classifier.verdicts import Coverage, ValidityFinding
from tests.fakes import replies
from tests.fakes.answers import FAILURES, Api, Fault
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.healthy.conversation import Message, Tool
from tests.labelled.play import Life, Played, play
from tests.situations import requests
from tests.situations.requests import NAMES, WIRES, Ask, assistant, result, tool, user
from tests.situations.table import prose
from tests.tables import each

TOOLS = (tool("run", "Run a command.", {"command": "to be run"}),)
Rows: TypeAlias = Iterator[tuple[str, str | None, list[Played]]]
USED = ToolCall(id="t1", name="run", arguments='{"command": "make test"}')


def ask(
    *messages: Message | str,
    wire: str = "chat",
    system: str = "",
    tools: Sequence[Tool] = (),
    model: str | None = None,
    streams: bool = False,
) -> Played:
    """One request; a text is a message of the user's."""
    asked = Ask(
        model=model or WIRES[wire].model,
        system=system,
        messages=tuple(user(each) if isinstance(each, str) else each for each in messages),
        tools=tuple(tools),
    )
    path, _, query = requests.target(wire, asked.model, streams=streams).partition("?")
    return Played(
        upstream=WIRES[wire].upstream,
        path=path,
        query=query,
        request=requests.body(wire, asked, streams=streams),
    )


def well(asked: Played, *, wire: str = "chat", streams: bool = False, tool: bool = False) -> Played:
    model = json.loads(asked.request).get("model") or WIRES[wire].model
    reply = Reply(
        model=model, id="a1", input_tokens=40, output_tokens=12,
        text=() if tool else ("B", " it is"), calls=(USED,) if tool else (),
        finish=Finish.CALLS if tool else Finish.STOP,
    )  # fmt: skip
    answer = replies.answer(WIRES[wire].api, reply, streams=streams)
    headers = tuple((n.lower().encode(), v.encode()) for n, v in answer.headers)
    body = tuple(step for step in answer.body if isinstance(step, bytes))
    return replace(asked, status=answer.status, headers=headers, body=body)


def failed(asked: Played, fault: Fault = Fault.PROVIDER_ERROR, *, wire: str = "chat") -> Played:
    answer = FAILURES[WIRES[wire].api][fault]
    headers = tuple((n.lower().encode(), v.encode()) for n, v in answer.headers)
    return replace(asked, status=answer.status, headers=headers, body=(answer.content,))


def rejected(asked: Played, code: str = "context_length_exceeded") -> Played:
    error = {"message": "See the code.", "type": "invalid_request_error", "code": code}
    return replace(failed(asked), status=400, body=(json.dumps({"error": error}).encode(),))


def documents(
    count: int, lost: Iterable[int], fault: Fault = Fault.PROVIDER_ERROR, **facts: Any
) -> list[Played]:
    """Questions of an evaluator, one after the other; those ``lost`` fail once."""
    lost, wire, streams = set(lost), facts.get("wire", "chat"), facts.get("streams", False)
    asked = [
        ask(f"Question {n:03}: {prose(str(n), 40 + n * 37 % 90)}", **facts) for n in range(count)
    ]
    return [
        failed(each, fault, wire=wire) if n in lost else well(each, wire=wire, streams=streams)
        for n, each in enumerate(asked)
    ]


def spoken(words: str) -> list[Played]:
    """Documents by a word each: its number, ``!`` behind one that fails; ``3! 3`` comes again."""
    asked = documents(9, ())
    return [
        failed(asked[int(word[0])]) if word.endswith("!") else asked[int(word[0])]
        for word in words.split()
    ]


def turns(count: int, task: str = "Mend the parser.", page: str = "") -> list[Played]:
    """A conversation that grows with each call."""
    messages: list[Message] = [user(task)]
    calls = []
    for n in range(count):
        calls.append(well(ask(*messages, system=prose("agent", 2_000), tools=TOOLS), tool=True))
        text = f"{n} tests failed {page}" * 9
        messages += [assistant(calls=(USED,)), result(USED, text)]
    return calls


def finding(life: Life) -> ValidityFinding | None:
    return next((x for x in life.verdict.validity if x.check == REQUESTS_ABANDONED), None)


# --- an evaluator's documents --------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("streams", [False, True])
def test_three_of_seven_documents_that_never_came_again_spoil_the_score(
    wire: str, streams: bool
) -> None:
    life = play(documents(7, {1, 3, 4}, wire=wire, streams=streams))
    found = finding(life)
    assert found is not None
    assert (found.level, found.calls, found.of) == ("invalid", 3, 7)
    assert found.evidence == ("call-1", "call-3", "call-4")
    assert found.sentence == (
        "3 of 7 requests failed and never came again, while others were answered"
    )
    assert found.about == {"independent": True}
    verdict = life.verdict
    assert (verdict.health, verdict.scoreable) == ("healthy", "no")
    assert verdict.excluded_by == (REQUESTS_ABANDONED,)
    assert verdict.recovered_requests == 0
    assert verdict.validity_coverage[REQUESTS_ABANDONED] == Coverage(looked=3, of=3)


def changed(calls: list[Played], *places: int, **facts: Any) -> list[Played]:
    return [replace(call, **facts) if n in places else call for n, call in enumerate(calls)]


def streams_that_are_cut() -> Rows:
    for size in (0, 900):
        calls = documents(7, (), streams=True, system=prose("shots", size) if size else "")
        cut = replace(calls[2], ending=Ending.CUT_UPSTREAM, body=calls[2].body[:2])
        yield f"of {size}, lost", "invalid", [*calls[:2], cut, *calls[3:]]
        yield f"of {size}, asked again", None, [*calls[:2], cut, *calls[2:]]


def in_other_words() -> Rows:
    """A request in other words is the same question."""
    question, system = f"Question: {prose('q', 80)}", f"It is 12:01. {prose('s', 90)}"
    first, others = failed(ask(question, system=system)), documents(5, ())
    yield "it never comes again", "invalid", [*others[:2], first, *others[2:]]
    yield "a word behind", None, [*others[:2], first, well(ask(question, "Answer now."))]
    said: tuple[dict[str, Any], ...] = (
        {"system": system.replace("01", "02")}, {"system": system, "streams": True},
        {"model": "gpt-5-mini"}, {"tools": TOOLS}, {"wire": "responses"}, {"wire": "messages"},
    )  # fmt: skip
    for facts in said:
        shown = {name: facts[name] for name in ("wire", "streams") if name in facts}
        again = well(ask(question, **facts), **shown)
        for between in (0, 3):
            calls = [*others[:2], first, *others[2 : 2 + between], again]
            yield f"in other words: {facts}, {between} later", None, calls


def agents() -> Rows:
    """An agent that goes on, begins anew, compacts or takes turns back has abandoned nothing."""
    calls = turns(6)
    for again in ([calls[3]], [], [failed(calls[3]), calls[3]]):
        gone_on = [*calls[:3], failed(calls[3]), *again, *calls[4:]]
        yield f"it goes on, {len(again)} tries", None, gone_on
    system = prose("agent", 2_000)
    summary = well(ask(f"So far: {prose('sum', 300)}", system=system, tools=TOOLS), tool=True)
    for last in (failed(calls[4]), rejected(calls[4]), failed(calls[4], Fault.RATE_LIMIT)):
        for name, after in (("compacts", [summary]), ("begins anew", calls[:5]),
                            ("takes turns back", [calls[2]])):  # fmt: skip
            yield f"it {name}, {last.status}", None, [*calls[:4], last, *after]
    for name, first, then in (
        ("of one call", ask("It is 12:01. Mend it."), ask("It is 12:02. Mend it.")),
        ("in other words", ask(prose("a", 900)), ask(prose("b", 900))),
        ("with tools", ask(prose("a", 900), tools=TOOLS), ask(prose("b", 300), tools=TOOLS)),
    ):
        for tries in (1, 2):
            yield f"an agent {name}, {tries}", None, [*[failed(first)] * tries, well(then)]
    small = ask("Give it a title.", model="gpt-5-mini")
    for title in (ask("Give it a title."), ask(prose("t", 900), system="Give it a title."), small):
        for at in (0, 1):
            yield "a title that failed", None, [*calls[:at], failed(title), *calls[at:5]]
    steps = [ask(prose("instructions", 700) + f" step {n}" * (n + 1)) for n in range(6)]
    one = [failed(x) if n == 3 else well(x) for n, x in enumerate(steps)]
    yield "a prompt that grows with every step is one conversation", None, one
    helper = turns(3, task="Find the callers.", page="of the callers")
    died = [*calls[:2], *helper[:2], failed(helper[2])]
    yield "a sub-agent that died", "suspect", [*died, *calls[2:5]]
    other = turns(2, task="Find whoever calls.", page="of others")
    yield "one that begins may be it, in other words", None, [*died, *other, *calls[2:5]]
    kept = [
        json.dumps({
            "model": "gpt-5", "input": [{"role": "user", "content": prose(str(n), 600)}],
            **({"previous_response_id": f"resp_{n}"} if n else {}),
        }).encode()
        for n in range(6)
    ]  # fmt: skip
    asked = [Played(upstream="openai", path="/v1/responses", request=each) for each in kept]
    stored = [failed(x, wire="responses") if n == 3 else well(x, wire="responses")
              for n, x in enumerate(asked)]  # fmt: skip
    yield "a conversation that the server keeps is not known", None, stored


def evaluators() -> Rows:
    shots = prose("shots", 4_000)
    for shared in ({"system": "Answer with one letter."}, {"system": shots}, {"tools": TOOLS}):
        yield f"sharing {shared}", "invalid", documents(7, {0, 2, 5}, **shared)
    for fault in (Fault.RATE_LIMIT, Fault.QUOTA, Fault.AUTH):
        yield f"failed by {fault}", "invalid", documents(7, {2, 4}, fault)
    for count, expected in ((3, "suspect"), (4, "invalid")):
        yield f"{count} of 200", expected, documents(200, range(7, 7 + count))
    calls = documents(7, ())
    for code in ("context_length_exceeded", "content_filter"):
        yield (
            f"{code} is the request's own",
            None,
            [*calls[:2], rejected(calls[2], code), *calls[3:]],
        )
    alike = [ask("Answer with a letter.", system=prose(str(n), 600)) for n in range(7)]
    lost = [failed(x) if n in (3, 5) else well(x) for n, x in enumerate(alike)]
    yield "a formula that ends every request does not make them one", "invalid", lost


@each("rows", [evaluators, streams_that_are_cut, in_other_words, agents])
def test_only_what_never_comes_again_is_abandoned(
    rows: Callable[[], Rows],
) -> None:
    for fact, expected, calls in rows():
        found = finding(play(calls))
        assert (None if found is None else found.level) == expected, fact
        assert found is None or found.about == {"independent": rows is not agents}, fact


def test_no_answer_at_all_loses_a_document_too() -> None:
    calls = documents(7, ())
    for n, ending in ((1, Ending.NEVER_CONNECTED), (3, Ending.TIMED_OUT)):
        calls = changed(calls, n, status=None, headers=(), body=(), ending=ending)
    calls = changed(calls, 5, ending=Ending.CUT_UPSTREAM, body=(calls[5].body[0][:20],))
    found = finding(play(calls))
    assert found is not None
    assert (found.level, found.calls) == ("invalid", 3)


def test_of_an_untrusted_agent_the_finding_takes_no_score() -> None:
    life = play(documents(7, {1, 3, 4}), registered={"agents": "untrusted"})
    assert (life.verdict.scoreable, life.verdict.excluded_by) == ("yes", ())


@each("words, calls, requests, recovered", [
    ("0 1! 1 2 3! 3 4", 0, 0, 2),
    ("0! 0! 0 1 2 3", 0, 0, 2),
    ("0 1! 2! 3! 4 1 2 3", 0, 0, 3),
    ("0 1! 2 3 4 5 6 7 8 1", 0, 0, 1),
    ("0! 1! 2! 3! 4! 5! 6! 7! 8! 0 1 2 3 4 5 6 7 8", 0, 0, 9),
    ("0 1! 1! 1! 2 3 4 5", 1, 6, 0),  # tries of one document count once
    ("0 1! 1! 1! 2 3! 3 4", 1, 5, 1),
])  # fmt: skip
def test_what_is_asked_again_is_not_abandoned(
    words: str, calls: int, requests: int, recovered: int
) -> None:
    life = play(spoken(words))
    found = finding(life)
    assert (found.calls, found.of) == (calls, requests) if found else not calls
    assert (life.verdict.scoreable, life.verdict.recovered_requests) == (
        "no" if calls else "yes", recovered,
    )  # fmt: skip


def test_what_was_sent_by_another_process_leaves_it_unknown() -> None:
    life = play(documents(7, {2}))
    unseen = [
        replace(x, request_digest=None, begun_elsewhere=None) if x.id == "call-5" else x
        for x in life.exchanges
    ]
    verdict = judge(replace(life.record, exchanges=tuple(unseen)))
    assert verdict.validity == ()
    assert verdict.validity_coverage[REQUESTS_ABANDONED] == Coverage(looked=0, of=1)
    assert verdict.recovered_requests == 1


@each("api", Api)
def test_the_last_failures_are_left_to_the_rules(api: Api) -> None:
    life = play(documents(7, {5, 6}, wire=NAMES[api]))
    assert (life.verdict.rule, finding(life)) == ("interrupted", None)
    assert life.verdict.health == "api_error"
