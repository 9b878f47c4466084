"""Inspect's metrics, recomputed over the scores that remain in a log. Nothing is scored again.

Facts of inspect-ai 0.3.285 (`_eval/task/results.py`, `scorer/_metrics/`, `scorer/_reducer/`).
"""

from __future__ import annotations

import importlib
import math
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from truezero.audit.audit_format import KEY
from truezero.audit.files import load, save
from truezero.audit.values import Json, items, mapping, score, text

# --- values: scorer/_metric.py, value_to_float ---

LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
WORDS: Final = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
UNSCORED: Final = math.nan  # Inspect's own mark of a score that does not count

_Value = tuple[Json, Any]  # a sample, the first of its epochs if they are reduced, and its value


def _is_unscored(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def cast(value: object) -> float | None:
    """Return a score as Inspect reads it; None of what is no number to it."""
    if isinstance(value, str):
        known = LETTERS.get(value, WORDS.get(value.casefold()))
        return score(value) if known is None else known
    return score(value)


def _as_float(value: object) -> float:
    """Return a score as Inspect's metrics count it; text that is no number is 0."""
    if isinstance(value, dict | list):
        raise _NotKnown
    return cast(value) or 0.0


class _NotKnown(Exception):
    """Inspect or a task computes this in a way that is not known here."""


# --- metrics ---


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


_METRICS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "accuracy": statistics.fmean,
    "mean": statistics.fmean,
    "std": _deviation,
    "stderr": lambda values: _deviation(values) / math.sqrt(len(values)),
    "var": lambda values: statistics.variance(values) if len(values) > 1 else 0.0,
}


def _computed(metric: Json, scored: Sequence[tuple[Json, float]], own: Set[str]) -> float:
    """Compute a metric; NaN if nothing is scored.

    Arguments:
        own: names of metrics that the task defines itself.

    Raises:
        _NotKnown: it is none of these, or has parameters.
    """
    params, group = mapping(metric.get("params")), metric.get("group")
    if {group, metric.get("name")} & own or group not in (None, "grouped"):
        raise _NotKnown
    if group:
        return _grouped(str(metric.get("name")), params, scored)
    return _simple(metric.get("name"), params)([value for _, value in scored])


def _simple(name: object, params: Json) -> Callable[[Sequence[float]], float]:
    function = _METRICS.get(str(name).removeprefix("inspect_ai/"))
    if function is None or params:
        raise _NotKnown
    return lambda values: function(values) if values else UNSCORED


def _grouped(name: str, params: Json, scored: Sequence[tuple[Json, float]]) -> float:
    """Compute one value of ``grouped`` (scorer/_metrics/grouped.py)."""
    of, key = mapping(params.get("metric")), params.get("group_key")
    function = _simple(of.get("name"), mapping(of.get("params")))
    template = params.get("name_template", "{group_name}")
    if "value_to_float" in params:
        raise _NotKnown
    groups: dict[str, list[float]] = {}
    for sample, value in scored:
        metadata = mapping(sample.get("metadata"))
        if key not in metadata:
            raise _NotKnown
        groups.setdefault(template.format(group_name=metadata[key]), []).append(value)
    if name != params.get("all_label", "all"):
        return function(groups.get(name, []))
    if params.get("all", "samples") == "samples":
        return function([value for _, value in scored])
    return statistics.fmean(map(function, groups.values())) if groups else UNSCORED


# --- epochs: scorer/_reducer/reducer.py ---

_REDUCERS: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "mean": lambda values: statistics.fmean(map(_as_float, values)),
    "median": lambda values: statistics.median(map(_as_float, values)),
    "max": lambda values: max(values, key=_as_float),
    "mode": lambda values: Counter(values).most_common(1)[0][0],
}
# By epochs, how many of them are correct, and k.
_OF_K: Final[Mapping[str, Callable[[int, int, int], float]]] = {
    "at_least": lambda _, correct, k: int(correct >= k),
    "pass_at": lambda n, correct, k: (
        UNSCORED if n < k else 1 - math.comb(n - correct, k) / math.comb(n, k)
    ),
    "pass_k": lambda n, correct, k: UNSCORED if n < k else math.comb(correct, k) / math.comb(n, k),
}
_NAMED_K: Final = re.compile(rf"({'|'.join(_OF_K)})_(\d+)")


def _reducer(name: str | None) -> Callable[[Sequence[Any]], Any]:
    known = _REDUCERS.get(name or "mean")
    if known is not None:
        return known
    named = _NAMED_K.fullmatch(name or "")
    if named is None:
        raise _NotKnown
    of_k, k = _OF_K[named[1]], int(named[2])
    return lambda values: of_k(len(values), sum(_as_float(v) >= 1 for v in values), k)


def _reduced(values: Sequence[Any], reduce: Callable[[Sequence[Any]], Any]) -> Any:
    """Reduce a sample's epochs to one value; those that are not scored do not count."""
    scored = [value for value in values if not _is_unscored(value)]
    if not scored:
        return UNSCORED
    if isinstance(scored[0], dict):
        return {key: _reduced([mapping(each)[key] for each in scored], reduce) for key in scored[0]}
    if isinstance(scored[0], list):
        raise _NotKnown
    return reduce(scored)


# --- a log ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """Results of a log; ``left`` names metrics that are NaN because nobody here computes them."""

    results: Json
    reductions: list[Json]
    left: tuple[str, ...] = ()


def recomputed(log: Json, samples: Sequence[Json]) -> Recomputed:
    """Recompute a log's results and reductions.

    What is not known here Inspect computes, if it is installed.

    Arguments:
        log: without its samples.
        samples: ``id``, ``epoch``, ``scores``, ``metadata`` and ``error`` of each; the value of a
            score that does not count is NaN.
    """
    here = _recomputed_here(log, samples)
    theirs = _recomputed_by_inspect(log, samples) if here.left else None
    return here if theirs is None else theirs


def _recomputed_here(log: Json, samples: Sequence[Json]) -> Recomputed:
    results, spec, left = mapping(log.get("results")), mapping(log.get("eval")), list[str]()
    before = results.pop("sample_reductions", None)  # where they were once
    scored = _Scored(
        samples=samples,
        reduces=mapping(spec.get("config")).get("epochs_reducer") != [],
        own=set(_defined([spec.get("scorers"), spec.get("metrics")])),
    )
    scores = [_score(mapping(each), scored, left) for each in items(results.get("scores"))]
    reductions = [
        {**mapping(each), "samples": list(_reductions(mapping(each), scored))}
        for each in items(log.get("reductions") or before)
    ]
    return Recomputed(
        results={**results, "scores": scores}, reductions=reductions, left=tuple(left)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scored:
    """The scores of a log, whether epochs are reduced, and its own metrics' names."""

    samples: Sequence[Json]
    reduces: bool
    own: Set[str]

    def epochs(self, scorer: str) -> dict[str, list[_Value]]:
        """Return a scorer's values by sample."""
        found: dict[str, list[_Value]] = {}
        for sample in self.samples:
            given = mapping(sample.get("scores")).get(scorer)
            if given is not None:
                value = sample, mapping(given).get("value")
                found.setdefault(str(sample.get("id")), []).append(value)
        return found

    def view(self, scorer: str, reducer: str | None) -> list[_Value]:
        """Return a scorer's values as its metrics see them.

        Raises:
            _NotKnown: the reducer is not known.
        """
        epochs = self.epochs(scorer).values()
        if not self.reduces:
            return [value for each in epochs for value in each]
        reduce = _reducer(reducer)
        return [(each[0][0], _reduced([v for _, v in each], reduce)) for each in epochs]


def _defined(metrics: Any) -> Iterator[str]:
    """Yield names of metrics in a log's head that are of no package, so of the task."""
    for each in metrics.values() if isinstance(metrics, dict) else items(metrics):
        if isinstance(each, dict) and isinstance(name := each.get("name"), str):
            yield from [] if "/" in name or "metrics" in each else [name]
            yield from _defined(each.get("metrics"))
        else:
            yield from _defined(each)


def _score(of: Json, scored: _Scored, left: list[str]) -> Json:
    scorer, name = str(of.get("scorer")), str(of.get("name"))
    values: list[tuple[Json, float]] | None = None
    counts: dict[str, int | None] = {"scored_samples": None, "unscored_samples": None}
    try:
        view = scored.view(scorer, text(of.get("reducer")))
        values = [(s, _as_float(v)) for s, v in _named(view, name, scorer) if not _is_unscored(v)]
        counts = {"scored_samples": len(values), "unscored_samples": len(view) - len(values)}
    except (_NotKnown, KeyError):
        pass
    metrics = {}
    for key, metric in mapping(of.get("metrics")).items():
        metrics[key] = now = _metric(mapping(metric), values, scored.own)
        if KEY in mapping(now.get("metadata")):
            left.append(f"{key} of {name}")
    return {**of, **counts, "metrics": metrics}


def _named(view: Sequence[_Value], name: str, scorer: str) -> Iterator[_Value]:
    """Yield the values of one score; a scorer's dict has one for each of its keys."""
    for sample, value in view:
        if isinstance(value, dict):
            yield sample, value[name]
        elif name == scorer or _is_unscored(value):
            yield sample, value
        else:
            raise _NotKnown


def _metric(metric: Json, values: Sequence[tuple[Json, float]] | None, own: Set[str]) -> Json:
    said = {key: each for key, each in mapping(metric.get("metadata")).items() if key != KEY}
    try:
        if values is None:
            raise _NotKnown
        value = _computed(metric, values, own)
    except _NotKnown:
        value = UNSCORED
        said[KEY] = "not recomputed without samples that are no measurement"
    plain = {key: each for key, each in metric.items() if key != "metadata"}
    return {**plain, "value": value, **({"metadata": said} if said else {})}


def _reductions(reduction: Json, scored: _Scored) -> Iterator[Json]:
    """Yield the entries of a reduction; those of samples whose scores all count stay."""
    scorer, reducer = str(reduction.get("scorer")), text(reduction.get("reducer"))
    epochs = scored.epochs(scorer)
    for entry in map(mapping, items(reduction.get("samples"))):
        each = epochs.get(str(entry.get("sample_id")), [])
        if not any(_is_unscored(value) for _, value in each):
            yield entry
            continue
        try:
            value = _reduced([value for _, value in each], _reducer(reducer))
        except (_NotKnown, KeyError):
            value = UNSCORED
        reasons = {mapping(mapping(s.get("scores"))[scorer]).get("reason") for s, _ in each}
        yield {**entry, "value": value, "reason": reasons.pop() if len(reasons) == 1 else None}


# --- by Inspect ---


def _recomputed_by_inspect(log: Json, samples: Sequence[Json]) -> Recomputed | None:
    """Recompute by Inspect's own function; None if it is not installed or cannot.

    It is given no file to execute: neither the task's, nor a scorer that it would have to find.
    """
    spec = {**mapping(log.get("eval")), "task_file": None}
    known = {str(mapping(each).get("name")) for each in items(spec.get("scorers"))}
    scorers = {name for each in samples for name in mapping(each.get("scores"))}
    if not all(name in known or name.rstrip("0123456789") in known for name in scorers):
        return None
    try:
        inspect = importlib.import_module("inspect_ai.log")
    except ImportError:
        return None
    slim = [{"input": "", "target": "", **sample} for sample in samples]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.json"
        save(file, {**log, "eval": spec, "samples": slim})
        try:
            read = inspect.read_eval_log(str(file))
            inspect.recompute_metrics(read)
            inspect.write_eval_log(read, str(file))
        except Exception:  # of Inspect's, or of a metric
            return None
        now = load(file)
    if _shape(now) != _shape(log):
        return None  # Inspect takes its own default for a metric that it does not find
    return Recomputed(results=mapping(now.get("results")), reductions=items(now.get("reductions")))


def _shape(log: Json) -> list[tuple[object, ...]]:
    return [
        (
            of.get("scorer"), of.get("name"), of.get("reducer"),
            {mapping(m).get("group") or key for key, m in mapping(of.get("metrics")).items()},
        )
        for of in map(mapping, items(mapping(log.get("results")).get("scores")))
    ]  # fmt: skip
