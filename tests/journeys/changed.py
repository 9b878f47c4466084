"""Harnesses that a change concerns: ``python -m tests.journeys.changed`` prints their names.

A change is what differs from the base, committed or not; the base is ``CI_BASE``, else the newest
commit before this one whose subject begins with `Release `. Without one, every harness is printed.
It concerns a harness whose pins or adapter it touches. Tests concern none: who edits them runs
`make integrations HARNESSES=NAME`, and `make all` runs them whole.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

from tests.journeys.environments import ON_REQUEST, ROOT, harnesses

ADAPTERS = Path("truezero", "integrations")
# The modules of truezero/integrations that a harness's tests use, but for one of its own name.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "benchflow": ("benchflow_rollouts",),
    "gateways": ("agent_lightning", "traces", "trainers"),
    "inspect_ai": ("inspect_hooks",),
    "mini_swe_agent": ("litellm",),
}
# What else only it reads.
_FILES: Mapping[str, tuple[str, ...]] = {
    "benchflow": ("truezero/audit/formats/litellm_spend.py",),
    "clients": ("docs/guides/identity.md",),
    "gateways": (
        "truezero/audit/formats/agent_lightning.py",
        "truezero/audit/formats/rllm.py",
        "truezero/audit/mask.py",
    ),
    "inspect_ai": ("truezero/audit/formats/inspect_*.py",),
    "mini_swe_agent": ("docs/guides/identity.md",),
    "nemo_evaluator": ("docs/guides/optimisers.md",),
    "optimisers": ("docs/guides/optimisers.md",),
    "sinks": ("docs/guides/sinks.md",),
}


def files(name: str, root: Path = ROOT) -> set[str]:
    """Return the patterns of a harness's pins and adapter."""
    return {
        f"tests/journeys/integrations/{name}.txt",
        f"truezero/audit/formats/{name}.py",
        *_FILES.get(name, ()),
        *adapter(root, (name, *_MODULES.get(name, ()))),
    }


def adapter(root: Path, modules: tuple[str, ...]) -> set[str]:
    """Return the files of an adapter: its modules, and what they import of those beside them."""
    found: set[str] = set()
    left = list(modules)
    while left:
        path = ADAPTERS / f"{left.pop()}.py"
        if str(path) not in found:
            found.add(str(path))  # one that went concerns whoever had it
            if (root / path).exists():
                left += _imported((root / path).read_text("utf-8"))
    return found


def _imported(text: str) -> Iterator[str]:
    package = ".".join(ADAPTERS.parts)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == package:
                yield from (each.name for each in node.names)
            elif node.module.startswith(f"{package}."):
                yield node.module.rpartition(".")[2]


def changes(root: Path) -> list[str] | None:
    """Return the paths that differ from the base; None where there is none."""
    try:
        base = os.environ.get("CI_BASE") or _last_release(root)
        if not base:
            return None
        differing = _git(root, "diff", "--name-only", "--no-renames", base, "--")
        return [*differing, *_git(root, "ls-files", "--others", "--exclude-standard")]
    except (OSError, subprocess.CalledProcessError):
        return None


def _last_release(root: Path) -> str | None:
    for line in _git(root, "log", "--skip=1", "--format=%H %s"):
        commit, _, subject = line.partition(" ")
        if subject.startswith("Release "):
            return commit
    return None


def _git(root: Path, *words: str) -> list[str]:
    command = ["git", "-c", "core.quotePath=off", *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def changed(root: Path = ROOT) -> list[str]:
    """Return the harnesses that the change concerns."""
    run = set(harnesses()) - ON_REQUEST
    paths = changes(root)
    if paths is None:
        return sorted(run)
    return [
        name
        for name in sorted(run)
        if any(fnmatch(path, pattern) for pattern in files(name, root) for path in paths)
    ]


if __name__ == "__main__":
    sys.stdout.write(" ".join(changed()) + "\n")
