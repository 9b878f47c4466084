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

from classifier.grammar.clauses import NAME, NAME_CAP, TEXT_CAP, Clause, Speech, clauses, split_name
from classifier.grammar.language import Language, Tongues, fold
from classifier.grammar.languages import languages
from classifier.grammar.lexicon import Lexicon
from classifier.grammar.meanings import RANKS, Meaning, meanings
from classifier.grammar.vocabulary import FIELD, Term, vocabulary

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


@dataclass(frozen=True, slots=True)
class _Hearing:
    """The words and the habits of the languages of one text."""

    subjects: Lexicon
    predicates: Lexicon
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
            for term, start, end in hearing.subjects.scan(words):
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
            said_of = Lexicon(self._entries(vocabulary().subjects, heard, "subjects"))
            predicates = Lexicon(self._entries(vocabulary().predicates, heard, "predicates"))
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
            for term, start, end in islice(hearing.subjects.scan(words), _MARKS)
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
        for term, start, end in hearing.predicates.scan(words):
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
