"""The measurement card of a batch: its summary, rendered.

A service renders the summary that its pages show; of the batch's export anybody makes the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from classifier import codec
from classifier.batch_summary import ScoredBatch
from classifier.canonical_json import canonical_json, rounded
from classifier.exported_batch import ExportedBatch
from classifier.repeat_counts import Counts
from classifier.verdicts import EVIDENCE, Policy
from classifier.whole_batch import Answering, AnsweringModel, RegisteredModels

CARD = "urn:truezero:measurement-card:v2"
SELF_REPORTED = "self-reported"
PROVIDER_REQUEST_IDS = "provider request ids"
# What a card cannot show, in words: it is printed with every card.
DOES_NOT_PROVE = (
    "that the batch is all that was run: other batches may have been left unpublished",
    "that the provider ran the model that it names; the card says which name it answered with",
    "that the rewards are right: the runner reported them, and the card counts them",
    "that the calls took place: only the provider can confirm them, by their request ids",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """The facts on a card that its export does not hold: whoever makes the card states them.

    ``origins`` are the hosts behind the upstreams' names. ``harness`` is the name and version of
    what ran the agents, if anybody named it. ``policy`` holds for rollouts whose batch sets none.
    """

    batch: str
    truezero: str
    classifier: str
    policy: Policy = EVIDENCE
    origins: Mapping[str, str] = field(default_factory=dict)
    harness: str | None = None

    def encode(self) -> codec.Json:
        """Encode it as it stands on the card."""
        return {
            "batch": self.batch,
            "truezero": self.truezero,
            "classifier": self.classifier,
            "harness": self.harness,
            "origins": dict(self.origins),
            "policy": {name: getattr(self.policy, name) for name in _POLICY},
        }

    @classmethod
    def decode(cls, source: Mapping[str, Any]) -> Stated:
        """Decode what stands on a card.

        Raises:
            ValueError: something of it is missing or of another type.
        """
        try:
            policy = {name: source["policy"][name] for name in _POLICY}
            origins = {str(name): str(host) for name, host in source["origins"].items()}
            return cls(
                batch=source["batch"], truezero=source["truezero"],
                classifier=source["classifier"], harness=source["harness"], origins=origins,
                policy=Policy(**policy),
            )  # fmt: skip
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"stated: {error} is missing or wrong") from None


# What of a policy decides which rewards count.
_POLICY = ("name", "agents", "validity", "max_steps", "budget", "content_filter", "stall_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures that a card shows of a batch.

    ``answering`` counts rollouts by the models that answered them, ``registered`` by those that
    their registrations name; ``began`` is when the first and the last rollout began, in epoch
    seconds.
    """

    counts: Counts
    summary: ScoredBatch
    answering: Answering
    registered: Mapping[RegisteredModels, int]
    began: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The facts that only the whole export shows; None if it was not read.

    ``digest`` is its SHA-256 digest in hex (`classifier.exported_batch`). ``request_ids`` of its
    ``calls`` to models have a provider's request id.
    """

    digest: str | None = None
    calls: int | None = None
    request_ids: int | None = None

    def encode(self) -> codec.Json:
        """Encode them as they stand on the card."""
        known = PROVIDER_REQUEST_IDS if self.request_ids else SELF_REPORTED
        return {
            "export": self.digest,
            "exported_calls": self.calls,
            "request_ids": self.request_ids,
            "provenance": None if self.request_ids is None else known,
        }


_UNREAD = Roots()
_PROBLEMS = 20  # of thousands, these are named


def render(stated: Stated, measured: Measured, roots: Roots = _UNREAD) -> dict[str, Any]:
    """Return the card of a batch."""
    called = {model.upstream for model in measured.answering}
    origins = {name: host for name, host in stated.origins.items() if name in called}
    card: dict[str, Any] = rounded(
        {
            "type": CARD,
            "stated": {**stated.encode(), "origins": origins},
            "measured": _measured(measured, stated),
            "roots": roots.encode(),
            "does_not_prove": list(DOES_NOT_PROVE),
        }
    )
    return card


def card_of(export: Iterable[Mapping[str, Any]], stated: Stated) -> dict[str, Any]:
    """Make the card of a batch of its export, with the export's digest.

    Arguments:
        export: its records, those of one rollout together.

    Raises:
        ValueError: a record cannot be read or has no canonical form, or those of a rollout are
            not together.
    """
    return card_of_batch(ExportedBatch.of(export, stated.policy), stated)


def card_of_batch(batch: ExportedBatch, stated: Stated) -> dict[str, Any]:
    """Make the card of a batch whose export was read."""
    whole = batch.whole()
    measured = Measured(
        counts=whole.counts,
        summary=whole.summary(reward_range=batch.reward_range, score_key=batch.score_key),
        answering=whole.answering,
        registered=batch.registered,
        began=batch.began,
    )
    roots = Roots(digest=batch.digest, calls=batch.calls, request_ids=batch.request_ids)
    return render(stated, measured, roots)


def card_bytes(card: Mapping[str, Any]) -> bytes:
    """Return a card's canonical bytes: those that are written and compared."""
    return canonical_json(card)


# --- figures -----------------------------------------------------------------------------------


def _measured(measured: Measured, stated: Stated) -> codec.Json:
    summary, counts = measured.summary, measured.counts
    calls = summary.calls
    first_at, last_at = measured.began or (None, None)
    return {
        "rollouts": counts["rollouts"],
        "first_at": first_at,
        "last_at": last_at,
        "score": _score(summary),
        "zeros": asdict(summary.zeros),
        "ones": asdict(summary.ones),
        "exclusion": {
            "bias": summary.exclusion.bias,
            "p": summary.exclusion.p,
            "fisher_p": summary.exclusion.fisher_p,
        },
        "retried_after_score": list(summary.scores.retried_after_score),
        "retried_after_score_total": counts["picked"],
        "valid": summary.check.valid,
        "problems": {
            "total": summary.check.total,
            "first": list(summary.check.lines[:_PROBLEMS]),
        },
        "validity": summary.validity,
        "validity_checks": summary.validity_checks,
        "agents": _agents(measured.registered, stated.policy),
        "models": {
            "registered": _registered(measured.registered),
            "answered": _answered(measured.answering, stated.origins),
        },
        "calls": {
            "total": calls,
            "tokens_known_calls": summary.tokens_known_calls,
            "cost_known_calls": summary.cost_known_calls,
        },
        "tokens": _sums(
            summary,
            ("input_tokens", "output_tokens", "total_tokens"),
            _without(calls, summary.tokens_known_calls),
        ),
        "cost": _sums(summary, ("cost_usd",), _without(calls, summary.cost_known_calls)),
    }


def _sums(
    summary: ScoredBatch, names: Iterable[str], unknown_calls: int | None
) -> dict[str, float | None]:
    """Return sums of what is known, each beside the number of calls that are not in it."""
    sums: dict[str, float | None] = {}
    for name in names:
        sums[name] = getattr(summary, name)
        sums[f"{name}_unknown"] = unknown_calls
    return sums


def _score(summary: ScoredBatch) -> codec.Json:
    scores = summary.scores
    return {
        "repeats": scores.total,
        "scoreable": scores.scoreable,
        "measured": scores.scored,
        "own_failures": summary.own_failures,
        "parts": asdict(summary.parts),
        "no_score": summary.no_score,
        "coverage": scores.coverage,
        "score": scores.score_effective,
        "interval": scores.score_ci,
        "least": scores.score_worst,
        "most": scores.score_best,
        "failures_as_0": scores.score_all,
        "reported": scores.score_reported,
        "first_attempts": scores.score_first,
    }


def _without(calls: int | None, known: int | None) -> int | None:
    """Return how many calls do not say; None if that is not known."""
    return None if calls is None else calls - (known or 0)


def _agents(registered: Mapping[RegisteredModels, int], policy: Policy) -> dict[str, int]:
    """Count rollouts by how their agents are trusted."""
    counts: Counter[str] = Counter()
    for each, rollouts in registered.items():
        counts[each.agents or policy.agents] += rollouts
    return dict(sorted(counts.items()))


def _registered(registered: Mapping[RegisteredModels, int]) -> list[codec.Json]:
    """List the models that registrations name, the most frequent first."""
    counts: Counter[tuple[str | None, tuple[str, ...]]] = Counter()
    for each, rollouts in registered.items():
        counts[each.model, each.fallbacks] += rollouts
    ordered = sorted(counts.items(), key=lambda item: (-item[1], repr(item[0])))
    return [
        {"model": model, "fallbacks": list(fallbacks), "rollouts": rollouts}
        for (model, fallbacks), rollouts in ordered
    ]


def _answered(answering: Answering, origins: Mapping[str, str]) -> list[codec.Json]:
    """List the models that answered, the most frequent first."""

    def origin(model: AnsweringModel) -> str | None:
        return None if model.upstream is None else origins.get(model.upstream)

    ordered = sorted(answering.items(), key=lambda item: (-item[1], repr(item[0])))
    return [
        {**model._asdict(), "origin": origin(model), "rollouts": rollouts}
        for model, rollouts in ordered
    ]


# --- verification --------------------------------------------------------------------------------


def differences(card: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """Name what differs between a card and the card made again of its export.

    Returns:
        Lines such as ``measured.score.score: 0.7 on the card, 0.634 by the export``; none if both
        are equal.
    """
    return list(_differences("", card, again))


def _differences(place: str, one: object, other: object) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}, key=str):
            yield from _differences(
                f"{place}.{key}" if place else str(key), one.get(key, _ABSENT),
                other.get(key, _ABSENT),
            )  # fmt: skip
    elif _ABSENT in (one, other) or canonical_json(one) != canonical_json(other):
        yield f"{place}: {_shown(one)} on the card, {_shown(other)} by the export"


class _Absent:
    """A key that is not there; null may be."""


_ABSENT = _Absent()


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = canonical_json(value).decode(errors="replace")
    return text if len(text) <= 60 else f"{text[:57]}..."
