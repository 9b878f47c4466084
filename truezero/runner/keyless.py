"""Keyless signatures of cards, by sigstore's client: a certificate for who signs in, and no key.

Its release 4 is used (`sigstore.sign`, `sigstore.verify`); it is no part of truezero's own extras.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SigningIdentity:
    """The account that a keyless signature is to be by, and whoever vouches for it.

    Such as ``name@example.org`` by ``https://github.com/login/oauth``.
    """

    identity: str
    issuer: str


class KeylessError(Exception):
    """Sigstore's client is missing, or it failed; the message says why."""


def sign_keyless(statement: bytes) -> dict[str, Any]:
    """Sign an in-toto Statement as whoever signs in, or as the CI job that this runs in.

    Asks Fulcio for a certificate and writes the signature into Rekor, which anybody can read.

    Returns:
        The Sigstore bundle, as JSON has it.

    Raises:
        KeylessError: the client is not installed, or could not sign.
    """
    models, oidc, sign, dsse = _client("models", "oidc", "sign", "dsse")
    try:
        trust = models.ClientTrustConfig.production()
        ambient = oidc.detect_credential()
        if ambient is None:
            token = oidc.Issuer(trust.signing_config.get_oidc_url()).identity_token()
        else:
            token = oidc.IdentityToken(ambient)
        with sign.SigningContext.from_trust_config(trust).signer(token) as signer:
            bundle: dict[str, Any] = json.loads(
                signer.sign_dsse(dsse.Statement(statement)).to_json()
            )
            return bundle
    except Exception as error:  # the client's, and those of what it uses
        raise KeylessError(f"sigstore did not sign: {_named(error)}") from error


def verify_keyless(bundle: Mapping[str, Any], signer: SigningIdentity) -> str | None:
    """Verify a Sigstore bundle offline, by the roots that the client brings or has kept.

    Returns:
        What is wrong with it; None if it is signed, logged, and by this account.

    Raises:
        KeylessError: the client is not installed.
    """
    models, verify, policy = _client("models", "verify", "verify.policy")
    wanted = policy.Identity(identity=signer.identity, issuer=signer.issuer)
    try:
        read = models.Bundle.from_json(json.dumps(bundle))
        verify.Verifier.production(offline=True).verify_dsse(read, wanted)
    except Exception as error:
        return _named(error)
    return None


def _client(*names: str) -> list[Any]:
    try:
        return [importlib.import_module(f"sigstore.{name}") for name in names]
    except ModuleNotFoundError as error:
        raise KeylessError(
            f"keyless signatures need sigstore ({error.name} is missing): pip install sigstore"
        ) from None


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
