"""Three services behind nginx on one PostgreSQL: a direct call's bytes, and nothing lost."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from benchmarks import cluster as faults
from proxy.routing.upstreams import RESERVED
from tests import cluster as topology
from tests.cluster import Cluster
from tests.fakes import answers
from tests.fakes.provider import Answer, Hang, Provider, Wait
from tests.fakes.talker import RESPONSES, Talker, answering, create
from tests.journeys.service import Service
from tests.journeys.test_durability import ASK
from tests.postgres import Server
from tests.waiting import until

BODY_LIMIT = 3_000_000
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def talker() -> Iterator[Talker]:
    with Talker() as running:
        yield running


@pytest.fixture(scope="module")
def home(
    _provider: Provider,
    talker: Talker,
    postgres_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    if topology.nginx_binary() is None:
        absent = "nginx is not installed here (Debian: apt-get install nginx)"
        if os.environ.get("CI"):
            pytest.fail(absent)
        pytest.skip(absent)
    settings = {"BODY_LIMIT": str(BODY_LIMIT), "UPSTREAM_VLLM": talker.url, **faults.SETTINGS}
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, _provider.url, postgres_server, **settings) as cluster:
        yield cluster


@pytest.fixture
def cluster(home: Cluster, provider: Provider) -> Cluster:
    return home


def base(cluster: Cluster, rollout: str) -> str:
    return str(cluster.register(id=rollout)["base_urls"]["openai"])


def call(base_url: str, **more: Any) -> httpx.Response:
    headers = {"authorization": "Bearer sk-1", **more.pop("headers", {})}
    url = f"{base_url}/chat/completions"
    return httpx.post(url, headers=headers, timeout=PATIENCE_S, **(more or {"json": ASK}))


def test_a_chunk_passes_before_the_next_one_exists(
    cluster: Cluster, provider: Provider, rollout: str
) -> None:
    heard = threading.Event()
    provider.plays(answers.chat_stream().stopping_after(1, Wait(heard)))
    url = f"{base(cluster, rollout)}/chat/completions"
    with httpx.stream("POST", url, json=ASK, timeout=PATIENCE_S) as answer:
        parts = answer.iter_raw()
        assert next(parts).startswith(b"data:")
        heard.set()
        assert b"".join(parts).endswith(b"data: [DONE]\n\n")


def test_a_request_reaches_the_provider_as_it_came(
    cluster: Cluster, provider: Provider, rollout: str
) -> None:
    url = base(cluster, f"{rollout}/a")  # `%2F` in the path
    own = {"session_id": "s-1", "x-odd_name": "1", "x-forwarded-for": "192.0.2.7"}
    assert call(f"{url}//twice%2Fit", json=ASK, headers=own).is_success
    (request,) = provider.requests
    assert request.path == "/v1//twice%2Fit/chat/completions"
    assert {name: request.header(name) for name in own} == own
    assert request.header("x-forwarded-proto") is None


def test_an_answer_comes_as_the_provider_gave_it_and_orders_nginx_nothing(
    cluster: Cluster, provider: Provider, rollout: str
) -> None:
    given = (
        ("server", "the-provider"), ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("x-accel-redirect", "/readyz"), ("x-accel-buffering", "yes"), ("x-pad", "x"),
    )  # fmt: skip
    plain = answers.chat()
    provider.plays(Answer(headers=(*plain.headers, *given), body=plain.body))
    answer = call(base(cluster, rollout))
    assert answer.content == plain.content
    assert {name: answer.headers.get(name) for name, _ in given} == dict(given)


def test_the_services_own_limit_of_a_body_holds_not_nginxs(cluster: Cluster, rollout: str) -> None:
    url = base(cluster, rollout)
    within = {**ASK, "padding": "x" * (BODY_LIMIT - 1000)}
    assert call(url, json=within).status_code == 200
    refused = call(url, content=b"x" * (BODY_LIMIT + 1))
    assert (refused.status_code, refused.headers["x-truezero-refusal"]) == (413, "body_too_large")


def test_a_websocket_passes(cluster: Cluster, talker: Talker, rollout: str) -> None:
    talker.script = answering(RESPONSES)
    url = base(cluster, rollout).replace("http://", "ws://").replace("/openai/", "/vllm/")
    with connect(f"{url}/responses", proxy=None, close_timeout=1) as socket:
        socket.send(create())
        assert [socket.recv(timeout=PATIENCE_S) for _ in RESPONSES] == RESPONSES


def test_the_token_opens_the_control_plane_and_a_secret_the_rollout(
    cluster: Cluster, rollout: str
) -> None:
    url = base(cluster, rollout)
    assert httpx.get(f"{cluster.url}/rollouts/{rollout}/verdict").status_code == 401
    unproven = call(re.sub("~[^/]+", "", url))
    assert unproven.headers["x-truezero-refusal"] == "unproven_rollout"
    assert call(url).status_code == 200


def test_agents_notice_nothing_of_a_service_that_was_ended_in_time(
    cluster: Cluster, rollout: str
) -> None:
    url = base(cluster, rollout)
    cluster.services[0].stop()
    try:
        assert {call(url).status_code for _ in range(12)} == {200}
    finally:
        cluster.services[0].start()


def test_a_request_that_a_dying_service_had_is_not_repeated(
    cluster: Cluster, provider: Provider, rollout: str
) -> None:
    """It has reached the provider, which may have answered it and wants to be paid."""
    url = base(cluster, rollout)
    provider.plays((Hang(),))
    given: list[httpx.Response] = []
    agent = threading.Thread(target=lambda: given.append(call(url)))
    agent.start()
    provider.wait_for(1)
    (serving,) = (service for service in cluster.services if in_flight(service) == 1)
    serving.kill()
    agent.join(PATIENCE_S)
    try:
        assert [answer.status_code for answer in given] == [502]
        assert "x-truezero-refusal" not in given[0].headers
        assert len(provider.requests) == 1
    finally:
        serving.start()
    # Another service may have begun to bury it, or the dead one's last commit may still go on.
    until(lambda: [each["ending"] for each in serving.exchanges(rollout)] == ["lost"])


def in_flight(service: Service) -> float:
    told = re.search(r"^truezero_calls_in_flight (\S+)", service.http.get("/metrics").text, re.M)
    assert told
    return float(told[1])


def test_nginx_knows_each_name_of_the_control_plane() -> None:
    """Agents' calls are told from it by these, where nginx says who asked."""
    text = topology.TEMPLATE.read_text()
    found = re.search(r'"~(\^.*)" 1;', text)
    assert found
    control = re.compile(found[1])
    for name in RESERVED - {"r", "as"}:
        assert control.match(f"/{name}/more") and control.match(f"/{name}?q"), name
    assert control.match("/") and control.match("/?next")
    assert not any(map(control.match, ("/r/x/openai", "/openai/v1", "/keys/v1", "//")))


@pytest.mark.slow
def test_killed_restarted_and_rolled_under_load_nothing_is_lost_and_no_verdict_is_wrong(
    cluster: Cluster, provider: Provider, tmp_path: Path
) -> None:
    """``python -m benchmarks.cluster`` does so for minutes: measurements/reliability.md."""
    provider.plays(faults.play)
    pace = faults.Pace(cycles=1, agents=12, down_s=1.0, calm_s=0.5)
    report = faults.run(cluster, provider, pace)
    seen = report.seen
    assert report.found.wrong == {}
    assert sum(made.finished for made in seen.attempts) > 100
    assert set(seen.rollouts.values()) == set(faults.Kind)
    cut = {what for _, what in seen.failed}
    assert cut <= {"cut after its head"}, seen.failed  # all else an SDK's retries mend
    assert {phase for phase, what in seen.failed} <= {faults.Phase.KILL}, seen.failed
    troubles = {what for _, what in seen.errors}
    assert troubles <= {"cut after its head", "502 by nginx"}, seen.errors
