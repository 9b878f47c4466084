"""Inspect: logs as `.json` or `.eval` (a zip with a file for each sample).

Facts of inspect-ai 0.3.285 (`log/_log.py`, `log/_recorders/eval.py`, `event/_model.py`).

Path: `.eval` or `.json` log, or a folder of them.

Read: every call of a model, by role, with its error.

Unknown: calls, where a log was stripped of its events.

Copy: the sample is invalidated, so that an eval set runs it again; its scores are NaN with the
reason; metrics are recomputed ([below](#inspects-metrics)).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from classifier.records import ExecutionStatus, TerminationReason
from truezero.audit.answers import content, reasons, tokens_of
from truezero.audit.audit_format import KEY, AuditFormat, Verdicts, block, settings_of
from truezero.audit.files import any_has, below, found, has, load, peek, save
from truezero.audit.formats.inspect_metrics import UNSCORED, Recomputed, cast, recomputed
from truezero.audit.judge import Audited
from truezero.audit.runs import (
    AuditError,
    FinishedRun,
    RecordedCall,
    RecordedError,
    RunPlace,
    Settings,
)
from truezero.audit.values import Json, count, instant, items, mapping, number, objects, text, total
from truezero.audit.zips import is_zip, read_members, rewrite
from truezero.foreign import parse

# --- logs ---


_OUT_OF_TIME: Final = ("time", "working")
# Stop reasons that stand for a rejected request too, and LiteLLM's exception for each.
_REJECTIONS: Final = {
    "content_filter": "ContentPolicyViolationError",
    "model_length": "ContextWindowExceededError",
}

# What is set of a task, a solver and a model (log/_log.py: EvalSpec).
_SETTINGS: Final = ("task_args", "solver_args", "model_args", "model_generate_config")

_HEADER, _REDUCTIONS, _JOURNAL = "header.json", "reductions.json", "_journal/summaries/"
_SCORED: Final = ("id", "epoch", "metadata", "scores", "error")  # of a sample, for its metrics

_is_log: Final = has("version", "status", "eval")


def _recognises(path: Path) -> bool:
    logs = path.rglob("*.eval") if path.is_dir() else (path,)
    return any(map(_is_zipped, logs)) or any_has(path, _is_log, "*.json")


def _files(path: Path) -> Iterator[Path]:
    for file in found(path, "*.eval", "*.json"):
        if _is_zipped(file) or (file.suffix == ".json" and _is_log(peek(file))):
            yield file


def _is_zipped(file: Path) -> bool:
    return file.suffix == ".eval" and is_zip(file)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """One log; ``name`` is its path below what is audited, without the suffix.

    ``results`` are the scores that it reports, one for each scorer or each key of a scorer's
    dictionaries.
    """

    name: str
    spec: Json
    results: list[Json]
    samples: Iterator[Json]

    @property
    def settings(self) -> Settings:
        """Return what was set of the task, its solver and its model."""
        named = {name: self.spec.get(name) for name in ("task_version", "solver")}
        for each in _SETTINGS:
            named |= mapping(self.spec.get(each))
        return settings_of(named)

    def origin(self, sample: Json) -> str | None:
        """Return the id that Inspect gave a sample, the same in a copy and in a retried log."""
        uuid, log = text(sample.get("uuid")), text(self.spec.get("eval_id"))
        if uuid or log:
            return uuid or f"{log}:{sample['id']}#{sample.get('epoch', 1)}"
        ids = tuple(self.spec.get(name) for name in ("run_id", "task_id", "model", "created"))
        return f"{ids}:{sample['id']}#{sample.get('epoch', 1)}" if all(ids) else None


def _read(path: Path) -> Iterator[FinishedRun]:
    """Yield the samples. Logs of one task, model and settings are repeats, retried ones attempts.

    A retried log keeps its ``task_id`` (_eval/run.py).
    """
    tries: dict[tuple[object, ...], Counter[tuple[object, int]]] = defaultdict(Counter)
    for file in _files(path):
        log = _log(path, file)
        settings, task = log.settings, str(log.spec.get("task") or "")
        one = text(log.spec.get("task_id")) or log.name
        for sample in log.samples:
            run = _run(log, sample)
            of = tries[task, run.model, settings, run.task]
            epoch = one, count(sample.get("epoch")) or 1
            of[epoch] += 1
            yield replace(
                run,
                evaluation=task,
                settings=settings,
                repeat=list(of).index(epoch),
                attempt=of[epoch] - 1,
                place=RunPlace(file=_member(file, sample)),
            )


def _member(file: Path, sample: Json) -> Path:
    """Return a sample's own file, which a packed log holds."""
    if file.suffix != ".eval":
        return file
    return file / f"samples/{sample.get('id')}_epoch_{sample.get('epoch')}.json"


def _id(log: str, sample: Json) -> str:
    return f"{log}:{sample['id']}#{sample.get('epoch', 1)}"


def _name(path: Path, file: Path) -> str:
    return below(path, file).removesuffix(file.suffix)


def _log(path: Path, file: Path) -> _Log:
    """Return what was evaluated and reported, and the samples one after another."""
    if file.suffix == ".json":
        log = load(file)
        samples = map(mapping, items(log.get("samples")))
        return _log_of(_name(path, file), mapping(log), samples)
    try:
        members = read_members(file)
        heads = (
            members[name] for name in ("header.json", "_journal/start.json") if name in members
        )
        header = mapping(next((parse(read()) for read in heads), None))
    except ValueError as error:
        raise AuditError(f"{file}: {error}") from None
    return _log_of(_name(path, file), header, _samples(file, members))


def _log_of(name: str, head: Json, samples: Iterator[Json]) -> _Log:
    results = objects(mapping(head.get("results")).get("scores"))
    return _Log(name=name, spec=mapping(head.get("eval")), results=results, samples=samples)


def _samples(file: Path, members: dict[str, Callable[[], bytes]]) -> Iterator[Json]:
    for name, read in members.items():
        if _is_sample(name):
            try:
                yield mapping(parse(read()))
            except ValueError as error:
                raise AuditError(f"{file}: {name}: {error}") from None


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _run(log: _Log, sample: Json) -> FinishedRun:
    calls = _calls(sample)
    error = text(mapping(sample.get("error")).get("message"))
    limit = text(mapping(sample.get("limit")).get("type"))
    status, reason = _ending(error, limit)
    used = mapping(sample.get("model_usage"))
    reward, unread = _reward(log, sample)
    return FinishedRun(
        id=_id(log.name, sample),
        task=str(sample["id"]),
        origin=log.origin(sample),
        model=text(log.spec.get("model")),
        reward=reward,
        unread=unread,
        status=status,
        termination_reason=reason,
        error=RecordedError(text=error) if error else None,
        calls=calls,
        tokens=total(map(tokens_of, used.values())),
        output=_spoke(mapping(sample.get("output"))) or None,
        unknown=() if calls is not None else ("calls",),
    )


def _ending(
    error: str | None, limit: str | None
) -> tuple[ExecutionStatus, TerminationReason | None]:
    if error:
        return ExecutionStatus.UNKNOWN_EXECUTION_ERROR, None
    if limit in _OUT_OF_TIME:
        return ExecutionStatus.TASK_TIMEOUT, None
    reason = TerminationReason.MAX_STEPS if limit else TerminationReason.AGENT_STOP
    return ExecutionStatus.SUCCESS, reason


def _reward(log: _Log, sample: Json) -> tuple[float | None, str | None]:
    """Return the first scorer's value, as it was before a verdict of ours, or why it is unread.

    Of a dictionary it is the value whose metrics come first in the log's results.
    """
    ours = mapping(mapping(mapping(sample.get("invalidation")).get("metadata")).get(KEY))
    scores = mapping(ours.get("reported")) or mapping(sample.get("scores"))
    scorer, score = next(iter(scores.items()), (None, None))
    value = mapping(score).get("value")
    if isinstance(value, dict):
        reported = [each for each in log.results if each.get("scorer") == scorer]
        names = [each.get("name") for each in reported if each.get("name") in value]
        if not names:
            return None, f"a dictionary of {len(value)} values, {_instead(reported)}"
        value = value[names[0]]
    read = cast(value)
    nothing = value is None or isinstance(value, float)  # NaN: Inspect's own mark
    kind = "text" if isinstance(value, str) else type(value).__name__
    return read, None if read is not None or nothing else f"a {kind} that is no number"


def _instead(reported: list[Json]) -> str:
    """Say what Inspect itself reports of dictionaries, by metrics that a task defines."""
    for name, metric in mapping(next(iter(reported), {}).get("metrics")).items():
        value = number(mapping(metric).get("value"))
        if value is not None:
            return f"of which the log's own metric {name} makes {value:.3f}"
    return "and no metric of the log names one"


def _calls(sample: Json) -> tuple[RecordedCall, ...] | None:
    """Return the calls to models; None if the log holds no events, or none but unfinished ones."""
    events = objects(sample.get("events"))
    models = [each for each in events if each.get("event") == "model"]
    made = [each for each in models if not each.get("pending")]
    return tuple(map(_call, made)) if made or (events and not models) else None


def _spoke(output: Json) -> bool:
    messages = (mapping(each.get("message")) for each in objects(output.get("choices")))
    return any(each.get("tool_calls") or any(content(each.get("content"))) for each in messages)


def _call(event: Json) -> RecordedCall:
    output = mapping(event.get("output"))
    model, role = text(event.get("model")), text(event.get("role")) or "agent"
    offered, at = bool(items(event.get("tools"))), instant(event.get("timestamp"))
    error = text(event.get("error"))
    if error:
        return RecordedCall(
            error=RecordedError(text=error),
            model=model,
            role=role,
            has_tools=offered,
            started_at=at,
        )
    choices = [mapping(each) for each in items(output.get("choices"))]
    rejected = _rejected(event, output, choices)
    if rejected is not None:
        return RecordedCall(
            error=rejected, model=model, role=role, has_tools=offered, started_at=at
        )
    messages = [mapping(each.get("message")) for each in choices]
    called = sum(len(items(each.get("tool_calls"))) for each in messages)
    spoken = any(any(content(each.get("content"))) for each in messages)
    usage = mapping(output.get("usage"))
    return RecordedCall(
        model=model,
        role=role,
        content=bool(called or spoken),
        reasoning=bool(count(usage.get("reasoning_tokens")))
        or any(reasons(each.get("content")) for each in messages),
        input_tokens=count(usage.get("input_tokens")),
        output_tokens=count(usage.get("output_tokens")),
        tool_calls=called,
        has_tools=offered,
        finish_reason=_finish(next(iter(choices), {})),
        started_at=at,
    )


def _rejected(event: Json, output: Json, choices: list[Json]) -> RecordedError | None:
    """Return the rejection that Inspect keeps as an answer; None if the model answered.

    A 400 for a content filter or a prompt that is too long becomes an output with that stop
    reason and the provider's sentence (model/_openai.py: openai_handle_bad_request; the same in
    other providers, which keep the sentence in the output's error).
    """
    stopped = next((_REJECTIONS.get(text(each.get("stop_reason")) or "") for each in choices), None)
    call = mapping(event.get("call"))
    message = text(output.get("error")) or (
        text(output.get("completion")) if call.get("error") else None
    )
    if stopped is None or message is None:
        return None
    return RecordedError(
        text=message, type=stopped, status=400, body=mapping(call.get("response")) or None
    )


def _finish(choice: Json) -> str | None:
    """Return why it stopped; ``unknown`` is Inspect's word for none."""
    reason = text(choice.get("stop_reason"))
    return None if reason == "unknown" else reason


# --- writing ---


def _write(path: Path, verdicts: Verdicts) -> list[str]:
    files = [(_name(path, file), file) for file in _files(path)]
    return [line for name, file in files if (line := _write_one(name, file, verdicts))]


@dataclass(slots=True)
class _Copy:
    """A log while its copy is written; ``name`` as of `_Log`."""

    name: str
    file: Path
    verdicts: Verdicts
    marked: dict[str, Audited] = field(default_factory=dict)
    scored: list[Json] = field(default_factory=list)  # what metrics are computed from

    def corrected(self, sample: Json) -> Json:
        """Return a sample with its verdict."""
        run = _id(self.name, sample)
        judged = self.verdicts.get(run)
        if (
            judged is not None
            and judged.no_measurement
            and (judged.reward is not None or judged.spoiled)
        ):
            self.marked[run] = judged
            sample = _invalidated(sample, judged)
        self.scored.append({name: sample[name] for name in _SCORED if name in sample})
        return sample

    def recomputed(self, log: Json) -> Recomputed | None:
        """Recompute the metrics of a log, once its samples are corrected; None if they stand."""
        return recomputed(log, self.scored) if self.marked and log.get("results") else None


def _write_one(name: str, file: Path, verdicts: Verdicts) -> str | None:
    """Write verdicts into one log, and its metrics over what remains; say which could not be."""
    copy = _Copy(name, file, verdicts)
    now = _write_json(copy) if file.suffix == ".json" else _write_zip(copy)
    if now is None or not now.left:
        return None
    return (
        f"{file.name}: not recomputed and now NaN: {', '.join(now.left)}. Import the code that "
        "defines them and call inspect_ai.log.recompute_metrics (`inspect score` would score "
        "the unmeasured samples again)"
    )


def _write_json(copy: _Copy) -> Recomputed | None:
    log = load(copy.file)
    log["samples"] = [copy.corrected(mapping(each)) for each in items(log.get("samples"))]
    now = copy.recomputed({**log, "samples": None})
    if now is not None:
        log |= {"results": now.results}
        log |= {"reductions": now.reductions} if now.reductions else {}
    save(copy.file, {**log, "invalidated": bool(log.get("invalidated")) or bool(copy.marked)})
    return now


def _write_zip(copy: _Copy) -> Recomputed | None:
    members = read_members(copy.file)
    header, reductions = (
        parse(members[name]()) if name in members else None for name in (_HEADER, _REDUCTIONS)
    )
    recompute = cache(lambda: copy.recomputed({**mapping(header), "reductions": reductions}))

    def summarised(summaries: Any) -> Any:
        return _summaries(copy.name, summaries, copy.marked)

    def reduced(reductions: Any) -> Any:
        now = recompute()
        return reductions if now is None else now.reductions

    def headed(header: Any) -> Any:
        now = recompute()
        marked = {"invalidated": True} if copy.marked else {}
        return {**header, **marked, **({} if now is None else {"results": now.results})}

    listed = [name for name in members if name.startswith(_JOURNAL)] + ["summaries.json"]
    changes: dict[str, Callable[[Any], Any]]
    changes = {name: copy.corrected for name in members if _is_sample(name)}
    changes |= dict.fromkeys(listed, summarised) | {_REDUCTIONS: reduced, _HEADER: headed}
    rewrite(
        copy.file,
        {name: partial(_changed, change) for name, change in changes.items()},
        last=(_REDUCTIONS, *listed, _HEADER),
    )
    return recompute()


def _changed(change: Callable[[Any], Any], raw: bytes) -> bytes:
    return _dumped(change(parse(raw)))


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _invalidated(sample: Json, judged: Audited) -> Json:
    """Return a sample as `invalidate_samples` leaves it, with scores that do not count."""
    before = mapping(mapping(mapping(sample.get("invalidation")).get("metadata")).get(KEY))
    scores = mapping(sample.get("scores"))
    reported = mapping(before.get("reported")) or scores
    why = judged.why
    provenance: Json = {
        "timestamp": sample.get("completed_at") or "1970-01-01T00:00:00+00:00",
        "author": KEY,
        "reason": why,
        "metadata": {KEY: {**block(judged), "reported": reported}},
    }
    return {
        **sample,
        "invalidation": provenance,
        "scores": _unscored(reported, why) if reported else sample.get("scores"),
    }


def _unscored(scores: Json, why: str) -> Json:
    return {
        name: {**mapping(each), "value": UNSCORED, "reason": why} for name, each in scores.items()
    }


def _summaries(log: str, summaries: Any, marked: dict[str, Audited]) -> Any:
    """Return the summaries that the viewer lists, with the same scores as the samples."""
    changed = []
    for each in map(mapping, items(summaries)):
        judged = marked.get(_id(log, each))
        if judged is not None and each.get("scores"):
            why = judged.why
            each = {**each, "scores": _unscored(mapping(each["scores"]), why)}  # noqa: PLW2901
        changed.append(each)
    return changed


INSPECT = AuditFormat(
    name="inspect",
    title="Inspect",
    marks="`*.eval` files, or `*.json` logs with `version`, `status` and `eval`",
    recognises=_recognises,
    read=_read,
    write=_write,
)
