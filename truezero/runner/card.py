"""Measurement cards in files: make and verify one by the export that it stands on.

Verification is offline: it needs the card, its export, and no service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from classifier.card import (
    CARD,
    Roots,
    Stated,
    card_bytes,
    card_of,
    card_of_batch,
    differences,
)
from classifier.exported_batch import Changed, ExportedBatch
from truezero.audit.files import load_lines
from truezero.audit.runs import AuditError
from truezero.foreign import parse
from truezero.printable import plural

HELD_AS = "measurement_card"  # where a log or a summary holds its card
_V1 = "urn:truezero:measurement-card:v1"
_NAMED = 20  # rollouts in a note


class CardError(AuditError):
    """A file holds no card that this release verifies; the message says why."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The differences that a verification found, and notes on what it could not compare."""

    differences: tuple[str, ...]
    notes: tuple[str, ...]


def card_in(value: Any) -> Any:
    """Return the card that a JSON value is, or that a harness's log or summary holds.

    benchflow's summary has it at its top, the dump of an Inspect log, as earlier releases wrote it,
    in its ``metadata``.
    """
    for holder in (value, value.get("metadata")) if isinstance(value, dict) else ():
        if isinstance(holder, dict) and HELD_AS in holder:
            return holder[HELD_AS]
    return value


def with_digest(card: bytes, export: Iterable[str]) -> bytes:
    """Return a service's card as the lines of the batch's export make it, with their digest.

    Raises:
        ValueError: a line cannot be read or has no canonical form.
    """
    stated = Stated.decode(parse(card)["stated"])
    return card_bytes(card_of(map(parse, export), stated))


def verify(card: Any, export: Path) -> Verified:
    """Verify a card: the export that it names makes the same card again.

    Each final verdict is made again of the rollout's calls, too.

    Arguments:
        card: as JSON has it, or a log or summary that holds it.

    Raises:
        AuditError: the export cannot be read, or the card is none of this form.
    """
    card = card_in(card)
    try:
        stated = Stated.decode(card["stated"])
        kind, named = card["type"], card["roots"]["export"]
        card_bytes(card)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CardError(f"not a measurement card: {error}") from None
    if kind == _V1:
        raise CardError(f"a card of form v1: verify it with truezero {stated.classifier}")
    if kind != CARD:
        raise CardError(f"not a measurement card of this release: {kind}")
    try:
        batch = ExportedBatch.of(load_lines(export, links=True), stated.policy, judged_anew=True)
        again = card_of_batch(batch, stated)
    except ValueError as error:
        return Verified((f"{export}: {error}",), tuple(_of_release(stated)))
    if named is None:
        again["roots"] = Roots().encode()
    changed = [each for each in batch.changed if each.version is None]
    wrong = [*differences(card, again), *map(_told, changed)]
    notes = list(_of_other_rules(batch.changed))
    if named is None:
        notes.append("it names no export: its figures were made again of this one")
    if wrong:
        notes += _of_release(stated)
    return Verified(tuple(wrong), tuple(notes))


def _told(changed: Changed) -> str:
    return f"verdict of {changed.rollout_id}: {changed.facts}"


def _of_other_rules(changed: Sequence[Changed]) -> Iterator[str]:
    """Say which verdicts stand that other rules gave, and these would not."""
    others = [each for each in changed if each.version is not None]
    if others:
        names = ", ".join(each.rollout_id for each in others[:_NAMED])
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield (
            f"the verdicts of {plural(len(others), 'rollout')} stand by the rules that gave them, "
            f"and this release would give others: {names}{more}"
        )


def _of_release(stated: Stated) -> Iterator[str]:
    ours = metadata.version("truezero")
    if stated.classifier != ours:
        yield (
            f"truezero {stated.classifier} made it, and {ours} may count otherwise: verify it "
            f"with {stated.classifier}"
        )
