"""Calls that wait for their turn, through a service and on to the verdict."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fakes import answers, caller
from tests.fakes.provider import Provider, Wait
from tests.journeys.service import Service

CHAT = "/v1/chat/completions"
ONE_AT_ONCE = "[upstreams.openai]\npace = {{concurrency = 1}}\nurl = '{url}'\n"


@pytest.mark.slow
def test_an_agent_that_hangs_up_while_held_left_nobody_and_is_held_less_from_then_on(
    tmp_path: Path,
) -> None:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
    go = threading.Event()
    with Provider(answers.healthy) as provider:
        (tmp_path / "truezero.toml").write_text(ONE_AT_ONCE.format(url=provider.url))
        with Service(tmp_path, provider.url) as service, ThreadPoolExecutor() as pool:
            url = service.base("left", "openai") + CHAT
            assert caller.post(url, json=body).status_code == 200
            provider.plays(answers.chat().stopping_after(0, Wait(go)), answers.chat())
            busy = pool.submit(caller.post, service.base("busy", "openai") + CHAT, json=body)
            provider.wait_for(2)
            with pytest.raises(httpx.ReadTimeout):
                caller.post(url, json=body, timeout=caller.LEAVES)
            again = caller.post(service.base("left", "openai") + CHAT, json=body)
            assert again.status_code == 200, "none is refused in the provider's name"
            assert len(provider.requests) == 3, "what was left was sent"
            go.set()
            assert busy.result().status_code == 200
            answered, left, next_one = service.exchanges("left")
            verdict = service.verdict("left")
    assert (answered["ending"], answered["held_s"]) == ("complete", 0)
    assert (left["ending"], left["status"], left["subcategory"]) == ("left_while_held", None, None)
    assert left["held_s"] > 0
    # The default is 30 s; half of the time after which it had left.
    assert 0 < next_one["held_s"] < 10
    assert verdict["error_category"] is verdict["subcategory"] is None
    assert not {"left_by_agent", "stalled"} & {*verdict["warnings"], left["ending"]}
    # Cut out of seconds since 1970, which a float knows to a quarter of a microsecond.
    assert verdict["held_s"] == pytest.approx(left["held_s"] + next_one["held_s"], abs=3e-6)
