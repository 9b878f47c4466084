"""A call that names no rollout: relayed, recorded apart, counted and logged."""

from __future__ import annotations

import httpx as caller
import pytest

from classifier.records import UNATTRIBUTED, Attribution, KeySource
from proxy.inbound.asgi import RefusalCounter
from proxy.relay.context import RequestNotices, UnattributedCalls
from proxy.routing.addresses import LocalNames
from proxy.routing.errors import Refusal
from proxy.routing.upstreams import allow_list
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.fakes.relaying import KEYRING, relaying

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
OPENAI = allow_list({})["openai"]


def test_a_call_is_counted_and_logged_unless_a_page_makes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = UnattributedCalls(LocalNames())
    for _ in range(3):
        calls.admit(OPENAI, {b"host": b"localhost"})
    with pytest.raises(Refusal):
        calls.admit(OPENAI, {b"host": b"rebound.example"})
    assert calls.counts == {"openai": 3}
    (line,) = caplog.messages
    assert "names no rollout" in line
    assert "/r/ROLLOUT/UPSTREAM/…" in line
    assert line.endswith("openai")


def test_it_is_relayed_with_its_own_key_and_recorded_under_the_reserved_id() -> None:
    """Whatever the operator's keys are: by it anybody's page would spend them."""
    with Provider(answers.chat()) as provider:
        for replaces in (False, True):
            calls = UnattributedCalls(LocalNames(), RefusalCounter(""))
            with relaying(
                provider.url,
                notices=RequestNotices(unattributed=calls),
                real_keys={"openai": "sk-real", "gemini": "g-real"},
                replace_keys=replaces,
            ) as relay:
                own = {"authorization": "Bearer sk-own"}
                assert caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=own).is_success
                assert caller.post(relay.url + "/openai" + CHAT, json=ASK).is_success
                path = "/gemini/v1beta/models/m:generateContent?key=g-own"
                assert caller.post(relay.url + path, json={}).is_success
                assert caller.post(relay.url + "/openai/v1/files", json={}).is_success
            recorded = relay.book.exchanges
            assert {(x.rollout_id, x.attribution) for x in recorded} == {
                (UNATTRIBUTED, Attribution.UNATTRIBUTED)
            }
            assert KeySource.OPERATOR not in {x.key_source for x in recorded}
            assert KeySource.ADDED not in {x.key_source for x in recorded}
            assert calls.counts == {"openai": 3, "gemini": 1}
    shown = [request.header("authorization") for request in provider.requests]
    assert shown == ["Bearer sk-own", None, None, None] * 2
    assert "key=g-own" in provider.requests[2].target
    assert "real" not in repr(provider.requests)


def test_whoever_names_a_rollout_or_shows_a_wrong_key_is_not_one() -> None:
    calls = UnattributedCalls(LocalNames())
    with (
        Provider(answers.chat()) as provider,
        relaying(provider.url, notices=RequestNotices(unattributed=calls)) as relay,
    ):
        named = {"x-truezero-rollout": "r1"}
        assert caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=named).is_success
        wrong = {"x-truezero-key": KEYRING.mint("r1") + "x"}
        refused = caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=wrong)
        assert refused.headers["x-truezero-refusal"] == "unknown_key"
        for headers in ({"x-truezero-rollout": UNATTRIBUTED}, {"x-session-id": UNATTRIBUTED}):
            refused = caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=headers)
            assert refused.headers["x-truezero-refusal"] == "reserved_rollout"
        refused = caller.post(relay.base(UNATTRIBUTED) + CHAT, json=ASK)
        assert refused.headers["x-truezero-refusal"] == "reserved_rollout"
        refused = caller.post(relay.base(upstream="nowhere") + CHAT, json=ASK)
        assert refused.status_code == 404
        assert [x.rollout_id for x in relay.book.exchanges] == ["r1"]
    assert calls.counts == {}


def test_another_sites_page_gets_nothing_and_no_provider_hears_of_it() -> None:
    calls = UnattributedCalls(LocalNames())
    with (
        Provider(answers.chat()) as provider,
        relaying(provider.url, notices=RequestNotices(unattributed=calls)) as relay,
    ):
        for headers, code in (
            ({"origin": "https://site.example"}, "cross_origin"),
            ({"host": f"rebound.example:{relay.port}"}, "unknown_host"),
        ):
            refused = caller.post(relay.url + "/openai" + CHAT, json=ASK, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, code)
        assert provider.requests == []
        assert relay.book.exchanges == []
