"""What a bug report is told: versions and names, and never a value that may be a secret."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tests.fakes.provider import closed_port
from tests.truezero.cli.test_cli import truezero
from truezero.cli import machine

SECRETS = {
    "TRUEZERO_ADMIN_TOKEN": "t0ken-value", "TRUEZERO_KEY_OPENAI": "sk-value",
    "TRUEZERO_DATABASE_URL": "postgresql://me:pw-value@db/truezero",
    "OPENAI_API_KEY": "sk-other-value", "https_proxy": "http://me:proxy-value@proxy.example",
}  # fmt: skip


def test_variables_are_named_and_their_values_are_not_told() -> None:
    facts = dict(machine.machine_facts({**SECRETS, "TRUEZERO_PUBLIC_URL": ""}))
    assert facts["variables"] == (
        "TRUEZERO_ADMIN_TOKEN, TRUEZERO_DATABASE_URL, TRUEZERO_KEY_OPENAI, https_proxy"
    )
    assert "value" not in "".join(facts.values())
    assert dict(machine.machine_facts({}))["variables"] == "none of truezero's are set"


def test_versions_are_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = dict(machine.machine_facts({}))
    assert f"sqlalchemy {metadata.version('sqlalchemy')}" in facts["packages"]
    assert facts["release"].startswith("truezero ")

    def light(name: str) -> str:
        if name not in ("truezero", "httpx", "pydantic"):
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(metadata, "version", light)
    assert dict(machine.machine_facts({}))["packages"] == "httpx 1, pydantic 1"


def test_a_settings_file_is_present_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert dict(machine.machine_facts({}))["settings file"] == "none"
    (tmp_path / "truezero.toml").write_text("")
    assert dict(machine.machine_facts({}))["settings file"] == "present"
    (tmp_path / "mine.toml").write_text("")
    for name, told in (("mine.toml", "present"), ("no.toml", "none")):
        environment = {"TRUEZERO_CONFIG": str(tmp_path / name)}
        assert dict(machine.machine_facts(environment))["settings file"] == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("at http://me:pw@host:1/x and https://k@h", "at http://host:1/x and https://h"),
        ("at http://host/a@b", "at http://host/a@b"),
        ("mail a@b.example", "mail a@b.example"),
    ],
)
def test_a_url_loses_its_user_and_password(text: str, told: str) -> None:
    assert machine.without_credentials(text) == told


@pytest.mark.slow
def test_the_whole_screen_holds_no_secret(tmp_path: Path) -> None:
    url = f"http://me:url-value@127.0.0.1:{closed_port()}"
    more = {name: text for name, text in SECRETS.items() if name != "https_proxy"}
    for words in (["doctor"], ["doctor", "--json"]):
        said = truezero(*words, folder=tmp_path, TRUEZERO_URL=url, OPENAI_BASE_URL=url, **more)
        assert said.returncode == 1
        assert "TRUEZERO_KEY_OPENAI" in said.stdout
        assert "-value" not in said.stdout + said.stderr
        assert len(said.stdout.splitlines()) < 70
