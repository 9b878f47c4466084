"""Minted keys: each opens the calls of one rollout, at its upstream, until its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from proxy.relay.admission import TTL_S
from proxy.server.background import EndedRollouts
from tests.proxy import inside
from tests.proxy.api.test_routes import ASK, CHAT, PLAIN, Service, problem, serving
from tests.proxy.clocks import HandTurned
from tests.proxy.conftest import Services

ENDED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}


@pytest.fixture
def service(on_both: Callable[..., Service]) -> Service:
    return on_both()


@pytest.fixture
def holding(services: Services) -> Service:
    """A service that holds the real keys of three providers, all one fake."""
    return services(
        upstreams=("OPENAI", "ANTHROPIC", "GEMINI"),
        KEY_OPENAI="sk-real", KEY_ANTHROPIC="sk-ant-real", KEY_GEMINI="goog-real",
    )  # fmt: skip


def register(service: Service, **facts: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json=facts)
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def by_key(service: Service, key: str, upstream: str = "openai", path: str = CHAT) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    return service.http.post(f"/{upstream}{path}", json=ASK, headers=headers)


def end(service: Service, rollout: str) -> None:
    answer = service.http.post(f"/rollouts/{rollout}/outcome", json=ENDED)
    assert answer.status_code == 200, answer.text


def calls(service: Service, rollout: str) -> int:
    return len(service.get(f"/rollouts/{rollout}/exchanges")["items"])


# --- what a key opens -----------------------------------------------------------------------


def test_a_key_in_any_header_becomes_the_real_one_where_the_provider_has_it(
    holding: Service,
) -> None:
    shown = {"authorization": f"Bearer {register(holding, id='r')['key']}"}
    answer = holding.http.post("/anthropic/v1/messages", json=ASK, headers=shown)
    assert answer.status_code == 200, answer.text
    (seen,) = holding.provider.requests
    assert seen.header("x-api-key") == "sk-ant-real"
    assert not any("tz-" in header for _, header in seen.headers)
    assert calls(holding, "r") == 1


def test_a_key_opens_only_the_upstream_its_rollout_was_registered_for(holding: Service) -> None:
    bound = register(holding, upstream="OpenAI")
    assert by_key(holding, bound["key"]).status_code == 200
    other = by_key(holding, bound["key"], "anthropic", "/v1/messages")
    assert "'openai'" in problem(other, 403, "upstream_not_allowed")["detail"]
    assert calls(holding, bound["id"]) == 1
    free = register(holding)
    assert by_key(holding, free["key"], "anthropic", "/v1/messages").status_code == 200


def test_a_key_ends_with_its_rollout(service: Service) -> None:
    registered = register(service)
    assert by_key(service, registered["key"]).status_code == 200
    end(service, registered["id"])
    problem(by_key(service, registered["key"]), 403, "rollout_ended")
    assert calls(service, registered["id"]) == 1
    assert len(service.provider.requests) == 1


def test_the_secret_in_a_base_url_ends_too(services: Services) -> None:
    service = services(ADMIN_TOKEN="s3cret-token")
    service.http.headers["authorization"] = "Bearer s3cret-token"
    registered = register(service)
    url = registered["base_urls"]["openai"] + "/chat/completions"
    assert httpx.post(url, json=ASK, verify=PLAIN).status_code == 200
    end(service, registered["id"])
    problem(httpx.post(url, json=ASK, verify=PLAIN), 403, "rollout_ended")
    assert calls(service, registered["id"]) == 1


@pytest.mark.postgres_smoke
def test_another_process_sees_an_end_within_the_ttl(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clock is turned by hand: what it looked up stands for the TTL and no longer.

    Its closer, which would tell it sooner, is kept still.
    """

    async def nothing(closer: EndedRollouts) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(EndedRollouts, "run", nothing)
    one = service
    with serving(tmp_path, DATABASE_URL=service.database) as other:
        assert other.app is not None
        clock = HandTurned()
        inside.access(other.app)._clock = clock  # noqa: SLF001  its clock is turned by hand
        registered = register(one)
        assert by_key(other, registered["key"]).status_code == 200
        end(one, registered["id"])
        clock.now += TTL_S - 0.01
        assert by_key(other, registered["key"]).status_code == 200, "as it was looked up"
        clock.now += 0.02
        problem(by_key(other, registered["key"]), 403, "rollout_ended")
