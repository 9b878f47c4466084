"""How each agent is recognised, and what it needs of its own: flags, variables, a provider."""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from tests.tables import each
from tests.truezero.runner.equipping import BASE, KEY, codex_settings, told
from truezero.runner import agents
from truezero.runner.agents import AGENTS, recognised


@each(
    "command, name, place",
    [
        ("claude -p hi", "Claude Code", 0),
        ("/usr/local/bin/claude -p hi", "Claude Code", 0),
        ("npx -y @anthropic-ai/claude-code -p hi", "Claude Code", 2),
        ("codex exec hi", "Codex", 0),
        ("npx @openai/codex@0.169.0 exec hi", "Codex", 1),
        ("node ./node_modules/codex.js exec hi", "Codex", 1),
        ("opencode run hi", "opencode", 0),
        ("gemini -p hi", "Gemini CLI", 0),
        ("qwen -p hi", "qwen-code", 0),
        ("mini -t hi", "mini-swe-agent", 0),
        ("uvx mini-swe-agent -t hi", "mini-swe-agent", 1),
        ("python -m minisweagent", "mini-swe-agent", 2),
        ("aider --message hi", "aider", 0),
        ("python agent.py", "an agent", None),
        ("./solve codex", "an agent", None),
        ("grep claude notes", "an agent", None),
    ],
)
def test_an_agent_is_known_by_its_name(command: str, name: str, place: int | None) -> None:
    agent, found = recognised(command.split())
    assert (agent.name, found and found.place) == (name, place)


def test_codex_gets_a_provider_of_its_own_before_its_words() -> None:
    equipment = told("npx", "@openai/codex", "exec", "hi", OPENAI_API_KEY="sk-own")
    assert equipment.command[:3] == ("npx", "@openai/codex", "-c")
    assert equipment.command[-2:] == ("exec", "hi")
    assert codex_settings(equipment) == {
        "name": "truezero",
        "base_url": "http://127.0.0.1:9/r/a%2Fb/openai/v1",
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
        "env_http_headers": {"x-api-key": "TRUEZERO_ROLLOUT_KEY"},
    }
    assert equipment.environment["TRUEZERO_ROLLOUT_KEY"] == KEY


def test_codex_takes_its_key_from_where_it_has_one() -> None:
    assert codex_settings(told("codex"))["env_key"] == "OPENAI_API_KEY"
    assert codex_settings(told("codex", CODEX_API_KEY="own"))["env_key"] == "CODEX_API_KEY"
    logged_in = codex_settings(told("codex", files=("/home/u/.codex/auth.json",)))
    assert logged_in["requires_openai_auth"] is True
    assert "env_key" not in logged_in


def test_opencode_gets_its_addresses_laid_over_the_users_configuration() -> None:
    own = {
        "model": "openai/gpt-5",
        "provider": {"openai": {"options": {"timeout": 1}}, "mine": {"npm": "x"}},
    }
    seen = told("opencode", "run", OPENCODE_CONFIG_CONTENT=json.dumps(own)).environment
    config = json.loads(seen["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "openai/gpt-5"
    assert config["provider"]["openai"]["options"] == {
        "timeout": 1, "baseURL": f"{BASE}/openai/v1",
    }  # fmt: skip
    assert config["provider"]["anthropic"]["options"]["baseURL"] == f"{BASE}/anthropic/v1"
    assert config["provider"]["google"]["options"]["baseURL"] == f"{BASE}/gemini/v1beta"
    assert config["provider"]["mine"] == {"npm": "x"}


@pytest.mark.parametrize("content", ["// a comment", "[]", ""])
def test_a_configuration_that_cannot_be_read_does_not_let_opencode_slip_away(content: str) -> None:
    seen = told("opencode", OPENCODE_CONFIG_CONTENT=content).environment
    assert f"{BASE}/openai/v1" in seen["OPENCODE_CONFIG_CONTENT"]


def test_only_mini_swe_agent_says_in_a_file_how_it_ended() -> None:
    assert told("uvx", "mini-swe-agent", "-t", "hi", "-o", "t.json").trajectory == PurePath(
        "t.json"
    )
    assert told("mini").trajectory == PurePath(
        "/home/u/.config/mini-swe-agent/last_mini_run.traj.json"
    )
    assert told("codex", "-o", "t.json").trajectory is None
    assert told("./other", "-o", "t.json").trajectory is None


def test_qwen_is_told_which_account_unless_someone_chose() -> None:
    assert told("qwen", "-p", "hi").command == ("qwen", "--auth-type", "openai", "-p", "hi")
    chosen = ("qwen", "--auth-type", "anthropic", "-p", "hi")
    assert told(*chosen).command == chosen
    own = told("qwen", files=("/home/u/.qwen/oauth_creds.json",))
    assert own.command == ("qwen",)


def test_every_agent_has_a_name_of_its_own() -> None:
    commands = [name for agent in AGENTS for name in agent.commands]
    assert len(commands) == len(set(commands))
    assert agents.ANY not in AGENTS
