"""Cut a provider's sentence, or a name, into clauses of words.

What the sentence quotes or repeats of the request becomes a placeholder, so that it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from classifier.grammar.vocabulary import (
    ADVICE,
    COINED,
    CONDITIONS,
    ECHOES,
    ECHOES_PLAIN,
    PLAIN_FIELDS,
    TURNS,
)

FIELD: Final = "\x01"
"""Stands for the name of a request's field."""
NAME: Final = "\x02"
"""Stands for any other name or quotation."""
STATES: Final = "\x03"
"""Stands for the colon behind the path of a field: "messages.2.role: …"."""

TEXT_CAP: Final = 2_000  # characters of a message; of a name 120
NAME_CAP: Final = 120
CLAUSE_CAP: Final = 120  # clauses of a message; later ones are not read
WORD_CAP: Final = 60  # words of a clause; a longer one is read in pieces

_LINK: Final = re.compile(r"\b(?:https?://|www\.)\S+")
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_OUTER: Final = re.compile(r"""\s*(["'`])([^"'`]*)\1\s*""")
_WRAPPED: Final = re.compile(r"""["']message["']: ?(["'])(.{0,500}?)\1""")  # LiteLLM: a repr
_QUOTED: Final = re.compile(
    r"(?<![\w])'([^'\n]{0,300})'(?!\w)|\"([^\"\n]{0,300})\"|`([^`\n]{0,300})`"
    r"|“([^”\n]{0,300})”|‘([^’\n]{0,300})’|「([^」\n]{0,300})」|《([^》\n]{0,300})》"
)
_FIELD: Final = re.compile(
    r"[a-z]\w*(?:_\w+)+(?:[.\[][\w.\[\]]*)?|[A-Za-z]\w*(?:\[\d*\])[\w.\[\]]*|[a-z]+[A-Z]\w*"
)
_PATH: Final = re.compile(r"[a-z]\w*(?:\.\w+)*\.\d+(?:\.\w+)*|[a-z]\w*\[\d+\][\w.\[\]]*")
_RATIO: Final = re.compile(
    r"\s*/\s*(seconds?|sec|s|minutes?|min|m|hours?|hr|h|days?|d|weeks?|months?|mo|year)\b"
)
_SHORT_NOT: Final = re.compile(r"n['’]t\b")
_PIECE: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[_'’.\-/\[\]][A-Za-z0-9_]+)*|\$?\d+(?:[.,]\d+)*|[㐀-鿿]+"
    r"|<=?|[.;!?\n。；！？，,…|:：—–·∙•\x01\x02]| - "
)
_SNAKE: Final = re.compile(r"[a-z]\w*_\w+(?:\[[\w.\[\]]*)?")
_ENDS: Final = frozenset(".;!?\n。；！？，,…|—–·∙•") | {" - "}
_OPENAI_POLICY: Final = ("invalid", "prompt")  # "Invalid prompt: your prompt was flagged …"
_BRANDS: Final = frozenset(("openai", "github", "deepseek", "openrouter"))  # one word each
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words of one clause; ``hint`` where it advises instead of reporting."""

    words: tuple[str, ...]
    hint: bool = False


def split_name(name: str) -> tuple[str, ...]:
    """Split a code or type into lower-case words: camel case, snake case, dots, hyphens."""
    return tuple(word.lower() for word in _CAMEL.findall(name[:NAME_CAP]))


def clauses(text: str, known: frozenset[str]) -> Iterator[Clause]:
    """Yield the clauses of a message, in order.

    Args:
        text: the provider's sentence or sentences.
        known: words of the vocabulary, at which Chinese is cut.
    """
    words: list[str] = []
    count = 0
    pieces = [*_pieces(_plain(text[:TEXT_CAP]), known), "\n"]
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        if piece == "," and after == "which":
            continue
        if piece not in _ENDS and piece not in TURNS:
            words.append(piece)
            if len(words) < WORD_CAP:
                continue
        if words:
            yield _clause(words)
            count += 1
            if count >= CLAUSE_CAP:
                return
        words = []


def _clause(words: list[str]) -> Clause:
    cut = next((i for i, word in enumerate(words) if word in CONDITIONS), len(words))
    cut = next((i for i, word in enumerate(words[:cut]) if word in ECHOES_PLAIN), cut)
    return Clause(tuple(words[:cut]), hint=words[0] in ADVICE)


def _plain(text: str) -> str:
    """Drop links and markup, and replace what is quoted."""
    text = _TAG.sub(" ", _LINK.sub(" ", text))
    if outer := _OUTER.fullmatch(text):
        text = outer[2]
    text = _WRAPPED.sub(r". \2. ", text)
    text = _SHORT_NOT.sub(" not", text).replace("**", " ").replace("__", " ")
    return _RATIO.sub(r" per \1", _QUOTED.sub(_placeholder, text))


def _placeholder(quoted: re.Match[str]) -> str:
    inner = next((part for part in quoted.groups() if part is not None), "")
    if inner in PLAIN_FIELDS or _FIELD.fullmatch(inner) or _PATH.fullmatch(inner):
        return f" {inner} " if _SNAKE.fullmatch(inner) else f" {FIELD} "
    return f" {NAME} "


def _pieces(text: str, known: frozenset[str]) -> Iterator[str]:
    before = earlier = ""
    skip_line = False
    for found in _PIECE.finditer(text):
        piece = found.group()
        if piece == "\n":
            skip_line = False
        elif skip_line:
            continue
        if piece in (":", "："):
            skip_line = before in ECHOES and (earlier, before) != _OPENAI_POLICY
            if _PATH.fullmatch(before):
                yield STATES
        elif piece in _ENDS or piece in (FIELD, NAME):
            yield piece
        elif piece[0] > "\u2fff":
            yield from _chinese(piece, known)
        else:
            yield from _word(piece, known)
        earlier, before = before, piece.lower()


def _word(piece: str, known: frozenset[str]) -> Iterable[str]:
    if piece[0] in "$<" or piece[0].isdigit():
        return (piece,)
    piece = piece.replace("’", "'").removesuffix("'s")
    lowered = piece.lower()
    if lowered in known:
        return (lowered,)
    if "_" in piece:
        if lowered.endswith("_id"):
            return (NAME,)
        parts = split_name(piece)
        return parts if piece.isupper() or not COINED.isdisjoint(parts) else (FIELD,)
    if _PATH.fullmatch(piece):
        return (FIELD,)
    if "/" in piece:
        joined = tuple(lowered.split("/"))
        if joined[0] == "models":  # Google: models/gemini-1
            return ("model", NAME)
        return joined if known.issuperset(joined) else (NAME,)
    if "." in piece and piece == lowered:
        return (FIELD if piece.partition(".")[0] in PLAIN_FIELDS else NAME,)
    if any(char.isdigit() for char in piece):
        return (NAME,)
    return (lowered,) if lowered in _BRANDS else split_name(piece)


def _chinese(run: str, known: frozenset[str]) -> Iterator[str]:
    """Cut a run of Chinese characters at the longest known words; others stand alone."""
    at = 0
    while at < len(run):
        size = next((n for n in (6, 5, 4, 3, 2) if run[at : at + n] in known), 1)
        yield run[at : at + size]
        at += size
