"""Read what an error says: a subject and a predicate within one clause, under no negation.

It reads whole vocabularies in time linear in the text, and the text is capped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import chain, islice
from typing import Final

from classifier.grammar.language import Language, Tongues, fold, simplify
from classifier.grammar.languages import languages
from classifier.grammar.meanings import RANKS, Meaning, meanings
from classifier.grammar.vocabulary import FIELD, STATES, Term, vocabulary

# --- clauses ---
#
# What a sentence quotes or repeats of the request becomes a placeholder, so that it means nothing.


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


# --- subjects and predicates ---


_NEGATES: Final = 4  # words that a negation reaches
_PART: Final = frozenset(("field", "some_field"))
_ACCOUNT: Final = frozenset(("key", "account", "balance", "credits", "billing", "payment"))
_NAMED: Final = re.compile(r"(?<!\w)['\"`„«「“]\w")  # a quoted name, not a quoted path
_FAILED: Final = "failed"  # "could not" denies what follows it, too: "could not be found"
_DENIES: Final = 6  # words behind a predicate where another language may deny it
_DENIES_OUTRIGHT: Final = 2
_BARE: Final = 3  # words of a clause that only names something
_MARKS: Final = 8  # subjects, and predicates, of one clause
_NAMES: Final = 16  # names of one error that are read
_HOUR_S: Final = 3_600.0
_UNITS: Final = {"mil": 1e-3, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": _HOUR_S, "d": 86_400.0}
_SPAN: Final = (
    r"(\d{1,9}(?:\.\d{1,9})?) ?"
    r"(milliseconds?|millis|ms|days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|d|h|m|s)"
)
_WAIT: Final = re.compile(  # "in 1m12s", "in 1 hour and 5 minutes", "retry after 20"
    r"(?:retry|try again|tried again|wait|resets?|refresh\w*|available again)[^\d\n]{0,30}"
    rf"((?:{_SPAN}[ ,]{{0,2}}(?:and )?){{1,4}}(?![a-z]))"
    r"|retry[-_ ]?after[\"']?[ :=]{1,3}(\d{1,9}(?:\.\d{1,9})?)(?![\d.]*[ ]?[a-z\d])",
    re.IGNORECASE,
)
_SPANS: Final = re.compile(_SPAN, re.IGNORECASE)


# Other languages: a number of hours behind "in", or before "later".
_UNITS_ELSEWHERE: Final = (
    *((start, 1.0) for start in ("сек", "sek", "seg", "sec", "秒", "초")),
    *((start, 60.0) for start in ("мин", "min", "分", "분")),
    *((start, _HOUR_S) for start in ("час", "stu", "hor", "heu", "時", "小", "시")),
    *((start, 86_400.0) for start in ("д", "су", "tag", "d", "jou", "日", "天", "일")),
)
_WAIT_ELSEWHERE: Final = re.compile(
    r"(?:через|dans|em|en|dentro de|daqui a|após|après) (\d{1,9}) ?"
    r"(сек|мин|час|дн|день|сут|segundo|minut|hora|d[ií]a|seconde|heure|jour)"
    r"|(?:in|nach) (\d{1,9}) ?(sekunde|minuten|stunde|tag)"
    r"|(\d{1,9}) ?(秒|分|時間|小时|小時|天|日|초|분|시간|일)(?:间|間|钟|鐘)? ?(?:後|后|후|뒤)"
)


def _waits_elsewhere(text: str) -> Iterator[tuple[float, str]]:
    """Yield the waits that a text states in other languages than English, with their units."""
    for match in _WAIT_ELSEWHERE.finditer(text):
        number, unit = (part for part in match.groups() if part)
        yield float(number), unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReading:
    """The row that holds, which subject and predicate met, and the name that says it, if any."""

    meaning: Meaning
    rule: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class _Mark:
    term: str
    start: int
    end: int
    oblique: bool = False  # behind a preposition: "not enabled for this model"
    of: int | None = None  # where the subject starts that it denies, if only that one


@dataclass(frozen=True, slots=True)
class _Marked:
    """A clause of a sentence, or a ``name``, with its marks."""

    subjects: tuple[_Mark, ...]
    predicates: tuple[_Mark, ...]
    hint: bool = False
    name: str | None = None
    breaks: tuple[int, ...] = ()  # where "and" and "or" stand


class _Lexicon:
    """Phrases by their first word, those with stems by its first letters; the longest first."""

    def __init__(self, entries: Iterable[tuple[tuple[str, ...], str]]) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self._stems: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for phrase, term in entries:
            if any(word.endswith("*") for word in phrase):
                key = phrase[0].rstrip("*")[:_BEGINNING]
                self._stems.setdefault(key, []).append((phrase, term))
            else:
                self._phrases.setdefault(phrase[0], []).append((phrase, term))
        for listed in (*self._phrases.values(), *self._stems.values()):
            listed.sort(key=lambda entry: (-len(entry[0]), -len(" ".join(entry[0]))))

    def words(self) -> frozenset[str]:
        return frozenset(w for list_ in self._phrases.values() for p, _ in list_ for w in p)

    def at(self, words: tuple[str, ...], start: int) -> tuple[str, int] | None:
        """Return the term that starts at a word, and where it ends."""
        longest = None
        word = words[start]
        for phrase, term in self._phrases.get(word, ()):
            end = start + len(phrase)
            if words[start:end] == phrase:
                longest = term, end
                break
        if (stems := self._stems.get(word[:_BEGINNING])) is None:
            return longest
        for phrase, term in stems:
            end = start + len(phrase)
            if longest is not None and end <= longest[1]:
                break
            if end <= len(words) and all(map(_fits, words[start:end], phrase)):
                return term, end
        return longest


def _fits(word: str, entry: str) -> bool:
    return word.startswith(entry[:-1]) if entry[-1] == "*" else word == entry


_BEGINNING: Final = 3  # letters of a stem at least


@dataclass(frozen=True, slots=True)
class _Hearing:
    """The words and the habits of the languages of one text."""

    subjects: _Lexicon
    predicates: _Lexicon
    speech: Speech


class Grammar:
    """The vocabulary and the table of meanings, read when they are first needed; immutable.

    ``leave_out`` are phrases that are not read, ``languages`` those that are read beside English
    and Chinese, all if None: both measure what is understood without some words.
    """

    def __init__(
        self,
        *,
        leave_out: frozenset[str] = frozenset(),
        languages: tuple[Language, ...] | None = None,
    ) -> None:
        self._leave_out = leave_out
        self._only = languages
        self._hearings: dict[tuple[str, ...], _Hearing] = {}

    def read(
        self,
        message: str | None,
        names: Iterable[str],
        *,
        status: int | None,
        retry_after_s: float | None = None,
    ) -> ErrorReading | None:
        """Return the first row that a clause or a name supports, or None.

        Args:
            message: the provider's own sentences, never an echo of the request.
            names: codes, types, reasons and the stated exception, as sent.
            status: the status that describes the failure; None inside a 200 that states none.
            retry_after_s: the stated wait, in seconds.
        """
        listed = tuple(names)[:_NAMES]
        *frames, inner = unframed(message or "")
        found = self._read(inner, listed, status, retry_after_s)
        if found is not None or not frames or self._is_of_a_request(inner):
            return found
        readings = (self._read(each, listed, status, retry_after_s) for each in reversed(frames))
        return next(filter(None, readings), None)

    def _read(
        self, message: str, listed: tuple[str, ...], status: int | None, retry_after_s: float | None
    ) -> ErrorReading | None:
        parts = [split_name(name) for name in listed]
        hearing = self._hearing(" ".join((message, *chain.from_iterable(parts))))
        named = [self._name(*name, hearing) for name in zip(listed, parts, strict=True)]
        marked = [*self._sentence(message, named, hearing), *named]
        present = _circumstances(message, listed, retry_after_s)
        for clause in marked:
            terms = {mark.term for mark in (*clause.subjects, *clause.predicates)}
            present |= terms & _ADVISED if clause.hint else terms
        statements = [clause for clause in marked if clause.name is None and not clause.hint]
        for rank in RANKS:
            possible, possible_named = _rows(rank, status)
            here = [row for row in possible if _holds(row, present)]
            anywhere = [row for row in possible_named if _holds(row, present)]
            first = _strongest if rank == _MONEY else _first
            if found := first(statements, here) or first(named, anywhere):
                return found
            if rank == _MONEY and status in _PAID:
                hints = [clause for clause in marked if clause.hint]
                if found := _first(hints, [row for row in here if row.subjects & _SURE_MONEY]):
                    return found
        if status in _ADVISED_AT:
            rows = chain.from_iterable(_rows(rank, status)[0] for rank in RANKS)
            wanted = (
                replace(row, predicates=row.predicates & _WANTED)
                for row in rows
                if not row.predicates.isdisjoint(_WANTED)
            )
            return _first((clause for clause in marked if clause.hint), wanted)
        return None

    def fields(self, message: str) -> Iterator[str]:
        """Yield the fields that a message names, with their paths."""
        for clause in self.clauses(message):
            yield from clause.fields

    def _is_of_a_request(self, message: str) -> bool:
        words = {FIELD, *vocabulary().plain_fields}
        return any(not words.isdisjoint(clause.words) for clause in self.clauses(message))

    def names_part(self, message: str, *, in_a_word: bool) -> bool:
        """Return True if a message names a part of a request: its tool calls.

        Arguments:
            in_a_word: a single word counts too: its tools, its prompt.
        """
        hearing = self._hearing(message)
        for clause in clauses(message, hearing.speech):
            words = clause.words
            for term, start, end in _scan(hearing.subjects, words):
                several = term in _PART and end - start > 1
                alone = term == "field" or words[start] in vocabulary().plain_fields
                if several or (in_a_word and alone and words[start] != FIELD):
                    return True
        return False

    def names_account(self, message: str) -> bool:
        """Return True if a key, an account or its money is what a message speaks of."""
        hearing = self._hearing(message)
        return any(
            mark.term in _ACCOUNT and not mark.oblique
            for clause in clauses(message, hearing.speech)
            if not clause.hint
            for mark in self._marked(clause, hearing).subjects
        )

    def clauses(self, message: str) -> Iterator[Clause]:
        """Yield the clauses of a message, cut as its languages are."""
        return clauses(message, self._hearing(message).speech)

    @cached_property
    def _tongues(self) -> Tongues:
        phrases = (phrase for term in vocabulary().terms for phrase in term.phrases())
        every = languages() if self._only is None else self._only
        return Tongues(every, frozenset(chain.from_iterable(phrases)))

    @cached_property
    def _negated(self) -> frozenset[str]:
        return frozenset(term.id for term in vocabulary().predicates if term.negated)

    def _hearing(self, text: str) -> _Hearing:
        """Return the words and the habits of the languages that a text is written in."""
        heard = self._tongues.of(text[:TEXT_CAP])
        codes = tuple(language.code for language in heard)
        if codes not in self._hearings:
            said_of = _Lexicon(self._entries(vocabulary().subjects, heard, "subjects"))
            predicates = _Lexicon(self._entries(vocabulary().predicates, heard, "predicates"))
            speech = Speech.of(heard, said_of.words() | predicates.words())
            self._hearings[codes] = _Hearing(subjects=said_of, predicates=predicates, speech=speech)
        return self._hearings[codes]

    def _entries(
        self, terms: Iterable[Term], languages: Iterable[Language], part: str
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the phrases of English and of some languages, each with the id of its term."""
        for term in terms:
            listed = [*term.phrases()]
            for language in languages:
                listed += language.written(getattr(language, part).get(term.id, ""))
            for phrase in listed:
                if " ".join(phrase) not in self._leave_out:
                    yield phrase, term.id

    def _sentence(
        self, message: str, named: Iterable[_Marked], hearing: _Hearing
    ) -> Iterator[_Marked]:
        """Read each clause; a bare "model: x" is told by the predicate of a name."""
        borrowed = tuple(
            replace(p, start=0, end=0, of=None) for name in named for p in name.predicates
        )
        for clause in clauses(message, hearing.speech):
            marked = self._marked(clause, hearing)
            bare = not marked.predicates and 1 < len(clause.words) <= _BARE
            yield replace(marked, predicates=borrowed) if bare else marked

    def _name(self, name: str, parts: tuple[str, ...], hearing: _Hearing) -> _Marked:
        if name.isascii():
            return self._marked(Clause(parts), hearing, name)
        written = next(clauses(name[:NAME_CAP], hearing.speech), Clause(()))
        return self._marked(written, hearing, name)

    def _marked(self, clause: Clause, hearing: _Hearing, name: str | None = None) -> _Marked:
        words = clause.words
        speech = hearing.speech
        subjects = tuple(
            _Mark(term, start, end, oblique=_oblique(words, start, end, speech))
            for term, start, end in islice(_scan(hearing.subjects, words), _MARKS)
        )
        predicates = tuple(islice(self._affirmed(words, hearing), _MARKS)) + tuple(
            _lacking(words, subjects, speech)
        )
        links = speech.links
        breaks = tuple(at for at, word in enumerate(words) if word in links)
        return _Marked(subjects, predicates, clause.hint, name, breaks)

    def _affirmed(self, words: tuple[str, ...], hearing: _Hearing) -> Iterator[_Mark]:
        """Yield predicates that report a failure: plain ones not negated, others negated."""
        speech = hearing.speech
        negations, ends = speech.negations, speech.ends_negation
        free = 0  # a negation inside an earlier phrase is spent
        for term, start, end in _scan(hearing.predicates, words):
            fails_negated = term in self._negated
            denied = _negated(words, max(free, start - _NEGATES), start, negations, ends)
            if speech.denials and not denied:
                denied = _denied(words, end, speech, outright=not fails_negated)
            if denied == fails_negated:
                yield _Mark(term, start, end)
            if term != _FAILED and not negations.isdisjoint(words[start:end]):
                free = end


_SURE_MONEY: Final = frozenset(("balance", "credits", "billing", "payment"))
_ADVISED: Final = _SURE_MONEY | {  # told by advice, too
    "recharge", "overdue", "good_standing", "model", "deployment",
}  # fmt: skip
_PAID: Final = frozenset((402, 403))
_ADVISED_AT: Final = frozenset((200, 400))
_WANTED: Final = frozenset(("recharge", "verify"))  # of the account, before it may call
_MONEY: Final = RANKS[0]


def _scan(lexicon: _Lexicon, words: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    at = 0
    while at < len(words):
        hit = lexicon.at(words, at)
        if hit is None:
            at += 1
            continue
        term, end = hit
        yield term, at, end
        at = end


def _negated(
    words: tuple[str, ...], first: int, start: int, negations: frozenset[str], ends: frozenset[str]
) -> bool:
    for at in range(start - 1, first - 1, -1):
        if words[at] in ends:
            return False
        if words[at] in negations:
            return True
    return False


def _denied(words: tuple[str, ...], end: int, speech: Speech, *, outright: bool) -> bool:
    """Return True if a word behind a predicate denies it.

    With ``outright``, a word that denies only the ability ("cannot") does not count.
    """
    for word in words[end : end + (_DENIES_OUTRIGHT if outright else _DENIES)]:
        if word in speech.ends_negation:
            return False
        if word.startswith(speech.denials):
            return not (outright and word.startswith(speech.inabilities))
    return False


def _oblique(words: tuple[str, ...], start: int, end: int, speech: Speech) -> bool:
    if not speech.prepositions.isdisjoint(words[max(0, start - 2) : start]):
        return True
    return not speech.postpositions.isdisjoint(words[end : end + 1])


def _lacking(words: tuple[str, ...], subjects: Iterable[_Mark], speech: Speech) -> Iterator[_Mark]:
    """Yield the predicate ``no`` beside each subject of which there is none."""
    for subject in subjects:
        for at in range(max(0, subject.start - 2), subject.start):
            if words[at] in speech.none_of:
                yield _Mark("no", at, at + 1, of=subject.start)
        if speech.none_behind:
            for at in range(subject.end, min(subject.end + 2, len(words))):
                if words[at].startswith(speech.none_behind):
                    yield _Mark("no", at, at + 1, of=subject.start)
                    yield _Mark("missing", at, at + 1, of=subject.start)


@lru_cache(maxsize=256)
def _rows(rank: str, status: int | None) -> tuple[tuple[Meaning, ...], tuple[Meaning, ...]]:
    """Return the rows of a rank that a sentence, and that a name, can support at a status."""
    ranked = [row for row in meanings() if row.rank == rank]
    here = tuple(row for row in ranked if row.on is None or status in row.on)
    named = (row for row in ranked if row.any_status_named or row in here)
    return here, tuple(row for row in named if not row.said_only)


def _holds(row: Meaning, present: set[str]) -> bool:
    if row.beside and row.beside.isdisjoint(present):
        return False
    return not row.without or row.without.isdisjoint(present)


def _first(marked: Iterable[_Marked], rows: Iterable[Meaning]) -> ErrorReading | None:
    """Return what the first clause says that says something, by the first row that holds."""
    rows = tuple(rows)
    for clause in marked:
        if not clause.predicates:
            continue
        subjects = {mark.term for mark in clause.subjects}
        predicates = {mark.term for mark in clause.predicates}
        for row in rows:
            if row.predicates.isdisjoint(predicates):
                continue
            if row.subjects and row.subjects.isdisjoint(subjects):
                continue
            if pair := _pair(clause, row):
                where = "said" if clause.name is None else "named"
                rule = f"{where}.{row.gives.value}:{pair[0]}+{pair[1]}"
                return ErrorReading(meaning=row, rule=rule, name=clause.name)
    return None


def _strongest(marked: Iterable[_Marked], rows: Iterable[Meaning]) -> ErrorReading | None:
    """Return what any clause says by the first row that holds."""
    every = tuple(clause for clause in marked if clause.predicates)
    if not every:
        return None
    return next((row_hit for row in rows if (row_hit := _first(every, (row,)))), None)


def _pair(clause: _Marked, row: Meaning) -> tuple[str, str] | None:
    """Return the closest subject and predicate of a row in a clause."""
    if row.also and all(mark.term not in row.also for mark in clause.predicates):
        return None
    best, pair = row.within + 1, None
    for predicate in clause.predicates:
        if predicate.term not in row.predicates:
            continue
        if not row.subjects and predicate.end:  # not a name's that is only borrowed
            return "it", predicate.term
        for subject in clause.subjects:
            if subject.term not in row.subjects or (row.direct and subject.oblique):
                continue
            if predicate.of is not None and predicate.of != subject.start:
                continue
            if subject.term not in _THINGS and _is_of_a_thing(clause, subject, predicate):
                continue
            gap = _gap(subject, predicate)
            if gap < best and not (row.nearest and _closer(clause, predicate, gap)):
                best, pair = gap, (subject.term, predicate.term)
    return pair


_TIME: Final = "time"
_THINGS: Final = frozenset((_TIME, "plumbing", "memory", "connection"))
_OVER: Final = frozenset(("exceeded", "exhausted", "expired", "too_long", "ended"))


def _is_of_a_thing(clause: _Marked, subject: _Mark, predicate: _Mark) -> bool:
    """Return True if it is a time, a queue or a memory that the predicate is said of.

    Such a noun stands between both, or right before one: "context deadline exceeded", "disk quota
    exceeded", "the queue exceeded its budget". A time is what is exceeded wherever in the clause it
    stands.
    """
    return any(
        min(subject.end, predicate.end) <= each.start < max(subject.start, predicate.start)
        or each.end == subject.start
        or (each.end == predicate.start and each.term != "memory")
        or (each.term == _TIME and predicate.term in _OVER)
        for each in clause.subjects
        if each.term in _THINGS
    )


def _gap(subject: _Mark, predicate: _Mark) -> int:
    return max(predicate.start - subject.end, subject.start - predicate.end, 0)


def _closer(clause: _Marked, predicate: _Mark, gap: int) -> bool:
    """Return True if another subject, not oblique nor behind "or", is closer to a predicate."""
    return any(
        _gap(other, predicate) < gap
        for other in clause.subjects
        if not other.oblique
        and not any(
            min(other.end, predicate.end) <= at < max(other.start, predicate.start)
            for at in clause.breaks
        )
    )


def _circumstances(message: str, names: tuple[str, ...], retry_after_s: float | None) -> set[str]:
    """Return what is true of the whole error: a wait, a quoted name, a rate's own name."""
    found = set()
    wait = stated_wait(message, retry_after_s)
    if wait is not None and wait < _HOUR_S:
        found.add("wait.short")
    if any(split_name(name) == ("resource", "exhausted") for name in names):
        found.add("name.resource_exhausted")
    if _NAMED.search(message):
        found.add("name")
    return found


def stated_wait(message: str, retry_after_s: float | None) -> float | None:
    """Return the longest wait that is stated, in seconds; None if none is."""
    text = message[:TEXT_CAP]
    waits = [_seconds(match[1], match[4]) for match in _WAIT.finditer(text)]
    waits += [
        number * next(seconds for start, seconds in _UNITS_ELSEWHERE if unit.startswith(start))
        for number, unit in _waits_elsewhere(text.lower())
    ]
    if retry_after_s is not None:
        waits.append(retry_after_s)
    return max(waits, default=None)


def _seconds(spans: str | None, bare: str | None) -> float:
    """Return the seconds of a wait in one unit or several, or of a number alone."""
    if spans is None:
        return float(bare or 0)
    total = 0.0
    for number, unit in _SPANS.findall(spans):
        lengths = (_UNITS.get(unit[:size].lower()) for size in (3, 2, 1))
        total += float(number) * next(filter(None, lengths))
    return total


# --- frames ---


_FRAMES: Final = 3  # around each other
_FRAME: Final = re.compile(
    r"(?P<frame>[^:\n{}'\"`]{0,120}?(?<![a-z_])(?:upstream|provider|backend|target|channel"
    r"|deployments?|gateway|relay|fallback|endpoint|server|worker|engine|vertex|openai|anthropic|azure|bedrock|gemini"
    r"|request|call|attempt|上游|渠道|请求)(?![a-z_])[^:\n{}'\"`]{0,80})(?::|：|=>|->)\s*(?P<inner>\S.{3,})",
    re.IGNORECASE | re.DOTALL,
)
_FRAMED: Final = re.compile(
    r"\b(?:failed|failure|errors?|exception|returned|said|says|replied|responded|answered"
    r"|rejected|exhausted|calling|last)\b|错误|失败|返回",
    re.IGNORECASE,
)


def unframed(message: str) -> list[str]:
    """Return a gateway's own words, if any, each to its colon, and last what stands behind them.

    "Upstream request failed: [1210] Invalid parameter": what stands behind the colon speaks first.
    """
    said, inner = [], message
    for _ in range(_FRAMES):
        frame = _FRAME.match(inner[:TEXT_CAP])
        if frame is None or _FRAMED.search(frame["frame"]) is None:
            break
        said.append(frame["frame"])
        inner = frame["inner"]
    return [*said, inner]


# --- the provider's own words ---


_OPENS: Final = re.compile(r"(?<!\w)['‘‚‹]|[\"`“„”«»「『《]")
_CLOSES: Final = re.compile(r"['’‘›](?!\w)|[\"`”“«»」』》]")


@cache
def _echo() -> re.Pattern[str]:
    """Return what finds the words that a copy of the request follows."""
    english = vocabulary()
    echoes = english.echoes.union(*(each.listed(each.echoes) for each in languages()))
    return re.compile(
        rf"(?<![a-z])(?:(?:{'|'.join(sorted(echoes))})\s*[:：]"
        rf"|(?:{'|'.join(sorted(english.echoes_plain))})(?![a-z]))"
    )


def own_words(text: str) -> str:
    """Return a message without what may be copied from the request, folded and in lower case.

    That is all between the first and the last quotation mark, since a quotation may hold marks
    itself, and all behind a word such as ``got`` or ``input:``. Blanks are joined.
    """
    text = fold(text[:TEXT_CAP]).lower()
    if (opens := _OPENS.search(text)) is not None:
        closes = [mark.end() for mark in _CLOSES.finditer(text, opens.end())]
        text = f"{text[: opens.start()]} {NAME} {text[closes[-1] :] if closes else ''}"
    if (echo := _echo().search(text)) is not None:
        text = f"{text[: echo.start()]} {NAME}"
    return " ".join(text.split())
