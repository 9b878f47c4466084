"""Final is final: whatever happens after, all bytes of a final verdict stay but those listed.

`late_calls` counts what came later, one spilled call that had ended before the outcome makes
the verdict undecided, and one later delivery of rewards changes result and validity. Histories are
drawn from fixed seeds.
"""
# ruff: noqa: SLF001
# Private: one verdict is stored while another is.

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from classifier import rules
from classifier.verdicts import Policy
from proxy.control import judge, rollouts
from proxy.control.queries import Service
from proxy.features.budgets.store import Budgets
from proxy.features.exports import archive
from proxy.features.prune import deletion
from proxy.routing.errors import Refusal
from proxy.store import tables
from proxy.store.database import Database
from proxy.store.references import ReferenceLane
from proxy.store.tables import CommitBatch, Gap, Registration, as_json, verdicts
from tests.builders import STARTED, calls, limit_reached
from tests.fakes.control import control_over
from truezero.models import OutcomeRequest

LIVES = (
    "200*3", "401*3", "200+tool 503*2", "429*2 200", "404@gpt-5o 200", "", "left", "200+garbled*2",
    "200 400", "503 200", "429+quota", "200+tool 401+judge*2", "200+media",
)  # fmt: skip
# What a later delivery of rewards may change: fields of verdict and result, columns.
REWARDED = {"validity", "validity_coverage", "scoreable", "excluded_by", "sentence"}
OF_RESULT = REWARDED | {"rewards", "error", "diagnostics", "validity_info"}
OF_ROW = {
    "validity", "scoreable", "reward", "unearned", "stands_on", "verdict", "result", "counted",
    "taken",
}  # fmt: skip
ENDED = STARTED + 100.0  # the outcome of the rollout whose verdict is looked at
ME = "me"


class History:
    """One database and the process over it, after a rollout's verdict became final."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.url = str(folder / f"{seed}.db")
        self.now = STARTED
        self.others = self.made = 0
        self.spilled = False
        self.restart(Policy(agents=self.draw.choice(("trusted", "untrusted"))))
        self.database.prepare()
        batch = self.draw.choice((None, "b"))
        mine = Registration(id=ME, batch=batch, task="t", repeat=0, attempt=0, model="gpt-5")
        self.database.rollouts.register(mine, now=self.now)
        for _ in range(self.draw.randrange(4)):
            self.other_call()
        if life := self.draw.choice(LIVES):
            self.write(ME, life)
        for _ in range(self.draw.randrange(4)):
            self.other_call()
        self.now = ENDED
        reward = self.draw.choice((0.0, 1.0, None))
        if self.draw.random() < 0.3:  # whoever was to end its calls did not come back
            outcome = OutcomeRequest(
                status="success", prompts_executed=1, rewards=_named(reward)
            ).model_dump(exclude=rollouts._ATTRIBUTES)
            self.database.rollouts.report(ME, as_json(outcome), now=self.now)
        else:
            self.report(ME, reward)
        self.now += 61.0
        self.final = self.seen()
        assert self.final["verdict"]["provisional"] is False
        assert self.final["verdict"]["judged_at"] is not None

    # -- what is looked at ---------------------------------------------------------------------

    def seen(self) -> dict[str, Any]:
        """Return verdict and result as REST answers them, without `late_calls`, and the row."""
        verdict = asyncio.run(judge.verdict(self.service, ME))
        result = asyncio.run(judge.result(self.service, ME))
        del verdict["late_calls"], result["late_calls"]
        row = select(verdicts).where(verdicts.c.rollout_id == ME)
        stored = self.database.read(lambda connection: connection.execute(row).mappings().one())
        return {"verdict": verdict, "result": result, "row": dict(stored)}

    # -- what happens --------------------------------------------------------------------------

    def restart(self, policy: Policy) -> None:
        """Start another process over the same database, perhaps of another release."""
        self.database = Database(self.url)
        self.service: Service = control_over(
            self.database, policy=policy, now=lambda: self.now, worker="w"
        )

    def write(self, rollout_id: str, life: str, *, late: bool = False, at: float = 0.0) -> None:
        self.made += 1
        recorded = [
            replace(
                x, id=f"{rollout_id}-{self.made}-{x.id}", rollout_id=rollout_id,
                timing=replace(x.timing, started_at=x.timing.started_at + at),
            )
            for x in calls(life)
        ]  # fmt: skip
        self.database.calls.write(CommitBatch(recorded=recorded, late=late), worker="w")

    def report(self, rollout_id: str, reward: float | None, **said: Any) -> dict[str, Any]:
        outcome = OutcomeRequest(
            status="success", prompts_executed=1, rewards=_named(reward), **said
        )
        return asyncio.run(rollouts.report(self.service, rollout_id, outcome))

    def other(self) -> str:
        self.others += self.draw.random() < 0.5 or not self.others
        name = f"other-{self.draw.randint(1, self.others)}"
        placed = Registration(
            id=name, batch=self.draw.choice(("b", "b", "else")), task="t", repeat=0,
            attempt=int(name[6:]), model="gpt-5",
        )  # fmt: skip
        self.database.rollouts.register(placed, now=self.now)
        return name

    def other_call(self) -> None:
        """Another rollout calls the same lane, before or after: a neighbour of any failure."""
        self.write(self.other(), self.draw.choice([*filter(None, LIVES), "200@GPT-5", "404@x"]))

    def other_report(self) -> None:
        with_outcome = self.other()
        try:
            self.report(with_outcome, self.draw.choice((0.0, 1.0)))
        except Refusal as refused:
            assert refused.status == 409

    def unattributed(self) -> None:
        self.write("_unattributed", "200")

    def late_call(self) -> None:
        self.write(ME, self.draw.choice(("200", "401", "503*2")), at=self.now - STARTED)

    def spilled_later(self) -> None:
        """A call that ended after the outcome is found in a spill file: it came late."""
        self.write(ME, "200", late=True, at=self.now - STARTED)

    def spilled_before(self) -> None:
        """One that had ended before: the verdict becomes undecided, once."""
        self.write(ME, self.draw.choice(("200", "401")), late=True, at=1.0)
        if not self.spilled:
            self.spilled = True
            self.final = self.seen()
            judged = self.final["verdict"]
            assert judged["health"] in ("undecided", "not_judged")
            assert judged["provisional"] is False

    def delivered_again(self) -> None:
        """The same outcome is answered as before; another one is refused."""
        again = self.report(ME, self.reported())
        del again["late_calls"]
        assert again == self.final["result"]
        with pytest.raises(Refusal, match="different outcome"):
            self.report(ME, self.reported(), tool_calls=3)

    def reported(self) -> float | None:
        row = self.database.rollouts.row(ME)
        rewards = json.loads(row["outcome"])["rewards"] if row else None
        return None if rewards is None else float(rewards["reward"])

    def rewarded_later(self) -> None:
        """Rewards come once, after an outcome without any; other ones are refused."""
        before = self.final
        if self.reported() is None:
            reward = self.draw.choice((0.0, 1.0))
            again = self.report(ME, reward)
            self.final = self.seen()
            assert again["rewards"] == self.final["result"]["rewards"]
            for part, listed in (("verdict", REWARDED), ("result", OF_RESULT), ("row", OF_ROW)):
                known, now = before[part], self.final[part]
                assert {name for name in now if now[name] != known[name]} <= listed
            if self.final["verdict"]["scoreable"] == "yes":
                assert self.final["result"]["rewards"] == {"reward": reward}
        with pytest.raises(Refusal, match="different outcome"):
            self.report(ME, 0.5)

    def registered_again(self) -> None:
        placed = Registration(id=ME, batch="elsewhere", task="u")
        assert self.database.rollouts.register(placed, now=self.now).conflict

    def restarted(self) -> None:
        self.database.close()
        self.restart(
            Policy(
                agents=self.draw.choice(("trusted", "untrusted")), breaker_threshold=1,
                validity="none", max_steps="exclude", max_retries=0,
            )
        )  # fmt: skip

    def judged_twice(self) -> None:
        """Another process had read the rollout before its verdict was final."""
        loaded = judge.load(self.service, ME)
        judge._judge_and_store(self.service, loaded)

    def asked_late(self) -> None:
        """A series of questions begins or ends beside its calls."""
        self.made += 1
        series, at = f"s{self.made}", self.now
        lane = ReferenceLane("openai", "gpt-5")
        self.database.references.begin(series, lane, api="openai.chat", worker="w", at=at)
        loaded = judge.load(self.service, ME)
        self.database.references.share(series, [(ME, x.id) for x in loaded.rollout.exchanges])
        if self.draw.random() < 0.7:
            said = {"answered": self.draw.choice((True, False)), "subcategory": "auth"}
            question = {"exchange_id": "q", "started_at": at, "ended_at": at, **said}
            self.database.references.end(series, at=at, calls=json.dumps([question]))

    def limited(self) -> None:
        """A late call of its own, or the last before its end, was refused by a limit."""
        Budgets(self.database.connections).refused(
            ME, limit_reached(self.draw.choice(("batch", "rollout")))
        )

    def closed_again(self) -> None:
        self.database.closings.closed(ME, now=self.now, gaps=1)

    def gapped(self) -> None:
        """A call that was served and could not be recorded is counted late."""
        self.database.calls.write(CommitBatch(gaps={ME: Gap(1, self.now)}), worker="w")
        self.spilled = True  # no second gap is told of

    def listed(self) -> None:
        asyncio.run(judge.refresh(self.service))
        asyncio.run(judge.refresh(self.service, "b"))

    def pruned(self) -> None:
        """Neighbours go whose batch did nothing since, and with them their calls."""
        deletion.prune(self.database, before=STARTED + 50.0, pause=lambda _seconds: None)

    def imported(self) -> None:
        """Its archive is imported where it was exported."""
        with archive.export_records(self.url) as records:
            known = list(records)
        archive.import_records(self.url, known)

    def time_passes(self) -> None:
        self.now += self.draw.choice((0.5, 30.0, 100.0, 86_400.0))


def _named(reward: float | None) -> dict[str, float] | None:
    return None if reward is None else {"reward": reward}


EVENTS: tuple[Callable[[History], None], ...] = (
    History.other_call, History.other_report, History.unattributed, History.late_call,
    History.spilled_later, History.delivered_again, History.registered_again, History.restarted,
    History.judged_twice, History.asked_late, History.limited, History.closed_again,
    History.listed, History.pruned, History.imported, History.time_passes,
    History.spilled_before, History.gapped, History.rewarded_later,
)  # fmt: skip


def outlives(folder: Path, seed: int, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(folder, seed)
    monkeypatch.setattr(rules, "RULES_VERSION", "99")
    told = []
    for _ in range(events):
        event = history.draw.choice(EVENTS)
        told.append(event.__name__)
        event(history)
        assert history.seen() == history.final, (seed, told)
    history.database.close()


@pytest.mark.parametrize(
    "seed", [*(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3)), 3]
)
def test_a_final_verdict_outlives_all_that_happens_after(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlives(tmp_path, seed, 16, monkeypatch)


@pytest.mark.slow
def test_final_verdicts_outlive_long_histories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(100, 115):
        with monkeypatch.context() as patched:
            outlives(tmp_path, seed, 60, patched)


def test_one_that_was_not_admitted_is_judged_by_its_calls_if_it_runs_and_reports(
    tmp_path: Path,
) -> None:
    history = History(tmp_path, 0)
    row = update(tables.rollouts).where(tables.rollouts.c.id == "held").values(skipped="breaker")
    history.database.rollouts.register(Registration(id="held", batch="b"), now=history.now)
    with history.database.connections.writing() as connection:
        connection.execute(row)
    held = asyncio.run(judge.verdict(history.service, "held"))
    history.now += 5.0
    assert asyncio.run(judge.verdict(history.service, "held")) == held, "it stands meanwhile"
    assert (held["health"], held["provisional"]) == ("not_judged", False)
    history.write("held", "200", at=history.now - STARTED)
    history.now += 5.0
    assert history.report("held", 1.0)["health"] == "healthy"
    history.database.close()
