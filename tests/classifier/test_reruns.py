"""What is to be run again: by what is to be done about it, and never what was superseded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from classifier import judge, result
from classifier.batches import Entry
from classifier.reruns import (
    FIXES,
    NEVER_STARTED,
    MissingRepeats,
    RepeatStatus,
    Rerun,
    RerunCounts,
    RerunEntry,
    RerunItem,
    RerunReason,
    count_of,
    never_started,
    to_rerun,
    without_score,
)
from classifier.retries import with_advice
from classifier.verdicts import EVIDENCE, Policy, Subcategory
from tests.builders import limit_reached, rollout
from tests.tables import each

SKIPPED = (
    "skipped: breaker open on auth:401 after 5 rollouts in a row; fix the cause, then "
    "truezero breaker reset night-7"
)


def attempt(calls: str, *, task: str | None = "t", **said: Any) -> RerunEntry:
    """One attempt: `calls` as `tests.builders.rollout` writes them."""
    told = {name: said.pop(name) for name in ("skipped",) if name in said}
    policy = said.pop("policy", Policy())
    name = f"{task}.{said.get('repeat')}.{said.get('attempt', 0)}"
    seen = rollout(calls, id=name, task=task, **said)
    verdict = with_advice(judge(seen, policy=policy), seen, policy)
    made = Entry.of(result(seen, verdict))
    lane = verdict.lane if verdict.health.unhealthy else None
    return RerunEntry(
        entry=made._replace(health=None) if verdict.provisional else made._replace(lane=lane),
        transient=verdict.transient,
        cause=verdict.cause,
        rule=verdict.rule,
        after_s=verdict.retry.after_s,
        warnings=verdict.warnings,
        excluded_by=verdict.excluded_by,
        **told,
    )


class Sorted(NamedTuple):
    """What some attempts have to be run again of, and how many repeats run."""

    running: int
    items: dict[RerunReason, list[RerunItem]]


def reruns(attempts: Iterable[RerunEntry], policy: Policy = EVIDENCE) -> Sorted:
    """Sort attempts, given the oldest first."""
    running, items = 0, defaultdict[RerunReason, list[RerunItem]](list)
    for tried in without_score(attempts):
        reason, item = to_rerun(tried, policy)
        if reason is None:
            running += 1
        else:
            items[reason].append(item)
    return Sorted(running, dict(items))


def only(found: Sorted) -> tuple[Rerun, str, RerunItem]:
    """The one thing that is to be run again."""
    ((reason, (item,)),) = found.items.items()
    return reason.kind, reason.cause, item


@each(
    "calls, said, kind, cause",
    [
        ("503*3", {}, Rerun.TRANSIENT, "provider_error:503"),
        ("401*2", {}, Rerun.FIX_FIRST, "auth:401 on openai/gpt-5/key-3f9a"),
        ("", {}, Rerun.FIX_FIRST, "suspected:zero_signal"),
        ("200 lost", {}, Rerun.UNDECIDED, "calls_lost"),
        ("200", {"rewards": None}, Rerun.UNMEASURED, "no_reward"),
        ("200 409", {}, Rerun.UNMEASURED, "not_known"),
        ("", {"status": "setup_failed", "prompts_executed": 0, "rewards": None},
         Rerun.UNMEASURED, "not_judged"),
        ("200*9", {"termination_reason": "max_steps", "policy": Policy(max_steps="exclude")},
         Rerun.UNMEASURED, "max_steps"),
        ("200*9", {"limit_reached": limit_reached()}, Rerun.UNMEASURED, "budget"),
        ("", {"limit_reached": limit_reached()}, Rerun.UNMEASURED, "budget"),
        ("", {"skipped": SKIPPED, "running": True}, Rerun.SKIPPED, "auth:401"),
    ],
)  # fmt: skip
def test_it_is_sorted_by_what_is_to_be_done(
    calls: str, said: dict[str, Any], kind: Rerun, cause: str
) -> None:
    found = only(reruns([attempt(calls, **said)]))
    assert found[:2] == (kind, cause)
    assert found[2].rollout_id == "t.None.0"


def test_what_was_measured_is_in_none() -> None:
    found = reruns([attempt("200"), attempt("503 200", task="u", rewards={"reward": 1.0})])
    assert found == (0, {})


def test_what_runs_is_counted_and_in_none() -> None:
    found = reruns([attempt("503", running=True)])
    assert found == (1, {})


def test_an_attempt_that_a_later_one_superseded_is_in_none() -> None:
    tried = [attempt("503*2", repeat=0), attempt("401", repeat=0, attempt=1)]
    kind, cause, item = only(reruns(tried))
    assert (kind, item.rollout_id, item.attempt) == (Rerun.FIX_FIRST, "t.0.1", 2)
    assert cause.startswith("auth:401")
    scored = attempt("200", repeat=0, attempt=2, rewards={"reward": 1.0})
    assert reruns([*tried, scored]) == (0, {})
    under_way = attempt("503", repeat=0, attempt=2, running=True)
    assert reruns([*tried, under_way]) == (1, {})


def test_a_rejection_that_stays_the_same_is_to_be_fixed_first() -> None:
    tried = [
        attempt("503*2", repeat=0, attempt=n)._replace(cause="v1:rejected_request:openai:400:-")
        for n in range(3)
    ]
    tried = [
        each._replace(entry=each.entry._replace(subcategory=Subcategory.REJECTED_REQUEST))
        for each in tried
    ]
    assert only(reruns(tried[:2]))[0] is Rerun.TRANSIENT
    assert only(reruns(tried))[0] is Rerun.FIX_FIRST
    assert only(reruns(tried, Policy(repetition=0)))[0] is Rerun.TRANSIENT


@each("calls", ["503*2", "500*2", "429*2", "net*2"])
def test_a_transient_cause_that_stays_the_same_is_still_run_again_now(calls: str) -> None:
    tried = [attempt(calls, repeat=0, attempt=n) for n in range(9)]
    ((reason, _),) = reruns(tried).items.items()
    assert (reason.kind, reason.fix) == (Rerun.TRANSIENT, None)


def test_counts_of_the_last_release_are_read_as_of_any_cause() -> None:
    told = RerunCounts.of({"standing:transient:3": 2, "standing::0": 1, "standing:fix_first:0": 4})
    assert (told.running, told.kinds[Rerun.TRANSIENT], told.kinds[Rerun.FIX_FIRST]) == (1, 2, 4)


def test_a_rollout_that_was_not_admitted_is_registered_again_as_it_is() -> None:
    tried = [
        attempt("503", repeat=0),
        attempt("", repeat=0, attempt=1, skipped=SKIPPED, running=True),
    ]
    found = reruns(tried)
    kind, _, item = only(found)
    assert (kind, item.rollout_id, item.attempt) == (Rerun.SKIPPED, "t.0.1", 1)
    (reason,) = found.items
    assert reason.fix == "fix the cause, then truezero breaker reset night-7"


def test_each_repeat_stands_for_itself() -> None:
    found = only(reruns([attempt("503", repeat=0), attempt("200", repeat=2)]))
    assert (found[0], found[2].repeat) == (Rerun.TRANSIENT, 0)


def test_each_cause_says_what_to_fix() -> None:
    tried = [attempt("402*2", task="a")]
    tried += [attempt("401*2", task=f"t{n}") for n in range(2)]
    first, second = reruns(tried).items.items()
    assert first[0].fix == FIXES[Subcategory.QUOTA]
    assert second[0].fix == FIXES[Subcategory.AUTH]
    assert [item.task for item in second[1]] == ["t0", "t1"]
    assert set(FIXES) == set(Subcategory)


def test_the_providers_wait_is_told_where_it_is_known() -> None:
    assert only(reruns([attempt("503")._replace(after_s=7.0)]))[2].after_s == 7.0


def test_counts_follow_the_policy_that_they_are_read_with() -> None:
    counts = {
        count_of(RepeatStatus(None)): 4, count_of(RepeatStatus(Rerun.SKIPPED)): 5, NEVER_STARTED: 6,
        **{count_of(RepeatStatus(Rerun.TRANSIENT, times)): 1 for times in range(5)},
        "health:healthy": 9,
    }  # fmt: skip
    for repetition, passing in ((0, 5), (3, 3), (1, 1)):
        told = RerunCounts.of(counts, Policy(repetition=repetition))
        assert told.running == 4
        assert told.kinds == {
            Rerun.TRANSIENT: passing, Rerun.FIX_FIRST: 5 - passing, Rerun.SKIPPED: 5,
            Rerun.UNDECIDED: 0, Rerun.UNMEASURED: 6,
        }  # fmt: skip


@each(
    "wanted, has, lacks",
    [(4, {0, 2}, [1, 3]), (4, {1, 2, 3}, [0]), (4, {2, 8}, [0, 1]), (1, {5}, [])],
)
def test_repeats_never_started_are_named_and_no_more_than_are_too_few(
    wanted: int, has: set[int], lacks: list[int]
) -> None:
    task = MissingRepeats("t", wanted, has)
    found = list(never_started(task))
    assert [unscored.item.repeat for unscored in found] == lacks
    for reason, item in found:
        assert reason is not None
        assert reason[:2] == (Rerun.UNMEASURED, NEVER_STARTED)
        assert (item.task, item.rollout_id, item.attempt) == ("t", None, 0)
    for place, repeat in enumerate(lacks, 1):
        assert list(never_started(task, after=repeat)) == found[place:]
