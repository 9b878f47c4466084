"""The first hour: the README from top to bottom, as somebody types it whose key then dies.

Demo and service, an audit of what is there, one call and its verdict, a loop of one's own; which
zeros are fake, the key mended, and the same loop again: the batch is valid.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from tests.journeys.test_guides import Reader, following, runnable
from tests.truezero.driving import Accounts, call

TASKS = ["fix-1", "fix-2", "fix-3"]


def typed(reader: Reader, line: str) -> tuple[int, str]:
    """Type a line; its exit code, and what it printed."""
    done = subprocess.run(
        ["bash", "-c", line], cwd=reader.folder, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_readme_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with following("README.md", tmp_path, monkeypatch, plays=Accounts()) as reader:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-dead")
        start, audit, one_call, loop, died = runnable("README.md")
        for snippet in (start, audit, one_call):
            reader.runs(snippet)
        verdict = httpx.get(f"{reader.service.url}/rollouts/my-first-rollout/verdict").json()
        assert (verdict["health"], verdict["subcategory"]) == ("api_error", "auth")

        for key in ("sk-dead", "sk-good"):
            dead = key == "sk-dead"

            def my_agent(_task: str, *, base_url: str, key: str = key) -> float:
                return float(call(base_url, key) == 200)

            reader.names.update(tasks=TASKS, my_agent=my_agent)
            reader.runs(loop)
            (_, zeros), (code, reasons), (reset, said) = (
                typed(reader, line) for line in died.code.splitlines()
            )
            assert [each in zeros for each in TASKS] == [dead] * 3, zeros
            assert code == (1 if dead else 0), reasons
            assert reasons.count(": does not count: the key was refused") == (3 if dead else 0)
            assert reset == 0, said
        del reader.names["my_agent"]  # nobody is run once all are measured
        reader.runs(loop)
        assert httpx.get(f"{reader.service.url}/batches/nightly").json()["total"] == len(TASKS)
