"""Attacks on what is stored. The last one leaves nothing to attack."""

from __future__ import annotations

import contextlib
import sqlite3
import time

from tests.arena.arena import TOKEN
from tests.arena.world import OPERATOR
from tests.attack.claims import claim
from tests.attack.stage import BOGUS, Stage


@claim("no key, token or prompt is in the database or the log")
def secrets_at_rest(stage: Stage) -> None:
    rollout = stage.rollout()
    stage.chat(
        rollout, body=b'{"model":"gpt-5","messages":[{"role":"user","content":"my-prompt"}]}'
    )
    stage.call(f"{rollout.path}/mistral/v1/chat/completions?key={BOGUS}", f"x-api-key: {BOGUS}")
    secret = rollout.path.rpartition("~")[2]
    with contextlib.closing(sqlite3.connect(stage.service.database)) as database:
        stored = "\n".join(database.iterdump())
    assert rollout.id in stored
    for text in (BOGUS, OPERATOR, TOKEN, rollout.key, secret, "my-prompt"):
        assert text not in stored and text not in stage.service.log(), text


@claim("a database that is deleted is noticed: not ready, undecided, and no new one in silence")
def deleted_database(stage: Stage) -> None:
    rollout = stage.rollout()
    stage.chat(rollout)
    for file in stage.service.home.glob("journeys.db*"):
        if file.suffix in (".db", ".db-wal", ".db-shm"):
            file.unlink()
    deadline = time.monotonic() + 300
    while stage.service.http.get("/readyz").status_code != 503:
        assert time.monotonic() < deadline, "it calls itself ready"
        time.sleep(0.02)
    stage.chat(rollout)
    answer = stage.service.http.get(f"/rollouts/{rollout.id}/verdict")
    assert answer.status_code == 503 or answer.json()["health"] == "undecided", answer.text
    assert not stage.service.database.exists()
