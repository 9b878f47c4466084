"""Whose error it is: an answer that a gateway cannot read, and a time that ran out, are a server's.

Each kind in several forms, statuses and languages, behind a gateway's words, in a stream and after
output; and what a request's own fields are called, which must stay the request's.
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
from tests.builders import rollout
from tests.proxy.wire.observing import observed
from tests.tables import each

# Of an answer that could not be read: by parsers, by fields of answers, in words.
UNREAD = (
    "invalid character '<' looking for beginning of value",
    "unexpected end of JSON input",
    "json: cannot unmarshal string into Go struct field Chunk.choices.delta of type int",
    "error decoding response body: missing field `finish_reason` at line 1 column 40",
    "Expecting value: line 1 column 1 (char 0)",
    "Unexpected token '<', \"<html>\"... is not valid JSON",
    "Unrecognized token 'Bad': was expecting (JSON String, Number, Array, Object or 'null')",
    "1 validation error for ModelResponse\nchoices\n  Field required",
    "KeyError: 'choices'",
    "Could not parse the reply of the model server",
    "Provider returned a malformed body",
    "stream chunk has an invalid 'delta' field",
    "上游响应解析失败",
    "アップストリームの応答が不正な形式です",
    "공급자의 응답을 해석할 수 없습니다",
    "Die Antwort des Anbieters ist ungültig",
    "La réponse du serveur n'est pas valide",
    "La respuesta del servidor no es válida",
    "A resposta do servidor é inválida",
    "Некорректный ответ сервера",
)
# Of a time that ran out, while or before a model worked.
LATE = (
    "context deadline exceeded",
    'Get "https://model.example/v1": context deadline exceeded (Client.Timeout exceeded)',
    "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    "The prompt waited in the queue longer than 30 s",
    "Read timed out.",
    "The completion took too long to finish and exceeded its time limit",
    "read tcp 10.0.0.1:3->10.0.0.2:80: i/o timeout",
    "上下文截止时间已超过",
    "モデルの応答がタイムアウトしました",
    "모델 응답 시간이 초과되었습니다",
    "Das Zeitlimit der Anfrage wurde überschritten",
    "Le délai d'attente du modèle est dépassé",
    "Se superó el tiempo de espera del contexto",
    "O tempo limite da solicitação foi excedido",
    "Превышено время ожидания модели",
)
# Of the request's own, by fields that it has and parameters that it may have.
OWN = (
    "Invalid value for 'temperature': must be at most 2",
    "messages.1.content: Input should be a valid string",
    "json: cannot unmarshal number into Go struct field Request.messages of type []Message",
    "max_output_tokens must be at least 16",
    "own_option: unknown field",
    "Invalid schema for tool 'bash': missing type",
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


@each("message", UNREAD)
def test_an_answer_that_could_not_be_read_explains_no_rejection(message: str) -> None:
    for exchange in answers(message, (400, 404, 422, 500, 502, 504)):
        told, status = cause(exchange), exchange.status or 0
        assert told.subcategory is Subcategory.PROVIDER_ERROR or (
            status < 500
            and told.subcategory is Subcategory.REJECTED_REQUEST
            and told.reason in ((None, "wrong_endpoint") if status == 404 else (None,))
        ), (status, told)


@each("message", LATE)
def test_a_time_that_ran_out_is_the_servers(message: str) -> None:
    for exchange in answers(message, (400, 404, 408, 500, 502, 504)):
        assert cause(exchange).subcategory is Subcategory.PROVIDER_ERROR, exchange


@each("message", OWN)
def test_a_field_of_the_request_explains_its_rejection(message: str) -> None:
    for said in (message, f"Upstream request failed: {message}"):
        body = json.dumps({"error": {"message": said}}).encode()
        told = cause(observed(body, status=400, request=REQUEST))
        assert (told.subcategory, told.reason) == (Subcategory.REJECTED_REQUEST, "malformed"), told


@each("message", OWN)
def test_beside_a_servers_status_or_name_it_explains_nothing(message: str) -> None:
    named = json.dumps({"error": {"message": message, "type": "server_error"}}).encode()
    plain = json.dumps({"error": {"message": message}}).encode()
    for exchange in (
        observed(named, status=400, request=REQUEST),
        observed(plain, status=500, request=REQUEST),
    ):
        assert cause(exchange).reason != "malformed"


def test_a_key_that_the_request_has_not_explains_nothing() -> None:
    body = b'{"error": {"message": "other_option: unknown field"}}'
    assert cause(observed(body, status=400, request=REQUEST)).reason is None
    assert cause(observed(body, status=400)).reason == "malformed"  # nobody read the request


@each("subject", ("Your account", "This API key", "The project's balance"))
def test_a_sentence_about_the_account_explains_no_rejection(subject: str) -> None:
    body = json.dumps({"error": {"message": f"{subject} sets another 'temperature'"}}).encode()
    assert cause(observed(body, status=400, request=REQUEST)).reason is None


@pytest.mark.parametrize(
    "said, gives",
    [
        ("temperature is invalid", Subcategory.PROVIDER_ERROR),
        ("invalid request", Subcategory.PROVIDER_ERROR),
        ("the context window is exceeded", Subcategory.REJECTED_REQUEST),
        ("the answer was blocked by the content filter", Subcategory.REJECTED_REQUEST),
        ("your balance is exhausted", Subcategory.QUOTA),
    ],
)
def test_after_output_only_length_and_filters_reject(said: str, gives: Subcategory) -> None:
    event = b"data: " + json.dumps({"error": {"message": said}}).encode() + b"\n\n"
    assert cause(observed(TEXT + event, type_=SSE, request=REQUEST)).subcategory is gives


@each("message, status", product(UNREAD + LATE, (400, 500)))
def test_no_place_in_a_rollout_makes_a_false_zero_of_it(message: str, status: int) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    told = cause(observed(body, status=status, request=REQUEST))

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
