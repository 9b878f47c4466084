"""Fixtures of the outbound tests: both event loops, a certificate, no forward proxies."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from proxy.outbound.transport import Http1Transport

_SUBJECT = ("-subj", "/CN=localhost")
_NAMES = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1")
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Every test here runs on both loops."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks by `tests.fakes.asking` derives a reader of its own: from nothing compiled."""
    here = Path(__file__).parent
    for item in items:
        asks = isinstance(item, pytest.Function) and hasattr(item.module, "fetch")
        if asks and item.path.is_relative_to(here):
            item.add_marker("reaches_in")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def transport() -> AsyncIterator[Http1Transport]:
    async with Http1Transport() as running:
        yield running


@dataclass(frozen=True)
class Certificate:
    """A certificate that nobody but its own issuer vouches for."""

    file: Path
    key: Path

    def served(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context

    def trusted(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.file)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    home = tmp_path_factory.mktemp("tls")
    made = Certificate(file=home / "cert.pem", key=home / "key.pem")
    files = ("-keyout", str(made.key), "-out", str(made.file))
    command = ("openssl", "req", "-x509", "-nodes", "-days", "2", *_CURVE, *_SUBJECT, *_NAMES)
    subprocess.run((*command, *files), check=True, capture_output=True)
    return made
