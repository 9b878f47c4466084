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
