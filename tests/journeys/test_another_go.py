"""A key dies, is mended, and what `truezero run` ran before is run again: the batch is valid then.

A loop of the SDK's is that of the README: test_first_hour.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import forked
from tests.journeys.test_run import environment
from tests.truezero.driving import service
from truezero import Client

TASKS = ("fix-1", "fix-2", "fix-3")
REWARDS = {"fix-0": 1.0, **dict.fromkeys(TASKS, 0.0)}
AGENT = """
import json, os, sys, urllib.error, urllib.request
asked = {"model": "gpt-5", "messages": []}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(asked).encode(),
    {"authorization": "Bearer " + sys.argv[1], "content-type": "application/json"})
try:
    urllib.request.urlopen(request, timeout=60).read()
except urllib.error.HTTPError:
    pass
"""
LOOP = """
import sys, time
import httpx
from truezero import Client
asked = {"json": {"model": "gpt-5", "messages": []}, "headers": {"authorization": "Bearer sk-good"}}
with Client() as client:
    batch = client.batch("night", model="gpt-5", upstream="openai")
    for task in ("fix-0", "fix-1", "fix-2"):
        with batch.rollout(task) as rollout:
            url = rollout.env["OPENAI_BASE_URL"] + "/chat/completions"
            httpx.post(url, timeout=60, **asked).raise_for_status()
            if task in sys.argv:
                print("stuck", flush=True)
                time.sleep(600)
            rollout.finish(rewards=1.0)
"""


def truezero(*words: str, url: str) -> Any:
    return forked.run(*words, cwd=forked.ROOT, env=environment(url))


def by_command(url: str, keys: dict[str, str]) -> None:
    for task, key in keys.items():
        placed = ("--batch", "night", "--task", task, "--repeats", "1", "--model", "gpt-5",
                  "--upstream", "openai", "--reward", str(REWARDS[task]))  # fmt: skip
        agent = ("--", sys.executable, "-S", "-c", AGENT, key)
        done = truezero("run", *placed, *agent, url=url)
        if done.returncode == 76 and "skipped" in done.stderr:
            assert done.stderr.rstrip().endswith("truezero breaker reset night")
        elif "nothing to run" in done.stderr:
            assert done.returncode == 0


@pytest.mark.slow
def test_the_lines_of_rerun_run_as_they_stand_in_a_shell(url: str, tmp_path: Path) -> None:
    by_command(url, {"fix-0": "sk-good", **dict.fromkeys(TASKS, "sk-dead")})
    (tmp_path / "truezero").write_text(f'#!/bin/sh\nexec {sys.executable} -m truezero "$@"\n')
    (tmp_path / "truezero").chmod(0o700)
    mended = [sys.executable, "-S", "-c", AGENT, "sk-good"]
    given = truezero("rerun", "night", "--command", "--", *mended, url=url).stdout
    assert given.count("truezero run ") == 3
    assert "replace the API key" in given
    env = {**environment(""), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    del env["TRUEZERO_URL"]  # the lines say which
    done = subprocess.run(["sh"], input=given, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert truezero("check", "night", url=url).returncode == 0
    assert "nothing to run again" not in given
    assert truezero("rerun", "night", "--command", url=url).stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_loop_that_was_stopped_goes_on_where_it_was(how: signal.Signals, url: str) -> None:
    env = environment(url)
    stuck = [sys.executable, "-c", LOOP, "fix-1"]
    with subprocess.Popen(stuck, stdout=subprocess.PIPE, env=env, cwd=forked.ROOT) as loop:
        assert loop.stdout is not None
        assert loop.stdout.readline() == b"stuck\n"
        loop.send_signal(how)
    assert loop.returncode != 0
    if how is signal.SIGKILL:  # of which nobody hears
        with Client(url) as client:
            client.batch("night").end()
    subprocess.run([sys.executable, "-c", LOOP], env=env, cwd=forked.ROOT, check=True)
    checked = truezero("check", "night", url=url)
    assert checked.returncode == 0, checked.stdout
    placed = {
        (each["task"], each["repeat"], each["attempt"])
        for each in httpx.get(f"{url}/rollouts", params={"batch": "night"}).json()["items"]
    }
    assert {("fix-1", None, 0), ("fix-1", None, 1), ("fix-2", None, None)} < placed


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with service(tmp_path, BREAKER_THRESHOLD="2") as (address, _, _):
        yield address


@pytest.mark.slow
def test_the_commands_of_before_with_the_key_mended_make_the_batch_valid(url: str) -> None:
    dead = {"fix-0": "sk-good", **dict.fromkeys(TASKS, "sk-dead")}
    by_command(url, dead)
    checked = truezero("check", "night", url=url)
    assert checked.returncode == 1, checked.stdout
    assert "fix-1: does not count: the key was refused" in checked.stdout
    assert "fix it, then truezero breaker reset night" in checked.stdout
    assert truezero("breaker", "reset", "night", url=url).returncode == 0
    by_command(url, dict.fromkeys(dead, "sk-good"))
    checked = truezero("check", "night", url=url)
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.splitlines()[-1] == "night: valid"
    summary = httpx.get(f"{url}/batches/night").json()
    measured = summary["repeats_planned"], summary["score_effective"]
    assert measured == (4, 0.25), "as that of a loop that never failed"
