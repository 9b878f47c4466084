"""What many calls at once can spend of a limit, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes import answers, caller
from tests.fakes.provider import Answer, Pause, Request
from tests.proxy.api.test_routes import Service, serving
from tests.waiting import until

AT_ONCE = 16
LIMIT = 20_000
PROMPT = 20  # tokens


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as running_service:
        yield running_service


def plays_what_is_asked(request: Request) -> Answer:
    """Take half a second, and as many tokens as the request allows."""
    most = orjson.loads(request.body)["max_tokens"]
    usage = {
        "prompt_tokens": PROMPT,
        "completion_tokens": most,
        "total_tokens": PROMPT + most,
    }
    return answers.chat(usage=usage).stopping_after(0, Pause(0.5))


def register(service: Service, name: str, **asked: Any) -> dict[str, Any]:
    answer = service.http.post("/rollouts", json={"id": name, **asked})
    answer.raise_for_status()
    registered: dict[str, Any] = answer.json()
    return registered


def ask(registered: dict[str, Any], most: int) -> int:
    """Call with an output limit; return the status."""
    messages = [{"role": "user", "content": "What is true?"}]
    asked = {"model": "gpt-5", "max_tokens": most, "messages": messages}
    url = registered["base_urls"]["openai"] + "/chat/completions"
    return caller.post(url, json=asked).status_code


def spent(service: Service, kind: str, name: str) -> dict[str, Any]:
    until(lambda: service.get(f"/{kind}/{name}/limits")["in_flight"] == 0)
    found: dict[str, Any] = service.get(f"/{kind}/{name}/limits")["spent"]
    return found


@pytest.mark.parametrize("kind", ["rollouts", "batches"])
def test_calls_at_once_pass_a_limit_by_no_more_than_one_of_them(
    service: Service, kind: str
) -> None:
    service.provider.plays(plays_what_is_asked)
    if kind == "rollouts":
        agents = [register(service, "one", limits={"tokens": LIMIT})] * AT_ONCE
    else:
        shared = {"batch": "one", "batch_limits": {"tokens": LIMIT}}
        agents = [register(service, f"r{n}", **shared) for n in range(AT_ONCE)]
    assert ask(agents[0], 10) == 200, "a small call tells nothing of those that follow"
    spent(service, kind, "one")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        statuses = list(pool.map(lambda agent: ask(agent, 10_000), agents))
    tokens = spent(service, kind, "one")["tokens"]
    assert sorted(set(statuses)) == [200, 403]
    assert LIMIT <= tokens <= LIMIT + PROMPT + 10_000
