"""Another model answered than was asked for.

The answer names its model in every dialect (OpenAI and Anthropic ``model``, Gemini
``modelVersion``). A router names what it chose in the same place
(openrouter.ai/docs/guides/routing/model-fallbacks), and some gateways say that another model stood
in. An Azure deployment and a Bedrock profile have names of the operator's own, and Azure's
model-router is one that chooses (learn.microsoft.com/azure/ai-foundry/openai/how-to/model-router).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from classifier.model_names import canonical, unsized
from classifier.records import Exchange
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What was asked for at an upstream, and all that answered; counts of calls."""

    upstream: str
    asked: str
    answered: Counter[str]

    @property
    def models(self) -> list[str]:
        """The models that answered, each under one name."""
        return distinct(self.answered)

    @property
    def promised(self) -> str | None:
        """The model that the name stands for; None where a router or the operator chose it.

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
    """Whether a name leaves it to a router which model answers."""
    return _ROUTER.fullmatch(asked.casefold()) is not None


def same_model(one: str, two: str) -> bool:
    """Whether two names mean one model, although one may say more: a day, a size, a region."""
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


def served_by_model(answers: Iterable[Exchange]) -> list[Served]:
    """Return what was asked for and what answered, where both are known."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for (upstream, asked, answered), n in tally(
        answers, "upstream", "model", "answered_model"
    ).items():
        if asked is not None and answered is not None:
            found.setdefault((upstream, asked), Counter())[answered] += n
    return [
        Served(upstream=upstream, asked=asked, answered=answered)
        for (upstream, asked), answered in sorted(found.items())
    ]


def model_substituted(measured: Measurement) -> Looked | None:
    """Compare each model that was asked for with those that answered."""
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
        return Looked(coverage=coverage, finding=_fallback(stood_in, coverage.looked))
    main = tally(measured.main, "model")
    graded = [(level_of(each, declared, main=each.asked in main), each) for each in served]
    found = [(level, each) for level, each in graded if level is not None]
    if not found:
        return Looked(coverage=coverage)
    level, worst = max(found, key=lambda pair: (pair[0] is Level.SUSPECT, pair[1].asked in main))
    return Looked(coverage=coverage, finding=_substitution_finding(measured, level, worst))


def _stood_in(measured: Measurement, declared: Collection[str | None]) -> list[Exchange]:
    """Return the answers of models that a gateway put in, but for declared fallbacks."""
    return [x for x in measured.main if x.fallback and canonical(x.answered_model) not in declared]


def level_of(served: Served, declared: Collection[str | None], *, main: bool) -> Level | None:
    """Grade what answered to one name; None where it is what was asked for.

    Arguments:
        declared: canonical names of the registered model and its fallbacks.
        main: whether it is the model under test.
    """
    strange = [name for name in served.strange if canonical(name) not in declared]
    if not strange:
        return None
    changed = len(served.models) > 1
    if changed and main and not promises_none(served.asked):
        return Level.SUSPECT
    return Level.INFO


def _fallback(stood_in: list[Exchange], of: int) -> ValidityFinding:
    last = stood_in[-1]
    names = distinct({x.answered_model for x in stood_in if x.answered_model})
    return ValidityFinding(
        check=MODEL_SUBSTITUTED,
        level=Level.INVALID,
        calls=len(stood_in),
        of=of,
        evidence=ids_of(stood_in),
        sentence=f"a gateway had another model{_named(names)} stand in for "
        f"{last.model or 'the model'} in {len(stood_in):,} of {plural(of, 'answer')}",
        about={"asked": last.model, "answered": names},
    )


def _named(names: list[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _substitution_finding(measured: Measurement, level: Level, served: Served) -> ValidityFinding:
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
    return ValidityFinding(
        check=MODEL_SUBSTITUTED,
        level=level,
        calls=len(calls),
        of=of,
        evidence=ids_of(calls),
        sentence=f"{served.asked} was asked for; {who} {len(calls):,} of {plural(of, 'call')}",
        about={"asked": served.asked, "answered": models},
    )
