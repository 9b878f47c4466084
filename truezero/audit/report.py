"""Audit a path: recognise its format, judge its runs, report, and write a copy with verdicts.

The report has the corrected score, every false zero, and what to run again.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from classifier.batch_summary import scores_of
from classifier.batches import Entry, Scores, task_repeats
from classifier.codec import Json, encode_verdict
from classifier.repeat_counts import CountedRollout
from classifier.verdicts import EVIDENCE, Health, Policy
from classifier.whole_batch import whole_batch
from truezero.audit.audit_format import AuditFormat
from truezero.audit.files import unreadable
from truezero.audit.formats import format_of
from truezero.audit.formats.mapped import mapped
from truezero.audit.judge import Audited, audited
from truezero.audit.runs import AuditError, Settings
from truezero.foreign import is_regular, open_file
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
_ORDER = ("transient", "fix_first", "suspected", "environment", "not_begun", "unmeasured")
_HEADS = {
    "transient": "transient, run again",
    "fix_first": "run again once fixed",
    "suspected": "suspected, look first",
    "environment": "the environment failed: see the harness's own error",
    "not_begun": "no model was asked: see the harness's own error",
    "unmeasured": "undecided, kept in the score as published",
}
_SHOWN = 5  # copies in one line
_LONGEST = 40  # characters of a setting in a name


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPart:
    """The runs of one evaluation, model and settings, which are summed with no others.

    ``name`` says what tells it from the other parts. ``score_reported`` is the mean of what the
    harness counts; ``scores`` are over what is not left out. They are None where nothing has been
    scored yet. ``bounded``: rewards lie between 0 and 1, so that what is left out has bounds.
    ``counted`` has one run for each repeat of a task.
    """

    name: str
    evaluation: str
    model: str | None
    settings: Settings
    runs: tuple[Audited, ...]
    counted: tuple[Audited, ...]
    scores: Scores
    score_reported: float | None
    bounded: bool

    @property
    def out(self) -> dict[str, int]:
        """Count what is left out of the corrected score, by its cause."""
        scored = (run for run in self.counted if run.reward is not None)
        return _tally(_cause(run) for run in scored if run.left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The audited runs of one path.

    ``copies`` are runs that the files hold once more, by id, each with the id of the one that
    counts.
    """

    format: str
    path: str
    runs: tuple[Audited, ...]
    parts: tuple[ScoredPart, ...]
    copies: dict[str, str]
    rerun: dict[str, list[Audited]]
    written: str | None = None
    uncorrected: tuple[str, ...] = ()  # sentences on what in the copy is not
    lost: tuple[str, ...] = ()  # sentences on files that could not be read

    @property
    def false_zeros(self) -> list[Audited]:
        """Zeros without a measurement."""
        return [run for run in self.runs if run.false_zero]

    @property
    def false_points(self) -> list[Audited]:
        """Points without a measurement."""
        return [run for run in self.runs if run.false_points]

    @property
    def excluded(self) -> list[Audited]:
        """Measurements whose score a policy leaves out."""
        return [run for run in self.runs if run.left_out and not run.no_measurement]

    @property
    def passed_before(self) -> list[Audited]:
        """Measurements that failures ended after they had passed."""
        return [run for run in self.runs if run.passed_before]

    @property
    def judged(self) -> bool:
        """True if the files show for any run whether its model was reached."""
        known = (run.verdict.health in _JUDGED or run.never_began for run in self.runs)
        return any(known)

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
    """Sum up audited runs, each evaluation, model and settings by itself."""
    own, copies = _once(runs)
    parts = _parts(own)
    return AuditReport(
        format=format_name,
        path=path,
        runs=tuple(own),
        parts=parts,
        copies=copies,
        rerun=_rerun([run for part in parts for run in part.counted]),
        written=written,
        uncorrected=tuple(uncorrected),
    )


def _once(runs: Sequence[Audited]) -> tuple[list[Audited], dict[str, str]]:
    """Return the runs without those that the files hold once more, and these."""
    first: dict[str, str] = {}
    own, copies = list[Audited](), dict[str, str]()
    for run in runs:
        if run.origin is not None and (same := first.setdefault(run.origin, run.id)) != run.id:
            copies[run.id] = same
        else:
            own.append(run)
    return own, copies


def _parts(runs: Sequence[Audited]) -> tuple[ScoredPart, ...]:
    held: dict[tuple[str, str | None, Settings], list[Audited]]
    held = defaultdict(list)
    models: dict[tuple[str, Settings], set[str]] = defaultdict(set)
    for run in runs:
        models[run.evaluation, run.settings] |= {run.model} if run.model else set()
    for run in runs:
        named = models[run.evaluation, run.settings]
        model = next(iter(named)) if len(named) == 1 else run.model  # it is not in each record
        held[run.evaluation, model, run.settings].append(run)
    told = {
        "evaluation": len({evaluation for evaluation, _, _ in held}) > 1,
        "model": len({model for _, model, _ in held}) > 1,
    }
    same = set.intersection(*(set(settings) for _, _, settings in held)) if held else set()
    return tuple(
        _part(
            name=" · ".join(
                each
                for each in (
                    evaluation if told["evaluation"] else "",
                    model or "model not recorded" if told["model"] else "",
                    ", ".join(_setting(*each) for each in settings if each not in same),
                )
                if each
            ),
            of=(evaluation, model, settings),
            runs=of_part,
        )
        for (evaluation, model, settings), of_part in held.items()
    )


def _setting(name: str, value: str) -> str:
    return f"{name}={value if len(value) <= _LONGEST else value[:_LONGEST] + '…'}"


def _part(
    *,
    name: str,
    of: tuple[str, str | None, Settings],
    runs: Sequence[Audited],
) -> ScoredPart:
    scored = any(run.reward is not None and not run.filled for run in runs)
    entries = [_entry(run, scored=scored) for run in runs]
    by_id = {run.id: run for run in runs}
    counted = tuple(by_id[slot.counted.rollout_id] for slot in task_repeats(entries))
    whole = whole_batch(CountedRollout(each, float(at)) for at, each in enumerate(entries))
    rewards = [run.reward for run in counted if run.reward is not None] if scored else []
    evaluation, model, settings = of
    return ScoredPart(
        name=name,
        evaluation=evaluation,
        model=model,
        settings=settings,
        runs=tuple(runs),
        counted=counted,
        scores=scores_of(whole.counts, whole.shapes, whole.named.picked),
        score_reported=sum(rewards) / len(rewards) if rewards else None,
        bounded=bool(rewards) and all(0 <= reward <= 1 for reward in rewards),
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
        scoreable="no" if run.left_out else "yes",
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
        group = None if run.passed_before else _group(run)
        if group is not None:
            groups[group].append(run)
    return groups


def _group(run: Audited) -> str | None:
    if run.environment and run.no_measurement and not run.spoiled:
        return "environment"
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
            if run.spoiled or run.unearned:
                return "suspected"
            return "unmeasured" if run.verdict.scoreable == "unknown" else None


def _cause(run: Audited) -> str:
    if run.unearned and not run.spoiled:
        return "unearned"
    if run.environment and not run.spoiled:
        return "environment"
    return run.verdict.fingerprint or run.verdict.rule


# --- as JSON ---


def as_json(report: AuditReport) -> Json:
    """Return the whole report; what the files do not say is null.

    Several parts have scores of their own, and none together.
    """
    [only, *more] = report.parts
    return {
        "format": report.format,
        "path": report.path,
        "runs": len(report.runs),
        **(dict.fromkeys(_scores(only)) if more else _scores(only)),
        "parts": list(map(_to_part, report.parts)),
        "health": _tally(run.verdict.health.value for run in report.runs),
        "fingerprint": _tally(run.verdict.fingerprint for run in report.runs),
        "unknown": _tally(fact for run in report.runs for fact in run.unknown),
        "unread": _tally(run.unread for run in report.runs),
        "copies": report.copies,
        "false_zeros": [run.id for run in report.false_zeros],
        "false_points": [run.id for run in report.false_points],
        "excluded": [run.id for run in report.excluded],
        "passed_before": [run.id for run in report.passed_before],
        "rerun": {name: list(map(_to_run, runs)) for name, runs in report.rerun.items()},
        "items": list(map(_item, report.runs)),
        "written": report.written,
        "uncorrected": list(report.uncorrected),
    }


def _scores(part: ScoredPart) -> Json:
    score = part.scores
    return {
        "total": score.total,
        "scoreable": score.scoreable,
        "coverage": score.coverage,
        "score_reported": part.score_reported,
        "score_effective": score.score_effective,
        "score_ci": score.score_ci,
        "score_worst": score.score_worst if part.bounded else None,
        "score_best": score.score_best if part.bounded else None,
    }


def _to_part(part: ScoredPart) -> Json:
    return {
        "name": part.name,
        "evaluation": part.evaluation,
        "model": part.model,
        "settings": dict(part.settings),
        **_scores(part),
        "left_out": part.out,
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
        "evaluation": run.evaluation,
        "task": run.task,
        "repeat": run.repeat,
        "attempt": run.attempt,
        "model": run.model,
        "reward": run.reward,
        "score": run.score,
        "why": run.why if run.left_out or run.verdict.scoreable != "yes" else None,
        "unknown": list(run.unknown),
        "verdict": verdict,
    }


def _tally(names: Iterable[str | None]) -> dict[str, int]:
    return {name: count for name, count in Counter(names).most_common() if name is not None}


# --- as text ---


def lines(report: AuditReport) -> Iterator[str]:
    """Yield the report line by line."""
    yield from map(visible, _lines(report))


def _lines(report: AuditReport) -> Iterator[str]:
    yield f"{report.path}: {report.format}, {plural(len(report.runs), 'run')}"
    yield from _copy_lines(report)
    if len(report.parts) > 1:
        yield f"scores of {len(report.parts)} evaluations, models or settings, not summed:"
    for part in report.parts:
        yield from _score_lines(part, f"  {part.name}" if len(report.parts) > 1 else "score")
    for why, count in _tally(run.unread for run in report.runs).items():
        yield f"score not read of {plural(count, 'run')}: {why}"
    health = _tally(run.verdict.health.value for run in report.runs)
    yield "health: " + " · ".join(f"{name} {count}" for name, count in health.items())
    name = _namer(report)
    yield from _listed("false zeros", report.false_zeros, name)
    yield from _listed("points without a measurement", report.false_points, name)
    yield from _listed("left out by a batch's policy", report.excluded, name)
    yield from _listed("ended on a failure, passed before, kept", report.passed_before, name)
    for group, runs in report.rerun.items():
        if runs:
            yield from _again(group, runs, name)
    yield from _unknown_lines(report)
    if not report.judged:
        yield "nothing could be judged"
    if report.written is not None:
        yield f"verdicts written to {report.written}"
    yield from report.uncorrected


def _copy_lines(report: AuditReport) -> Iterator[str]:
    """Say which runs are there twice, file by file where their ids begin with one."""
    files = _tally(
        f"{copy.partition(':')[0]} of {own.partition(':')[0]}"
        for copy, own in report.copies.items()
    )
    if files:
        named = [f"{count} in {name}" for name, count in files.items()][:_SHOWN]
        more = ", …" if len(files) > _SHOWN else ""
        yield f"the same run twice, counted once: {', '.join(named)}{more}"


def _score_lines(part: ScoredPart, head: str) -> Iterator[str]:
    score = part.scores
    if part.score_reported is None:
        yield f"{head}: the files hold none"
        return
    published = f"{head}: published {part.score_reported:.3f} → corrected"
    out = ", ".join(f"{cause} {count}" for cause, count in part.out.items())
    why = f"; left out: {out}" if out else ""
    if score.score_effective is None:
        none = f"none of {plural(score.scoreable, 'run')} left has a score"
        if not score.scoreable:
            none = f"none of {plural(score.total, 'run')} is a measurement"
        yield f"{published} unknown, {none}{why}"
        return
    interval = ""
    if score.score_ci is not None:
        interval = " (95 % interval {:.3f} to {:.3f})".format(*score.score_ci)
    left = f"{score.scored} of {plural(score.total, 'run')} left"
    yield f"{published} {score.score_effective:.3f}{interval}, {left}{why}"
    if part.bounded and score.scored < score.total:
        indent = head[: len(head) - len(head.lstrip())] * 2
        yield f"{indent}bounds over all runs: {score.score_worst:.3f} to {score.score_best:.3f}"


def _listed(head: str, runs: Sequence[Audited], name: Callable[[Audited], str]) -> Iterator[str]:
    if runs:
        yield f"{head}: {len(runs)}"
    for run in runs:
        yield f"  {name(run)}: {run.why}"


def _again(group: str, runs: Sequence[Audited], name: Callable[[Audited], str]) -> Iterator[str]:
    yield f"{_HEADS[group]}: {len(runs)}"
    by_cause: dict[str, list[str]] = defaultdict(list)
    for run in runs:
        by_cause[run.why if group == "unmeasured" else _cause(run)].append(name(run))
    for cause, names in by_cause.items():
        yield f"  {cause}: {', '.join(names)}"


def _unknown_lines(report: AuditReport) -> Iterator[str]:
    for fact, count in _tally(fact for run in report.runs for fact in run.unknown).items():
        yield f"not known of {plural(count, 'run')}: {_HIDES[fact]}"


def _namer(report: AuditReport) -> Callable[[Audited], str]:
    """Return how runs are called: by their tasks, and by their ids among several parts."""
    if len(report.parts) > 1:
        return lambda run: run.id
    return lambda run: f"{run.task}#{run.repeat}" if run.repeat else run.task


# --- audit ---


_EVERY = 100  # runs between two signs of progress


def audit(
    path: Path,
    *,
    name: str | None = None,
    fields: Mapping[str, str] | None = None,
    write: bool = False,
    out: Path | None = None,
    policy: Policy = EVIDENCE,
    progress: Callable[[int], None] = lambda _: None,
) -> AuditReport:
    """Judge the finished runs in a file or folder.

    Arguments:
        name: the format; recognised by the content without it.
        fields: the name in a record of each field, for records of no known format.
        write: put the verdicts into a copy, at ``out`` or beside the path.
        policy: how to judge.
        progress: called with the number of runs judged so far.

    Raises:
        AuditError: the path, its format or a record cannot be read, or the copy not be written.
    """
    named, path = path, path.resolve() if path.is_symlink() else path
    lost = tuple(f"{file}: {why}" for file, why in unreadable(path))
    try:
        chosen = format_of(path, name) if fields is None else mapped(fields)
        runs = _judged(path, chosen, policy, progress)
        if not runs:
            raise AuditError(f"{path}: no finished run of {chosen.title} in it")
    except AuditError as error:
        raise AuditError("\n".join((*lost, str(error)))) from None
    written, uncorrected = _written(path, chosen, runs, out) if write else (None, ())
    audited_ = report(
        runs,
        format_name=chosen.title,
        path=str(named),
        written=None if written is None else str(written),
        uncorrected=uncorrected,
    )
    return replace(audited_, lost=lost)


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
            copied = _copy_folder(path, target)
            place = target
        else:
            target.mkdir(parents=True, exist_ok=True)
            copied, place = (), target / path.name
            _copy_file(path, place)
        uncorrected = chosen.write(place, {run.id: run for run in runs})
    except (OSError, shutil.Error) as error:
        raise AuditError(f"cannot write {target}: {error}") from None
    return place, (*copied, *(uncorrected or ()))


def _copy_folder(path: Path, target: Path) -> tuple[str, ...]:
    """Copy a folder's files and folders; say how much else was left where it is.

    A symbolic link may lead to any file of this user, whose content a copy would publish.
    """
    left = 0

    def others(folder: str, names: list[str]) -> list[str]:
        nonlocal left
        out = [name for name in names if not _is_copied(Path(folder, name))]
        left += len(out)
        return out

    shutil.copytree(path, target, dirs_exist_ok=True, ignore=others, copy_function=_copy_file)
    them = plural(left, "symbolic link or special file", "symbolic links or special files")
    return (f"not copied: {them}",) if left else ()


def _is_copied(path: Path) -> bool:
    return is_regular(path) or (path.is_dir() and not path.is_symlink())


def _copy_file(file: str | Path, copy: str | Path) -> None:
    with open_file(Path(file), links=False) as content, Path(copy).open("wb") as out:
        shutil.copyfileobj(content, out)
    shutil.copystat(file, copy, follow_symlinks=False)


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
