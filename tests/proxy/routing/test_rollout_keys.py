"""The keys that prove a call's rollout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.routing.keys import Keyring

KEYRING = Keyring(b"s" * 32)


@given(st.text(min_size=1, max_size=200))
def test_a_key_names_and_proves_its_rollout(rollout: str) -> None:
    rollout = rollout.encode("utf-8", "replace").decode()
    assert KEYRING.rollout_of(KEYRING.mint(rollout)) == rollout
    assert KEYRING.opens(rollout, KEYRING.secret_of(rollout))


def test_a_role_has_a_key_and_a_secret_of_its_own() -> None:
    key = KEYRING.mint("r1", "judge")
    assert KEYRING.holder_of(key) == ("r1", "judge")
    assert KEYRING.holder_of(KEYRING.mint("r1")) == ("r1", "agent")
    assert KEYRING.rollout_of(key) is None, "it is not the agent's"
    secret = KEYRING.secret_of("r1", "judge")
    assert KEYRING.opens("r1", secret, "judge")
    opened = [("r1", "agent"), ("r1", "user"), ("r2", "judge")]
    assert not any(KEYRING.opens(rollout, secret, role) for rollout, role in opened)


def test_a_key_whose_role_was_changed_proves_nothing() -> None:
    judges, agents = KEYRING.mint("r1", "judge"), KEYRING.mint("r1")
    assert KEYRING.holder_of(judges.replace("judge", "user")) is None
    assert KEYRING.holder_of(judges.replace(".judge", "")) is None
    assert KEYRING.holder_of(agents.replace(".", ".judge.")) is None


def test_a_key_of_another_secret_or_rollout_proves_nothing() -> None:
    assert Keyring(b"t" * 32).rollout_of(KEYRING.mint("r1")) is None
    assert not KEYRING.opens("r2", KEYRING.secret_of("r1"))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "tz-",
        "tz-.",
        "tz-cjE",
        "tz-%%%.x",
        "sk-cjE.x",
        "tz-/w==.x",
        "tz-cjE.judge.x",
        "tz-cjE.a.b.x",
    ],
)
def test_what_is_no_key_proves_nothing(key: str) -> None:
    assert KEYRING.rollout_of(key) is None


def test_the_server_s_secret_is_not_printed() -> None:
    assert "ssss" not in repr(KEYRING)
