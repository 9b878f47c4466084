"""gRPC-web and Connect: messages in envelopes, and failures in trailers beside an HTTP success."""

from __future__ import annotations

import base64
import gzip
import struct

import pytest

from classifier.records import AnswerState, Exchange
from classifier.verdicts import Subcategory
from proxy.wire.framing import Envelope, EnvelopeFeeder, Unreadable
from tests.proxy.wire.observing import observed
from tests.proxy.wire.samples import chat, dump
from tests.tables import each

CALL = "/acme.v1.Assistant/Ask"
WEB, TEXT = "application/grpc-web+proto", "application/grpc-web-text"
CONNECT = "application/connect+json"
MESSAGE = b"\x0a\x04four"


def envelope(payload: bytes, flags: int = 0) -> bytes:
    return struct.pack(">BI", flags, len(payload)) + payload


def trailers(status: int, message: str = "", end: str = "\r\n") -> bytes:
    lines = [f"grpc-status:{status}", f"Grpc-Message: {message}", "x-trace: 1"]
    return envelope(end.join(lines).encode() + end.encode(), 0x80)


def web(body: bytes, type_: str = WEB, **headers: str) -> Exchange:
    return observed(
        body, CALL, type_=type_, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


FAILED = {
    (8, "Quota%20exceeded%3A%20your balance is too low"): (Subcategory.QUOTA, False),
    (8, "too many requests per minute"): (Subcategory.RATE_LIMIT, True),
    (16, "the API key is not valid"): (Subcategory.AUTH, False),
    (14, "upstream connect error"): (Subcategory.PROVIDER_ERROR, True),
    (13, ""): (Subcategory.PROVIDER_ERROR, True),
    (4, ""): (Subcategory.PROVIDER_ERROR, True),
}


@pytest.mark.parametrize("said", FAILED)
@pytest.mark.parametrize("begun", [b"", envelope(MESSAGE)])
def test_a_status_in_the_trailers_of_grpc_web_is_the_failure(
    said: tuple[int, str], begun: bytes
) -> None:
    body = begun + trailers(*said)
    padded = b"".join(base64.b64encode(part) for part in (begun, trailers(*said)) if part)
    for exchange in (web(body), web(padded, TEXT), web(begun + trailers(*said, end="\n"))):
        assert exchange.cause is not None
        assert (exchange.cause.subcategory, exchange.cause.transient) == FAILED[said]


@each("type_", [WEB, TEXT, "application/grpc-web"])
def test_a_stream_that_ends_well_is_no_failure_and_its_bytes_are_unseen(type_: str) -> None:
    body = envelope(MESSAGE) * 3 + trailers(0)
    exchange = web(base64.b64encode(body) if type_ == TEXT else body, type_)
    assert (exchange.cause, exchange.answer_state) == (None, AnswerState.UNSEEN)
    head = observed(chat({"completion_tokens": 1}), headers={"grpc-status": "0"})
    assert (head.cause, head.answer_state) == (None, AnswerState.READ)


def test_an_error_at_the_end_of_a_connect_stream_is_its_failure() -> None:
    error = {"error": {"code": "resource_exhausted", "message": "Monthly usage limit reached."}}
    for end in (envelope(dump(error), 2), envelope(gzip.compress(dump(error)), 3)):
        exchange = web(envelope(dump({"text": "fo"})) + end, CONNECT)
        assert exchange.cause is not None
        assert exchange.cause.subcategory is Subcategory.QUOTA
    well = web(envelope(dump({"text": "fo"})) + envelope(b"{}", 2), CONNECT)
    assert well.cause is None


def test_envelopes_are_split_however_they_are_cut() -> None:
    stream = envelope(b"one") + envelope(b"") + envelope(gzip.compress(b"{}"), 1) + trailers(0)
    expected = [Envelope(b"one", False, False), Envelope(b"", False, False),
                Envelope(b"{}", False, False), Envelope(trailers(0)[5:], True, False)]  # fmt: skip
    for text in (False, True):
        sent = base64.b64encode(stream) if text else stream
        for size in (1, 2, 7, len(sent)):
            feeder = EnvelopeFeeder(1000, text=text)
            pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
            assert [one for piece in pieces for one in feeder.feed(piece)] == expected


@each("sent, text", [(envelope(bytes(1001)), False), (b"!!!!", True), (b"\xff" * 9, False)])
def test_what_is_no_envelope_is_unreadable(sent: bytes, text: bool) -> None:
    with pytest.raises(Unreadable):
        EnvelopeFeeder(1000, text=text).feed(sent)
