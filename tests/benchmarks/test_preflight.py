"""What ``make bench`` says before it measures, and when it does not begin."""

from __future__ import annotations

import pytest

from benchmarks import peers, preflight

ALL = ["nginx", "truezero", "compiled", "envoy", "litellm"]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine with a compiler, taskset and whatever peers are added, and nothing else."""
    there = {name: f"/usr/bin/{name}" for name in ("cc", "taskset")}
    installed: dict[str, str] = {}
    monkeypatch.setattr("shutil.which", there.get)
    monkeypatch.setattr(peers, "versions", lambda: installed)
    installed["there"] = "1"
    return installed


def test_without_nginx_it_does_not_begin_and_says_how_to_get_it() -> None:
    said: list[str] = []
    with pytest.raises(SystemExit, match=r"nginx: make peers, .*apt-get install nginx"):
        preflight.check(ALL, said.append)
    assert any(line.split()[:2] == ["valgrind", "MISSING:"] for line in said)


def test_nginx_that_nobody_asks_for_is_not_missed() -> None:
    preflight.check([name for name in ALL if name != "nginx"], lambda _: None)
    preflight.check([], lambda _: None)


def test_a_peer_that_is_missing_stops_nothing_and_is_told(bare: dict[str, str]) -> None:
    bare["nginx"], bare["envoy"] = "1.22.1", "1.40.0"
    said: list[str] = []
    preflight.check(ALL, said.append)
    lines = {line.split()[0]: line for line in said}
    assert lines["envoy"].endswith(" 1.40.0")
    assert "MISSING" in lines["litellm"]
    assert "make peers" in lines["litellm"]
    assert "truezero" not in lines  # which is here


def test_without_a_compiler_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", {"taskset": "/usr/bin/taskset"}.get)
    with pytest.raises(SystemExit, match="apt-get install gcc"):
        preflight.check([], lambda _: None)
