"""Handshakes of WebSockets that wait for their turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from classifier.records import Ending
from proxy.features.pace.settings import GivenPace
from tests.fakes.agent_sockets import PATIENCE_S, mute, opened, refusal
from tests.fakes.talker import Talker
from tests.features.pace.test_paced_call import paced, thousandths


@pytest.fixture
def talker() -> Iterator[Talker]:
    with Talker() as running:
        yield running


REALTIME = "/v1/realtime?model=gpt-realtime"
STATED = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "60s",
}


def test_a_handshake_waits_for_its_turn_and_its_wait_is_on_record(talker: Talker) -> None:
    with paced(talker.url, GivenPace(requests_per_minute=1), patience_s=0.05) as relay:
        for _ in range(2):
            with opened(relay, REALTIME):
                pass
        first, second = relay.book.wait_for(2)
        assert len(talker.upgrades) == 2
    assert first.held_s == 0
    assert (second.held_s or 0) >= 0.04
    assert (second.timing.duration_s or 0) < PATIENCE_S
    assert second.timing.started_at >= first.timing.started_at + (second.held_s or 0)


def test_what_the_answer_to_a_handshake_states_is_kept(talker: Talker) -> None:
    talker.headers = STATED
    with paced(talker.url, GivenPace(), clock=thousandths) as relay:
        with opened(relay, REALTIME):
            pass
        with pytest.raises(TimeoutError), opened(relay, REALTIME, open_timeout=1):
            pass
        left = relay.book.wait_for(2)[1]
        with opened(relay, "/v1/realtime?model=another"):  # of another lane
            pass
        assert len(talker.upgrades) == 2
    assert (left.ending, left.cause, left.status) == (Ending.LEFT_WHILE_HELD, None, None)
    assert (left.held_s or 0) > 0


def test_a_refused_handshake_has_the_next_one_wait_as_long_as_it_says(talker: Talker) -> None:
    talker.refuses(429, b'{"error": {"code": "rate_limit_exceeded"}}', retry_after="60")
    with paced(talker.url, GivenPace(), patience_s=0.05) as relay:
        refused = [refusal(relay, REALTIME) for _ in range(2)]
        held = [each.held_s or 0 for each in relay.book.wait_for(2)]
    assert [(each.status_code, each.headers["retry-after"]) for each in refused] == [
        (429, "60")
    ] * 2
    assert held[0] == 0
    assert held[1] >= 0.04


def test_a_handshake_that_ends_otherwise_gives_its_turn_back() -> None:
    with mute(None) as url, paced(url, GivenPace(concurrency=1)) as relay:
        for count in (1, 2):  # the second is sent too, and waits for the provider
            with pytest.raises(TimeoutError), opened(relay, REALTIME, open_timeout=1):
                pass
            relay.book.wait_for(count)
        first, second = relay.book.exchanges
    assert [first.ending, second.ending] == [Ending.LEFT_BY_AGENT] * 2
    assert second.held_s == 0
