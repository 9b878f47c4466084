"""Recognise the agent that a command line starts, behind launchers, shells and wrapper scripts.

Nothing is run: a program that is no known agent is looked at once, its link and its first bytes.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path, PurePath

# --- shell command lines ---
#
# They are read as far as they are plain; nothing is expanded or run.


ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)\Z", re.DOTALL)
ALL_ARGUMENTS = frozenset({"$@", "$*", "${@}", "${*}"})

# A word may hold variables, which are left as they are, but no substituted command.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t]+|\\\n)
    |(?P<comment>\#[^\n]*)
    |(?P<redirection>\d*(?:&>>?|>>|>\||[<>]&|>|<(?!<)))
    |(?P<end>&&|\|\||[;|&\n])
    |(?P<word>(?:[^\s'"\\;&|<>()`]|\\.|'[^']*'|"(?:[^"\\`$]|\\.|\$(?!\())*")+)
    """,
    re.VERBOSE | re.DOTALL,
)
# Commands that contain others: what runs, and how often, is not plain.
_COMPOUND = frozenset(
    ("!", "[[", "case", "do", "done", "elif", "else", "esac", "eval", "fi", "for", "function", "if",
     "in", "select", "then", "until", "while", "{", "}")
)  # fmt: skip
_EXPORTED = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=(\S*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word without its quotes, and where it ends in the text."""

    text: str
    end: int


def simple_commands(text: str) -> list[list[Word]] | None:
    """Split a text into simple commands, without their redirections.

    None: not plain (a compound command, a substituted one, a here-document, an open quote).
    """
    commands: list[list[Word]] = [[]]
    at, target = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token.lastgroup == "redirection":
            target = True
        elif token.lastgroup == "end":
            commands.append([])
        elif token.lastgroup == "word":
            if not target:
                commands[-1].append(Word(text="".join(shlex.split(token["word"])), end=at))
            target = False
    plain = [command for command in commands if command]
    return None if any(command[0].text in _COMPOUND for command in plain) else plain


def script_lines(script: str) -> list[str]:
    """Return a script's lines, continued ones joined; none of a script with here-documents."""
    joined = script.replace("\\\n", " ")
    return [] if "<<" in joined else [line.strip() for line in joined.splitlines()]


def assigned(script: str) -> Mapping[str, str]:
    """Return the variables that lines of a script set, with their values as written."""
    return dict(_EXPORTED.findall(script))


# --- launchers ---
#
# Programs that start another program, and how their command lines are read.


# `@openai/codex@latest`, `mini-swe-agent[full]==2.4.6`, `codex`
_PACKAGE = re.compile(
    r"(@[\w.-]+/)?(?P<name>[\w.-]+?)(\[[\w,-]*\])?((@|[=<>~!]=?)[\w.,=<>~!^*+-]+)?\Z"
)
_INSTALLED = re.compile(r".*\bnode_modules/(?:@[\w.-]+/)?(?P<name>[\w-][\w.-]*)/.*\.[cm]?js\Z")
_ENDINGS = (".js", ".mjs", ".cjs", ".exe", ".cmd")


class StartedAs(Enum):
    """The kind of word that stands where a launcher's options end."""

    PROGRAM = auto()
    MODULE = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A program that starts another one, named on its command line.

    ``commands`` are its own commands that do so, and ``()`` for none. ``values`` are options
    followed by a value, ``opaque`` those after which nothing is known. ``skips`` counts words
    before the program; ``separated``: it takes options up to ``--`` for its own. ``reads``: its
    program is a file that it reads, ``installs``: it is a package.
    """

    commands: tuple[tuple[str, ...], ...] = ((),)
    values: frozenset[str] = frozenset()
    opaque: frozenset[str] = frozenset()
    clears: frozenset[str] = frozenset()
    module: str | None = None
    skips: int = 0
    assigns: bool = False
    text: bool = False
    separated: bool = False
    reads: bool = False
    installs: bool = False


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UV = _options(
    "-c -C -f -i -P -p -w --allow-insecure-host --cache-dir --color --config-file --config-setting "
    "--constraints --default-index --directory --env-file --exclude-newer --extra "
    "--extra-index-url --find-links --from --group --index --index-strategy --index-url "
    "--keyring-provider --link-mode --no-group --only-group --package --prerelease --project "
    "--python --refresh-package --reinstall-package --resolution --upgrade-package --with "
    "--with-editable --with-requirements"
)
_NPM = _options("-p -w --cache --package --prefix --registry --userconfig --workspace")
_UVX = Launcher(values=_UV, installs=True)
_NPX = Launcher(values=_NPM, opaque=_options("-c --call"), installs=True)
_PYTHON = Launcher(
    values=_options("-W -X --check-hash-based-pycs"), opaque=_options("-c -"), module="-m"
)
_NODE = Launcher(
    values=_options("-C -r --conditions --env-file --experimental-loader --import --loader "
                    "--require --title"),
    opaque=_options("-c -e -p -pe --check --eval --print -"),
    reads=True,
)  # fmt: skip
SHELL = Launcher(
    values=_options("-o +o -O +O --init-file --rcfile"),
    opaque=_options("-s"),
    text=True,
    reads=True,
)
_PLAIN = Launcher()

_LAUNCHERS: Mapping[str, Launcher] = {
    "bash": SHELL, "dash": SHELL, "ksh": SHELL, "sh": SHELL, "zsh": SHELL,
    "command": _PLAIN, "nohup": _PLAIN, "setsid": _PLAIN,
    "exec": Launcher(values=_options("-a")),
    "env": Launcher(
        values=_options("-C -u --chdir --unset"), opaque=_options("-S --split-string"),
        clears=_options("-i - --ignore-environment"), assigns=True,
    ),
    "ionice": Launcher(values=_options("-c -n --class --classdata")),
    "nice": Launcher(values=_options("-n --adjustment")),
    "stdbuf": Launcher(values=_options("-i -o -e --input --output --error")),
    "time": Launcher(values=_options("-f -o --format --output")),
    "timeout": Launcher(values=_options("-k -s --kill-after --signal"), skips=1),
    "bun": replace(_NODE, commands=(("x",), ("run",), ())),
    "bunx": replace(_NPX, opaque=frozenset()),
    "node": _NODE,
    "npm": replace(_NPX, commands=(("exec",), ("x",)), separated=True),
    "npx": _NPX,
    "pnpm": replace(_NPX, commands=(("dlx",), ("exec",), ()), values=_NPM | _options("-C --dir")),
    "pnpx": _NPX,
    "yarn": replace(_NPX, commands=(("dlx",), ("exec",), ("run",), ())),
    "conda": Launcher(commands=(("run",),), values=_options("-n -p --cwd --name --prefix")),
    "hatch": Launcher(commands=(("run",),), values=_options("-e --env")),
    "pdm": Launcher(commands=(("run",),), values=_options("-p --project")),
    "pipx": Launcher(
        commands=(("run",),), values=_options("--index-url --pip-args --python --spec"),
        installs=True,
    ),
    "poetry": Launcher(commands=(("run",),), values=_options("-C -P --directory --project")),
    "python": _PYTHON,
    "uv": replace(_UVX, commands=(("run",), ("tool", "run")), module="-m"),
    "uvx": _UVX,
}  # fmt: skip


def name_of(word: str) -> str:
    """Return ``codex`` for ``/usr/bin/codex``, ``bin/codex.js`` and ``@openai/codex@latest``."""
    if installed := _INSTALLED.match(word):
        return installed["name"]
    scoped = word.startswith("@") and word.count("/") == 1
    name = word if scoped else PurePath(word).name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    match = _PACKAGE.match(name)
    return match["name"] if match else ""


def launcher_of(word: str) -> Launcher | None:
    """Return how a program starts another one; None if it is not known to do so."""
    name = name_of(word)
    return _LAUNCHERS.get("python" if re.fullmatch(r"(python|pypy)[\d.]*", name) else name)


def launched_program(
    launcher: Launcher, words: Sequence[str], at: int, assigned: dict[str, str]
) -> tuple[int, StartedAs] | None:
    """Return where a launcher's program is named, and how; collect variables that it sets."""
    if launcher.commands != ((),):
        while at < len(words) and words[at].startswith("-") and words[at] != "--":
            at += 2 if words[at] in launcher.values else 1
        chosen = next((c for c in launcher.commands if tuple(words[at : at + len(c)]) == c), None)
        if chosen is None:
            return None
        at += len(chosen)
    skips = launcher.skips
    while at < len(words):
        word = words[at]
        assignment = ASSIGNMENT.match(word) if launcher.assigns else None
        if assignment:
            assigned[assignment["name"]] = assignment["value"]
        elif word == launcher.module:
            return (at + 1, StartedAs.MODULE) if at + 1 < len(words) else None
        elif launcher.text and re.fullmatch(r"-[a-z]*c", word):
            return (at + 1, StartedAs.TEXT) if at + 1 < len(words) else None
        elif word.partition("=")[0] in launcher.opaque:
            return None
        elif word.startswith(("-", "+") if launcher.text else "-"):
            at += word in launcher.values
        elif skips:
            skips -= 1
        else:
            return at, StartedAs.PROGRAM
        at += 1
    return None


# --- recognition ---


_HEAD_BYTES = 16_384  # of a wrapper script
_SHIM_CHARACTERS = 2_000  # a program that imports an agent and does more is not that agent
_DEEP = 8  # launchers that start one another

_INTERPRETER = re.compile(r"#![ \t]*(?:\S*/env[ \t]+(?:-S[ \t]+)?)?(?:\S*/)?(?P<name>[\w.-]+)")
_IMPORTED = re.compile(r"""(?:\b(?:require|import)\s*\(?\s*|\bfrom\s+)["']([^"']+)["']""")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognisedAgent:
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


FindProgram = Callable[[str], Program | None]


def find(
    command: Sequence[str], names: Set[str], find_program: FindProgram = lambda _word: None
) -> RecognisedAgent | None:
    """Return the agent that a command starts; None if that is none of ``names``, or not plain.

    Arguments:
        names: of agents' programs and packages.
        find_program: returns the file of a program, as far as it may be read.
    """
    reached = _reached(command, names)
    if reached is None:
        return None
    if reached.name:
        return _recognised(reached, command[reached.place + 1 :])
    if reached.kind is StartedAs.TEXT:
        return _in_text(command[reached.place], reached, names)
    program = find_program(command[reached.place]) if reached.followed else None
    return _in_program(program, reached, command, names) if program else None


def insert(
    command: Sequence[str], agent: RecognisedAgent | None, words: Sequence[str]
) -> tuple[str, ...]:
    """Return the command with words for its agent, before those it has."""
    place = agent.place if agent else 0
    before, after = tuple(command[: place + 1]), tuple(command[place + 1 :])
    if not words or (agent and not agent.passes):
        return before + after
    if agent and agent.offsets:
        text = command[place]
        for offset in sorted(agent.offsets, reverse=True):
            text = f"{text[:offset]} {shlex.join(words)}{text[offset:]}"
        return (*before[:-1], text, *after)
    if agent and agent.separated:
        before, after = (*before, "--"), after[1:] if after[:1] == ("--",) else after
    return (*before, *words, *after)


def find_program(word: str, path: str | None) -> Program | None:
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


# --- agents behind launchers ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """The place where a command line's launchers end; ``name`` is the agent's, or empty."""

    place: int
    kind: StartedAs
    name: str
    separated: bool
    followed: bool
    interpreter: str | None
    assigned: Mapping[str, str]
    cleared: bool


def _reached(words: Sequence[str], names: Set[str]) -> _Reached | None:
    """Follow the launchers of a command line; None if they cannot be followed."""
    assigned: dict[str, str] = {}
    launcher, interpreter, kind, at = Launcher(assigns=True), None, StartedAs.PROGRAM, 0
    cleared = False
    for _ in range(_DEEP):
        target = launched_program(launcher, words, at, assigned)
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


def _recognised(reached: _Reached, words: Sequence[str]) -> RecognisedAgent:
    return RecognisedAgent(
        name=reached.name,
        place=reached.place,
        words=tuple(words),
        separated=reached.separated,
        assigned=reached.assigned,
        cleared=reached.cleared,
    )


# --- agents behind shells and wrapper scripts ---


def _in_text(text: str, outer: _Reached, names: Set[str]) -> RecognisedAgent | None:
    """Find the agent of ``sh -c TEXT``: the only one, however often it runs."""
    commands = simple_commands(text)
    agents: list[RecognisedAgent] = []
    for command in commands or ():
        words = [word.text for word in command]
        inner = _reached(words, names)
        if inner and inner.name and not inner.separated:
            own = _recognised(inner, words[inner.place + 1 :])
            agents.append(replace(own, offsets=(command[inner.place].end,)))
    if len({each.name for each in agents}) != 1:
        return None
    exported = assigned("\n".join(" ".join(w.text for w in c) for c in commands or ()))
    return RecognisedAgent(
        name=agents[0].name,
        place=outer.place,
        words=tuple(word for each in agents for word in each.words),
        offsets=tuple(offset for each in agents for offset in each.offsets),
        assigned=_joined(outer.assigned, exported, *(each.assigned for each in agents)),
        cleared=outer.cleared or any(each.cleared for each in agents),
    )


def _in_program(
    program: Program, reached: _Reached, command: Sequence[str], names: Set[str]
) -> RecognisedAgent | None:
    """Find the agent behind a link, a shell script or a short program for node."""
    own = _recognised(reached, command[reached.place + 1 :])
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


def _in_script(script: str, own: RecognisedAgent, names: Set[str]) -> RecognisedAgent | None:
    """Find the agent that every ``exec`` line of a script starts, else any of its lines."""
    lines = script_lines(script)
    execs = [line for line in lines if line.startswith("exec ")]
    agents: list[RecognisedAgent] = []
    for line in execs or lines:
        for command in simple_commands(line) or ():
            words = [word.text for word in command]
            inner = _reached(words, names)
            if inner and inner.name:
                agents.append(_recognised(inner, words[inner.place + 1 :]))
            elif inner and execs:
                return None  # it may start something else instead
    if len({each.name for each in agents}) != 1:
        return None
    return replace(
        own,
        name=agents[0].name,
        words=(*(word for each in agents for word in each.words), *own.words),
        passes=all(ALL_ARGUMENTS & set(each.words) for each in agents),
        assigned=_joined(own.assigned, assigned(script), *(each.assigned for each in agents)),
        cleared=own.cleared or any(each.cleared for each in agents),
    )


def _joined(*several: Mapping[str, str]) -> dict[str, str]:
    return {name: value for each in several for name, value in each.items()}
