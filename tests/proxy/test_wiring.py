"""Parts of the service as its settings ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.app import (
    call_limits,
    control_auth,
    local_names,
    new_id,
    open_spill,
    rollout_access,
    shared_metrics_folder,
    spill_place,
    unattributed_calls,
)
from proxy.relay.admission import AccessUnknownError
from proxy.settings import load
from proxy.store.database import Database


def test_ids_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(each) for each in ids} == {24}
    assert [each[:13] for each in ids] == sorted(each[:13] for each in ids)


@pytest.mark.parametrize(("drains", "seconds"), [(True, 60.0), (False, 0.0)])
def test_a_response_is_read_on_only_where_that_is_asked_for(drains: bool, seconds: float) -> None:
    assert call_limits(load({"drain_on_disconnect": drains}, {})).drain_s == seconds


def test_limits_are_those_of_the_settings() -> None:
    limits = call_limits(
        load(
            {"connect_timeout_s": 1, "read_timeout_s": 2, "write_timeout_s": 3, "body_limit": 4}, {}
        )
    )
    assert (limits.connect_s, limits.read_s, limits.write_s, limits.body_bytes) == (1, 2, 3, 4)


def test_spill_files_lie_beside_the_database_or_in_the_folder_of_the_settings(
    tmp_path: Path,
) -> None:
    url = str(tmp_path / "t.db")
    database = Database(url)
    assert spill_place(database, load({"database_url": url}, {})) == tmp_path / "t.db"
    elsewhere = load({"database_url": url, "spill_dir": str(tmp_path / "spill")}, {})
    place = spill_place(database, elsewhere)
    assert place is not None
    assert place.parent == tmp_path / "spill"
    assert open_spill(place, "w") is not None
    assert open_spill(None, "w") is None
    database.close()


def test_metrics_are_shared_only_in_the_folder_of_the_environment() -> None:
    assert shared_metrics_folder({}) is None
    assert shared_metrics_folder({"PROMETHEUS_MULTIPROC_DIR": "/x"}) == Path("/x")


def test_a_rollouts_access_is_unknown_while_the_database_is_away(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "missing" / "t.db"))
    access: Any = rollout_access(database)
    for ask in (access._look_up, access._count):
        with pytest.raises(AccessUnknownError):
            ask("r")
    with pytest.raises(AccessUnknownError):
        access._answered("r", "openai", "digest")
    database.close()


def test_sessions_are_of_the_token_of_the_settings() -> None:
    one, other = (control_auth(load({"admin_token": t}, {}), b"secret") for t in ("one", "other"))
    session = one.sessions.issue(0.0, "nonce")
    assert one.sessions.holds(session, 0.0)
    assert not other.sessions.holds(session, 0.0)


def test_calls_that_name_no_rollout_are_let_in_where_one_user_makes_them() -> None:
    for flags, let_in in (
        ({}, True),
        ({"public_url": "https://proxy.example/x"}, True),
        ({"admin_token": "t0ken"}, False),
        ({"require_registration": True}, False),
    ):
        assert (unattributed_calls(load(flags, {})) is not None) is let_in, flags
    exposed = load({}, {}).model_copy(update={"host": "0.0.0.0"})
    assert unattributed_calls(exposed) is None
    assert local_names(load({"public_url": "https://proxy.example/x"}, {})).knows("proxy.example:1")
