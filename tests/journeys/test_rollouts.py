"""Whole stories of a rollout, from the agent's first call to what the runner stores."""

from __future__ import annotations

import html
import json
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.fakes import answers
from tests.fakes.answers import Api, Fault
from tests.fakes.provider import Answer, Framing, Hang, Provider, Wait
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


def first_chunk(url: str, body: object = BODY) -> None:
    """Ask for a stream, hear its first chunk, and hang up."""
    with httpx.stream("POST", url + CHAT, json=body, timeout=60) as answer:
        assert next(answer.iter_raw())


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


SPOILT = {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}
QUOTED = {"raw": json.dumps({"error": SPOILT}), "provider_name": "Google AI Studio"}
# A conversation's state that is rejected: at Google, through a gateway, in a stream, at Anthropic.
STATES = {
    "google": answers.whole({"error": SPOILT}, 400),
    "a list": answers.whole([{"error": SPOILT}], 400),
    "openrouter": answers.whole(
        {"error": {"message": "Provider returned error", "code": 400, "metadata": QUOTED}}, 400
    ),
    "in a stream": answers.streamed(answers.data({"error": SPOILT})),
    "a thread": answers.whole(
        {
            "type": "error",
            "error": {
                "type": "not_found_error",
                "message": "Not found.",
                "details": {"error_code": "thread_not_found"},
            },
        },
        404,
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_a_conversations_rejected_state_is_no_credential_and_no_measurement(
    service: Service, provider: Provider, rollout: str, state: str
) -> None:
    chat = service.base(rollout, "openai") + CHAT
    provider.plays(answers.chat_tools_stream())
    assert httpx.post(chat, json=BODY, timeout=60).status_code == 200
    provider.plays(STATES[state])
    httpx.post(chat, json=BODY, timeout=60)
    result = service.outcome(rollout, **FINISHED, rewards={"reward": 0.0})
    failed = service.exchanges(rollout)[-1]
    assert (failed["subcategory"], failed["reason"]) == ("rejected_request", "lost_state")
    assert (result["health"], result["scoreable"]) == ("healthy", "unknown")
    assert "ended_on_lost_state" in service.verdict(rollout)["warnings"]
    page = html.unescape(service.http.get(f"/ui/rollouts/{rollout}").text)
    assert "at the end the conversation's own state was rejected" in page


def test_a_thread_that_is_gone_and_sent_again_as_a_whole_is_recovered(
    service: Service, provider: Provider, rollout: str
) -> None:
    messages = service.base(rollout, "anthropic") + "/v1/messages"
    headers = {"anthropic-beta": "message-threads-2026-08-12", "anthropic-version": "2026-10-21"}
    turn = {"role": "user", "content": "Go on."}
    body = {"model": "claude-opus-4-5", "max_tokens": 64, "messages": [turn]}
    threads = (
        ({"type": "create"}, answers.messages_tools()),
        ({"type": "continue", "previous_message_id": "msg_1"}, STATES["a thread"]),
        ({"type": "create"}, answers.messages()),
    )
    for thread, answer in threads:
        provider.plays(answer)
        httpx.post(messages, json={**body, "thread": thread}, headers=headers, timeout=60)
    result = service.outcome(rollout, **FINISHED, rewards={"reward": 0.0})
    assert (result["scoreable"], result["rewards"]) == ("yes", {"reward": 0.0})
    verdict = service.verdict(rollout)
    assert (verdict["failed_requests"], verdict["recovered_requests"]) == (1, 1)
    assert (verdict["doomed"], verdict["warnings"]) == (False, [])


def test_conversations_rejected_states_open_no_breaker(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(STATES["google"])
    for number in range(7):
        name = f"{rollout}-{number}"
        given = service.register(id=name, batch=rollout, model="gpt-5", upstream="openai")
        assert given["admitted"], given["error"]
        httpx.post(service.base(name, "openai") + CHAT, json=BODY, timeout=60)
        result = service.outcome(name, **FINISHED, rewards={"reward": 0.0})
        assert (result["health"], result["rewards"]) == ("api_error", None)
        assert result["api_error_info"]["subcategory"] == "rejected_request"


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


def test_an_agent_that_never_called_is_suspected(service: Service, rollout: str) -> None:
    service.register(id=rollout)
    service.outcome(rollout, **FINISHED, total_tokens=0, tool_calls=0)
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["rule"]) == ("suspected_api_error", "zero_signal")


def test_an_agent_that_was_cut_off_did_not_finish(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(answers.healthy, answers.FAILURES[Api.CHAT][Fault.QUOTA])
    for _ in range(2):
        ask(Api.CHAT, service.base(rollout, "openai"), stream=False)
    verdict = service.verdict(rollout)
    assert (verdict["rule"], verdict["subcategory"]) == ("interrupted", "quota")


def test_a_judges_failure_is_not_the_agents(
    service: Service, provider: Provider, rollout: str
) -> None:
    ask(Api.CHAT, service.base(rollout, "openai"), stream=False)
    provider.plays(answers.FAILURES[Api.CHAT][Fault.AUTH])
    ask(Api.CHAT, service.base(f"{rollout}/as/judge", "openai"), stream=False)
    assert [e["role"] for e in service.exchanges(rollout)] == ["agent", "judge"]
    assert service.verdict(rollout)["health"] == "healthy"


def test_an_agent_that_leaves_early_is_no_failure_and_costs_no_more(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(answers.chat_stream().stopping_after(3, Hang()))
    first_chunk(service.base(rollout, "openai"))
    provider.wait_until_left()
    verdict = service.verdict(rollout, wait="settled", timeout_s="5")
    (exchange,) = service.exchanges(rollout)
    assert (exchange["ending"], exchange["subcategory"]) == ("left_by_agent", None)
    assert verdict["health"] != "api_error"


def test_a_client_that_stops_reading_at_the_last_event_is_counted_at_once(
    service: Service, provider: Provider, rollout: str
) -> None:
    provider.plays(never_closed())
    with httpx.stream(
        "POST", service.base(rollout, "openai") + CHAT, json=BODY, timeout=60
    ) as answer:
        hear_done(answer)
        (exchange,) = service.exchanges(rollout)
    assert (exchange["output_tokens"], exchange["finish_reason"]) == (5, "stop")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_compressed_answer_passes_unchanged_and_is_understood(
    service: Service, provider: Provider, rollout: str, coding: str, stream: bool
) -> None:
    answer = answers.encoded(answers.chat_stream() if stream else answers.chat(), coding)
    provider.plays(answer.in_pieces(7))
    url = service.base(rollout, "openai") + CHAT
    headers = {"accept-encoding": coding}
    with httpx.stream(
        "POST", url, json={**BODY, "stream": stream}, headers=headers, timeout=60
    ) as response:
        heard = b"".join(response.iter_raw())
    assert heard == answer.content
    assert response.headers["content-encoding"] == coding
    assert provider.requests[-1].header("accept-encoding") == coding
    (exchange,) = service.exchanges(rollout)
    assert (exchange["input_tokens"], exchange["output_tokens"]) == (31, 5)


def test_a_request_and_an_answer_pass_byte_for_byte(
    service: Service, provider: Provider, rollout: str
) -> None:
    body = b'{ "model":"gpt-5",\n "messages": [] , "odd": "\\u00e9"}  '
    provider.plays(
        answers.chat().with_headers(("x-two", "1"), ("X-Two", "2"), ("x-request-id", "r"))
    )
    url = service.base(rollout, "openai") + CHAT + "?a=%2F&b"
    response = httpx.post(url, content=body, headers={"x-custom": "kept"}, timeout=60)
    (request,) = provider.requests
    assert (request.target, request.body) == (CHAT + "?a=%2F&b", body)
    assert request.header("x-custom") == "kept"
    assert not [name for name, _ in request.headers if "truezero" in name.lower()]
    assert response.content == answers.chat().content
    assert response.headers.get_list("x-two") == ["1", "2"]
    assert response.headers["x-truezero-exchange"] == service.exchanges(rollout)[0]["id"]


def test_chunks_arrive_as_they_are_sent(service: Service, provider: Provider, rollout: str) -> None:
    go = threading.Event()
    provider.plays(answers.chat_stream().stopping_after(2, Wait(go)))
    with httpx.stream(
        "POST", service.base(rollout, "openai") + CHAT, json=BODY, timeout=60
    ) as answer:
        chunks = answer.iter_raw()
        early = next(chunks)  # nothing more is sent before we have heard this
        go.set()
        assert early + b"".join(chunks) == answers.chat_stream().content


def test_a_provider_that_cannot_be_reached_is_a_providers_error(
    service: Service, rollout: str
) -> None:
    seen = ask(Api.CHAT, service.base(rollout, "vllm"), stream=False)
    assert (seen.error, seen.status) == ("openai.InternalServerError", 502)
    (exchange,) = service.exchanges(rollout)
    assert (exchange["status"], exchange["ending"]) == (None, "never_connected")
    verdict = service.verdict(rollout)
    assert (verdict["health"], verdict["subcategory"]) == ("api_error", "provider_error")


def test_an_unknown_upstream_is_refused_in_our_own_name(service: Service, rollout: str) -> None:
    refused = httpx.post(service.base(rollout, "nobody") + CHAT, json=BODY, timeout=60)
    assert refused.headers["x-truezero-refusal"]
    assert refused.headers["content-type"].startswith("application/problem+json")


def test_a_second_outcome_must_be_the_same(service: Service, rollout: str) -> None:
    service.register(id=rollout)
    first = service.outcome(rollout, **FINISHED)
    assert service.outcome(rollout, **FINISHED) == first
    other = {**FINISHED, "termination_reason": "max_steps"}
    assert (
        httpx.post(f"{service.url}/rollouts/{rollout}/outcome", json=other, timeout=60).status_code
        == 409
    )


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


@pytest.mark.slow
def test_told_to_stop_it_lets_calls_in_flight_finish(provider: Provider, tmp_path: Path) -> None:
    go = threading.Event()
    stream = answers.chat_stream().stopping_after(3, Wait(go))
    provider.plays(stream)
    with Service(tmp_path, provider.url) as service:
        with httpx.stream(
            "POST", service.base("r", "openai") + CHAT, json=BODY, timeout=60
        ) as answer:
            chunks = answer.iter_raw()
            heard = next(chunks)
            stopping = threading.Thread(target=service.stop)
            stopping.start()
            deadline = time.monotonic() + 300
            while "Shutting down" not in service.log():
                assert time.monotonic() < deadline, service.log()
                time.sleep(0.02)
            go.set()
            heard += b"".join(chunks)
        stopping.join()
        assert heard == stream.content
        service.start()
        (exchange,) = service.exchanges("r")
    assert exchange["ending"] == "complete"


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


def test_a_body_that_ends_with_the_connection_is_whole(
    service: Service, provider: Provider, rollout: str
) -> None:
    answer = Answer(body=answers.chat().body, framing=Framing.EOF)
    provider.plays(answer)
    heard = httpx.post(
        service.base(rollout, "openai") + CHAT, json={**BODY, "stream": False}, timeout=60
    )
    assert heard.content == answer.content
    (exchange,) = service.exchanges(rollout)
    assert (exchange["ending"], exchange["output_tokens"]) == ("complete", 5)
