"""The steps commands begin with: settings from flags, and one sentence where they fail."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from click.exceptions import Exit
from click.testing import CliRunner

from tests.fakes.provider import closed_port
from truezero.cli import app, options
from truezero.sdk import addresses


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    monkeypatch.setattr(os, "environ", clean)
    monkeypatch.chdir(tmp_path)


def test_flags_that_are_given_become_variables() -> None:
    options.set_environment({"port": 0, "host": None, "config": Path("a.toml")})
    found = {name: value for name, value in os.environ.items() if "TRUEZERO" in name}
    assert found == {"TRUEZERO_PORT": "0", "TRUEZERO_CONFIG": "a.toml"}


def test_a_flag_names_the_database_before_the_environment_does() -> None:
    os.environ["TRUEZERO_DATABASE_URL"] = "other.db"
    assert "other.db" in options.database(None, None)
    assert "flag.db" in options.database("flag.db", None)


def test_a_wrong_setting_is_one_sentence_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    os.environ["TRUEZERO_WORKERS"] = "many"
    with pytest.raises(Exit) as exit_:
        options.settings()
    assert exit_.value.exit_code == 2
    assert capsys.readouterr().err.startswith("truezero: TRUEZERO_WORKERS")


def test_without_the_service_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str, *_: object) -> None:
        if name.startswith("proxy"):
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

    finder = type("Finder", (), {"find_spec": staticmethod(missing)})
    for name in [name for name in sys.modules if name.partition(".")[0] == "proxy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with pytest.raises(Exit) as exit_:
        options.server()
    assert exit_.value.exit_code == 1
    assert "(uvicorn is missing): pip install 'truezero[server]'" in capsys.readouterr().err


def test_a_service_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(Exit) as exit_, options.connected(url, None):
        pytest.fail("nobody answered")
    assert exit_.value.exit_code == 1
    assert capsys.readouterr().err.startswith(f"truezero: cannot reach a truezero service at {url}")


@pytest.mark.parametrize(
    "words",
    [
        ["list"], ["verdict", "r"], ["batch", "b"], ["check", "b"], ["watch", "b"], ["export"],
        ["doctor"], ["run", "--", "true"], ["drill", "--", "true"],
    ],
)  # fmt: skip
def test_an_address_without_a_scheme_is_one_sentence_of_every_command(words: list[str]) -> None:
    os.environ["TRUEZERO_URL"] = "localhost:8383"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == (4 if words[0] == "check" else 1)
    assert done.stderr == (
        "truezero: the service's address 'localhost:8383' does not begin with http:// or https://: "
        "set TRUEZERO_URL to the whole URL, for example http://localhost:8383\n"
    )


@pytest.mark.parametrize("command", ["run", "drill"])
@pytest.mark.parametrize("words", [("--agnet", "codex"), ("--agnet", "codex", "--", "true")])
def test_a_misspelt_option_before_a_command_is_not_the_command(
    command: str, words: tuple[str, ...]
) -> None:
    done = CliRunner().invoke(app, [command, *words])
    assert done.exit_code == 2
    assert "No such option '--agnet'" in done.stderr
    assert "'--agent'" in done.stderr


@pytest.mark.parametrize("named", ["option", "variable"])
@pytest.mark.parametrize("command", ["drill", "run"])
def test_a_service_that_was_named_is_not_replaced(command: str, named: str) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    if named == "variable":
        os.environ["TRUEZERO_URL"] = url
    option = ["--url", url] if named == "option" else []
    done = CliRunner().invoke(app, [command, *option, "--", "true"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"truezero: cannot reach a truezero service at {url}")
    assert "start one with `truezero serve`" in done.stderr


def test_a_batch_has_no_service_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "DEFAULT_URL", f"http://127.0.0.1:{closed_port()}")
    done = CliRunner().invoke(app, ["run", "--batch", "b", "--", "true"])
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.endswith("or set TRUEZERO_URL; a batch needs a service that lasts")
