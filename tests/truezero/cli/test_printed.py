"""What commands print of a record, in the words of `tests/golden/printed.txt`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from classifier import codec
from tests import golden
from tests.builders import exchange
from tests.proxy.api.test_list_formats import BARE
from tests.truezero.models.test_batches import EMPTY, REPORTS_EMPTY
from tests.truezero.sdk.test_client import VERDICT
from truezero import Event, models
from truezero.cli.batch import print_batch
from truezero.cli.breaker import lane_lines
from truezero.cli.check import print_check
from truezero.cli.compare import print_comparison
from truezero.cli.listing import print_batches, print_rollouts
from truezero.cli.rerun import commands, print_reruns, rerun_ids
from truezero.cli.run import report_lines
from truezero.cli.status import lane_line, print_status
from truezero.cli.verdict import print_verdict, sentence_of, verdict_line
from truezero.cli.watch import event_line, waiting_line
from truezero.runner.run import ProcessResult, Report

LANE: dict[str, Any] = {
    "lane": "openai/gpt-5/key-3f9a", "phase": "open", "fingerprint": "auth:401", "streak": 12,
    "threshold": 5, "opened_at": 0.0, "retry_at": None, "canary": None, "probe_at": 60.0,
    "tripped_by": [f"r{n}" for n in range(12)], "skipped": ["s0"], "skipped_total": 240,
}  # fmt: skip
CLOSED = models.Breaker(batch="b", threshold=5, lanes=[])
FOUND = {
    "check": "engine_aborted", "level": "invalid", "calls": 1, "of": 14, "evidence": ["x2"],
    "sentence": "the engine aborted [1] of 14 answers",
}  # fmt: skip
ASKED = {"exchange_id": "x1", "series": "s1", "result": "answered", "started_at": 1.0,
         "ended_at": 2.0, "calls": 3, "answered": 3}  # fmt: skip
CALL = codec.encode_exchange(exchange(429))
CALLS = [models.Exchange.model_validate(CALL | {"id": f"x{n}"}) for n in range(9)]


def verdict(**fields: Any) -> models.Verdict:
    return models.Verdict.model_validate({**VERDICT, **fields})


def said(lines: Callable[[], str | Sequence[str] | Iterator[str]]) -> Callable[[], None]:
    """Print a line, or lines, that a function returns."""

    def prints() -> None:
        told = lines()
        print(told if isinstance(told, str) else "\n".join(told))  # noqa: T201

    return prints


def lanes(**facts: Any) -> Callable[[], None]:
    return said(lambda: lane_lines("my batch", models.BreakerLane.model_validate(LANE | facts)))


def check(breaker: models.Breaker = CLOSED, **facts: Any) -> Callable[[], None]:
    given: dict[str, Any] = {"batch": "b[1]", "valid": False, "lines": [], **facts}
    return lambda: print_check(models.Check.model_validate(given), breaker)


def opened() -> models.Breaker:
    both = [LANE, {**LANE, "lane": "openai/gpt-5/other", "phase": "closed"}]
    return models.Breaker.model_validate({"batch": "b", "threshold": 5, "lanes": both})


def compared(tasks: list[dict[str, Any]], most: int | None, **more: Any) -> Callable[[], None]:
    def side(batch: str, score: float) -> dict[str, Any]:
        return {
            "batch": batch, "total": 20, "scoreable": 19, "scored": 19, "coverage": 0.95,
            "score_effective": score, "score_ci": (0.2, 0.6),
        }  # fmt: skip

    counts = {change: sum(each["change"] == change for each in tasks) for change in
              ("broken", "fixed", "unmeasured_b", "unchanged")}  # fmt: skip
    facts = {
        "a": side("last [night]", 0.4), "b": side("tonight", 0.5), "compared": 18, "score_a": 0.4,
        "score_b": 0.5, "difference": 0.1, "difference_ci": (-0.05, 0.25), "counts": counts,
        "without_task": 0, "tasks": tasks, "next": None, **more,
    }  # fmt: skip
    return lambda: print_comparison(models.BatchComparison.model_validate(facts), most=most)


def task(name: str, change: str, *of: float | None) -> dict[str, Any]:
    a, b = of
    scores = [
        {"score": score, "measured": int(score is not None), "repeats": 1, "rollout_ids": ["r"]}
        for score in of
    ]
    difference = None if a is None or b is None else b - a
    return {"task": name, "change": change, "difference": difference, "a": scores[0],
            "b": scores[1]}  # fmt: skip


MIXED = [
    *(task(f"broken-{n}", "broken", 1.0, 0.0) for n in range(12)),
    task("fixed", "fixed", 0.0, 1.0), task("fake", "unmeasured_b", 1.0, None),
    task("same", "unchanged", 1.0, 1.0),
]  # fmt: skip


def reruns(**lists: list[dict[str, Any]]) -> models.Reruns:
    kinds = {
        name: {"count": sum(group["count"] for group in groups), "groups": groups}
        for name, groups in lists.items()
    }
    return models.Reruns.model_validate({**REPORTS_EMPTY, "running": 2, **kinds})


def group(cause: str, count: int, fix: str | None = None, **item: Any) -> dict[str, Any]:
    items = [
        {"task": "a b", "repeat": n, "rollout_id": f"{cause}-{n}", "attempt": 1, "after_s": None}
        | item
        for n in range(count)
    ]
    return {"cause": cause, "fix": fix, "count": count, "items": items}


AGAIN = reruns(
    transient=[group("down", 12, after_s=2.5)],
    fix_first=[group("auth:401", 1, "replace the API key", task=None, repeat=None)],
    unmeasured=[group("never_started", 1, rollout_id=None)],
    skipped=[group("auth:401", 1, "fix the cause", repeat=None)],
)
EVIL = reruns(fix_first=[group("x\n$(touch evil)", 1, "f'`id`", task="\n; id #", repeat=None)])


def batch(**facts: Any) -> Callable[[], None]:
    given = {**EMPTY, **facts}
    nothing = models.Breaker(batch="b", threshold=0, lanes=[])
    return lambda: print_batch(models.BatchSummary.model_validate(given), nothing)


COUNTED: dict[str, Any] = {
    "calls": 8, "tokens_known_calls": 7, "cost_known_calls": 0, "total_tokens": 3,
    "input_tokens": 1, "output_tokens": 2, "validity": {"suspect": 2, "invalid": 1},
    "validity_checks": {"starved": 2, "engine_aborted": 1},
    "validity_across": [{
        "check": "model_substituted", "level": "suspect", "rollouts": 1, "of": 4,
        "examples": ["d"], "sentence": "gpt-5 was asked for; [x] answered",
    }],
}  # fmt: skip
KNOWN = {**COUNTED, "calls": 7, "cost_known_calls": 7, "cost_usd": 0.5, "validity": {}}


def lane(word: str, **facts: Any) -> models.LaneStatus:
    named = {"upstream": "openai", "model": "gpt-5", "since": None, "cause": None}
    return models.LaneStatus.model_validate({**named, **facts, "word": word})


TIMES = {"since": 86_400.0, "answered_at": 86_461.0, "calls": 14, "failed": {"auth": 6}}


def changed(word: str, **facts: Any) -> Callable[[], None]:
    return said(lambda: lane_line(lane(word, **facts)).partition("  ")[2])  # without the time


def ended(**facts: Any) -> Callable[[], None]:
    report = Report(rollout_id="a/b", agent="codex", ended=ProcessResult(agent_code=0), **facts)
    return said(lambda: report_lines(report))


STARVED = {"check": "starved", "level": "suspect", "calls": 2, "of": 2, "evidence": [],
           "sentence": "the task timed out after 9 s"}  # fmt: skip
DOOMED = ProcessResult(agent_code=0, doomed=True)
STOPPED = Report(rollout_id="a/b", agent="codex", ended=DOOMED, verdict=verdict(validity=[STARVED]))
BEYOND = dataclasses.replace(STOPPED, no_call="no call came: check its login")


def shown(calls: int, **fields: Any) -> Callable[[], None]:
    return lambda: print_verdict(verdict(**fields), CALLS[:calls])


def line(told: str | None = None, **fields: Any) -> Callable[[], None]:
    return said(lambda: verdict_line(verdict(**fields), told))


ROLES = {
    "judge": {"health": "api_error", "rule": "all_failed", "subcategory": "quota",
              "error": "HTTP 429 on 2 of 2 calls"},
    "user": {"health": "healthy", "rule": "healthy"},
}  # fmt: skip
OLD = {name: value for name, value in VERDICT.items() if name != "sentence"} | {
    "health": "api_error", "subcategory": "auth", "rule": "all_failed", "scoreable": "no",
    "error": "api_error [auth, permanent]: HTTP 401 on 3 of 3 calls", "provisional": False,
    "attributed_to": "operator",
}  # fmt: skip


def rollouts(more: bool, *facts: dict[str, Any]) -> Callable[[], None]:
    items = [models.RolloutItem.model_validate({**BARE, **each}) for each in facts]
    return lambda: print_rollouts(items, more=more)


LISTED = {
    "id": "r[1]\x1b", "batch": "b", "task": "t", "repeat": 2, "health": "api_error",
    "fingerprint": "auth:401", "total_tokens": 12_345, "cost_usd": 0.5, "created_at": 86_400,
}  # fmt: skip
HELD = {
    "health": "not_judged",
    "skipped": "skipped: breaker open on auth:401 after 5 rollouts in a row; fix the cause",
}
BATCH: dict[str, Any] = {
    **dict.fromkeys(models.BatchItem.model_fields, 7), "batch": "b", "health": {},
    "score_effective": 0.5, "score_ci": (0.25, 0.75), "valid": False, "cost_usd": None,
    "no_score": None, "ones": None,
    "zeros": {"reported": 5, "not_measured": 2, "by_cause": {"auth": 2}},
}  # fmt: skip

CASES: dict[str, Callable[[], None]] = {
    "check: an objection": check(lines=["t: [no] model"]),
    "check: more objections": check(lines=["one"], lines_total=1201),
    "check: random exclusions": check(
        valid=True, exclusion_bias=False, exclusion_p=0.4, exclusion_fisher_p=1e-4
    ),
    "check: scores": check(score_effective=2 / 3, score_reported=1 / 6),
    "check: an unknown score": check(score_effective=None, score_reported=0.0),
    "check: one try each": check(valid=True, repeats=3, tries=3),
    "check: more tries": check(valid=True, repeats=3, tries=4),
    "check: an open breaker": check(opened(), lines=["one"]),
    "breaker: open": lanes(),
    "breaker: names of tasks": lanes(
        phase="half_open", canary="r2", names={"r2": "fix-2", "s0": "fix-3 (repeat 1)"}
    ),
    "breaker: no probe": lanes(probe_at=None),
    "breaker: the next may try": lanes(phase="half_open", probe_at=None),
    "breaker: a streak": lanes(phase="closed", opened_at=None, streak=1, tripped_by=["r0"]),
    "compare: ten of each": compared(MIXED, 10),
    "compare: all": compared(MIXED, None),
    "compare: no task in common": compared(
        [], 10, compared=0, **dict.fromkeys(("score_a", "score_b", "difference", "difference_ci"))
    ),
    "rerun: by cause": lambda: print_reruns(AGAIN, [], most=10),
    "rerun: one list": lambda: print_reruns(AGAIN, ["undecided"], most=10),
    "rerun: nothing": lambda: print_reruns(reruns(), [], most=10),
    "rerun: ids": said(lambda: rerun_ids(AGAIN, ["fix_first", "unmeasured", "skipped"])),
    "rerun: commands": said(lambda: commands(AGAIN, ["fix_first"], ["./agent.sh", "a b"])),
    "rerun: commands without an agent": said(
        lambda: commands(AGAIN, ["transient", "unmeasured", "skipped"], url="http://s")
    ),
    "rerun: names that are commands": said(lambda: commands(EVIL, ["fix_first"], ["agent"])),
    "batch: nothing known": batch(),
    "batch: counted": batch(**COUNTED),
    "batch: known": batch(**KNOWN),
    "batch: time": batch(**KNOWN, lost_s=0.5, held_s=1234.56),
    "watch: a verdict": said(lambda: event_line(Event(
        id=1, kind="verdict_given", data={"rollout_id": "r", "health": "healthy",
                                          "validity": "suspect", "validity_checks": ["starved"]},
    ))),
    "watch: running": said(
        lambda: waiting_line(models.BatchSummary.model_validate({**EMPTY, "pending": 2}))
    ),
    "watch: idle": said(lambda: waiting_line(models.BatchSummary.model_validate(EMPTY))),
    "status: too few": changed(
        "unknown", calls=3, failed={"provider_error": 3}, reason="too few calls to tell"
    ),
    "status: next try": changed("down", cause="provider_error", next_at=37_327.0),
    "status: left out": lambda: print_status(
        [lane("down"), lane("degraded", **TIMES), lane("healthy", **TIMES)], left_out=2
    ),
    "run: stopped": said(lambda: report_lines(STOPPED)),
    "run: no call": said(lambda: report_lines(BEYOND)),
    "run: skipped": ended(skipped="skipped: open"),
    "run: no reward": ended(verdict=verdict(), no_reward="r.json: not written by this run"),
    "verdict: a line": line(),
    "verdict: tokens and cost": line(
        total_tokens=5, input_tokens=3, output_tokens=2, cost_usd=0.5
    ),
    "verdict: its own sentence": line(sentence="counts: the model answered 1 of 1 call"),
    "verdict: the runner's error": line(
        "setup broke", health="not_judged", rule="not_judged", scoreable="no", provisional=False
    ),
    "verdict: of release 0.1": said(lambda: sentence_of(models.Verdict.model_validate(OLD))),
    "verdict: findings, roles and time": shown(
        3, validity=[FOUND], roles=ROLES, provider_s=12.44, lost_s=0.5, agent_s=None,
        evidence=["x1"], validity_coverage={"engine_aborted": {"looked": 14, "of": 14},
                                            "prompt_truncated": {"looked": 3, "of": 14}},
    ),
    "verdict: undecided": shown(1, health="undecided", evidence=["x0"]),
    "verdict: questions": shown(0, references=[ASKED, {**ASKED, "exchange_id": "x2"}]),
    "verdict: a question under way": shown(
        0, references=[ASKED | {"result": None, "calls": 0}], provisional=True,
        warnings=["reference_pending"],
    ),
    "verdict: proof": shown(
        9, proof={"source": "wire", "first": "x1", "last": "x8"}, evidence=["x8"]
    ),
    "verdict: one proof": shown(9, proof={"source": "wire", "first": "x1", "last": "x1"}),
    "verdict: reported": shown(9, proof={"source": "reported"}),
    "verdict: markup": shown(0, health="api_error", sentence="does not count: [auth]"),
    "list: rollouts": rollouts(True, LISTED, {"reward": 0}, HELD),
    "list: nothing": rollouts(False),
    "batches: one": lambda: print_batches([models.BatchItem.model_validate(BATCH)], more=False),
    "batches: nothing": lambda: print_batches([], more=False),
}  # fmt: skip


def test_commands_print_records_in_the_same_words(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"FORCE_COLOR", "NO_COLOR"} & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "160")
    parts = []
    for title, prints in CASES.items():
        prints()
        out, err = capsys.readouterr()
        parts.append(f"--- {title}\n{out}{err}")
    golden.check_text("printed.txt", "\n".join(parts))
