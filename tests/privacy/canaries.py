"""Strings that nobody else would write, and the search for them in whatever form they took.

It knows no service: it is given bytes with names.
"""

from __future__ import annotations

import base64
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

_WORD: Final = "Qx9{}7Vk"  # found in any case; what stands around it differs by form
# Each begins with a letter of its own and has no flag: the search then skips to that letter.
_ESCAPED: Final = (
    re.compile(rb"%([0-9a-fA-F]{2})"),
    re.compile(rb"\\\\*(?:[xX]|[uU]00)([0-9a-fA-F]{2})"),
)


class Canary(NamedTuple):
    """What is planted: ``word`` is what is searched for, ``text`` what is said."""

    word: str
    text: str


def canary(kind: str) -> Canary:
    """A canary for one place; its text has what encodings change: quotes, blanks, umlauts."""
    word = _WORD.format(kind)
    return Canary(word, f'{word} "zebra" <b>&amp; größe\n{word}/{word}?x={word}')


PROMPT: Final = canary("prompt")
COMPLETION: Final = canary("completion")
ARGUMENTS: Final = canary("arguments")
MESSAGE: Final = canary("message")
COOKIE: Final = canary("cookie")
QUERY: Final = canary("query")
HEADER: Final = canary("header")
KEYS: Final = canary("key")  # its word is part of every key


def key(kind: str) -> str:
    """A secret with the shape of a key; every one has the canary of keys in it."""
    return f"sk-{kind}-{KEYS.word}-abcdefghijklmnop"


WORDS: Final = tuple(
    one.word for one in (PROMPT, COMPLETION, ARGUMENTS, MESSAGE, COOKIE, QUERY, HEADER, KEYS)
)


class Leak(NamedTuple):
    """A canary that was found: where, which, in which form, and what stands around it."""

    place: str
    word: str
    form: str
    around: bytes


def leaks(places: Iterable[tuple[str, bytes]], words: Iterable[str] = WORDS) -> list[Leak]:
    """Every canary in these places, once each, in the first of ``forms`` that it is found in."""
    sought = [(word, tuple(forms(word))) for word in dict.fromkeys(words)]
    # How all of them begin is in each form of each: where it is not, no word is looked for.
    begin = os.path.commonprefix([word for word, _ in sought])  # noqa: RUF071  of letters
    begins = tuple(forms(begin))
    found: list[Leak] = []
    for place, held in places:
        views = _views(held)
        likely = [at for at, (_, view, needle) in enumerate(begins) if needle in views[view]]
        for word, ways in sought if likely else ():
            some = [ways[at] for at in likely]
            found += itertools.islice(_found(place, word, some, views), 1)
    return found


class View(StrEnum):
    """What is done to bytes before a form is looked for in them."""

    PLAIN = "as they are"
    LOWER = "in lower case"
    UNESCAPED = "in lower case, %41, \\x41 and \\u0041 undone"


Form = tuple[str, View, bytes]


def forms(word: str) -> Iterator[Form]:
    """A word as it stands, in any case (URL- and JSON-escaping leave it), and encoded."""
    raw = word.encode()
    yield "plain", View.LOWER, raw.lower()
    yield "escaped", View.UNESCAPED, raw.lower()
    yield "utf-16", View.LOWER, word.lower().encode("utf-16-le")[:-1]
    yield "hex", View.LOWER, raw.hex().encode()
    yield "backwards", View.LOWER, raw[::-1].lower()
    for case, said in (("", raw), (" lower", raw.lower()), (" upper", raw.upper())):
        for shift in range(3):
            yield f"base64+{shift}{case}", View.PLAIN, _base64(said, shift)


def _views(held: bytes) -> dict[View, bytes]:
    unescaped = held
    for escaped in _ESCAPED:
        unescaped = escaped.sub(lambda found: bytes([int(found[1], 16)]), unescaped)
    return {View.PLAIN: held, View.LOWER: held.lower(), View.UNESCAPED: unescaped.lower()}


def _found(place: str, word: str, ways: Iterable[Form], views: dict[View, bytes]) -> Iterator[Leak]:
    for form, view, needle in ways:
        held = views[view]
        if (at := held.find(needle)) >= 0:
            yield Leak(place, word, form, held[max(0, at - 80) : at + len(needle) + 20])


def _base64(said: bytes, shift: int) -> bytes:
    """What of a text's base64 does not depend on what stands before and after it."""
    whole = base64.b64encode(b"\0" * shift + said).rstrip(b"=")
    first = (shift * 8 + 5) // 6
    last = (shift + len(said)) * 8 // 6
    return whole[first:last]
