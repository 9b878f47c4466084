"""Secrets and ended sessions are shared by all processes."""

from __future__ import annotations

from sqlalchemy import create_engine, select

from proxy.store.database import Database
from proxy.store.tables import metadata, server


def test_secrets_are_made_once_for_all_processes(database: Database) -> None:
    one, two = database, Database(database.url)
    assert (
        one.deployment.secret("salt")
        == two.deployment.secret("salt")
        != one.deployment.secret("keyring")
    )
    assert len(one.deployment.secret("salt")) == 32


def test_secrets_that_were_handed_out_survive_a_replaced_database(database: Database) -> None:
    before = database.deployment.secret("salt")
    with create_engine(database.url).begin() as raw:
        raw.execute(metadata.tables["server"].delete())
    database.deployment.restore_secrets()
    assert Database(database.url).deployment.secret("salt") == before


def test_an_ended_session_is_forgotten_once_it_would_have_expired(database: Database) -> None:
    database.deployment.end_session("a", ends=100, now=50.0)
    assert database.deployment.ended_sessions() == {"a"}
    database.deployment.end_session("b", ends=300, now=100.0)
    assert database.deployment.ended_sessions() == {"b"}


def test_a_link_is_used_once_in_all_processes(database: Database) -> None:
    one, two = database.deployment, Database(database.url).deployment
    assert one.use_link("a", ends=600, now=50.0)
    assert not two.use_link("a", ends=600, now=50.0)
    assert two.use_link("b", ends=700, now=50.0)


def test_a_used_link_is_forgotten_once_it_has_expired(database: Database) -> None:
    database.deployment.end_session("s", ends=100, now=50.0)
    database.deployment.use_link("a", ends=100, now=50.0)
    database.deployment.use_link("b", ends=700, now=100.0)
    with create_engine(database.url).connect() as raw:
        names = set(raw.scalars(select(server.c.name).where(server.c.name.contains("."))))
    assert names == {"link.b", "ended.s"}, "sessions are another's affair"
