"""Data is kept, moved and upgraded under services as they run, and none of it is lost."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from proxy.store.migrations import HEAD
from tests import forked
from tests.fakes.provider import Provider
from tests.journeys.service import ROOT, Service
from tests.proxy.filled import NAMES
from tests.proxy.store.migrations.test_migrations import EVER, held, made
from tests.waiting import until

CHAT = "/v1/chat/completions"
ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]}


def truezero(*words: str) -> None:
    done = forked.run(*words, cwd=ROOT, env=os.environ)
    assert done.returncode == 0, done.stderr


@contextmanager
def agents(service: Service, count: int) -> Iterator[list[str]]:
    """Agents that call without a pause until the service dies; ids of calls they saw finished."""
    finished: list[str] = []
    enough = threading.Event()

    def agent(name: str) -> None:
        with suppress(httpx.TransportError), httpx.Client(timeout=60) as client:
            while not enough.is_set():
                answer = client.post(service.base(name, "openai") + CHAT, json=ASK)
                finished.append(answer.headers["x-truezero-exchange"])

    threads = [threading.Thread(target=agent, args=(f"r{n}",)) for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield finished
    finally:
        enough.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
def test_a_backup_under_load_is_sound_and_holds_all_that_was_finished(
    provider: Provider, tmp_path: Path
) -> None:
    went_on = 0
    with Service(tmp_path, provider.url) as service, agents(service, 4) as finished:
        for number in range(3):
            enough = len(finished) + 30
            until(lambda: len(finished) >= enough)  # noqa: B023  asked at once
            before = list(finished)
            file = tmp_path / f"kept{number}.db"
            truezero("db", "backup", str(file), "--database", str(service.database))
            went_on += len(finished) - len(before)
            with closing(sqlite3.connect(file)) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                kept = {row[0] for row in raw.execute("SELECT id FROM exchanges")}
            assert set(before) <= kept
    assert went_on > 0, "agents were held up"


def restoring() -> tuple[list[str], str]:
    """The command that the page has the service's container run, and the file that it reads."""
    page = (ROOT / "docs/guides/self-hosting.md").read_text("utf-8")
    shown = re.search(r"<!-- restore -->\n```sh\n(.*?)```", page, re.DOTALL)
    assert shown is not None, "docs/guides/self-hosting.md shows how nothing is restored"
    stop, run, start = shown[1].replace("\\\n", " ").splitlines()
    assert (stop, start) == ("docker compose stop", "docker compose start")
    command, _, given = run.partition(" < ")
    words = shlex.split(command)
    at = words.index("--entrypoint")
    assert words[at + 2] == "truezero"  # the service of docker-compose.yml
    return [words[at + 1], *words[at + 3 :]], given


@pytest.mark.slow
def test_what_the_page_runs_in_the_container_restores_its_backup(
    provider: Provider, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    kept = {"DATABASE_URL": str(data / "truezero.db")}
    restore, backup = restoring()
    with Service(data, provider.url, **kept) as service:
        service.register(id="before")
        truezero("db", "backup", str(tmp_path / backup), "--database", kept["DATABASE_URL"])
        service.register(id="after")
    with (tmp_path / backup).open("rb") as given:
        subprocess.run(restore, cwd=data, stdin=given, check=True)
    with Service(data, provider.url, **kept) as service:
        assert service.verdict("before")["rollout_id"] == "before"
        assert service.http.get("/rollouts/after/verdict").status_code == 404
    assert (data / "truezero.db").stat().st_mode & 0o077 == 0, "it holds secrets"
    assert (data / "replaced" / "truezero.db").exists()


@pytest.mark.parametrize(
    "schema",
    [*(pytest.param(each, marks=pytest.mark.slow) for each in EVER[:-1]), EVER[-1]],
)
def test_a_database_of_an_earlier_version_is_upgraded_at_start_and_served(
    provider: Provider, tmp_path: Path, schema: str
) -> None:
    old = made(tmp_path / "journeys.db", schema)
    with closing(sqlite3.connect(old)) as raw:
        names = sorted(name for (name,) in raw.execute("SELECT id FROM rollouts"))
    with Service(tmp_path, provider.url) as service:
        listed = [item["id"] for item in service.get("/rollouts", limit="50")["items"]]
        assert sorted(listed) == names
        assert len(names) == len(NAMES)
        assert service.verdict("é")["total_requests"] == 3
        assert httpx.post(service.base("new", "openai") + CHAT, json=ASK, timeout=60).is_success
        assert service.verdict("new")["health"] == "healthy"
    with closing(sqlite3.connect(service.database)) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchone() == (HEAD,)
    assert len(held(service.database)["rollouts"]) == len(NAMES) + 1


@pytest.mark.postgres_smoke
def test_what_was_measured_moves_to_postgresql_by_an_archive(
    provider: Provider, tmp_path: Path, postgres_url: str
) -> None:
    def measure(service: Service, rollout: str) -> str:
        key = str(service.register(id=rollout, batch="b", task=rollout)["key"])
        assert call(service, key).is_success
        service.outcome(rollout, status="success", rewards={"reward": 0.0})
        return key

    def call(service: Service, key: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(f"{service.url}/openai{CHAT}", json=ASK, headers=headers, timeout=60)

    def held(service: Service) -> tuple[object, ...]:
        batch = service.get("/batches/b")
        figures = [batch[name] for name in ("score_all", "coverage", "zeros", "health")]
        return service.verdict("one"), service.exchanges("one"), figures

    archive = tmp_path / "all.jsonl"
    with Service(tmp_path, provider.url, KEY_OPENAI="sk-ours") as service:
        key = measure(service, "one")
        before = held(service)
    database = str(service.database)
    truezero("export", "--full", "--database", database, "--out", str(archive))
    truezero("import", str(archive), "--database", postgres_url)
    truezero("export", "--full", "--database", postgres_url, "--out", f"{archive}.again")
    assert Path(f"{archive}.again").read_bytes() == archive.read_bytes()
    with Service(
        tmp_path, provider.url, KEY_OPENAI="sk-ours", DATABASE_URL=postgres_url
    ) as service:
        assert held(service) == before
        assert not call(service, key).is_success, "the secret that signed it stayed behind"
        measure(service, "two")
        assert service.get("/batches/b")["zeros"]["reported"] == 2
