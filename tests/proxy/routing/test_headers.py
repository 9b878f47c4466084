"""How requests and answers are dressed."""

from __future__ import annotations

import pytest

from proxy.routing.headers import (
    HOP_BY_HOP,
    for_agent,
    for_upstream,
    for_upstream_as_operator,
    key_digest,
    shown_key,
    shows_own_key,
)
from proxy.routing.upstreams import Auth

HOST = b"api.example"


def dressed(
    *headers: tuple[bytes, bytes], auth: Auth = Auth.BEARER, key: str | None = None
) -> list[tuple[bytes, bytes]]:
    return for_upstream(headers, host=HOST, auth=auth, real_key=key)[1:]


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_hop_by_hop_headers_stay_on_their_hop(name: bytes) -> None:
    assert dressed((name, b"x")) == []
    assert for_agent([(name, b"x")], "id") == [(b"x-truezero-exchange", b"id")]


def test_no_provider_speaks_in_our_name() -> None:
    ours = [
        (b"X-TrueZero-Exchange", b"forged"), (b"x-truezero-refusal", b"breaker_open"),
        (b"x-truezero-injected", b"auth"), (b"X-TRUEZERO-anything", b"x"),
    ]  # fmt: skip
    kept = (b"x-request-id", b"r")
    assert for_agent([*ours, kept], "id") == [kept, (b"x-truezero-exchange", b"id")]


def test_what_connection_names_is_hop_by_hop_too() -> None:
    pairs = [(b"connection", b"close, X-Mine"), (b"x-mine", b"1"), (b"x-kept", b"2")]
    assert dressed(*pairs) == [(b"x-kept", b"2")]
    pairs = [(b"connection", b"close"), (b"connection", b"x-mine"), (b"x-mine", b"1")]
    assert dressed(*pairs) == [], "whichever of them names it"


def test_our_own_headers_never_reach_a_provider() -> None:
    pairs = [(b"x-truezero-rollout", b"r"), (b"x-truezero-role", b"judge"), (b"x-session-id", b"s")]
    assert dressed(*pairs) == [(b"x-session-id", b"s")]


def test_the_host_is_the_upstreams() -> None:
    got = for_upstream([(b"host", b"proxy")], host=HOST, auth=Auth.BEARER, real_key=None)
    assert got == [(b"host", HOST)]


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (Auth.BEARER, (b"authorization", b"Bearer sk")),
        (Auth.X_API_KEY, (b"x-api-key", b"sk")),
        (Auth.X_GOOG_API_KEY, (b"x-goog-api-key", b"sk")),
        (Auth.API_KEY, (b"api-key", b"sk")),
        (Auth.NONE, None),
    ],
)
def test_a_real_key_goes_where_the_provider_expects_it(
    auth: Auth, expected: tuple[bytes, bytes] | None
) -> None:
    assert dressed(auth=auth, key="sk") == ([expected] if expected else [])
    minted = (b"authorization", b"Bearer tz-abc.def")
    assert dressed(minted, auth=auth, key="sk") == ([expected] if expected else [])


def test_a_callers_own_key_is_passed_through() -> None:
    own = (b"authorization", b"Bearer sk-own")
    assert dressed(own, key="sk") == [own]


def test_bytes_that_no_header_may_carry_are_left_out_of_an_answer() -> None:
    pairs = [(b"x-a", b"a\x01b"), (b"x b", b"1"), (b"X-Ok", b"caf\xe9 \t")]
    assert for_agent(pairs, "id") == [(b"x-ok", b"caf\xe9 \t"), (b"x-truezero-exchange", b"id")]


def test_a_key_is_kept_as_a_salted_digest_of_four_bytes() -> None:
    digest = key_digest(b"sk-secret", b"salt")
    assert digest is not None
    assert len(bytes.fromhex(digest.removeprefix("key-"))) == 4
    assert digest == key_digest(b"sk-secret", b"salt") != key_digest(b"sk-secret", b"other")
    assert key_digest(None, b"salt") is None


def test_the_same_key_in_any_header_is_the_same_key() -> None:
    spellings = [
        (b"authorization", b"Bearer k"), (b"authorization", b"bearer k"), (b"x-api-key", b"k"),
        (b"x-goog-api-key", b"k"), (b"api-key", b" k "),
    ]  # fmt: skip
    assert {shown_key([pair]) for pair in spellings} == {b"k"}
    assert shown_key([(b"accept", b"*/*")]) is None


def test_a_rollout_key_is_no_key_that_a_provider_sees() -> None:
    minted = (b"authorization", b"Bearer tz-abc.def")
    assert shown_key([minted]) is None
    assert shown_key([minted, (b"x-api-key", b"sk-own")]) == b"sk-own"


def test_whether_a_caller_shows_a_key_of_its_own() -> None:
    minted, own = (b"authorization", b"Bearer tz-abc.def"), (b"x-api-key", b"sk-own")
    signature = (b"authorization", b"AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=y")
    assert not shows_own_key([minted], Auth.BEARER)
    assert shows_own_key([minted, own], Auth.BEARER)
    assert shows_own_key([signature], Auth.BEARER)
    assert not shows_own_key([signature], Auth.AWS)
    assert not shows_own_key([(b"accept", b"*/*")], Auth.BEARER)


@pytest.mark.parametrize(
    "name",
    [
        b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key", b"api_key", b"cookie",
        b"openai-organization", b"openai_project", b"x-goog-user-project", b"x-amz-date",
        b"x-hf-bill-to", b"x-http-method-override", b"x-truezero-key", b"host",
    ],
)  # fmt: skip
def test_nothing_of_a_callers_credentials_goes_with_the_operators(name: bytes) -> None:
    kept = (b"anthropic-beta", b"x")
    shown = [(name, b"own"), kept, (name, b"twice")]
    got = for_upstream_as_operator(shown, host=HOST, auth=Auth.X_API_KEY, real_key="sk")
    assert got == [(b"host", HOST), kept, (b"x-api-key", b"sk")]
    assert for_upstream_as_operator(shown, host=HOST, auth=Auth.AWS, real_key=None) == got[:2]
