"""The sockets of a rollout in all processes are closed once it has ended."""

from __future__ import annotations

import threading

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from proxy.routing.upstreams import Upstream, allow_list
from tests.fakes import answers
from tests.fakes.provider import Hang
from tests.fakes.talker import Talker, create
from tests.proxy import inside
from tests.proxy.api.test_routes import PATIENCE_S, Service
from tests.proxy.server.test_closer import delete, end, register
from tests.waiting import until


@pytest.mark.parametrize("way", ["outcome", "key"])
def test_a_socket_at_the_other_is_closed_before_the_answer(
    pair: tuple[Service, Service], way: str
) -> None:
    one, other = pair
    name = f"socket-{way}"
    key = register(one, name)
    assert other.app is not None
    heard: list[str | bytes] = []
    with Talker(heard.extend) as talker:
        upstreams = inside.relaying(other.app).upstreams
        kept, upstreams["openai"] = upstreams["openai"], _at(upstreams["openai"], talker.url)  # type: ignore[index]
        url = f"{str(other.http.base_url).replace('http', 'ws', 1)}/openai/v1/responses"
        try:
            with connect(url, proxy=None, close_timeout=1, additional_headers=key) as agent:
                agent.send(create())
                until(lambda: heard)
                end(one, name) if way == "outcome" else delete(one, key)
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        agent.send(create())
                        agent.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "rollout_ended")
            assert talker.ended.wait(PATIENCE_S)
            assert len(heard) == 1
            with pytest.raises(InvalidStatus) as refused:
                connect(url, proxy=None, additional_headers=key)
            assert refused.value.response.status_code == 403
        finally:
            upstreams["openai"] = kept  # type: ignore[index]
    upgrade, call = one.get(f"/rollouts/{name}/exchanges")["items"]
    assert (upgrade["status"], call["ending"]) == (101, "closed_at_outcome")


def test_an_upgrade_that_is_not_answered_is_refused_when_the_rollout_ends(
    pair: tuple[Service, Service],
) -> None:
    one, other = pair
    key, refused = register(one, "upgrade"), list[InvalidStatus]()
    other.provider.plays((Hang(),))
    heard = len(other.provider.requests)
    url = f"{str(other.http.base_url).replace('http', 'ws', 1)}/openai/v1/responses"

    def ask() -> None:
        try:
            connect(url, proxy=None, additional_headers=key, open_timeout=PATIENCE_S)
        except InvalidStatus as error:
            refused.append(error)

    agent = threading.Thread(target=ask)
    agent.start()
    other.provider.wait_for(heard + 1)
    end(one, "upgrade")
    agent.join()
    assert refused[0].response.headers["x-truezero-refusal"] == "rollout_ended"
    (upgrade,) = one.get("/rollouts/upgrade/exchanges")["items"]
    assert upgrade["ending"] == "closed_at_outcome"
    other.provider.plays(answers.healthy)


def _at(upstream: Upstream, url: str) -> Upstream:
    return allow_list({upstream.name: {"url": url}})[upstream.name]
