"""What docs/development/features.md writes is a feature, on a copy of the tree: it works, and goes.

Every block of the page that is headed by a path is a file, or what is added to one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.features.removal import COMMANDS, Traces, as_argument, copy_tree, remove
from tests.features.test_removal import FEW, run
from tests.house import ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs/development/features.md").read_text("utf-8")
NAME = "notes"
MIGRATIONS = "proxy/store/migrations/versions"
GONE = Traces(
    settings=("notes_days",), commands=("note",),
    routes=(("GET", "/rollouts/{rollout_id:path}/note"), ("GET", "/ui/notes")),
)  # fmt: skip
# Where what is added to a file stands in it: behind this.
BEHIND = {"proxy/features/__init__.py": r"^NAMES = \(", COMMANDS: r'^    "Look": \{\n'}


def blocks(head: str) -> Mapping[str, str]:
    """The blocks of the page whose paragraph before them is the head, by the path in it."""
    named = re.compile(rf"^{head}`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return dict(named.findall(PAGE))


def write(copy: Path) -> list[str]:
    """Do what the page says; the paths of new files."""
    files = dict(blocks(""))
    newest = max(each.name[:4] for each in (copy / MIGRATIONS).glob("[0-9]*.py"))
    number = f"{int(newest) + 1:04}"
    (stated,) = [path for path in files if path.startswith(MIGRATIONS)]
    migration = files.pop(stated).replace('"0030"', f'"{newest}"').replace('"0031"', f'"{number}"')
    files[f"{MIGRATIONS}/{number}_{NAME}.py"] = migration
    for path, text in files.items():
        assert not (copy / path).exists(), path
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text, "utf-8")
    added = blocks("Add to ")
    assert added.keys() == BEHIND.keys()
    for path, text in added.items():
        before = (copy / path).read_text("utf-8")
        place = re.search(BEHIND[path], before, re.MULTILINE)
        assert place is not None, path
        after = before[: place.end()] + text + before[place.end() :]
        (copy / path).write_text(after, "utf-8")
    return list(files)


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def test_the_page_writes_a_feature_that_works_and_comes_loose(tmp_path: Path) -> None:
    copy_tree(tmp_path)
    files = write(tmp_path)
    places = {f"proxy/features/{NAME}/", f"truezero/models/{NAME}.py", f"truezero/cli/{NAME}.py"}
    assert all(any(path.startswith(place) for path in files) for place in places)

    sources = [path for path in files if path.endswith(".py")]
    for style in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        styled = run(tmp_path, tool("ruff"), *style, *sources)
        assert styled.returncode == 0, styled.stdout + styled.stderr
    contracts = run(tmp_path, tool("lint-imports"), "--no-cache", "--no-logo").stdout
    assert ", 0 broken" in contracts, contracts

    tested = run(tmp_path, sys.executable, "-m", "pytest", "-q", f"tests/features/{NAME}")
    assert re.search(r"^2 passed", tested.stdout, re.MULTILINE), tested.stdout + tested.stderr

    remove(tmp_path, [NAME])
    assert [path for path in files if (tmp_path / path).exists()] == [
        path for path in files if path.startswith(MIGRATIONS)
    ]
    checked = run(
        tmp_path, sys.executable, "-m", "tests.features.without", as_argument(GONE), str(FEW)
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr[-4000:]
