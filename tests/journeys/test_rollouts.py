"""Whole stories of a rollout, from the agent's first call to what the runner stores."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Provider
from tests.journeys.agents import ask
from tests.journeys.service import Service

CHAT = "/v1/chat/completions"
BODY = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}
FINISHED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}


def test_a_zero_that_is_a_providers_failure_loses_its_reward(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(answers.FAILURES[Api.CHAT][Fault.AUTH])
    for _ in range(2):
        ask(Api.CHAT, service.base(rollout, "openai"), stream=False)
    assert service.verdict(rollout)["doomed"] is True
    result = service.outcome(rollout, **FINISHED, rewards={"reward": 0.0})
    assert (result["status"], result["rewards"]) == ("success", None)
    assert result["error_category"] == "api_error"
    assert result["api_error_info"]["subcategory"] == "auth"
    assert "HTTP 401 on 2 of 2 calls" in result["error"]


def test_behind_a_token_an_agent_needs_only_what_registration_gave_it(
    provider: Provider, tmp_path: Path
) -> None:
    import openai

    token = {"Authorization": "Bearer admin-secret"}
    settings = {"ADMIN_TOKEN": "admin-secret", "KEY_OPENAI": "sk-the-real-one"}
    with Service(tmp_path, provider.url, **settings) as service:
        assert httpx.get(f"{service.url}/rollouts/r/verdict", timeout=60).status_code == 401
        assert (
            httpx.post(service.base("r", "openai") + CHAT, json=BODY, timeout=60).status_code == 403
        )
        asked = {"id": "r", "model": "gpt-5"}
        given = httpx.post(f"{service.url}/rollouts", json=asked, headers=token, timeout=60).json()
        agent = openai.OpenAI(
            base_url=given["base_urls"]["openai"], api_key=given["key"], max_retries=0
        )
        agent.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "hi"}])
        assert provider.requests[-1].header("authorization") == "Bearer sk-the-real-one"
        assert httpx.get(
            f"{service.url}/rollouts/r/verdict",
            headers={"Authorization": f"Bearer {given['key']}"},
            timeout=60,
        ).status_code in (401, 403)
        verdict = httpx.get(f"{service.url}/rollouts/r/verdict", headers=token, timeout=60).json()
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)
