"""Sentences for values that are not taken: the value, the nearest name, and what is taken.

They replace pydantic's messages, of which only the error's type, context and input are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

_SHOWN = 40  # characters of a value that a sentence repeats
_CLOSE = 0.6  # difflib's ratio for names that are close


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known name that a misspelt word is closest to; None if none is close."""
    return next(iter(_nearest(word, tuple(known), 1)), None)


def nearest_ones(word: str, known: Collection[str]) -> Sequence[str]:
    """Return up to three known names that a misspelt word is close to, the closest first."""
    return _nearest(word, tuple(known), 3)


@lru_cache(maxsize=64)  # one mistake is made in thousands of registrations
def _nearest(word: str, known: tuple[str, ...], most: int) -> tuple[str, ...]:
    from difflib import get_close_matches  # noqa: PLC0415  for mistakes alone

    written = {name.casefold(): name for name in reversed(known)}
    close = get_close_matches(word.casefold(), written, most, _CLOSE)
    return tuple(written[name] for name in close)


def one_slip(word: str, name: str) -> bool:
    """Return True if one character added, left out or replaced, or two swapped, tell them apart."""
    if word == name or abs(len(word) - len(name)) > 1:
        return False
    at = next((n for n, (a, b) in enumerate(zip(word, name, strict=False)) if a != b), None)
    if at is None:
        return True  # one is the other and a last character
    ours, theirs = word[at:], name[at:]
    swapped = len(ours) > 1 and ours[:2] == theirs[1::-1] and ours[2:] == theirs[2:]
    return swapped or ours[1:] == theirs[1:] or ours[1:] == theirs or ours == theirs[1:]


def other_release(*, service: str, client: str) -> str | None:
    """Return a sentence if a service and a client do not fit; before 1.0 the minor number counts.

    Arguments:
        service, client: their versions.
    """
    if service.split(".")[:2] == client.split(".")[:2]:
        return None
    return (
        f"the service is truezero {service} and the client is truezero {client}: "
        "install the same release on both sides"
    )


def meant(word: str, known: Collection[str], write: Callable[[str], str] = str) -> str:
    """Return ``; did you mean …?`` with the nearest name; empty if none is close.

    Arguments:
        write: returns the name as it is to be given, such as a variable.
    """
    found = nearest(word, known)
    return "" if found is None else f"; did you mean {write(found)}?"


def listed(names: Sequence[str], last: str = "or") -> str:
    """Return ``a, b or c``."""
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final


def unknown(name: str, takes: Collection[str]) -> str:
    """Return the message about a name that is not taken."""
    near = meant(name, takes)
    if not takes:
        return f"unknown{near}"
    return f"unknown{near}{' It' if near else '; it'} takes {', '.join(takes)}"


def shown(value: object) -> str:
    """Return a value as a sentence repeats it; long and structured ones are only described."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float() if len(repr(value)) <= _SHOWN:
            return repr(value)
        case str() if len(value) <= _SHOWN and value.isprintable():
            return repr(value)
    return described(value)


def described(value: object) -> str:
    """Return what kind of value it is, for values that may be secrets."""
    match value:
        case None | bool():
            return shown(value)
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return "something else"


# What a field takes, by the type of pydantic's error: https://docs.pydantic.dev/latest/errors/
_TAKES: Final[Mapping[str, str]] = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "an object",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "int_type": "a whole number",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "list_type": "a list",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_pattern_mismatch": "of the form {pattern}",
    "string_type": "text",
    "string_unicode": "text",
    "tuple_type": "a list",
    "union_tag_invalid": "{expected_tags}",
}
_BOUNDS: Final = {
    "finite_number", "greater_than", "greater_than_equal", "less_than", "less_than_equal",
}  # fmt: skip
_LENGTHS: Final[Mapping[str, tuple[str, str]]] = {
    "string_too_short": ("at least {min_length} character{s}", "min_length"),
    "string_too_long": ("at most {max_length} character{s}", "max_length"),
    "too_short": ("at least {min_length} item{s}", "min_length"),
    "too_long": ("at most {max_length} item{s}", "max_length"),
}


def message(error: Mapping[str, Any], *, takes: Collection[str] = (), secret: bool = False) -> str:
    """Return what is wrong with a field, by an error of pydantic's; the field goes before it.

    Arguments:
        takes: the names that are taken where the field stands, for one that is not known.
        secret: do not repeat the value.
    """
    kind, context, value = error["type"], error.get("ctx", {}), error.get("input")
    told = described(value) if secret else shown(value)
    if kind == "missing":
        return "is required"
    if kind == "none_required":
        return "must be left out"
    if kind == "extra_forbidden":
        return unknown(str(error["loc"][-1]), takes)
    if kind in ("literal_error", "enum"):
        words = _words(context["expected"])
        near = meant(value, words, repr) if isinstance(value, str) and not secret else ""
        return f"must be {listed([repr(word) for word in words])}, not {told}{near}"
    if kind in _LENGTHS:
        length, name = _LENGTHS[kind]
        return f"must have {length.format(**context, s='' if context[name] == 1 else 's')}"
    if kind in _TAKES:
        number = kind in _BOUNDS and not secret  # of a query, it is a text
        return f"must be {_TAKES[kind].format(**context)}, not {value if number else told}"
    if kind in ("value_error", "assertion_error"):
        return str(error["msg"]).partition(", ")[2]
    return f"is not taken: {told}"


def _words(expected: str) -> list[str]:
    """Return the words of a closed choice, from ``'a', 'b' or 'c'``."""
    return [part.strip(" '") for part in expected.replace("' or '", "', '").split("', '")]


def names_at(model: Any, place: Sequence[object]) -> Collection[str]:
    """Return the fields of the model in which a field stands.

    Arguments:
        model: the model of the whole body, or of a query.
        place: the names and numbers that lead to the field, its own the last.
    """
    for part in place[:-1]:
        field = getattr(model, "model_fields", {}).get(part)
        if field is not None:
            model = next(_models(field.annotation), None)
    fields = getattr(model, "model_fields", {})
    return [name for name, field in fields.items() if not field.deprecated]


def _models(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from _models(inner)
