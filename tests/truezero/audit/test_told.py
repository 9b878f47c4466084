"""Rows of ``told/``: an error, answer, log, run, report or trace, and all that audit makes of it.

A file there has the name of its function below. A row is what the function is ``given`` and
what is ``told``, in every field that holds something.

``UPDATE_GOLDEN=1 pytest tests/truezero/audit/test_told.py`` rewrites what is told.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from classifier.codec import encode_verdict
from classifier.records import ExecutionStatus, Outcome, RolloutRecord
from classifier.verdicts import Layer
from tests import golden, tables
from tests.tables import each
from tests.truezero.audit import test_mask as traces
from tests.truezero.audit.copies import Row, changed, run_told
from truezero.audit.agent_logs import agent_log, read_log
from truezero.audit.answers import call_of, content, tokens_of
from truezero.audit.errors import client_error, failed_call, unsent
from truezero.audit.judge import Audited, audited
from truezero.audit.mask import WireVerdicts, mask, response_ids, summary
from truezero.audit.report import as_json, lines, report
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError

FOLDER = Path(__file__).with_name("told")


def known(facts: Any) -> Row:
    """Return the fields that hold something, False and 0 too, and of what stands in them."""
    fields = dataclasses.asdict(facts) if dataclasses.is_dataclass(facts) else facts  # type: ignore[arg-type]
    return {
        name: known(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value not in (None, "", [], {}, ())
    }


def errors(*, of_call: bool = False, **facts: Any) -> Row:
    error = RecordedError(**facts)
    call = failed_call(error, of_call=of_call)
    return known({
        "client": client_error(error.type, error.text), "unsent": unsent(error) or None,
        "call": None if call is None else known(call),
    })  # fmt: skip


def answers(status: int | None, request: Row, answer: Row) -> Row:
    return known(call_of(status, request, answer))


def logs(output: str) -> Row:
    return known(agent_log(output))


def finished(
    calls: list[Row] | None = None, error: Row | None = None, status: str = "success",
    settings: list[list[str]] | None = None, **facts: Any,
) -> Audited:  # fmt: skip
    def call(of: Row) -> RecordedCall:
        failed = of.get("error")
        return RecordedCall(**{**of, "error": None if failed is None else RecordedError(**failed)})

    return audited(FinishedRun(
        **{"id": "r", "task": "t", **facts}, status=ExecutionStatus(status),
        settings=tuple((name, value) for name, value in settings or ()),
        error=None if error is None else RecordedError(**error),
        calls=None if calls is None else tuple(map(call, calls)),
    ))  # fmt: skip


def runs(**facts: Any) -> Row:
    run = finished(**facts)
    names = ("cause", "layer", "provisional", "status_counts", "warnings")
    verdict = {name: getattr(run.verdict, name) for name in names}
    return run_told(run) | known({"why": run.why, **verdict})


def reports(runs: list[Row]) -> Row:
    found = report([finished(**each) for each in runs], format_name="benchflow", path="jobs")
    as_said: Any = as_json(found)
    for item in as_said["items"]:  # of its verdict, what files may be silent about
        item["verdict"] = {name: item["verdict"][name] for name in ("rule", "total_requests")}
    return {"lines": [*lines(found)], "sound": found.sound, "judged": found.judged, **as_said}


def masks(
    records: list[Row], calls: Mapping[str, list[Row]] | None = None, *, failed: Sequence[str] = (),
    verdicts: Mapping[str, Row] | None = None, shared: Sequence[str] = (), **how: Any,
) -> Row:  # fmt: skip
    """``number`` of a call names it, beside what is another of it than of an answered one."""
    played = {name: [traces.call(**one) for one in each] for name, each in (calls or {}).items()}
    wire = traces.verdicts(played, failed, shared).to_json()
    for name, facts in (verdicts or {}).items():
        wire["verdicts"][name] |= facts
    before = copy.deepcopy(records)
    try:
        masked = mask(records, WireVerdicts.from_json(json.loads(json.dumps(wire))), **how)
    except ValueError as refused:
        return {"refused": str(refused)}
    assert records == before
    return known({
        "traces": list(map(known, masked.traces)), "absent": list(map(known, masked.absent)),
        "resample": masked.resample, "shared_missing": masked.shared_missing,
        "kept": len(masked.kept), "ids": response_ids(records), "summary": summary(masked),
        "changed": dict(changed(records, masked.records)),
    })  # fmt: skip


TOLD: Mapping[str, Callable[..., Row]] = {
    function.__name__: function for function in (errors, answers, logs, runs, reports, masks)
}


@pytest.mark.skipif(not golden.UPDATING, reason="rewrites what is told")
@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_is_rewritten(name: str) -> None:
    file = FOLDER / f"{name}.jsonl"
    rows = tables.lines(file)
    tables.write_lines(file, [{**row, "told": TOLD[name](**row["given"])} for row in rows])


@pytest.mark.parametrize("name", TOLD)
def test_each_is_told_in_every_field_as_its_row_says(name: str) -> None:
    @each("row", tables.lines(FOLDER / f"{name}.jsonl"), ids=lambda row: row["fact"])
    def as_written(row: Row) -> None:
        told = TOLD[name](**row["given"])
        assert json.loads(json.dumps(told)) == row["told"]

    as_written()


# --- what no row can say ---


def test_the_text_of_an_error_is_in_no_verdict() -> None:
    error = RecordedError(text="Incorrect API key provided: sk-secret", type="AuthenticationError")
    run = FinishedRun(id="r", task="t", error=error)
    assert "secret" not in str(encode_verdict(audited(run).verdict))


def test_a_rollout_of_our_own_export_is_judged_as_the_service_does() -> None:
    rollout = RolloutRecord(
        id="r",
        outcome=Outcome(
            status=ExecutionStatus.SUCCESS, prompts_executed=1, rewards={"reward": 0.0}
        ),
    )
    run = audited(rollout)
    assert (run.task, run.reward, run.verdict.layer) == ("r", 0.0, Layer.ZERO_SIGNAL)
    assert run.false_zero


def test_of_a_long_log_both_ends_are_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "agent.log"
    file.write_bytes(b"start\n" + b"x" * 5_000_000 + b"\nend")
    assert len(read_log(file)) < 2_100_000
    assert read_log(file).startswith("start\n")
    assert read_log(file).endswith("\nend")
    assert read_log(tmp_path / "none") == ""


def test_a_part_that_is_no_text_is_an_answer() -> None:
    assert content([{"type": "image", "image": "data:"}]) == ["image"]
    assert content([{"type": "refusal", "refusal": "no"}]) == ["no"]
    assert content([{"type": "text", "text": ""}, {"type": "output_text"}]) == ["", ""]
    assert content([{"type": "reasoning", "text": "hm"}, ""]) == [""]
    assert (content("said"), content(None)) == (["said"], [])


def test_tokens_are_a_total_or_the_sum_of_what_is_known() -> None:
    counted = ({"total_tokens": 5, "input_tokens": 1}, {"input_tokens": 1, "output_tokens": 2})
    assert [tokens_of(usage) for usage in (*counted, {}, None)] == [5, 3, None, None]
