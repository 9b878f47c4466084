"""How many statements a registration and a report take, of the threads that serve them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.server.background import Heartbeat
from tests.proxy import inside
from tests.proxy.api.test_routes import Service
from tests.statements import hearing

# PostgreSQL's are its locks, and a look at the batch of a rollout before that is locked.
REGISTRATION = {"sqlite": 6, "postgresql": 6 + 2}
REPORT = {"sqlite": 15, "postgresql": 15 + 3}
OF_A_GROUP = 3  # more of a report whose rollout may settle one


@pytest.fixture(autouse=True)
def nothing_is_asked_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeat, "beat", lambda _: None)  # of a service that sleeps until one
    for name in ("_AMONG_OTHERS_S", "_ALONE_S"):
        monkeypatch.setattr(f"proxy.server.background.{name}", 3600.0)
    monkeypatch.setattr("proxy.asking.ways._SOON_S", 3600.0)


@pytest.mark.parametrize("repeats", [None, 9], ids=["alone", "of a group"])
def test_a_registration_and_a_report_take_few_statements(
    repeats: int | None, on_both: Callable[..., Service]
) -> None:
    service = on_both()
    said: list[str] = []

    def hears(*heard: Any) -> None:  # begins of transactions aside
        if "FROM workers) AS" not in heard[2] and not heard[2].startswith("BEGIN"):
            said.append(heard[2])

    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    with hearing(inside.database(service.app), hears):
        for number in range(3):  # the first of a batch makes more
            placed = {"id": f"r{number}", "batch": "b", "task": "t", "repeat": number}
            said.clear()
            registered = service.http.post("/rollouts", json=placed | {"repeats": repeats})
            assert registered.status_code == 201
            registration = list(said)
            service.call(f"r{number}")
            said.clear()
            assert service.http.post(f"/rollouts/r{number}/outcome", json=seen).status_code == 200
            report = list(said)
    database = "postgresql" if "://" in service.database else "sqlite"
    assert len(registration) == REGISTRATION[database], registration
    assert len(report) == REPORT[database] + (OF_A_GROUP if repeats else 0), report
