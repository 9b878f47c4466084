"""What a rollout's life costs is compared inside a round, and each step is taken once a number."""

from __future__ import annotations

import pytest

from benchmarks import life, machine
from benchmarks.life import CALL, PLAIN, REGISTRATION, REPORT
from benchmarks.run import build_tools
from benchmarks.subjects import ROOT, Stage
from proxy.store.database import Database
from tests.proxy.control.test_statements import REGISTRATION as REGISTRATION_STATEMENTS
from tests.proxy.control.test_statements import REPORT as REPORT_STATEMENTS


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
