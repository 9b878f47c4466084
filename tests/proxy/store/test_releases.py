"""Databases and archives that released versions wrote, opened by today's.

`releases/` holds what the services of 0.1.0 and 0.2.0 (commits 42555dbc and 820329ec) left after
the same rollouts: the database as SQL text, its secrets replaced, and what `truezero export --full`
made of it.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proxy.features.exports.rows import BEFORE_STANDS_ON, carried_evidence
from proxy.store.database import Database
from proxy.store.migrations import HEAD
from tests.features.exports.archives import exported, imported, records_of
from tests.proxy.api.test_routes import Service, serving

RELEASES = Path(__file__).parent / "releases"
SCHEMAS = {"0.1.0": "0002", "0.2.0": "0023"}
ENDED = {"solved": 1.0, "zero": 0.0, "dead": None, "passed-dead": None, "silent": None}
GONE = {"drifts", *BEFORE_STANDS_ON}  # the first was null in all of them
# Facts that neither captured.
NEW = {"rollout": ("reward_range", "client_cache"), "verdict": ("unearned",)}


class Release(NamedTuple):
    """A release's database, archive and the verdicts in it, by rollout."""

    version: str
    file: Path
    archive: bytes
    verdicts: dict[str, Any]


@pytest.fixture(params=SCHEMAS)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    file, version = tmp_path / "t.db", request.param
    with closing(sqlite3.connect(file)) as raw:
        raw.executescript((RELEASES / f"{version}.sql").read_text("utf-8"))
    archive = (RELEASES / f"{version}.jsonl").read_bytes()
    verdicts = {each["rollout_id"]: each for each in records_of(archive, "verdict")}
    return Release(version, file, archive, verdicts)


def test_a_database_of_a_release_opens_and_is_exported_as_it_was(release: Release) -> None:
    database = Database(str(release.file))
    assert database.prepare() == (SCHEMAS[release.version], HEAD)
    database.close()
    whole = exported(str(release.file))
    for kind in ("rollout", "exchange", "verdict", "breaker"):
        then, now = records_of(release.archive, kind), records_of(whole, kind)
        assert len(now) == len(then) > 0, kind
        for before, after in zip(then, now, strict=True):
            assert kept_of(after, before)
            assert [after[name] for name in NEW.get(kind, ())] == [None] * len(NEW.get(kind, ()))


def test_an_archive_of_a_release_is_imported_and_exported_again(
    release: Release, database_url: str, tmp_path: Path
) -> None:
    url = database_url if "://" in database_url else str(tmp_path / "new.db")
    taken = imported(url, release.archive)
    assert taken.added["rollout"] == len(ENDED) + 1
    assert not taken.refused
    assert imported(url, release.archive).unchanged
    first = exported(url)
    other = str(tmp_path / "other.db")
    imported(other, first)
    assert exported(other) == first
    for kind in ("rollout", "exchange", "verdict"):
        for before, after in zip(
            records_of(release.archive, kind), records_of(first, kind), strict=True
        ):
            assert kept_of(after, before)


def kept_of(after: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a record says what a release's said, what verdicts stood on in one field of its."""
    said = {name: each for name, each in before.items() if name not in GONE}
    assert {name: after.get(name) for name in said} == said
    assert before.keys() - after.keys() <= GONE
    return after.get("stands_on") == carried_evidence(before)


@pytest.mark.slow
def test_a_service_goes_on_with_a_database_of_a_release(release: Release, tmp_path: Path) -> None:
    with serving(tmp_path, DATABASE_URL=str(release.file)) as service:
        is_answered_as_before(service, release)
        goes_on(service)


@pytest.mark.slow
def test_a_service_goes_on_with_an_archive_of_a_release(
    release: Release, database_url: str, tmp_path: Path
) -> None:
    release.file.unlink()
    imported(database_url, release.archive)
    with serving(tmp_path, DATABASE_URL=database_url) as service:
        is_answered_as_before(service, release)


def is_answered_as_before(service: Service, release: Release) -> None:
    """Each final verdict is as it was stored, and nothing of it is found anew."""
    for name, reward in ENDED.items():
        verdict, result = (
            service.get(f"/rollouts/{name}/{each}") for each in ("verdict", "result")
        )
        kept = json.loads(release.verdicts[name]["verdict"])
        assert {key: verdict[key] for key in kept} == kept
        assert (result["rewards"] or {}).get("reward") == reward
        assert "unearned" not in {each["check"] for each in verdict["validity"]}
    listed = service.get("/rollouts", batch="old")["items"]
    assert {item["id"] for item in listed} == {*ENDED, "running"}
    assert service.get("/rollouts", unearned="true")["items"] == []
    assert service.get("/batches/old")["rollouts"] == len(listed)
    assert service.get("/batches/old")["unearned"] == 0
    assert service.get("/batches/old/check")["valid"] is False


def goes_on(service: Service) -> None:
    """What ran goes on by today's rules, and registering alike again is harmless."""
    same = {"id": "running", "batch": "old", "task": "running", "model": "gpt-5"}
    assert service.http.post("/rollouts", json=same).status_code == 201
    other = {**same, "id": "late", "reward_range": [0, 1]}
    assert service.http.post("/rollouts", json=other).status_code == 409, "begun without one"
    service.call("running")
    passed = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    for name, found in (("running", []), ("unasked", ["unearned"])):
        told = service.http.post(
            f"/rollouts/{name}/outcome", json={**passed, "batch": "old"}
        ).json()
        assert [each["check"] for each in told["validity"]] == found, name
    assert service.get("/batches/old")["unearned"] == 1
