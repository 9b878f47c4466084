"""A rollout named by W3C baggage."""

from __future__ import annotations

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context

from classifier.records import Attribution
from proxy.routing import headers as dress
from proxy.routing import target as baggage
from proxy.routing.errors import Refusal
from proxy.routing.target import Target, address
from proxy.routing.upstreams import Auth
from tests.proxy.routing.test_target import KEYRING, UPSTREAMS

HEADER = b"baggage"


def to(*pairs: tuple[bytes, bytes], path: bytes = b"/openai/v1/x") -> Target:
    return address(path, b"", pairs, upstreams=UPSTREAMS, keyring=KEYRING)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([b"truezero.rollout=r1"], b"r1"),
        ([b"user=u,truezero.rollout = r1 ;ttl=3, other=o"], b"r1"),
        ([b"user=u", b"truezero.rollout=a%2Fb%3D"], b"a%2Fb%3D"),
        ([b"truezero.rollout=first", b"truezero.rollout=second"], b"first"),
        ([b"truezero.rollout=a=b"], b"a=b"),
        ([b"truezero.rollout="], b""),
        ([b"truezero.rollout"], b""),
        ([b"xtruezero.rollout=r1,truezero.rollouts=r2"], None),
        ([b"user=truezero.rollout=r1"], None),
        ([b""], None),
        ([], None),
    ],
)
def test_the_first_member_of_its_name_counts(values: list[bytes], named: bytes | None) -> None:
    assert baggage.rollout([(b"a", b"b"), *((HEADER, value) for value in values)]) == named


def test_what_opentelemetry_sends_names_the_rollout() -> None:
    carrier: dict[str, str] = {}
    carried = set_baggage("truezero.rollout", "nightly/ä-1", set_baggage("user", "u", Context()))
    W3CBaggagePropagator().inject(carrier, carried)
    target = to((HEADER, carrier["baggage"].encode()))
    assert (target.rollout_id, target.attribution, target.proven) == (
        "nightly/ä-1", Attribution.BORROWED_HEADER, False,
    )  # fmt: skip


def test_it_is_weaker_than_our_own_and_comes_before_a_session() -> None:
    carried, session = (HEADER, b"truezero.rollout=carried"), (b"x-session-id", b"session")
    ours = (b"x-truezero-rollout", b"ours")
    minted = (b"x-truezero-key", KEYRING.mint("keyed").encode())
    for expected, target in (
        ("carried", to(session, carried)),
        ("ours", to(carried, ours)),
        ("keyed", to(carried, minted)),
        ("path", to(carried, path=b"/r/path/openai/v1/x")),
        ("session", to((HEADER, b"user=u"), session)),
        ("session", to((HEADER, b"truezero.rollout="), session)),
    ):
        assert target.rollout_id == expected


def test_what_cannot_name_a_rollout_is_refused() -> None:
    for value, code in (
        (b"unattributed", "reserved_rollout"),
        (b"x" * 201, "bad_rollout"),
        (b"%ff", "bad_rollout"),
        (b"a%0ab", "bad_rollout"),
    ):
        with pytest.raises(Refusal) as caught:
            to((HEADER, b"truezero.rollout=" + value))
        assert caught.value.code == code, value


def test_it_goes_on_to_the_provider_unchanged() -> None:
    pair = (HEADER, b"user=u,truezero.rollout=r1")
    sent = dress.for_upstream([pair], host=b"h", auth=Auth.BEARER, real_key=None)
    assert pair in sent
