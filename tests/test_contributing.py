"""What CONTRIBUTING.md says of a provider's error is done, on a copy of the tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
COPIED = (
    *("classifier", "proxy", "truezero"),
    *(f"tests/{name}" for name in ("answers", "classifier", "proxy")),
)


def block(language: str) -> str:
    """The only block of the page in a language."""
    [text] = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in COPIED:
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*")
        )
    for file in (ROOT / "pyproject.toml", *(ROOT / "tests").glob("*.py")):
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
    return tmp_path


def add(copy: Path, file: str, text: str) -> None:
    with (copy / file).open("a", encoding="utf-8") as end:
        end.write(text)


def check(copy: Path) -> str:
    """Run what the page says; what it printed."""
    [files] = re.findall(r"^    make test ARGS=\"(.*)\"$", PAGE, re.MULTILINE)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *files.split()]
    run = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return run.stdout + run.stderr


@pytest.mark.slow
def test_a_providers_error_is_one_row_and_one_sample(copy: Path) -> None:
    row, sample = "classifier/data/causes/codes.toml", "tests/answers/documented.jsonl"
    assert row in PAGE
    assert sample in PAGE
    add(copy, row, "\n" + block("toml"))
    untold = check(copy)
    assert "(acme.flat_broke): sample: no line of documented.jsonl has this rule" in untold
    assert re.search(r"^1 failed, \d+ passed", untold, re.MULTILINE)
    add(copy, sample, block("json"))
    assert re.search(r"^\d+ passed", check(copy), re.MULTILINE)
