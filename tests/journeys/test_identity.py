"""The snippets of docs/guides/identity.md on real clients, one for two rollouts at once.

Part of `make integrations`. The service has a token, and refuses what names no rollout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Provider, Request
from tests.journeys.environments import ON_REQUEST
from tests.journeys.harnesses import ENVIRONMENTS, KEY
from tests.journeys.service import ROOT, Service
from tests.journeys.test_integrations import run

PAGE = (ROOT / "docs" / "guides" / "identity.md").read_text()
TOKEN = "t0ken"
CALLS = {"a": 3, "b": 5}

# Which environment has a snippet's client.
SNIPPETS = {
    "httpx": "clients",
    "OpenAI's SDK": "clients",
    "LangChain": "clients",
    "OpenAI Agents": "clients",
    "pydantic-ai": "clients",
    "smolagents": "clients",
    "LiteLLM": "mini_swe_agent",
    "dspy": "mini_swe_agent",
    "Agent Development Kit": "heavy",
    "Claude Agent SDK": "heavy",
    "lm-eval": "heavy",
}

VARIABLES = {
    "ANTHROPIC_API_KEY": KEY,
    "GEMINI_API_KEY": KEY,
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}

pytestmark = [
    pytest.mark.skipif(not ENVIRONMENTS, reason="real clients are run by `make integrations`"),
    pytest.mark.timeout(300),
]

DRIVER = """
import asyncio, inspect, json, sys, threading
import httpx
import truezero

url, token = sys.argv[1:3]
snippets, calls = json.loads(sys.argv[3]), json.loads(sys.argv[4])

async def tasks(agent, batch):
    async with truezero.AsyncClient(url, token) as client:
        both = asyncio.Barrier(len(calls))
        async def one(name):
            async with client.batch(batch).rollout(name) as rollout:
                await both.wait()
                said = [await agent(f"hi {number}") for number in range(calls[name])]
                await rollout.finish(rewards=1.0, termination_reason="agent_stop")
            return name, (rollout.id, said)
        return dict(await asyncio.gather(*map(one, calls)))

def threads(agent, batch):
    found, both = {}, threading.Barrier(len(calls), timeout=60)
    def one(name):
        with truezero.Client(url, token) as client, client.batch(batch).rollout(name) as rollout:
            both.wait()
            said = [agent(f"hi {number}") for number in range(calls[name])]
            rollout.finish(rewards=1.0, termination_reason="agent_stop")
        found[name] = rollout.id, said
    running = [threading.Thread(target=one, args=(name,)) for name in calls]
    for thread in running: thread.start()
    for thread in running: thread.join()
    assert set(found) == set(calls), "a thread failed"
    return found

for name, text in snippets:
    known = {"url": url, "truezero": truezero, "httpx": httpx}
    exec(text, known)
    agent = known["agent"]
    if inspect.iscoroutinefunction(agent):
        found = asyncio.run(tasks(agent, name))
    else:
        found = threads(agent, name)
    print(json.dumps({"name": name, "found": found}))
"""


def snippets() -> Iterator[tuple[str, str]]:
    """Each snippet that has an agent, under its heading."""
    for part in PAGE.split("\n### ")[1:]:
        heading, _, text = part.partition("\n")
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            yield f"{heading} {number}", code


def answering(request: Request) -> Answer:
    """A provider that answers dspy in the form that it asks for."""
    if b"[[ ## " not in request.body:
        return answers.healthy(request)
    return answers.chat(text="[[ ## answer ## ]]\nzero\n\n[[ ## completed ## ]]")


def test_every_snippet_has_an_environment() -> None:
    assert {name.rpartition(" ")[0] for name, _ in snippets()} == set(SNIPPETS)


@pytest.mark.parametrize(
    "environment",
    [
        name
        for name in sorted(set(SNIPPETS.values()))
        if name not in ON_REQUEST or Path(ENVIRONMENTS or "", name, ".ready").exists()
    ],
)
def test_each_rollout_has_exactly_its_own_calls_of_one_client(
    environment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    chosen = [(n, t) for n, t in snippets() if SNIPPETS[n.rpartition(" ")[0]] == environment]
    with (
        Provider(answering) as provider,
        Service(tmp_path, provider.url, ADMIN_TOKEN=TOKEN) as service,
    ):
        words = (service.url, TOKEN, json.dumps(chosen), json.dumps(CALLS))
        lines = run(environment, DRIVER, *words, url=service.url, home=tmp_path)
        service.http.headers["authorization"] = f"Bearer {TOKEN}"
        told = {found["name"]: found["found"] for found in map(json.loads, lines)}
        counted = {name: _counted(service, found) for name, found in told.items()}
    assert counted == {name: CALLS for name, _ in chosen}
    assert len(provider.requests) == len(chosen) * sum(CALLS.values()), "no other call was made"
    said = [text for found in told.values() for _, texts in found.values() for text in texts]
    assert set(said) <= {"The zero is true.", "zero"}
    assert {own_key(request) for request in provider.requests} == {KEY}
    assert not any("truezero" in n.lower() for r in provider.requests for n, _ in r.headers)


def own_key(request: Request) -> str:
    """The key of the agent's own that a provider was shown."""
    names = ("authorization", "x-goog-api-key", "x-api-key")
    return next(filter(None, map(request.header, names)), "").removeprefix("Bearer ")


def _counted(service: Service, found: dict[str, Any]) -> dict[str, int]:
    """How many calls each rollout has; all are answered."""
    for identity, _ in found.values():
        assert service.verdict(identity)["health"] == "healthy"
    return {name: len(service.exchanges(identity)) for name, (identity, _) in found.items()}
