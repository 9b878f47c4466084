"""Read errors that no row lists: subjects and predicates, in sentences and in names.

``vocabulary`` has the words, and ``meanings`` says what they mean together. ``clauses`` cuts the
text, ``lexicon`` finds the vocabulary's phrases and stems in it, ``reader`` matches their meanings.
"""

from __future__ import annotations

from typing import Final

from classifier.grammar.reader import ErrorReading, Grammar, own_words, stated_wait

GRAMMAR: Final = Grammar()
"""The whole vocabulary."""

__all__ = ["GRAMMAR", "ErrorReading", "Grammar", "own_words", "stated_wait"]
