"""Which agent a command line starts, however it is spelled: launchers, shells, wrapper scripts.

Nothing is run: a program that is no known agent is looked at once, its link and its first bytes.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from truezero.runner import launchers, shell
from truezero.runner.launchers import SHELL, Launcher, StartedAs, launcher_of, name_of

_HEAD_BYTES = 16_384  # of a wrapper script
_SHIM_CHARACTERS = 2_000  # a program that imports an agent and does more is not that agent
_DEEP = 8  # launchers that start one another

_INTERPRETER = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?(?P<name>[\w.-]+)")
_IMPORTED = re.compile(r"""(?:\b(?:require|import)\s*\(?\s*|\bfrom\s+)["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An agent in a command line.

    ``place`` is the index of the word that names it, or that holds the shell text or wrapper that
    does; ``offsets`` are where its own words may be put into that text. ``passes``: words
    after ``place`` reach it. ``words`` are its words as far as they are known, ``assigned`` the
    variables that the command sets for it, ``cleared`` whether it drops all others.
    """

    name: str
    place: int
    words: tuple[str, ...] = ()
    offsets: tuple[int, ...] = ()
    passes: bool = True
    separated: bool = False
    assigned: Mapping[str, str] = field(default_factory=dict)
    cleared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program's file: its path without links, and its first characters if it is a text."""

    path: PurePath
    text: str | None


Look = Callable[[str], Program | None]


def find(command: Sequence[str], names: Set[str], look: Look = lambda _word: None) -> Found | None:
    """Return the agent that a command starts; None where that is none of ``names``, or not plain.

    Arguments:
        names: of agents' programs and packages.
        look: returns the file of a program, as far as it may be read.
    """
    reached = _reached(command, names)
    if reached is None:
        return None
    if reached.name:
        return _found(reached, command[reached.place + 1 :])
    if reached.kind is StartedAs.TEXT:
        return _in_text(command[reached.place], reached, names)
    program = look(command[reached.place]) if reached.followed else None
    return _in_program(program, reached, command, names) if program else None


def insert(command: Sequence[str], found: Found | None, words: Sequence[str]) -> tuple[str, ...]:
    """Return the command with words for its agent, before those it has."""
    place = found.place if found else 0
    before, after = tuple(command[: place + 1]), tuple(command[place + 1 :])
    if not words or (found and not found.passes):
        return before + after
    if found and found.offsets:
        text = command[place]
        for offset in sorted(found.offsets, reverse=True):
            text = f"{text[:offset]} {shlex.join(words)}{text[offset:]}"
        return (*before[:-1], text, *after)
    if found and found.separated:
        before, after = (*before, "--"), after[1:] if after[:1] == ("--",) else after
    return (*before, *words, *after)


def look(word: str, path: str | None) -> Program | None:
    """Return a program's file; None if there is none, or it cannot be read.

    Arguments:
        path: directories in which a name without a slash is searched, as in ``PATH``.
    """
    where = word if "/" in word else shutil.which(word, path=path) or word
    try:
        file = Path(where).resolve(strict=True)
        if not file.is_file():  # a pipe would keep us waiting
            return None
        with file.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except (OSError, RuntimeError, ValueError):  # a circle of links; a name with a zero byte
        return None
    return Program(path=file, text=None if b"\0" in head else head.decode("utf-8", "replace"))


# --- launchers -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """Where a command line's launchers end; ``name`` is the agent's, or empty."""

    place: int
    kind: StartedAs
    name: str
    separated: bool
    followed: bool
    interpreter: str | None
    assigned: Mapping[str, str]
    cleared: bool


def _reached(words: Sequence[str], names: Set[str]) -> _Reached | None:
    """Follow the launchers of a command line; None where they cannot be followed."""
    assigned: dict[str, str] = {}
    launcher, interpreter, kind, at = Launcher(assigns=True), None, StartedAs.PROGRAM, 0
    cleared = False
    for _ in range(_DEEP):
        target = launchers.launched_program(launcher, words, at, assigned)
        if target is None:
            return None
        cleared = cleared or bool(launcher.clears & set(words[at : target[0]]))
        at, kind = target
        name = words[at].partition(".")[0] if kind is StartedAs.MODULE else name_of(words[at])
        known = kind is not StartedAs.TEXT and name in names
        following = None if known or kind is not StartedAs.PROGRAM else launcher_of(words[at])
        if following is None:
            return _Reached(
                place=at, kind=kind, name=name if known else "", assigned=assigned,
                separated=launcher.separated, cleared=cleared, interpreter=interpreter,
                followed=kind is StartedAs.PROGRAM and not launcher.installs,
            )  # fmt: skip
        launcher, interpreter = following, (name if following.reads else None)
        at += 1
    return None


def _found(reached: _Reached, words: Sequence[str]) -> Found:
    return Found(
        name=reached.name,
        place=reached.place,
        words=tuple(words),
        separated=reached.separated,
        assigned=reached.assigned,
        cleared=reached.cleared,
    )


# --- shells and wrappers -------------------------------------------------------------------


def _in_text(text: str, outer: _Reached, names: Set[str]) -> Found | None:
    """Find the agent of ``sh -c TEXT``: the only one, however often it runs."""
    commands = shell.simple_commands(text)
    found: list[Found] = []
    for command in commands or ():
        words = [word.text for word in command]
        inner = _reached(words, names)
        if inner and inner.name and not inner.separated:
            own = _found(inner, words[inner.place + 1 :])
            found.append(replace(own, offsets=(command[inner.place].end,)))
    if len({each.name for each in found}) != 1:
        return None
    exported = shell.assigned("\n".join(" ".join(w.text for w in c) for c in commands or ()))
    return Found(
        name=found[0].name,
        place=outer.place,
        words=tuple(word for each in found for word in each.words),
        offsets=tuple(offset for each in found for offset in each.offsets),
        assigned=_joined(outer.assigned, exported, *(each.assigned for each in found)),
        cleared=outer.cleared or any(each.cleared for each in found),
    )


def _in_program(
    program: Program, reached: _Reached, command: Sequence[str], names: Set[str]
) -> Found | None:
    """Find the agent behind a link, a shell script or a short program for node."""
    own = _found(reached, command[reached.place + 1 :])
    if (name := name_of(str(program.path))) in names:
        return replace(own, name=name)
    text = program.text or ""
    declared = _INTERPRETER.match(text)
    launcher = launcher_of(declared["name"] if declared else reached.interpreter or "")
    if launcher is SHELL:
        return _in_script(text, own, names)
    imported = {name_of(path) for path in _IMPORTED.findall(text)} & names
    if launcher and launcher.reads and len(text) < _SHIM_CHARACTERS and len(imported) == 1:
        return replace(own, name=imported.pop())
    return None


def _in_script(script: str, own: Found, names: Set[str]) -> Found | None:
    """Find the agent that every ``exec`` line of a script starts, else any of its lines."""
    lines = shell.script_lines(script)
    execs = [line for line in lines if line.startswith("exec ")]
    found: list[Found] = []
    for line in execs or lines:
        for command in shell.simple_commands(line) or ():
            words = [word.text for word in command]
            inner = _reached(words, names)
            if inner and inner.name:
                found.append(_found(inner, words[inner.place + 1 :]))
            elif inner and execs:
                return None  # it may start something else instead
    if len({each.name for each in found}) != 1:
        return None
    return replace(
        own,
        name=found[0].name,
        words=(*(word for each in found for word in each.words), *own.words),
        passes=all(shell.ALL_ARGUMENTS & set(each.words) for each in found),
        assigned=_joined(own.assigned, shell.assigned(script), *(each.assigned for each in found)),
        cleared=own.cleared or any(each.cleared for each in found),
    )


def _joined(*several: Mapping[str, str]) -> dict[str, str]:
    return {name: value for each in several for name, value in each.items()}
