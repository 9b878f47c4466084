"""Programs that start another program: how their command lines are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import PurePath

from truezero.runner import shell

# `@openai/codex@latest`, `mini-swe-agent[full]==2.4.6`, `codex`
_PACKAGE = re.compile(
    r"(@[\w.-]+/)?(?P<name>[\w.-]+?)(\[[\w,-]*\])?((@|[=<>~!]=?)[\w.,=<>~!^*+-]+)?\Z"
)
_INSTALLED = re.compile(r".*\bnode_modules/(?:@[\w.-]+/)?(?P<name>[\w-][\w.-]*)/.*\.[cm]?js\Z")
_ENDINGS = (".js", ".mjs", ".cjs", ".exe", ".cmd")


class StartedAs(Enum):
    """What stands where a launcher's options end."""

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
    """Return how a program starts another one; None where it is not known to do so."""
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
        assignment = shell.ASSIGNMENT.match(word) if launcher.assigns else None
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
