"""Settings of each agent that lead past the service, and settings that do not."""

from __future__ import annotations

import json
from pathlib import PurePath

from tests.tables import each
from truezero.runner.agents import AGENTS, LaunchContext, recognised, said

OAUTH = json.dumps({"security": {"auth": {"selectedType": "oauth-personal"}}})
KEY = json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})


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
        ("gemini", {}, {".gemini/settings.json": KEY}),
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
