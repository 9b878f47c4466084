"""One series of reference calls: what is asked, of whom, and what its answers prove."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import Attribution, Ending
from classifier.reference_rules import AskedName
from classifier.references import (
    CUT_SHORT,
    OTHER_WORDS,
    REFERENCE,
    WORDLESS,
    ReferenceCall,
)
from classifier.verdicts import Subcategory
from proxy.asking.questioner import AskedLane, Questioner, result_of
from proxy.asking.ways import Way
from proxy.outbound.transport import Http1Transport
from tests.fakes import answers, replies
from tests.fakes.answers import Api
from tests.fakes.provider import (
    Answer,
    Cut,
    Hang,
    Played,
    Provider,
    Request,
    Wait,
    closed_port,
)
from tests.fakes.relaying import Book, make_context
from tests.fakes.replies import Finish, Reply

CHAT = Way("openai.chat")
READY = answers.obeying(answers.chat())
LANE = AskedLane(upstream="openai", name=AskedName("gpt-5"), way=CHAT)
STREAMED = replace(LANE, way=replace(CHAT, streamed=True))
KEYS = {"openai": "sk-operator", "anthropic": "sk-ant-operator", "gemini": "operator-key"}


def ask(
    provider: str, lane: AskedLane = LANE, *, side_by_side: bool = False, **rules: Any
) -> tuple[list[ReferenceCall], Book]:
    """One series, and what was recorded of it."""
    book = Book()

    async def series() -> list[ReferenceCall]:
        async with Http1Transport() as transport:
            context = make_context(provider, book, transport=transport, real_keys=KEYS, **rules)
            return await Questioner(context).series(lane, side_by_side=side_by_side)

    return asyncio.run(series()), book


def results(calls: list[ReferenceCall]) -> list[bool | None]:
    return [call.answered for call in calls]


def test_three_plain_questions_are_asked_with_the_operators_key() -> None:
    with Provider(answers.healthy) as provider:
        calls, book = ask(provider.url)
        assert results(calls) == [True, True, True]
        assert provider.connections == 3
    bodies = [json.loads(each.body) for each in provider.requests]
    assert {each.header("authorization") for each in provider.requests} == {"Bearer sk-operator"}
    assert {(body["model"], body["max_tokens"]) for body in bodies} == {("gpt-5", 16)}
    assert len({body["messages"][0]["content"] for body in bodies}) == 3  # each has its number
    assert [x.id for x in book.exchanges] == [call.exchange_id for call in calls]
    assert {(x.rollout_id, x.attribution, x.role) for x in book.exchanges} == {
        (REFERENCE, Attribution.REFERENCE, "reference")
    }


@pytest.mark.parametrize(
    ("upstream", "api", "model", "path", "key"),
    [
        ("openai", "openai.chat", "gpt-5", "/v1/chat/completions", "authorization"),
        ("openai", "openai.responses", "gpt-5", "/v1/responses", "authorization"),
        ("anthropic", "anthropic.messages", "claude-x", "/v1/messages", "x-api-key"),
        ("gemini", "gemini.generateContent", "gemini-3-pro",
         "/v1beta/models/gemini-3-pro:generateContent", "x-goog-api-key"),
    ],
)  # fmt: skip
def test_each_dialect_is_asked_at_its_own_path_and_read(
    upstream: str, api: str, model: str, path: str, key: str
) -> None:
    lane = AskedLane(upstream=upstream, name=AskedName(model), way=Way(api))
    with Provider(answers.healthy) as provider:
        calls, _ = ask(provider.url, lane)
    assert results(calls) == [True, True, True]
    assert {each.path for each in provider.requests} == {path}
    assert all(KEYS[upstream] in (each.header(key) or "") for each in provider.requests)


def test_a_lane_that_streams_is_asked_for_streams() -> None:
    with Provider(answers.healthy) as provider:
        calls, book = ask(provider.url, STREAMED)
    assert results(calls) == [True, True, True]
    assert all(json.loads(each.body)["stream"] for each in provider.requests)
    assert {x.streamed for x in book.exchanges} == {True}
    begun = answers.streamed(b": ok\n\n").stopping_after(1, Cut())
    with Provider(begun) as provider:
        (call,), _ = ask(provider.url, STREAMED)
    assert (call.answered, call.subcategory) == (False, Subcategory.PROVIDER_ERROR)


@pytest.mark.parametrize(
    ("answer", "subcategory"),
    [
        (answers.whole({"error": {"message": "overloaded"}}, 503), Subcategory.PROVIDER_ERROR),
        (answers.whole({"error": {"code": "invalid_api_key", "message": "Incorrect API key"}}, 401),
         Subcategory.AUTH),
        (Answer(body=(Cut(),), length=10), Subcategory.PROVIDER_ERROR),
    ],
)  # fmt: skip
def test_a_series_ends_with_the_first_that_fails(answer: Answer, subcategory: str) -> None:
    with Provider(READY, answer, READY) as provider:
        calls, book = ask(provider.url)
        assert len(provider.requests) == 2
    assert results(calls) == [True, False]
    assert (calls[1].subcategory, calls[1].explained) == (subcategory, False)
    assert book.exchanges[-1].failed


@pytest.mark.parametrize(
    "answer",
    [
        answers.whole({}),
        answers.whole({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}),
        Answer(status=302, headers=(("location", "https://login.example/"),)),
    ],
)
def test_an_answer_without_output_is_wordless_and_ends_the_series(answer: Answer) -> None:
    with Provider(READY, answer, READY) as provider:
        calls, _ = ask(provider.url)
    assert results(calls) == [True, None]
    assert [call.reason for call in calls] == [None, WORDLESS]


def test_a_dead_upstream_fails_without_an_answer() -> None:
    (call,), book = ask(f"http://127.0.0.1:{closed_port()}")
    assert (call.answered, call.subcategory) == (False, Subcategory.PROVIDER_ERROR)
    assert book.only.ending is Ending.NEVER_CONNECTED


NO_SUCH_LIMIT = answers.whole(
    {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this "
                          "model. Use 'max_completion_tokens' instead.",
               "type": "invalid_request_error", "param": "max_tokens",
               "code": "unsupported_parameter"}}, 400,
)  # fmt: skip


def test_a_limit_that_the_model_refuses_is_raised_once() -> None:
    with Provider(NO_SUCH_LIMIT, READY) as provider:
        calls, _ = ask(provider.url)
        bodies = [json.loads(each.body) for each in provider.requests]
    assert results(calls) == [True, True, True]
    assert [body.get("max_completion_tokens") for body in bodies] == [None, 512, 512, 512]


def test_a_refused_limit_is_raised_though_another_question_has_learnt_it_meanwhile() -> None:
    book, second_came, learnt = Book(), threading.Event(), threading.Event()
    waits = iter((Wait(second_came), Wait(learnt)))

    def model(request: Request) -> Played:
        if b"max_completion_tokens" in request.body:
            return READY
        wait = next(waits, Wait(learnt))
        if wait.until is learnt:
            second_came.set()
        return (wait, *NO_SUCH_LIMIT.steps("POST"))

    async def series(provider: str) -> list[ReferenceCall]:
        async with Http1Transport() as transport:
            context = make_context(provider, book, transport=transport, real_keys=KEYS)
            asking = asyncio.ensure_future(Questioner(context).series(LANE, side_by_side=True))
            await asyncio.to_thread(book.wait_for, 2)  # the first question, asked twice
            learnt.set()
            return await asking

    with Provider(model) as provider:
        calls = asyncio.run(series(provider.url))
    assert results(calls) == [True, True, True]


def test_a_question_that_is_refused_itself_says_so() -> None:
    missing = answers.whole({"detail": "Not Found"}, 404)
    with Provider(missing) as provider:
        (call,), _ = ask(provider.url)
    assert call.answered is False
    assert call.explained == (call.subcategory is Subcategory.REJECTED_REQUEST)


@pytest.mark.parametrize(
    ("header", "answered"),
    [
        (("age", "12"), None), (("age", "0"), True),
        (("x-cache", "HIT from edge"), None), (("x-cache", "MISS"), True),
        (("cf-aig-cache-status", "HIT"), None), (("x-litellm-cache-key", "0ff"), None),
    ],
)  # fmt: skip
def test_an_answer_from_a_cache_is_no_evidence(
    header: tuple[str, str], answered: bool | None
) -> None:
    with Provider(READY.with_headers(header)) as provider:
        calls, _ = ask(provider.url)
    assert calls[0].answered is answered
    assert len(calls) == (3 if answered else 1)


def test_an_answer_by_another_model_is_no_evidence() -> None:
    lane = replace(LANE, answered_as=("gpt-5-2026",))
    with Provider(answers.obeying(answers.chat("gpt-4o-mini"))) as provider:
        (call,), _ = ask(provider.url, lane)
    assert call.answered is None
    with Provider(answers.obeying(answers.chat("gpt-5-2026"))) as provider:
        calls, _ = ask(provider.url, lane)
    assert results(calls) == [True, True, True]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("text", "finish", "reasons"),
    [
        ("Ready.", "stop", [None] * 3),
        ("Try again later", "stop", [OTHER_WORDS]),
        ("bla bla bla bla", "length", [CUT_SHORT]),
        ("", "length", [None] * 3),  # all of it was thinking
    ],
)
def test_an_answer_without_the_word_is_none(
    text: str, finish: Finish, reasons: list[str | None], *, streamed: bool
) -> None:
    reply = Reply(
        model="gpt-5", input_tokens=18, output_tokens=16 if finish == "length" else 4,
        finish=Finish(finish), text=tuple(text), reasoning="" if text else "Let me see",
    )  # fmt: skip
    lane = STREAMED if streamed else LANE
    with Provider(replies.answer(Api.CHAT, reply, streams=streamed)) as provider:
        calls, _ = ask(provider.url, lane)
        bodies = [json.loads(each.body) for each in provider.requests]
    assert [call.reason for call in calls] == reasons
    assert results(calls) == [None if each else True for each in reasons]
    assert ("max_completion_tokens" in bodies[-1]) == (reasons == [CUT_SHORT])  # asked for more


def test_a_model_that_continues_a_text_owes_no_word() -> None:
    lane = replace(LANE, way=Way("openai.completions"))
    said = answers.whole({"object": "text_completion", "model": "gpt-5",
                          "choices": [{"text": " and so", "finish_reason": "length"}]})  # fmt: skip
    with Provider(said) as provider:
        calls, _ = ask(provider.url, lane)
    assert results(calls) == [True, True, True]


def test_questions_about_silence_are_asked_side_by_side() -> None:
    silent = Answer(body=(Hang(),), length=10)
    with Provider(silent) as provider:
        book = Book()

        async def cancelled() -> None:
            async with Http1Transport() as transport:
                context = make_context(provider.url, book, transport=transport, real_keys=KEYS)
                asking = Questioner(context).series(LANE, side_by_side=True)
                task = asyncio.ensure_future(asking)
                await asyncio.to_thread(provider.wait_for, 3)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(cancelled())
    # A series that is stopped leaves nothing open, and what it asked is no evidence.
    assert [x.ending for x in book.wait_for(3)] == [Ending.LOST] * 3
    assert [result_of(x).answered for x in book.exchanges] == [None] * 3
