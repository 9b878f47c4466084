"""Checks of who answered: another model than asked for, or a change of provider or engine.

The last part compares the rollouts of one batch.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import nsmallest
from typing import NamedTuple, TypeAlias

from classifier.logical_calls import canonical, unsized
from classifier.records import Exchange
from classifier.tables import shipped
from classifier.validity.measurement import CheckResult, Measurement, tally
from classifier.verdicts import Coverage, Level, plural

# --- model substituted ---
#
# Another model answered than was asked for.
#
# The answer names its model in every dialect (OpenAI and Anthropic ``model``, Gemini
# ``modelVersion``). A router names what it chose in the same place
# (openrouter.ai/docs/guides/routing/model-fallbacks), and some gateways say that another model
# stood in. An Azure deployment and a Bedrock profile have names of the operator's own, and Azure's
# model-router is one that chooses
# (learn.microsoft.com/azure/ai-foundry/openai/how-to/model-router).


MODEL_SUBSTITUTED = "model_substituted"
# Names that leave the choice to a router, or that a provider moves on to its next model.
_ROUTER = re.compile(
    r"openrouter/[^/]+|@preset/.*|(?:.*[/._-])?(?:auto|router|default)(?:[._:-].*)?|.*-latest"
)
# What providers and engines add to a name: quantisation, size, day, version, region.
_ADDED = re.compile(
    r"(?:[-_.:@](?:(?:nv|mx)?fp\d+|bf16|int\d+|w\d+a\d+|awq|gptq|gguf|i?q\d\w*|\d+(?:\.\d+)?[bm]"
    r"|\d\d-\d\d|\d{3}|\d{6,8}|v\d+|preview|us|eu|global))+"
)
# Names under which providers serve their newest model (api-docs.deepseek.com/updates,
# help.aliyun.com/en/model-studio/models, platform.openai.com/docs/models/gpt-4-turbo).
_MOVED_ON = frozenset((
    "deepseek-chat", "deepseek-reasoner", "qwen-max", "qwen-plus", "qwen-turbo", "qwen-flash",
    "gpt-4-turbo-preview",
))  # fmt: skip
_WORD = re.compile(r"[a-z]+|\d+")
# Words of a name that one spelling of a model has and another has not.
_SAY_NOTHING = frozenset((
    "meta", "instruct", "it", "hf", "v", "p", "preview", "exp", "chat", "reasoning", "non",
    "thinking", "fp",
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsServed:
    """The model asked for at an upstream, and the calls that each answering model served."""

    upstream: str
    asked: str
    answered: Counter[str]

    @property
    def models(self) -> list[str]:
        """The models that answered, each under one name."""
        return distinct(self.answered)

    @property
    def promised(self) -> str | None:
        """The model that the name stands for; None if a router or the operator chose it.

        Azure knows deployments only; an ARN that names no model is a profile of the account's.
        """
        if promises_none(self.asked) or "azure" in self.upstream.casefold():
            return None
        return None if self.asked.casefold().startswith("arn:") else self.asked

    @property
    def strange(self) -> list[str]:
        """The answering names that are not the one asked for; where none was, all but the first."""
        usual = self.promised or self.answered.most_common(1)[0][0]
        return [name for name in self.answered if not same_model(usual, name)]


def promises_none(asked: str) -> bool:
    """Return True if a name leaves the choice of the model to a router."""
    return _ROUTER.fullmatch(asked.casefold()) is not None


def same_model(one: str, two: str) -> bool:
    """Return True if two names mean one model, even if one adds a day, a size or a region."""
    first, second = canonical(one) or "", canonical(two) or ""
    short, long = sorted((first, second), key=len)
    if first == second or (long.startswith(short) and _ADDED.fullmatch(long, len(short))):
        return True
    return unsized(one) == unsized(two) and ":" not in short


def distinct(names: Iterable[str]) -> list[str]:
    """Return names without those that mean the same model as a longer one of them, sorted."""
    kept: list[str] = []
    for name in sorted(names, key=lambda name: (-len(canonical(name) or ""), name)):
        if not any(same_model(name, other) for other in kept):
            kept.append(name)
    return sorted(kept)


def served_by_model(answers: Iterable[Exchange]) -> list[ModelsServed]:
    """Return what was asked for and what answered, where both are known."""
    answers_by_model: dict[tuple[str, str], Counter[str]] = {}
    for (upstream, asked, answered), n in tally(
        answers, "upstream", "model", "answered_model"
    ).items():
        if asked is not None and answered is not None:
            answers_by_model.setdefault((upstream, asked), Counter())[answered] += n
    return [
        ModelsServed(upstream=upstream, asked=asked, answered=answered)
        for (upstream, asked), answered in sorted(answers_by_model.items())
    ]


def model_substituted(measured: Measurement) -> CheckResult | None:
    """Find that another model answered than was asked for.

    Levels: `info`: in every call, where it may be an alias; `suspect`: it changed on main, or
    both names are models that the price table knows; `invalid`: a gateway says that another
    model stood in.

    Covered: the answer names its model, or a gateway says whether it fell back.
    """
    answers = measured.answers
    if not answers:
        return None
    served = served_by_model(answers)
    fallbacks = tally(answers, "fallback")
    known = sum(each.answered.total() for each in served)
    coverage = Coverage(looked=max(known, fallbacks.total() - fallbacks[None]), of=len(answers))
    declared = frozenset(canonical(name) for name in measured.rollout.models)
    stood_in = _stood_in(measured, declared) if fallbacks[True] else []
    if stood_in:
        return _fallback(coverage, stood_in)
    main = tally(measured.main, "model")
    graded = [(level_of(each, declared, main=each.asked in main), each) for each in served]
    substituted = [(level, each) for level, each in graded if level is not None]
    if not substituted:
        return CheckResult(coverage=coverage)
    level, worst = max(
        substituted, key=lambda pair: (pair[0] is Level.SUSPECT, pair[1].asked in main)
    )
    return _another_answered(measured, coverage, level, worst)


def _stood_in(measured: Measurement, declared: Collection[str | None]) -> list[Exchange]:
    """Return the answers of models that a gateway put in, but for declared fallbacks."""
    return [x for x in measured.main if x.fallback and canonical(x.answered_model) not in declared]


def level_of(served: ModelsServed, declared: Collection[str | None], *, main: bool) -> Level | None:
    """Grade what answered to one name; None if it is what was asked for.

    Arguments:
        declared: canonical names of the registered model and its fallbacks.
        main: whether it is the model under test.
    """
    strange = [name for name in served.strange if canonical(name) not in declared]
    if not strange:
        return None
    if not main or promises_none(served.asked):
        return Level.INFO
    others = len(served.models) > 1 or any(are_other_models(served.asked, x) for x in strange)
    return Level.SUSPECT if others else Level.INFO


def are_other_models(asked: str, answered: str) -> bool:
    """Return True if two names are known to be of two models, so neither is an operator's alias.

    Both are in the price table; none is one that its provider moves on, and they are not one name
    spelt in two ways ("claude-4-opus").
    """
    one, two = canonical(asked) or "", canonical(answered) or ""
    priced = priced_models()
    if one in _MOVED_ON or not all(n in priced or f"{n}-preview" in priced for n in (one, two)):
        return False
    return _words_of(one) != _words_of(two) and not same_model(asked, answered)


@cache
def priced_models() -> frozenset[str]:
    """Return the models with a price, by their canonical names, read when first needed."""
    return frozenset(shipped("priced_models.toml")["names"].split())


def _words_of(name: str) -> list[str]:
    return sorted(word for word in _WORD.findall(name) if word not in _SAY_NOTHING)


def _fallback(coverage: Coverage, stood_in: list[Exchange]) -> CheckResult:
    last = stood_in[-1]
    names = distinct({x.answered_model for x in stood_in if x.answered_model})
    return CheckResult.found(
        coverage,
        check=MODEL_SUBSTITUTED,
        level=Level.INVALID,
        calls=stood_in,
        sentence=f"a gateway had another model{_named(names)} stand in for "
        f"{last.model or 'the model'} in {len(stood_in):,} of {plural(coverage.looked, 'answer')}",
        about={"asked": last.model, "answered": names},
    )


def _named(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _another_answered(
    measured: Measurement, coverage: Coverage, level: Level, served: ModelsServed
) -> CheckResult:
    strange = set(served.strange)
    calls = [
        x
        for x in measured.answers
        if x.answered_model in strange and (x.model, x.upstream) == (served.asked, served.upstream)
    ]
    models, of = served.models, served.answered.total()
    who = f"{', '.join(distinct(strange))} answered"
    if len(models) > 1:
        who = f"{' and '.join(models)} answered, {', '.join(distinct(strange))} in"
    return CheckResult.found(
        coverage,
        check=MODEL_SUBSTITUTED,
        level=level,
        calls=calls,
        of=of,
        sentence=f"{served.asked} was asked for; {who} {len(calls):,} of {plural(of, 'call')}",
        about={"asked": served.asked, "answered": models},
    )


# --- serving changed ---
#
# The provider, region, engine configuration or weights behind one model changed in a rollout.
#
# OpenRouter names the provider that answered (``provider``), OpenAI and vLLM the configuration
# (``system_fingerprint``:
# developers.openai.com/cookbook/examples/reproducible_outputs_with_the_seed_parameter). Load
# balancers change both without harm: it is worth knowing, no more. SGLang names the version of its
# weights (python/sglang/srt/utils/weight_versions.py): a rollout that goes on while a trainer
# updates them spans versions, which asynchronous training means to do and corrects for.


SERVING_CHANGED = "serving_changed"
# What is compared between the rollouts of a batch too; weights change from one to the next.
FIELDS: Mapping[str, str] = {"served_by": "provider", "system_fingerprint": "engine configuration"}
_WITHIN: Mapping[str, str] = {**FIELDS, "weight_version": "weight version"}
_Lane = tuple[str, str | None]


def serving_changed(measured: Measurement) -> CheckResult | None:
    """Find that provider, region, `system_fingerprint` or weights behind one model changed.

    Levels: `info`.

    Covered: the answer names its provider, region, fingerprint or weight version.
    """
    answers = measured.answers
    if not answers:
        return None
    seen = tally(answers, "upstream", "model", *_WITHIN)
    looked = sum(n for (_, _, *facts), n in seen.items() if any(facts))
    coverage = Coverage(looked=looked, of=len(answers))
    behind: dict[tuple[_Lane, str], set[str]] = {}
    for upstream, model, *facts in seen:
        for name, fact in zip(_WITHIN, facts, strict=True):
            if fact is not None:
                values = behind.setdefault(((upstream, canonical(model)), name), set())
                values.update(fact.split(","))  # one answer may span several versions
    changed = {place: values for place, values in behind.items() if len(values) > 1}
    if not changed:
        return CheckResult(coverage=coverage)
    calls = [x for x in answers if _concerned(x, changed)]
    return _changes(coverage, calls, changed)


def _concerned(answer: Exchange, changed: dict[tuple[_Lane, str], set[str]]) -> bool:
    lane = (answer.upstream, canonical(answer.model))
    return any((lane, field) in changed and getattr(answer, field) for field in _WITHIN)


def _changes(
    coverage: Coverage, calls: Sequence[Exchange], changed: dict[tuple[_Lane, str], set[str]]
) -> CheckResult:
    about: dict[str, object] = {}
    parts = []
    for name, what in _WITHIN.items():
        values = {
            value for (_, each), by_name in changed.items() if each == name for value in by_name
        }
        if values:
            about[name] = sorted(values)
            parts.append(f"{plural(len(values), what)} ({', '.join(sorted(values)[:4])})")
    return CheckResult.found(
        coverage,
        check=SERVING_CHANGED,
        level=Level.INFO,
        calls=calls,
        sentence=f"one model was served by {' and '.join(parts)} over {plural(len(calls), 'call')}",
        about=about,
    )


# --- rollouts of a batch compared ---
#
# A substitution that is constant within a rollout may be an alias, as far as one rollout can tell.
# Where the rollouts of a batch got different models for one name, their scores do not compare.


_LIMIT = 10
_KEPT = 20  # ways of being served that are stored of one rollout
# Upstream, model asked for, model that answered, provider or region, fingerprint; None is unknown.
Way: TypeAlias = tuple[str | None, ...]
_WAY = ("upstream", "model", "answered_model", "served_by", "system_fingerprint")  # of an exchange
_PLACES = {name: place for place, name in enumerate(_WAY)}


class ServingGroup(NamedTuple):
    """Rollouts that were served alike: how many, and the ids of the first of them."""

    rollouts: int
    examples: tuple[str, ...]


_Ways: TypeAlias = list[tuple[Way, frozenset[ServingGroup]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinding:
    """A finding of a check about a batch, not about one rollout.

    ``rollouts`` of the ``of`` rollouts whose calls could be compared differ from the rest;
    ``examples`` are ids of such, at most ten.
    """

    check: str
    level: Level
    rollouts: int
    of: int
    examples: tuple[str, ...]
    sentence: str
    about: dict[str, object] = field(default_factory=dict)


def ways_of(answers: Iterable[Exchange]) -> list[Way]:
    """Return the ways in which some calls of a rollout were served, each once."""
    return list(tally(answers, *_WAY))


def servings_text(ways: Iterable[Way]) -> str | None:
    """Encode how main calls were served as JSON; equal text if they were served alike."""
    kept = sorted(ways, key=repr)[:_KEPT]
    return json.dumps(kept, separators=(",", ":")) if kept else None


def read_servings(text: str) -> list[Way]:
    """Return the ways of serving that a text names; none if it is of another form."""
    try:
        ways = json.loads(text)
    except ValueError:  # an archive may hold any
        return []
    known = isinstance(ways, list) and all(map(_is_way, ways))
    return [tuple(way) for way in ways] if known else []


def _is_way(value: object) -> bool:
    if not isinstance(value, list) or len(value) != len(_WAY):
        return False
    return all(each is None or isinstance(each, str) for each in value)


def compare_ways(
    ways: Mapping[Way, Collection[ServingGroup]], *, declared: Collection[str] = ()
) -> list[BatchFinding]:
    """Return what differs between the rollouts of a batch, the worst first.

    Arguments:
        ways: the rollouts of each way in which main lanes were served, in any order; no rollout
            is in two of the groups of which each is served in all of these ways.
        declared: models that registrations name as fallbacks of the one under test.
    """
    ordered = sorted(ways.items(), key=lambda pair: [fact or "" for fact in pair[0]])
    known = [(way, frozenset(rollouts)) for way, rollouts in ordered]
    findings = [*_substituted(known, {canonical(name) for name in declared}), *_changed(known)]
    return sorted(findings, key=lambda finding: finding.level is not Level.SUSPECT)


_ByName: TypeAlias = dict[str, set[ServingGroup]]


def _counts(named: _ByName) -> Counter[str]:
    return Counter({name: _size(rollouts) for name, rollouts in sorted(named.items())})


def _all(named: _ByName, names: Iterable[str]) -> set[ServingGroup]:
    return {rollouts for name in names for rollouts in named[name]}


def _size(groups: Iterable[ServingGroup]) -> int:
    return sum(group.rollouts for group in groups)


def _examples(groups: Iterable[ServingGroup]) -> tuple[str, ...]:
    return tuple(nsmallest(_LIMIT, (name for group in groups for name in group.examples)))


def _substituted(known: _Ways, declared: set[str | None]) -> Iterator[BatchFinding]:
    """Yield the names that another model answered to, or more than one."""
    lanes: dict[tuple[str, str], _ByName] = {}
    for (upstream, asked, answered, *_), rollouts in known:
        if asked is not None and answered is not None:
            lanes.setdefault((upstream or "", asked), {}).setdefault(answered, set()).update(
                rollouts
            )
    for (upstream, asked), named in lanes.items():
        served = ModelsServed(upstream=upstream, asked=asked, answered=_counts(named))
        level = level_of(served, declared, main=True)
        if level is not None:
            yield _substitution(served, level, named)


def _substitution(served: ModelsServed, level: Level, named: _ByName) -> BatchFinding:
    strange = set(served.strange)
    concerned = _all(named, strange)
    of = _size(_all(named, named))
    models = served.models
    who = f"{', '.join(distinct(strange))} answered"
    if len(models) > 1:
        who = f"{' and '.join(models)} answered, {', '.join(distinct(strange))}"
    return BatchFinding(
        check=MODEL_SUBSTITUTED,
        level=level,
        rollouts=_size(concerned),
        of=of,
        examples=_examples(concerned),
        sentence=f"{served.asked} was asked for; {who} in {_size(concerned):,} of "
        f"{plural(of, 'rollout')}",
        about={"asked": served.asked, "answered": models},
    )


def _changed(known: _Ways) -> Iterator[BatchFinding]:
    """Yield the models behind which the provider or the engine differs between rollouts."""
    for field_, what in FIELDS.items():
        lanes: dict[tuple[str | None, str | None], _ByName] = {}
        for way, rollouts in known:
            value = way[_PLACES[field_]]
            if value is not None:
                lane = (way[0], canonical(way[1]))
                lanes.setdefault(lane, {}).setdefault(value, set()).update(rollouts)
        for (_, model), named in lanes.items():
            if len(named) > 1:
                yield _change(field_, what, model, named)


def _change(field_: str, what: str, model: str | None, named: _ByName) -> BatchFinding:
    usual = _counts(named).most_common(1)[0][0]
    others = _all(named, named.keys() - {usual})
    of = _size(_all(named, named))
    return BatchFinding(
        check=SERVING_CHANGED,
        level=Level.INFO,
        rollouts=_size(others),
        of=of,
        examples=_examples(others),
        sentence=f"{model or 'one model'} was served by {plural(len(named), what)} over "
        f"{plural(of, 'rollout')}, by another than the usual in {_size(others):,}",
        about={"model": model, field_: sorted(named)[:_LIMIT]},
    )
