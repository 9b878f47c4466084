"""What every agent is told: variables, keys and files, and nothing secret on a command line."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path, PurePath

import pytest

from tests.tables import each
from tests.truezero.runner.equipping import (
    BASE,
    HOME,
    KEY,
    ROLLOUT,
    SECRET,
    codex_settings,
    seen_with,
    told,
)
from truezero.runner.agents import AGENTS
from truezero.runner.equipment import _settings, bare, prepare
from truezero.runner.recognition import Program

UNHEARD = 'its wrapper does not pass arguments on ("$@"): it cannot get the flags it needs'


@pytest.mark.parametrize("command", [next(iter(sorted(a.commands))) for a in AGENTS] + ["sh"])
def test_no_secret_stands_on_a_command_line_or_in_a_file(command: str) -> None:
    equipment = told(command, "say hi", OPENAI_API_KEY="sk-own")
    words = " ".join((*equipment.command, *equipment.files.values()))
    assert SECRET not in words
    assert "sk-own" not in words


@pytest.mark.parametrize("command", [next(iter(sorted(a.commands))) for a in AGENTS] + ["sh"])
def test_every_agent_gets_the_common_variables(command: str) -> None:
    seen = told(command).environment
    for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        assert seen[variable] == f"{BASE}/openai/v1"
    for variable in ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"):
        assert seen[variable] == f"{BASE}/anthropic"
    assert seen["GOOGLE_GEMINI_BASE_URL"] == f"{BASE}/gemini"
    assert seen["OPENROUTER_API_BASE"] == f"{BASE}/openrouter/v1"
    assert seen["PATH"] == "/bin"


def test_our_own_settings_are_not_handed_down() -> None:
    ours = {
        "TRUEZERO_ADMIN_TOKEN": "t0ken", "TRUEZERO_KEY_OPENAI": "sk-real", "TRUEZERO_URL": "http://x",
    }  # fmt: skip
    seen = seen_with(ours, "sh").environment
    assert {name for name in seen if name.startswith("TRUEZERO_")} == {
        "TRUEZERO_ROLLOUT", "TRUEZERO_ROLLOUT_KEY",
    }  # fmt: skip


def test_an_agents_own_keys_stay_and_missing_ones_are_the_rollouts() -> None:
    seen = told("sh", OPENAI_API_KEY="sk-own", GOOGLE_API_KEY="own").environment
    assert seen["OPENAI_API_KEY"] == "sk-own"
    assert seen["ANTHROPIC_API_KEY"] == KEY
    assert "GEMINI_API_KEY" not in seen


@pytest.mark.parametrize(
    ("environment", "files"),
    [
        ({"CLAUDE_CODE_OAUTH_TOKEN": "own"}, ()),
        ({"ANTHROPIC_AUTH_TOKEN": "own"}, ()),
        ({}, ("/home/u/.claude/.credentials.json",)),
    ],
)
def test_an_agent_with_an_account_of_its_own_gets_no_key(
    environment: dict[str, str], files: tuple[str, ...]
) -> None:
    assert "ANTHROPIC_API_KEY" not in seen_with(environment, "claude", files=files).environment


def test_gemini_gets_a_home_where_the_user_has_settled_nothing() -> None:
    equipment = told("gemini", "-p", "hi")
    ((path, content),) = equipment.files.items()
    assert path == PurePath("/run/home/.gemini/settings.json")
    assert json.loads(content)["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert equipment.environment["GEMINI_CLI_HOME"] == "/run/home"


@pytest.mark.parametrize("file", [".gemini/settings.json", ".gemini/GEMINI.md"])
def test_geminis_own_home_is_left_to_it(file: str) -> None:
    equipment = told("gemini", files=(f"/home/u/{file}",))
    assert not equipment.files
    assert "GEMINI_CLI_HOME" not in equipment.environment


@each(
    "command",
    [
        "env CODEX_API_KEY=own codex exec hi",
        "sh -c 'CODEX_API_KEY=own codex exec hi'",
        "sh -c 'export CODEX_API_KEY=own; timeout 9 npx -y @openai/codex exec hi'",
    ],
)
def test_codex_gets_its_provider_however_it_is_started(command: str) -> None:
    equipment = told(*shlex.split(command))
    words = equipment.command if command.startswith("env") else shlex.split(equipment.command[2])
    inner = dataclasses.replace(equipment, command=tuple(words))
    provider = codex_settings(inner)
    assert (provider["name"], provider["env_key"]) == ("truezero", "CODEX_API_KEY")
    assert "OPENAI_API_KEY" not in equipment.environment
    assert list(words[-2:]) == ["exec", "hi"]


@each(
    "command, reasons",
    [
        ("env OPENAI_BASE_URL=https://x codex", ["the command sets OPENAI_BASE_URL itself"]),
        ("sh -c 'OPENAI_API_BASE=$OPENAI_BASE_URL mini'", []),
        ("env OPENCODE_CONFIG_CONTENT={} opencode", [
            "the command sets OPENCODE_CONFIG_CONTENT itself",
        ]),
        ("env -i claude", ["the command starts it with an empty environment"]),
        ("env OPENAI_BASE_URL=https://x ./unknown", []),
        ("./wrapper", [UNHEARD]),
        ("codex exec --oss hi", ["--oss asks a model on this machine directly"]),
        ("codex exec hi", []),
    ],
)  # fmt: skip
def test_what_leads_past_the_service_is_told(command: str, reasons: list[str]) -> None:
    script = Program(path=PurePath("/w"), text="#!/bin/sh\nexec codex exec hi\n")
    equipment = prepare(
        shlex.split(command), ROLLOUT, HOME, service_host="x", exists=lambda _path: False,
        find_program=lambda word: script if word == "./wrapper" else None,
    )  # fmt: skip
    assert list(equipment.bypasses) == reasons
    assert equipment.known == ("unknown" not in command)


def test_an_http_proxy_is_not_asked_for_the_service() -> None:
    assert "NO_PROXY" not in told("sh").environment
    seen = told("sh", HTTPS_PROXY="http://p", HTTP_PROXY="http://p", no_proxy="a.b").environment
    assert (seen["no_proxy"], seen["NO_PROXY"]) == ("a.b,127.0.0.1", "a.b,127.0.0.1")


@pytest.mark.parametrize(
    ("url", "rollout", "without"),
    [
        ("http://x/r/a~s/openai/v1", "a", "http://x/r/a/openai/v1"),
        ("http://x/r/a/openai/v1", "a", "http://x/r/a/openai/v1"),
        ("http://x/r/a~b~s/openai/v1", "a~b", "http://x/r/a~b/openai/v1"),
        ("http://x/p/r/a%2Fb~s/gemini", "a/b", "http://x/p/r/a%2Fb/gemini"),
    ],
)
def test_a_base_url_can_be_told_without_its_secret(url: str, rollout: str, without: str) -> None:
    assert bare(url, rollout) == without


def test_settings_are_read_and_no_more_of_them_than_is_plausible(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{}")
    assert _settings(tmp_path / "settings.json") == "{}"
    assert _settings(tmp_path) is None
    assert _settings(tmp_path / "gone") is None
