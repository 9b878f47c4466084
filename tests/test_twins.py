"""Every module ``package/x/y.py`` has its tests in ``tests/package/x/test_y.py``.

``python -m tests.test_twins`` prints the modules without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.house import PACKAGES, ROOT

# Modules without a test file of their own, and why.
EXEMPT: Mapping[str, str] = {
    "classifier/__main__.py": "the command line; tests/classifier/test_export.py tests it",
    "proxy/inbound/asgi.py": "types only",
    "proxy/recording/ports.py": "types only",
    "proxy/store/migrations/env.py": "run by Alembic; test_migrations.py goes through it",
}


def modules(root: Path = ROOT) -> list[str]:
    """List all modules but ``__init__`` and the migrations' versions, as paths from ``root``."""
    files = (file for package in PACKAGES for file in sorted((root / package).rglob("*.py")))
    return [
        file.relative_to(root).as_posix()
        for file in files
        if file.name != "__init__.py" and file.parent.name != "versions"
    ]


def twin(module: str) -> str:
    """Path of the test file that belongs to a module."""
    path = Path("tests", module)
    return path.with_name(f"test_{path.name}").as_posix()


def without_twin(root: Path = ROOT) -> set[str]:
    """List the modules whose test file does not exist or holds no test."""
    return {module for module in modules(root) if not _has_tests(root / twin(module))}


def _has_tests(file: Path) -> bool:
    return file.exists() and "def test_" in file.read_text("utf-8")


def test_every_module_has_a_test_file() -> None:
    assert sorted(without_twin() - EXEMPT.keys()) == []


def test_a_module_that_has_a_test_file_leaves_the_list() -> None:
    assert sorted(EXEMPT.keys() - without_twin()) == []


def test_a_twin_mirrors_the_path_and_holds_a_test(tmp_path: Path) -> None:
    for path, text in (
        ("proxy/x/__init__.py", ""),
        ("proxy/x/alone.py", ""),
        ("proxy/x/empty.py", ""),
        ("proxy/x/tested.py", ""),
        ("tests/proxy/x/test_empty.py", '"""No test."""\n'),
        ("tests/proxy/x/test_tested.py", "def test_it() -> None: ...\n"),
        ("tests/proxy/test_alone.py", "def test_it() -> None: ...\n"),
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert without_twin(tmp_path) == {"proxy/x/alone.py", "proxy/x/empty.py"}


if __name__ == "__main__":
    print(*sorted(without_twin() - EXEMPT.keys()), sep="\n")  # noqa: T201
