"""How many statements a registration and a report take, of the threads that serve them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.proxy.api.test_routes import Service

# Of SQLite. PostgreSQL has its locks and, of a rollout, a look at its batch beside them.
REGISTRATION, REPORT = 6, 17


@pytest.fixture
def said() -> Iterator[list[str]]:
    """The statements that are heard, begins and ends of transactions aside."""
    statements: list[str] = []

    def hears(*heard: Any) -> None:
        if "FROM workers) AS" not in heard[2] and not heard[2].startswith("BEGIN"):
            statements.append(heard[2])

    event.listen(Engine, "before_cursor_execute", hears)
    yield statements
    event.remove(Engine, "before_cursor_execute", hears)


@pytest.fixture(autouse=True)
def nothing_is_asked_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_HEARTBEAT_S", "_AMONG_OTHERS_S", "_ALONE_S"):
        monkeypatch.setattr(f"proxy.server.background.{name}", 3600.0)


def test_a_registration_and_a_report_take_few_statements(
    said: list[str], request: pytest.FixtureRequest
) -> None:
    service: Service = request.getfixturevalue("services")()
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 1.0}}
    for number in range(3):  # the first of a batch makes more
        placed = {"id": f"r{number}", "batch": "b", "task": "t", "repeat": number}
        said.clear()
        assert service.http.post("/rollouts", json=placed).status_code == 201
        registration = list(said)
        service.call(f"r{number}")
        said.clear()
        assert service.http.post(f"/rollouts/r{number}/outcome", json=seen).status_code == 200
        report = list(said)
    assert len(registration) == REGISTRATION, registration
    assert len(report) == REPORT, report
