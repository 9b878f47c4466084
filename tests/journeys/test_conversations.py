"""An agent cannot tell the proxy from its provider, and the runner learns what came of it.

Real SDKs, a real service process, a provider on a real socket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Cut, Provider
from tests.journeys.agents import UPSTREAM, Seen, ask
from tests.journeys.service import Service
from tests.waiting import until

pytestmark = pytest.mark.slow  # to load the SDKs takes four CPU seconds

FINISHES = {
    Api.CHAT: ("stop", "tool_calls"),
    Api.RESPONSES: ("completed", "completed"),
    Api.MESSAGES: ("end_turn", "tool_use"),
    Api.GEMINI: ("STOP", "STOP"),
    Api.INTERACTIONS: ("completed", "requires_action"),
}
TOOLS: Mapping[tuple[Api, bool], Callable[[], Answer]] = {
    (Api.CHAT, False): answers.chat_tools,
    (Api.CHAT, True): answers.chat_tools_stream,
    (Api.RESPONSES, False): answers.responses_tools,
    (Api.RESPONSES, True): answers.responses_tools_stream,
    (Api.MESSAGES, False): answers.messages_tools,
    (Api.MESSAGES, True): answers.messages_tools_stream,
    (Api.GEMINI, False): answers.gemini_tools,
    (Api.GEMINI, True): answers.gemini_tools_stream,
    (Api.INTERACTIONS, False): answers.interactions_tools,
    (Api.INTERACTIONS, True): answers.interactions_tools_stream,
}
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


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


@STREAMED
@pytest.mark.parametrize("api", Api)
def test_a_healthy_conversation_is_the_same_and_is_counted(
    service: Service, provider: Provider, rollout: str, api: Api, stream: bool
) -> None:
    direct, through = both_ways(service, provider, api, rollout, stream=stream)
    assert through == direct
    assert through.error is None
    exchange = only_exchange(service, rollout)
    assert (exchange["status"], exchange["ending"]) == (200, "complete")
    assert (exchange["input_tokens"], exchange["output_tokens"]) == (31, 5)
    assert exchange["cached_input_tokens"] == 8
    assert exchange["usage_source"] == "provider"
    assert exchange["finish_reason"] == FINISHES[api][0]
    assert (exchange["tool_calls"], exchange["subcategory"]) == (0, None)
    assert exchange["streamed"] is stream
    assert service.verdict(rollout)["health"] == "healthy"


@STREAMED
@pytest.mark.parametrize("api", Api)
def test_a_tool_call_is_passed_on_and_counted(
    service: Service, provider: Provider, rollout: str, api: Api, stream: bool
) -> None:
    provider.plays(TOOLS[api, stream]())
    direct, through = both_ways(service, provider, api, rollout, stream=stream)
    assert through == direct
    exchange = only_exchange(service, rollout)
    assert exchange["tool_calls"] == 1
    assert exchange["finish_reason"] == FINISHES[api][1]
    assert service.verdict(rollout)["tool_calls"] == 1


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("fault", Fault)
def test_a_failure_raises_the_same_error_and_is_named(
    service: Service, provider: Provider, rollout: str, api: Api, fault: Fault
) -> None:
    failure = answers.FAILURES[api][fault]
    provider.plays(failure)
    direct, through = both_ways(service, provider, api, rollout, stream=fault is Fault.QUOTA)
    assert through == direct
    assert through.status == failure.status
    exchange = only_exchange(service, rollout)
    assert (exchange["status"], exchange["subcategory"]) == (failure.status, fault.value)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["rule"]) == ("api_error", "all_failed")
    assert (verdict["subcategory"], verdict["dominant_status"]) == (fault.value, failure.status)
    transient = fault in (Fault.RATE_LIMIT, Fault.PROVIDER_ERROR)
    assert (verdict["transient"], verdict["retry"]["eligible"]) == (transient, transient)
    assert verdict["evidence"] == [exchange["id"]]


FAILED_INSIDE_200 = {
    "responses": (Api.RESPONSES, answers.responses_failed_stream(), "provider_error"),
    "messages": (Api.MESSAGES, answers.messages_error_stream(), "provider_error"),
    "chat": (
        Api.CHAT,
        answers.streamed(
            *answers.chat_stream().body[:2],  # type: ignore[arg-type]
            answers.data({"error": {"message": "no credit", "code": "insufficient_quota"}}),
        ),
        "quota",
    ),
    "interactions": (
        Api.INTERACTIONS,
        answers.interactions_error_stream("service_unavailable", "The service is overloaded."),
        "provider_error",
    ),
}


@pytest.mark.parametrize("name", FAILED_INSIDE_200)
def test_a_failure_inside_a_stream_is_no_success(
    service: Service, provider: Provider, rollout: str, name: str
) -> None:
    api, answer, subcategory = FAILED_INSIDE_200[name]
    provider.plays(answer)
    direct, through = both_ways(service, provider, api, rollout, stream=True)
    assert through == direct
    exchange = only_exchange(service, rollout)
    assert (exchange["status"], exchange["subcategory"]) == (200, subcategory)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", subcategory)


@pytest.mark.parametrize(
    ("api", "answer"),
    [
        (Api.CHAT, answers.chat_stream()),
        (Api.RESPONSES, answers.responses_stream()),
        (Api.MESSAGES, answers.messages_stream()),
        (Api.GEMINI, answers.gemini_stream()),
        (Api.INTERACTIONS, answers.interactions_stream()),
    ],
)
@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
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
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["transient"]) == ("api_error", True)


@pytest.mark.parametrize("api", [Api.CHAT, Api.MESSAGES])
def test_an_sdk_that_retries_and_succeeds_has_recovered(
    service: Service, provider: Provider, rollout: str, api: Api
) -> None:
    limited = answers.FAILURES[api][Fault.RATE_LIMIT]
    soon = answers.whole({}, 429, ("retry-after-ms", "20"))
    provider.plays(Answer(status=429, headers=soon.headers, body=limited.body), answers.healthy)
    seen = ask(api, service.base(rollout, UPSTREAM[api]), stream=False, retries=2)
    assert seen.error is None
    first, second = service.exchanges(rollout)
    assert (first["subcategory"], second["subcategory"]) == ("rate_limit", None)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["recovered_requests"]) == ("healthy", 1)
