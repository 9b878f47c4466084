"""Requests as steps of a generator, and how their responses are read."""

from __future__ import annotations

import pytest

from truezero import models
from truezero.sdk.errors import ServiceError
from truezero.sdk.steps import Request, get, post, present, read

URL = "http://truezero.test"


def alive() -> Request[models.Alive]:
    request = next(get(models.Alive, "/healthz"))
    assert isinstance(request, Request)
    return request


def test_a_request_has_a_body_only_where_one_is_given() -> None:
    asked = alive()
    assert (asked.method, asked.path, asked.params, asked.body) == ("GET", "/healthz", {}, None)
    posted = next(post(models.Alive, "/x", {"a": 1}, params={"lane": "l"}))
    assert isinstance(posted, Request)
    assert (posted.method, posted.params, posted.body) == ("POST", {"lane": "l"}, {"a": 1})


def test_a_parameter_that_is_nothing_is_left_out_and_zero_is_not() -> None:
    assert present(after=None, limit=0, text="") == {"limit": 0, "text": ""}


def test_a_response_is_read_as_its_model_or_not_at_all() -> None:
    body = b'{"status": "ok", "version": "1.2.3"}'
    assert read(alive(), body, URL).version == "1.2.3"
    for body, sentence, code in (
        (b"<html>", f"{URL} is not a truezero service", "other_service"),
        (
            b'{"status": "ok"}',
            "to /healthz does not match truezero .* [(]version[)]",
            "other_version",
        ),
        (b"[]", "[(]whole body[)]", "other_version"),
    ):
        with pytest.raises(ServiceError, match=sentence) as caught:
            read(alive(), body, URL)
        assert caught.value.code == code
