"""Measurement cards in files: verify one by the export that it stands on.

Verification is offline: it needs the card, its export, and no service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from classifier.card import GONE, Stated, card_bytes, card_of, differences
from truezero.audit.files import load_lines
from truezero.audit.runs import AuditError

HELD_AS = "measurement_card"  # where a log or a summary holds its card


class CardError(AuditError):
    """A file holds no card; the message says why."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The differences that a verification found, and notes on what it did not look at."""

    differences: tuple[str, ...]
    notes: tuple[str, ...]


def card_in(value: Any) -> Any:
    """Return the card that a JSON value is, or that a harness's log or summary holds.

    benchflow's summary has it at its top, the dump of an Inspect log in its ``metadata``.
    """
    for holder in (value, value.get("metadata")) if isinstance(value, dict) else ():
        if isinstance(holder, dict) and HELD_AS in holder:
            return holder[HELD_AS]
    return value


def verify(card: Any, export: Path) -> Verified:
    """Verify a card: its export has the digest that it names, and makes the same card again.

    Arguments:
        card: as JSON has it, or a log or summary that holds it.

    Raises:
        AuditError: the export cannot be read, or the card is none.
    """
    card = card_in(card)
    try:
        stated = Stated.decode(card["stated"])
        old = card["roots"].get("calls") is not None
        card_bytes(card)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CardError(f"not a measurement card: {error}") from None
    try:
        again = card_of(load_lines(export), stated)
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
