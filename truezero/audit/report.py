"""Audit a path: recognise its format, judge its runs, report, and write a copy with verdicts.

The report has the corrected score, every false zero, and what to run again.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from classifier.batch_summary import scores_of
from classifier.batches import Entry, Scores, task_repeats
from classifier.codec import Json, encode_verdict
from classifier.rollup import CountedRollout
from classifier.verdicts import EVIDENCE, Health, Policy
from classifier.whole_batch import whole_batch
from truezero.audit.audit_format import AuditFormat
from truezero.audit.formats import format_of
from truezero.audit.judge import Audited, audited
from truezero.audit.runs import AuditError
from truezero.printable import plural, visible

# Counts of a verdict that are unknown where the files keep no calls.
_COUNTS = ("total_requests", "failed_requests", "recovered_requests")
# What does not show where a fact is not in the files.
_HIDES = {
    "calls": "calls are not recorded, so a failure in the middle of a run does not show",
    "errors": "the agent's errors are not recorded",
    "tokens": "tokens are not counted",
    "reward": "the log has no scores",
    "outcome": "how a run ended is not recorded",
    "content": "answers are not recorded, only their tokens",
    "rollout": "calls name no session, so they were judged together",
}
_JUDGED = frozenset((Health.HEALTHY, Health.API_ERROR, Health.SUSPECTED_API_ERROR))
_ORDER = ("transient", "fix_first", "suspected", "not_begun", "unmeasured")
_HEADS = {
    "transient": "transient, run again",
    "fix_first": "run again once fixed",
    "suspected": "suspected, look first",
    "not_begun": "no model was asked: see the harness's own error",
    "unmeasured": "not decided: the files do not say enough",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The audited runs of one path; ``score_reported`` is the mean of what the harness counts.

    It is None, and so are the other scores, where nothing has been scored yet.
    """

    format: str
    path: str
    runs: tuple[Audited, ...]
    scores: Scores
    score_reported: float | None
    bounded: bool  # rewards lie between 0 and 1, so that what is missing has bounds
    rerun: dict[str, list[Audited]]
    written: str | None = None
    uncorrected: tuple[str, ...] = ()  # sentences on what in the copy is not

    @property
    def false_zeros(self) -> list[Audited]:
        """Zeros without a measurement."""
        return [run for run in self.runs if run.false_zero]

    @property
    def false_points(self) -> list[Audited]:
        """Points without a measurement."""
        return [run for run in self.runs if run.false_points]

    @property
    def judged(self) -> bool:
        """True if the files show for any run whether its model was reached."""
        return any(run.verdict.health in _JUDGED for run in self.runs)

    @property
    def sound(self) -> bool:
        """True if every reward that is counted is a measurement, as far as the files show."""
        return not (self.false_zeros or self.false_points)


def report(
    runs: Sequence[Audited],
    *,
    format_name: str,
    path: str,
    written: str | None = None,
    uncorrected: Sequence[str] = (),
) -> AuditReport:
    """Sum up audited runs."""
    scored = any(run.reward is not None and not run.filled for run in runs)
    entries = [_entry(run, scored=scored) for run in runs]
    by_id = {run.id: run for run in runs}
    counted = [by_id[slot.counted.rollout_id] for slot in task_repeats(entries)]
    whole = whole_batch(CountedRollout(each, float(at)) for at, each in enumerate(entries))
    rewards = [run.reward for run in counted if run.reward is not None] if scored else []
    return AuditReport(
        format=format_name,
        path=path,
        runs=tuple(runs),
        scores=scores_of(whole.counts, whole.shapes, whole.named.picked),
        score_reported=sum(rewards) / len(rewards) if rewards else None,
        bounded=bool(rewards) and all(0 <= reward <= 1 for reward in rewards),
        rerun=_rerun(counted),
        written=written,
        uncorrected=tuple(uncorrected),
    )


def _entry(run: Audited, *, scored: bool) -> Entry:
    verdict = run.verdict
    return Entry(
        rollout_id=run.id,
        task=run.task,
        repeat=run.repeat,
        attempt=run.attempt,
        health=verdict.health.value,
        subcategory=verdict.subcategory and verdict.subcategory.value,
        fingerprint=verdict.fingerprint,
        scoreable=verdict.scoreable,
        provisional=False,
        reward=run.reward if scored else None,
        input_tokens=None,
        output_tokens=None,
        total_tokens=verdict.total_tokens,
        cost_usd=None,
    )


def _rerun(counted: Sequence[Audited]) -> dict[str, list[Audited]]:
    groups: dict[str, list[Audited]] = {name: [] for name in _ORDER}
    for run in counted:
        group = _group(run)
        if group is not None:
            groups[group].append(run)
    return groups


def _group(run: Audited) -> str | None:
    match run.verdict.health:
        case Health.API_ERROR:
            return "transient" if run.verdict.transient else "fix_first"
        case Health.SUSPECTED_API_ERROR:
            return "suspected"
        case Health.NOT_JUDGED:
            return "not_begun"
        case Health.UNDECIDED:
            return "unmeasured"
        case Health.HEALTHY:
            return "suspected" if run.spoiled else None


# --- as JSON ---


def as_json(report: AuditReport) -> Json:
    """Return the whole report; what the files do not say is null."""
    score = report.scores
    return {
        "format": report.format,
        "path": report.path,
        "runs": len(report.runs),
        "total": score.total,
        "scoreable": score.scoreable,
        "coverage": score.coverage,
        "score_reported": report.score_reported,
        "score_effective": score.score_effective,
        "score_ci": score.score_ci,
        "score_worst": score.score_worst if report.bounded else None,
        "score_best": score.score_best if report.bounded else None,
        "health": _tally(run.verdict.health.value for run in report.runs),
        "fingerprint": _tally(run.verdict.fingerprint for run in report.runs),
        "unknown": _tally(fact for run in report.runs for fact in run.unknown),
        "false_zeros": [run.id for run in report.false_zeros],
        "false_points": [run.id for run in report.false_points],
        "rerun": {name: list(map(_to_run, runs)) for name, runs in report.rerun.items()},
        "items": list(map(_item, report.runs)),
        "written": report.written,
        "uncorrected": list(report.uncorrected),
    }


def _to_run(run: Audited) -> Json:
    cause = run.verdict.fingerprint
    return {"id": run.id, "task": run.task, "repeat": run.repeat, "fingerprint": cause}


def _item(run: Audited) -> Json:
    verdict = encode_verdict(run.verdict)
    if not run.calls:
        verdict |= dict.fromkeys(_COUNTS) | {"status_counts": None}
    return {
        "id": run.id,
        "task": run.task,
        "repeat": run.repeat,
        "attempt": run.attempt,
        "model": run.model,
        "reward": run.reward,
        "score": run.score,
        "unknown": list(run.unknown),
        "verdict": verdict,
    }


def _tally(names: Iterator[str | None]) -> dict[str, int]:
    return {name: count for name, count in Counter(names).most_common() if name is not None}


# --- as text ---


def lines(report: AuditReport) -> Iterator[str]:
    """Yield the report line by line."""
    yield from map(visible, _lines(report))


def _lines(report: AuditReport) -> Iterator[str]:
    yield f"{report.path}: {report.format}, {plural(len(report.runs), 'run')}"
    yield from _score_lines(report)
    health = _tally(run.verdict.health.value for run in report.runs)
    yield "health: " + " · ".join(f"{name} {count}" for name, count in health.items())
    yield from _listed("false zeros", report.false_zeros)
    yield from _listed("points without a measurement", report.false_points)
    for name, runs in report.rerun.items():
        if runs:
            yield from _again(name, runs)
    yield from _unknown_lines(report)
    if not report.judged:
        yield "nothing could be judged"
    if report.written is not None:
        yield f"verdicts written to {report.written}"
    yield from report.uncorrected


def _score_lines(report: AuditReport) -> Iterator[str]:
    score = report.scores
    if report.score_reported is None:
        yield "score: the files hold none"
        return
    yield f"score as reported: {report.score_reported:.3f}"
    if score.score_effective is None:
        none = f"none of {plural(score.scoreable, 'run')} that reached a model has a score"
        if not score.scoreable:
            none = f"none of {plural(score.total, 'run')} is known to have reached a model"
        yield f"corrected: unknown, {none}"
        return
    interval = ""
    if score.score_ci is not None:
        interval = " (95 % interval {:.3f} to {:.3f})".format(*score.score_ci)
    measured = f"{score.scored} of {plural(score.total, 'run')}"
    yield f"corrected: {score.score_effective:.3f} over {measured}{interval}"
    if report.bounded and score.scored < score.total:
        yield f"bounds over all runs: {score.score_worst:.3f} to {score.score_best:.3f}"


def _listed(head: str, runs: Sequence[Audited]) -> Iterator[str]:
    if runs:
        yield f"{head}: {len(runs)}"
    for run in runs:
        yield f"  {_name(run)}: {run.why}"


def _again(name: str, runs: Sequence[Audited]) -> Iterator[str]:
    yield f"{_HEADS[name]}: {len(runs)}"
    by_cause: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        by_cause[run.verdict.fingerprint or run.verdict.rule].append(_name(run))
    for cause, names in by_cause.items():
        yield f"  {cause}: {', '.join(names)}"


def _unknown_lines(report: AuditReport) -> Iterator[str]:
    for fact, count in _tally(fact for run in report.runs for fact in run.unknown).items():
        yield f"not known of {plural(count, 'run')}: {_HIDES[fact]}"


def _name(run: Audited) -> str:
    return f"{run.task}#{run.repeat}" if run.repeat else run.task


# --- audit ---


_EVERY = 100  # runs between two signs of progress


def audit(
    path: Path,
    *,
    name: str | None = None,
    write: bool = False,
    out: Path | None = None,
    policy: Policy = EVIDENCE,
    progress: Callable[[int], None] = lambda _: None,
) -> AuditReport:
    """Judge the finished runs in a file or folder.

    Arguments:
        name: the format; recognised by the content without it.
        write: put the verdicts into a copy, at ``out`` or beside the path.
        policy: how to judge.
        progress: called with the number of runs judged so far.

    Raises:
        AuditError: the path, its format or a record cannot be read, or the copy not be written.
    """
    chosen = format_of(path, name)
    runs = _judged(path, chosen, policy, progress)
    if not runs:
        raise AuditError(f"{path}: no finished run of {chosen.title} in it")
    written, uncorrected = _written(path, chosen, runs, out) if write else (None, ())
    return report(
        runs,
        format_name=chosen.title,
        path=str(path),
        written=None if written is None else str(written),
        uncorrected=uncorrected,
    )


def _judged(
    path: Path, chosen: AuditFormat, policy: Policy, progress: Callable[[int], None]
) -> list[Audited]:
    runs: list[Audited] = []
    try:
        for subject in chosen.read(path):
            runs.append(audited(subject, policy))
            if len(runs) % _EVERY == 0:
                progress(len(runs))
    except KeyError as missing:
        raise AuditError(f"{path}: a record of {chosen.title} has no {missing}") from None
    return runs


def _written(
    path: Path, chosen: AuditFormat, runs: list[Audited], out: Path | None
) -> tuple[Path, Sequence[str]]:
    """Copy the path and put the verdicts into the copy; the original is only read."""
    target = beside(path) if out is None else out
    source, copy = path.resolve(), target.resolve()
    if copy == source or source in copy.parents or copy in source.parents:
        raise AuditError(f"--out: {target} is {path} itself, in it or around it")
    try:
        if path.is_dir():
            _check_target(path, target)
            shutil.copytree(path, target, dirs_exist_ok=True)
            place = target
        else:
            target.mkdir(parents=True, exist_ok=True)
            place = target / path.name
            shutil.copyfile(path, place)
        uncorrected = chosen.write(place, {run.id: run for run in runs})
    except (OSError, shutil.Error) as error:
        raise AuditError(f"cannot write {target}: {error}") from None
    return place, uncorrected or ()


def _check_target(source: Path, target: Path) -> None:
    """Refuse a folder with other files: an earlier copy of other runs would be taken for these."""
    held = {file.relative_to(target) for file in target.rglob("*") if file.is_file()}
    other = next((file for file in sorted(held) if not (source / file).exists()), None)
    if other is not None:
        raise AuditError(
            f"{target} holds other files ({other}): remove it, or choose another --out"
        )


def beside(path: Path) -> Path:
    """Return where a copy goes: ``results`` to ``results.audited``, a file into such a folder."""
    path = path.resolve()
    return path.with_name(f"{path.name if path.is_dir() else path.stem}.audited")
