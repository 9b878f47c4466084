"""Keys that are dead, held or missing, and models that are there or not."""

from __future__ import annotations

from pathlib import Path

from tests.fakes import answers
from tests.fakes.provider import closed_port
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.runner.doctor.looking import OPENAI, listed, lists, look
from truezero import Client
from truezero.runner.doctor import Wanted


def test_a_dead_key(client: Client) -> None:
    found = look(client, {"OPENAI_API_KEY": "sk-dead"})["openai key"]
    assert found.health == "failed"
    assert "HTTP 401" in found.told
    assert "no such key" not in found.told, "a provider's own words are not repeated"


def test_no_key_anywhere_is_no_failure_until_an_upstream_is_named(client: Client) -> None:
    assert look(client)["keys"].health == "skipped"
    found = look(client, {}, Wanted(upstreams=("openai",)))["openai key"]
    assert found.health == "failed"
    assert "OPENAI_API_KEY" in found.told
    assert "TRUEZERO_KEY_OPENAI" in found.told


def test_the_services_own_key_is_looked_at_where_we_have_none(tmp_path: Path) -> None:
    with serving(tmp_path, KEY_OPENAI="sk-held") as service:
        service.provider.plays(lists)
        with Client(str(service.http.base_url)) as client:
            found = look(client, {}, Wanted(upstreams=("openai",)))["openai key"]
    assert (found.health, found.told) == ("ok", "the service's key is valid; 2 models")


def test_a_model_that_is_not_there_and_what_was_perhaps_meant(client: Client) -> None:
    wanted = Wanted(models=(("openai", "gpt-5-mini"), ("openai", "gpt-9")))
    found = look(client, OPENAI, wanted)
    assert found["openai/gpt-5-mini"].health == "failed"
    assert "did you mean gpt-5-mini-2026?" in found["openai/gpt-5-mini"].told
    assert "did you mean" not in found["openai/gpt-9"].told


def test_a_model_by_its_alias(client: Client) -> None:
    found = look(client, OPENAI, Wanted(models=(("openai", "an-alias"),)))
    assert found["openai/an-alias"].health == "ok"


def test_asking_for_a_word_finds_an_empty_account(client: Client, service: Service) -> None:
    wanted = Wanted(models=(("openai", "gpt-5"),), ask=True)
    found = look(client, OPENAI, wanted)
    assert found["openai/gpt-5"].health == "ok"
    assert found["openai/gpt-5 asked"].health == "failed"
    assert "billing" in found["openai/gpt-5 asked"].told
    assert [r.method for r in service.provider.requests] == ["GET", "POST"]
    service.provider.plays(lambda r: answers.chat() if r.method == "POST" else listed(r))
    assert look(client, OPENAI, wanted)["openai/gpt-5 asked"].health == "ok"


def test_an_upstream_that_nobody_knows(client: Client) -> None:
    found = look(client, {}, Wanted(upstreams=("nowhere",)))["nowhere"]
    assert found.health == "failed"


def test_an_upstream_that_is_down_is_the_proxys_word(tmp_path: Path) -> None:
    down = f"http://127.0.0.1:{closed_port()}"
    with (
        serving(tmp_path, UPSTREAM_OPENAI=down) as service,
        Client(str(service.http.base_url)) as client,
    ):
        found = look(client, OPENAI)["openai key"]
    assert found.health == "failed"
    assert "upstream_unreachable" in found.told
