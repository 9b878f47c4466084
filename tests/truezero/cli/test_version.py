"""What --version knows of a checkout, of a wheel, and of what is neither."""

from __future__ import annotations

import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from proxy.store import migrations
from truezero.cli import machine


def test_it_says_release_commit_whether_compiled_and_schema() -> None:
    said = machine.version_line()
    assert said.startswith(f"truezero {metadata.version('truezero')} (")
    assert re.search(r"\((commit [0-9a-f]{12}, )?(compiled|plain Python), schema \d{4}\)$", said)


def test_the_schema_is_the_newest() -> None:
    assert machine.schema() == migrations.HEAD


def test_a_wheel_says_what_it_was_built_from(tmp_path: Path) -> None:
    (tmp_path / "commit.txt").write_text("0123456789abcdef\n")
    assert machine.commit(tmp_path) == "0123456789abcdef"


def test_a_checkout_says_where_it_is(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert machine.commit(tmp_path / "truezero") == head.stdout.strip()


def test_what_is_neither_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.commit(tmp_path / "truezero") is None
    (tmp_path / ".git").mkdir()
    assert machine.commit(tmp_path / "truezero") is None, "git does not know it"
    monkeypatch.setenv("PATH", "")
    assert machine.commit(tmp_path / "truezero") is None, "there is no git"
