"""`[[causes]]` in a running service: what an error means to the operator decides the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from proxy.features.operator_causes.start import start
from proxy.parts import NOTHING
from proxy.settings import Settings, load
from tests.fakes import answers
from tests.fakes.provider import Provider
from tests.journeys.service import Service as Journey
from tests.proxy.api.test_routes import ASK, CHAT, Service

ROWS = """
[[causes]]
name = "flat-broke"
upstream = "openai"
words = "flat broke"
cause = "quota"

[[causes]]
name = "warming-up"
status = [200, 418]
code = "E1042"
cause = "provider_error"
reason = "loading"

[[causes]]
status = 418
cause = "model_not_found"
"""
ERROR = {"message": "Something is off.", "type": "strange_error", "code": None}


@pytest.fixture
def service(services: Callable[..., Service], tmp_path_factory: pytest.TempPathFactory) -> Service:
    # One file for the module, so that its tests share a service.
    file = tmp_path_factory.getbasetemp() / "operator_causes.toml"
    file.write_text(ROWS, encoding="utf-8")
    return services(CONFIG=str(file))


def played(service: Service, rollout: str, *answers_: Any) -> dict[str, Any]:
    """Play answers to as many calls; returns the last call as recorded."""
    for each in answers_:
        service.provider.plays(each)
        service.call(rollout)
    calls = service.get(f"/rollouts/{rollout}/exchanges")["items"]
    return dict(calls[-1])


def failing(status: int = 400, **error: object) -> Any:
    return answers.whole({"error": ERROR | error}, status)


def test_a_row_names_the_cause_and_decides_the_verdict(service: Service) -> None:
    call = played(service, "plain", failing(), failing())
    assert (call["subcategory"], call["rule"]) == ("rejected_request", "status.400")
    call = played(service, "r1", failing(message="Sorry: you are FLAT BROKE"))
    assert (call["subcategory"], call["rule"]) == ("quota", "operator:flat-broke")
    assert call["error_code"] == "strange_error"
    verdict = service.get("/rollouts/r1/verdict")
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", "quota")
    assert verdict["retry"]["eligible"] is False


def test_an_error_inside_a_200_and_inside_a_stream_is_matched(service: Service) -> None:
    call = played(service, "r2", failing(200, code="E1042"))
    assert (call["rule"], call["reason"]) == ("operator:warming-up", "loading")
    begun = answers.data({"choices": [{"index": 0, "delta": {"content": "He"}}]})
    broken = answers.data({"error": ERROR | {"code": "E1042"}})
    call = played(service, "r3", answers.streamed(begun, broken))
    assert (call["status"], call["rule"]) == (200, "operator:warming-up")
    assert call["subcategory"] == "provider_error"


def test_an_agent_whose_words_are_repeated_provokes_no_row(service: Service) -> None:
    said = "' \" , you are flat broke, flat broke \" '"
    ask = {**ASK, "messages": [{"role": "user", "content": said}]}
    service.provider.plays(failing(message=f"Expected a list, got {said}"))
    service.http.post(f"/r/echo/openai{CHAT}", json=ask)
    service.provider.plays(failing(message=f"Bad request: '{said}'", param="messages"))
    service.http.post(f"/r/echo/openai{CHAT}", json=ask)
    for call in service.get("/rollouts/echo/exchanges")["items"]:
        assert not call["rule"].startswith("operator:")


def test_the_seed_policy_knows_no_rows(service: Service) -> None:
    played(service, "r6", failing(418, code="E1042"))
    assert service.get("/rollouts/r6/verdict")["subcategory"] == "provider_error"
    seed = service.get("/rollouts/r6/verdict", policy="seed")
    assert seed["subcategory"] == "rejected_request"


def test_the_words_themselves_are_on_no_record(service: Service) -> None:
    played(service, "r7", failing(message="you are flat broke, Mr. Marker"))
    for place in ("exchanges", "verdict"):
        assert "Marker" not in service.http.get(f"/rollouts/r7/{place}").text


def test_without_rows_a_failing_call_costs_what_it_did(tmp_path: Path) -> None:
    file = tmp_path / "truezero.toml"
    file.write_text(ROWS, encoding="utf-8")
    without, with_rows = (_parts(load({}, {}, path)) for path in (None, file))
    assert start(without) is NOTHING, "nothing stands before the table"
    assert start(with_rows).classify is not None


def _parts(settings: Settings) -> Any:
    return Mock(settings_of=lambda _: settings)


@pytest.mark.slow
def test_it_says_how_many_rows_of_causes_it_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.toml"
    file.write_text("[[causes]]\nstatus = 418\ncause = 'quota'\n" * 2, encoding="utf-8")
    with (
        Provider(answers.healthy) as provider,
        Journey(tmp_path, provider.url, CONFIG=str(file)) as service,
    ):
        assert "2 rows of [[causes]] before the cause table" in service.log()
