"""How each agent is recognised, and what it needs of its own: flags, variables, a provider."""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePath

import pytest

from tests.tables import each
from tests.truezero.runner.equipping import BASE, KEY, codex_settings, told
from truezero.runner import agents
from truezero.runner.agents import AGENTS, LaunchContext, mini_trajectory, noted, recognised, said


@each(
    "command, name",
    [
        ("claude -p hi", "Claude Code"),
        ("npx -y @anthropic-ai/claude-code -p hi", "Claude Code"),
        ("codex exec hi", "Codex"),
        ("opencode run hi", "opencode"),
        ("gemini -p hi", "Gemini CLI"),
        ("qwen -p hi", "qwen-code"),
        ("mini -t hi", "mini-swe-agent"),
        ("uvx mini-swe-agent -t hi", "mini-swe-agent"),
        ("python -m minisweagent", "mini-swe-agent"),
        ("aider --message hi", "aider"),
        ("./solve codex", "an agent"),
    ],
)
def test_an_agent_is_known_by_its_name(command: str, name: str) -> None:
    agent, found = recognised(command.split())
    assert (agent.name, found is None) == (name, name == "an agent")


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
    assert told("mini", "-o", "t.json").trajectory == PurePath("t.json")
    assert told("codex", "-o", "t.json").trajectory is None
    assert told("./other", "-o", "t.json").trajectory is None
    assert told("./other", "-o", "t.json", chosen="mini").trajectory == PurePath("t.json")


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


# --- Settings of each agent that lead past the service, and settings that do not ------------------

OAUTH = json.dumps({"security": {"auth": {"selectedType": "oauth-personal"}}})
BYPASSES_KEY = json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})


def reasons(
    command: str, environment: dict[str, str] | None = None, files: dict[str, str] | None = None
) -> str:
    agent, found = recognised(command.split())
    assert found is not None, command
    home = PurePath("/home/u")
    kept = {home / name: text for name, text in (files or {}).items()}
    seen = LaunchContext(
        words=found.words,
        environment=environment or {},
        home=home,
        exists=kept.__contains__,
        read=kept.get,
    )
    return "; ".join(said(agent.bypasses, seen))


@each(
    "command, environment, files, why",
    [
        ("claude", {"CLAUDE_CODE_USE_BEDROCK": "1"}, {}, "ANTHROPIC_BEDROCK_BASE_URL"),
        ("claude", {"CLAUDE_CODE_USE_VERTEX": "true"}, {}, "ANTHROPIC_VERTEX_BASE_URL"),
        ("claude", {"CLAUDE_CODE_USE_FOUNDRY": "1"}, {}, "ANTHROPIC_FOUNDRY_BASE_URL"),
        ("claude", {}, {".claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "https://x"}}'},
         "~/.claude/settings.json: env.ANTHROPIC_BASE_URL"),
        ("codex exec --oss hi", {}, {}, "--oss"),
        ("codex -c model_provider=azure hi", {}, {}, "another model_provider"),
        ("codex --config=model_provider='x' hi", {}, {}, "another model_provider"),
        ("codex exec hi", {}, {".codex/auth.json": "secret"}, "ChatGPT login"),
        ("opencode run -m github-copilot/gpt-5 hi", {}, {}, "another provider than"),
        ("opencode run --model=opencode/zen hi", {}, {}, "another provider than"),
        ("gemini", {"GOOGLE_GENAI_USE_VERTEXAI": "true"}, {}, "Vertex AI"),
        ("gemini", {"GOOGLE_GENAI_USE_GCA": "true"}, {}, "login with Google"),
        ("gemini", {}, {".gemini/settings.json": OAUTH}, "asks Google directly"),
        ("gemini", {}, {".gemini/settings.json": '{"selectedAuthType": "vertex-ai"}'}, "directly"),
        ("qwen --auth-type qwen-oauth", {}, {}, "asks Qwen directly"),
        ("qwen -p hi", {}, {".qwen/oauth_creds.json": "secret"}, "asks Qwen directly"),
        ("mini -m bedrock/claude -t hi", {}, {}, "the provider's own address"),
        ("mini --model=vertex_ai/gemini", {}, {}, "the provider's own address"),
        ("aider --model deepseek/chat", {}, {}, "the provider's own address"),
        ("aider --openai-api-base http://x", {}, {}, "base URL of its own"),
    ],
)  # fmt: skip
def test_a_setting_that_leads_past_the_service_is_told(
    command: str, environment: dict[str, str], files: dict[str, str], why: str
) -> None:
    told = reasons(command, environment, files)
    assert why in told
    assert "secret" not in told
    assert "https://x" not in told


@each(
    "command, environment, files",
    [
        ("claude", {"CLAUDE_CODE_USE_BEDROCK": "0", "CLAUDE_CODE_USE_VERTEX": ""}, {}),
        ("claude", {}, {".claude/settings.json": '{"env": {"OTHER": "1"}}'}),
        ("claude", {}, {".claude/settings.json": "// comments", ".claude/.credentials.json": "s"}),
        ("codex exec hi", {"OPENAI_API_KEY": "own"}, {".codex/auth.json": "s"}),
        ("codex -c model=gpt-5 exec", {}, {}),
        ("codex -c model_providers.x.name=y exec", {}, {}),
        ("opencode run -m openai/gpt-5 hi", {}, {}),
        ("opencode run hi", {}, {".local/share/opencode/auth.json": "s"}),
        ("gemini", {}, {".gemini/settings.json": BYPASSES_KEY}),
        ("gemini", {}, {".gemini/settings.json": "[]"}),
        ("qwen --auth-type openai -p hi", {}, {".qwen/oauth_creds.json": "s"}),
        ("mini -m openai/gpt-5", {}, {}),
        ("mini -m openrouter/deepseek/chat", {}, {}),
        ("aider -m bedrock/it", {}, {}),
    ],
)
def test_other_settings_are_not(
    command: str, environment: dict[str, str], files: dict[str, str]
) -> None:
    assert reasons(command, environment, files) == ""


def test_every_agent_is_watched_for_something() -> None:
    assert [agent.name for agent in AGENTS if not agent.bypasses] == []


# --- Where mini-SWE-agent writes how it ended, and what is read of it -----------------------------

DEFAULT = "/home/u/.config/mini-swe-agent/last_mini_run.traj.json"


@pytest.mark.parametrize(
    ("words", "environment", "path"),
    [
        ("-t hi", {}, DEFAULT),
        ("-t hi -o out/t.json -y", {}, "out/t.json"),
        ("--output out/t.json", {}, "out/t.json"),
        ("--output=out/t.json", {}, "out/t.json"),
        ("-oout/t.json", {}, "out/t.json"),
        ("", {"XDG_CONFIG_HOME": "/c"}, "/c/mini-swe-agent/last_mini_run.traj.json"),
        ("", {"MSWEA_GLOBAL_CONFIG_DIR": "/m"}, "/m/last_mini_run.traj.json"),
        ("", {"MSWEA_GLOBAL_CONFIG_DIR": ""}, DEFAULT),
    ],
)
def test_its_trajectory_is_where_its_options_and_its_settings_say(
    words: str, environment: dict[str, str], path: str
) -> None:
    seen = LaunchContext(
        words=words.split(),
        environment=environment,
        home=PurePath("/home/u"),
        exists=lambda _path: False,
        read=lambda _path: None,
    )
    assert mini_trajectory(seen) == PurePath(path)


def test_what_it_wrote_says_how_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    limits = {"status": "success", "termination_reason": "max_steps"}
    agents_own = {"status": "agent_error", "error": "RepeatedFormatError"}
    for written, expected in (
        ({"info": {"exit_status": "LimitsExceeded"}}, limits),
        ({"info": {"exit_status": "RepeatedFormatError"}}, agents_own),
        ({"info": {"exit_status": "TimeExceeded"}}, {"status": "task_timeout"}),
        ({"info": {"exit_status": ""}}, None),  # saved at a step, and never at an end
        ({"info": {"exit_status": "KeyError"}}, None),
        ({"info": None}, None),
        ([], None),
    ):
        file.unlink(missing_ok=True)
        said = noted(file)
        file.write_text(json.dumps(written))
        assert said() == expected, written


def test_what_it_did_not_write_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    assert noted(None)() is None
    assert noted(file)() is None
    file.write_text(json.dumps({"info": {"exit_status": "LimitsExceeded"}}))
    said = noted(file)
    assert said() is None, "of an earlier run"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    assert said() is not None
    broken = noted(tmp_path / "broken.json")
    (tmp_path / "broken.json").write_text("{")
    assert broken() is None
    folder = noted(tmp_path / "out")
    (tmp_path / "out").mkdir()
    assert folder() is None
