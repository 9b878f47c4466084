"""Whose error it is: an answer that a gateway cannot read, and a time that ran out, are a server's.

The sentences are rows of ``tests/answers/worded.jsonl``; here they stand behind a gateway's words,
in a stream and after output; and what a request's own fields are called must stay the request's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from classifier import judge
from classifier.records import Cause, Exchange
from classifier.verdicts import Health, Subcategory
from tests.answers.table import WORDED, Answer
from tests.builders import rollout
from tests.proxy.wire.observing import observed
from tests.tables import each

FORMS = "in any form"
# Sentences of answers that could not be read and of times that ran out; a rejection or a server's.
UNREAD, LATE = (
    [row for row in WORDED if row.fact == FORMS and row.source == source and row.status == 400]
    for source in ("an answer that a gateway or an engine could not read", "a time that ran out")
)
REQUEST = json.dumps(
    {"model": "m", "messages": [{"role": "user", "content": "2+2"}], "own_option": 1}
).encode()
TEXT = b'data: {"choices": [{"index": 0, "delta": {"content": "It is"}}]}\n\n'
SSE = "text/event-stream"


def answers(message: str, statuses: tuple[int, ...]) -> Iterator[Exchange]:
    """Yield the calls that such a message ends: whole, in a 200, in a stream, behind frames."""
    frames = (message, f"Upstream request failed: {message}", f"backend error: {message}")
    for status, said in product(statuses, frames):
        for body in ({"error": {"message": said}}, {"detail": said}):
            yield observed(json.dumps(body).encode(), status=status, request=REQUEST)
    error = json.dumps({"error": {"message": message}}).encode()
    yield observed(error, request=REQUEST)
    yield observed(b"data: " + error + b"\n\n", type_=SSE, request=REQUEST)
    yield observed(TEXT + b"data: " + error + b"\n\n", type_=SSE, request=REQUEST)


def cause(exchange: Exchange) -> Cause:
    assert exchange.cause is not None
    return exchange.cause


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_gateways_words_another_status_and_a_stream_change_nothing(step: int) -> None:
    @each("row", [*UNREAD, *LATE][::step], ids=lambda row: row.message)
    def framed(row: Answer) -> None:
        rejects = row in UNREAD  # may be a rejection that nothing explains
        statuses = (400, 404, 422 if rejects else 408, 500, 502, 504)
        for exchange in answers(row.message, statuses):
            told, status = cause(exchange), exchange.status or 0
            assert told.subcategory is Subcategory.PROVIDER_ERROR or (
                rejects
                and status < 500
                and told.subcategory is Subcategory.REJECTED_REQUEST
                and told.reason in ((None, "wrong_endpoint") if status == 404 else (None,))
            ), (status, told)

    framed()


@each("row", [UNREAD[0], LATE[0]], ids=lambda row: row.message)
def test_no_place_in_a_rollout_makes_a_false_zero_of_it(row: Answer) -> None:
    told, status = cause(row.observed()), row.status

    def judged(calls: str) -> tuple[bool, str]:
        record = rollout(calls)
        failed = [
            replace(each, cause=told, status=status) if each.cause is not None else each
            for each in record.exchanges
        ]
        verdict = judge(replace(record, exchanges=tuple(failed)))
        return verdict.health is Health.HEALTHY, verdict.scoreable

    assert judged("400*2") == (False, "no")  # from its start
    assert judged("200+tool 400*2") == (False, "no")  # at its end
    assert judged("200+tool 400")[1] != "yes"
    assert judged("200+tool 400 200+tool") == (True, "yes")  # midway
