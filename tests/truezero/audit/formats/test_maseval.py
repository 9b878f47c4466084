from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.audit.copies import check_copy
from tests.truezero.audit.harnesses import dump_lines, maseval_report
from tests.truezero.audit.scenarios import FAILURES, Scenario
from truezero.audit.formats.maseval import MASEVAL
from truezero.audit.report import audit
from truezero.audit.runs import FinishedRun

RUN = Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)
DEAD = Scenario(kind="k", number=1, calls=(FAILURES["auth"][0],), reward=0.0, failed=True)


def read(folder: Path, *reports: dict[str, Any]) -> list[FinishedRun]:
    dump_lines(folder / "benchmark_1.jsonl", reports)
    return [run for run in MASEVAL.read(folder) if isinstance(run, FinishedRun)]


def test_a_copy_is_as_the_callback_would_have_left_it(tmp_path: Path) -> None:
    copy = check_copy("maseval", tmp_path)
    reports = [json.loads(line) for line in (copy / "benchmark.jsonl").read_text().splitlines()]
    marked = [each for each in reports if "truezero" in each["traces"]]
    assert marked
    for each in marked:
        assert each["eval"] is None
        assert each["status"] in ("environment_error", "unknown_execution_error")
        assert each["error"]["error_message"]


# (eval, reward)
RESULTS: tuple[tuple[object, float | None], ...] = (
    ([{"score": 0.5}], 0.5),
    ([{"passed": True, "note": "x"}], 1.0),
    ({"accuracy": 0.25}, 0.25),
    ([{"gtfa": 1.0}], 1.0),
    ([{"a": 1.0, "b": 0.0}], None),
    ([], None),
    (None, None),
    ("free text", None),
)


def test_the_one_score_of_an_evaluation_is_its_reward(tmp_path: Path) -> None:
    runs = read(tmp_path, *({**maseval_report(RUN, adapted=True), "eval": e} for e, _ in RESULTS))
    assert [run.reward for run in runs] == [reward for _, reward in RESULTS]


def test_repeats_are_repeats(tmp_path: Path) -> None:
    reports = ({**maseval_report(RUN, adapted=True), "repeat_idx": n} for n in (0, 1))
    assert [(run.task, run.repeat, run.attempt) for run in read(tmp_path, *reports)] == [
        ("k-1", 0, 0),
        ("k-1", 1, 0),
    ]


@pytest.mark.parametrize(
    ("name", "role"), [("main", "agent"), ("user_simulator", "user"), ("judge", "user")]
)
def test_a_simulators_model_is_not_the_agents(tmp_path: Path, name: str, role: str) -> None:
    report = maseval_report(DEAD, adapted=True)
    models = report["traces"]["models"]
    models[name] = models.pop("main")
    [run] = read(tmp_path, report)
    assert [call.role for call in run.calls or ()] == [role]


def test_a_log_without_traces_keeps_no_calls(tmp_path: Path) -> None:
    report = maseval_report(RUN, adapted=True)
    del report["traces"], report["usage"]
    [run] = read(tmp_path, report)
    assert (run.calls, run.tokens, run.unknown) == (None, None, ("calls",))
    assert audit(tmp_path).runs[0].verdict.health.value == "undecided"


def test_metadata_and_other_lines_beside_the_results_are_left_out(tmp_path: Path) -> None:
    dump_lines(tmp_path / "other.jsonl", [{"x": 1}])
    assert len(read(tmp_path, maseval_report(RUN, adapted=True))) == 1
