"""The wheel is what users get: it holds every file of the packages, which are light to import.

It is built from a copy and without any network; nothing is installed.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("classifier", "proxy", "truezero")
NEEDED_TO_BUILD = ("pyproject.toml", "setup.py", "README.md", "LICENSE")

# What an eval harness must not pay for when it only asks for a verdict.
HEAVY = {"alembic", "classifier", "fastapi", "orjson", "proxy", "sqlalchemy", "uvicorn", "uvloop"}

_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
_IMPORT = """
import json, sys
sys.path.insert(0, sys.argv[1])
module = __import__(sys.argv[2])
print(json.dumps([module.__file__, sorted({name.split(".")[0] for name in sys.modules})]))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    source, built, unpacked = (tmp_path_factory.mktemp(n) for n in ("source", "built", "unpacked"))
    for name in NEEDED_TO_BUILD:
        shutil.copy(ROOT / name, source / name)
    for name in (*PACKAGES, "docs"):
        shutil.copytree(
            ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.db*")
        )
    subprocess.run(
        [sys.executable, "-c", _BUILD, str(built)], cwd=source, check=True, capture_output=True
    )
    (file,) = built.glob("*.whl")
    zipfile.ZipFile(file).extractall(unpacked)
    return unpacked


def imported(name: str, *options: str) -> tuple[Path, set[str]]:
    """Import a module in a fresh process: its file, and all that was loaded."""
    done = subprocess.run(
        [sys.executable, "-I", *options, "-c", _IMPORT, str(ROOT), name],
        check=True,
        capture_output=True,
        text=True,
    )
    file, loaded = json.loads(done.stdout)
    return Path(file), set(loaded)


def files(root: Path, package: str) -> set[str]:
    found = (file for file in (root / package).rglob("*") if file.is_file())
    return {
        file.relative_to(root).as_posix()
        for file in found
        if "__pycache__" not in file.parts and ".db" not in file.suffixes
    }


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_every_file_of_the_package(wheel: Path, package: str) -> None:
    assert files(ROOT, package) - files(wheel, package) == set()


@pytest.mark.slow
def test_the_wheel_holds_types_and_migrations(wheel: Path) -> None:
    assert all((wheel / package / "py.typed").exists() for package in PACKAGES)
    assert list((wheel / "proxy/store/migrations/versions").glob("*.py"))


@pytest.mark.slow
def test_the_wheel_holds_nothing_but_the_packages(wheel: Path) -> None:
    assert {path.name for path in wheel.iterdir() if path.suffix != ".dist-info"} == {*PACKAGES}


@pytest.mark.slow
def test_the_wheel_carries_its_license_and_its_command(wheel: Path) -> None:
    (info,) = wheel.glob("*.dist-info")
    assert list(info.rglob("LICENSE"))
    assert "truezero = truezero.__main__:main" in (info / "entry_points.txt").read_text()


@pytest.mark.parametrize("module", ["truezero", "truezero.models", "truezero.cli"])
def test_the_runners_side_loads_no_server(module: str) -> None:
    file, loaded = imported(module)
    assert file.is_relative_to(ROOT)
    assert loaded & HEAVY == set()


def test_judgement_loads_the_standard_library_only() -> None:
    _, loaded = imported("classifier", "-S")
    assert loaded - sys.stdlib_module_names - {"__main__"} == {"classifier"}


def test_what_is_vendored_has_its_license_beside_it() -> None:
    endings = {".min.js", ".min.css", ".woff", ".woff2", ".ttf", ".otf"}
    places = [ROOT / "tests" / "vendor", *(ROOT / name for name in PACKAGES)]
    files = {
        file
        for place in places
        for file in place.rglob("*")
        if "".join(file.suffixes[-2:]) in endings or file.suffix in endings
    }
    assert files
    for file in sorted(files):
        assert list(file.parent.glob("*LICENSE*")), file


def test_what_a_compiled_class_extends_is_compiled_too() -> None:
    """mypyc ends with an error of its own where it is not: HeldCall extends RelayedCall."""
    text = ast.parse((ROOT / "setup.py").read_text())
    [value] = [
        node.value
        for node in text.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOT"
    ]
    hot = eval(compile(ast.Expression(value), "setup.py", "eval"))
    assert "proxy/relay/call.py" in hot
    extended = set()
    for file in hot:
        module = ast.parse((ROOT / file).read_text())
        came_from = {
            name.asname or name.name: f"{node.module.replace('.', '/')}.py"
            for node in module.body
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("proxy")
            for name in node.names
        }
        bases = {
            ast.unparse(base)
            for node in module.body
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        extended |= {came_from[base] for base in bases if base in came_from}
    assert "proxy/relay/call.py" in extended
    assert extended - set(hot) == set()
