"""Evidence that verdicts stand on: kept in one column, and read as it was."""

from __future__ import annotations

import json
import random

from classifier.records import Neighbours, RolloutRecord
from classifier.references import NotRun, ReferenceSeries
from proxy.control.evidence_kinds import as_it_stood, kinds, stands_on

_RECORDS = 500


def drawn(draw: random.Random) -> RolloutRecord:
    """A rollout with any evidence, or none."""

    def maybe(value: float) -> float | None:
        return value if draw.random() < 0.5 else None

    def count() -> int:
        return draw.randrange(5)

    def calls() -> list[str]:
        return [f"x{draw.getrandbits(24):06x}-é" for _ in range(draw.randrange(3))]

    return RolloutRecord(
        id="r",
        neighbours={
            each: Neighbours(answered=count(), alike=count(), starts=count()) for each in calls()
        },
        references={
            each: ReferenceSeries(
                id=each,
                upstream="openai",
                model=draw.choice(("gpt-5", "模型")),
                api="openai.chat",
                started_at=draw.uniform(0, 2e9),
                ended_at=maybe(draw.uniform(0, 2e9)),
                not_run=draw.choice((None, *NotRun)),
            )
            for each in calls()
        },
        unattributed_calls=draw.choice((0, count())),
        passes_tokens=maybe(draw.uniform(0, 1e6)),
    )


def test_what_a_verdict_stands_on_is_read_as_it_was() -> None:
    draw, bare = random.Random(56), RolloutRecord(id="r")
    seen = set()
    for _ in range(_RECORDS):
        rollout = drawn(draw)
        column = stands_on(rollout)
        assert as_it_stood(bare, column) == rollout
        seen.add(() if column is None else tuple(json.loads(column)))
    assert len(seen) == 2 ** len(kinds()), "each kind with and without the others"


def test_evidence_of_a_kind_that_nobody_knows_any_more_is_left_out() -> None:
    bare = RolloutRecord(id="r")
    assert as_it_stood(bare, '{"drifts": [1], "passes_tokens": 2.5}').passes_tokens == 2.5
    assert as_it_stood(bare, None) is bare
