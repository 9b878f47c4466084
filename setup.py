"""Compiles the hot path to C extensions where TRUEZERO_COMPILE=1 asks for it, and notes the commit.

All else there is to build is said in pyproject.toml. Compiling changes no source: mypyc
(mypyc.readthedocs.io) reads the types that are there, and Python modules stay beside what it makes.
The commit is TRUEZERO_COMMIT's, else git's; a source distribution keeps it for its wheels.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_COMMIT = Path("truezero", "commit.txt")


def _note_commit(folder):
    """Write the commit into what is built, where it is known; the source tree is left alone."""
    commit = os.environ.get("TRUEZERO_COMMIT", "")
    if not commit and Path(".git").exists():
        command = ["git", "rev-parse", "HEAD"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            commit = subprocess.check_output(command, text=True)  # noqa: S603  a fixed command
    if commit.strip() and not _COMMIT.exists():
        Path(folder, _COMMIT).write_text(commit.strip() + "\n", encoding="ascii")


class BuildPy(build_py):
    """Builds the packages, and notes the commit beside them."""

    def run(self):
        """Build; an editable install asks git each time."""
        super().run()
        if not self.editable_mode:
            _note_commit(self.build_lib)


class SourceDistribution(sdist):
    """A source distribution that keeps the commit."""

    def make_release_tree(self, base_dir, files):
        """Lay it out."""
        super().make_release_tree(base_dir, files)
        _note_commit(base_dir)


_COMMANDS = {"build_py": BuildPy, "sdist": SourceDistribution}

# What every call passes through, but for what stands on other people's classes.
_HOT = tuple(
    "/".join(filter(None, ("proxy", room, f"{name}.py")))
    for room, names in {
        "": ("clock",),
        "wire": (
            "body",
            "conversation",
            "dialect",
            "output_limit",
            "payloads",
            "prompt_words",
            "request",
            "response",
            "selection",
            "serving",
            "usage",
        ),
        "wire/dialects": ("openai_chat",),
        "wire/framing": ("encoding", "sse"),
        "outbound": ("transport",),
        "outbound/http1": (
            "connection",
            "pool",
            "pushed",
            "request_writer",
            "response",
            "response_parser",
            "serialize",
            "transport",
        ),
        "routing": ("headers", "limits", "rollout_keys", "target"),
        "capture": (
            "call",
            "conversations",
            "exchange",
            "observer",
            "request_facts",
            "response_head",
            "usage_injection",
        ),
        "inbound": (
            "agent_response",
            "dispatch",
            "flow_control",
            "http",
            "request_cycle",
            "request_head",
            "request_parser",
            "response_framing",
        ),
        "relay": (
            "agent_watch",
            "call",
            "context",
            "download",
            "failures",
            "handshake",
            "http",
            "live_calls",
            "plain",
            "plain_call",
            "plain_ending",
            "progress",
            "pumps",
            "upload",
            "websocket",
            "websocket_record",
        ),
        "recording": ("backlog", "failover", "pending", "ports", "recorder", "reports"),
        # Not `rows`: of what is not compiled, attributes are read faster by the interpreter.
        "store": ("calls", "commit", "sqlite", "tables"),
        "telemetry": ("call_counters", "metrics"),
    }.items()
    for name in names
)

# mypyc translates as soon as it is asked for extensions: not where only metadata are wanted.
_BUILDS = not {"dist_info", "egg_info", "sdist"} & set(sys.argv)

if os.environ.get("TRUEZERO_COMPILE") == "1" and _BUILDS:
    from mypyc.build import mypycify

    setup(ext_modules=mypycify([*_HOT], opt_level="3"), cmdclass=_COMMANDS)
else:
    setup(cmdclass=_COMMANDS)
