"""Sessions of people: what they open, when they end, and what cannot be forged."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from proxy.api.auth import LIFE_S, LINK_LIFE_S, Sessions
from proxy.app import Application
from proxy.settings import load
from proxy.store.database import Database
from tests.fakes.relaying import running

SESSIONS = Sessions.of(b"s" * 32, b"t0ken")
NOW = 1_800_000_000.0


def test_a_session_holds_until_it_ends() -> None:
    session = SESSIONS.issue(NOW, "n")
    assert SESSIONS.holds(session, NOW)
    assert SESSIONS.holds(session, NOW + LIFE_S - 1)
    assert not SESSIONS.holds(session, NOW + LIFE_S)


def test_every_process_of_a_deployment_accepts_it() -> None:
    assert Sessions.of(b"s" * 32, b"t0ken").holds(SESSIONS.issue(NOW, "n"), NOW)


@pytest.mark.parametrize(
    "other", [Sessions.of(b"s" * 32, b"new"), Sessions.of(b"x" * 32, b"t0ken")]
)
def test_another_token_or_deployment_ends_it(other: Sessions) -> None:
    assert not other.holds(SESSIONS.issue(NOW, "n"), NOW)


@pytest.mark.parametrize(
    "forged", ["", ".", "9999999999.", "9999999999.00", "a.b", "\xff.\xff", "1e99." + "0" * 64]
)
def test_what_we_did_not_issue_opens_nothing(forged: str) -> None:
    assert not SESSIONS.holds(forged, NOW)


def test_a_later_end_cannot_be_written_into_it() -> None:
    ends, _, rest = SESSIONS.issue(NOW, "n").partition(".")
    assert not SESSIONS.holds(f"{int(ends) + 1}.{rest}", NOW)


def test_a_session_that_was_ended_opens_nothing_and_no_other_ends_with_it() -> None:
    sessions = Sessions.of(b"s" * 32, b"t0ken")
    mine, other = sessions.issue(NOW, "n"), sessions.issue(NOW, "m")
    name, ends = sessions.end(mine)
    assert not sessions.holds(mine, NOW)
    assert sessions.holds(other, NOW)
    assert ends == NOW + LIFE_S
    assert name not in mine, "what is noted of it opens nothing"
    elsewhere = Sessions.of(b"s" * 32, b"t0ken")
    assert elsewhere.holds(mine, NOW)
    elsewhere.ended.add(name)
    assert not elsewhere.holds(mine, NOW)


def test_neither_session_nor_form_says_anything_of_the_token() -> None:
    session = SESSIONS.issue(NOW, "n")
    assert "t0ken" not in session + SESSIONS.form_token(session) + repr(SESSIONS)


def test_a_form_belongs_to_one_session() -> None:
    mine, other = SESSIONS.issue(NOW, "n"), SESSIONS.issue(NOW, "m")
    assert SESSIONS.accepts(SESSIONS.form_token(mine), mine)
    assert not SESSIONS.accepts(SESSIONS.form_token(other), mine)
    assert not SESSIONS.accepts("", mine)
    assert not SESSIONS.accepts(mine.rpartition(".")[2], mine), "a session's seal is no form token"


def test_a_link_is_good_for_ten_minutes_and_for_one_deployment_and_token() -> None:
    secret = SESSIONS.invite(NOW, "n")
    invited = SESSIONS.invited(secret, NOW + LINK_LIFE_S - 1)
    assert invited is not None
    name, ends = invited
    assert ends == NOW + LINK_LIFE_S == NOW + 600
    assert name not in secret, "what is noted of it opens nothing"
    assert SESSIONS.invited(secret, NOW + LINK_LIFE_S) is None
    for other in (Sessions.of(b"s" * 32, b"new"), Sessions.of(b"x" * 32, b"t0ken")):
        assert other.invited(secret, NOW) is None


def test_a_link_is_no_session_and_a_session_is_no_link() -> None:
    assert not SESSIONS.holds(SESSIONS.invite(NOW, "n"), NOW)
    assert SESSIONS.invited(SESSIONS.issue(NOW, "n"), NOW) is None


def test_a_forged_link_opens_nothing() -> None:
    ends, _, rest = SESSIONS.invite(NOW, "n").partition(".")
    for forged in (
        "",
        ".",
        "9999999999.00",
        "\xff.\xff",
        f"{int(ends) + 1}.{rest}",
        f"{ends}.{rest}0",
    ):
        assert SESSIONS.invited(forged, NOW) is None, forged


# --- signing out, over HTTP and in every process ---------------------------------------------

OWN = {"sec-fetch-site": "same-origin", "accept": "text/html"}


def sign_in(http: httpx.Client) -> dict[str, str]:
    answer = http.post("/ui/sign-in", data={"token": "t0ken"}, headers=OWN)
    http.cookies.clear()
    return {**OWN, "cookie": answer.headers["set-cookie"].partition(";")[0]}


def sign_out(http: httpx.Client, session: dict[str, str]) -> None:
    token = re.search(r'name="form_token" value="(\w+)"', http.get("/", headers=session).text)
    assert token is not None
    answer = http.post("/ui/sign-out", data={"form_token": token[1]}, headers=session)
    assert answer.headers["location"] == "/ui/sign-in"


def test_signing_out_ends_the_session_itself_in_every_process(tmp_path: Path) -> None:
    """A cookie that was copied before opens nothing afterwards."""
    environment = {
        "TRUEZERO_DATABASE_URL": str(tmp_path / "t.db"), "TRUEZERO_ADMIN_TOKEN": "t0ken",
    }  # fmt: skip
    Database(environment["TRUEZERO_DATABASE_URL"]).prepare()
    one, two = (Application(load({}, environment), environment) for _ in range(2))
    with (
        running(one) as port,
        running(two) as other,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as here,
        httpx.Client(base_url=f"http://127.0.0.1:{other}") as there,
    ):
        mine, another = sign_in(here), sign_in(here)
        for http in (here, there):
            assert http.get("/", headers=mine).status_code == 200
        sign_out(here, mine)
        assert here.get("/", headers=mine).status_code == 303
        two._heartbeat.beat()  # as it does every five seconds
        assert there.get("/", headers=mine).status_code == 303
        for http in (here, there):
            assert http.get("/", headers=another).status_code == 200
        later = Application(load({}, environment), environment)
        with running(later) as third:
            url = f"http://127.0.0.1:{third}/"
            assert httpx.get(url, headers=mine).status_code == 303, "after a restart too"


def test_sessions_that_are_over_anyway_are_forgotten(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "t.db"))
    database.prepare()
    secret = database.deployment.secret("keyring")
    database.deployment.end_session("a", ends=100, now=50)
    database.deployment.end_session("b", ends=200, now=60)
    database.deployment.end_session("b", ends=200, now=60)
    assert database.deployment.ended_sessions() == {"a", "b"}
    database.deployment.end_session("c", ends=300, now=100)
    assert database.deployment.ended_sessions() == {"b", "c"}
    assert database.deployment.secret("keyring") == secret
    database.close()
