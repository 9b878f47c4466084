from __future__ import annotations

import json
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from classifier.records import ExecutionStatus
from tests.truezero.audit.harnesses import WRITERS
from tests.truezero.audit.scenarios import scenarios
from truezero.audit.judge import NOTHING, Audited, audited
from truezero.audit.report import _HIDES, AuditReport, as_json, audit, beside, lines, report
from truezero.audit.runs import AuditError, FinishedRun, RecordedCall, RecordedError

DEAD_KEY = RecordedError(text="Incorrect API key provided", status=401)
BUSY = RecordedError(text="Too many requests", type="RateLimitError", status=429)


def run(task: str, reward: float | None, **facts: Any) -> Audited:
    name = f"{task}-{facts.get('repeat', 0)}-{facts.get('attempt', 0)}"
    return audited(FinishedRun(id=name, task=task, reward=reward, **facts))


def failed(task: str, error: RecordedError, reward: float | None = 0.0, **facts: Any) -> Audited:
    return run(task, reward, calls=(RecordedCall(error=error),), **facts)


def found(*runs: Audited) -> AuditReport:
    return report(runs, format_name="benchflow", path="jobs")


MIXED = found(
    run("a", 1.0, tokens=9),
    run("b", 0.0, tokens=9),
    failed("c", DEAD_KEY),
    failed("d", BUSY),
    run("e", 0.0, tokens=0),
    run("f", 0.0, unknown=("calls",)),
    run("g", None, prompted=False),
    failed("h", DEAD_KEY, 1.0),
)


def test_the_report_says_what_the_score_stands_on() -> None:
    corrected = "corrected 0.333 (95 % interval 0.061 to 0.792), 3 of 8 runs left"
    score = f"score: published 0.286 → {corrected}"
    assert list(lines(MIXED)) == [
        "jobs: benchflow, 8 runs",
        f"{score}; left out: auth:401 2, rate_limit:429 1, suspected:zero_signal 1",
        "bounds over all runs: 0.125 to 0.750",
        "health: api_error 3 · healthy 2 · suspected_api_error 1 · undecided 1 · not_judged 1",
        "false zeros: 3",
        "  c: api_error [auth, permanent]: HTTP 401 on 1 of 1 call",
        "  d: api_error [rate_limit, transient]: HTTP 429 on 1 of 1 call",
        "  e: suspected_api_error: a prompt was executed, yet no call, token or tool call was seen",
        "points without a measurement: 1",
        "  h: api_error [auth, permanent]: HTTP 401 on 1 of 1 call",
        "transient, run again: 1",
        "  rate_limit:429: d",
        "run again once fixed: 2",
        "  auth:401: c, h",
        "suspected, look first: 1",
        "  suspected:zero_signal: e",
        "no model was asked: see the harness's own error: 1",
        "  not_judged: g",
        "undecided, kept in the score as published: 1",
        f"  {NOTHING}: f",
        f"not known of 1 run: {_HIDES['calls']}",
    ]
    assert not MIXED.sound


def test_json_has_the_same_and_null_where_files_are_silent() -> None:
    told: Any = as_json(MIXED)
    [score] = told["parts"]
    assert (score["score_effective"], score["score_worst"], score["score_best"]) == (
        1 / 3,
        0.125,
        0.75,
    )
    assert score.items() >= {name: told[name] for name in ("total", "score_reported")}.items()
    assert score["left_out"] == {"auth:401": 2, "rate_limit:429": 1, "suspected:zero_signal": 1}
    assert told["false_zeros"] == ["c-0-0", "d-0-0", "e-0-0"]
    assert [each["task"] for each in told["rerun"]["fix_first"]] == ["c", "h"]
    by_task = {item["task"]: item for item in told["items"]}
    assert by_task["c"]["verdict"]["total_requests"] == 1
    assert by_task["f"]["verdict"]["total_requests"] is None
    assert by_task["f"]["verdict"]["layer"] == "audit"
    assert by_task["f"]["unknown"] == ["calls"]
    assert {task: item["why"] is None for task, item in by_task.items()} == {
        task: task in "ab" for task in by_task
    }


def test_of_attempts_the_first_that_measured_counts_and_repeats_all_do() -> None:
    one = found(
        failed("a", BUSY, attempt=0),
        run("a", 1.0, tokens=9, attempt=1),
        run("a", 0.0, tokens=9, repeat=1),
    )
    [part] = one.parts
    assert (part.scores.total, part.scores.score_effective) == (2, 0.5)
    assert one.rerun["transient"] == [], "a later attempt measured it"


def test_nothing_measured_is_an_unknown_score_and_not_a_zero() -> None:
    nothing = found(failed("a", DEAD_KEY))
    [_, score, *_] = lines(nothing)
    unknown = "score: published 0.000 → corrected unknown, none of 1 run is a measurement"
    assert score == f"{unknown}; left out: auth:401 1"
    told: Any = as_json(nothing)
    assert (told["score_effective"], told["score_ci"], told["coverage"]) == (None, None, 0.0)


def test_rewards_beyond_one_have_no_bounds() -> None:
    told: Any = as_json(found(run("a", 7.0, tokens=9), failed("b", BUSY)))
    assert (told["score_effective"], told["score_worst"], told["score_best"]) == (7.0, None, None)


def test_a_log_without_scores_has_none() -> None:
    assert "score: the files hold none" in lines(found(run("a", None, tokens=9)))


def test_names_from_files_cannot_move_a_cursor() -> None:
    assert not any("\x1b" in line for line in lines(found(failed("\x1b[2J", BUSY))))


def test_a_zero_that_nobody_has_given_yet_is_no_score() -> None:
    empty = run("a", 0.0, tokens=9, filled=True)
    unscored = found(empty, run("b", None, tokens=9))
    assert "score: the files hold none" in lines(unscored)
    assert not any("0.000" in line for line in lines(unscored))
    told: Any = as_json(unscored)
    assert [told[name] for name in ("score_reported", "score_effective", "score_worst")] == [
        None
    ] * 3
    assert (told["scoreable"], told["coverage"]) == (2, 0.0)
    assert as_json(found(empty, run("b", 1.0, tokens=9)))["score_reported"] == 0.5
    false = found(failed("c", DEAD_KEY, 0.0, filled=True))
    assert [each.task for each in false.false_zeros] == ["c"], "it will be counted"


def test_a_model_that_was_reached_and_never_scored_is_said_to_be() -> None:
    mixed = found(run("a", None, tokens=9), failed("b", DEAD_KEY))
    said = "score: published 0.000 → corrected unknown, none of 1 run left has a score"
    assert f"{said}; left out: auth:401 1" in lines(mixed)


# --- what leaves the score, and what stays --------------------------------------------------------

TOO_LONG = RecordedError(text="prompt is too long: 9001 tokens > 9000 maximum", status=400)
ODD = RecordedError(text="odd", status=400)


def scores(report: AuditReport) -> tuple[float | None, float | None]:
    [part] = report.parts
    return part.score_reported, part.scores.score_effective


def test_a_zero_that_may_be_a_measurement_stays() -> None:
    """Only a proof takes one out: an honest zero that is missing makes the score worse."""
    passed = run("a", 1.0, tokens=9)
    for facts in (
        {"tokens": 9, "error": TOO_LONG},
        {"tokens": 9, "error": ODD},
        {"error": TOO_LONG},
        {},
        {"calls": (RecordedCall(content=True), *[RecordedCall(error=ODD)] * 3)},
    ):
        kept = run("b", 0.0, **facts)
        assert not kept.left_out
        assert scores(found(passed, kept)) == (0.5, 0.5)
    odd = found(passed, run("b", 0.0, tokens=9, error=ODD))
    assert "undecided, kept in the score as published: 1" in lines(odd)


def test_a_run_that_passed_before_a_failure_ended_it_stays_and_is_listed() -> None:
    for reward, stays in ((1.0, True), (0.0, False), (0.5, False)):
        ended = run("a", reward, tokens=9, error=BUSY)
        one = found(ended, run("b", 0.0, tokens=9))
        assert (ended.passed_before, ended in one.rerun["transient"]) == (stays, not stays)
        assert scores(one) == (reward / 2, 0.5 if stays else 0.0)
        assert one.sound is stays
        told: Any = as_json(one)
        assert told["passed_before"] == (["a-0-0"] if stays else [])
    assert not failed("a", BUSY, 1.0).passed_before, "nothing was answered"
    assert not run("a", 1.0, output=False, error=BUSY).passed_before
    assert run("a", 1.0, error=BUSY).passed_before, "who passed was answered"
    assert run("a", 0.0, error=BUSY).no_measurement


def test_points_that_no_model_earned_are_findings() -> None:
    empty = RecordedCall(content=False, reasoning=True, output_tokens=9)
    for unearned in (
        run("a", 1.0, calls=(empty,)),
        run("a", 0.5, calls=(RecordedCall(content=False),)),
        run("a", 1.0, prompted=False),
    ):
        one = found(unearned, run("b", 0.0, tokens=9))
        assert (one.false_points, one.sound) == ([unearned], False)
        assert scores(one)[1] == 0.0
    for earned in (
        run("a", 0.0, calls=(empty,)),
        run("a", 1.0, calls=(empty, RecordedCall(content=True))),
    ):
        assert found(earned).sound


def test_what_the_harness_lays_to_the_environment_is_no_measurement() -> None:
    broke = run("a", 0.0, tokens=9, status=ExecutionStatus.ENVIRONMENT_ERROR)
    one = found(broke, run("b", 1.0, tokens=9))
    assert (one.false_zeros, scores(one)) == ([broke], (0.5, 1.0))
    assert "the environment failed" in broke.why
    assert not run("a", 1.0, tokens=9, status=ExecutionStatus.ENVIRONMENT_ERROR).left_out


def test_a_score_that_cannot_be_read_is_said() -> None:
    one = found(run("a", None, tokens=9, unread="a dictionary"), failed("b", BUSY, 0.0))
    assert "score not read of 1 run: a dictionary" in lines(one)


def test_no_sum_is_made_over_unlike_runs() -> None:
    runs = [
        run("a", 1.0, tokens=9, evaluation="x", model="m", settings=(("heat", "0"),)),
        run("a", 0.0, tokens=9, evaluation="x", model="m", settings=(("heat", "1"),)),
        failed("a", DEAD_KEY, evaluation="y", model="m", settings=(("heat", "1"),)),
    ]
    one = found(*(replace(each, id=f"{n}") for n, each in enumerate(runs)))
    assert [part.name for part in one.parts] == ["x · heat=0", "x · heat=1", "y · heat=1"]
    told: Any = as_json(one)
    assert (told["score_reported"], told["total"]) == (None, None)
    assert [part["score_reported"] for part in told["parts"]] == [1.0, 0.0, 0.0]
    assert "  2: api_error [auth, permanent]: HTTP 401 on 1 of 1 call" in lines(one)
    unnamed = found(run("a", 1.0, model="m"), run("b", 0.0))
    assert [(part.model, len(part.runs)) for part in unnamed.parts] == [("m", 2)]
    said = [line for line in lines(one) if "published" in line and "heat" in line]
    assert said[0].startswith("  x · heat=0: published 1.000 → corrected 1.000")


def test_nothing_is_judged_where_no_run_says_whether_its_model_was_reached() -> None:
    silent, unasked = run("a", 0.0), run("b", 0.0, prompted=False)
    assert not found(silent, unasked).judged
    assert list(lines(found(silent)))[-1] == "nothing could be judged"
    for known in (run("c", 0.0, tokens=9), run("c", 0.0, tokens=0), failed("c", DEAD_KEY)):
        assert found(silent, known).judged


# --- run ------------------------------------------------------------------------------------------


def test_a_path_in_no_format_names_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"a": 1}')
    with pytest.raises(AuditError) as error:
        audit(tmp_path)
    assert all(name in str(error.value) for name in WRITERS)
    with pytest.raises(AuditError, match="no such file"):
        audit(tmp_path / "missing")
    with pytest.raises(AuditError, match="'x' is none of truezero, benchflow"):
        audit(tmp_path, name="x")


def test_a_format_without_a_run_in_the_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no finished run of Harbor"):
        audit(tmp_path, name="harbor")


def test_a_copy_is_never_written_over_or_into_what_is_read(tmp_path: Path) -> None:
    source = tmp_path / "runs"
    source.mkdir()
    WRITERS["maseval"](source, scenarios(30))
    for out in (source, source / "in", tmp_path):
        with pytest.raises(AuditError, match="--out"):
            audit(source, write=True, out=out)


def test_a_folder_with_other_files_is_not_written_to(tmp_path: Path) -> None:
    for name in ("runs", "others"):
        (tmp_path / name).mkdir()
        WRITERS["maseval"](tmp_path / name, scenarios(30))
    (tmp_path / "others" / "notes.txt").write_text("mine")
    with pytest.raises(AuditError, match=r"holds other files \(notes\.txt\)"):
        audit(tmp_path / "runs", write=True, out=tmp_path / "others")
    assert "truezero" not in (tmp_path / "others" / "benchmark.jsonl").read_text()


def test_a_files_copy_keeps_its_name_in_a_folder_beside_it(tmp_path: Path) -> None:
    WRITERS["maseval"](tmp_path, scenarios(30))
    found = audit(tmp_path / "benchmark.jsonl", write=True)
    assert found.written == str(beside(tmp_path / "benchmark.jsonl") / "benchmark.jsonl")
    assert Path(found.written).parent.name == "benchmark.audited"
    lines = map(json.loads, Path(found.written).read_text().splitlines())
    assert sum("truezero" in line["traces"] for line in lines) == len(
        [run for run in found.runs if run.verdict.health.unhealthy]
    )


JUNK: tuple[object, ...] = (
    None,
    "",
    0,
    -1,
    1.5,
    True,
    [],
    {},
    "x",
    [None],
    [{}],
    {"a": 1},
    float("nan"),
    10**30,
)


def mutated(value: Any, draw: random.Random) -> Any:
    """The same record with a few of its values replaced or gone."""
    if draw.random() < 0.03:
        return draw.choice(JUNK)
    if isinstance(value, dict):
        return {k: mutated(each, draw) for k, each in value.items() if draw.random() > 0.01}
    return [mutated(each, draw) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
def test_records_of_any_shape_are_judged_or_refused_in_a_sentence(tmp_path: Path) -> None:
    judged = 0
    for name in WRITERS:
        for seed in range(2):
            folder = tmp_path / f"{name}-{seed}"
            folder.mkdir()
            WRITERS[name](folder, scenarios(15, seed))
            draw = random.Random(seed)
            for file in [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]:
                texts = (
                    file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
                )
                changed = [json.dumps(mutated(json.loads(text), draw)) for text in texts]
                file.write_text("\n".join(changed) + "\n")
            with suppress(AuditError):
                judged += len(audit(folder, name=name, write=True).runs)
    assert judged > 50


def test_progress_is_told_as_runs_are_judged(tmp_path: Path) -> None:
    WRITERS["maseval"](tmp_path, scenarios(210))
    told: list[int] = []
    audit(tmp_path, progress=told.append)
    assert told == [100, 200]
