"""Find a vocabulary's phrases among the words of a clause; ``épuis*`` is a stem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_BEGINNING: Final = 3  # letters of a stem at least


class Lexicon:
    """Phrases by their first word, those with stems by its first letters; the longest first.

    Arguments:
        entries: each phrase, as its words, with the id of its term.
    """

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
        """Return the words of all phrases without stems."""
        return frozenset(w for list_ in self._phrases.values() for p, _ in list_ for w in p)

    def scan(self, words: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """Yield the terms that words name, each with where it starts and ends."""
        at = 0
        while at < len(words):
            hit = self._at(words, at)
            if hit is None:
                at += 1
                continue
            term, end = hit
            yield term, at, end
            at = end

    def _at(self, words: tuple[str, ...], start: int) -> tuple[str, int] | None:
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
