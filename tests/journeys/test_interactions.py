"""Google's own SDK has interactions through the service: stored, in the background, with agents.

What every dialect has in common (whole, streamed, refused) is in `test_conversations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.provider import Cut, Provider
from tests.journeys.agents import KEY, PROMPT, gemini_client
from tests.journeys.service import Service

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

MODEL = "gemini-3-pro"
FINISHED = {"status": "success", "termination_reason": "agent_stop", "prompts_executed": 1}
TOOLS: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
UNDER_WAY = answers.whole(answers.interaction_body(status="in_progress"))
DONE = answers.whole(answers.interaction_body(answers.said_step()))
FAILED = answers.whole(
    answers.interaction_body(
        status="failed", errors=[{"code": "quota_exceeded", "message": "Daily quota."}]
    )
)


def client(service: Service, rollout: str) -> Any:
    """Google's, untyped: its answers are unions of all that may come."""
    return gemini_client(service.base(rollout, "gemini"))


def finished(service: Service, rollout: str, **more: object) -> dict[str, Any]:
    """The verdict once the runner has reported."""
    service.outcome(rollout, **FINISHED, rewards={"reward": 0.0}, **more)
    return service.verdict(rollout)


@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_two_good_answers_are_healthy_in_every_version_of_the_api(
    service: Service, provider: Provider, rollout: str, version: str
) -> None:
    from google import genai
    from google.genai import types as genai_types

    options = genai_types.HttpOptions(base_url=service.base(rollout, "gemini"), api_version=version)
    gemini: Any = genai.Client(api_key=KEY, http_options=options)
    for _ in range(2):
        answer = gemini.interactions.create(model=MODEL, input=PROMPT)
        assert answer.output_text == "".join(answers.TEXT)
    assert {request.target for request in provider.requests} == {f"/{version}/interactions"}
    verdict = finished(service, rollout)
    assert (verdict["health"], verdict["rule"]) == ("healthy", "healthy")
    assert [(e["api"], e["kind"], e["model"]) for e in service.exchanges(rollout)] == [
        ("gemini.interactions", "inference", MODEL)
    ] * 2


@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_background_interaction_is_polled_and_judged_by_what_became_of_it(
    service: Service, provider: Provider, rollout: str, ends: str
) -> None:
    provider.plays(UNDER_WAY, UNDER_WAY, DONE if ends == "completed" else FAILED)
    gemini = client(service, rollout)
    begun = gemini.interactions.create(model=MODEL, input=PROMPT, tools=TOOLS, background=True)
    assert begun.status == "in_progress"
    assert gemini.interactions.get(begun.id).status == "in_progress"
    assert service.verdict(rollout)["provisional"] is True
    assert gemini.interactions.get(begun.id).status == ends
    first, *polls = service.exchanges(rollout)
    assert (first["kind"], first["pending"]) == ("inference", True)
    assert [(e["kind"], e["pending"]) for e in polls] == [
        ("continuation", True), ("continuation", False),
    ]  # fmt: skip
    assert {e["api"] for e in (first, *polls)} == {"gemini.interactions"}
    verdict = finished(service, rollout)
    assert verdict["total_requests"] == 1
    if ends == "completed":
        assert (verdict["health"], polls[-1]["output_tokens"]) == ("healthy", 5)
    else:
        assert (verdict["health"], verdict["subcategory"]) == ("api_error", "quota")


def test_a_background_interaction_that_its_agent_cancels_is_no_failure(
    service: Service, provider: Provider, rollout: str
) -> None:
    cancelled = answers.whole(answers.interaction_body(status="cancelled"))
    provider.plays(answers.interactions(), UNDER_WAY, cancelled)
    gemini = client(service, rollout)
    gemini.interactions.create(model=MODEL, input=PROMPT)
    begun = gemini.interactions.create(model=MODEL, input=PROMPT, background=True)
    assert gemini.interactions.cancel(begun.id).status == "cancelled"
    assert provider.requests[-1].target == f"/v1/interactions/{begun.id}/cancel"
    assert finished(service, rollout)["health"] == "healthy"


def test_a_stream_that_is_taken_up_again_is_one_answered_call(
    service: Service, provider: Provider, rollout: str
) -> None:
    whole = answers.interactions_stream()
    rest = answers.streamed(*whole.body[8:])  # type: ignore[arg-type]
    provider.plays(whole.stopping_after(8, Cut()), rest)
    gemini = client(service, rollout)
    heard = gemini.interactions.create(model=MODEL, input=PROMPT, background=True, stream=True)
    with pytest.raises(Exception, match=r"incomplete|peer closed"):
        list(heard)
    again = list(gemini.interactions.get("v1_1", stream=True, last_event_id="e8"))
    assert again[-1].event_type == "interaction.completed"
    first, second = service.exchanges(rollout)
    assert (first["ending"], second["kind"]) == ("cut_upstream", "continuation")
    verdict = finished(service, rollout)
    assert (verdict["health"], verdict["total_requests"]) == ("healthy", 1)


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "sent again"])
def test_a_function_is_called_and_its_result_is_answered(
    service: Service, provider: Provider, rollout: str, stored: bool
) -> None:
    provider.plays(answers.interactions_tools(), answers.interactions())
    gemini = client(service, rollout)
    asked = [{"type": "user_input", "content": [{"type": "text", "text": PROMPT}]}]
    first = gemini.interactions.create(model=MODEL, input=asked, tools=TOOLS, store=stored)
    assert first.status == "requires_action"
    assert first.steps is not None
    (step,) = first.steps
    result = {"type": "function_result", "call_id": step.id, "name": step.name, "result": "0"}
    context: Mapping[str, Any] = (
        {"previous_interaction_id": first.id, "input": [result]}
        if stored
        else {"input": [*asked, step.model_dump(), result]}
    )
    second = gemini.interactions.create(model=MODEL, tools=TOOLS, store=stored, **context)
    assert second.output_text == "".join(answers.TEXT)
    calls = service.exchanges(rollout)
    assert [call["tool_calls"] for call in calls] == [1, 0]
    assert [call["has_tools"] for call in calls] == [True, True]
    assert finished(service, rollout)["health"] == "healthy"


def test_an_agent_is_asked_in_a_models_place(
    service: Service, provider: Provider, rollout: str
) -> None:
    name = "deep-research-preview-04-2026"
    body = answers.interaction_body(answers.said_step()) | {"agent": name}
    del body["model"]
    provider.plays(UNDER_WAY, answers.whole(body))
    gemini = client(service, rollout)
    begun = gemini.interactions.create(agent=name, input=PROMPT, background=True)
    gemini.interactions.get(begun.id)
    asked, answered = service.exchanges(rollout)
    assert (asked["model"], answered["answered_model"]) == (f"agents/{name}", name)
    verdict = finished(service, rollout)
    assert verdict["health"] == "healthy"
    assert verdict["validity"] == []
