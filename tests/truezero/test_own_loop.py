"""The page of a loop of one's own: its programs and commands, as they stand.

What is missing here is said: matplotlib is stood in for by a module that writes down its calls, and
`pip install` and `truezero serve` are left out, since the service runs already.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import answers
from tests.fakes.provider import Answer, Request
from tests.truezero.driving import Accounts, service
from truezero import Client

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "your-own-loop.md"
_LEFT_OUT = ("pip install", "truezero serve", "truezero demo")

_PYPLOT = """
import json

def __getattr__(name):
    def write_down(*arguments, **named):
        with open("figure.jsonl", "a") as file:
            print(json.dumps([name, *arguments]), file=file)
    return write_down
"""


def blocks(page: Path, language: str) -> dict[str, list[str]]:
    """The code of a page in one language, by heading."""
    found: dict[str, list[str]] = {}
    for section in page.read_text("utf-8").split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        code = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        found[heading] = code
    return found


class Calculator:
    """A provider that adds, for each key but those that `Accounts` refuses."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def __call__(self, request: Request) -> Answer:
        answer = self._accounts(request)
        if answer.status != 200:
            return answer
        left, _, right = json.loads(request.body)["messages"][0]["content"].partition(" + ")
        said = json.loads(answers.chat().content)
        said["choices"][0]["message"]["content"] = str(int(left) + int(right))
        return answers.whole(said)


class Reader:
    """Somebody who types what a page says, in a folder and with a key of their own."""

    def __init__(self, folder: Path, url: str) -> None:
        commands = folder / "bin"
        commands.mkdir()
        for name, words in (("python", ""), ("truezero", "-m truezero ")):
            command = commands / name
            command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
            command.chmod(0o755)
        (folder / "matplotlib").mkdir()
        (folder / "matplotlib" / "__init__.py").touch()
        (folder / "matplotlib" / "pyplot.py").write_text(_PYPLOT)
        clean = {name: value for name, value in os.environ.items() if "TRUEZERO" not in name}
        self.folder, self.url = folder, url
        self._environment = {
            **clean, "PATH": f"{commands}{os.pathsep}{clean['PATH']}", "TRUEZERO_URL": url,
            "OPENAI_API_KEY": "sk-good", "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
            "COLUMNS": "200",
        }  # fmt: skip

    def types(self, code: str) -> list[tuple[str, int, str]]:
        """Type each line of a block; what it was, its exit code, and all that it printed."""
        lines = [line for line in code.splitlines() if not line.startswith(_LEFT_OUT)]
        return [(line, *self._type(line)) for line in lines]

    def _type(self, line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self._environment, text=True,
            capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def runs(self, program: str) -> None:
        """Run a program of the page from a file."""
        (self.folder / "program.py").write_text(program)
        ((_, code, said),) = self.types("python program.py")
        assert code == 0, said


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with service(tmp_path) as (url, provider, accounts):
        provider.plays(Calculator(accounts))
        folder = tmp_path / "reader"
        folder.mkdir()
        yield Reader(folder, url)


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(reader: Reader) -> None:
    typed, programs = blocks(PAGE, "sh"), blocks(PAGE, "python")
    assert [*typed] == [
        "Start", "A dead key", "Run it again", "Stop early", "CSV", "A figure",
    ]  # fmt: skip
    (loop,) = programs["Start"]
    (reader.folder / "loop.py").write_text(loop)

    _, (_, code, said), (_, checked, valid) = reader.types(typed["Start"][1])
    assert (code, checked) == (0, 0), said + valid
    assert len(re.findall(r"^\d \+ \d: counts: the model answered", said, re.MULTILINE)) == 8
    assert "monday: valid" in valid

    dead, looks = typed["A dead key"]
    ((_, code, said),) = reader.types(dead)
    lines, (shown,) = said.splitlines(), blocks(PAGE, "text")["A dead key"]
    assert (code, len(lines)) == (1, 6), said
    first, _, last = shown.splitlines()
    assert lines[0].startswith(first.removesuffix("…")), lines[0]
    assert lines[-1] == last
    (_, _, zeros), (_, _, batch), (_, code, _), (_, down, lanes) = reader.types(looks)
    assert zeros.count("null (0)") == 5
    assert "reported 0.000 score unknown coverage 0 of 6 measured (0%)" in " ".join(batch.split())
    assert code == 1
    assert (down, lanes.count("openai · gpt-5 · key-")) == (76, 2), lanes

    reader.types(typed["CSV"][0])
    assert drawn(reader, programs)[:1] == [["bar", ["monday", "tuesday"], [1.0, 0.0]]]
    *_, (_, code, said), (_, checked, valid) = reader.types(typed["Run it again"][0])
    assert code == 0, said
    assert (checked, "tuesday: valid" in valid) == (0, True), valid
    assert reader.types("python loop.py tuesday") == [("python loop.py tuesday", 0, "")], "measured"
    ((_, code, said),) = reader.types(typed["Run it again"][1])
    assert code == 0, said

    assert [code for _, code, _ in reader.types(typed["CSV"][0])] == [0, 0]
    with (reader.folder / "tuesday.csv").open() as file:
        rollouts = list(csv.DictReader(file))
    counted = [row["task"] for row in rollouts if row["reward"] == "1.0"]
    assert sorted(counted) == [f"{n} + {n}" for n in range(1, 9)]
    iso = re.compile(r"20\d\d-\d\d-\d\dT[\d:]+\.\d{3}Z")
    assert all(iso.fullmatch(row["created_at"]) for row in rollouts)

    bars, lines, dots, saved = drawn(reader, programs)
    assert (lines[0], saved[0]) == ("vlines", "savefig")
    assert bars == ["bar", ["monday", "tuesday"], [1.0, 1.0]]
    assert dots == ["plot", ["monday", "tuesday"], [1.0, 1.0], "o"]


def drawn(reader: Reader, programs: dict[str, list[str]]) -> list[list[Any]]:
    """What the page's figure calls of matplotlib, and with what."""
    (reader.folder / "figure.jsonl").unlink(missing_ok=True)
    reader.runs(programs["A figure"][0])
    return [json.loads(line) for line in (reader.folder / "figure.jsonl").open()]


@pytest.mark.slow
def test_a_long_agent_stops_once_its_rollout_is_doomed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page: dict[str, Any] = {"__name__": "page"}
    for heading in ("Start", "Stop early"):
        exec(blocks(PAGE, "python")[heading][0], page)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-dead")
    with service(tmp_path) as (url, _, _), Client(url) as client:
        with client.batch("b").rollout("1 + 1") as rollout:
            assert page["my_long_agent"]("1 + 1", rollout) == ""
        assert 1 < len(client.exchanges(rollout.id)) < 20
