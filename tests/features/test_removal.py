"""Each feature comes loose: the service starts and works without it, and without all of them.

A copy of the tree loses the feature's up to four places and its words, and does in a process of its
own what `tests.features.without` says. Golden calls that need a feature are kept beside its tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import httpx
import pytest

from proxy.features import NAMES
from tests.features import without
from tests.features.removal import Traces, as_argument, copy_tree, remove, switch_off, traces
from tests.golden.scenario import service

pytestmark = pytest.mark.slow

EVERY, FEW = 0, 15  # how many golden calls are left out for each that is played


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment on a copy."""
    env = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "200", "NO_COLOR": "1"}
    return subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)


def truezero(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run(copy, sys.executable, "-m", "truezero", *arguments)


def check(copy: Path, names: Collection[str], left_out: int) -> None:
    """Check that a copy works without features, and keeps its contracts."""
    words = as_argument(traces(names))
    done = run(copy, sys.executable, "-m", "tests.features.without", words, str(left_out))
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}"
    linter = Path(sys.executable).with_name("lint-imports")
    contracts = run(copy, str(linter), "--no-cache", "--no-logo").stdout
    assert ", 0 broken" in contracts, contracts


@pytest.mark.parametrize("name", NAMES)
def test_without_a_feature_everything_else_works(name: str, tmp_path: Path) -> None:
    copy_tree(tmp_path)
    remove(tmp_path, [name])
    check(tmp_path, [name], FEW)


def test_without_all_features_the_kernel_works(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    remove(tmp_path, NAMES)
    check(tmp_path, NAMES, EVERY)
    demo = truezero(tmp_path, "demo")
    assert (demo.returncode, demo.stdout) == (2, "")
    assert demo.stderr == (
        "truezero: the demo's provider needs proxy/features/drills, which is not there\n"
    )


def test_with_all_features_switched_off_the_demo_plays_what_the_kernel_can(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    switch_off(tmp_path, NAMES)
    demo = truezero(tmp_path, "demo")
    assert demo.returncode == 0, demo.stderr
    assert "zeros were not measurements" in " ".join(demo.stdout.split())
    assert "paced" not in demo.stdout, "a scene that needs a feature is left out"


GONE = Traces(settings=("pace",), commands=("drill",), routes=(("GET", "/ui/rollouts"),))


def test_a_setting_that_is_left_is_noticed() -> None:
    with pytest.raises(AssertionError):
        without.check_settings(GONE)


def test_a_command_that_is_left_is_noticed() -> None:
    with pytest.raises(AssertionError, match="drill"):
        without.check_commands(GONE)


def test_a_route_that_is_left_is_noticed(tmp_path: Path) -> None:
    with (
        service(tmp_path / "t.db", "http://127.0.0.1:1") as http,
        pytest.raises(AssertionError, match="/ui/rollouts"),
    ):
        without.check_routes(GONE, http)


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/ui/help/gone":
            return httpx.Response(404)
        return httpx.Response(200, text='<a href="/ui/help/gone">Help</a>')

    transport = httpx.MockTransport(answer)
    with (
        httpx.Client(transport=transport, base_url="http://service") as http,
        pytest.raises(AssertionError, match="leads to /ui/help/gone"),
    ):
        without.check_links(http)
