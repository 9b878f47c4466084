"""``python -m benchmarks.tls``: the CPU that TLS on the agents' side adds, in µs.

Agent and service meet in memory, and counted is the CPU time of the service's end alone
(`TlsTransport`, OpenSSL under it), less that of the clock. So no load generator need speak TLS, and
other programs disturb it little. Beside it stands what `benchmarks.run` finds for a whole exchange.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from proxy.features.tls.certificate import context
from proxy.features.tls.protocol import TlsTransport
from tests.fakes.certificates import Authority

HOST = "127.0.0.1"
# What arrives and what is sent, in bytes: an exchange is what `benchmarks.run` sends.
KINDS = {"a 1.5 kB exchange": (900, 600), "a 100 kB request": (100_000, 600), "a chunk": (0, 220)}
_HANDSHAKES = 200


class _Line(asyncio.Transport):
    """A connection whose bytes are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return False


class _Answering(asyncio.Protocol):
    """Answers whatever comes by so many bytes."""

    def __init__(self, transport: TlsTransport, size: int) -> None:
        self._transport, self._answer = transport, b"y" * size

    def data_received(self, data: bytes) -> None:
        del data
        self._transport.write(self._answer)


class _Pair:
    """An agent and the service's end, once hands are shaken; ``handshake_us`` is the latter's."""

    def __init__(self, serving: ssl.SSLContext, trust: ssl.SSLContext, size: int = 0) -> None:
        self._to_service, self._to_agent = ssl.MemoryBIO(), ssl.MemoryBIO()
        sent = ssl.MemoryBIO()
        service = serving.wrap_bio(self._to_service, sent, server_side=True)
        self._agent = trust.wrap_bio(self._to_agent, self._to_service, server_hostname=HOST)
        self.handshake_us = 0.0
        for end in (self._agent, service, self._agent, service):
            with _spent() as us, contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
            self.handshake_us += us() if end is service else 0.0
            self._to_agent.write(sent.read())
        self._line = _Line()
        self._transport = TlsTransport(self._line, service, self._to_service, sent)
        self._transport.set_protocol(_Answering(self._transport, size))
        self._answer = b"y" * size

    def us(self, asked: int) -> float:
        """CPU µs to take so many bytes, if any, and to send an answer."""
        if asked:
            self._agent.write(b"x" * asked)
            received = self._to_service.read()
            with _spent() as us:
                self._transport.take(received)
        else:
            with _spent() as us:
                self._transport.write(self._answer)
        self._to_agent.write(self._line.sent)
        self._line.sent = b""
        with contextlib.suppress(ssl.SSLWantReadError):
            while self._to_agent.pending:
                self._agent.read(1 << 16)
        return us()


@contextlib.contextmanager
def _spent() -> Iterator[Callable[[], float]]:
    """Yield what returns the CPU µs of this thread inside the ``with``, once that is over."""
    ended = 0.0
    began = time.thread_time()
    yield lambda: (ended - began) * 1e6
    ended = time.thread_time()


def _clock_us(times: int = 1000) -> float:
    """CPU µs that `_spent` finds around nothing."""
    found = []
    for _ in range(times):
        with _spent() as us:
            pass
        found.append(us())
    return median(found)


def measure(times: int) -> dict[str, float]:
    """CPU µs of each kind and of a handshake, medians of so many."""
    with tempfile.TemporaryDirectory() as home:
        authority = Authority(Path(home))
        file = str(authority.issue(HOST))
        serving = context(file, file)
        trust = ssl.create_default_context(cafile=str(authority.file))
    clock = _clock_us()
    found = {}
    for kind, (asked, size) in KINDS.items():
        pair = _Pair(serving, trust, size)
        found[kind] = median(pair.us(asked) for _ in range(times)) - clock
    found["a handshake (P-256)"] = median(
        _Pair(serving, trust).handshake_us for _ in range(_HANDSHAKES)
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--times", type=int, default=5000)
    for kind, us in measure(parser.parse_args().times).items():
        print(f"{kind:24}{us:10.2f} µs")


if __name__ == "__main__":
    main()
