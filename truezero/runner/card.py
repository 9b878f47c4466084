"""Measurement cards in files: sign one, and verify one with what was published beside it.

Verification is offline: it needs the card, the export it was made of, and no service.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from classifier.card import CARD, Stated, card_bytes, card_of, differences, disclosed_wrongly
from truezero.runner.keyless import KeylessError, SigningIdentity, verify_keyless

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

HELD_AS = "measurement_card"  # where a log or a summary holds its card
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PAYLOAD = "application/vnd.in-toto+json"
_PROGRESS_EVERY = 1000  # records of an export


class CardError(Exception):
    """A card, a key or what belongs to a card cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One part of a verification: what was looked at, and what is wrong with it."""

    part: str
    wrong: tuple[str, ...]


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


def verify(
    card: Any,
    *,
    export: Path | None = None,
    disclosure: Any = None,
    envelope: Any = None,
    key: Ed25519PublicKey | None = None,
    signer: SigningIdentity | None = None,
    progress: Callable[[int], object] = lambda count: None,
) -> list[Checked]:
    """Verify a card against what was published beside it.

    Arguments:
        card: as JSON has it, or a log or summary that holds it.
        export: file of the batch's export; the card is made again of it.
        disclosure: of some of its calls.
        envelope: its signature: a DSSE envelope, checked by ``key``, or a Sigstore bundle that is
            to be ``signer``'s.
        progress: told now and then how many records of the export were read.

    Raises:
        CardError: a file cannot be read, or the card is none.
    """
    card = _object(card_in(card), "the card")
    try:
        stated = Stated.decode(card["stated"])
        card_bytes(card)
    except (KeyError, TypeError, ValueError) as error:
        raise CardError(f"not a measurement card: {error}") from None
    parts: list[Checked] = []
    if export is not None:
        parts.append(Checked("export", tuple(_against(export, card, stated, progress))))
    if disclosure is not None:
        wrong = disclosed_wrongly(_object(disclosure, "the disclosure"), card)
        parts.append(Checked("disclosure", tuple(wrong)))
    if isinstance(envelope, dict) and _IN_BUNDLE in envelope:
        parts.append(Checked("signature", tuple(_bundled_wrongly(envelope, card, signer))))
    elif envelope is not None:
        parts.append(Checked("signature", tuple(_signed_wrongly(envelope, card, key))))
    return parts


def _against(
    export: Path, card: Mapping[str, Any], stated: Stated, progress: Callable[[int], object]
) -> list[str]:
    try:
        return differences(card, card_of(_counted(export_records(export), progress), stated))
    except ValueError as error:
        return [f"{export}: {error}"]


def _counted(
    records: Iterable[Mapping[str, Any]], progress: Callable[[int], object]
) -> Iterator[Mapping[str, Any]]:
    for count, record in enumerate(records, 1):
        if count % _PROGRESS_EVERY == 0:
            progress(count)
        yield record


# --- signature: DSSE (github.com/secure-systems-lab/dsse) over an in-toto Statement v1 ---


def statement(card: Mapping[str, Any], *, predicate: str = CARD) -> dict[str, Any]:
    """Return the in-toto Statement of a card; its subject is the batch's export.

    Arguments:
        predicate: the card itself, or in-toto's ``test-result``, which says less of it.
    """
    roots = card["roots"]
    return {
        "_type": _STATEMENT,
        "subject": [{"name": card["stated"]["batch"], "digest": {"sha256": roots["export"]}}],
        "predicateType": predicate,
        "predicate": _test_result(card) if predicate == TEST_RESULT else dict(card),
    }


def statement_bytes(card: Mapping[str, Any]) -> bytes:
    """Return the canonical bytes of a card's statement, which are signed."""
    return card_bytes(statement(card))


def _test_result(card: Mapping[str, Any]) -> dict[str, Any]:
    """Map a card to in-toto's test-result v0.1: a test for validity and one for each check."""
    measured = card["measured"]
    levels = measured["validity"]
    failed = sorted(check for check, found in levels.items() if "invalid" in found)
    warned = sorted(check for check in levels if check not in failed and "suspect" in levels[check])
    sound = measured["valid"]
    result = "FAILED" if not sound else "WARNED" if failed or warned else "PASSED"
    configuration = [{"name": "measurement-card", "digest": {"sha256": _digest(card)}}]
    return {
        "result": result,
        "configuration": configuration,
        "passedTests": ["valid"] if sound else [],
        "warnedTests": warned,
        "failedTests": [*failed, *([] if sound else ["valid"])],
    }


def _digest(card: Mapping[str, Any]) -> str:
    return sha256(card_bytes(card)).hexdigest()


def _pre_authentication(payload: bytes) -> bytes:
    return b"DSSEv1 %d %b %d %b" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def sign(statement: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Sign a statement; returns its DSSE envelope."""
    payload = card_bytes(statement)
    signature = key.sign(_pre_authentication(payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD,
        "signatures": [
            {"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}
        ],
    }


def _content_wrongly(envelope: Any, card: Mapping[str, Any]) -> Iterator[str]:
    """Name what an envelope signs other than the card; its signatures are not checked."""
    try:
        signed = json.loads(_decoded(envelope["payload"]))
        kind, predicate = envelope["payloadType"], signed["predicateType"]
        expected = statement(card, predicate=predicate)
        _ = [_decoded(each["sig"]) for each in envelope["signatures"]]
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        yield f"not a DSSE envelope of a card: {error}"
        return
    if kind != _PAYLOAD or predicate not in (CARD, TEST_RESULT):
        yield f"signs something else: {kind}, {predicate}"
        return
    yield from (f"what was signed differs: {line}" for line in differences(signed, expected))


def _signed_wrongly(
    envelope: Any, card: Mapping[str, Any], key: Ed25519PublicKey | None
) -> Iterator[str]:
    wrong = list(_content_wrongly(envelope, card))
    yield from wrong
    if wrong and not wrong[0].startswith("what was signed differs"):
        return
    payload, signatures = _decoded(envelope["payload"]), envelope["signatures"]
    texts = [_decoded(each["sig"]) for each in signatures]
    if set(envelope) != {"payload", "payloadType", "signatures"} or not texts:
        yield "not a DSSE envelope of a card: other fields, or no signature"
    if key is None:
        yield "no public key is given to check the signature by"
        return
    for each, text in zip(signatures, texts, strict=True):
        if set(each) != {"keyid", "sig"} or each["keyid"] != key_id(key):
            yield f"signed by another key: {each.get('keyid')}"
        elif not _is_by(key, text, _pre_authentication(payload)):
            yield "the signature does not match"


_IN_BUNDLE = "dsseEnvelope"


def _bundled_wrongly(
    bundle: Mapping[str, Any], card: Mapping[str, Any], signer: SigningIdentity | None
) -> Iterator[str]:
    """Name what is wrong with a Sigstore bundle: by the card, and by sigstore's client."""
    yield from _content_wrongly(bundle[_IN_BUNDLE], card)
    if signer is None:
        yield "no account is given that it is to be signed by"
        return
    try:
        wrong = verify_keyless(bundle, signer)
    except KeylessError as error:
        raise CardError(str(error)) from None
    if wrong is not None:
        yield f"the signature does not hold: {wrong}"


def _decoded(text: str) -> bytes:
    """Decode base64; several texts may stand for the same bytes, and one of them is taken."""
    content = base64.b64decode(text, validate=True)
    if base64.b64encode(content).decode() != text:
        raise ValueError("base64 with stray bits")
    return content


def _is_by(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  an extra

    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


# --- keys ---


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a public key: SHA-256 of its DER form, in hex."""
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415  an extra

    der = key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).hexdigest()


def private_key(path: Path, *, make: bool = False) -> Ed25519PrivateKey:
    """Read a private key in PEM; make one, readable by its owner alone, if there is none.

    Raises:
        CardError: there is no key, it is another kind of key, or `cryptography` is missing.
    """
    form, ed25519 = _cryptography()
    if make and not path.exists():
        key = ed25519.Ed25519PrivateKey.generate()
        pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        _write_private(path, pem)
    try:
        read = form.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError):
        raise CardError(f"{path}: not an unencrypted private key in PEM") from None
    if not isinstance(read, ed25519.Ed25519PrivateKey):
        raise CardError(f"{path}: not an Ed25519 key")
    return cast("Ed25519PrivateKey", read)


def public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key in PEM.

    Raises:
        CardError: there is no key, it is another kind of key, or `cryptography` is missing.
    """
    form, ed25519 = _cryptography()
    try:
        read = form.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise CardError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise CardError(f"{path}: not a public key in PEM") from None
    if not isinstance(read, ed25519.Ed25519PublicKey):
        raise CardError(f"{path}: not an Ed25519 key")
    return cast("Ed25519PublicKey", read)


def public_pem(key: Ed25519PublicKey) -> str:
    """Return a public key in PEM."""
    form, _ = _cryptography()
    pem: bytes = key.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  an extra
        from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415
    except ModuleNotFoundError:
        raise CardError("signing needs cryptography: pip install 'truezero[signing]'") from None
    return serialization, ed25519


def _write_private(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(content)
    except OSError as error:
        raise CardError(f"cannot write {path}: {error.strerror}") from None
