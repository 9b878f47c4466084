"""Cut an error's text into clauses, and each into the words that the vocabulary knows.

What a sentence quotes or repeats of the request becomes a placeholder, so that it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from classifier.grammar.language import Language, fold, simplify
from classifier.grammar.vocabulary import FIELD, STATES, vocabulary

NAME: Final = "\x02"
"""Stands for any name or quotation but that of a request's field."""

TEXT_CAP: Final = 2_000  # characters of a message; of a name 120
NAME_CAP: Final = 120
CLAUSE_CAP: Final = 120  # clauses of a message; later ones are not read
WORD_CAP: Final = 60  # words of a clause; a longer one is read in pieces

_LINK: Final = re.compile(r"\b(?:https?://|www\.)\S+")
# What gateways write behind any sentence: "(request id: 2026…)".
_ID: Final = re.compile(r"\((?:(?:request|trace)[ _-]?id|tid)\b[^()\n]{0,80}\)", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_OUTER: Final = re.compile(r"""\s*(["'`])([^"'`]*)\1\s*""")
_WRAPPED: Final = re.compile(r"""["']message["']: ?(["'])(.{0,500}?)\1""")  # LiteLLM: a repr
_QUOTED: Final = re.compile(
    r"(?<![\w])'([^'\n]{0,300})'(?!\w)|\"([^\"\n]{0,300})\"|`([^`\n]{0,300})`"
    r"|„([^“”\n]{0,300})[“”]|“([^”\n]{0,300})”|‘([^’\n]{0,300})’|「([^」\n]{0,300})」"
    r"|『([^』\n]{0,300})』|《([^》\n]{0,300})》|«([^»\n]{0,300})»"
)
_FIELD: Final = re.compile(
    r"[a-z]\w*(?:_\w+)+(?:[.\[][\w.\[\]]*)?|[A-Za-z]\w*(?:\[\d*\])[\w.\[\]]*|[a-z]+[A-Z]\w*"
)
_PATH: Final = re.compile(r"[a-z]\w*(?:\.\w+)*\.\d+(?:\.\w+)*|[a-z]\w*\[\d+\][\w.\[\]]*")
_RATIO: Final = re.compile(
    r"\s*/\s*(seconds?|sec|s|minutes?|min|m|hours?|hr|h|days?|d|weeks?|months?|mo|year)\b"
)
_GO_FIELD: Final = re.compile(r"[A-Z]\w*(?:\.[a-z_]\w*)+")  # "ChatRequest.messages"
# pkg.go.dev/net#OpError, net/url#Error: `read tcp …`, `Get "https://…"` are no advice
_GO_CALL: Final = re.compile(
    r"\b(?:get|head|post|put|read|write|dial) (?=tcp\b|udp\b|\W?https?:)", re.IGNORECASE
)
_MASKED: Final = re.compile(r"\b[A-Za-z]{2,6}-[\w-]{0,40}(?:…|\*{2,}|\.{2,})[\w*]*")  # "sk-…77"
_SHORT_NOT: Final = re.compile(r"n['’]t\b")
_PIECE: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9]*(?:[_'’.\-/\[\]][A-Za-z0-9_]+)*|\$?\d+(?:[.,]\d+)*|[㐀-鿿ぁ-ヺー々]+"
    r"|[а-яА-Я]+|[가-힣]+|、|<=?|[.;!?\n。；！？，,…|:：—–·∙•\x02]|\x01[\w.\[\]]*| - "
)
_SNAKE: Final = re.compile(r"[a-z]\w*_\w+(?:\[[\w.\[\]]*)?")
_ONLY_A_NAME: Final = re.compile(r"\s*[A-Za-z]+(?:_[A-Za-z]+)+\.?\s*")
_TOUCHING: Final = re.compile(r"(?<=[ぁ-鿿가-힣])(?=['\"`])|(?<=['\"`])(?=[ぁ-鿿가-힣])")
_ENDS: Final = frozenset(".;!?\n。；！？，,…|—–·∙•") | {" - "}
_LACKING: Final = ["not", "support"]
_TIMEOUT: Final = ["timed", "out"]  # what a clause of no other word than "timeout" says
_LEAD: Final = 24  # characters before a quotation, which say of what it is
_OF_A_REQUEST: Final = re.compile(
    r"\b(?:value|enum|one of|property|tool|function|column|key|name)\W*\Z", re.IGNORECASE
)
_PARTS: Final = re.compile(r"[.\[\]]+")
_VALUE: Final = re.compile(r"\b(?:value|enum|one of|parameter|argument)\W*\Z", re.IGNORECASE)
_OPENAI_POLICY: Final = ("invalid", "prompt")  # "Invalid prompt: your prompt was flagged …"
_NOT_A_LETTER: Final = re.compile(r"[^a-z]+")
_SIZES: Final = (6, 5, 4, 3, 2)
_LONG_SIZES: Final = (12, 11, 10, 9, 8, 7, *_SIZES)
_PARTICLES: Final = frozenset(
    ("", "이", "가", "은", "는", "을", "를", "의", "로", "에", "와", "과", "도", "만", "입니다")
)
_BRANDS: Final = frozenset(("openai", "github", "deepseek", "openrouter"))  # one word each
_CAMEL: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Clause:
    """Words of one clause; ``hint`` where it advises instead of reporting.

    ``fields`` are the names for which a ``FIELD`` stands among the words.
    """

    words: tuple[str, ...]
    hint: bool = False
    fields: tuple[str, ...] = ()


def split_name(name: str) -> tuple[str, ...]:
    """Split a code or type into lower-case words: camel case, snake case, dots, hyphens.

    One that is no ASCII is a word by itself.
    """
    if not name.isascii():
        return (name[:NAME_CAP].lower(),)
    return tuple(word.lower() for word in _CAMEL.findall(name[:NAME_CAP]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The words by which a text's languages, always with English, cut, deny, advise and refer."""

    known: frozenset[str]  # words of the vocabulary, at which text without blanks is cut
    negations: frozenset[str]
    none_of: frozenset[str]
    ends_negation: frozenset[str]
    advice: frozenset[str]
    conditions: frozenset[str]
    turns: frozenset[str]
    prepositions: frozenset[str]
    echoes: frozenset[str]
    continues: frozenset[str]
    relatives: frozenset[str]
    postpositions: frozenset[str]
    conditions_behind: frozenset[str]
    denials: tuple[str, ...]
    inabilities: tuple[str, ...]
    none_behind: tuple[str, ...]
    advice_endings: tuple[str, ...]
    pauses: tuple[str, ...]
    heads: tuple[str, ...]
    links: frozenset[str]
    joins: bool  # characters that mean nothing are one word, not one each

    @classmethod
    def of(cls, languages: tuple[Language, ...], phrases: frozenset[str]) -> Speech:
        """Join English, whose phrases are among those given, and some other languages."""
        english = vocabulary()

        def join(name: str, base: frozenset[str] = frozenset()) -> frozenset[str]:
            return base.union(*(lang.listed(getattr(lang, name)) for lang in languages))

        def ends(name: str) -> tuple[str, ...]:
            return tuple(sorted(join(name), key=len, reverse=True))

        function_words = frozenset[str]().union(
            *map(join, ("negations", "denials", "inabilities", "none_behind", "turns")),
            *map(join, ("conditions_behind", "postpositions", "ends_negation")),
        )
        return cls(
            known=phrases.union(
                english.negations, english.advice, english.conditions, function_words
            ),
            negations=join("negations", english.negations),
            none_of=join("none_of", english.none_of),
            ends_negation=join("ends_negation", english.ends_negation),
            advice=join("advice", english.advice),
            conditions=join("conditions", english.conditions),
            turns=join("turns", english.turns),
            prepositions=join("prepositions", english.prepositions),
            echoes=join("echoes", english.echoes),
            continues=join("continues", english.continues),
            relatives=join("relatives"),
            postpositions=join("postpositions"),
            conditions_behind=join("conditions_behind"),
            denials=ends("denials") + ends("inabilities"),
            inabilities=ends("inabilities"),
            none_behind=ends("none_behind"),
            advice_endings=ends("advice_endings"),
            pauses=ends("pauses"),
            heads=ends("heads"),
            links=join("ends_negation", english.links),
            joins=any(lang.denials for lang in languages),
        )


def clauses(text: str, speech: Speech) -> Iterator[Clause]:
    """Yield the clauses of a message, in order.

    Args:
        text: the provider's sentence or sentences.
        speech: the languages it is written in.
    """
    words: list[str] = []
    count = 0
    pieces = [*_pieces(_plain(text[:TEXT_CAP]), speech), "\n"]
    if speech.relatives:
        pieces = _without_relatives(pieces, speech.relatives)
    for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
        if piece == "," and after in speech.continues:
            continue
        if piece not in _ENDS and piece not in speech.turns:
            words.append(piece)
            if len(words) < WORD_CAP:
                continue
        if words:
            yield _clause(words, speech)
            count += 1
            if count >= CLAUSE_CAP:
                return
        words = []


def _clause(words: list[str], speech: Speech) -> Clause:
    hint = words[0] in speech.advice
    if speech.advice_endings:
        hint = hint or words[-1].endswith(speech.advice_endings)
        behind = (at for at, word in enumerate(words) if word in speech.conditions_behind)
        words = words[max(behind, default=-1) + 1 :]
    conditions = speech.conditions
    cut = next((i for i, word in enumerate(words) if word in conditions), len(words))
    plain = vocabulary().echoes_plain
    cut = next((i for i, word in enumerate(words[:cut]) if word in plain), cut)
    said = _TIMEOUT if words == ["timeout"] else words[:cut]
    if said[-2:] == _LACKING:  # of nothing: it is not supported
        said = [*said[:-1], "supported"]
    fields = tuple(word[1:] for word in said if word[0] == FIELD)
    return Clause(tuple(FIELD if word[0] == FIELD else word for word in said), hint, fields)


def _without_relatives(pieces: list[str], relatives: frozenset[str]) -> list[str]:
    """Drop clauses between two commas that only describe the noun before them."""
    kept: list[str] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if piece == "," and at + 1 < len(pieces) and pieces[at + 1] in relatives:
            end = next(i for i in range(at + 1, len(pieces)) if pieces[i] in _ENDS)
            if pieces[end] == ",":
                at = end + 1
                continue
        kept.append(piece)
        at += 1
    return kept


def _plain(text: str) -> str:
    """Drop links, ids and markup, and replace what is quoted."""
    if not text.isascii():
        text = _TOUCHING.sub(" ", simplify(fold(text))[:TEXT_CAP])
    if _ONLY_A_NAME.fullmatch(text):
        return text.replace("_", " ")
    text = _TAG.sub(" ", _LINK.sub(" ", _GO_CALL.sub("request ", _ID.sub("", text))))
    if outer := _OUTER.fullmatch(text):
        text = outer[2]
    text = _MASKED.sub(NAME, _WRAPPED.sub(r". \2. ", text))
    text = _SHORT_NOT.sub(" not", text).replace("**", " ").replace("__", " ")
    return _RATIO.sub(r" per \1", _QUOTED.sub(_placeholder, text))


def _placeholder(quoted: re.Match[str]) -> str:
    inner = next((part for part in quoted.groups() if part is not None), "").strip()
    words = vocabulary()
    lead = quoted.string[max(0, quoted.start() - _LEAD) : quoted.start()]
    parts = frozenset(_PARTS.split(inner))
    if not words.response_fields.isdisjoint(parts) and not _VALUE.search(lead):
        return f" {FIELD}{inner} "
    if inner in words.plain_fields or _FIELD.fullmatch(inner) or _PATH.fullmatch(inner):
        if _SNAKE.fullmatch(inner):
            return f" {NAME} " if _OF_A_REQUEST.search(lead) else f" {inner} "
        return f" {FIELD}{inner} "
    return f" {NAME} "


def _pieces(text: str, speech: Speech) -> Iterator[str]:
    before = earlier = ""
    skip_line = False
    for match in _PIECE.finditer(text):
        piece = match.group()
        if piece == "\n":
            skip_line = False
        elif skip_line:
            continue
        if piece in (":", "："):
            skip_line = before in speech.echoes and (earlier, before) != _OPENAI_POLICY
            if _PATH.fullmatch(before):
                yield STATES
        elif piece in _ENDS or piece[0] in (FIELD, NAME):
            yield piece
        elif piece == "、":
            if text[: match.start()].endswith(speech.pauses):
                yield ","
        elif piece[0] > "\u2fff":
            yield from _unspaced(piece, speech)
        elif piece[0] > "\u03ff":
            yield piece.lower()
        else:
            yield from _word(piece, speech)
        earlier, before = before, piece.lower()


def _word(piece: str, speech: Speech) -> Iterable[str]:
    if piece[0] in "$<" or piece[0].isdigit():
        return (piece,)
    known = speech.known
    piece = piece.replace("’", "'").removesuffix("'s")
    lowered = piece.lower()
    if lowered in known:
        return (lowered,)
    if "_" in piece:
        if lowered.endswith("_id"):
            return (NAME,)
        parts = split_name(piece)
        if piece[-1].isdigit() and lowered not in vocabulary().request_fields:
            return (NAME,)  # an id: org_19
        coined = piece.isupper() or not vocabulary().coined.isdisjoint(parts)
        return parts if coined else (FIELD + piece,)
    if _PATH.fullmatch(piece) or _GO_FIELD.fullmatch(piece):
        return (FIELD + piece,)
    if "/" in piece:
        joined = tuple(lowered.split("/"))
        if joined[0] == "models":  # Google: models/gemini-1
            return ("model", NAME)
        return joined if known.issuperset(joined) else (NAME,)
    if "." in piece and piece == lowered:
        first = piece.partition(".")[0]
        return (FIELD + piece if first in vocabulary().plain_fields else NAME,)
    if any(char.isdigit() for char in piece):
        return (NAME,)
    if lowered.endswith(speech.heads):
        return _compound(lowered, speech)
    return (lowered,) if lowered in _BRANDS else split_name(piece)


def _compound(word: str, speech: Speech) -> tuple[str, ...]:
    """Cut a compound before the noun that it ends in: "Tageslimit" is a limit."""
    parts = _NOT_A_LETTER.split(word)
    head = next((head for head in speech.heads if parts[-1].endswith(head)), "")
    first = parts[-1].removesuffix(head)
    return (*parts[:-1], first, head) if first and head else tuple(parts)


def _unspaced(run: str, speech: Speech) -> Iterator[str]:
    """Cut characters without blanks at the longest known words.

    Others stand alone in Chinese, and together where words have endings.
    """
    known, joins = speech.known, speech.joins
    sizes = _LONG_SIZES if joins else _SIZES
    hangul = run[0] >= "가"
    at = copied = 0
    while at < len(run):
        size = next((n for n in sizes if run[at : at + n] in known), 0)
        if size == 0 and not joins:
            yield run[at]
        elif size == 0 and run[at] in known and (not hangul or _stands_alone(run, at, speech)):
            size = 1
        if size and joins:
            if copied < at:
                yield run[copied:at]
            copied = at + size
        if size:
            yield run[at : at + size]
        at += size or 1
    if joins and copied < len(run):
        yield run[copied:]


def _stands_alone(run: str, at: int, speech: Speech) -> bool:
    """Return True if a Korean syllable that begins a run of characters is a word by itself.

    It is one if at most a particle follows it, or if the run begins with a denial.
    """
    return at == 0 and (run[1:] in _PARTICLES or run.startswith(speech.denials))
