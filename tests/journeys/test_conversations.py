"""An agent cannot tell the proxy from its provider, and the runner learns what came of it.

Real SDKs, a real service process, a provider on a real socket.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import FAILURES, Api, Fault
from tests.fakes.provider import Answer, Cut, Provider
from tests.journeys.agents import PROMPT, UPSTREAM, Seen, ask, gemini_client
from tests.journeys.service import Service
from tests.waiting import until

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

FINISHES = {
    Api.CHAT: "stop",
    Api.RESPONSES: "completed",
    Api.MESSAGES: "end_turn",
    Api.GEMINI: "STOP",
    Api.INTERACTIONS: "completed",
}


def both_ways(
    service: Service, provider: Provider, api: Api, rollout: str, *, stream: bool
) -> tuple[Seen, Seen]:
    """The same conversation directly and through the proxy."""
    direct = ask(api, provider.url, stream=stream)
    return direct, ask(api, service.base(rollout, UPSTREAM[api]), stream=stream)


def only_exchange(service: Service, rollout: str) -> dict[str, Any]:
    """The one that was recorded, once it has ended: a client that raises leaves before."""
    found: list[dict[str, Any]] = []

    def ended() -> bool:
        found[:] = service.exchanges(rollout)
        return bool(found) and all(each["ending"] for each in found)

    until(ended)
    (exchange,) = found
    return exchange


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", Api)
def test_a_healthy_conversation_is_the_same_and_is_counted(
    service: Service, provider: Provider, rollout: str, api: Api, stream: bool
) -> None:
    direct, through = both_ways(service, provider, api, rollout, stream=stream)
    assert through == direct
    assert through.error is None
    exchange = only_exchange(service, rollout)
    assert (exchange["ending"], exchange["usage_source"]) == ("complete", "provider")
    assert (exchange["input_tokens"], exchange["output_tokens"]) == (31, 5)
    assert (exchange["finish_reason"], exchange["streamed"]) == (FINISHES[api], stream)
    assert service.verdict(rollout)["health"] == "healthy"


@pytest.mark.parametrize(
    ("api", "answer", "cause"),
    [
        (Api.CHAT, FAILURES[Api.CHAT][Fault.RATE_LIMIT], "rate_limit"),
        (Api.RESPONSES, FAILURES[Api.RESPONSES][Fault.AUTH], "auth"),
        (Api.MESSAGES, FAILURES[Api.MESSAGES][Fault.QUOTA], "quota"),
        (Api.GEMINI, FAILURES[Api.GEMINI][Fault.PROVIDER_ERROR], "provider_error"),
        (Api.INTERACTIONS, FAILURES[Api.INTERACTIONS][Fault.MODEL_NOT_FOUND], "model_not_found"),
        (Api.RESPONSES, answers.responses_failed_stream(), "provider_error"),
        (Api.MESSAGES, answers.messages_error_stream(), "provider_error"),
    ],
)
def test_a_failure_raises_the_same_error_and_is_named(
    service: Service, provider: Provider, rollout: str, api: Api, answer: Answer, cause: str
) -> None:
    provider.plays(answer)
    direct, through = both_ways(service, provider, api, rollout, stream=True)
    assert through == direct
    exchange = only_exchange(service, rollout)
    assert (exchange["status"], exchange["subcategory"]) == (answer.status, cause)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", cause)


@pytest.mark.parametrize(
    ("api", "answer", "reset"),
    [
        (Api.CHAT, answers.chat_stream(), False),
        (Api.CHAT, answers.chat_stream(), True),
        (Api.MESSAGES, answers.messages_stream(), False),
        (Api.GEMINI, answers.gemini_stream(), False),
    ],
)
def test_a_stream_that_is_cut_breaks_for_the_agent_too(
    service: Service, provider: Provider, rollout: str, api: Api, answer: Answer, reset: bool
) -> None:
    provider.plays(answer.stopping_after(3, Cut(reset)))
    direct, through = both_ways(service, provider, api, rollout, stream=True)
    assert through.said == direct.said
    assert through.said
    assert direct.error is not None
    if reset:  # a reset is passed on as an early end: both are the HTTP library's own errors
        assert through.error is not None
    else:
        assert through.error == direct.error
    exchange = only_exchange(service, rollout)
    assert (exchange["ending"], exchange["subcategory"]) == ("cut_upstream", "provider_error")


def test_a_background_interaction_is_polled_and_judged_by_what_became_of_it(
    service: Service, provider: Provider, rollout: str
) -> None:
    under_way = answers.whole(answers.interaction_body(status="in_progress"))
    error = {"code": "quota_exceeded", "message": "Daily quota."}
    failed = answers.whole(answers.interaction_body(status="failed", errors=[error]))
    provider.plays(under_way, under_way, failed)
    gemini: Any = gemini_client(service.base(rollout, "gemini"))
    begun = gemini.interactions.create(model="gemini-3-pro", input=PROMPT, background=True)
    assert gemini.interactions.get(begun.id).status == "in_progress"
    assert gemini.interactions.get(begun.id).status == "failed"
    assert [(each["kind"], each["pending"]) for each in service.exchanges(rollout)] == [
        ("inference", True), ("continuation", True), ("continuation", False),
    ]  # fmt: skip
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", "quota")
    assert verdict["total_requests"] == 1
