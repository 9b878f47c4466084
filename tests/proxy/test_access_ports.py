"""A port of its own for the control plane: what answers where, in processes as users run them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from proxy.settings import Settings, SettingsError, load
from tests.fakes import answers
from tests.fakes.provider import Provider, closed_port
from tests.fakes.talker import Talker
from tests.journeys.service import Service
from tests.proxy.test_api import problem
from tests.proxy.test_sockets import UPGRADE

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": []}
TOKEN = {"authorization": "Bearer t0ken"}

# Of each kind one: REST, pages, what people and programs look at, and what nobody serves.
CONTROL = (
    "/rollouts", "/rollouts/r1/verdict", "/rollouts/r1/exchanges", "/batches/b", "/fingerprints",
    "/key/info?key=x", "/", "/ui/rollouts", "/ui/sign-in", "/ui/static/page.css", "/docs",
    "/openapi.json", "/readyz", "/metrics", "/healthz/", "/nowhere",
)  # fmt: skip


@contextmanager
def two_ports(home: Path, **settings: str) -> Iterator[tuple[Service, httpx.Client]]:
    """A service, and a client of its control port."""
    port = closed_port()
    with (
        Provider(answers.healthy) as provider,
        Service(home, provider.url, CONTROL_PORT=str(port), **settings) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as control,
    ):
        yield service, control


@pytest.fixture(scope="module", params=["1", "2"])
def ports(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, httpx.Client]]:
    home = tmp_path_factory.mktemp("ports")
    with two_ports(home, WORKERS=request.param, ADMIN_TOKEN="t0ken") as running:
        yield running


@pytest.mark.parametrize("path", CONTROL)
def test_the_agents_port_answers_nothing_of_the_control_plane(
    ports: tuple[Service, httpx.Client], path: str
) -> None:
    """Not to the operator either: a leaked token is worth nothing where agents are."""
    service, _ = ports
    for headers in ({}, TOKEN, {**TOKEN, "host": "localhost:1", "accept": "text/html"}):
        problem(httpx.get(service.url + path, headers=headers), 404, "agents_only")


@pytest.mark.parametrize("path", ["/rollouts", "/key/generate", "/rollouts/r1/outcome"])
def test_nothing_is_changed_through_the_agents_port(
    ports: tuple[Service, httpx.Client], path: str
) -> None:
    service, _ = ports
    problem(httpx.post(service.url + path, json={}, headers=TOKEN), 404, "agents_only")


def test_the_control_port_answers_no_agent(ports: tuple[Service, httpx.Client]) -> None:
    service, control = ports
    registered = control.post("/rollouts", json={"id": "here"}, headers=TOKEN).json()
    path = registered["base_urls"]["openai"].removeprefix(service.url) + "/chat/completions"
    assert control.post(path, json=ASK).status_code == 401
    assert control.post(path, json=ASK, headers=TOKEN).status_code == 404
    key = {"x-api-key": registered["key"], **TOKEN}
    assert control.post("/openai" + CHAT, json=ASK, headers=key).status_code == 404
    assert control.get(path, headers={**TOKEN, **UPGRADE}).status_code in (403, 404)
    assert control.get("/rollouts/here/exchanges", headers=TOKEN).json()["items"] == []


def test_registration_at_the_one_port_leads_agents_to_the_other(
    ports: tuple[Service, httpx.Client],
) -> None:
    service, control = ports
    registered = control.post("/rollouts", json={"id": "led"}, headers=TOKEN).json()
    base = registered["base_urls"]["openai"]
    assert base.startswith(f"{service.url}/r/led~")
    assert httpx.post(base + "/chat/completions", json=ASK).status_code == 200
    minted = control.post("/key/generate", json={"key_alias": "k"}, headers=TOKEN).json()
    assert minted["base_urls"]["openai"].startswith(f"{service.url}/r/k~")
    verdict = control.get("/rollouts/led/verdict", headers=TOKEN).json()
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)


def test_both_ports_say_that_the_process_lives(ports: tuple[Service, httpx.Client]) -> None:
    service, control = ports
    assert httpx.get(service.url + "/healthz").status_code == 200
    assert control.get("/healthz").status_code == 200
    assert control.get("/readyz").status_code == 200
    problem(control.get("/rollouts"), 401, "unauthorized")


def test_the_log_tells_both_addresses(ports: tuple[Service, httpx.Client]) -> None:
    service, control = ports
    said = service.log()
    assert f"truezero listens on {service.url}" in said
    assert str(control.base_url).rstrip("/") in said


def test_sockets_are_opened_at_the_agents_port_only(tmp_path: Path) -> None:
    port = closed_port()
    with (
        Talker() as talker,
        Service(tmp_path, talker.url, CONTROL_PORT=str(port)) as service,
    ):
        path = "/r/r1/openai/v1/responses"
        with connect(service.url.replace("http", "ws") + path, proxy=None) as agent:
            agent.send("{}")
            assert agent.recv(5) == "{}"
        answer = httpx.get(f"http://127.0.0.1:{port}{path}", headers=UPGRADE)
        assert answer.status_code == 403
        assert len(talker.upgrades) == 1


def test_without_a_token_the_dashboard_shows_agents_address(tmp_path: Path) -> None:
    with two_ports(tmp_path) as (service, control):
        html = control.get("/", headers={"accept": "text/html"}).text
        assert f"curl {service.url}/r/my-first-rollout" in html
        problem(httpx.get(service.url + "/"), 404, "agents_only")


# --- settings --------------------------------------------------------------------------------


def settings(**variables: str) -> Settings:
    return load({}, {f"TRUEZERO_{name}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CONTROL_PORT": "8383"}, "control_port"),
        ({"CONTROL_PORT": "9000", "PORT": "0"}, "control_port"),
        ({"CONTROL_HOST": "127.0.0.1"}, "control_host"),
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
    with pytest.raises(SettingsError, match=f"listening on {exposed} .*TRUEZERO_ADMIN_TOKEN"):
        settings(CONTROL_PORT="9000", **hosts)
    assert settings(CONTROL_PORT="9000", ADMIN_TOKEN="t", **hosts).exposed == exposed


def test_by_default_both_planes_share_a_port() -> None:
    assert settings().addresses == (("127.0.0.1", 8383),)
    assert settings(CONTROL_PORT="9").addresses == (("127.0.0.1", 8383), ("127.0.0.1", 9))
    both = settings(CONTROL_PORT="9", CONTROL_HOST="::1", HOST="127.0.0.2")
    assert both.addresses == (("127.0.0.2", 8383), ("::1", 9))


def test_no_port_is_said_whatever_a_file_says(tmp_path: Path) -> None:
    """As a service does that is started for one command beside the one that the file is for."""
    config = tmp_path / "truezero.toml"
    config.write_text("control_port = 9000\ncontrol_host = '127.0.0.1'\n")
    assert load({}, {"TRUEZERO_CONTROL_PORT": "0"}, config).addresses == (("127.0.0.1", 8383),)
