"""`truezero breaker`: which lanes a batch has stopped calling, and a reset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.truezero.cli.test_batches import truezero
from tests.truezero.driving import call, service
from truezero import Client, Skipped, models
from truezero.cli.breaker import lane_lines

LANE: dict[str, Any] = {
    "lane": "openai/gpt-5/key-3f9a", "phase": "open", "fingerprint": "auth:401", "streak": 12,
    "threshold": 5, "opened_at": 0.0, "retry_at": None, "canary": None, "probe_at": 60.0,
    "tripped_by": [f"r{n}" for n in range(12)], "skipped": ["s0"], "skipped_total": 240,
}  # fmt: skip


def lines(**facts: Any) -> list[str]:
    return lane_lines("my batch", models.BreakerLane.model_validate(LANE | facts))


def test_an_open_breaker_says_since_when_by_whom_and_whom_it_skipped() -> None:
    assert lines() == [
        "openai/gpt-5/key-3f9a: open, opened at 1970-01-01 00:00:00 UTC",
        (
            "  12 rollouts in a row failed with auth:401 (it opens at 5): "
            "r0, r1, r2, r3, r4, r5, r6, r7, r8, r9 and 2 more"
        ),
        "  skipped: s0 and 239 more",
        "  probe: the next rollout from 1970-01-01 00:01:00 UTC on is admitted",
        "  fix the cause, then: truezero breaker reset 'my batch'",
    ]


def test_a_breaker_names_tasks() -> None:
    said = lines(phase="half_open", canary="r2", names={"r2": "fix-2", "s0": "fix-3 (repeat 1)"})
    assert said[1].endswith(": r0, r1, fix-2, r3, r4, r5, r6, r7, r8, r9 and 2 more")
    assert said[2:4] == ["  skipped: fix-3 (repeat 1) and 239 more", "  probe: fix-2 is under way"]


@pytest.mark.parametrize(
    ("facts", "probe"),
    [
        ({"probe_at": None}, None),
        ({"phase": "half_open", "probe_at": None}, "  probe: the next rollout is admitted"),
        ({"phase": "half_open", "canary": "bird"}, "  probe: bird is under way"),
    ],
)
def test_a_breaker_says_who_may_try(facts: dict[str, Any], probe: str | None) -> None:
    said = [line for line in lines(**facts) if line.startswith("  probe")]
    assert said == ([] if probe is None else [probe])


def test_a_breaker_with_a_streak_alone_skips_nobody() -> None:
    said = lines(phase="closed", opened_at=None, streak=1, tripped_by=["r0"])
    assert said == [
        "openai/gpt-5/key-3f9a: closed",
        "  1 rollout in a row failed with auth:401 (it opens at 5): r0",
    ]


@pytest.mark.slow
def test_a_breaker_is_shown_and_reset_by_its_command(tmp_path: Path) -> None:
    with (
        service(tmp_path, BREAKER_THRESHOLD="2") as (url, _provider, _accounts),
        Client(url) as client,
    ):
        batch = client.batch("b", model="gpt-5", upstream="openai")
        for n in range(2):
            with batch.rollout(f"t{n}") as rollout:
                call(rollout.env["OPENAI_BASE_URL"], "sk-dead")
        with pytest.raises(Skipped, match=r"truezero breaker reset b$"), batch.rollout("t2"):
            raise AssertionError("nothing is run")
        shown = truezero("breaker", "b", url=url)
        assert shown.returncode == 0, shown.stderr
        assert ": open, opened at" in shown.stdout
        assert "  skipped: t2\n" in shown.stdout
        assert shown.stdout.splitlines()[1].endswith(": t0, t1")
        (lane,) = json.loads(truezero("breaker", "b", "--json", url=url).stdout)["lanes"]
        assert (lane["skipped_total"], len(lane["tripped_by"])) == (1, 2)
        assert lane["probe_at"] == pytest.approx(lane["opened_at"] + 60)
        done = truezero("breaker", "reset", "b", url=url)
        assert ": half open" in done.stdout, done.stderr
        with batch.rollout("t3") as rollout:
            call(rollout.env["OPENAI_BASE_URL"])
        assert truezero("breaker", "b", url=url).stdout.startswith("no breaker is close to opening")
        for words in (["reset", "b", "c"], ["set", "b"], ["b", "--lane", "x"]):
            assert truezero("breaker", *words, url=url).returncode == 2
