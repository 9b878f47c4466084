"""deploy/environment.py and the targets that call it, with installers of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import environment

ROOT = Path(__file__).parent.parent.parent
LOCK = """one==1.0 \\
    --hash=sha256:00
two==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:11
"""


def installer(file: Path, *, code: int) -> Path:
    """A program that notes its arguments beside itself and leaves with a code."""
    noted = file.with_suffix(".said")
    file.write_text(f'#!/bin/sh\necho "$@" >> {noted}\necho "Collecting one==1.0"\nexit {code}\n')
    file.chmod(0o755)
    return noted


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "some.lock"
    file.write_text(LOCK)
    return file


def run(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, *, uv: int | None, pip: int
) -> tuple[int, str, str]:
    """Install with a uv (None: none is installed) and a pip that leave with these codes.

    Returns:
        The exit code, and what uv and pip were called with.
    """
    by_uv, by_pip = tmp_path / "uv.said", installer(tmp_path / "pip", code=pip)
    if uv is not None:
        installer(tmp_path / "uv", code=uv)
    monkeypatch.setenv("UV", str(tmp_path / "uv"))
    monkeypatch.setattr(environment, "_own_pip", lambda: [str(tmp_path / "pip")])
    code = environment.main([str(tmp_path / "venv"), str(lock)])
    return code, by_uv.read_text() if by_uv.exists() else "", by_pip.read_text()


def test_hashes_are_required_by_either_installer(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, by_pip = run(tmp_path, lock, monkeypatch, uv=None, pip=0)
    assert code == 0
    first, itself = by_pip.splitlines()
    build = tmp_path / "venv" / "build.lock"
    assert f"--no-deps --require-hashes -r {lock} -r {build}" in first
    assert f"--python {tmp_path}/venv/bin/python" in first
    assert itself.endswith(f"--no-build-isolation --editable {ROOT}")
    code, by_uv, again = run(tmp_path, lock, monkeypatch, uv=0, pip=0)
    assert (code, again) == (0, by_pip), "pip was not called again"
    assert f"--no-deps --require-hashes -r {lock} -r {build}" in by_uv


def test_what_builds_the_editable_install_is_pinned_with_all_its_hashes(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, lock, monkeypatch, uv=None, pip=0)
    build = (tmp_path / "venv" / "build.lock").read_text()
    whole = (ROOT / "requirements-dev.lock").read_text()
    assert build.startswith("setuptools==")
    assert build in whole
    assert whole[whole.index(build) + len(build) :].lstrip().startswith("#"), "no hash is left out"
    assert build.count("--hash=sha256:") >= 2


def test_pip_is_tried_where_uv_fails(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, by_uv, by_pip = run(tmp_path, lock, monkeypatch, uv=2, pip=0)
    assert code == 0
    assert by_uv
    assert len(by_pip.splitlines()) == 2
    assert "uv failed; trying pip" in capsys.readouterr().err


def test_a_failure_shows_what_the_installer_said(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, by_pip = run(tmp_path, lock, monkeypatch, uv=None, pip=3)
    assert (code, len(by_pip.splitlines())) == (1, 1)
    assert capsys.readouterr().err.splitlines() == [
        "installing 2 packages with pip",  # one line, since nobody watches
        "Collecting one==1.0",
        "",
        f"{tmp_path}/venv: not installed",
    ]


@pytest.mark.parametrize(
    ("target", "locks"),
    [
        ("demo", ["requirements.lock"]),
        ("serve", ["requirements.lock"]),
        ("test", ["requirements.lock", "requirements-dev.lock"]),
        ("check", ["requirements.lock", "requirements-dev.lock"]),
    ],
)
def test_a_target_installs_what_it_needs_and_no_more(
    tmp_path: Path, target: str, locks: list[str]
) -> None:
    done = subprocess.run(
        ["make", "--dry-run", target, f"VENV={tmp_path}", f"PYTHON={sys.executable}"],
        cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "MAKEFLAGS": ""},
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "deploy/environment.py" in line]
    assert list(dict.fromkeys(line.rsplit(" ", 1)[1] for line in lines)) == locks


@pytest.mark.parametrize("target", ["demo", "serve", "test", "check"])
def test_an_old_python_is_told_how_to_ask_for_this_target_with_another(
    target: str, tmp_path: Path
) -> None:
    old = tmp_path / "python"
    code = "import sys; sys.version_info = (3, 9, 18); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$2\"\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", target, f"VENV={tmp_path / 'venv'}", f"PYTHON={old}"],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "MAKEFLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 2
    assert f"and {old} is 3.9: make PYTHON=python3.12 {target}\n" in done.stderr


def test_the_demo_ends_with_the_line_that_puts_truezero_on_the_path(tmp_path: Path) -> None:
    """`make` cannot change the shell it is typed in: its user does, with a line that works."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    (copy / "Makefile").write_text((ROOT / "Makefile").read_text())
    for name in ("requirements.lock", "pyproject.toml"):
        (copy / name).touch()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=copy, check=True)
    command = copy / ".venv" / "bin" / "truezero"
    command.write_text("#!/bin/sh\necho the table\n")
    command.chmod(0o755)
    (copy / ".venv" / ".runtime").touch()
    made = subprocess.run(["make", "demo"], cwd=copy, capture_output=True, text=True, check=True)
    assert "the table" in made.stdout
    line = made.stderr.strip().splitlines()[-1].partition("in this shell:")[2].strip()
    typed = subprocess.run(
        ["sh", "-c", f"{line} && command -v truezero"],
        cwd=copy, capture_output=True, text=True, check=True, env={"PATH": os.defpath},
    )  # fmt: skip
    assert typed.stdout.strip().endswith("/.venv/bin/truezero")
    assert line in (ROOT / "README.md").read_text()
