"""The connections of a service that has a certificate."""

from __future__ import annotations

from functools import partial

from proxy.feature import settings_of
from proxy.features.tls.certificate import Certificate, CertificateError
from proxy.features.tls.protocol import TlsProtocol
from proxy.features.tls.settings import TlsSettings
from proxy.serving import ConnectionServer, ProtocolOf, ServingPart, StartError


def connections(settings: object) -> ConnectionServer | None:
    """Serve connections by TLS if a certificate is set."""
    files = settings_of(settings, TlsSettings)
    if files.certfile is None or files.keyfile is None:
        return None
    return ConnectionServer(
        scheme="https", protocol=partial(_protocol, certfile=files.certfile, keyfile=files.keyfile)
    )


def _protocol(*, certfile: str, keyfile: str) -> ProtocolOf:
    try:
        return partial(TlsProtocol, certificate=Certificate(certfile, keyfile))
    except CertificateError as error:
        raise StartError(str(error), 2) from None


SERVING = ServingPart(connections=connections)
