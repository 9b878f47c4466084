"""What docs/development/where-to-add.md writes out is done, on a copy of the tree.

The tests that it names turn red, its commands write the rest, and they pass.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

from tests.features.removal import copy_tree
from tests.house import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/development/where-to-add.md").read_text("utf-8")
MIGRATIONS = "proxy/store/migrations/versions"
_EDIT = re.compile(
    r"In `([\w./]+)`, (behind|in place of) `([^\n]+)`:\n\n```\w+\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NEW = re.compile(r"^`([\w./]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    found = re.search(rf"^### {heading}\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def write(copy: Path, text: str) -> None:
    """Do what a section says. The number of its migration is the next one, whatever it says."""
    edits = 0
    for path, how, line, code in _EDIT.findall(text):
        before = (copy / path).read_text("utf-8")
        places = re.findall(rf"^( *)({re.escape(line)}\n)", before, re.MULTILINE)
        assert len(places) == 1, f"{path}: {line}"
        margin, place = places[0]
        kept = margin + place if how == "behind" else ""
        after = before.replace(margin + place, kept + indent(code, margin))
        (copy / path).write_text(after, "utf-8")
        edits += 1
    assert edits
    for path, code in _NEW.findall(text):
        newest = max(each.name[:4] for each in (copy / MIGRATIONS).glob("[0-9]*.py"))
        number, stated = f"{int(newest) + 1:04}", Path(path).name[:4]
        older = f"{int(stated) - 1:04}"
        numbered = code.replace(f'"{older}"', f'"{newest}"').replace(f'"{stated}"', f'"{number}"')
        file = copy / path.replace(stated, number)
        assert not file.exists()
        file.write_text(numbered, "utf-8")


def run(copy: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(copy), **variables}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)


def report_of(copy: Path, *names: str, first: bool = False) -> str:
    """Run tests, to the first red one if that is enough; of whole files those that are not slow."""
    files = [name for name in names if "::" not in name]
    runs = [("-m", "not slow", *files)] if files else []
    if tests := [name for name in names if name not in files]:
        runs.append(tuple(tests))
    flags = ("-x", "-p", "no:cacheprovider") if first else ("-p", "no:cacheprovider")
    command = (sys.executable, "-m", "pytest", "-q", *flags)
    return "".join(run(copy, *command, *words).stdout for words in runs)


def red(report: str) -> set[str]:
    """The failed tests of a report, without parameters."""
    return set(re.findall(r"^(?:FAILED|ERROR) ([\w/.]+::\w+)", report, re.MULTILINE))


@pytest.mark.parametrize(
    "heading",
    ["A provider", pytest.param("A column", marks=pytest.mark.whole), "An option"],
)
def test_what_is_written_out_turns_its_tests_red_and_its_commands_mend_them(
    heading: str, tmp_path: Path
) -> None:
    copy_tree(tmp_path)
    for file in ROOT.glob("*.md"):
        shutil.copy(file, tmp_path)
    text = section(heading)
    write(tmp_path, text)

    [named] = re.findall(r"^Red: (.*?)\.\n\n", text, re.MULTILINE | re.DOTALL)
    names = re.findall(r"`([^`]+)`", named)
    assert [name for name in names if not red(report_of(tmp_path, name, first=True))] == []

    [commands] = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for line in commands.splitlines():
        variables, _, words = line.rpartition(".venv/bin/python ")
        given = dict(each.split("=") for each in variables.split())
        done = run(tmp_path, sys.executable, *words.split(), **given)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    report = report_of(tmp_path, *names)
    assert (red(report), " passed" in report) == (set(), True), report[-2000:]
