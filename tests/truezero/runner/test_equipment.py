"""What every agent is told: variables, keys and files, and nothing secret on a command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path, PurePath

import pytest

from tests.tables import each
from tests.truezero.runner.equipping import (
    BASE,
    KEY,
    SECRET,
    codex_settings,
    seen_with,
    told,
)
from truezero.runner.agents import AGENTS
from truezero.runner.equipment import _settings, bare

UNHEARD = "the shell's text does not name it: it cannot get the flags it needs"
HIDDEN = "codex is in a shell's text, so nothing of its own was added: use `--agent codex`"


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


def test_a_key_that_the_command_sets_is_the_agents_own() -> None:
    equipment = told("env", "CODEX_API_KEY=own", "codex", "exec", "hi")
    assert codex_settings(equipment)["env_key"] == "CODEX_API_KEY"
    assert "OPENAI_API_KEY" not in equipment.environment


@pytest.mark.parametrize("chosen", [None, "codex"])
def test_an_agent_in_a_shells_text_gets_what_it_needs_where_its_user_chooses_it(
    chosen: str | None,
) -> None:
    equipment = told("bash", "-c", "cd repo && codex exec hi", chosen=chosen)
    _, _, text = equipment.command
    if chosen is None:
        assert (equipment.known, equipment.bypasses) == (False, (HIDDEN,))
        assert (text, equipment.added) == ("cd repo && codex exec hi", None)
    else:
        assert (equipment.known, equipment.bypasses) == (True, ())
        inner = tuple(shlex.split(text.partition(" && ")[2]))
        assert codex_settings(equipment, inner)["name"] == "truezero"
        assert inner[-2:] == ("exec", "hi")


def test_what_is_added_is_told_without_a_value() -> None:
    added = told("codex", "exec", "hi", OPENAI_API_KEY="sk-own").added or ""
    environment, words = added.split("; to its command: ")
    assert environment.startswith("added to its environment: ANTHROPIC_API_BASE, ")
    assert "OPENAI_BASE_URL" in environment
    assert "OPENAI_API_KEY" not in environment
    assert "-c 'model_provider=\"truezero\"'" in words
    assert SECRET not in added
    assert "sk-own" not in added
    assert told("claude").added == (
        "added to its environment: ANTHROPIC_API_BASE, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, "
        "GOOGLE_GEMINI_BASE_URL, OPENAI_API_BASE, OPENAI_BASE_URL, OPENROUTER_API_BASE, "
        "TRUEZERO_ROLLOUT, TRUEZERO_ROLLOUT_KEY"
    )


@each(
    "command, chosen, reasons",
    [
        ("env OPENAI_BASE_URL=https://x codex", None, ["the command sets OPENAI_BASE_URL itself"]),
        ("env OPENCODE_CONFIG_CONTENT={} opencode", None, [
            "the command sets OPENCODE_CONFIG_CONTENT itself",
        ]),
        ("env OPENAI_BASE_URL=https://x ./unknown", None, []),
        ("bash solve.sh", "codex", [UNHEARD]),
        ("bash solve.sh", "claude", []),
        ("./solve --oss", "codex", ["--oss asks a model on this machine directly"]),
        ("codex exec --oss hi", None, ["--oss asks a model on this machine directly"]),
        ("codex exec hi", None, []),
    ],
)  # fmt: skip
def test_what_leads_past_the_service_is_told(
    command: str, chosen: str | None, reasons: list[str]
) -> None:
    equipment = told(*command.split(), chosen=chosen)
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
