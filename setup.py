"""Compiles the hot path to C where TRUEZERO_COMPILE=1 asks for it; adds the commit and the docs.

All else there is to build is said in pyproject.toml. Compiling changes no source: mypyc
(mypyc.readthedocs.io) reads the types that are there, and Python modules stay beside what it makes.
The commit is TRUEZERO_COMMIT's, else git's; a source distribution keeps it for its wheels.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_COMMIT = Path("truezero", "commit.txt")
_DOCS = Path("docs")
_SHOWN_BY = Path("proxy", "features", "help")
_SHOWN = (".json", ".png", ".svg")


def _note_commit(folder):
    """Write the commit into what is built, where it is known; the source tree is left alone."""
    commit = os.environ.get("TRUEZERO_COMMIT", "")
    if not commit and Path(".git").exists():
        command = ["git", "rev-parse", "HEAD"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            commit = subprocess.check_output(command, text=True)  # noqa: S603  a fixed command
    if commit.strip() and not _COMMIT.exists():
        Path(folder, _COMMIT).write_text(commit.strip() + "\n", encoding="ascii")


def _copy_documentation(folder):
    """Copy what `/help` shows into what is built: pages, and the pictures and files they name."""
    left_out = _DOCS / "development"
    pages = [each for each in _DOCS.rglob("*.md") if left_out not in each.parents]
    said = "".join(each.read_text("utf-8") for each in pages)
    for each in [*pages, *(e for e in _DOCS.rglob("*.*") if e.suffix in _SHOWN and e.name in said)]:
        target = Path(folder, _SHOWN_BY, each)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(each, target)


class BuildPy(build_py):
    """Builds the packages, and puts the commit and the documentation into them."""

    def run(self):
        """Build; an editable install asks git each time."""
        super().run()
        if not self.editable_mode:
            _note_commit(self.build_lib)
            if _SHOWN_BY.exists():
                _copy_documentation(self.build_lib)


class SourceDistribution(sdist):
    """A source distribution that keeps the commit."""

    def make_release_tree(self, base_dir, files):
        """Lay it out."""
        super().make_release_tree(base_dir, files)
        _note_commit(base_dir)


class BuildExt(build_ext):
    """Compiles extensions, and says which: minutes of a C compiler are silent otherwise."""

    def build_extension(self, ext):
        """Compile one: the C of all modules first, then what imports each."""
        number = self.extensions.index(ext) + 1
        what = "the C of all modules, for minutes" if ext.name.endswith("__mypyc") else ext.name
        print(f"compiling {what} ({number} of {len(self.extensions)})", flush=True)
        super().build_extension(ext)


_COMMANDS = {"build_ext": BuildExt, "build_py": BuildPy, "sdist": SourceDistribution}

# What every call passes through, but for what stands on other people's classes.
_HOT = tuple(
    "/".join(filter(None, ("proxy", room, f"{name}.py")))
    for room, names in {
        "": ("clock",),
        "wire": (
            "conversation",
            "dialect",
            "framing",
            "request",
            "response",
            "usage",
        ),
        "asking": ("ways",),
        "wire/dialects": ("openai",),
        "outbound": (
            "connection",
            "request",
            "transport",
        ),
        "routing": (
            "headers",
            "keys",
            "target",
        ),
        "capture": (
            "observer",
            "request",
            "usage_injection",
        ),
        "inbound": (
            "http",
            "parser",
            "response",
        ),
        "relay": (
            "call",
            "context",
            "held_call",
            "relay",
        ),
        "features/metrics": ("metrics",),
        "features/pace": (
            "hold",
            "lane_pace",
            "learnt_limits",
            "pacer",
        ),
        "features/websocket": (
            "handshake",
            "relay",
        ),
        "recording": (
            "backlog",
            "recorder",
        ),
        # Not `rows`: of what is not compiled, attributes are read faster by the interpreter.
        # Not `connections` nor routing's `errors`: they extend classes that C cannot.
        "store": (
            "calls",
            "sqlite",
            "tables",
        ),
    }.items()
    for name in names
)

# mypyc translates as soon as it is asked for extensions: not where only metadata are wanted.
_BUILDS = not {"dist_info", "egg_info", "sdist"} & set(sys.argv)

if os.environ.get("TRUEZERO_COMPILE") == "1" and _BUILDS:
    from mypyc.build import mypycify

    print(f"translating {len(_HOT)} modules to C: {', '.join(_HOT)}", flush=True)
    setup(ext_modules=mypycify([*_HOT], opt_level="3"), cmdclass=_COMMANDS)
else:
    setup(cmdclass=_COMMANDS)
