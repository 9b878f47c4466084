"""Measurement cards in files: verify one by the export that it stands on.

Verification is offline: it needs the card, its export, and no service.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from classifier.card import GONE, Stated, card_bytes, card_of, differences

HELD_AS = "measurement_card"  # where a log or a summary holds its card


class CardError(Exception):
    """A card or its export cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The differences that a verification found, and notes on what it did not look at."""

    differences: tuple[str, ...]
    notes: tuple[str, ...]


# --- files ---


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        CardError: it cannot be read.
    """
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CardError(f"{path}: not JSON: {error}") from None


def card_in(value: Any) -> Any:
    """Return the card that a JSON value is, or that a harness's log or summary holds.

    benchflow's summary has it at its top, the dump of an Inspect log in its ``metadata``.
    """
    for holder in (value, value.get("metadata")) if isinstance(value, dict) else ():
        if isinstance(holder, dict) and HELD_AS in holder:
            return holder[HELD_AS]
    return value


def export_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Read an export line by line.

    Raises:
        CardError: it cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _object(json.loads(line), f"{path}: line {number}")
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise CardError(f"{path}: {error}") from None


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise CardError(f"{name} is not a JSON object")
    return value


# --- verification ---


def verify(card: Any, export: Path) -> Verified:
    """Verify a card: its export has the digest that it names, and makes the same card again.

    Arguments:
        card: as JSON has it, or a log or summary that holds it.

    Raises:
        CardError: a file cannot be read, or the card is none.
    """
    card = _object(card_in(card), "the card")
    try:
        stated = Stated.decode(card["stated"])
        old = card["roots"].get("calls") is not None
        card_bytes(card)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CardError(f"not a measurement card: {error}") from None
    try:
        again = card_of(export_records(export), stated)
    except ValueError as error:
        wrong = [f"{export}: {error}"]
    else:
        wrong = differences(card, _as_0_2_has_it(again, card) if old else again)
    return Verified(tuple(wrong), tuple(_notes(stated, wrong, old=old)))


def _as_0_2_has_it(again: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, Any]:
    """Take from a card of 0.2 what is not made again: its Merkle root, and a sentence about it."""
    roots = again["roots"] | {name: card["roots"].get(name) for name in GONE}
    return {**again, "roots": roots, "does_not_prove": card.get("does_not_prove")}


def _notes(stated: Stated, wrong: Sequence[str], *, old: bool) -> Iterator[str]:
    if old:
        yield "its signature, if it has one, and the root over its calls are not checked"
    ours = metadata.version("truezero")
    if wrong and stated.classifier != ours:
        yield (
            f"truezero {stated.classifier} judged it, and {ours} may judge otherwise: verify it "
            f"with {stated.classifier}"
        )
