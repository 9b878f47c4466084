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
    repository.commit("Test", "tests/journeys/test_beside_litellm.py")
    assert changed(repository.root) == ["inspect_ai"]
    repository.write(f"{PINS}/harbor.txt", "committed or not")
    assert changed(repository.root) == ["harbor", "inspect_ai"]


def test_what_an_adapter_imports_is_part_of_it(repository: Repository) -> None:
    text = "from truezero.integrations.shared import check\n"
    repository.write(f"{ADAPTERS}/maseval.py", text)
    repository.write(f"{ADAPTERS}/verifiers.py", "def f():\n    " + text)
    repository.commit("Release 1", f"{ADAPTERS}/harbor.py")
    repository.commit("Share", f"{ADAPTERS}/shared.py")
    assert changed(repository.root) == ["maseval", "verifiers"]


def test_an_adapter_that_moved_is_run(repository: Repository) -> None:
    repository.commit("Release 1", f"{ADAPTERS}/harbor.py")
    (repository.root / ADAPTERS / "harbor.py").rename(repository.root / ADAPTERS / "port.py")
    repository.commit("Move")
    assert changed(repository.root) == ["harbor"]


def test_another_base_may_be_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    base = repository.commit("Begin", "README.md")
    repository.commit("Pin", f"{PINS}/sinks.txt")
    repository.commit("Release 1")
    repository.commit("Pin more", f"{PINS}/clients.txt")
    assert changed(repository.root) == ["clients"]
    monkeypatch.setenv("CI_BASE", base)
    assert changed(repository.root) == ["clients", "sinks"]


def test_without_a_base_every_harness_is_run(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("Release 1", "README.md")
    assert changed(repository.root) == ALL, "there is no release before this one"
    monkeypatch.setenv("CI_BASE", "a-commit-that-is-not-there")
    assert changed(repository.root) == ALL
    assert changed(repository.root.parent) == ALL


def test_each_adapter_is_somebodys() -> None:
    known = set().union(*(files(name) for name in ALL))
    assert {f"{ADAPTERS}/{path.name}" for path in (ROOT / ADAPTERS).glob("[!_]*.py")} <= known
    assert f"{ADAPTERS}/attempts.py" in adapter(ROOT, ("harbor",))
