"""What a request chooses beside its model has a digest, and a model written twice is seen."""

from __future__ import annotations

import orjson
import pytest

from proxy.wire.request import (
    RequestReader,
    digest,
    in_body,
    in_head,
    may_select,
    writes_model_twice,
)

SALT = b"salt"


def test_headers_and_query_that_choose_are_found() -> None:
    head = {b"openai-organization": b"org-1", b"anthropic-beta": b"x-2025", b"user-agent": b"a"}
    assert in_head(head, b"", operators_key=False) == (
        ("anthropic-beta", b"x-2025"),
        ("openai-organization", b"org-1"),
    )
    assert in_head(head, b"", operators_key=True) == (("anthropic-beta", b"x-2025"),)
    azure = in_head({}, b"api-version=2024-10-21&x=1", operators_key=True)
    assert azure == (("api-version", b"2024-10-21"),)
    assert in_head({}, b"beta=true", operators_key=False) == ()
    usual, other = {b"anthropic-version": b"2023-06-01"}, {b"anthropic-version": b"2029-01-01"}
    assert in_head(usual, b"", operators_key=False) == ()
    assert in_head(other, b"", operators_key=False) != ()


@pytest.mark.parametrize(
    "name",
    [
        "x-envoy-upstream-rq-timeout-ms", "x-envoy-max-retries", "x-portkey-config",
        "x-portkey-custom-host", "x-portkey-request-timeout", "x-litellm-timeout",
        "x-litellm-num-retries", "cf-aig-request-timeout", "cf-aig-skip-cache",
        "helicone-target-url", "helicone-fallbacks", "helicone-ratelimit-policy",
    ],
)  # fmt: skip
def test_headers_that_steer_a_gateway_choose(name: str) -> None:
    head = {b"user-agent": b"a", name.encode(): b"1"}
    assert may_select(head)
    for operators_key in (True, False):
        assert in_head(head, b"", operators_key=operators_key) == ((name, b"1"),)


@pytest.mark.parametrize(
    "name",
    [
        "x-portkey-trace-id", "x-portkey-metadata", "x-portkey-parent-span-id",
        "x-litellm-tags", "x-litellm-spend-logs-metadata", "x-litellm-call-id",
        "x-litellm-session-id", "cf-aig-metadata", "cf-aig-collect-log", "cf-aig-event-id",
        "helicone-session-path", "helicone-property-app", "helicone-user-id", "helicone-request-id",
        "x-envoy-external-address", "x-envoy-attempt-count", "user-agent", "x-request-id",
    ],
)  # fmt: skip
def test_headers_that_only_note_a_call_choose_nothing(name: str) -> None:
    assert in_head({name.encode(): b"1"}, b"", operators_key=False) == ()


def test_fields_of_the_body_that_choose_are_found() -> None:
    chosen = in_body({"model": "m", "service_tier": "flex", "provider": {"order": ["a"]}})
    assert chosen == (("provider", b'{"order":["a"]}'), ("service_tier", b'"flex"'))
    assert in_body({"model": "m", "service_tier": None}) == ()


def test_a_digest_tells_choices_apart_and_holds_none_of_them() -> None:
    one, other = (("a", b"1"),), (("a", b"2"),)
    assert digest(one, SALT) == digest(one, SALT) != digest(other, SALT)
    assert digest(one, SALT) != digest(one, b"other salt")
    assert digest((("ab", b"c"),), SALT) != digest((("a", b"bc"),), SALT)
    assert digest((), SALT) is None


# A body, and whether two of its keys spell the model.
BODIES: tuple[tuple[bytes, bool], ...] = (
    (b'{"model":"a"}', False),
    (b'{"model":"a","model":"b"}', True),
    (b'{"model":"a","messages":[],"\\u006dodel":"b"}', True),
    (b'{"\\u006d\\u006F\\u0064\\u0065\\u006c":"a","model":"b"}', True),
    (b'{"\\u006dodel":"a"}', False),
    (b'{"model":"a","Model":"b"}', True),
    (b'{"MODEL":"a","mOdel":"b"}', True),
    (b'{"Model":"a"}', False),
    (b'{"model":"a","tools":[{"properties":{"model":{"type":"string"}}}]}', False),
    (b'{"model":"model","x":"model"}', False),
    (b'{"model":"a","messages":[{"content":"{\\"model\\":\\"b\\"} caf\\u00e9 \\u0061"}]}', False),
    (b'{"messages":[]}', False),
    (b'{"model":"a","x":NaN}', True),
    (b'[{"model":"a"}, {}]}', True),
)  # fmt: skip


def test_two_keys_that_spell_model_are_seen() -> None:
    for body, ambiguous in BODIES:
        reader = RequestReader((), 1_000_000)
        reader.feed(body)
        reader.fields()
        assert reader.ambiguous is ambiguous, body


def test_a_compressed_body_is_looked_at_too_and_one_that_is_incomplete_is_not() -> None:
    reader = RequestReader((b"br-unknown",), 1_000_000)
    reader.feed(b"\x00")
    reader.fields()
    assert reader.ambiguous
    incomplete = RequestReader((), 1_000_000)
    incomplete.feed(b'{"model":"a","model":"b"')
    incomplete.fields()
    assert not incomplete.ambiguous
    too_long = RequestReader((), 4)
    too_long.feed(b'{"model":"a","model":"b"}')
    too_long.fields()
    assert not too_long.ambiguous


def test_many_objects_may_each_have_a_model_once() -> None:
    payload = {"model": "a", "tools": [{"model": n} for n in range(10_000)]}
    assert not writes_model_twice(orjson.dumps(payload), payload)


def test_what_is_nested_deeper_than_is_written_again_is_still_read() -> None:
    deep = b"[" * 900 + b"]" * 900
    for body, model in (
        (b'{"model":"m","messages":' + deep + b',"provider":' + deep + b"}", "m"),
        (b'{"messages":' + deep + b',"model":"a","model":"b"}', "b"),
    ):
        reader = RequestReader((), 1_000_000)
        reader.feed(body)
        assert reader.fields()[0] == model
        assert reader.ambiguous
        assert bool(reader.selected) is (b"provider" in body)
