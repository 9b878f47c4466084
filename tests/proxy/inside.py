"""The inside of a service in this process: the test kit's one door to what it keeps private.

For what no answer of it shows, and for the test before to be forgotten.
"""
# Nobody else of the tests reaches through an `Application`: what it is made of may change here.
# ruff: noqa: SLF001

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from proxy.app import Application
from proxy.recording.recorder import Recorder
from proxy.relay.admission import Access
from proxy.relay.context import RelayContext
from proxy.store.database import Database
from proxy.store.lane_minutes import Names


def database(app: Application | None) -> Database:
    assert app is not None
    return app._database


def recorder(app: Application | None) -> Recorder:
    assert app is not None
    return app._recorder


def access(app: Application | None) -> Access:
    assert app is not None
    return app._access


def relaying(app: Application | None) -> RelayContext:
    assert app is not None
    return app._relay.context


def features(app: Application) -> Sequence[Any]:
    return app._features


def calls_under_way(app: Application | None, rollout_id: str) -> int:
    """Count the calls of a rollout that have begun, those that wait for a limit among them."""
    return len(relaying(app).live._by_rollout.get(rollout_id, ()))


def beat(app: Application) -> None:
    """Read and write the heartbeat at once, as is done every five seconds."""
    app._heartbeat.beat()


def quiet(app: Application | None, *, patience_s: float) -> None:
    """Wait until no call of the test before is under way or unwritten."""
    deadline = time.monotonic() + patience_s
    while recorder(app).in_flight or recorder(app).waiting:
        assert time.monotonic() < deadline, "a call of the test before does not end"
        time.sleep(0.005)


def forget(app: Application | None) -> None:
    """Forget what the process remembers of rows that are gone."""
    assert app is not None
    app._database.calls.forget_rollouts()
    app._database.lane_minutes._registered = (0.0, Names(frozenset(), frozenset()))
    app._access._states.clear()
    service = app.control_plane().service
    service.exclusions.clear()
    service.statuses.clear()
