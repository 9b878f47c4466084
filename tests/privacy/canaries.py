"""Strings that nobody else would write, and the search for them in whatever form they took.

It knows no service: it is given bytes with names.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_WORD: Final = "Qx9{}7Vk"  # found in any case; what stands around it differs by form


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
    """Every canary in these places, once each, in any of the forms of ``forms``."""
    patterns = [(word, form, pattern) for word in words for form, pattern in forms(word)]
    return [
        Leak(place, word, form, held[max(0, found.start() - 80) : found.end() + 20])
        for place, held in places
        for word, form, pattern in patterns
        if (found := pattern.search(held))
    ]


def forms(word: str) -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """A word as it stands, in any case (URL- and JSON-escaping leave it), and encoded."""
    raw = word.encode()
    yield "plain", re.compile(re.escape(raw), re.IGNORECASE)
    yield "escaped", re.compile(b"".join(b"(?:%%|\\\\x|\\\\u00)%02x" % byte for byte in raw), re.I)
    yield "utf-16", re.compile(re.escape(raw.decode().encode("utf-16-le")[:-1]), re.IGNORECASE)
    yield "hex", re.compile(raw.hex().encode(), re.IGNORECASE)
    yield "backwards", re.compile(re.escape(raw[::-1]), re.IGNORECASE)
    for case, said in (("", raw), (" lower", raw.lower()), (" upper", raw.upper())):
        for shift in range(3):
            yield f"base64+{shift}{case}", re.compile(re.escape(_base64(said, shift)))


def _base64(said: bytes, shift: int) -> bytes:
    """What of a text's base64 does not depend on what stands before and after it."""
    whole = base64.b64encode(b"\0" * shift + said).rstrip(b"=")
    first = (shift * 8 + 5) // 6
    last = (shift + len(said)) * 8 // 6
    return whole[first:last]
