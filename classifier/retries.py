"""Advise whether to retry a rollout, and after how long.

Only proven transient failures are retried: of calls, or of answers that an engine aborted midway.
An error inside a 200 that nothing explains may be anything: it is retried once at most.
`classifier.lane` decides which failed tries count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from shlex import quote

from classifier.cause_table import UNNAMED
from classifier.lane import Counted, repetitions, wait_s
from classifier.records import RolloutRecord
from classifier.sentences import with_sentence
from classifier.validity import answers
from classifier.verdicts import (
    BUDGET,
    CANCELLED,
    ERROR_BEFORE_ANY_CALL,
    EVIDENCE,
    AttributedTo,
    Health,
    Policy,
    Retry,
    Subcategory,
    Verdict,
)

PERMANENT = {
    Subcategory.AUTH: "permanent until someone fixes the key",
    Subcategory.QUOTA: "permanent until someone fixes the account",
    Subcategory.MODEL_NOT_FOUND: "permanent until the account has that model",
    Subcategory.REJECTED_REQUEST: "permanent: the same request would be refused again",
}
LONGEST_WAIT_S = 86_400.0  # a runner that was told to wait for longer would seem to hang
_UNCOUNTED = "transient: nothing on the lane is answered, so this attempt does not count"
_PERMANENT = "permanent until someone looks"
# Validity checks whose finding will be gone as soon as the engine is there again.
_PASSING = frozenset((answers.ENGINE_ABORTED,))
_BY_HEALTH = {
    Health.HEALTHY: "nothing failed",
    Health.SUSPECTED_API_ERROR: "suspected, not proven: someone should look first",
    Health.NOT_JUDGED: "no prompt was executed: see the runner's own error",
    Health.UNDECIDED: "evidence is missing: someone should look first",
}


def advise(
    verdict: Verdict,
    *,
    attempt: int = 0,
    policy: Policy = EVIDENCE,
    rand: Callable[[], float],
    earlier: Sequence[str] = (),
    tries: Counted | None = None,
) -> Retry:
    """Advise whether to retry a rollout with this verdict.

    ``attempt`` is how many times the slot was run before: 0 for the first, never reset.
    The wait, in seconds, is ``rand()`` (from 0 to 1) of `classifier.lane.wait_s`, but never less
    than the provider's own, of which `LONGEST_WAIT_S` counts. It is None for a quota: the wait
    until a plan's next day or month is no advice to retry.
    ``earlier`` are the causes of the attempts before, oldest first: a rejection whose cause stays
    the same ``policy.repetition`` times in a row is deterministic. ``tries`` count, this one
    included; by default all of them do.
    """
    wait = _stated_wait(verdict)
    counted, counts = tries or Counted(attempt + 1, last_counts=True)
    refusal = _why_not(verdict, counted if counts else None, policy, earlier)
    if refusal is not None:
        return Retry(eligible=False, after_s=wait, reason=refusal)
    drawn = rand() * wait_s(attempt)
    reason = f"transient: retry {counted} of {policy.max_retries}" if counts else _UNCOUNTED
    return Retry(eligible=True, after_s=round(max(drawn, wait or 0.0), 3), reason=reason)


def _stated_wait(verdict: Verdict) -> float | None:
    wait = verdict.provider_wait_s
    if wait is None or verdict.subcategory is Subcategory.QUOTA:
        return None
    return min(max(wait, 0.0), LONGEST_WAIT_S)


def _why_not(
    verdict: Verdict, counted: int | None, policy: Policy, earlier: Sequence[str]
) -> str | None:
    """Return why no retry is advised, None if one is; without ``counted`` tries none is used up."""
    if verdict.attributed_to is AttributedTo.AGENT:
        return "the agent's own failure: its reward counts"
    if BUDGET in verdict.excluded_by:
        return "a limit was spent: raise it, then run it again"
    if CANCELLED in verdict.excluded_by:
        return "its runner was stopped before the end: run it again"
    if verdict.health is Health.NOT_JUDGED and verdict.error:
        reset = reset_command(verdict.batch)
        return f"skipped: fix the cause, register again after {reset}"
    if ERROR_BEFORE_ANY_CALL in verdict.warnings:
        return "no call was made: see the runner's own error"
    passing = _left_open(verdict) or (
        bool(verdict.excluded_by) and _PASSING.issuperset(verdict.excluded_by)
    )
    if verdict.health is not Health.API_ERROR and not passing:
        if verdict.excluded_by:
            names = ", ".join(verdict.excluded_by)
            return f"left out of the score ({names}): someone should look first"
        return _BY_HEALTH[verdict.health]
    if not verdict.transient and not passing:
        return (
            _PERMANENT
            if verdict.subcategory is None
            else PERMANENT.get(verdict.subcategory, _PERMANENT)
        )
    if policy.max_retries == 0:
        return "transient, but retrying is turned off"
    repeated = repetitions(verdict.cause, earlier)
    if is_deterministic(verdict.subcategory, repeated, policy):
        return f"the same cause {repeated} times in a row: deterministic"
    if counted is not None and counted > policy.max_retries:
        if policy.max_retries == 1:
            return "transient, but the only retry is used"
        return f"transient, but all {policy.max_retries} retries are used"
    return None


def is_deterministic(subcategory: str | None, repeated: int, policy: Policy) -> bool:
    """Return True if a rejection came so many times in a row that the next one is certain."""
    rejected = subcategory == Subcategory.REJECTED_REQUEST
    return rejected and 0 < policy.repetition <= repeated


def with_advice(
    verdict: Verdict,
    rollout: RolloutRecord,
    policy: Policy,
    earlier: Sequence[str] = (),
    tries: Counted | None = None,
) -> Verdict:
    """Return the verdict with retry advice by its rollout and its task's earlier attempts.

    And with its sentence, which ends in that advice.
    """
    attempt = rollout.attempt or 0
    once = _left_open(verdict) or _unnamed(verdict, rollout)
    if policy.max_retries > 1 and once:
        policy = replace(policy, max_retries=1)
    retry = advise(
        verdict,
        attempt=attempt,
        policy=policy,
        rand=lambda: _drawn(rollout.id, attempt),
        earlier=earlier,
        tries=None if once else tries,
    )
    return with_sentence(replace(verdict, retry=retry), rollout)


def _left_open(verdict: Verdict) -> bool:
    """Return True if references do not say whose failure it was."""
    return verdict.health.unhealthy and verdict.scoreable == "unknown"


def _unnamed(verdict: Verdict, rollout: RolloutRecord) -> bool:
    """Return True if the verdict rests only on errors inside a 200 that nothing explains."""
    deciding = frozenset(verdict.evidence)
    failed = [x.cause for x in rollout.exchanges if x.cause is not None and x.id in deciding]
    return bool(failed) and all(cause.rule == UNNAMED for cause in failed)


def _drawn(rollout_id: str, attempt: int) -> float:
    """Return a number from 0 to 1 that is fixed for each rollout and attempt."""
    digest = hashlib.blake2b(f"{attempt}:{rollout_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def reset_command(batch: str | None) -> str:
    """Return the command that has a batch's skipped rollouts admitted again: it resets breakers."""
    return f"truezero breaker reset {quote(batch or 'BATCH')}"
