"""What a run reports: an exit code and a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truezero import models
from truezero.runner.process import ProcessResult

TRANSIENT = 75  # sysexits.h: try again later
PERMANENT = 76
SUSPECTED = 77
UNDECIDED = 78  # evidence is missing
UNDELIVERED = 79  # the outcome is kept: `truezero outcomes deliver`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of a job.

    ``skipped`` says why a breaker did not admit it, ``undelivered`` where its outcome is kept;
    result and verdict are None then.
    ``bypasses`` say why the agent's calls would not come, as far as it showed before the start;
    ``no_call`` what to check where a known agent ran and none came.
    """

    rollout_id: str
    agent: str
    ended: ProcessResult
    result: models.Result | None = None
    verdict: models.Verdict | None = None
    skipped: str | None = None
    undelivered: str | None = None
    bypasses: tuple[str, ...] = ()
    no_call: str | None = None

    @property
    def exit_code(self) -> int:
        """The agent's own exit code if the verdict is healthy or the agent did not start."""
        if self.undelivered is not None:
            return UNDELIVERED
        if self.verdict is None:
            return PERMANENT
        return _EXIT.get((self.verdict.health, self.verdict.transient), self.ended.shell_code)


_EXIT: Mapping[tuple[str, bool | None], int] = {
    ("api_error", True): TRANSIENT,
    ("api_error", False): PERMANENT,
    ("suspected_api_error", None): SUSPECTED,
    ("undecided", None): UNDECIDED,
}


def record(report: Report) -> dict[str, Any]:
    """Return a report as JSON data."""
    return {
        "rollout_id": report.rollout_id,
        "agent": report.agent,
        "exit_code": report.exit_code,
        "agent_exit_code": report.ended.agent_code,
        "stopped_as_doomed": report.ended.doomed,
        "skipped": report.skipped,
        "undelivered": report.undelivered,
        "bypasses": list(report.bypasses),
        "no_call": report.no_call,
        "result": report.result and report.result.model_dump(),
        "verdict": report.verdict and report.verdict.model_dump(),
    }
