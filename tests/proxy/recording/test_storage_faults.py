"""The database is full, locked, read-only or broken: agents are served, and nothing is made up."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from classifier.records import Ending, Exchange, Timing
from proxy.recording.failover import recover
from proxy.recording.recorder import Recorder
from proxy.recording.spill import SpillFile, left_behind
from proxy.server import heartbeat
from proxy.store.database import Database
from tests.proxy.api.test_routes import Service, serving
from tests.proxy.store.records import FULL

CALLS = 15
NOBODY = 65534


@contextlib.contextmanager
def locked(database: Path, service: Service) -> Iterator[None]:
    """Another process has taken the file for itself."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert service.call("during").status_code == 200
        yield


@contextlib.contextmanager
def full(database: Path, service: Service) -> Iterator[None]:
    """Not a byte is left on the disk, nor won by writing the log back: somebody reads it."""
    filler = database.with_name("filler")
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM rollouts").fetchone()
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        assert service.call("during").status_code == 200
        yield
        filler.unlink()


@contextlib.contextmanager
def read_only(database: Path, service: Service) -> Iterator[None]:
    """Nobody may write the file any more; what is open already may, so it is locked first."""
    files = [database, *database.parent.glob(f"{database.name}-*")]
    user = os.geteuid()
    with locked(database, service):
        for file in files:
            file.chmod(0o444)
        if user == 0:
            os.seteuid(NOBODY)
        time.sleep(1.5)  # until the service has tried, and looked at the file anew
    try:
        yield
    finally:
        os.seteuid(user)
        for file in files:
            file.chmod(0o644)


@contextlib.contextmanager
def broken(database: Path, service: Service) -> Iterator[None]:
    """The file holds garbage, until somebody moves it out of the way."""
    files = [database, *database.parent.glob(f"{database.name}-wal")]
    for file in files:
        with file.open("r+b") as garbled:
            garbled.write(os.urandom(file.stat().st_size))
    assert ready(service)["database"] is False
    assert service.call("during").status_code == 200
    yield
    for file in database.parent.glob(f"{database.name}*"):
        if not file.name.endswith(".spill"):
            file.rename(file.with_name(f"broken-{file.name}"))


FAULTS: dict[str, Callable[[Path, Service], AbstractContextManager[None]]] = {
    "locked": locked, "full": full, "read_only": read_only, "broken": broken,
}  # fmt: skip


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of two megabytes."""
    folder = Path(tempfile.mkdtemp(prefix="truezero-disk-"))
    mounted = os.geteuid() == 0 and _ran("mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder)
    try:
        if not mounted:
            pytest.skip("a small disk takes root and the right to mount one")
        yield folder
    finally:
        if mounted:
            _ran("umount", "--lazy", folder)
        shutil.rmtree(folder, ignore_errors=True)


def _ran(*command: object) -> bool:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def folder(request: pytest.FixtureRequest, fault: str) -> Iterator[Path]:
    if fault == "full":
        yield request.getfixturevalue("disk")
        return
    with tempfile.TemporaryDirectory(prefix="truezero-storage-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def ready(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.http.get("/readyz").json()
    return found


def wait_until_ready(service: Service, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while ready(service)["status"] != "ready":
        assert time.monotonic() < deadline, ready(service)
        time.sleep(0.05)


def durations_of(calls: int, service: Service, rollout: str) -> list[float]:
    """How long calls of a rollout took, in seconds; all are answered."""
    took = []
    for _ in range(calls):
        began = time.monotonic()
        assert service.call(rollout).status_code == 200
        took.append(time.monotonic() - began)
    return took


@pytest.mark.parametrize("fault", FAULTS)
def test_agents_are_served_at_once_and_nothing_is_lost(folder: Path, fault: str) -> None:
    database = folder / "t.db"
    with serving(folder) as service:
        assert service.call("before").status_code == 200
        with FAULTS[fault](database, service):
            took = durations_of(CALLS, service, "during")
            assert service.call("before").status_code == 200
            told = ready(service)
            health = [service.http.get(f"/rollouts/{r}/verdict") for r in ("during", "before")]
        # Only the first one waits, until the database is given up after 0.5 s.
        assert median(took) < 0.3, took
        assert (told["status"], told["recorder"]) == ("not_ready", False)
        assert told["waiting"] >= CALLS + 1
        assert told["gaps"] == 0
        assert [answer.json()["health"] for answer in health] == ["undecided"] * 2
        wait_until_ready(service)
        assert ready(service)["waiting"] == 0
        verdict = service.get("/rollouts/during/verdict")
        assert (verdict["health"], verdict["total_requests"]) == ("healthy", CALLS + 1)
        assert service.get("/rollouts/before/verdict")["health"] == "healthy"
    assert not list(folder.glob("*.spill"))


def test_what_was_kept_survives_the_end_of_the_process(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as other:
        with serving(tmp_path) as service:
            other.execute("BEGIN EXCLUSIVE")
            durations_of(CALLS, service, "during")
        (spill,) = tmp_path.glob("*.spill")
        assert len(spill.read_text().splitlines()) >= CALLS
        other.execute("ROLLBACK")
    with serving(tmp_path) as service:
        assert service.get("/rollouts/during/verdict")["total_requests"] == CALLS
        exchanges = service.get("/rollouts/during/exchanges")["items"]
    assert {exchange["ending"] for exchange in exchanges} == {"complete"}
    assert not list(tmp_path.glob("*.spill"))


ENDED = Exchange(
    id="x", rollout_id="r", upstream="u", api="a", timing=Timing(started_at=1.0),
    ending=Ending.COMPLETE,
)  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Database:
    opened = Database(str(tmp_path / "t.db"))
    opened.prepare()
    return opened


def recovered(database: Database) -> dict[str, Ending | None]:
    """How the exchanges ended that dead processes left behind."""
    assert database.file is not None
    for spill in left_behind(database.file):
        recover(database.calls, spill, worker="w")
        spill.close()
    found = database.rollouts.load("r")
    return {} if found is None else {each.id: each.ending for each in found[1].exchanges}


def spilling(database: Database, worker: str = "dead", **limits: int) -> SpillFile:
    assert database.file is not None
    return SpillFile(database.file.with_name(f"t.db.{worker}.spill"), **limits)


def test_a_call_whose_end_a_dead_process_did_not_keep_is_lost(database: Database) -> None:
    spill = spilling(database)
    assert spill.keep([replace(ENDED, ending=None), replace(ENDED, id="y", ending=None)])
    assert spill.keep([replace(ENDED, id="y")])
    spill.close()
    assert recovered(database) == {"x": Ending.LOST, "y": Ending.COMPLETE}


def test_a_line_that_a_process_died_over_spoils_no_other(database: Database) -> None:
    spill = spilling(database)
    spill.keep([ENDED])
    spill.close()
    (file,) = Path(database.file or "").parent.glob("*.spill")
    with file.open("ab") as lines:
        lines.write(b'{"id": "z", "rollout_id": "r", "ups')
    assert recovered(database) == {"x": Ending.COMPLETE}
    assert not file.exists()


def test_the_spill_of_a_living_process_is_left_alone(database: Database) -> None:
    spill = spilling(database, "alive")
    spill.keep([ENDED])
    assert recovered(database) == {}
    spill.close()
    assert recovered(database) == {"x": Ending.COMPLETE}


def test_a_spill_grows_to_its_limit_and_no_further(database: Database) -> None:
    spill = spilling(database, limit_bytes=3000)
    kept = 0
    while spill.keep([replace(ENDED, id=str(kept))]):
        kept += 1
    (file,) = Path(database.file or "").parent.glob("*.spill")
    assert kept > 0
    assert file.stat().st_size <= 3000
    assert [each.id for each in spill.next(100)] == [str(number) for number in range(kept)]


def test_every_fact_of_an_exchange_survives_the_spill(database: Database) -> None:
    spill = spilling(database)
    spill.keep([FULL])
    assert spill.next(10) == [FULL]


async def test_calls_that_end_while_others_are_written_back_keep_their_order(
    database: Database, tmp_path: Path
) -> None:
    """A stream is recorded at its terminal event, and again where more bytes came after it."""
    recorder = Recorder(database.calls, worker="w", spill=spilling(database, "w"))
    recorder.start()
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        for number in range(2000):
            await recorder.recorded(replace(ENDED, id=str(number)))
        other.execute("ROLLBACK")
    for number in range(2000):
        await recorder.recorded(replace(ENDED, id=str(number), response_bytes=7))
        assert recorder.missing("other") == 0
    await recorder.stop()
    found = database.rollouts.load("r")
    assert found is not None
    assert [each.response_bytes for each in found[1].exchanges] == [7] * 2000
    assert recorder.missing("r") == 0
    assert not list(tmp_path.glob("*.spill"))


def test_a_process_in_trouble_goes_on_saying_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would take it for dead, and its calls in flight for lost."""

    def no_file_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(heartbeat, "_HEARTBEAT_S", 0.05)
    with serving(tmp_path):
        monkeypatch.setattr(heartbeat, "left_behind", no_file_left)
        time.sleep(0.2)  # so that one heartbeat has met it
        at_first = _seen_at(tmp_path / "t.db")
        deadline = time.monotonic() + 60
        while _seen_at(tmp_path / "t.db") == at_first and time.monotonic() < deadline:
            time.sleep(0.05)
        assert _seen_at(tmp_path / "t.db") > at_first


def _seen_at(database: Path) -> float:
    with contextlib.closing(sqlite3.connect(database)) as connection:
        (seen_at,) = connection.execute("SELECT seen_at FROM workers").fetchone()
    return float(seen_at)
