"""Harnesses are run by a change of their pins or their adapter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.journeys.changed import ADAPTERS, adapter, changed, files
from tests.journeys.environments import ON_REQUEST, ROOT, harnesses

PINS = "tests/journeys/integrations"
ALL = sorted(set(harnesses()) - ON_REQUEST)


class Repository:
    """A repository with an adapter, its neighbour, and what no harness reads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "--quiet")

    def write(self, path: str, text: str = "") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def commit(self, subject: str, *paths: str) -> str:
        for path in paths:
            self.write(path, f"# {subject}\n")
        self._git("add", "--all")
        who = ("-c", "user.name=n", "-c", "user.email=e@x")
        self._git(*who, "commit", "--quiet", "--allow-empty", "-m", subject)
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str) -> str:
        command = ["git", *words]
        return subprocess.run(
            command, cwd=self.root, check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.delenv("CI_BASE", raising=False)
    return Repository(tmp_path)


def test_what_changed_since_the_last_release_is_run(repository: Repository) -> None:
    repository.commit("Release 1", "README.md")
    repository.commit("Pin anew", f"{PINS}/maseval.txt")
    repository.commit("Release 2", "README.md")
    assert changed(repository.root) == ["maseval"], "a release is compared with the one before"
    repository.commit("Reword", "README.md")
    assert changed(repository.root) == []
    repository.commit("Adapt", "truezero/integrations/inspect_hooks.py")
    repository.commit("Test", "tests/journeys/test_beside_clients.py")
    assert changed(repository.root) == ["inspect_ai"]
    repository.write(f"{PINS}/harbor.txt", "committed or not")
    assert changed(repository.root) == ["harbor", "inspect_ai"]


def test_each_adapter_is_somebodys() -> None:
    known = set().union(*(files(name) for name in ALL))
    assert {f"{ADAPTERS}/{path.name}" for path in (ROOT / ADAPTERS).glob("[!_]*.py")} <= known
    assert f"{ADAPTERS}/attempts.py" in adapter(ROOT, ("harbor",))
