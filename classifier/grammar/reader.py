"""Read what an error says: a subject and a predicate within one clause, under no negation.

It reads whole vocabularies in time linear in the text, and the text is capped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from classifier.grammar.meanings import MEANINGS, MONEY, Meaning
from classifier.grammar.vocabulary import (
    ADVICE,
    COINED,
    CONDITIONS,
    ECHOES,
    ECHOES_PLAIN,
    ENDS_NEGATION,
    NEGATIONS,
    PLAIN_FIELDS,
    PREDICATES,
    PREPOSITIONS,
    SUBJECTS,
    TURNS,
    Term,
)

# --- clauses ---
#
# What a sentence quotes or repeats of the request becomes a placeholder, so that it means nothing.


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


# --- subjects and predicates ---


_NEGATES: Final = 4  # words that a negation reaches
_NONE_OF: Final = frozenset(["no", "without", "none", "无", "没有", "zero"])
_BARE: Final = 3  # words of a clause that only names something
_MARKS: Final = 8  # subjects, and predicates, of one clause
_JOINS: Final = frozenset(("and", "or", "和", "或"))
_NAMES: Final = 16  # names of one error that are read
_HOUR_S: Final = 3_600.0
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": _HOUR_S, "d": 86_400.0}
_WAIT: Final = re.compile(
    r"(?:retry|try again|tried again|wait|resets?|refresh\w*|available again)[^\d\n]{0,30}"
    r"(\d{1,9}(?:\.\d{1,9})?) ?(days?|hours?|hrs?|minutes?|mins?|seconds?|secs?|d|h|m|s)(?![a-z])",
    re.IGNORECASE,
)


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


@dataclass(frozen=True, slots=True)
class _Marked:
    """A clause of a sentence, or a ``name``, with its marks."""

    subjects: tuple[_Mark, ...]
    predicates: tuple[_Mark, ...]
    hint: bool = False
    name: str | None = None
    breaks: tuple[int, ...] = ()  # where "and" and "or" stand


class _Lexicon:
    """Phrases by their first word, the longest first."""

    def __init__(self, terms: Iterable[Term], leave_out: frozenset[str]) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self._stems: dict[str, str] = {}
        for term in terms:
            for phrase in term.phrases():
                if " ".join(phrase) not in leave_out:
                    self._add(phrase, term.id)
        for entries in self._phrases.values():
            entries.sort(key=lambda entry: -len(entry[0]))

    def _add(self, phrase: tuple[str, ...], term: str) -> None:
        if phrase[0].endswith("*"):
            self._stems[phrase[0][:-1]] = term
        else:
            self._phrases.setdefault(phrase[0], []).append((phrase, term))

    def words(self) -> frozenset[str]:
        return frozenset(w for list_ in self._phrases.values() for p, _ in list_ for w in p)

    def at(self, words: tuple[str, ...], start: int) -> tuple[str, int] | None:
        """Return the term that starts at a word, and where it ends."""
        for phrase, term in self._phrases.get(words[start], ()):
            end = start + len(phrase)
            if words[start:end] == phrase:
                return term, end
        for stem, term in self._stems.items():
            if words[start].startswith(stem):
                return term, start + 1
        return None


class Grammar:
    """The vocabulary and the table of meanings, ready to read; immutable.

    ``leave_out`` are phrases that are not read: it measures what is understood without the words
    of one provider.
    """

    def __init__(self, *, leave_out: frozenset[str] = frozenset()) -> None:
        self._subjects = _Lexicon(SUBJECTS, leave_out)
        self._predicates = _Lexicon(PREDICATES, leave_out)
        self._negated = frozenset(term.id for term in PREDICATES if term.negated)
        both = self._subjects.words() | self._predicates.words()
        self._known = both | NEGATIONS | ADVICE | CONDITIONS

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
        named = [self._name(name) for name in listed]
        marked = [*self._sentence(message or "", named), *named]
        present = _circumstances(message or "", listed, retry_after_s)
        for clause in marked:
            terms = {mark.term for mark in (*clause.subjects, *clause.predicates)}
            present |= terms & _ADVISED if clause.hint else terms
        said = [clause for clause in marked if clause.name is None and not clause.hint]
        for rank, group in _RANKS.items():
            rows = [row for row in group if _holds(row, present)]
            here = [row for row in rows if row.on is None or status in row.on]
            anywhere = [r for r in rows if r.any_status_named or r.on is None or status in r.on]
            first = _strongest if rank == MONEY else _first
            if found := first(said, here) or first(named, anywhere):
                return found
            if rank == MONEY and status in _PAID:
                hints = [clause for clause in marked if clause.hint]
                if found := _first(hints, [row for row in here if row.subjects & _SURE_MONEY]):
                    return found
        return None

    def names_field(self, message: str) -> bool:
        """Whether a sentence names a field of the request, or a part such as its tool calls."""
        return any(
            FIELD in clause.words or self._names_part(clause.words)
            for clause in clauses(message, self._known)
        )

    def _names_part(self, words: tuple[str, ...]) -> bool:
        found = _scan(self._subjects, words)
        return any(term == "field" and end - start > 1 for term, start, end in found)

    def _sentence(self, message: str, named: Iterable[_Marked]) -> Iterator[_Marked]:
        """Read each clause; a bare "model: x" is told by the predicate of a name."""
        borrowed = tuple(replace(p, start=0, end=0) for name in named for p in name.predicates)
        for clause in clauses(message, self._known):
            marked = self._marked(clause)
            bare = not marked.predicates and 1 < len(clause.words) <= _BARE
            yield replace(marked, predicates=borrowed) if bare else marked

    def _name(self, name: str) -> _Marked:
        return self._marked(Clause(split_name(name)), name)

    def _marked(self, clause: Clause, name: str | None = None) -> _Marked:
        words = clause.words
        subjects = tuple(
            _Mark(term, start, end, oblique=_oblique(words, start))
            for term, start, end in islice(_scan(self._subjects, words), _MARKS)
        )
        predicates = tuple(islice(self._affirmed(words), _MARKS)) + tuple(_lacking(words, subjects))
        breaks = tuple(at for at, word in enumerate(words) if word in _JOINS)
        return _Marked(subjects, predicates, clause.hint, name, breaks)

    def _affirmed(self, words: tuple[str, ...]) -> Iterator[_Mark]:
        """Yield predicates that report a failure: plain ones not negated, others negated."""
        free = 0  # a negation inside an earlier phrase is spent
        for term, start, end in _scan(self._predicates, words):
            if _negated(words, max(free, start - _NEGATES), start) == (term in self._negated):
                yield _Mark(term, start, end)
            if not NEGATIONS.isdisjoint(words[start:end]):
                free = end


_SURE_MONEY: Final = frozenset(("balance", "credits", "billing", "payment"))
_ADVISED: Final = _SURE_MONEY | {"recharge", "overdue", "good_standing"}  # told by advice too
_PAID: Final = frozenset((402, 403))
_RANKS: Final[Mapping[int, tuple[Meaning, ...]]] = {
    rank: tuple(row for row in MEANINGS if row.rank == rank)
    for rank in sorted({row.rank for row in MEANINGS})
}


def _scan(lexicon: _Lexicon, words: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    at = 0
    while at < len(words):
        found = lexicon.at(words, at)
        if found is None:
            at += 1
            continue
        term, end = found
        yield term, at, end
        at = end


def _negated(words: tuple[str, ...], first: int, start: int) -> bool:
    for at in range(start - 1, first - 1, -1):
        if words[at] in ENDS_NEGATION:
            return False
        if words[at] in NEGATIONS:
            return True
    return False


def _oblique(words: tuple[str, ...], start: int) -> bool:
    return not PREPOSITIONS.isdisjoint(words[max(0, start - 2) : start])


def _lacking(words: tuple[str, ...], subjects: Iterable[_Mark]) -> Iterator[_Mark]:
    """Yield the predicate ``no`` before each subject of which there is none."""
    for subject in subjects:
        for at in range(max(0, subject.start - 2), subject.start):
            if words[at] in _NONE_OF:
                yield _Mark("no", at, at + 1)


def _holds(row: Meaning, present: set[str]) -> bool:
    return (not row.beside or not row.beside.isdisjoint(present)) and row.without.isdisjoint(
        present
    )


def _first(marked: Iterable[_Marked], rows: Iterable[Meaning]) -> ErrorReading | None:
    """Return what the first clause says that says something, by the first row that holds."""
    rows = tuple(rows)
    for clause in marked:
        subjects = {mark.term for mark in clause.subjects}
        predicates = {mark.term for mark in clause.predicates}
        for row in rows:
            if row.subjects.isdisjoint(subjects) or row.predicates.isdisjoint(predicates):
                continue
            if pair := _pair(clause, row):
                where = "said" if clause.name is None else "named"
                rule = f"{where}.{row.gives.value}:{pair[0]}+{pair[1]}"
                return ErrorReading(meaning=row, rule=rule, name=clause.name)
    return None


def _strongest(marked: Iterable[_Marked], rows: Iterable[Meaning]) -> ErrorReading | None:
    """Return what any clause says by the first row that holds."""
    every = tuple(marked)
    return next((found for row in rows if (found := _first(every, (row,)))), None)


def _pair(clause: _Marked, row: Meaning) -> tuple[str, str] | None:
    """Return the closest subject and predicate of a row in a clause."""
    if row.also and all(mark.term not in row.also for mark in clause.predicates):
        return None
    best, pair = row.within + 1, None
    for predicate in clause.predicates:
        if predicate.term not in row.predicates:
            continue
        for subject in clause.subjects:
            if subject.term not in row.subjects or (row.direct and subject.oblique):
                continue
            gap = _gap(subject, predicate)
            if gap < best and not (row.nearest and _closer(clause, predicate, gap)):
                best, pair = gap, (subject.term, predicate.term)
    return pair


def _gap(subject: _Mark, predicate: _Mark) -> int:
    return max(predicate.start - subject.end, subject.start - predicate.end, 0)


def _closer(clause: _Marked, predicate: _Mark, gap: int) -> bool:
    """Whether another subject, neither oblique nor behind an "or", is closer to a predicate."""
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
    if any(mark in message for mark in "'\"`"):
        found.add("name")
    return found


def stated_wait(message: str, retry_after_s: float | None) -> float | None:
    """Return the longest wait that is stated, in seconds; None where none is."""
    waits = [float(n) * _UNITS[unit[0].lower()] for n, unit in _WAIT.findall(message[:TEXT_CAP])]
    if retry_after_s is not None:
        waits.append(retry_after_s)
    return max(waits, default=None)


# --- the provider's own words ---


_OPENS: Final = re.compile(r"(?<!\w)['‘]|[\"`“「『《]")
_CLOSES: Final = re.compile(r"['’](?!\w)|[\"`”」』》]")
_ECHO: Final = re.compile(
    rf"\b(?:(?:{'|'.join(sorted(ECHOES))})\s*[:：]|(?:{'|'.join(sorted(ECHOES_PLAIN))})\b)"
)


def own_words(text: str) -> str:
    """Return a message in lower case, without what may be copied from the request.

    That is all between the first and the last quotation mark, since a quotation may hold marks
    itself, and all behind a word such as ``got`` or ``input:``. Blanks are joined.
    """
    text = text[:TEXT_CAP].lower()
    if (opens := _OPENS.search(text)) is not None:
        closes = [mark.end() for mark in _CLOSES.finditer(text, opens.end())]
        text = f"{text[: opens.start()]} {NAME} {text[closes[-1] :] if closes else ''}"
    if (echo := _ECHO.search(text)) is not None:
        text = f"{text[: echo.start()]} {NAME}"
    return " ".join(text.split())
