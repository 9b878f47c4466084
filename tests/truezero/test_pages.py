"""The pages for runners: their snippets run, and their tables are the code's."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.provider import closed_port
from tests.truezero.driving import call, service
from truezero.runner.agents import AGENTS

DOCS = Path(__file__).parent.parent.parent / "docs"


def snippets(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def test_the_sdks_page_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run_agent(env: dict[str, str]) -> float:
        return float(call(env["OPENAI_BASE_URL"]) == 200)

    async def run_agent_later(env: dict[str, str]) -> float:
        return await asyncio.to_thread(run_agent, env)

    def ask_agent(env: dict[str, str], step: int) -> str:
        return "done" if run_agent(env) and step == 1 else "more"

    def ask_shared(client: httpx.Client) -> None:
        assert client.post("/chat/completions", json={"model": "gpt-5", "messages": []}).is_success

    with service(tmp_path) as (url, _provider, _accounts):
        known: dict[str, Any] = {
            "url": url, "token": None, "run_agent": run_agent, "ask_agent": ask_agent,
            "run_agent_later": run_agent_later, "ask_shared": ask_shared,
        }  # fmt: skip
        one, away, loop, shared, batch, later, many = snippets("reference/sdk.md")
        exec(one, known)
        assert known["rollout"].result.rewards == {"reward": 1.0}
        from truezero import Client

        with Client(f"http://127.0.0.1:{closed_port()}") as known["client"]:
            exec(away, known)
        assert "rollout 'night-12/t1' is not delivered" in capsys.readouterr().out
        with Client(url) as known["client"], known["client"].batch("loops") as known["batch"]:
            exec(loop, known)
            assert known["rollout"].result.termination_reason == "agent_stop"
            exec(shared, known)
            assert known["rollout"].verdict.total_requests == 1
            exec(batch, known)
            assert known["done"].summary.score_effective == 1.0
            exec(many, known)
            assert known["item"].rollout.admitted
        exec(later, known)
        assert asyncio.run(known["night"]()).summary.score_effective == 1.0


async def test_the_page_on_rl_learns_from_groups_as_they_settle(tmp_path: Path) -> None:
    class Enough(Exception):
        """The loop follows for ever."""

    def update(rollout_ids: list[str], advantages: list[float | None]) -> None:
        learned.append((len(rollout_ids), advantages))
        raise Enough

    async def attempt(_task: str, rollout: Any) -> float:
        await asyncio.to_thread(call, rollout.env["OPENAI_BASE_URL"])
        return float(rollout.repeat)

    learned: list[tuple[int, list[float | None]]] = []
    known: dict[str, Any] = {}
    exec(snippets("guides/rl.md")[0], known)
    with service(tmp_path) as (url, _provider, _accounts):
        from truezero import AsyncClient

        async with AsyncClient(url) as client:
            await client.batch("step-12").run(["t"], attempt, repeats=2)
            with pytest.raises(Enough):
                await asyncio.wait_for(known["learn"](client, update), 60)
    ((count, advantages),) = learned
    assert count == 2
    assert advantages == pytest.approx([-(0.5**0.5), 0.5**0.5])


def test_the_agents_page_lists_every_agent() -> None:
    text = (DOCS / "guides" / "agents.md").read_text()
    table = text.split("<!-- agents -->")[1].split("<!-- /agents -->")[0]
    rows = [line.split(" | ") for line in table.strip().splitlines()[2:]]
    listed = [
        (name.removeprefix("| "), set(re.findall(r"`([\w-]+)`", by)), re.findall(r"`(\w+)`", keys))
        for name, by, keys, *_ in rows
    ]
    assert listed == [(agent.name, set(agent.commands), list(agent.keys)) for agent in AGENTS]


def test_the_agents_page_names_every_variable() -> None:
    from truezero.runner.equipment import _BASE_URLS

    text = (DOCS / "guides" / "agents.md").read_text()
    assert all(f"`{variable}`" in text for variable in _BASE_URLS)
