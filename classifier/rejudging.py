"""Changes that the operator's rows make to what is on record: calls, and rollouts' verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from classifier.codec import Json, encode_verdict
from classifier.operator_causes import OperatorCauses
from classifier.records import Exchange, RolloutRecord
from classifier.rules import judge
from classifier.verdicts import Policy, Verdict, plural

_LISTED = 20  # rollouts in a report; `--json` has them all


class VerdictChange(NamedTuple):
    """A rollout's verdict by the causes on record, and by those that the rows give."""

    before: Verdict
    after: Verdict


@dataclass(slots=True, kw_only=True)
class Rejudged:
    """The changes that the rows make, added up as calls and rollouts are taken.

    ``rules`` counts changed calls by their rule before and after. Both verdicts of a rollout are
    given here, by the same policy, so that nothing but the rows is between them.
    """

    causes: OperatorCauses
    policy: Policy
    failed: int = 0
    rollouts: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    verdicts: list[VerdictChange] = field(default_factory=list)

    def call(self, exchange: Exchange) -> Exchange:
        """Count a call, and return it with the cause that the rows give it."""
        before = exchange.cause
        self.failed += before is not None
        changed = self.causes.recorded(exchange)
        if before is not None and changed.cause is not None and changed is not exchange:
            self.rules[before.rule, changed.cause.rule] += 1
        return changed

    def rollout(self, record: RolloutRecord) -> bool:
        """Count a rollout and judge it twice; return whether a call of it has another cause.

        Its calls are counted elsewhere.
        """
        self.rollouts += 1
        calls = tuple(map(self.causes.recorded, record.exchanges))
        if all(one is other for one, other in zip(calls, record.exchanges, strict=True)):
            return False
        before = judge(record, policy=self.policy)
        after = judge(replace(record, exchanges=calls), policy=self.policy)
        if before != after:
            self.verdicts.append(VerdictChange(before, after))
        return True

    @property
    def changed(self) -> int:
        """The number of calls with another cause."""
        return self.rules.total()

    def lines(self) -> Iterator[str]:
        """Say what changed, in plain lines."""
        yield f"{plural(self.failed, 'failed call')}, {self.changed:,} with another cause"
        for (before, after), calls in self.rules.most_common():
            yield f"  {before} → {after}: {plural(calls, 'call')}"
        yield f"{plural(self.rollouts, 'rollout')}, {len(self.verdicts):,} with another verdict"
        for each in self.verdicts[:_LISTED]:
            yield f"  {each.before.rollout_id}: {_told(each.before)} → {_told(each.after)}"
        if len(self.verdicts) > _LISTED:
            yield f"  and {len(self.verdicts) - _LISTED:,} more (--json lists all)"

    def encode(self) -> Json:
        """Encode what changed, with both verdicts of each rollout."""
        return {
            "failed_calls": self.failed,
            "changed_calls": self.changed,
            "rules": [
                {"before": before, "after": after, "calls": calls}
                for (before, after), calls in self.rules.most_common()
            ],
            "rollouts": self.rollouts,
            "verdicts": [
                {"before": encode_verdict(each.before), "after": encode_verdict(each.after)}
                for each in self.verdicts
            ],
        }


def _told(verdict: Verdict) -> str:
    """Return a verdict in a few words: ``api_error auth (all_failed, not scoreable)``."""
    named = " ".join(filter(None, (verdict.health.value, verdict.subcategory)))
    scored = {"yes": "scoreable", "no": "not scoreable"}.get(verdict.scoreable, "scoreable?")
    return f"{named} ({verdict.rule}, {scored})"
