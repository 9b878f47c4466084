"""A card that is signed without a key: sigstore's client is played, with its names and a P-256 key.

Its services cannot be reached here. The bundle is as release 4 of the client writes it, but that
a bare key stands for the certificate.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from classifier.card import card_bytes, card_of
from tests.classifier.test_card import STATED, export, nightly
from truezero.cli import app
from truezero.runner.card import _pre_authentication, statement_bytes, verify
from truezero.runner.keyless import SigningIdentity, sign_keyless

ME = SigningIdentity("me@example.org", "https://github.com/login/oauth")
CARD: dict[str, Any] = json.loads(card_bytes(card_of(export(nightly()), STATED)))


def signed(payload: bytes) -> dict[str, Any]:
    key = generate_private_key(SECP256R1())
    signature = key.sign(_pre_authentication(payload), ECDSA(SHA256()))
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": "application/vnd.in-toto+json",
        "signatures": [{"sig": base64.b64encode(signature).decode()}],
    }
    return {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": base64.b64encode(public).decode()},
        "dsseEnvelope": envelope,
    }


class PlayedVerifier:
    """Checks the envelope's signature and the account, as the client does; there is no log."""

    @classmethod
    def production(cls, *, offline: bool) -> PlayedVerifier:
        assert offline, "a card is verified without a network"
        return cls()

    def verify_dsse(self, bundle: dict[str, Any], wanted: SigningIdentity) -> None:
        if wanted != ME:
            raise ValueError("Certificate's SANs do not match")
        key = load_der_public_key(base64.b64decode(bundle["verificationMaterial"]["publicKey"]))
        assert isinstance(key, EllipticCurvePublicKey)
        envelope = bundle["dsseEnvelope"]
        payload = base64.b64decode(envelope["payload"])
        for each in envelope["signatures"]:
            signature = base64.b64decode(each["sig"])
            key.verify(signature, _pre_authentication(payload), ECDSA(SHA256()))


@contextmanager
def signer(_: object) -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(
        sign_dsse=lambda payload: SimpleNamespace(to_json=lambda: json.dumps(signed(payload)))
    )


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, dict[str, Any]] = {
        "models": {
            "ClientTrustConfig": SimpleNamespace(production=lambda: None),
            "Bundle": SimpleNamespace(from_json=json.loads),
        },
        "oidc": {"detect_credential": lambda: "token", "IdentityToken": str},
        "sign": {
            "SigningContext": SimpleNamespace(
                from_trust_config=lambda _: SimpleNamespace(signer=signer)
            )
        },
        "dsse": {"Statement": bytes},
        "verify": {"Verifier": PlayedVerifier},
        "verify.policy": {"Identity": SigningIdentity},
    }
    monkeypatch.setitem(sys.modules, "sigstore", ModuleType("sigstore"))
    for name, members in modules.items():
        module = ModuleType(f"sigstore.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, f"sigstore.{name}", module)


def wrong(bundle: Any, by: SigningIdentity | None = ME, card: Any = CARD) -> tuple[str, ...]:
    (part,) = verify(card, envelope=bundle, signer=by)
    assert part.part == "signature"
    return part.wrong


@pytest.mark.usefixtures("client")
def test_a_bundle_holds_for_its_card_and_its_account() -> None:
    bundle = sign_keyless(statement_bytes(CARD))
    assert wrong(bundle) == ()
    (line,) = wrong(bundle, SigningIdentity("else@example.org", ME.issuer))
    assert line == "the signature does not hold: ValueError: Certificate's SANs do not match"
    assert wrong(bundle, None), "unchecked is not verified"


@pytest.mark.usefixtures("client")
def test_a_bundle_of_another_card_names_what_differs() -> None:
    bundle = sign_keyless(statement_bytes(CARD))
    better = json.loads(json.dumps(CARD).replace('"score": 0.666667', '"score": 0.9'))
    assert better != CARD
    lines = wrong(bundle, card=better)
    assert any("predicate.measured.score.score" in line for line in lines)
    forged = sign_keyless(statement_bytes(better))
    forged["dsseEnvelope"]["payload"] = bundle["dsseEnvelope"]["payload"]
    assert wrong(forged) == (f"the signature does not hold: {InvalidSignature.__name__}",)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("content", [{}, {"payload": "e30=", "payloadType": "x", "signatures": []}])
def test_what_is_no_bundle_of_a_card_is_said_to_be_none(content: dict[str, Any]) -> None:
    assert wrong({**signed(b""), "dsseEnvelope": content})[0].startswith("not a DSSE envelope")


# --- on the command line -------------------------------------------------------------------------


def verified(folder: Path, *words: str) -> Result:
    (folder / "card.json").write_text(json.dumps(CARD))
    (folder / "card.json.sigstore.json").write_text(json.dumps(signed(statement_bytes(CARD))))
    return CliRunner().invoke(app, ["card", "verify", str(folder / "card.json"), *words])


@pytest.mark.usefixtures("client")
def test_the_command_verifies_the_bundle_beside_a_card(tmp_path: Path) -> None:
    words = ("--identity", ME.identity, "--issuer", ME.issuer)
    done = verified(tmp_path, *words)
    assert (done.exit_code, done.stdout) == (0, "signature: holds\n"), done.output


def test_without_the_client_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sigstore", None)
    done = verified(tmp_path, "--identity", ME.identity, "--issuer", ME.issuer)
    assert done.exit_code == 2
    assert "keyless signatures need sigstore" in done.output
    assert "pip install sigstore" in done.output


def test_an_account_is_named_with_whoever_vouches_for_it(tmp_path: Path) -> None:
    done = verified(tmp_path, "--identity", ME.identity)
    assert done.exit_code == 2
    assert "--identity and --issuer are given together" in done.output
    unnamed = CliRunner().invoke(app, ["card", "b", "--sigstore"])
    assert unnamed.exit_code == 2
    assert "--sigstore signs a file: name one with --json" in unnamed.output
