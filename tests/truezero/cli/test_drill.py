"""What the table of drills says below: what was hidden, taken for good and missed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from tests.truezero.sdk.test_client import VERDICT
from truezero import models
from truezero.cli.drills import print_table
from truezero.runner.drills import DrillReport

FINDING = {
    "check": "engine_aborted", "level": "invalid", "calls": 1, "of": 1, "sentence": "it was cut",
    "evidence": [],
}  # fmt: skip


def table(drilled: Sequence[DrillReport]) -> str:
    console = Console(width=160, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    print_table(drilled, console)
    return console.export_text()


def hidden_by(drill: str, **verdict: object) -> DrillReport:
    """An agent that exited with 0 although its one call failed."""
    return DrillReport(
        drill=drill, rollout_id="r", agent="an agent", exit_code=0, stopped=False, seconds=1.0,
        output_bytes=1, error_bytes=0, calls=1, struck=1, retries=0, wasted_s=None, hidden=True,
        verdict=models.Verdict.model_validate({**VERDICT, **verdict}),
    )  # fmt: skip


def test_the_table_names_spoilt_answers_and_those_that_nobody_noticed() -> None:
    auth = hidden_by("auth", health="api_error", subcategory="auth", rule="all_failed")
    abort = hidden_by("abort", validity=[FINDING])
    unfound = replace(abort, verdict=abort.verdict.model_copy(update={"validity": []}))
    (finding,) = abort.verdict.validity
    mild = [finding.model_copy(update={"level": "info"})]
    mildly = replace(abort, verdict=abort.verdict.model_copy(update={"validity": mild}))
    taken, hidden = "Spoilt answers taken for good: abort.", "behind exit code 0: auth."
    missed, none = "Judged healthy nevertheless: abort.", "No failure was hidden."
    for drilled, said in (
        ([auth, abort], {taken, hidden}),
        ([abort], {taken}),
        ([unfound], {taken, missed}),
        ([mildly], {taken, missed}),
        ([replace(abort, hidden=False)], set()),
        ([replace(auth, hidden=False), unfound], {taken, missed, none}),
    ):
        told = table(drilled)
        assert {line for line in (taken, hidden, missed, none) if line in told} == said
