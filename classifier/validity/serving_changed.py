"""The provider, region, engine configuration or weights behind one model changed in a rollout.

OpenRouter names the provider that answered (``provider``), OpenAI and vLLM the configuration
(``system_fingerprint``: developers.openai.com/cookbook/examples/reproducible_outputs_with_the_seed_
parameter). Load balancers change both without harm: it is worth knowing, no more. SGLang names the
version of its weights (python/sglang/srt/utils/weight_versions.py): a rollout that goes on while a
trainer updates them spans versions, which asynchronous training means to do and corrects for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from classifier.model_names import canonical
from classifier.records import Exchange
from classifier.validity.check import Looked
from classifier.validity.measurement import Measurement, ids_of, tally
from classifier.verdicts import Coverage, Level, ValidityFinding, plural

SERVING_CHANGED = "serving_changed"
# What is compared between the rollouts of a batch too; weights change from one to the next.
FIELDS: Mapping[str, str] = {"served_by": "provider", "system_fingerprint": "engine configuration"}
_WITHIN: Mapping[str, str] = {**FIELDS, "weight_version": "weight version"}
_Lane = tuple[str, str | None]


def serving_changed(measured: Measurement) -> Looked | None:
    """Compare what served the calls to each model at each upstream."""
    answers = measured.answers
    if not answers:
        return None
    seen = tally(answers, "upstream", "model", *_WITHIN)
    looked = sum(n for (_, _, *facts), n in seen.items() if any(facts))
    coverage = Coverage(looked=looked, of=len(answers))
    behind: dict[tuple[_Lane, str], set[str]] = {}
    for upstream, model, *facts in seen:
        for field, fact in zip(_WITHIN, facts, strict=True):
            if fact is not None:
                values = behind.setdefault(((upstream, canonical(model)), field), set())
                values.update(fact.split(","))  # one answer may span several versions
    changed = {place: values for place, values in behind.items() if len(values) > 1}
    if not changed:
        return Looked(coverage=coverage)
    calls = [x for x in answers if _concerned(x, changed)]
    return Looked(coverage=coverage, finding=_change_finding(calls, changed, looked))


def _concerned(answer: Exchange, changed: dict[tuple[_Lane, str], set[str]]) -> bool:
    lane = (answer.upstream, canonical(answer.model))
    return any((lane, field) in changed and getattr(answer, field) for field in _WITHIN)


def _change_finding(
    calls: Sequence[Exchange], changed: dict[tuple[_Lane, str], set[str]], of: int
) -> ValidityFinding:
    about: dict[str, object] = {}
    told = []
    for field, what in _WITHIN.items():
        values = {value for (_, each), found in changed.items() if each == field for value in found}
        if values:
            about[field] = sorted(values)
            told.append(f"{plural(len(values), what)} ({', '.join(sorted(values)[:4])})")
    return ValidityFinding(
        check=SERVING_CHANGED,
        level=Level.INFO,
        calls=len(calls),
        of=of,
        evidence=ids_of(calls),
        sentence=f"one model was served by {' and '.join(told)} over {plural(len(calls), 'call')}",
        about=about,
    )
