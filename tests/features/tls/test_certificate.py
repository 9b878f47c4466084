"""The certificate that agents are shown: which files are one, and when they are read again."""
# ruff: noqa: SLF001
# Private: the thread that looks at the file is waited for.

from __future__ import annotations

import os
import ssl
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from proxy.features.tls.certificate import LOOK_S, Certificate, CertificateError, context
from tests.fakes.certificates import Authority

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_each_way_not_to_be_a_certificate_is_one_sentence(
    authority: Authority, tmp_path: Path
) -> None:
    sound, other = str(authority.issue(HOST)), str(authority.issue(HOST))
    missing, empty = str(tmp_path / "no.pem"), str(tmp_path / "empty.pem")
    fifo = str(tmp_path / "fifo.pem")
    os.mkfifo(fifo)
    Path(empty).write_text("not PEM\n")
    key = load_pem_private_key(Path(sound).read_bytes(), None)
    encrypted, weak = tmp_path / "encrypted.pem", tmp_path / "rsa.pem"
    locked = BestAvailableEncryption(b"secret")
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    another = rsa.generate_private_key(65537, 2048)
    weak.write_bytes(another.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    expired = str(authority.issue(HOST, days=-1))
    future = str(authority.issue(HOST, days=60))
    for files, sentence in (
        ((missing, sound), f"certfile: cannot read {missing}: No such file or directory"),
        ((sound, missing), f"keyfile: cannot read {missing}: No such file or directory"),
        ((str(tmp_path), sound), f"certfile: cannot read {tmp_path}: Is a directory"),
        ((fifo, sound), f"certfile: cannot read {fifo}: not a regular file"),
        ((sound, fifo), f"keyfile: cannot read {fifo}: not a regular file"),
        ((sound, "/dev/zero"), "keyfile: cannot read /dev/zero: not a regular file"),
        ((empty, sound), f"certfile: {empty} holds no certificate in PEM"),
        ((sound, empty), f"keyfile: {empty} holds no private key in PEM"),
        ((sound, str(authority.file)), f"keyfile: {authority.file} holds no private key in PEM"),
        ((sound, other), f"keyfile: {other} is not the key of {sound}"),
        ((sound, str(weak)), f"keyfile: {weak} is not the key of {sound}"),
        ((sound, str(encrypted)), f"keyfile: {encrypted} is encrypted; the service asks nobody"),
        ((expired, expired), f"certfile: {expired} has expired"),
        ((future, future), f"certfile: {future} is not valid yet"),
    ):
        with pytest.raises(CertificateError) as caught:
            Certificate(*files)
        assert str(caught.value).startswith(sentence)
        assert "\n" not in str(caught.value)


def test_agents_are_spoken_to_in_http_1_1_under_tls_1_2_or_later(authority: Authority) -> None:
    file = str(authority.issue(HOST))
    serving = context(file, file)
    assert serving.minimum_version is ssl.TLSVersion.TLSv1_2
    assert serving.options & ssl.OP_NO_RENEGOTIATION
    assert shown(serving, authority, offers=["h2", "http/1.1"])[1] == "http/1.1"


def test_a_renewed_pair_is_shown_and_a_broken_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, now = tmp_path / "served.pem", [0.0]
    first, second = authority.issue(HOST), authority.issue(HOST)
    file.write_bytes(first.read_bytes())
    served = Certificate(str(file), str(file), clock=lambda: now[0])
    begun = shown(served.context(), authority)[0]
    file.write_bytes(second.read_bytes())
    now[0] = LOOK_S - 0.1
    assert shown(served.context(), authority)[0] == begun, "it looks no more often"
    now[0] = LOOK_S
    renewed = shown(looked(served), authority)[0]
    assert renewed != begun
    for turn, broken in enumerate(("half a certif", "no file", "a FIFO"), 2):
        file.unlink(missing_ok=True)
        if broken == "a FIFO":
            os.mkfifo(file)
        elif broken != "no file":
            file.write_text(broken)
        for _ in range(2):  # said once, though it looks twice
            now[0] += LOOK_S
            assert shown(looked(served), authority)[0] == renewed
        assert [each.levelname for each in caplog.records] == ["WARNING", *["ERROR"] * (turn - 1)]
    assert "certfile: " in caplog.messages[-1]
    assert "PRIVATE KEY" not in caplog.text
    file.unlink()
    file.write_bytes(first.read_bytes())
    now[0] += LOOK_S
    assert shown(looked(served), authority)[0] == begun


def looked(served: Certificate) -> ssl.SSLContext:
    """What is shown once the files have been looked at."""
    served.context()
    served._look.join(60)
    return served.context()


def test_files_that_do_not_answer_leave_the_pair_and_the_calls_alone(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reading function stands for a file system that hangs: none here does so on request."""
    file, now, hangs = tmp_path / "served.pem", [0.0], threading.Event()
    first, second = authority.issue(HOST), authority.issue(HOST)
    file.write_bytes(first.read_bytes())
    hangs.set()  # the start is answered
    reads = []

    def read(certfile: str, keyfile: str) -> ssl.SSLContext:
        reads.append(certfile)
        hangs.wait()
        return context(certfile, keyfile)

    served = Certificate(str(file), str(file), clock=lambda: now[0], read=read)
    begun = shown(served.context(), authority)[0]
    hangs.clear()
    file.write_bytes(second.read_bytes())
    for _ in range(5):
        now[0] += LOOK_S
        assert shown(served.context(), authority)[0] == begun, "the handshake waits for nobody"
    assert len(reads) == 2, "no further look piles up behind the one that hangs"
    assert caplog.messages == [
        f"the certificate is not looked at: {file} and {file} could not be read within 5 s"
    ]
    hangs.set()
    served._look.join(60)
    assert shown(served.context(), authority)[0] != begun


def test_a_start_waits_for_files_no_longer_than_its_deadline(
    authority: Authority,
) -> None:
    file, never = str(authority.issue(HOST)), threading.Event()

    def read(_certfile: str, _keyfile: str) -> ssl.SSLContext:
        never.wait()
        raise AssertionError

    with pytest.raises(CertificateError, match=r"could not be read within 0\.01 s"):
        Certificate(file, file, read=read, read_s=0.01)


def shown(
    serving: ssl.SSLContext, authority: Authority, *, offers: list[str] | None = None
) -> tuple[bytes | None, str | None]:
    """The certificate that an agent is shown in memory, and the protocol that is agreed on."""
    trust = ssl.create_default_context(cafile=str(authority.file))
    trust.set_alpn_protocols(offers or ["http/1.1"])
    to_service, to_agent = ssl.MemoryBIO(), ssl.MemoryBIO()
    agent = trust.wrap_bio(to_agent, to_service, server_hostname=HOST)
    service = serving.wrap_bio(to_service, to_agent, server_side=True)
    for end in (agent, service, agent, service):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return agent.getpeercert(binary_form=True), agent.selected_alpn_protocol()
