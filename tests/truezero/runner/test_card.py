"""A card is verified by its export, wherever a harness put it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from classifier.card import card_bytes, card_of
from tests.classifier.test_card import STATED, Records, export, nightly
from truezero.integrations.cards import CARD_KEY
from truezero.runner.card import HELD_AS, CardError, Verified, verify

ROOT = {"calls": "6c" * 32, "leaves": 15}
# What a card of 0.2 said of the calls.
DISCLOSED = "that the calls took place, unless leaves are disclosed and the provider confirms them"


@pytest.fixture(scope="module")
def records() -> Records:
    return export(nightly())


@pytest.fixture(scope="module")
def card(records: Records) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(card_bytes(card_of(records, STATED)))
    return read


@pytest.fixture
def file(records: Records, tmp_path: Path) -> Path:
    path = tmp_path / "export.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_card_holds_by_its_export(card: dict[str, Any], file: Path) -> None:
    assert verify(card, file) == Verified((), ())


def test_a_card_is_verified_where_a_harness_put_it(card: dict[str, Any], file: Path) -> None:
    assert HELD_AS == CARD_KEY
    edited = {**card, "roots": {**card["roots"], "request_ids": 1}}
    for held in ({"total": 3, HELD_AS: card}, {"eval": {}, "metadata": {"x": 1, HELD_AS: card}}):
        assert verify(held, file).differences == ()
        forged = json.loads(json.dumps(held).replace(json.dumps(card), json.dumps(edited)))
        assert forged != held
        assert verify(forged, file).differences


def test_a_card_of_another_release_that_differs_names_the_release_to_verify_it_with(
    card: dict[str, Any], file: Path
) -> None:
    verified = verify({**card, "measured": {**card["measured"], "valid": True}}, file)
    assert verified.differences == ("measured.valid: true on the card, false by the export",)
    (note,) = verified.notes
    assert note.endswith(f"verify it with {STATED.classifier}")


@pytest.fixture
def old_card(card: dict[str, Any]) -> dict[str, Any]:
    """As 0.2 made it: with the Merkle root over its calls."""
    said = [*card["does_not_prove"][:-1], DISCLOSED]
    return {**card, "roots": {**card["roots"], **ROOT}, "does_not_prove": said}


def test_a_card_of_0_2_holds_by_its_export_and_its_signature_is_said_not_to_be_checked(
    old_card: dict[str, Any], file: Path
) -> None:
    unchecked = "its signature, if it has one, and the root over its calls are not checked"
    assert verify(old_card, file) == Verified((), (unchecked,))


def test_an_edit_of_a_card_of_0_2_is_found(old_card: dict[str, Any], file: Path) -> None:
    old_card["measured"] = {**old_card["measured"], "valid": True}
    assert verify(old_card, file).differences == (
        "measured.valid: true on the card, false by the export",
    )
    file.write_text(file.read_text().replace('"reward": 0.0', '"reward": 1.0', 1))
    assert any(line.startswith("roots.export: ") for line in verify(old_card, file).differences)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"stated": 1}', "null", '{"stated": {}}', '{"payload": "e30="}'],
)
def test_what_is_no_card_is_said_to_be_none(text: str, file: Path) -> None:
    with pytest.raises(CardError, match="card"):
        verify(json.loads(text), file)


@pytest.mark.parametrize("roots", [None, 1, []])
def test_a_card_without_roots_is_none(roots: object, card: dict[str, Any], file: Path) -> None:
    with pytest.raises(CardError, match="not a measurement card"):
        verify({**card, "roots": roots}, file)
