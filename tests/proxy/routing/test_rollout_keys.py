"""The keys that prove a call's rollout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.rollout_keys import Keyring

KEYRING = Keyring(b"s" * 32)


@given(st.text(min_size=1, max_size=200))
def test_a_key_names_and_proves_its_rollout(rollout: str) -> None:
    rollout = rollout.encode("utf-8", "replace").decode()
    assert KEYRING.rollout_of(KEYRING.mint(rollout)) == rollout
    assert KEYRING.opens(rollout, KEYRING.secret_of(rollout))


def test_a_key_of_another_secret_or_rollout_proves_nothing() -> None:
    assert Keyring(b"t" * 32).rollout_of(KEYRING.mint("r1")) is None
    assert not KEYRING.opens("r2", KEYRING.secret_of("r1"))


@pytest.mark.parametrize("key", ["", "tz-", "tz-.", "tz-cjE", "tz-%%%.x", "sk-cjE.x", "tz-/w==.x"])
def test_what_is_no_key_proves_nothing(key: str) -> None:
    assert KEYRING.rollout_of(key) is None


def test_the_server_s_secret_is_not_printed() -> None:
    assert "ssss" not in repr(KEYRING)
