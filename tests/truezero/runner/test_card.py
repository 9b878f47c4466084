"""A card is verified by its export, wherever a harness put it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from classifier.card import Roots, card_bytes, card_of
from classifier.exported_batch import COUNTED
from tests.classifier.test_card import STATED, Records, export, nightly
from truezero.integrations.cards import CARD_KEY
from truezero.runner.card import HELD_AS, CardError, Verified, verify, with_digest


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


def test_a_card_of_the_form_before_names_the_release_to_verify_it_with(
    card: dict[str, Any], file: Path
) -> None:
    before = {**card, "type": card["type"].replace("v2", "v1")}
    with pytest.raises(CardError, match=f"form v1: verify it with truezero {STATED.classifier}$"):
        verify(before, file)
    with pytest.raises(CardError, match="of this release: urn:another"):
        verify({**card, "type": "urn:another"}, file)


def test_a_card_that_names_no_export_is_made_again_of_one(card: dict[str, Any], file: Path) -> None:
    unread = {**card, "roots": Roots().encode()}
    (note,) = verify(unread, file).notes
    assert verify(unread, file).differences == ()
    assert note == "it names no export: its figures were made again of this one"
    forged = {**unread, "roots": {**unread["roots"], "request_ids": 1}}
    assert verify(forged, file).differences == (
        "roots.request_ids: 1 on the card, null by the export",
    )


def test_a_digest_is_added_by_the_export(
    card: dict[str, Any], records: Records, file: Path
) -> None:
    served = card_bytes({**card, "roots": Roots().encode()})
    assert with_digest(served, file.read_text().splitlines()) == card_bytes(card)


def test_a_verdict_that_its_calls_do_not_give_is_a_difference(records: Records, file: Path) -> None:
    """A forger who changes the export, and makes the card of it, is found all the same."""
    forged = json.loads(json.dumps(records))
    (lost,) = (each for each in forged if each.get("id") == "one-1-0" and COUNTED in each)
    lost[COUNTED] |= {"health": "healthy", "scoreable": "yes", "diagnostics": {}}
    file.write_text("".join(json.dumps(record) + "\n" for record in forged))
    card = card_of(forged, STATED)
    (line,) = verify(card, file).differences
    assert line.startswith('verdict of one-1-0: health "healthy" in the export, "api_error" by')


def test_a_verdict_of_other_rules_stands_and_is_noted(records: Records, file: Path) -> None:
    older = json.loads(json.dumps(records))
    for each in older:
        if each.get("id") in ("one-1-0", "two-1-0") and COUNTED in each:
            each[COUNTED] |= {"health": "healthy", "scoreable": "yes", "classifier": "1"}
    file.write_text("".join(json.dumps(record) + "\n" for record in older))
    verified = verify(card_of(older, STATED), file)
    assert verified.differences == ()
    (note,) = verified.notes
    assert note.startswith("the verdicts of 2 rollouts stand by the rules that gave them")
    assert note.endswith(": one-1-0, two-1-0")


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
