"""Read errors that no row lists: subjects and predicates, in sentences and in names.

``vocabulary`` has the words, ``meanings`` says what they mean together, ``reader`` cuts the text
into clauses and matches them.
"""

from __future__ import annotations

from typing import Final

from classifier.grammar.reader import ErrorReading, Grammar, own_words, stated_wait

GRAMMAR: Final = Grammar()
"""The whole vocabulary."""

__all__ = ["GRAMMAR", "ErrorReading", "Grammar", "own_words", "stated_wait"]
