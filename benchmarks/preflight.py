"""What ``make bench`` needs: what is there, what is not, and how to get it, said beforehand.

Without what is essential it stops. Whatever else is missing leaves a row that says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import machine, peers, subjects

STREAMS_OPEN_FILES = 2 * 9000 + 200  # of the figure that opens most


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Something that is asked for: what stands without it, and where it comes from."""

    name: str
    found: str | None  # where, or which version; None: it is not there
    without: str
    hint: str
    essential: bool = False

    def __str__(self) -> str:
        if self.found:
            return f"  {self.name:16} {self.found}"
        return f"  {self.name:16} MISSING: {self.without}. To get it: {self.hint}"


def compiler() -> str | None:
    """Return the first C compiler on the path."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def _two_cores() -> str | None:
    many = len(os.sched_getaffinity(0))
    return f"{many}" if many > 1 else None


def _open_files() -> str | None:
    allowed = machine.open_files()
    return f"{allowed:,}" if allowed >= STREAMS_OPEN_FILES else None


def _network() -> str | None:
    tools = [shutil.which(name) for name in ("unshare", "nsenter", "ip")]
    return ", ".join(each for each in tools if each) if all(tools) else None


def _compiled() -> str | None:
    return str(subjects.COMPILED) if subjects.COMPILED.is_dir() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    found: Callable[[], str | None]
    without: str
    hint: str
    essential: bool = False


_TOOLS: Mapping[str, _Tool] = {
    "C compiler": _Tool(
        found=compiler,
        without="neither provider nor load generator",
        hint="Debian: apt-get install gcc libc6-dev",
        essential=True,
    ),
    "taskset": _Tool(
        found=lambda: shutil.which("taskset"),
        without="nothing can be kept to a core",
        hint="Debian: apt-get install util-linux",
        essential=True,
    ),
    "two cores": _Tool(
        found=_two_cores,
        without="load and proxy take each other's time",
        hint="a larger machine",
    ),
    "open files": _Tool(
        found=_open_files,
        without=f"9,000 streams want {STREAMS_OPEN_FILES:,}",
        hint="ulimit -n, as root",
    ),
    "compiled": _Tool(
        found=_compiled, without="no column of the compiled copy", hint=peers.HINTS["compiled"]
    ),
    "valgrind": _Tool(
        found=lambda: shutil.which("valgrind"),
        without="no instructions are counted",
        hint="Debian: apt-get install valgrind",
    ),
    "namespaces": _Tool(
        found=_network,
        without="no row of ferrogw, which listens on all addresses",
        hint="Debian: apt-get install util-linux iproute2",
    ),
}


def needs(asked: Sequence[str]) -> list[Need]:
    """Return all that is wanted where these peers are asked for; nginx is essential if it is."""
    found = [
        Need(name=name, found=tool.found(), without=tool.without, hint=tool.hint,
             essential=tool.essential)
        for name, tool in _TOOLS.items()
    ]  # fmt: skip
    versions = peers.versions()
    found += [
        Need(
            name=name,
            found=versions.get(name),
            without="the main ratio" if name == "nginx" else "its row says so",
            hint=peers.HINTS[name] + (", or leave it out: --without nginx" * (name == "nginx")),
            essential=name == "nginx",
        )
        for name in asked
        if name in peers.HINTS and name not in _TOOLS
    ]
    return found


def check(asked: Sequence[str], say: Callable[[str], None]) -> None:
    """Say what there is and what is missing.

    Raises:
        SystemExit: something essential is, and nothing was measured.
    """
    known = needs(asked)
    say("make bench has, and lacks:")
    for need in known:
        say(str(need))
    lacking = [need for need in known if need.essential and not need.found]
    if lacking:
        said = "\n".join(f"  {need.name}: {need.hint}" for need in lacking)
        raise SystemExit(f"make bench can't do without:\n{said}")
