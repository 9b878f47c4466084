"""The certificate that agents are shown: two files, read at start and again when they change.

They are read in a thread of their own, so that a file system that hangs delays no call.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import ssl
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("truezero")

LOOK_S = 10.0  # between looks at the files
READ_S = 5.0  # that a look takes at most
_NOT_YET, _EXPIRED = 9, 10  # verify codes: X509_V_ERR_CERT_NOT_YET_VALID, …_HAS_EXPIRED
_NO_PAIR = frozenset({"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"})

_Stamp = tuple[tuple[int, int, int], ...]


class CertificateError(ValueError):
    """The files cannot be used; one sentence says why, and which setting names the file."""


class Certificate:
    """A certificate chain and its key, in PEM; who renews them overwrites the files.

    A pair that cannot be used, or not be read in time, is logged, once for each change, and the
    one before it is kept.

    Arguments:
        clock: monotonic seconds.
        read: makes a context of the two files, as `context` does.

    Raises:
        CertificateError: the pair cannot be used at the start.
    """

    def __init__(
        self,
        certfile: str,
        keyfile: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[str, str], ssl.SSLContext] | None = None,
        read_s: float = READ_S,
    ) -> None:
        self._files = certfile, keyfile
        self._clock = clock
        self._read = read or context
        self._read_s = read_s
        self._looked_at = clock()
        self._stamp: _Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._failure: Exception | None = None
        self._said_late = False
        self._look = self._begin_look()
        self._look.join(read_s)
        if self._look.is_alive():
            raise CertificateError(f"certfile: {self._late()}")
        if self._failure is not None:
            raise self._failure

    def __reduce__(self) -> tuple[type[Certificate], tuple[str, str]]:
        """Have another process read the files anew: workers are given the certificate."""
        return Certificate, self._files

    def context(self) -> ssl.SSLContext:
        """Return what a handshake that begins now goes by; a look at the files may begin."""
        now = self._clock()
        if now - self._looked_at >= LOOK_S:
            if not self._look.is_alive():
                self._looked_at, self._said_late = now, False
                self._look = self._begin_look()
            elif not self._said_late:  # no other look begins: each would hang as this one does
                self._said_late = True
                log.error("the certificate is not looked at: %s", self._late())
        assert self._context is not None
        return self._context

    def _begin_look(self) -> threading.Thread:
        look = threading.Thread(target=self._look_at_files, name="certificate", daemon=True)
        look.start()
        return look

    def _late(self) -> str:
        certfile, keyfile = self._files
        return f"{certfile} and {keyfile} could not be read within {self._read_s:g} s"

    def _look_at_files(self) -> None:
        stamp = self._now_stamped()
        if stamp == self._stamp:
            return
        first, self._stamp = self._stamp is None, stamp
        try:
            made = self._read(*self._files)
        except Exception as error:  # a thread that dies would say nothing
            if first:
                self._failure = error
            else:
                log.error("the certificate changed and is not used: %s", error)
            return
        self._context = made
        if not first:
            log.warning("the certificate changed and is used from now on")

    def _now_stamped(self) -> _Stamp:
        try:
            stats = [Path(file).stat() for file in self._files]
        except OSError:  # being replaced, or gone: reading it says why
            return ()
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in stats)


def context(certfile: str, keyfile: str) -> ssl.SSLContext:
    """Return how agents are spoken to: TLS 1.2 or later, HTTP/1.1 only.

    Raises:
        CertificateError: a file cannot be read, is of another kind, the two do not belong
            together, or the certificate is not valid now.
    """
    for setting, file in (("certfile", certfile), ("keyfile", keyfile)):
        try:
            _check_regular(file)
        except OSError as error:
            raise CertificateError(f"{setting}: cannot read {file}: {error.strerror}") from None
    agent = _agent(certfile)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.minimum_version = ssl.TLSVersion.TLSv1_2
    serving.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    serving.set_alpn_protocols(["http/1.1"])
    _load_pair(serving, certfile, keyfile)
    _shake_hands(agent, serving, certfile)
    return serving


def _check_regular(file: str) -> None:
    """Open a file that can be read to its end: a FIFO or a device might keep a reader waiting."""
    opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(opened).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file")
        while os.read(opened, 1 << 16):
            pass
    finally:
        os.close(opened)


def _agent(certfile: str) -> ssl.SSLContext:
    """Return an agent that trusts this certificate alone, whoever signed it."""
    agent = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    agent.check_hostname = False
    agent.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        agent.load_verify_locations(certfile)
    except ssl.SSLError:
        raise CertificateError(f"certfile: {certfile} holds no certificate in PEM") from None
    return agent


def _load_pair(serving: ssl.SSLContext, certfile: str, keyfile: str) -> None:
    encrypted = []

    def passphrase() -> str:
        encrypted.append(keyfile)
        return ""

    try:
        serving.load_cert_chain(certfile, keyfile, passphrase)
    except ssl.SSLError as error:
        if encrypted:
            why = f"keyfile: {keyfile} is encrypted; the service asks nobody for a passphrase"
        elif error.reason in _NO_PAIR:
            why = f"keyfile: {keyfile} is not the key of {certfile}"
        elif error.reason is None or error.reason == "PEM_LIB":
            why = f"keyfile: {keyfile} holds no private key in PEM"
        else:
            why = f"certfile: {certfile} cannot be used: {error.reason.lower().replace('_', ' ')}"
        raise CertificateError(why) from None


def _shake_hands(agent: ssl.SSLContext, serving: ssl.SSLContext, certfile: str) -> None:
    """Have an agent and the service meet in memory; only an agent reads the dates."""
    to_service, to_agent = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = agent.wrap_bio(to_agent, to_service), serving.wrap_bio(to_service, to_agent, True)
    try:
        for _ in range(3):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in (_NOT_YET, _EXPIRED):
            when = "has expired" if error.verify_code == _EXPIRED else "is not valid yet"
            raise CertificateError(f"certfile: {certfile} {when}") from None
    except ssl.SSLError as error:
        raise CertificateError(f"certfile: {certfile} cannot be used: {error.reason}") from None
