"""Requests that failed and never came again are found; agents that go on in other words are not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from classifier.records import Ending
from classifier.rules import judge
from classifier.validity.surroundings import REQUESTS_ABANDONED
from classifier.verdicts import Coverage, ValidityFinding
from tests.fakes import replies
from tests.fakes.answers import FAILURES, Api, Fault, chat
from tests.fakes.provider import Answer, Request
from tests.fakes.replies import Finish, Reply, ToolCall
from tests.labelled.play import MODELS, UPSTREAMS, WIRES, Life, Played, play
from tests.proxy.api.test_routes import Service, serving
from tests.situations import requests
from tests.situations.requests import Ask, Assistant, Message, Tool, ToolResult, User
from tests.situations.table import prose
from tests.tables import each

TOOLS = (Tool(name="run", description="Run a command.", parameters={"command": "to be run"}),)
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
        model=model or MODELS[wire],
        system=system,
        messages=tuple(User(text=each) if isinstance(each, str) else each for each in messages),
        tools=tuple(tools),
    )
    path, _, query = requests.path(WIRES[wire], asked.model, streams=streams).partition("?")
    return Played(
        upstream=UPSTREAMS[wire],
        path=path,
        query=query,
        request=requests.body(WIRES[wire], asked, streams=streams),
    )


def well(asked: Played, *, wire: str = "chat", streams: bool = False, tool: bool = False) -> Played:
    model = json.loads(asked.request).get("model") or MODELS[wire]
    reply = Reply(
        model=model, id="a1", input_tokens=40, output_tokens=12,
        text=() if tool else ("B", " it is"), calls=(USED,) if tool else (),
        finish=Finish.CALLS if tool else Finish.STOP,
    )  # fmt: skip
    answer = replies.answer(WIRES[wire], reply, streams=streams)
    headers = tuple((n.lower().encode(), v.encode()) for n, v in answer.headers)
    body = tuple(step for step in answer.body if isinstance(step, bytes))
    return replace(asked, status=answer.status, headers=headers, body=body)


def failed(asked: Played, fault: Fault = Fault.PROVIDER_ERROR, *, wire: str = "chat") -> Played:
    answer = FAILURES[WIRES[wire]][fault]
    headers = tuple((n.lower().encode(), v.encode()) for n, v in answer.headers)
    return replace(asked, status=answer.status, headers=headers, body=(answer.content,))


def documents(count: int, lost: Iterable[int], **facts: Any) -> list[Played]:
    """Questions of an evaluator, one after the other; those ``lost`` fail once."""
    lost, wire = set(lost), facts.get("wire", "chat")
    asked = [
        ask(f"Question {n:03}: {prose(str(n), 40 + n * 37 % 90)}", **facts) for n in range(count)
    ]
    return [
        failed(each, wire=wire)
        if n in lost
        else well(each, wire=wire, streams=facts.get("streams", False))
        for n, each in enumerate(asked)
    ]


def finding(life: Life) -> ValidityFinding | None:
    return next((x for x in life.verdict.validity if x.check == REQUESTS_ABANDONED), None)


def level(calls: Sequence[Played], **more: Any) -> str | None:
    found = finding(play(calls, **more))
    return None if found is None else found.level.value


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


@each("facts", [
    {"system": "Answer with one letter."},
    {"system": prose("shots", 4_000)},
    {"tools": TOOLS},
])  # fmt: skip
def test_documents_are_told_apart_however_much_they_share(facts: dict[str, Any]) -> None:
    assert level(documents(7, {0, 2, 5}, **facts)) == "invalid"


@each("fault", [Fault.RATE_LIMIT, Fault.PROVIDER_ERROR, Fault.QUOTA, Fault.AUTH])
def test_whatever_failed_them(fault: Fault) -> None:
    calls = documents(7, ())
    for n in (2, 4):
        calls[n] = failed(calls[n], fault)
    assert level(calls) == "invalid"


def test_no_answer_at_all_loses_a_document_too() -> None:
    calls = documents(7, ())
    for n, ending in ((1, Ending.NEVER_CONNECTED), (3, Ending.TIMED_OUT)):
        calls[n] = replace(calls[n], status=None, headers=(), body=(), ending=ending)
    calls[5] = replace(calls[5], ending=Ending.CUT_UPSTREAM, body=(calls[5].body[0][:20],))
    found = finding(play(calls))
    assert found is not None
    assert (found.level, found.calls) == ("invalid", 3)


def test_a_stream_that_was_cut_is_lost_or_asked_again() -> None:
    for size in (0, 900):
        calls = documents(7, (), streams=True, system=prose("shots", size) if size else "")
        cut = replace(calls[2], ending=Ending.CUT_UPSTREAM, body=calls[2].body[:2])
        assert level([*calls[:2], cut, *calls[3:]]) == "invalid", size
        assert level([*calls[:2], cut, *calls[2:]]) is None, size


def test_one_of_two_hundred_is_suspect_and_four_are_two_percent() -> None:
    for count, expected in ((1, "suspect"), (3, "suspect"), (4, "invalid")):
        assert level(documents(200, range(7, 7 + count))) == expected, count


def test_of_an_untrusted_agent_the_finding_takes_no_score() -> None:
    life = play(documents(7, {1, 3, 4}), registered={"agents": "untrusted"})
    assert (life.verdict.scoreable, life.verdict.excluded_by) == ("yes", ())


def rejected(asked: Played, code: str = "context_length_exceeded") -> Played:
    error = {"message": "See the code.", "type": "invalid_request_error", "code": code}
    return replace(failed(asked), status=400, body=(json.dumps({"error": error}).encode(),))


def test_a_request_that_is_the_reason_itself_is_not_counted() -> None:
    for code in ("context_length_exceeded", "content_filter"):
        calls = documents(7, ())
        calls[2] = rejected(calls[2], code)
        assert level(calls) is None, code


# --- what comes again ----------------------------------------------------------------------


def spoken(words: str) -> list[Played]:
    """Documents by a word each: its number, ``!`` behind one that fails; ``3! 3`` comes again."""
    asked = documents(9, ())
    return [
        failed(asked[int(word[0])]) if word.endswith("!") else asked[int(word[0])]
        for word in words.split()
    ]


@each(
    "words",
    ["0 1! 1 2 3! 3 4", "0! 0! 0 1 2 3", "0 1! 2! 3! 4 1 2 3", "0 1! 2 3 4 5 6 7 8 1",
     "0! 1! 2! 3! 4! 5! 6! 7! 8! 0 1 2 3 4 5 6 7 8"],
)  # fmt: skip
def test_what_is_asked_again_is_not_abandoned(words: str) -> None:
    life = play(spoken(words))
    assert finding(life) is None
    assert life.verdict.scoreable == "yes"
    assert life.verdict.recovered_requests == words.count("!")


def test_tries_of_one_document_count_once() -> None:
    found = finding(play(spoken("0 1! 1! 1! 2 3 4 5")))
    assert found is not None
    assert (found.calls, found.of) == (1, 6)
    assert play(spoken("0 1! 1! 1! 2 3! 3 4")).verdict.recovered_requests == 1


def test_a_request_in_other_words_is_the_same_question() -> None:
    question = f"Question: {prose('q', 80)}"
    first = ask(question, system=f"It is 12:01. {prose('s', 90)}")
    others = documents(5, ())
    for again in (
        ask(question, system=f"It is 12:02. {prose('s', 90)}"),
        ask(question, system=f"It is 12:01. {prose('s', 90)}", streams=True),
        ask(question, model="gpt-5-mini"),
        ask(question, tools=TOOLS),
        ask(question, "Answer now."),
        ask(question, wire="responses"),
        ask(question, wire="messages"),
    ):
        streams = b'"stream"' in again.request
        wire = {"/v1/responses": "responses", "/v1/messages": "messages"}.get(again.path, "chat")
        answer = well(again, streams=streams, wire=wire)
        for between in (0, 3):
            calls = [*others[:2], failed(first), *others[2 : 2 + between], answer]
            assert level(calls) is None, (again.request, between)
        assert level([*others[:2], failed(first), *others[2:]]) == "invalid"


def test_a_formula_that_ends_every_request_does_not_make_them_one() -> None:
    calls = [ask("Answer with a letter.", system=prose(str(n), 600)) for n in range(7)]
    lost = [failed(x) if n in (3, 5) else well(x) for n, x in enumerate(calls)]
    assert level(lost) == "invalid"


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


# --- agents --------------------------------------------------------------------------------


def turns(count: int, task: str = "Mend the parser.", page: str = "") -> list[Played]:
    """A conversation that grows with each call."""
    messages: list[Message] = [User(text=task)]
    calls = []
    for n in range(count):
        calls.append(well(ask(*messages, system=prose("agent", 2_000), tools=TOOLS), tool=True))
        text = f"{n} tests failed {page}" * 9
        messages += [Assistant(calls=(USED,)), ToolResult(call=USED, text=text)]
    return calls


def test_an_agent_that_goes_on_has_abandoned_nothing() -> None:
    calls = turns(6)
    for again in ([calls[3]], [], [failed(calls[3]), calls[3]]):
        life = play([*calls[:3], failed(calls[3]), *again, *calls[4:]])
        assert finding(life) is None
        assert life.verdict.scoreable == "yes"


def test_an_agent_that_begins_anew_or_compacts_has_abandoned_nothing() -> None:
    calls = turns(5)
    summary = ask(f"So far: {prose('sum', 300)}", system=prose("agent", 2_000), tools=TOOLS)
    for last in (failed(calls[4]), rejected(calls[4]), failed(calls[4], Fault.RATE_LIMIT)):
        broken = [*calls[:4], last]
        assert level([*broken, well(summary, tool=True)]) is None
        assert level([*broken, *calls]) is None, "it begins anew"
        assert level([*broken, calls[2]]) is None, "it takes turns back"


def test_an_agent_of_one_call_that_asks_in_other_words_has_abandoned_nothing() -> None:
    for first, then in (
        (ask("It is 12:01. Mend it."), ask("It is 12:02. Mend it.")),
        (ask(prose("a", 900)), ask(prose("b", 900))),
        (ask(prose("a", 900), tools=TOOLS), ask(prose("b", 300), tools=TOOLS)),
    ):
        assert level([failed(first), well(then)]) is None
        assert level([failed(first), failed(first), well(then)]) is None


def test_a_title_that_failed_is_no_abandoned_request() -> None:
    calls = turns(5)
    for title in (ask("Give it a title."), ask(prose("title", 900), system="Give it a title.")):
        assert level([calls[0], failed(title), *calls[1:]]) is None
        assert level([failed(title), *calls]) is None
        other = ask("Give it a title.", model="gpt-5-mini")
        assert level([calls[0], failed(other), *calls[1:]]) is None


def test_a_prompt_that_grows_with_every_step_is_one_conversation() -> None:
    steps = [ask(prose("instructions", 700) + f" step {n}" * (n + 1)) for n in range(6)]
    calls = [failed(x) if n == 3 else well(x) for n, x in enumerate(steps)]
    assert level(calls) is None


def test_a_sub_agent_that_died_is_suspect() -> None:
    main = turns(5)
    helper = turns(3, task="Find the callers.", page="of the callers")
    calls = [*main[:2], *helper[:2], failed(helper[2]), *main[2:]]
    found = finding(play(calls))
    assert found is not None
    assert (found.level, found.calls, found.about) == ("suspect", 1, {"independent": False})
    assert play(calls).verdict.scoreable == "yes"
    # Another one that begins may be it, in other words.
    other = turns(2, task="Find whoever calls.", page="of others")
    assert level([*calls[:5], *other, *main[2:]]) is None


def test_a_conversation_that_the_server_keeps_is_not_known() -> None:
    body = {"model": "gpt-5", "input": [{"role": "user", "content": prose("q", 600)}]}
    calls = []
    for n in range(6):
        said = (
            body
            | ({"previous_response_id": f"resp_{n}"} if n else {})
            | {"input": [{"role": "user", "content": prose(str(n), 600)}]}
        )
        asked = Played(upstream="openai", path="/v1/responses", request=json.dumps(said).encode())
        calls.append(failed(asked, wire="responses") if n == 3 else well(asked, wire="responses"))
    assert level(calls) is None


@each("api", Api)
def test_the_last_failures_are_left_to_the_rules(api: Api) -> None:
    wire = next(name for name, each in WIRES.items() if each is api)
    life = play(documents(7, {5, 6}, wire=wire))
    assert (life.verdict.rule, finding(life)) == ("interrupted", None)
    assert life.verdict.health == "api_error"


# --- through a running service -------------------------------------------------------------


def evaluated(
    service: Service, *, of: int, lost: Iterable[int], again: bool, agents: str = "trusted"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask questions as lm-eval does, each alone, some at once; those ``lost`` fail with 503 once.

    Returns:
        The verdict, and the result.
    """
    failing = [f"Question {n:03}:".encode() for n in lost]
    lock = threading.Lock()

    def answer(request: Request) -> Answer:
        with lock:
            struck = next((each for each in failing if each in request.body), None)
            if struck is not None:
                failing.remove(struck)
        return FAILURES[Api.CHAT][Fault.PROVIDER_ERROR] if struck else chat()

    name = f"eval-{of}-{again}-{agents}"
    policy = {"agents": agents}
    body = {"id": name, "batch": name, "model": "gpt-5", "upstream": "openai", "policy": policy}
    service.http.post("/rollouts", json=body).raise_for_status()
    service.provider.plays(answer)
    asked = documents(of, ())

    def post(each: Played) -> int:
        path = f"/r/{name}/openai{each.path}"
        return service.http.post(path, content=each.request).status_code

    with ThreadPoolExecutor(1 if of < 50 else 12) as pool:
        statuses = list(pool.map(post, asked))
        if again:
            missed = [x for x, status in zip(asked, statuses, strict=True) if status == 503]
            assert set(pool.map(post, missed)) == {200}
    reward = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.5}}
    service.http.post(f"/rollouts/{name}/outcome", json=reward).raise_for_status()
    return service.get(f"/rollouts/{name}/verdict"), service.get(f"/rollouts/{name}/result")


def told(verdict: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return level, calls and requests of the finding; answers of a fake are all alike."""
    return [
        (each["level"], each["calls"], each["of"])
        for each in verdict["validity"]
        if each["check"] == REQUESTS_ABANDONED
    ]


def test_an_evaluator_that_loses_documents_is_told(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        verdict, result = evaluated(service, of=7, lost={1, 3, 4}, again=False)
        assert (verdict["health"], verdict["scoreable"]) == ("healthy", "no")
        assert told(verdict) == [("invalid", 3, 7)]
        assert result["rewards"] is None
        assert "requests_abandoned" in result["error"]
        verdict, result = evaluated(service, of=7, lost={1, 3, 4}, again=True)
        assert (verdict["scoreable"], told(verdict), result["rewards"]) == (
            "yes", [], {"reward": 0.5},
        )  # fmt: skip
        assert verdict["recovered_requests"] == 3
        verdict, _ = evaluated(service, of=7, lost={1, 3}, again=False, agents="untrusted")
        assert verdict["scoreable"] != "no"


@pytest.mark.slow
def test_so_is_one_that_asks_some_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        verdict, _ = evaluated(service, of=60, lost={20}, again=False)
        assert (verdict["scoreable"], told(verdict)) == ("yes", [("suspect", 1, 60)])
        verdict, _ = evaluated(service, of=60, lost=range(10, 30), again=True)
        assert (verdict["scoreable"], told(verdict)) == ("yes", [])
