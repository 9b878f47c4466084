"""The command line as a person meets it: real processes, exit codes, one sentence for errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import forked


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
    return clean | {"COLUMNS": "120", "PYTHONPATH": str(forked.ROOT)} | more


def truezero(*arguments: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return forked.run(*arguments, cwd=folder, env=environment(**more))


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


def test_help_names_every_command(tmp_path: Path) -> None:
    said = truezero("--help", folder=tmp_path)
    assert said.returncode == 0
    for command in (
        "serve",
        "run",
        "verdict",
        "batch",
        "check",
        "watch",
        "export",
        "import",
        "demo",
        "db",
    ):
        assert command in said.stdout


COMMANDS = [
    ["serve"], ["run"], ["verdict"], ["batch"], ["check"], ["watch"], ["export"], ["demo"],
    ["import"], ["db", "upgrade"], ["db", "copy"], ["db", "backup"],
]  # fmt: skip


def test_each_command_explains_itself(tmp_path: Path) -> None:
    for command in COMMANDS:
        said = truezero(*command, "--help", folder=tmp_path)
        assert said.returncode == 0, command
        assert len(said.stdout.splitlines()) > 5, command


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    from importlib import metadata

    said = truezero("--version", folder=tmp_path)
    assert said.stdout.startswith(f"truezero {metadata.version('truezero')} (")
    assert said.stdout.count("\n") == 1
