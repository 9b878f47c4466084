"""Measure audit on labelled published runs: ``python -m tests.truezero.audit.public_runs``.

The records are no part of the project: they lie where `tests.corpus_score` looks for them. Each
has what was recorded of one run, as a few facts (``evidence``), the score that was published, and
a label. Those of no measurement are to be found, and a set's corrected score is to be nearer to
that of its measurements than the published one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from classifier.records import ExecutionStatus
from tests.corpus_score import corpus_folder
from truezero.audit.agent_logs import agent_log
from truezero.audit.formats import mcpmark
from truezero.audit.judge import Audited, audited
from truezero.audit.report import AuditReport, audit, report
from truezero.audit.runs import FinishedRun, RecordedCall, RecordedError

Record = dict[str, Any]
_MEASURED = ("honest", "point.verified_before_failure")
_UNDECIDABLE = "undecidable"
# What a person noted of an agent's log, as a line of the kind that was summed up.
_SUMMED_UP = {
    "<agent>: command not found / import error": "bash: line 1: agent: command not found",
    "No such command/option, ModuleNotFoundError": "Error: No such command 'run'.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A record and its run as audit judges it."""

    record: Record
    run: Audited
    from_files: bool = False

    @property
    def called(self) -> bool:
        """True if audit calls it no measurement, whether it takes a score away or not."""
        return self.run.no_measurement

    @property
    def real(self) -> bool | None:
        """True if the label says no measurement; None if nobody can say."""
        label = self.record["label"]
        return None if label == _UNDECIDABLE else label not in _MEASURED


def records() -> list[Record]:
    """Read the records, none if they are not there."""
    folder = corpus_folder()
    path = None if folder is None else folder / "public-runs.jsonl"
    if path is None or not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_of(record: Record) -> FinishedRun:
    """Return the run that the evidence of a record describes, and nothing that it does not."""
    evidence = record["evidence"]
    words = evidence.get("error") or evidence.get("text")
    facts: dict[str, Any] = {}
    if "answer" in evidence:
        answer = RecordedCall(
            content=bool(evidence["answer"]), reasoning=evidence["reasoning_chars"] > 0
        )
        facts["calls"] = (answer,)
    elif evidence.get("content") == "reasoning only":
        facts["calls"] = (
            RecordedCall(
                content=False,
                reasoning=True,
                output_tokens=evidence["output_tokens"],
                finish_reason=evidence["stop_reason"],
            ),
        )
    elif "read" in evidence or words == "agent finished, or tools ran until the time limit":
        facts["output"] = True  # a person read the agent's answers
    elif words in _SUMMED_UP:
        began = agent_log(_SUMMED_UP[words]).never_began
        facts |= {"never_began": began, "prompted": False if began else None}
    elif record["set"].startswith("mcpmark"):
        (facts["status"], facts["termination_reason"]), noted = mcpmark.ending(words)
        facts["prompted"] = False if facts["status"] is ExecutionStatus.SETUP_FAILED else None
        facts["error"] = None if noted else RecordedError(text=words)
    elif words:
        facts["error"] = RecordedError(text=words, type=evidence.get("exception_type"))
        facts["status"] = ExecutionStatus.AGENT_ERROR
    if evidence.get("trace") == 0 or evidence.get("output_tokens") == 0:
        facts["output"] = False  # the agent left no message
    return FinishedRun(
        id=f"{record['set']}:{record['trial']}",
        task=record["trial"],
        evaluation=record["set"],
        reward=record["reward"],
        tokens=evidence.get("tokens"),
        unknown=("calls",),
        **facts,
    )


def judged(
    held: Sequence[Record], reports: Mapping[str, AuditReport] | None = None
) -> list[Judged]:
    """Judge records by their evidence, or by their own files where the sets are.

    Arguments:
        reports: the audits of the sets that are there, by the first word of a set's name.
    """
    found = {name: in_set(each) for name, each in (reports or {}).items()}
    each = []
    for record in held:
        own = found.get(name_of(record), {}).get(record["trial"])
        run = audited(run_of(record))
        if own is not None:
            of = replace(own, id=run.id, task=run.task, evaluation=run.evaluation, model=run.model)
            run = replace(of, settings=(), repeat=0, attempt=0)
        each.append(Judged(record=record, run=run, from_files=own is not None))
    return each


def audits(held: Iterable[Record], sets: Path) -> dict[str, AuditReport]:
    """Audit the sets of records that are there.

    Arguments:
        sets: a folder with a checkout of each, by the first word of its name.
    """
    names = dict.fromkeys(map(name_of, held))
    return {name: audit(sets / name) for name in names if (sets / name).is_dir()}


def in_set(report: AuditReport) -> dict[str, Audited]:
    """Return a set's runs by the ends of their ids' paths: a trial's name is one of them."""
    runs: dict[str, Audited] = {}
    for run in report.runs:
        parts = run.id.replace(":", "/").split("/")
        runs.update({"/".join(parts[place:]): run for place in range(len(parts))})
    return runs


def name_of(record: Mapping[str, Any]) -> str:
    """Return the first word of a set's name."""
    return str(record["set"]).partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How many findings of no measurement were right, and how many there were to find."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float:
        """The share of findings that are right."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else 1.0

    @property
    def recall(self) -> float:
        """The share of what there is to find."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


def found_in(each: Iterable[Judged]) -> Found:
    """Count findings; what nobody can decide is in no count."""
    return counted((one.called, one.real) for one in each)


def counted(calls: Iterable[tuple[bool, bool | None]]) -> Found:
    """Count what was called no measurement beside what is none; None: nobody can say."""
    counts = Counter((called, real) for called, real in calls)
    return Found(right=counts[True, True], wrong=counts[True, False], missed=counts[False, True])


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How far a set's scores are from the mean of its measurements."""

    published: float
    corrected: float


def errors_of(each: Sequence[Judged]) -> Errors | None:
    """Compare the scores of one set; None if it holds no measurement, or no scores."""
    measured = [one.run.reward for one in each if one.real is False and one.run.reward is not None]
    [part] = report([one.run for one in each], format_name="", path="").parts
    corrected = part.scores.score_effective
    if not measured or part.score_reported is None or corrected is None:
        return None
    truth = fmean(measured)
    return Errors(published=abs(part.score_reported - truth), corrected=abs(corrected - truth))


def by(each: Iterable[Judged], key: Callable[[Record], str]) -> dict[str, list[Judged]]:
    """Group judged records."""
    groups: dict[str, list[Judged]] = defaultdict(list)
    for one in each:
        groups[key(one.record)].append(one)
    return dict(groups)


def model_of(record: Record) -> str:
    """Return the set, and the model or submission that a trial's path begins with."""
    return f"{record['set']}: {record['trial'].partition('/')[0]}"


def mean_errors(each: Sequence[Judged], key: Callable[[Record], str]) -> Errors | None:
    """Return the mean errors over the groups that can be compared."""
    known = [errors for group in by(each, key).values() if (errors := errors_of(group))]
    if not known:
        return None
    return Errors(
        published=fmean(one.published for one in known),
        corrected=fmean(one.corrected for one in known),
    )


def main() -> None:
    """Print the figures of each set, and of all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--wrong", action="store_true", help="name what was missed or wrong")
    options.add_argument("--sets", type=Path, help="where checkouts of the sets are")
    chosen = options.parse_args()
    each = judged(records(), audits(records(), chosen.sets) if chosen.sets else None)
    for name, group in [*by(each, lambda record: record["set"]).items(), ("all", each)]:
        found = found_in(group)
        line = (
            f"{name:32} {len(group):3}  precision {found.precision:.3f}  recall {found.recall:.3f}"
        )
        errors = errors_of(group) if name != "all" else mean_errors(group, lambda r: r["set"])
        if errors is not None:
            line += f"  error published {errors.published:.3f}  corrected {errors.corrected:.3f}"
        sys.stdout.write(line + "\n")
    by_model = mean_errors(each, model_of)
    if by_model is not None:
        sys.stdout.write(
            f"mean error by model: published {by_model.published:.3f}, "
            f"corrected {by_model.corrected:.3f}\n"
        )
    for one in each if chosen.wrong else ():
        if one.real is not None and one.called is not one.real:
            label, words = one.record["label"], json.dumps(one.record["evidence"])[:150]
            sys.stdout.write(f"  {label} {one.run.verdict.rule}: {words}\n")


if __name__ == "__main__":
    main()
