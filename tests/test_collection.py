"""Which files a run loads: for `make test`, none of which every test is slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest

ROOT = Path(__file__).parent.parent
TEST = "\n\ndef test_it() -> None: ...\n"
# Files by what they say before a test.
NOT_ALL = {
    "unmarked": "import pytest",
    "one": "import pytest\n\n\n@pytest.mark.slow\ndef test_slow() -> None: ...",
    "other": "import pytest\n\npytestmark = pytest.mark.slower",
    "told": 'TEXT = """\npytestmark = pytest.mark.slow\n"""',
    "in_a_class": "import pytest\n\n\nclass TestSlow:\n    pytestmark = pytest.mark.slow\n",
    "taken_back": "import pytest\n\npytestmark = pytest.mark.slow\npytestmark = []",
}
ALL = {
    "alone": "import pytest\n\npytestmark = pytest.mark.slow  # kills",
    "listed": "import pytest\n\npytestmark = [\n    pytest.mark.x,\n    pytest.mark.slow,\n]",
}


class Heard:
    """The files that a run loads, and the tests that it keeps."""

    pytest_ignore_collect = staticmethod(conftest.pytest_ignore_collect)

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.kept: set[str] = set()

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if isinstance(collector, pytest.Module):
            self.loaded.add(collector.path.stem.removeprefix("test_"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.kept = {item.path.stem.removeprefix("test_") for item in session.items}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Files of both kinds, where nothing of this project is configured."""
    for name, text in (NOT_ALL | ALL).items():
        Path(tmp_path, f"test_{name}.py").write_text(text + TEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    yield tmp_path
    for name in NOT_ALL | ALL:
        sys.modules.pop(f"test_{name}", None)


def collected(*args: str | Path) -> Heard:
    heard = Heard()
    options = ["-c", "/dev/null", "--collect-only", "-qq", "--import-mode=importlib"]
    without = ["-pno:cacheprovider", "-pno:faulthandler", "-pno:unraisableexception"]
    assert pytest.main([*options, *without, *map(str, args)], [heard]) in (0, 5)
    return heard


def test_a_file_whose_every_test_is_slow_is_not_loaded_for_make_test(folder: Path) -> None:
    heard = collected(folder, "-m", "not slow")
    assert heard.loaded == heard.kept == set(NOT_ALL)


@pytest.mark.parametrize("args", [(), ("-m", "slow"), ("-m", "not slow or x"), ("-m", "not x")])
def test_all_are_loaded_for_another_choice(folder: Path, args: tuple[str, ...]) -> None:
    assert collected(folder, *args).loaded == {*ALL, *NOT_ALL}


def test_named_files_are_loaded_and_pytest_itself_keeps_the_same_tests(folder: Path) -> None:
    heard = collected(*folder.iterdir(), "-m", "not slow")
    assert (heard.loaded, heard.kept) == ({*ALL, *NOT_ALL}, set(NOT_ALL))


def test_the_marker_is_known_by_its_name_here_and_to_make_test(pytestconfig: pytest.Config) -> None:
    assert [each for each in pytestconfig.getini("markers") if each.startswith("slow:")]
    assert '-m "not slow" $(ARGS)' in Path(ROOT, "Makefile").read_text()
    chosen: object = SimpleNamespace(option=SimpleNamespace(markexpr="not slow"))
    skipped = [
        path
        for path in Path(ROOT, "tests").rglob("test_*.py")
        if conftest.pytest_ignore_collect(path, chosen)  # type: ignore[arg-type]
    ]
    assert len(skipped) > 5, "else it is of no use"
