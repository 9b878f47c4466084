"""Read a response body that is no stream: JSON, JSON lines, an HTML page, text or nothing."""

from __future__ import annotations

import re

from classifier.logical_calls import is_abort
from classifier.records import Flaw
from proxy.wire.dialect import Reading
from proxy.wire.payloads import PayloadReader, parse_json
from proxy.wire.provider_error import read_text_error

# What a response said up to its end; whether it is complete, even if the transport broke; and
# its flaw, which counts only where its status and its ending are good.
ReadResult = tuple[Reading, bool, Flaw | None]

_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TEXT_BYTES = 4096  # of a plain-text error


def read_body(body: bytes, payloads: PayloadReader, status: int) -> ReadResult:
    """Read a whole body; an error in it is left in ``payloads.error``."""
    reading = Reading()
    payload = parse_json(body)
    if isinstance(payload, dict):
        payloads.read(reading, payload, None)
        return reading, True, None if reading.content else _aborted(reading)
    if isinstance(payload, list):
        for item in payload:
            if isinstance(item, dict):
                payloads.read(reading, item, None)
        return reading, True, _aborted(reading)
    if payload is None:
        return _read_no_json(reading, body, payloads, status)
    if isinstance(payload, str) and status >= 400:
        payloads.error = read_text_error(payload)
    return reading, False, None


def _read_no_json(
    reading: Reading, body: bytes, payloads: PayloadReader, status: int
) -> ReadResult:
    """Read what is no JSON value: nothing, a page, JSON lines, half a document, a text."""
    if not body.strip():
        return reading, False, Flaw.EMPTY_BODY
    if _HTML.match(body):
        return reading, False, Flaw.HTML_BODY
    documents = _documents(body)
    if len(documents) > 1:
        for document in documents:
            payloads.read(reading, document, None)
        return reading, reading.ended, truncation(reading, payloads)
    if body.lstrip().startswith((b"{", b"[")):
        return reading, False, Flaw.TRUNCATED
    if status >= 400:
        payloads.error = read_text_error(body[:_TEXT_BYTES].decode("utf-8", "replace"))
    return reading, False, None


def _documents(body: bytes) -> list[dict[str, object]]:
    """Return the objects of JSON lines; none where any line is something else."""
    documents = []
    for line in body.split(b"\n"):
        document = parse_json(line) if line.strip() else {}
        if not isinstance(document, dict):
            return []
        if line.strip():
            documents.append(document)
    return documents


def truncation(reading: Reading, payloads: PayloadReader) -> Flaw | None:
    """Return the flaw of events without an end, or aborted before a word; None if an error came."""
    if reading.finish_reason is not None:
        return _aborted(reading)
    if reading.ended or payloads.error is not None:
        return None
    # Payloads of a shape that the dialect does not know may well be complete.
    foreign = payloads.any_object and not reading.understood
    return None if foreign or not payloads.dialect.known else Flaw.TRUNCATED


def _aborted(reading: Reading) -> Flaw | None:
    """Return the flaw of an answer without a word that an engine says it ended by itself."""
    return None if reading.content or not is_abort(reading.finish_reason) else Flaw.ABORTED
