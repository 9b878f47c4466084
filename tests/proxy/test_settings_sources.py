"""Raw settings: what a file and the environment have, and which of them goes before."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.settings import SettingsError, from_environment, from_file, merged_tables, named_file

KNOWN = {"port", "keys", "upstreams"}


def test_variables_name_settings_upstreams_and_keys() -> None:
    environment = {
        "TRUEZERO_PORT": "1", "TRUEZERO_UPSTREAM_MY_LLM": "https://x", "TRUEZERO_KEY_MY_LLM": "k",
        "TRUEZERO_URL": "the runner's", "PORT": "another's",
    }  # fmt: skip
    assert from_environment(environment, KNOWN) == {
        "port": "1",
        "upstreams": {"my-llm": {"url": "https://x"}},
        "keys": {"my-llm": "k"},
    }


def test_an_empty_variable_is_none_and_an_unknown_one_is_named() -> None:
    assert from_environment({"TRUEZERO_PORT": ""}, KNOWN) == {}
    with pytest.raises(SettingsError, match="TRUEZERO_PROT"):
        from_environment({"TRUEZERO_PROT": "1"}, KNOWN)


def test_a_file_says_policy_and_names_as_it_likes(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("port = 1\n[policy]\nstall_s = 2\n[keys]\nMy_LLM = 'k'\n", encoding="utf-8")
    assert from_file(file) == {"port": 1, "stall_s": 2, "keys": {"my-llm": "k"}}
    assert from_file(None) == {}


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert named_file({}) is None
    Path("truezero.toml").touch()
    assert named_file({}) == Path("truezero.toml")
    assert named_file({"TRUEZERO_CONFIG": "other.toml"}) == Path("other.toml")


def test_the_environment_goes_before_the_file_key_by_key() -> None:
    file = {"a": {"url": "file", "auth": "none"}, "b": {"url": "file"}, "c": "key"}
    env = {"a": {"url": "env"}, "c": "env"}
    assert merged_tables(file, env) == {
        "a": {"url": "env", "auth": "none"},
        "b": {"url": "file"},
        "c": "env",
    }
