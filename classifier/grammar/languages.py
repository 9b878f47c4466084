"""The languages beside English and Chinese in which errors are read: one file each."""

from __future__ import annotations

from functools import cache
from typing import Final

from classifier.grammar.language import Language
from classifier.tables import Read, Schema, fields, needed, shipped, text, texts

FILES: Final = ("japanese", "korean", "russian", "german", "spanish", "portuguese", "french")


def _letters(value: object) -> dict[int, str]:
    try:
        return str.maketrans(dict(texts(value)))
    except ValueError:
        raise ValueError("not a table of single letters and how else they are spelt") from None


_SCHEMA: Final[Schema] = {
    **dict.fromkeys(Language.__annotations__, text),
    "subjects": texts,
    "predicates": texts,
    "respelled": _letters,
}


def read_language(name: str, read: Read = shipped) -> Language:
    """Read the words of one language.

    Raises:
        ValueError: one sentence with the file and the key of what is not valid.
    """
    file = f"languages/{name}.toml"
    try:
        values = fields(read(file), _SCHEMA)
        needed(values, "code", "source", "subjects", "predicates")
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return Language(**values)


@cache
def languages() -> tuple[Language, ...]:
    """Return the languages, read when they are first needed."""
    return tuple(read_language(name) for name in FILES)
