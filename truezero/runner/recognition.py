"""Find the word of a command line that names an agent.

It is the first word, or the first behind the options of a program that starts another one.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import PurePath

_UV = (
    "-p -w --env-file --extra --from --group --index --package --project --python --with "
    "--with-editable --with-requirements"
)
# Programs that start another one, as they are written: the options that are followed by a value.
_LAUNCHERS: Mapping[tuple[str, ...], frozenset[str]] = {
    tuple(words.split()): frozenset(values.split())
    for words, values in {
        "env": "-C -u --chdir --unset",
        "nice": "-n --adjustment",
        "nohup": "",
        "timeout": "-k -s --kill-after --signal",
        "python -m": "",
        "npx": "-c -p -w --call --package --workspace",
        "bunx": "-p --package",
        "pnpm dlx": "--package",
        "pipx run": "--pip-args --python --spec",
        "uvx": _UV,
        "uv run": _UV,
        "uv tool run": _UV,
    }.items()
}
_SHELLS = frozenset(("bash", "dash", "ksh", "sh", "zsh"))

_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_BEFORE = re.compile(rf"-.*|[\d.]+[smhd]?|{_ASSIGNMENT.pattern}", re.DOTALL)  # options, a timeout
# `@openai/codex@latest`, `mini-swe-agent[full]==2.4.6`, `codex`
_PACKAGE = re.compile(
    r"(@[\w.-]+/)?(?P<name>[\w.-]+?)(\[[\w,-]*\])?((@|[=<>~!]=?)[\w.,=<>~!^*+-]+)?"
)
_PLAIN = re.compile(r"(?<![^\s;&|(])[^\s'\"`;&|()]+(?![^\s;&|)])")  # a word of a shell, unquoted


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedAgent:
    """An agent in a command line.

    ``place`` is the index of the word that its own ``words`` follow; in a shell's text they
    follow its first ``end`` characters. None: they cannot be given to it. ``assigned`` are
    variables that the command sets for it.
    """

    name: str
    place: int | None
    end: int | None = None
    words: tuple[str, ...] = ()
    assigned: Mapping[str, str] = field(default_factory=dict)


def name_of(word: str) -> str:
    """Return ``codex`` for ``/usr/bin/codex``, ``dist/codex.js`` and ``@openai/codex@latest``."""
    scoped = word.startswith("@") and word.count("/") == 1
    match = _PACKAGE.fullmatch(word if scoped else PurePath(word).name.removesuffix(".js"))
    return match["name"] if match else ""


def find(command: Sequence[str], names: Set[str]) -> RecognisedAgent | None:
    """Return the agent that a command names, if it is one of ``names``."""
    place = _program(command)
    if place is None or name_of(command[place]) not in names:
        return None
    return _started(command, place)


def find_in_shell(command: Sequence[str], names: Set[str]) -> RecognisedAgent | None:
    """Return the agent that is named first in the text of ``sh -c TEXT``."""
    at = _shell_text(command)
    if at is None:
        return None
    for word in _PLAIN.finditer(command[at]):
        if (name := name_of(word[0])) in names:
            words = tuple(command[at][word.end() :].split())
            return RecognisedAgent(name=name, place=at, end=word.end(), words=words)
    return None


def find_chosen(command: Sequence[str], names: Set[str]) -> RecognisedAgent:
    """Return the agent that a user says a command starts: where it is named, else its program.

    A program that is not named so must hand its arguments on. A shell cannot.
    """
    if found := find(command, names) or find_in_shell(command, names):
        return found
    named = (at for at, word in enumerate(command) if name_of(word) in names)
    place = next(named, _program(command))
    if place is None or name_of(command[place]) in _SHELLS:
        return RecognisedAgent(name="", place=None)
    return _started(command, place)


def insert(command: Sequence[str], agent: RecognisedAgent, words: Sequence[str]) -> tuple[str, ...]:
    """Return the command with words for its agent, before those it has."""
    if agent.place is None or not words:
        return tuple(command)
    before, after = command[: agent.place + 1], command[agent.place + 1 :]
    if agent.end is None:
        return (*before, *words, *after)
    text = before[-1]
    text = f"{text[: agent.end]} {shlex.join(words)}{text[agent.end :]}"
    return (*before[:-1], text, *after)


def _started(command: Sequence[str], place: int) -> RecognisedAgent:
    pairs = filter(None, map(_ASSIGNMENT.fullmatch, command[:place]))
    assigned = {pair["name"]: pair["value"] for pair in pairs}
    return RecognisedAgent(
        name=name_of(command[place]),
        place=place,
        words=tuple(command[place + 1 :]),
        assigned=assigned,
    )


def _program(command: Sequence[str]) -> int | None:
    """Return the index of the first word behind all launchers; None if there is none."""
    at = 0
    while launcher := next((each for each in _LAUNCHERS if _starts(command[at:], each)), None):
        at += len(launcher)
        while at < len(command) and _BEFORE.fullmatch(command[at]):
            at += 1 + (command[at] in _LAUNCHERS[launcher])
    return at if at < len(command) else None


def _starts(words: Sequence[str], launcher: tuple[str, ...]) -> bool:
    first = re.sub(r"\A(python)[\d.]+\Z", r"\1", name_of(words[0])) if words else ""
    return (first, *words[1 : len(launcher)]) == launcher


def _shell_text(command: Sequence[str]) -> int | None:
    """Return the index of the text of ``sh -c TEXT``; None if the command starts no such shell."""
    place = _program(command)
    if place is None or name_of(command[place]) not in _SHELLS:
        return None
    options = range(place + 1, len(command) - 1)
    return next((at + 1 for at in options if re.fullmatch(r"-[a-z]*c", command[at])), None)
