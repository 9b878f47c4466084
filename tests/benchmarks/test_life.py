"""What a rollout's life costs is compared inside a round, and each step is taken once a number."""

from __future__ import annotations

import pytest

from benchmarks import life, machine
from benchmarks.life import CALL, PLAIN, REGISTRATION, REPORT, Spent
from benchmarks.run import build_tools
from benchmarks.subjects import ROOT, Stage
from proxy.store.database import Database
from tests.proxy.control.test_statements import REGISTRATION as REGISTRATION_STATEMENTS
from tests.proxy.control.test_statements import REPORT as REPORT_STATEMENTS


def _round(plain: float, registration: float, report: float) -> dict[str, Spent]:
    spent = {PLAIN: plain, REGISTRATION: registration, CALL: plain, REPORT: report}
    return {step: Spent(service_us=us, server_us=0.0) for step, us in spent.items()}


def test_a_step_is_compared_with_a_plain_call_of_its_own_round() -> None:
    rounds = [_round(100, 150, 500), _round(400, 800, 2000), _round(100, 180, 700)]
    assert life.multiple(rounds, REGISTRATION, lambda spent: spent.service_us) == 1.8
    assert life.multiple(rounds, REPORT, lambda spent: spent.service_us) == 5.0


def test_the_table_shows_statements_of_this_code_only() -> None:
    counts = {"SQLite": {PLAIN: 0, REGISTRATION: 7, CALL: 0, REPORT: 31}}
    beside = ROOT / "elsewhere"
    rounds = [_round(100, 150, 500)]
    rows = life.table(counts, {("SQLite", ROOT): rounds, ("SQLite", beside): rounds})
    assert "| SQLite | report | 31 | 5.00 | 500 | – |" in rows
    assert f"| SQLite, {beside} | report | – | 5.00 | 500 | – |" in rows


@pytest.mark.slow
def test_a_life_is_counted_and_measured(tmp_path_factory: pytest.TempPathFactory) -> None:
    tools, port = build_tools(), machine.free_port()
    file = str(tmp_path_factory.mktemp("life") / "t.db")
    Database(file).prepare()
    with machine.running([tools / "provider", str(port)], core=None) as provider:
        machine.wait_for_port(port, provider)
        counts = life.count_statements(file, port)
        stage = Stage(provider_port=port, patience_s=60)
        measured = life.measure(stage, [ROOT], rounds=1, rollouts=3)
    assert counts == {
        PLAIN: 0, REGISTRATION: REGISTRATION_STATEMENTS["sqlite"], CALL: 0,
        REPORT: REPORT_STATEMENTS["sqlite"],
    }  # fmt: skip
    (spent,) = measured["SQLite", ROOT]
    assert all(spent[step].service_us > 0 for step in life.STEPS)
