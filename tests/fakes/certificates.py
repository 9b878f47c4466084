"""Certificates for whoever speaks TLS in a test: sound ones, and each way not to be.

It keeps nothing: keys and certificates are made anew and are gone with their folder.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of one test")])
_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; who trusts ``file`` (``SSL_CERT_FILE``) trusts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = _certificate(_NAME, self._key.public_key(), self._key, days=1)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        own = own.add_extension(_SIGNS, critical=True)
        self.file = folder / "authority.pem"
        self.file.write_bytes(own.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def serving(self, host: str, *, days: int = 1) -> ssl.SSLContext:
        """For a server at this IP address; negative ``days``: it expired so long ago."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.issue(host, days=days))
        return context

    def issue(self, host: str, *, days: int = 1) -> Path:
        """Make a file of a key and its certificate; its last 30 days end in ``days``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        made = _certificate(name, key.public_key(), self._key, days=days)
        address = x509.IPAddress(ipaddress.ip_address(host))
        signed = made.add_extension(x509.SubjectAlternativeName([address]), critical=False).sign(
            self._key, SHA256()
        )
        whole = self._folder / f"{signed.serial_number}.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        whole.write_bytes(secret + signed.public_bytes(Encoding.PEM))
        return whole


_SIGNS = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
    encipher_only=False, decipher_only=False,
)  # fmt: skip


def _certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    by: ec.EllipticCurvePrivateKey,
    *,
    days: int,
) -> x509.CertificateBuilder:
    ends = datetime.datetime.now(datetime.UTC) + days * _DAY
    signer = by.public_key()
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(_NAME).public_key(key)
    return (
        builder.serial_number(x509.random_serial_number())
        .not_valid_before(ends - 30 * _DAY)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )
