"""A card's signature is DSSE's, and whatever is edited of card or signature is found."""

from __future__ import annotations

import base64
import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from classifier.card import CARD, card_bytes, card_of, disclosure_of
from tests.classifier.test_card import STATED, Records, edited, export, nightly, places
from truezero.integrations.cards import CARD_KEY
from truezero.runner.card import (
    HELD_AS,
    TEST_RESULT,
    CardError,
    Checked,
    _pre_authentication,
    private_key,
    public_key,
    public_pem,
    sign,
    statement,
    verify,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


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


def wrong(parts: list[Checked]) -> dict[str, tuple[str, ...]]:
    return {part.part: part.wrong for part in parts}


def test_what_was_published_together_holds(
    card: dict[str, Any], records: Records, file: Path
) -> None:
    parts = verify(
        card,
        export=file,
        disclosure=disclosure_of(records, "nightly", seed="board", leaves=3),
        envelope=sign(statement(card), KEY),
        key=KEY.public_key(),
    )
    assert wrong(parts) == {"export": (), "disclosure": (), "signature": ()}


def test_a_card_is_verified_where_a_harness_put_it(card: dict[str, Any], file: Path) -> None:
    assert HELD_AS == CARD_KEY
    for held in ({"total": 3, HELD_AS: card}, {"eval": {}, "metadata": {"x": 1, HELD_AS: card}}):
        assert wrong(verify(held, export=file)) == {"export": ()}
        edited_card = {**card, "roots": {**card["roots"], "leaves": 1}}
        forged = json.loads(json.dumps(held).replace(json.dumps(card), json.dumps(edited_card)))
        assert forged != held
        assert wrong(verify(forged, export=file))["export"]


def test_the_bytes_that_are_signed_are_those_of_dsse() -> None:
    """The example of the protocol's own text (DSSE v1, "SIGNATURE DEFINITION")."""
    assert _pre_authentication(b"hello") == b"DSSEv1 28 application/vnd.in-toto+json 5 hello"


def test_a_statement_names_the_export_as_its_subject(card: dict[str, Any]) -> None:
    made = statement(card)
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    digest = {"sha256": card["roots"]["export"]}
    assert made["subject"] == [{"name": "nightly", "digest": digest}]
    assert (made["predicateType"], made["predicate"]) == (CARD, card)


def test_a_card_is_a_test_result_as_in_toto_has_them(card: dict[str, Any]) -> None:
    predicate = statement(card, predicate=TEST_RESULT)["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["failedTests"] == ["valid"]
    sound = {**card, "measured": {**card["measured"], "valid": True}}
    assert statement(sound, predicate=TEST_RESULT)["predicate"]["result"] == "PASSED"
    checks = {"output_truncated": {"suspect": 1}, "judge_failed": {"info": 1}}
    doubtful = {**sound, "measured": {**sound["measured"], "validity": checks}}
    said = statement(doubtful, predicate=TEST_RESULT)["predicate"]
    assert (said["result"], said["warnedTests"]) == ("WARNED", ["output_truncated"])


@pytest.mark.parametrize("predicate", [CARD, TEST_RESULT])
@pytest.mark.parametrize("seed", range(50))
def test_an_edit_of_a_signature_is_found(seed: int, predicate: str, card: dict[str, Any]) -> None:
    rnd = random.Random(seed)
    envelope = sign(statement(card, predicate=predicate), KEY)
    path = rnd.choice(list(places(envelope)))
    forged = edited(envelope, path, rnd)
    parts = verify(card, envelope=forged, key=KEY.public_key())
    assert wrong(parts)["signature"], path


@pytest.mark.parametrize("seed", range(50))
def test_an_edit_of_a_signed_card_is_found(seed: int, card: dict[str, Any]) -> None:
    """Also of what it states, which nobody can compute again."""
    rnd = random.Random(seed)
    envelope = sign(statement(card), KEY)
    path = rnd.choice(list(places(card)))
    try:
        parts = verify(edited(card, path, rnd), envelope=envelope, key=KEY.public_key())
    except CardError:
        return
    assert wrong(parts)["signature"], path


def test_a_forged_batch_is_a_card_of_itself_and_not_of_the_signed_one(
    card: dict[str, Any],
) -> None:
    better = [r for r in nightly() if r.outcome and r.outcome.rewards == {"reward": 1.0}]
    forged = json.loads(card_bytes(card_of(export(better), STATED)))
    assert forged["measured"]["score"]["score"] == 1.0
    envelope = sign(statement(card), KEY)
    parts = verify(forged, envelope=envelope, key=KEY.public_key())
    assert any("measured.score.score" in line for line in wrong(parts)["signature"])


def test_another_key_does_not_vouch_for_it(card: dict[str, Any]) -> None:
    other = Ed25519PrivateKey.generate()
    envelope = sign(statement(card), other)
    (problem,) = wrong(verify(card, envelope=envelope, key=KEY.public_key()))["signature"]
    assert problem.startswith("signed by another key")
    envelope["signatures"][0]["keyid"] = sign(statement(card), KEY)["signatures"][0]["keyid"]
    assert wrong(verify(card, envelope=envelope, key=KEY.public_key())) == {
        "signature": ("the signature does not match",)
    }
    assert wrong(verify(card, envelope=envelope))["signature"], "unchecked is not verified"


def test_stray_bits_of_base64_are_no_second_signature(card: dict[str, Any]) -> None:
    envelope = sign(statement(card), KEY)
    text = envelope["signatures"][0]["sig"]
    assert text.endswith("==")
    last = text[-3]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    stray = text[:-3] + letters[letters.index(last) ^ 1] + "=="
    assert base64.b64decode(stray) == base64.b64decode(text)
    envelope["signatures"][0]["sig"] = stray
    assert wrong(verify(card, envelope=envelope, key=KEY.public_key()))["signature"]


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "card.pem"
    key = private_key(path, make=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert private_key(path, make=True).private_bytes_raw() == key.private_bytes_raw()
    public = tmp_path / "card.pub"
    public.write_text(public_pem(key.public_key()))
    assert public_key(public).public_bytes_raw() == key.public_key().public_bytes_raw()


@pytest.mark.parametrize("content", [b"", b"-----BEGIN PRIVATE KEY-----\n", b"\xff\x00"])
def test_what_is_no_key_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    for read in (private_key, public_key):
        with pytest.raises(CardError, match="key in PEM"):
            read(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"stated": 1}', "nothing", '{"stated": {}}'])
def test_what_is_no_card_is_said_to_be_none(text: str) -> None:
    with pytest.raises(CardError):
        verify(json.loads(text) if text != "nothing" else None)
