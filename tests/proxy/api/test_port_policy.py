"""A port of its own for the control plane: what answers where, in processes as users run them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from prometheus_client.mmap_dict import MmapedDict
from websockets.sync.client import connect

from benchmarks.machine import family
from proxy.settings import Settings, SettingsError, load
from tests import forked
from tests.fakes import answers
from tests.fakes.agent_sockets import UPGRADE
from tests.fakes.provider import Provider, closed_port
from tests.fakes.talker import Talker
from tests.journeys.service import Service
from tests.proxy.api.test_routes import PATIENCE_S, PLAIN, client, problem
from tests.waiting import eventually

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
TOKEN = {"authorization": "Bearer t0ken"}

# Of each kind one: REST, pages, what people and programs look at, and what nobody serves.
CONTROL = (
    "/rollouts", "/rollouts/r1/verdict", "/rollouts/r1/exchanges", "/batches/b", "/fingerprints",
    "/key/info?key=x", "/", "/ui/rollouts", "/ui/sign-in", "/ui/static/page.css", "/docs", "/help",
    "/openapi.json", "/readyz", "/metrics", "/healthz/", "/nowhere",
)  # fmt: skip


class Ports(NamedTuple):
    """A service, a client of its control port, its agents' provider, how many workers it has."""

    service: Service
    control: httpx.Client
    provider: Provider
    workers: int


@contextmanager
def two_ports(home: Path, **settings: str) -> Iterator[Ports]:
    port = closed_port()
    with (
        Provider(answers.healthy) as provider,
        Service(home, provider.url, CONTROL_PORT=str(port), **settings) as service,
        client(f"http://127.0.0.1:{port}") as control,
    ):
        yield Ports(service, control, provider, int(settings["WORKERS"]))


SEVERAL = [pytest.param(given, marks=pytest.mark.slow) for given in (("2", ""), ("1", "true"))]


# Workers, and whether the control plane has a process of its own.
@pytest.fixture(scope="module", params=[("1", ""), *SEVERAL])
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ports]:
    home = tmp_path_factory.mktemp("ports")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home))  # where workers add up their numbers
        workers, apart = request.param
        apart = {"CONTROL_PROCESS": apart} if apart else {}
        with two_ports(home, WORKERS=workers, ADMIN_TOKEN="t0ken", **apart) as running:
            yield running
    assert not list(home.glob("truezero-metrics-*")), "which go with them"


def ask(url: str, **how: Any) -> httpx.Response:
    """A GET on a connection of its own, which any worker may take."""
    return httpx.get(url, verify=PLAIN, timeout=PATIENCE_S, **how)


def send(url: str, **how: Any) -> httpx.Response:
    """The same as a POST."""
    return httpx.post(url, verify=PLAIN, timeout=PATIENCE_S, **how)


@pytest.mark.parametrize("path", CONTROL)
def test_the_agents_port_answers_nothing_of_the_control_plane(ports: Ports, path: str) -> None:
    """Not to the operator either: a leaked token is worth nothing where agents are."""
    service = ports.service
    for headers in ({}, TOKEN, {**TOKEN, "host": "localhost:1", "accept": "text/html"}):
        problem(ask(service.url + path, headers=headers), 404, "agents_only")


@pytest.mark.parametrize("path", ["/rollouts", "/key/generate", "/rollouts/r1/outcome"])
def test_nothing_is_changed_through_the_agents_port(ports: Ports, path: str) -> None:
    service = ports.service
    problem(send(service.url + path, json={}, headers=TOKEN), 404, "agents_only")


def test_the_control_port_answers_no_agent(ports: Ports) -> None:
    service, control, *_ = ports
    registered = control.post("/rollouts", json={"id": "here"}, headers=TOKEN).json()
    path = registered["base_urls"]["openai"].removeprefix(service.url) + "/chat/completions"
    assert control.post(path, json=ASK).status_code == 401
    assert control.post(path, json=ASK, headers=TOKEN).status_code == 404
    key = {"x-api-key": registered["key"], **TOKEN}
    assert control.post("/openai" + CHAT, json=ASK, headers=key).status_code == 404
    assert control.get(path, headers={**TOKEN, **UPGRADE}).status_code in (403, 404)
    assert control.get("/rollouts/here/exchanges", headers=TOKEN).json()["items"] == []


def test_registration_at_the_one_port_leads_agents_to_the_other(ports: Ports) -> None:
    service, control, *_ = ports
    registered = control.post("/rollouts", json={"id": "led"}, headers=TOKEN).json()
    base = registered["base_urls"]["openai"]
    assert base.startswith(f"{service.url}/r/led~")
    assert send(base + "/chat/completions", json=ASK).status_code == 200
    verdict = control.get("/rollouts/led/verdict", headers=TOKEN).json()
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)


def test_both_ports_say_that_the_process_lives(ports: Ports) -> None:
    service, control, *_ = ports
    assert ask(service.url + "/healthz").status_code == 200
    assert control.get("/healthz").status_code == 200
    assert control.get("/readyz").status_code == 200
    problem(control.get("/rollouts"), 401, "unauthorized")


def test_the_log_tells_both_addresses(ports: Ports) -> None:
    service, control, *_ = ports
    said = service.log()
    assert f"truezero listening on {service.url}" in said
    assert str(control.base_url).rstrip("/") in said


class Unguarded(NamedTuple):
    """A service without a token, its control port, a provider of sockets, its first page."""

    service: Service
    control: str
    talker: Talker
    newcomers: str


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unguarded]:
    port = closed_port()
    control = f"http://127.0.0.1:{port}"
    with (
        Talker() as talker,
        Service(tmp_path_factory.mktemp("open"), talker.url, CONTROL_PORT=str(port)) as service,
    ):
        page = ask(control, headers={"accept": "text/html"}).text
        yield Unguarded(service, control, talker, page)


@pytest.mark.slow
def test_sockets_are_opened_at_the_agents_port_only(unguarded: Unguarded) -> None:
    service = unguarded.service
    path = "/r/r1/openai/v1/responses"
    with connect(service.url.replace("http", "ws") + path, proxy=None) as agent:
        agent.send("{}")
        assert agent.recv(PATIENCE_S) == "{}"
    assert ask(unguarded.control + path, headers=UPGRADE).status_code == 403
    assert len(unguarded.talker.upgrades) == 1


@pytest.mark.slow
def test_without_a_token_the_dashboard_shows_agents_address(unguarded: Unguarded) -> None:
    assert f"curl {unguarded.service.url}/r/my-first-rollout" in unguarded.newcomers
    problem(ask(unguarded.service.url + "/"), 404, "agents_only")


# --- what several processes count and say ----------------------------------------------------


def agent_of(ports: Ports, rollout: str) -> str:
    """Where its agent asks for chat completions."""
    registered = ports.control.post("/rollouts", json={"id": rollout}, headers=TOKEN).json()
    return f"{registered['base_urls']['openai']}/chat/completions"


def calls_at_once(url: str, count: int = 8) -> list[httpx.Response]:
    """As many calls, each on a connection of its own."""
    with ThreadPoolExecutor(count) as threads:
        made = list(threads.map(lambda _: send(url, json=ASK), range(count)))
    assert [answer.status_code for answer in made] == [200] * count
    return made


def test_every_worker_keeps_to_the_level_of_the_log(ports: Ports) -> None:
    url = agent_of(ports, "logged")
    made = {answer.headers["x-truezero-exchange"] for answer in calls_at_once(url)}

    def said() -> set[str]:
        whole = ports.service.log().rpartition("\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        exchanges = [line for line in lines if line["event"] == "exchange"]
        return {line["exchange"] for line in exchanges if line["rollout"] == "logged"}

    eventually(lambda: len(said()), len(made))
    assert said() == made


def counted_by(folder: Path) -> set[str]:
    """Workers that counted a call: the process ids in their files' names."""
    return {
        file.stem.rpartition("_")[2]
        for file in folder.glob("truezero-metrics-*/counter_*.db")
        if any(
            "truezero_exchanges" in key and count
            for key, count, *_ in MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]
        )
    }


# --- a process of its own for the control plane ----------------------------------------------


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where workers add up their numbers
    with two_ports(tmp_path, WORKERS="1", CONTROL_PROCESS="true", ADMIN_TOKEN="t0ken") as running:
        running.control.headers.update(TOKEN)
        yield running


def processes(ports: Ports, url: str) -> tuple[int, int]:
    """That which relays, as far as many calls show, and that of the control plane."""
    calls_at_once(url, 64)
    eventually(lambda: len(counted_by(ports.service.home)), 1)
    (relay,) = (int(pid) for pid in counted_by(ports.service.home))
    (control,) = workers_of(ports.service) - {relay}
    return relay, control


@pytest.mark.slow
def test_what_agents_do_is_judged_and_ended_from_it(apart: Ports) -> None:
    url = agent_of(apart, "r1")
    processes(apart, url)
    seen = {"status": "success", "termination_reason": "agent_stop"}
    outcome = apart.control.post("/rollouts/r1/outcome", json=seen).json()
    assert (outcome["health"], outcome["total_requests"]) == ("healthy", 64)
    problem(send(url, json=ASK), 403, "rollout_ended")


@pytest.mark.slow
def test_agents_go_on_while_it_is_killed_and_started_again(apart: Ports) -> None:
    url = agent_of(apart, "r1")
    relay, control = processes(apart, url)
    os.kill(control, signal.SIGKILL)
    calls_at_once(url)
    eventually(lambda: len(workers_of(apart.service) - {relay, control}), 1)
    assert control not in workers_of(apart.service)
    assert apart.control.get("/rollouts/r1/verdict").json()["total_requests"] == 72


def workers_of(service: Service) -> set[int]:
    """The processes that a service's supervisor started to serve."""
    return {pid for pid in family(service.pid) if forked.serves(Path(f"/proc/{pid}"))}


# --- settings --------------------------------------------------------------------------------


def settings(**variables: str) -> Settings:
    return load({}, {f"TRUEZERO_{name}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CONTROL_PORT": "8383"}, "control_port"),
        ({"CONTROL_PORT": "9000", "PORT": "0"}, "control_port"),
        ({"CONTROL_HOST": "127.0.0.1"}, "control_host"),
        ({"CONTROL_PROCESS": "true"}, "control_process"),
        ({"CONTROL_PORT": "70000"}, "TRUEZERO_CONTROL_PORT"),
    ],
)
def test_ports_that_are_not_two_are_refused(variables: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        settings(**variables)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("hosts", "exposed"),
    [
        ({"HOST": "0.0.0.0", "CONTROL_HOST": "127.0.0.1"}, "0.0.0.0"),
        ({"HOST": "127.0.0.1", "CONTROL_HOST": "192.0.2.1"}, "192.0.2.1"),
        ({"HOST": "::", "CONTROL_HOST": "::1"}, "::"),
        ({"HOST": "127.0.0.1.example"}, "127.0.0.1.example"),
    ],
)
def test_either_address_beyond_loopback_needs_a_token(hosts: dict[str, str], exposed: str) -> None:
    said = f"TRUEZERO_ADMIN_TOKEN must be set to listen on {exposed},"
    with pytest.raises(SettingsError, match=said):
        settings(CONTROL_PORT="9000", **hosts)
    assert settings(CONTROL_PORT="9000", ADMIN_TOKEN="t", **hosts).exposed == exposed


def test_by_default_both_planes_share_a_port() -> None:
    assert settings().addresses == (("127.0.0.1", 8383),)
    assert settings(CONTROL_PORT="9").addresses == (("127.0.0.1", 8383), ("127.0.0.1", 9))
    both = settings(CONTROL_PORT="9", CONTROL_HOST="::1", HOST="127.0.0.2")
    assert both.addresses == (("127.0.0.2", 8383), ("::1", 9))


@pytest.mark.slow
def test_no_port_is_said_whatever_a_file_says(tmp_path: Path) -> None:
    """As a service does that is started for one command beside the one that the file is for."""
    config = tmp_path / "truezero.toml"
    config.write_text("control_port = 9000\ncontrol_host = '127.0.0.1'\ncontrol_process = true\n")
    assert load({}, {}, config).separate_control
    without = load({}, {"TRUEZERO_CONTROL_PORT": "0"}, config)
    assert without.addresses == (("127.0.0.1", 8383),)
    assert not without.separate_control
