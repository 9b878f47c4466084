"""The command line as a person meets it: real processes, exit codes, one sentence for errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests import forked
from truezero.cli import COMMANDS, app


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    return clean | {"COLUMNS": "120", "PYTHONPATH": str(forked.ROOT)} | more


def truezero(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return forked.run(*arguments, cwd=folder, env=environment(**more))


@pytest.mark.slow
def test_a_command_that_is_forked_says_what_a_started_one_does(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    for words, more in (
        (["--version"], {}),
        (["serve", "--port", "0"], {"TRUEZERO_PROT": "1"}),
        (["classify", "bad.jsonl"], {}),
    ):
        started = subprocess.run(
            [sys.executable, "-m", "truezero", *words],
            cwd=tmp_path, env=environment(**more), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert told(truezero(*words, folder=tmp_path, **more)) == told(started), words


def told(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_help_lists_each_command_by_heading_with_the_first_sentence_of_its_own() -> None:
    context = click.Context(app, **app.context_settings)  # a command keeps its help option
    help_text = app.get_help(context)
    headings = re.findall(r"^(\w[\w ]+):$", help_text, re.MULTILINE)
    assert headings == ["Options", "Start", "Look", "Run again", "Operate"]
    assert [*COMMANDS["Start"]] == ["demo", "serve", "run", "check", "audit"]
    for heading, commands in COMMANDS.items():
        _, _, listed = help_text.partition(f"\n{heading}:\n")
        for name, (_, summary) in commands.items():
            assert re.search(rf"^  {name} ", listed, re.MULTILINE), name
            command = app.get_command(context, name)
            assert command is not None and command.help is not None
            assert command.name == name
            assert command.help.partition("\n")[0] == summary


def test_a_word_that_is_no_command_is_an_error(tmp_path: Path) -> None:
    said = truezero("chek", folder=tmp_path)
    assert said.returncode == 2
    assert "No such command 'chek'" in said.stderr


# A start loads click and one command; what takes longer to load than a command to run, it does not.
_SLOW = ("truezero.sdk", "httpx", "pydantic", "typer", "rich", "asyncio", "proxy", "classifier")


@pytest.mark.parametrize(
    "words", [["--help"], ["list", "--help"], ["check", "--help"], ["verdict"]]
)
def test_a_command_loads_no_more_than_it_needs(words: list[str], tmp_path: Path) -> None:
    modules = loaded(*words, folder=tmp_path)
    assert "truezero.cli" in modules
    assert not {name for name in modules if name.startswith(_SLOW)}
    assert len(modules) < 200


def loaded(*words: str, folder: Path, **more: str) -> set[str]:
    """Return the modules that a started command has loaded when it ends."""
    program = (
        "import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "from truezero.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=folder, env=environment(**more),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())
