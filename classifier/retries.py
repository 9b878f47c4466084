"""Advise whether to retry a rollout, and after how long.

Only proven transient failures are retried: of calls, or of answers that an engine aborted midway.
An error inside a 200 that nothing explains may be anything: it is retried once at most. While a
lane answers nobody, attempts on it do not count.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from classifier.breakers import reset_call
from classifier.cause_table import UNNAMED
from classifier.records import RolloutRecord
from classifier.sentences import with_sentence
from classifier.validity import answers
from classifier.verdicts import (
    BUDGET,
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
SILENCE_S = 3_600.0
"""Seconds that a lane may answer nobody until attempts on it count all the same."""
ALONE_S = 10.0
"""Age in seconds up to which an answer shows that a task fails alone."""
_SILENT = "transient: nothing on the lane is answered, so this attempt does not count"
_PERMANENT = "permanent until someone looks"
# Validity checks whose finding will be gone as soon as the engine is there again.
_PASSING = frozenset((answers.ENGINE_ABORTED,))
_BY_HEALTH = {
    Health.HEALTHY: "nothing failed",
    Health.SUSPECTED_API_ERROR: "suspected, not proven: someone should look first",
    Health.NOT_JUDGED: "no prompt was executed: see the runner's own error",
    Health.UNDECIDED: "evidence is missing: someone should look first",
}


class Silence(NamedTuple):
    """Attempts at a task that do not count, since its lane answered nobody.

    ``earlier`` is the number of such attempts before this one; ``lasts`` if this is one too.
    """

    earlier: int = 0
    lasts: bool = False


_NO_SILENCE = Silence()


def silence(
    begins: Sequence[float],
    last_answer: Callable[[float, float], float | None],
    *,
    now: float,
    policy: Policy = EVIDENCE,
    failed_beside: Callable[[float], bool] = lambda _since: True,
) -> Silence:
    """Find the attempts that do not count: those before the lane answered anybody.

    Of the last ``policy.max_retries`` + 1 attempts, those count that failed again although the
    lane had answered somebody since one of them began to fail. Times are in seconds since the
    epoch. Once a lane has answered nobody for `SILENCE_S`, all count.

    Arguments:
        begins: of the failures of each attempt, oldest first, this one's last.
        last_answer: returns the start of the lane's last answered call from a time up to another.
        failed_beside: returns True if another task failed on the lane since a time. If none did
            since the last answer, one of the last `ALONE_S` before the failures counts too.
    """
    last = len(begins) - 1
    first = max(0, last - policy.max_retries)
    for place in range(first, last + 1):
        until = now if place == last else begins[place + 1]
        if last_answer(begins[place], until) is not None:
            return Silence(place)
    before = last_answer(begins[first] - ALONE_S, begins[first])
    if before is not None and not failed_beside(before):
        return _NO_SILENCE
    answered = last_answer(begins[0], begins[first]) if first else None
    since = begins[0] if answered is None else begins[bisect_right(begins, answered)]
    return _NO_SILENCE if now - since > SILENCE_S else Silence(last, lasts=True)


def advise(
    verdict: Verdict,
    *,
    attempt: int = 0,
    policy: Policy = EVIDENCE,
    rand: Callable[[], float],
    earlier: Sequence[str] = (),
    silence: Silence = _NO_SILENCE,
) -> Retry:
    """Advise whether to retry a rollout with this verdict.

    ``attempt`` is how many times the slot was run before: 0 for the first, never reset.
    The wait, in seconds, is ``rand()`` (from 0 to 1) of
    ``min(retry_base_s × 2^attempt, retry_cap_s)``, but never less than the provider's own, of
    which `LONGEST_WAIT_S` counts. It is None for a quota: the wait until a plan's next day or
    month is no advice to retry.
    ``earlier`` are the causes of the attempts before, oldest first: a rejection whose cause stays
    the same ``policy.repetition`` times in a row is deterministic. ``silence``: attempts
    that do not count.
    """
    wait = _stated_wait(verdict)
    counted = attempt - silence.earlier
    refusal = _why_not(verdict, None if silence.lasts else counted, policy, earlier)
    if refusal is not None:
        return Retry(eligible=False, after_s=wait, reason=refusal)
    drawn = rand() * backoff_s(attempt, policy)
    reason = f"transient: retry {counted + 1} of {policy.max_retries}"
    if silence.lasts:
        reason = _SILENT
    return Retry(eligible=True, after_s=round(max(drawn, wait or 0.0), 3), reason=reason)


def _stated_wait(verdict: Verdict) -> float | None:
    wait = verdict.provider_wait_s
    if wait is None or verdict.subcategory is Subcategory.QUOTA:
        return None
    return min(max(wait, 0.0), LONGEST_WAIT_S)


def backoff_s(attempt: int, policy: Policy = EVIDENCE) -> float:
    """Return the longest wait in seconds before the next attempt; attempt 0 is the first."""
    exponent = min(max(attempt, 0), 64)  # beyond, the cap has long been reached
    return min(policy.retry_base_s * 2.0**exponent, policy.retry_cap_s)


def _why_not(
    verdict: Verdict, counted: int | None, policy: Policy, earlier: Sequence[str]
) -> str | None:
    """Return why no retry is advised, None if one is; without ``counted`` none is used up."""
    if verdict.attributed_to is AttributedTo.AGENT:
        return "the agent's own failure: its reward counts"
    if BUDGET in verdict.excluded_by:
        return "a limit was spent: raise it, then run it again"
    if verdict.health is Health.NOT_JUDGED and verdict.error:
        reset = reset_call(verdict.batch)
        return f"skipped: fix the cause and reset the breaker ({reset}), then register again"
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
    if counted is not None and counted >= policy.max_retries:
        if policy.max_retries == 1:
            return "transient, but the only retry is used"
        return f"transient, but all {policy.max_retries} retries are used"
    return None


def is_deterministic(subcategory: str | None, repeated: int, policy: Policy) -> bool:
    """Return True if a rejection came so many times in a row that the next one is certain."""
    rejected = subcategory == Subcategory.REJECTED_REQUEST
    return rejected and 0 < policy.repetition <= repeated


def repetitions(cause: str | None, earlier: Sequence[str]) -> int:
    """Count the attempts in a row, the last one included, with this cause; 0 for None."""
    if cause is None:
        return 0
    count = 1
    for before in reversed(earlier):
        if before != cause:
            break
        count += 1
    return count


def with_advice(
    verdict: Verdict,
    rollout: RolloutRecord,
    policy: Policy,
    earlier: Sequence[str] = (),
    silence: Silence = _NO_SILENCE,
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
        silence=_NO_SILENCE if once else silence,
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
