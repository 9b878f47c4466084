"""Shell command lines, read as far as they are plain; nothing is expanded or run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

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
    found: list[list[Word]] = [[]]
    at, target = 0, False
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token.lastgroup == "redirection":
            target = True
        elif token.lastgroup == "end":
            found.append([])
        elif token.lastgroup == "word":
            if not target:
                found[-1].append(Word(text="".join(shlex.split(token["word"])), end=at))
            target = False
    plain = [command for command in found if command]
    return None if any(command[0].text in _COMPOUND for command in plain) else plain


def script_lines(script: str) -> list[str]:
    """Return a script's lines, continued ones joined; none of a script with here-documents."""
    joined = script.replace("\\\n", " ")
    return [] if "<<" in joined else [line.strip() for line in joined.splitlines()]


def assigned(script: str) -> Mapping[str, str]:
    """Return the variables that lines of a script set, with their values as written."""
    return dict(_EXPORTED.findall(script))
