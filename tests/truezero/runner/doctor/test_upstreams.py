"""Keys that are dead, held or missing, and models that are there or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, closed_port
from tests.proxy.api.test_routes import Service, serving
from tests.truezero.runner.doctor.looking import OPENAI, lists, look
from truezero import Client
from truezero.runner.doctor import DoctorCheck, Wanted


def test_a_dead_key(client: Client) -> None:
    found = look(client, {"OPENAI_API_KEY": "sk-dead"})["openai key"]
    assert found.health == "failed"
    assert "HTTP 401" in found.told
    assert "no such key" not in found.told, "a provider's own words are not repeated"


def test_a_key_that_is_refused_as_a_bad_request_is_told_by_its_cause(
    client: Client, service: Service
) -> None:
    body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}
    service.provider.plays(lambda _request: answers.whole(body, 400))
    found = look(client, OPENAI)["openai key"]
    assert (found.health, found.told) == (
        "failed", "HTTP 400: replace the API key, or give it access to the model",
    )  # fmt: skip


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


def _brackets(count: int) -> Answer:
    return Answer(headers=answers.JSON, body=(b"[" * count,))


def test_a_list_of_models_that_is_none_is_as_one_without_models(
    client: Client, service: Service
) -> None:
    service.provider.plays(lambda _request: _brackets(100_000))
    found = look(client, OPENAI)["openai key"]
    assert (found.health, found.told) == ("ok", "the key is valid")


def test_a_list_of_models_without_an_end_is_not_read(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("truezero.foreign.MOST_OF_ANSWER", 2**20)
    service.provider.plays(lambda _request: _brackets(2**21))
    found = look(client, OPENAI)["openai key"]
    assert (found.health, found.told) == ("failed", "the answer is larger than 1 MiB")


def test_a_model_by_its_alias(client: Client) -> None:
    found = look(client, OPENAI, Wanted(models=(("openai", "an-alias"),)))
    assert found["openai/an-alias"].health == "ok"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("keyed"), KEY_OPENAI="sk-held") as running:
        yield running


def ask(service: Service, environment: dict[str, str] | None = None) -> DoctorCheck:
    wanted = Wanted(models=(("openai", "gpt-5"),), ask=True)
    with Client(str(service.http.base_url)) as client:
        return look(client, environment, wanted)["openai/gpt-5 reference"]


def test_a_reference_that_is_answered_is_the_proxys_own_question(keyed: Service) -> None:
    keyed.provider.plays(lambda r: answers.healthy(r) if r.method == "POST" else lists(r))
    keyed.provider.requests.clear()
    check = ask(keyed, OPENAI)  # the key of whoever asks is not used
    assert check.health == "ok"
    assert check.told.startswith("3 of 3 questions answered; asked by openai.chat, ")
    questions = [each for each in keyed.provider.requests if each.method == "POST"]
    assert {each.header("authorization") for each in questions} == {"Bearer sk-held"}
    assert all(b"Reply with the word ready." in each.body for each in questions)
    recorded = keyed.get("/rollouts/_reference/exchanges")["items"]
    assert [each["role"] for each in recorded] == ["reference"] * 3
    assert all(each["id"] in check.told for each in recorded)


def test_a_reference_that_fails_says_how_and_what_to_do(keyed: Service) -> None:
    keyed.provider.plays(lists)
    check = ask(keyed)
    assert check.health == "failed"
    for words in ("0 of 1 question answered", "failed as quota (HTTP 429)", "add credit",
                  keyed.get("/rollouts/_reference/exchanges")["items"][-1]["id"]):  # fmt: skip
        assert words in check.told, check.told


def test_no_reference_is_asked_without_the_services_own_key(service: Service) -> None:
    check = ask(service, OPENAI)
    assert check.health == "failed"
    assert "nothing was asked: the service holds no key" in check.told
    assert "TRUEZERO_KEY_OPENAI" in check.told
    assert {each.method for each in service.provider.requests} == {"GET"}


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


def test_each_key_in_use_says_which_setting_it_is_from(tmp_path: Path) -> None:
    with serving(tmp_path, KEY_OPENAI="sk-operator") as service:
        service.call("by-the-operator").raise_for_status()
        service.call("by-an-agent", authorization="Bearer sk-own").raise_for_status()
        lanes = service.get("/status")["items"]
        sources = {f"source of {lane['key']}": lane["key_from"] for lane in lanes}
        assert sorted(sources.values()) == ["TRUEZERO_KEY_OPENAI", "an agent's own"]
        with Client(str(service.http.base_url)) as client:
            found = look(client)
        assert {key: found[key].told for key in sources} == sources
        shown = service.http.get("/ui/upstreams").text
        assert "TRUEZERO_KEY_OPENAI" in shown
