"""The database is full, locked, read-only or broken: agents are served, and nothing is made up."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from proxy.server.serve import _prepare
from proxy.settings import Settings, load
from tests.proxy.api.test_routes import Service, serving

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


def wait_until_ready(service: Service, timeout_s: float = 300) -> None:
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
        wait_until_ready(service)  # all is imported: in `read_only` nobody may read the modules
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


def prepare(settings: Settings) -> str | None:
    """What a start says of an earlier database."""
    said, _ = _prepare(settings)
    return said


@pytest.mark.slow
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


def test_a_database_that_is_deleted_is_missed_and_not_forgotten_in_silence(tmp_path: Path) -> None:
    database, note = tmp_path / "t.db", tmp_path / "t.db.deleted"
    with serving(tmp_path) as service:
        for rollout in ("before", "during"):
            assert service.call(rollout).status_code == 200
        assert service.get("/rollouts/during/verdict")["health"] == "healthy"
        for file in tmp_path.glob("t.db*"):
            file.unlink()
        durations_of(CALLS, service, "during")
        told = ready(service)
        assert (told["status"], told["database"], told["recorder"]) == ("not_ready", False, False)
        assert told["waiting"] >= CALLS
        assert service.http.get("/readyz").status_code == 503
        assert service.get("/rollouts/during/verdict")["health"] == "undecided"
        assert service.http.get("/rollouts/before/verdict").status_code == 503
        assert not database.exists(), "an empty one in its place would look as if nothing was lost"
        assert note.exists()
    assert len(list(tmp_path.glob("*.spill"))) == 1
    settings = load({"database_url": str(database)}, {})
    sentence = prepare(settings)
    assert sentence is not None and sentence.startswith("the database was deleted under the")
    assert sentence.endswith("what it held is lost")
    assert prepare(settings) is None, "said once"
    with serving(tmp_path) as service:
        verdict = service.get("/rollouts/during/verdict")
        assert (verdict["health"], verdict["total_requests"]) == ("undecided", CALLS)
        assert service.call("after").status_code == 200
        assert service.get("/rollouts/after/verdict")["health"] == "healthy"


def test_a_database_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    database, aside = tmp_path / "t.db", tmp_path / "aside.db"
    with serving(tmp_path) as service:
        assert service.call("r1").status_code == 200
        database.rename(aside)
        assert service.call("r1").status_code == 200
        assert ready(service)["status"] == "not_ready"
        aside.rename(database)
        wait_until_ready(service)
        verdict = service.get("/rollouts/r1/verdict")
        assert (verdict["health"], verdict["total_requests"]) == ("healthy", 2)
    sentence = prepare(load({"database_url": str(database)}, {}))
    assert sentence is not None and sentence.endswith("it is back")


def test_a_new_database_beside_a_spill_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.db.w1.spill").write_text("")
    sentence = prepare(load({"database_url": str(tmp_path / "t.db")}, {}))
    assert sentence == (
        "the database is new, but a spill file is there: what an earlier one held is lost"
    )
