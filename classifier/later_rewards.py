"""A final verdict after its rewards were delivered later: they change its validity, and no more."""

from __future__ import annotations

from dataclasses import replace

from classifier.records import RolloutRecord
from classifier.sentences import sentence, told, without_score
from classifier.validity import worst_first
from classifier.verdicts import UNEARNED, Verdict


def with_rewards(final: Verdict, anew: Verdict, rollout: RolloutRecord) -> Verdict:
    """Return a final verdict with what rewards that came after it change.

    That is the check `UNEARNED`, and the score that it takes away.

    Arguments:
        anew: the verdict of today's rules and policy on the rollout with its rewards.
        rollout: with its rewards.
    """
    found = [each for each in anew.validity if each.check == UNEARNED]
    looked = {name: of for name, of in anew.validity_coverage.items() if name == UNEARNED}
    taken = UNEARNED in anew.excluded_by
    verdict = replace(
        final,
        validity=worst_first([*final.validity, *found]),
        validity_coverage={**final.validity_coverage, **looked},
        excluded_by=(*final.excluded_by, UNEARNED) if taken else final.excluded_by,
        scoreable="no" if taken and final.scoreable == "yes" else final.scoreable,
    )
    if verdict.scoreable != final.scoreable:
        return replace(verdict, sentence=sentence(verdict))
    why = without_score(rollout) if verdict.scoreable == "yes" else None
    return replace(verdict, sentence=f"{told(final)}; no score: {why}") if why else verdict
