"""What a batch adds up to: by units, exactly, and the same in whatever order it came."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from classifier.batches import Entry
from classifier.repeat_counts import (
    UNIT,
    AlikeRollouts,
    CountedRollout,
    NoteKind,
    PartialTotals,
    TaskProfile,
    TaskSums,
    add,
    kind_of,
    part_of,
    sample_of,
    totals_of,
    whole,
)


def entry(name: str = "r", **values: object) -> Entry:
    blank: dict[str, object] = dict.fromkeys(Entry._fields)
    judged = {"health": "healthy", "scoreable": "yes", "provisional": False}
    judged |= {"diagnostics": (), "unnamed": ()}
    return Entry(**{**blank, "rollout_id": name, **judged, **values})  # type: ignore[arg-type]


def shapes(part: PartialTotals) -> Counter[TaskProfile]:
    return part.single + Counter(task.shape for task in part.tasks.values())


REWARDS = st.sampled_from(
    (None, 0.0, 0.1, 1 / 3, 1.0, (("a", 0.0), ("b", 1.0)), (("a", 0.5), ("b", -1.0)))
)
ENTRIES = st.lists(
    st.builds(
        lambda reward, task, repeat, attempt, scoreable, provisional: entry(
            reward=None if isinstance(reward, tuple) else reward,
            unnamed=reward if isinstance(reward, tuple) else (),
            task=task, repeat=repeat, attempt=attempt, scoreable=scoreable,
            provisional=provisional,
        ),
        REWARDS, st.sampled_from((None, "t", "u")), st.sampled_from((None, 0, 1)),
        st.sampled_from((None, 0, 1)), st.sampled_from(("yes", "no", "unknown")),
        st.sampled_from((False, False, True)),
    ),
    max_size=12,
).map(
    lambda found: [each._replace(rollout_id=f"r{n}") for n, each in enumerate(found)]
)  # fmt: skip


@given(entries=ENTRIES, data=st.data())
def test_a_batch_is_the_sum_of_its_units(entries: list[Entry], data: st.DataObject) -> None:
    units: dict[object, list[CountedRollout]] = {}
    for n, each in enumerate(entries):
        unit = sample_of(each) or each.rollout_id
        units.setdefault(unit, []).append(CountedRollout(each, float(n)))
    whole_batch = part_of([CountedRollout(each, float(n)) for n, each in enumerate(entries)])
    counts: Counter[str] = Counter()
    tasks: dict[str, TaskSums] = {}
    for attempts in data.draw(st.permutations(list(units.values()))):
        part = part_of(attempts)
        add(counts, part.counts)
        for task, sums in part.tasks.items():
            tasks.setdefault(task, TaskSums()).add(sums)
    assert (counts, tasks) == (whole_batch.counts, whole_batch.tasks)


def test_rollouts_alike_count_as_one_does_and_add_up_by_themselves() -> None:
    rewards, costs = (0.1, 0.3, 1 / 3), (None, None, None)
    several = [
        CountedRollout(entry(f"r{n}", reward=reward, cost_usd=cost, input_tokens=n), float(n))
        for n, (reward, cost) in enumerate(zip(rewards, costs, strict=True))
    ]
    (kind,) = {kind_of(part_of([each])) for each in several}
    score = sum(map(whole, rewards))  # type: ignore[arg-type]
    alike = AlikeRollouts(rollouts=3, each=part_of(several[:1]), sums={"input_tokens": 3})
    assert totals_of([alike], PartialTotals(), score=score) == part_of(several).counts
    others = (
        entry(reward=1.0), entry(reward=0.0), entry(reward=2.0), entry(reward=None),
        entry(reward=0.1), entry(reward=0.1, cost_usd=0.0), entry(reward=0.1, health="undecided"),
    )  # fmt: skip
    kinds = [kind_of(part_of([CountedRollout(each, 1.0)])) for each in others]
    assert len({kind, *kinds}) == len(kinds) + 1, "input tokens are known of the first"


def test_a_number_that_is_none_is_unknown() -> None:
    assert [whole(value) for value in (None, float("nan"), float("inf"), 0.0, 1.0, -0.1)] == [
        None, None, None, 0, UNIT, -int(0.1 * 2**68),
    ]  # fmt: skip


def test_the_failure_without_a_later_attempt_is_to_be_run_again() -> None:
    failed = {"task": "t", "repeat": 0, "health": "api_error", "scoreable": "no"}
    first = CountedRollout(entry("a", attempt=0, **failed), 1.0, retry=True)
    second = CountedRollout(entry("b", attempt=1, **failed), 2.0, retry=True)
    waiting = CountedRollout(entry("c", attempt=2, **{**failed, "health": None}), 3.0)

    def retried(*attempts: CountedRollout) -> list[str]:
        notes = part_of(attempts).notes
        return sorted(note.rollout_id for note in notes if note.kind is NoteKind.RETRY)

    assert retried(first) == ["a"]
    assert retried(first, second) == ["b"]
    assert retried(first, second, waiting) == [], "registered, though nobody has judged it"
