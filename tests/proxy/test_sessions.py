"""Sessions of people: what they open, when they end, and what cannot be forged."""

from __future__ import annotations

import pytest

from proxy.sessions import LIFE_S, Sessions

SESSIONS = Sessions.of(b"s" * 32, b"t0ken")
NOW = 1_800_000_000.0


def test_a_session_holds_until_it_ends() -> None:
    session = SESSIONS.issue(NOW)
    assert SESSIONS.holds(session, NOW)
    assert SESSIONS.holds(session, NOW + LIFE_S - 1)
    assert not SESSIONS.holds(session, NOW + LIFE_S)


def test_every_process_of_a_deployment_accepts_it() -> None:
    assert Sessions.of(b"s" * 32, b"t0ken").holds(SESSIONS.issue(NOW), NOW)


@pytest.mark.parametrize(
    "other", [Sessions.of(b"s" * 32, b"new"), Sessions.of(b"x" * 32, b"t0ken")]
)
def test_another_token_or_deployment_ends_it(other: Sessions) -> None:
    assert not other.holds(SESSIONS.issue(NOW), NOW)


@pytest.mark.parametrize(
    "forged", ["", ".", "9999999999.", "9999999999.00", "a.b", "\xff.\xff", "1e99." + "0" * 64]
)
def test_what_we_did_not_issue_opens_nothing(forged: str) -> None:
    assert not SESSIONS.holds(forged, NOW)


def test_a_later_end_cannot_be_written_into_it() -> None:
    ends, _, seal = SESSIONS.issue(NOW).partition(".")
    assert not SESSIONS.holds(f"{int(ends) + 1}.{seal}", NOW)


def test_neither_session_nor_form_says_anything_of_the_token() -> None:
    session = SESSIONS.issue(NOW)
    assert "t0ken" not in session + SESSIONS.form_token(session) + repr(SESSIONS)


def test_a_form_belongs_to_one_session() -> None:
    mine, other = SESSIONS.issue(NOW), SESSIONS.issue(NOW + 60)
    assert SESSIONS.accepts(SESSIONS.form_token(mine), mine)
    assert not SESSIONS.accepts(SESSIONS.form_token(other), mine)
    assert not SESSIONS.accepts("", mine)
    assert not SESSIONS.accepts(mine.partition(".")[2], mine), "a session's seal is no form token"
