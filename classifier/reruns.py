"""List what to run again of a batch: now, once something is fixed, or only after a look.

Only the attempt that counts for a repeat is listed: one that a later attempt superseded never is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol

from classifier.batches import Entry, task_repeats
from classifier.diagnostics import tells_of_missing
from classifier.lane import repetitions
from classifier.retries import is_deterministic
from classifier.verdicts import (
    ANSWERS_UNSEEN,
    BUDGET,
    CANCELLED,
    EVIDENCE,
    NOTHING_READ,
    REFUSED_BY_HARNESS,
    Health,
    Policy,
    Subcategory,
)


class Rerun(StrEnum):
    """The action that a repeat without a measurement needs."""

    TRANSIENT = "transient"  # run it again now
    FIX_FIRST = "fix_first"  # it would fail again until someone fixed its cause
    SKIPPED = "skipped"  # an open breaker did not admit it
    UNDECIDED = "undecided"  # evidence is missing
    UNMEASURED = "unmeasured"  # the provider did not fail, and there is no score


_BY_HEALTH = {
    Health.SUSPECTED_API_ERROR: Rerun.FIX_FIRST,
    Health.UNDECIDED: Rerun.UNDECIDED,
    Health.NOT_JUDGED: Rerun.UNMEASURED,
    Health.HEALTHY: Rerun.UNMEASURED,
}
# What to fix, by the cause of a failure; the sentence starts where a cause's name ends.
FIXES: Mapping[str, str] = {
    Subcategory.AUTH: "replace the API key, or give it access to the model",
    Subcategory.QUOTA: "add credit to the account, or raise its quota",
    Subcategory.MODEL_NOT_FOUND: "give the account access to the model, or correct its name",
    Subcategory.REJECTED_REQUEST: "change the request: the provider rejects it as invalid",
    Subcategory.RATE_LIMIT: "lower the concurrency, or raise the account's rate limit",
    Subcategory.PROVIDER_ERROR: "the failure does not pass by itself: ask the provider",
}
_LOOK = {
    "zero_signal": "no call came through the proxy: check the agent's base URL",
    "unread_answers": "no response could be read as an answer: look at what came back",
    "empty_answers": "every answer was empty: look at the calls",
    "never_answered": "the agent left before an answer: raise its timeout, or ask the provider",
    "unexplained_rejections": "look at the last calls: they were rejected without a reason",
}
_RESET = "fix the cause, then reset the breaker"  # a sentence of an earlier release
NEVER_STARTED = "never_started"
_NOT_MEASURED = {
    "not_judged": "no model was called: see the runner's own error",
    "no_reward": "the agent finished and no reward was reported: score it, do not run it again",
    "not_known": "no model is known to have answered: look at the calls",
    NEVER_STARTED: "registered as repeats of the task and never started",
    "max_steps": "the agent ran out of steps, and the batch's policy leaves that out",
    BUDGET: "a limit was spent: raise it, then run it again",
    CANCELLED: "its runner was stopped before the end: run it again",
}
_SPOILT = "the model was reached, and what came was not what was to be measured"
_UNPROVEN = {
    ANSWERS_UNSEEN: "no response could be looked at: too long, or encoded otherwise",
    REFUSED_BY_HARNESS: "the harness itself refused calls: look at its relay, then run it again",
    NOTHING_READ: "no output of the model was read: look at the calls",
}
_UNDECIDED = "the record has gaps: look at the service's log, then run it again"


class RerunAttempt(Protocol):
    """One attempt, as far as it decides what is to be done about its repeat."""

    @property
    def entry(self) -> Entry:
        """The attempt's contribution to its batch, without a health until it is judged."""

    @property
    def skipped(self) -> object:
        """A true value if the attempt was not admitted."""

    @property
    def transient(self) -> bool | None:
        """True if the attempt's failure passes, None if its verdict does not say."""

    @property
    def cause(self) -> str | None:
        """The finer cause of its failure."""


class RepeatStatus(NamedTuple):
    """The state of a repeat without a score, whatever the policy.

    Without a ``kind`` it is still running. A transient failure came ``repeated``
    times in a row with one cause, which decides only if it was ``rejected``.
    """

    kind: Rerun | None
    repeated: int = 0
    rejected: bool = True

    def under(self, policy: Policy) -> Rerun | None:
        """Return what is to be done about it; None while it runs."""
        cause = Subcategory.REJECTED_REQUEST if self.rejected else None
        if self.kind is Rerun.TRANSIENT and is_deterministic(cause, self.repeated, policy):
            return Rerun.FIX_FIRST
        return self.kind


def standing(tried: Sequence[RerunAttempt]) -> RepeatStatus:
    """Return how a repeat stands by its attempts, the oldest first, none of which has a score."""
    last = tried[-1]
    health = last.entry.health
    if last.skipped:
        return RepeatStatus(Rerun.SKIPPED)
    if health is None or last.entry.provisional:
        return RepeatStatus(None)
    if health != Health.API_ERROR:
        return RepeatStatus(_BY_HEALTH[Health(health)])
    if not last.transient:
        return RepeatStatus(Rerun.FIX_FIRST)
    earlier = [attempt.cause for attempt in tried[:-1] if attempt.cause is not None]
    rejected = last.entry.subcategory == Subcategory.REJECTED_REQUEST
    return RepeatStatus(Rerun.TRANSIENT, repetitions(last.cause, earlier), rejected)


class RerunEntry(NamedTuple):
    """One attempt, with what its verdict says beside its entry.

    ``entry.health`` is None if it was not judged yet. ``skipped`` says why it was not
    admitted, ``warnings`` are the verdict's, ``excluded_by`` for what the policy leaves its score
    out. ``no_score`` says why its rewards hold no score. ``model``, ``upstream`` and ``repeats``
    are those that it was registered with.
    """

    entry: Entry
    transient: bool | None = None
    cause: str | None = None
    rule: str | None = None
    after_s: float | None = None
    skipped: str | None = None
    warnings: tuple[str, ...] = ()
    excluded_by: tuple[str, ...] = ()
    model: str | None = None
    upstream: str | None = None
    repeats: int | None = None
    no_score: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunItem:
    """One repeat of a task to run again.

    ``rollout_id`` is its last attempt, None of one that was never started; ``attempt`` is the
    number that the next one has. ``after_s``: not before so many seconds. ``model``, ``upstream``
    and ``repeats`` are to be registered as before.
    """

    task: str | None
    repeat: int | None
    rollout_id: str | None
    attempt: int
    after_s: float | None = None
    model: str | None = None
    upstream: str | None = None
    repeats: int | None = None


class RerunReason(NamedTuple):
    """The reason that repeats of a group share; without a ``fix`` nothing is to be done first."""

    kind: Rerun
    cause: str
    fix: str | None


class UnscoredRepeat(NamedTuple):
    """A repeat without a score, and why it is to be run again; no ``reason``: it runs."""

    reason: RerunReason | None
    item: RerunItem


class MissingRepeats(NamedTuple):
    """A task with fewer repeats than it was registered to have, and which it has.

    ``model`` and ``upstream`` are those of all its rollouts, None if they differ.
    """

    task: str
    wanted: int
    repeats: Collection[int]
    model: str | None = None
    upstream: str | None = None


def without_score(attempts: Iterable[RerunEntry]) -> Iterator[tuple[RerunEntry, ...]]:
    """Yield the attempts at each repeat without a score, by their numbers.

    Arguments:
        attempts: whole repeats, the oldest attempt first.
    """
    by_id = {attempt.entry.rollout_id: attempt for attempt in attempts}
    for slot in task_repeats(attempt.entry for attempt in by_id.values()):
        if slot.counted.score is None:
            yield tuple(by_id[entry.rollout_id] for entry in slot.attempts)


def to_rerun(tried: Sequence[RerunEntry], policy: Policy = EVIDENCE) -> UnscoredRepeat:
    """Return what is to be done about a repeat, by its attempts as `without_score` yields them."""
    kind = standing(tried).under(policy)
    return UnscoredRepeat(None if kind is None else _why(tried[-1], kind), _item(tried))


def never_started(lacking: MissingRepeats, *, after: int = -1) -> Iterator[UnscoredRepeat]:
    """Yield as many repeats as a task lacks, by their numbers.

    Arguments:
        after: leave out those up to this one.
    """
    reason = RerunReason(Rerun.UNMEASURED, NEVER_STARTED, _NOT_MEASURED[NEVER_STARTED])
    free = (repeat for repeat in range(lacking.wanted) if repeat not in lacking.repeats)
    for repeat in islice(free, lacking.wanted - len(lacking.repeats)):
        if repeat > after:
            item = RerunItem(
                task=lacking.task, repeat=repeat, rollout_id=None, attempt=0,
                model=lacking.model, upstream=lacking.upstream, repeats=lacking.wanted,
            )  # fmt: skip
            yield UnscoredRepeat(reason, item)


def _item(tried: Sequence[RerunEntry]) -> RerunItem:
    last = tried[-1]
    numbers = [attempt.entry.attempt or 0 for attempt in tried]
    return RerunItem(
        task=last.entry.task,
        repeat=last.entry.repeat,
        rollout_id=last.entry.rollout_id,
        # A rollout that was not admitted made no attempt: it is registered again as it is.
        attempt=max(numbers) + (last.skipped is None),
        after_s=last.after_s,
        model=last.model,
        upstream=last.upstream,
        repeats=last.repeats,
    )


def _why(last: RerunEntry, kind: Rerun) -> RerunReason:
    """Return why a slot is to be run again, by its last attempt."""
    entry = last.entry
    match kind, entry.health:
        case Rerun.SKIPPED, _:
            return RerunReason(kind, *_kept_out(last.skipped or ""))
        case Rerun.UNDECIDED, _:
            missing = next(filter(tells_of_missing, last.warnings), "no_call_seen")
            return RerunReason(kind, missing, _UNPROVEN.get(missing, _UNDECIDED))
        case Rerun.UNMEASURED, Health.HEALTHY:
            return RerunReason(kind, *_left_out(last))
        case Rerun.UNMEASURED, _:
            cause = next(iter(last.excluded_by), "not_judged")
            return RerunReason(kind, cause, _NOT_MEASURED[cause])
        case Rerun.FIX_FIRST, Health.SUSPECTED_API_ERROR:
            rule = last.rule or ""
            fix = _LOOK.get(rule, "look at the calls")
            return RerunReason(kind, entry.fingerprint or rule, fix)
    cause = entry.fingerprint or entry.subcategory or entry.health or ""
    if kind is Rerun.TRANSIENT:
        return RerunReason(kind, cause, None)
    fix = FIXES.get(entry.subcategory or "", "look at the calls")
    return RerunReason(kind, f"{cause} on {entry.lane}" if entry.lane else cause, fix)


def _left_out(last: RerunEntry) -> tuple[str, str]:
    """Return why a rollout that reached its model has no score, and what to do first."""
    if last.entry.scoreable == "unknown":
        return "not_known", _NOT_MEASURED["not_known"]
    if last.no_score is not None:
        return "score_key", last.no_score
    if last.entry.scoreable == "yes":
        return "no_reward", _NOT_MEASURED["no_reward"]
    cause = next(iter(last.excluded_by), "not_known")
    return cause, _NOT_MEASURED.get(cause, _SPOILT)


def _kept_out(skipped: str) -> tuple[str, str]:
    """Return the cause of a breaker, and what to do first: the sentence ends with its command."""
    _, command, of = skipped.partition("truezero ")
    return opened_by(skipped), f"fix the cause, then {command}{of}" if of else _RESET


def opened_by(skipped: str) -> str:
    """Return the fingerprint that opened a breaker, of why a rollout was not admitted."""
    return skipped.partition(" open on ")[2].partition(" ")[0] or "breaker"


# --- counts ---

_STANDING = "standing"
_REJECTED = ":rejected"  # earlier releases counted failures of all causes alike, without it


def count_of(status: RepeatStatus) -> str:
    """Return the name of the count, among those of a batch, that a repeat is in."""
    suffix = _REJECTED if status.rejected and status.repeated else ""
    return f"{_STANDING}:{status.kind or ''}:{status.repeated}{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunCounts:
    """The numbers of repeats listed of each kind, and of those under way."""

    running: int
    kinds: Mapping[Rerun, int]

    @classmethod
    def of(cls, counts: Mapping[str, int], policy: Policy = EVIDENCE) -> RerunCounts:
        """Read them from what a batch adds up to."""
        kinds: Counter[Rerun | None] = Counter({Rerun.UNMEASURED: counts.get(NEVER_STARTED, 0)})
        for name, count in counts.items():
            if name.startswith(_STANDING):
                _, kind, repeated, *rejected = name.split(":")
                status = RepeatStatus(
                    Rerun(kind) if kind else None, int(repeated), rejected=bool(rejected)
                )
                kinds[status.under(policy)] += count
        return cls(running=kinds[None], kinds={kind: kinds[kind] for kind in Rerun})
