"""Whole stories of a rollout, from the agent's first call to what the runner stores."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Hang, Provider
from tests.journeys.agents import ask
from tests.journeys.service import Service

CHAT = "/v1/chat/completions"
BODY = {
    "model": "gpt-5",
    "stream": True,
    "stream_options": {"include_usage": True},  # as the provider's scripts answer
    "messages": [{"role": "user", "content": "hi"}],
}
FINISHED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}


def never_closed() -> Answer:
    """A stream that says all it has to say, and whose end the transport never tells."""
    whole = answers.chat_stream()
    return whole.stopping_after(len(whole.body), Hang())


def hear_done(answer: httpx.Response) -> None:
    """Read up to a stream's last event and no further, as SDKs do."""
    for line in answer.iter_lines():
        if line == "data: [DONE]":
            return
    raise AssertionError("no [DONE] came")


@pytest.mark.slow
def test_a_zero_that_is_true_stays_in_the_denominator(
    service: Service, provider: Provider, rollout: str
) -> None:
    ask(Api.CHAT, service.base(rollout, "openai"), stream=True)
    assert service.verdict(rollout)["provisional"] is True
    result = service.outcome(rollout, **FINISHED, rewards={"reward": 0.0})
    assert (result["status"], result["rewards"]) == ("success", {"reward": 0.0})
    assert (result["error_category"], result["api_error_info"]) == (None, None)
    assert service.verdict(rollout)["provisional"] is False


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


@pytest.mark.slow
def test_killed_in_the_middle_it_loses_nothing_that_was_finished(
    provider: Provider, tmp_path: Path
) -> None:
    with Service(tmp_path, provider.url) as service:
        url = service.base("r", "openai") + CHAT
        provider.plays(never_closed(), answers.chat_stream().stopping_after(3, Hang()))
        finishing = httpx.stream("POST", url, json=BODY, timeout=60)
        hanging = httpx.stream("POST", url, json=BODY, timeout=60)
        with finishing as finished_answer, hanging as hanging_answer:
            chunks = hanging_answer.iter_raw()
            assert next(chunks)
            hear_done(finished_answer)
            service.kill()
            with pytest.raises(httpx.TransportError):
                list(chunks)
        service.start()
        verdict = service.verdict("r")
        finished, lost = service.exchanges("r")
    assert (finished["ending"], finished["output_tokens"]) == ("complete", 5)
    assert (lost["ending"], lost["output_tokens"]) == ("lost", None)
    assert verdict["health"] == "undecided"


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
