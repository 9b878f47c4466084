"""Who is the probe of a lane that is down: one of all that ask, in whatever process."""

from __future__ import annotations

import threading
from dataclasses import replace

from classifier.lane import Silence, State, TurnTaken, turn
from classifier.records import Kind, Timing
from proxy.store.database import Database
from proxy.store.tables import CommitBatch
from tests.proxy.store.records import BARE

DOWN = Silence(since=100.0, last=100.0, failed=4, cause="provider_error")


def decide(now: float, probed_at: float | None) -> TurnTaken:
    return turn(DOWN, pending=0, probed_at=probed_at, now=now, drawn=1.0)


def take(database: Database, model: str | None, now: float) -> State:
    probes = database.lane_probes
    return probes.take("openai", model, lambda at: decide(now, at), now=now).state


def test_one_of_all_that_ask_is_the_probe_of_its_lane(database: Database) -> None:
    assert take(database, "gpt-5", 100.5) is State.WAITING
    assert take(database, "gpt-5", 101.0) is State.PROBING
    assert take(database, "openai/GPT-5", 101.5) is State.WAITING, "the same model"
    assert take(database, "gpt-4", 101.5) is State.PROBING, "another lane"
    assert take(database, None, 101.5) is State.PROBING
    assert take(database, "gpt-5", 160.9) is State.WAITING, "nothing is heard of it"
    assert take(database, "gpt-5", 161.0) is State.PROBING


def test_of_many_that_ask_at_once_one_is_let_go(database: Database) -> None:
    found: list[State] = []
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        found.append(take(database, "gpt-5", 101.0))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [State.PROBING] + [State.WAITING] * 7


def test_calls_in_flight_that_may_be_answered_are_pending(database: Database) -> None:
    calls = [
        replace(
            BARE, id=f"x{n}", rollout_id=rollout, upstream="openai", model=model,
            kind=kind, timing=Timing(started_at=at),
        )
        for n, (rollout, model, kind, at) in enumerate((
            ("a", "gpt-5", Kind.INFERENCE, 101.0), ("a", "gpt-5", Kind.INFERENCE, 102.0),
            ("b", "openai/gpt-5", Kind.INFERENCE, 103.0), ("c", "gpt-4", Kind.INFERENCE, 103.0),
            ("d", "gpt-5", Kind.PROBE, 103.0), ("e", "gpt-5", Kind.INFERENCE, 99.0),
        ))
    ]  # fmt: skip
    database.calls.write(CommitBatch(opened=calls), worker="w")
    pending = database.lane_probes.pending
    assert pending("openai", "gpt-5", DOWN, now=104.0) == 2
    assert pending("openai", None, DOWN, now=104.0) == 3
    assert pending(None, "gpt-4", DOWN, now=104.0) == 1
    assert pending("azure", "gpt-5", DOWN, now=104.0) == 0
    assert pending("openai", "gpt-5", DOWN, now=132.5) == 1, "the others take too long"
