"""A batch is counted when somebody looks and it has changed: not before, and not more often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.control import batches, dashboard, queries
from proxy.control.queries import Service
from proxy.store.database import Database
from proxy.store.tables import Registration
from tests.fakes.control import control_over
from tests.proxy.api.test_routes import Service as Running
from tests.proxy.store.test_verdicts import verdict
from tests.proxy.web.test_pages import play


class Clock:
    """A time that only a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    opened.prepare()
    yield opened
    opened.close()


@pytest.fixture
def service(database: Database, clock: Clock) -> Service:
    return control_over(database, now=clock)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The batches that were counted, in their order."""
    names: list[str] = []
    real = batches._read  # noqa: SLF001  readings are counted

    def read(service: Service, batch: str) -> Any:
        names.append(batch)
        return real(service, batch)

    monkeypatch.setattr(batches, "_read", read)
    return names


@pytest.fixture
def costing(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Have what is computed cost so many CPU seconds."""

    def costs(cpu_s: float) -> None:
        monkeypatch.setattr(queries, "_timed", lambda work, *given: (work(*given), cpu_s))

    return costs


def end(database: Database, name: str, *, batch: str = "b", reward: float = 1.0) -> None:
    database.rollouts.register(Registration(id=name, batch=batch, task=name), now=1.0)
    database.verdicts.store(
        verdict(name, batch=batch, health="healthy", scoreable="yes", reward=reward)
    )


async def test_a_batch_that_has_not_changed_is_not_counted_again(
    service: Service, database: Database, counted: list[str]
) -> None:
    for batch in ("b", "c"):
        end(database, f"r-{batch}", batch=batch)
    for _ in range(3):
        await batches.batch_list(service)
        await batches.summary(service, "b")
        await batches.check(service, "b")
        await batches.overview(service, "b")
        assert await batches.mean_scores(service, ["b", "c", "nobody"]) == {"b": 1.0, "c": 1.0}
        await dashboard.batch_page(service)
    assert sorted(counted) == ["b", "c"]
    end(database, "r2", reward=0.0)
    assert (await batches.summary(service, "b"))["score_effective"] == 0.5
    items = (await batches.batch_list(service))["items"]
    assert {item["batch"]: item["rollouts"] for item in items} == {"b": 2, "c": 1}
    assert counted[2:] == ["b"]


async def test_what_costs_little_is_counted_with_each_change(
    service: Service, database: Database, costing: Callable[[float], None]
) -> None:
    costing(0.09)
    for number in range(3):
        end(database, f"r{number}")
        assert (await batches.summary(service, "b"))["rollouts"] == number + 1


async def test_what_costs_much_is_counted_once_in_twenty_times_its_cost(
    service: Service, database: Database, clock: Clock, costing: Callable[[float], None]
) -> None:
    costing(0.5)
    end(database, "r1")
    first = await batches.summary(service, "b")
    assert (first["rollouts"], first["as_of"]) == (1, 1000.0)
    end(database, "r2")
    clock.now += 9.9
    told = await batches.overview(service, "b")
    assert (told["summary"]["rollouts"], told["summary"]["as_of"]) == (1, 1000.0)
    clock.now += 0.1
    later = await batches.summary(service, "b")
    assert (later["rollouts"], later["as_of"]) == (2, 1010.0)


def test_a_runner_is_told_of_a_batch_as_it_is_now(
    on_both: Callable[..., Running], costing: Callable[[float], None]
) -> None:
    costing(60.0)
    running = on_both()
    for number in range(1, 3):
        play(running, f"r{number}", reward=1.0)
        assert running.get("/batches/b")["rollouts"] == number


async def test_a_check_is_of_what_is_there_now(
    service: Service, database: Database, costing: Callable[[float], None]
) -> None:
    costing(60.0)
    end(database, "r1")
    assert (await batches.check(service, "b"))["valid"]
    database.rollouts.register(Registration(id="r2", batch="b", task="t"), now=2.0)
    database.verdicts.store(verdict("r2", health="healthy", scoreable="unknown", provisional=True))
    assert (await batches.check(service, "b"))["lines_total"] == 1
    assert (await batches.summary(service, "b"))["rollouts"] == 2, "what it counted is kept"


async def test_a_batch_of_the_same_name_that_is_made_anew_is_another(
    service: Service, database: Database, costing: Callable[[float], None]
) -> None:
    costing(60.0)
    end(database, "r1")
    assert (await batches.summary(service, "b"))["rollouts"] == 1

    def remade(connection: Any) -> None:
        for table in ("rollouts", "verdicts", "batches", "unjudged"):
            connection.exec_driver_sql(f"DELETE FROM {table}")

    database.change(remade)
    database.rollouts.register(Registration(id="r9", batch="b"), now=7.0)
    database.verdicts.store(verdict("r9", health="healthy", scoreable="yes", reward=0.0))
    assert (await batches.summary(service, "b"))["score_effective"] == 0.0


async def test_two_replicas_see_each_others_changes(database_url: str) -> None:
    first, second = Database(database_url), Database(database_url)
    first.prepare()
    replicas = [control_over(first), control_over(second)]
    end(first, "r0")
    for number, writer in enumerate((second, first, second), start=1):
        told = [await batches.summary(each, "b") for each in replicas]
        assert [each["rollouts"] for each in told] == [number, number]
        end(writer, f"r{number}", reward=0.0)
        checks = [await batches.check(each, "b") for each in replicas]
        assert checks[0] == checks[1]
        totals = [await batches.task_totals(each, "b") for each in replicas]
        assert len(totals[0]) == len(totals[1]) == number + 1
    for database in (first, second):
        database.close()
