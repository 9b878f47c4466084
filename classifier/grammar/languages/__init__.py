"""The languages beside English and Chinese in which errors are read."""

from __future__ import annotations

from typing import Final

from classifier.grammar.languages.french import FRENCH
from classifier.grammar.languages.german import GERMAN
from classifier.grammar.languages.japanese import JAPANESE
from classifier.grammar.languages.korean import KOREAN
from classifier.grammar.languages.portuguese import PORTUGUESE
from classifier.grammar.languages.russian import RUSSIAN
from classifier.grammar.languages.spanish import SPANISH

LANGUAGES: Final = (JAPANESE, KOREAN, RUSSIAN, GERMAN, SPANISH, PORTUGUESE, FRENCH)

__all__ = ["LANGUAGES"]
