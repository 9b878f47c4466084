"""The ways in which calls asked are known to every process, and hold neither texts nor keys."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from classifier.records import AnswerState, Attribution, Exchange
from proxy.asking.questions import question
from proxy.asking.ways import NAME, Way, Ways
from proxy.routing.headers import Pairs
from proxy.routing.target import Target
from proxy.routing.upstreams import BUILT_IN
from proxy.store.database import Database
from proxy.store.errors import StoreError
from proxy.wire.request import asked_with, in_head
from proxy.wire.routes import route
from tests.builders import calls

FLEX = {"service_tier": "flex"}
BETA = [(b"anthropic-beta", b"a-2031-01-01, b-2031")]
_numbers = itertools.count()


def note(
    ways: Ways, exchange: Exchange, *, path: str = "/v1/chat/completions", query: bytes = b"",
    headers: Pairs | None = None, body: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    target = Target(
        rollout_id=exchange.rollout_id, upstream=BUILT_IN["openai"], role="agent",
        path=path.encode(), query=query, attribution=Attribution.PATH, proven=True,
    )  # fmt: skip
    exchange = replace(exchange, api=route("POST", path.encode()).api)
    head = in_head(dict(headers or []), query, operators_key=True)
    ways.note(exchange, target, headers or [], head, asked_with(dict(body or {})))


def noted(database: Database, take: Callable[[Ways], None]) -> Ways:
    """Have one process note, and return what another one knows."""

    async def process() -> None:
        ways = Ways(database.references)
        take(ways)
        await ways.store()

    asyncio.run(process())
    return Ways(database.references)


def way_of(database: Database, **asked: Any) -> Way:
    """The way that is kept of a failed call."""
    (failed,) = calls("503@m")
    failed = replace(failed, id=f"x{next(_numbers)}")
    return noted(database, lambda ways: note(ways, failed, **asked)).of(failed)


def test_another_process_asks_as_the_failed_call_did(database: Database) -> None:
    answered, failed = calls("200 503")
    other = noted(
        database,
        lambda ways: note(ways, failed, path="/beta/chat/completions", headers=BETA, body=FLEX),
    )
    asked = Way(
        "openai.chat", path="/beta/chat/completions", fields=(("service_tier", b'"flex"'),),
        headers=(("anthropic-beta", b"a-2031-01-01, b-2031"),),
    )  # fmt: skip
    assert other.of(failed) == asked
    assert other.of_rollouts("openai", "openai/gpt-5", [failed.rollout_id, "none"]) == {
        asked: {failed.rollout_id}
    }
    assert other.of_rollouts("openai", "gpt-5", ["none"]) == {}
    assert other.last_used("openai", "gpt-5") == asked
    assert other.last_used("openai", "o3") is None
    assert other.of(answered) == Way("openai.chat")  # nobody noted it: its API's


def test_a_way_is_stored_once_for_answered_calls_and_for_each_that_failed(
    database: Database,
) -> None:
    ok, bad = calls("200 503")
    ok = replace(ok, answer_state=AnswerState.READ)

    def several(ways: Ways) -> None:
        for at in range(3):
            note(ways, replace(ok, id=f"ok{at}"))
            note(ways, replace(bad, id=f"bad{at}"))

    noted(database, several)
    known = [database.references.way_of(f"{name}{at}") for name in ("ok", "bad") for at in range(3)]
    assert [each is not None for each in known] == [True, False, False, True, True, True]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({"path": "/v1/a b/chat/completions"}, {"path": None}),
        ({"path": "/sk-proj-0123456789abcdef01/chat/completions"}, {"path": None}),
        ({"path": "/openai/deployments/mine/chat/completions"},
         {"path": f"/openai/deployments/{NAME}/chat/completions"}),
        ({"path": "/v1/answers"}, {"path": "/v1/answers"}),
        ({"path": "/v1/answers/Moon7isRound"}, {"path": None}),
        ({"path": "/Moon7isRound/v1/projects/p-1/chat/completions"},
         {"path": "/Moon7isRound/v1/projects/p-1/chat/completions"}),
        ({"query": b"a=1&api-version=2024-10-21&key=sk-1"}, {"query": b"api-version=2024-10-21"}),
        ({"query": b"alt=sse&key=sk-1"}, {"query": b""}),
        ({"query": b"api-version=2024-10-21%0d%0a"}, {"query": b""}),
        ({"query": b"api-version=sk-1"}, {"query": b""}),
        ({"headers": [(b"x-portkey-config", b"the moon is round")]}, {"headers": ()}),
        ({"headers": [(b"x-portkey-config", b"pc-1"), (b"x-other", b"1")]},
         {"headers": (("x-portkey-config", b"pc-1"),)}),
        ({"body": {"provider": {"key": "sk-or-0123456789abcdef01"}}}, {"fields": ()}),
        ({"body": {"provider": {"only": ["p"]}, "models": ["n"], "metadata": {"a": "b"}}},
         {"fields": (("provider", b'{"only":["p"]}'),)}),
        ({"body": {"reasoning": {"effort": "low", "summary": "the agent's own words"}}},
         {"fields": (("reasoning", b'{"effort":"low"}'),)}),
    ],
)  # fmt: skip
def test_what_may_be_a_text_or_a_key_is_not_kept(
    database: Database, asked: dict[str, Any], kept: dict[str, Any]
) -> None:
    way = way_of(database, **asked)
    assert {name: getattr(way, name) for name in kept} == kept


def test_a_version_that_an_sdk_sends_is_repeated_and_no_other(database: Database) -> None:
    for sent, asked in ((b"2026-10-21", b"2026-10-21"), (b"1999-01-01", b"2023-06-01")):
        way = way_of(database, path="/v1/messages", headers=[(b"anthropic-version", sent)])
        versions = [
            value for name, value in question(way, model="m", number=1).headers
            if name == b"anthropic-version"
        ]  # fmt: skip
        assert versions == [asked]
        assert way.shape.version is None


def test_a_question_repeats_tier_beta_and_effort(database: Database) -> None:
    body = {"service_tier": "flex", "reasoning_effort": "high", "temperature": 1}
    way = way_of(database, headers=[(b"openai-beta", b"a=v2")], body=body)
    asked = question(way, model="m", number=1)
    sent = json.loads(asked.body)
    assert (sent["service_tier"], sent["reasoning_effort"]) == ("flex", "high")
    assert "temperature" not in sent
    assert (b"openai-beta", b"a=v2") in asked.headers


def test_ways_wait_while_the_database_is_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    (failed,) = calls("503")
    stored = database.references.note_ways

    async def process() -> None:
        ways = Ways(database.references)
        note(ways, failed, body=FLEX)
        with monkeypatch.context() as away:
            away.setattr(database.references, "note_ways", _away)
            with pytest.raises(StoreError):
                await ways.store()
        assert database.references.note_ways == stored
        assert ways.of(failed).fields == ()
        await ways.store()
        assert ways.of(failed).fields == (("service_tier", b'"flex"'),)

    asyncio.run(process())


def _away(*_: object) -> None:
    raise StoreError("busy")
