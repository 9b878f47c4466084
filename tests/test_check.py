"""`make check`: its parts at once, and what becomes of their findings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = {"style": "ruff check", "format": "ruff format", "types": "mypy"}
CLEAN = "No known vulnerabilities found"
TOOL = """#!/bin/sh
case "${0##*/} $*" in "%s "*) echo "found by $0"; exit 3;; "pip-audit "*) echo "%s";; esac
"""


def make(folder: Path, target: str, failing: str = "none", audit: str = CLEAN) -> tuple[int, str]:
    """Run a target with tools that only say what they are told to."""
    for name in ("ruff", "mypy", "pip-audit"):
        Path(folder, name).write_text(TOOL % (failing, audit))
        Path(folder, name).chmod(0o755)
    done = subprocess.run(
        ["make", "--no-print-directory", "--old-file=.venv/.ready", target, f"BIN={folder}"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_check_without_findings_runs_each_part(tmp_path: Path) -> None:
    code, said = make(tmp_path, "check")
    assert (code, said.count(f"{tmp_path}/"), CLEAN in said) == (0, 3, True)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_fails_fails_the_check_and_is_named(tmp_path: Path, part: str) -> None:
    code, said = make(tmp_path, "check", failing=PARTS[part])
    assert code != 0
    assert f": {part}] Error 3" in said
    assert f"found by {tmp_path}" in said
    assert CLEAN in said, "the others are run all the same"


def test_packages_that_an_index_does_not_know_are_told_and_not_called_safe(tmp_path: Path) -> None:
    lines = f"{CLEAN}\na could not be audited: a (1)\nb could not be audited: b (1)"
    code, said = make(tmp_path, "audit", audit=lines)
    assert code == 0
    assert said == "audit: 2 pinned packages are not known there, and were not checked\n"
