"""The capacity model: lines through points, rollouts as they are assumed, and the first limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.capacity import (
    FULL,
    POSTGRESQL,
    SQLITE,
    Assumed,
    Costs,
    Demand,
    Deployment,
    Line,
    Points,
    call_us,
    carried,
    costs,
    enough,
    fitted,
    gb_per_day,
    simulate,
    uses,
)

FEW = Assumed(rollouts=2000, ramp_s=60, seconds=400)
DEMAND = Demand(
    calls_per_s=1000, calls_per_s_peak=1100, streams=7000, streams_peak=7500,
    begun_per_s_peak=100, ended_per_s=20,
)  # fmt: skip
COSTS = Costs(
    exchange_us=Line(base=100, slope=10), database_us=50, request_us=Line(base=100, slope=1),
    chunk_us=10, streams_mb=Line(base=10, slope=0.02), commit_ms=Line(base=1, slope=0.05),
    disk_bytes=Line(base=0, slope=300), verdict_ms=Line(base=1, slope=0.01),
    verdict_database_ms=Line(base=1, slope=0.002),
)  # fmt: skip
ALONE = Deployment(name="one", database=SQLITE)
SPREAD = Deployment(name="many", database=POSTGRESQL, processes=16, hosts=2)


def share(resource: str, on: Deployment, demand: Demand = DEMAND, costs: Costs = COSTS) -> float:
    return next(u.share for u in uses(demand, FEW, costs, on) if u.resource == resource)


# --- lines -----------------------------------------------------------------------------------


def test_a_line_goes_through_its_points() -> None:
    line = fitted([1, 2, 4], [30, 50, 90])
    assert (line.base, line.slope) == pytest.approx((10, 20))
    assert line.at(8) == pytest.approx(170)


def test_a_line_is_as_near_as_it_can_be_where_points_disagree() -> None:
    line = fitted([0, 0, 1, 1], [0, 2, 3, 5])
    assert (line.base, line.slope) == pytest.approx((1, 3))


def test_one_point_says_nothing_of_growth() -> None:
    assert fitted([4], [7]) == Line(base=7, slope=0)


def test_points_that_fall_are_no_promise_that_more_costs_less() -> None:
    assert fitted([1, 2], [9, 5]) == Line(base=7, slope=0)


def test_nothing_costs_nothing_rather_than_less() -> None:
    line = fitted([1, 10], [0.5, 10])
    assert line.base == 0
    assert line.slope > 0.9


def test_costs_are_those_of_the_database_that_is_asked_for() -> None:
    disk: dict[str, float] = {
        "exchanges": 10, "bytes": 100, "verdict_1_cpu_ms": 1, "verdict_1000_cpu_ms": 1000,
        "verdict_1_database_cpu_ms": 0, "verdict_1000_database_cpu_ms": 0,
    }  # fmt: skip
    points: Points = {
        "relay": [
            {"database": SQLITE, "workers": 1, "cpu_us": 100, "database_cpu_us": 0},
            {"database": SQLITE, "workers": 2, "cpu_us": 120, "database_cpu_us": 0},
            {"database": POSTGRESQL, "workers": 1, "cpu_us": 500, "database_cpu_us": 40},
        ],
        "requests": [{"request_kb": 1, "cpu_us": 9}],
        "chunks": [{"cpu_us": 7}],
        "streams": [{"streams": 0, "mb": 0}, {"streams": 1000, "mb": 20}],
        "commits": [{"database": name, "calls": 1, "ms": 1} for name in (SQLITE, POSTGRESQL)],
        "disk": [{"database": name, **disk} for name in (SQLITE, POSTGRESQL)],
    }  # fmt: skip
    sqlite, postgres = costs(points, SQLITE), costs(points, POSTGRESQL)
    assert sqlite.exchange_us.at(3) == pytest.approx(140)
    assert postgres.exchange_us.at(3) == 500
    assert (sqlite.database_us, postgres.database_us) == (0, 40)
    assert sqlite.verdict_ms.at(500) == pytest.approx(500)
    assert sqlite.streams_mb.slope == pytest.approx(0.02)


# --- rollouts --------------------------------------------------------------------------------


def test_rollouts_call_as_often_as_a_call_and_its_pause_take() -> None:
    found = simulate(FEW)  # Little's law: calls/s = rollouts / (think + first byte + stream)
    assert found.calls_per_s == pytest.approx(2000 / 17, rel=0.02)
    assert found.streams == pytest.approx(2000 * 7 / 17, rel=0.02)
    assert found.ended_per_s == pytest.approx(2000 / 17 / 50, rel=0.1)


def test_the_same_seed_plays_the_same_rollouts() -> None:
    assert simulate(FEW) == simulate(FEW)
    assert simulate(FEW) != simulate(replace(FEW, seed=2))


def test_rollouts_that_begin_at_once_are_the_highest_second() -> None:
    at_once = simulate(replace(FEW, ramp_s=1, seconds=60))
    assert at_once.begun_per_s_peak == 2000
    assert at_once.calls_per_s_peak >= 2000
    assert at_once.streams_peak > 1500
    assert simulate(FEW).calls_per_s_peak < 300


def test_agents_that_never_pause_always_have_a_call_open() -> None:
    busy = simulate(replace(FEW, think_s=0, seconds=60))
    assert busy.streams == pytest.approx(2000)
    assert busy.streams_peak == 2000


# --- limits ----------------------------------------------------------------------------------


def test_the_fullest_resource_comes_first() -> None:
    shares = [use.share for use in uses(DEMAND, FEW, COSTS, ALONE)]
    assert shares == sorted(shares, reverse=True)
    assert uses(DEMAND, FEW, COSTS, ALONE)[0].resource == "CPU"


def test_a_call_costs_what_its_exchange_its_size_and_its_chunks_do() -> None:
    small = replace(FEW, request_kb=0.4, chunks=0)
    assert call_us(small, COSTS, ALONE) == 110
    assert call_us(replace(small, chunks=5), COSTS, ALONE) == 160
    assert call_us(replace(small, request_kb=100.4), COSTS, ALONE) == pytest.approx(210)


def test_processes_beside_each_other_cost_no_more_than_was_measured() -> None:
    small = replace(FEW, request_kb=0.4, chunks=0)
    assert call_us(small, COSTS, replace(SPREAD, processes=4, hosts=1)) == 140
    assert call_us(small, COSTS, replace(SPREAD, processes=64, hosts=1)) == 140
    assert call_us(small, COSTS, replace(SPREAD, processes=2, hosts=2)) == 110


def test_a_stream_has_two_files_and_one_port() -> None:
    assert share("open files", ALONE) == 15_000 / 65_536
    assert share("ports", SPREAD) == 7500 / 2 / 28_232
    assert share("calls at once", ALONE) == 7500 / 20_000


def test_memory_is_that_of_processes_and_of_their_streams() -> None:
    assert share("memory", ALONE) == pytest.approx((130 + 10 + 7500 * 0.02) / 16_000)


def test_one_file_has_one_writer_however_many_processes() -> None:
    four = replace(ALONE, processes=4)
    assert share("commits", four) == share("commits", ALONE)
    assert share("commits", SPREAD) == pytest.approx(share("commits", ALONE) / 4)


def test_only_a_server_has_connections_and_cpu_of_its_own() -> None:
    asked = {use.resource for use in uses(DEMAND, FEW, COSTS, ALONE)}
    assert not asked & {"connections", "database CPU", "event lock"}
    assert share("connections", SPREAD) == 16 * 12 / 500
    assert share("event lock", SPREAD) == pytest.approx(20 / (2000 / 1.05))


def test_a_server_pays_for_verdicts_too() -> None:
    none = replace(DEMAND, ended_per_s=0)
    assert share("database CPU", SPREAD, none) == pytest.approx(0.05 / 16)
    assert share("database CPU", SPREAD) == pytest.approx((0.05 + 40 * 1.1 / 1000) / 16)


def test_what_is_half_full_carries_as_many_as_fill_it() -> None:
    use = next(u for u in uses(DEMAND, FEW, COSTS, ALONE) if u.resource == "calls at once")
    assert carried(FEW, use, share=0.75) == pytest.approx(4000)


def test_hosts_are_added_until_none_of_their_resources_is_too_full() -> None:
    many = replace(DEMAND, calls_per_s=20_000, streams_peak=150_000)
    grown = enough(many, FEW, COSTS, replace(SPREAD, name="grown"))
    service = ("CPU", "ports", "calls at once", "open files", "memory", "network", "registrations")
    assert max(share(name, grown, many) for name in service) <= FULL
    fewer = replace(grown, hosts=grown.hosts - 1, processes=grown.processes - 8)
    assert max(share(name, fewer, many) for name in service) > FULL


def test_a_day_takes_as_many_bytes_as_it_has_exchanges() -> None:
    assert gb_per_day(DEMAND, COSTS) == pytest.approx(1000 * 86_400 * 300 / 1e9)
