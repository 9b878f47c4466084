from __future__ import annotations

import json
import math
import statistics
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from classifier.verdicts import Policy
from tests.truezero.audit.copies import check_copy, verdicts
from tests.truezero.audit.harnesses import dump, inspect_log, inspect_sample
from tests.truezero.audit.scenarios import KINDS, Raised, Scenario, scenarios
from truezero.audit.formats.inspect_logs import INSPECT
from truezero.audit.report import as_json, audit, lines
from truezero.audit.runs import AuditError, FinishedRun
from truezero.audit.zips import ZipError, read_members, rewrite

REFUSED = Raised(type="AuthenticationError", text="Error code: 401 - {'error': 'bad key'}")
RUN = Scenario(kind="k", number=1, calls=("ok",), reward=0.0, failed=False)


def eval_file(
    path: Path,
    samples: list[dict[str, Any]],
    log: dict[str, Any] | None = None,
    reductions: list[dict[str, Any]] | None = None,
) -> None:
    """A log as a zip, as the recorder of Inspect lays it out."""
    log = log or inspect_log([])
    summaries = [{name: each.get(name) for name in ("id", "epoch", "scores")} for each in samples]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": log["eval"]}))
        for each in samples:
            archive.writestr(f"samples/{each['id']}_epoch_1.json", json.dumps(each))
        for name in ("_journal/summaries/1.json", "summaries.json"):
            archive.writestr(name, json.dumps(summaries))
        if reductions is not None:
            archive.writestr("reductions.json", json.dumps(reductions))
        archive.writestr("header.json", json.dumps({**log, "samples": None}))


def test_a_copy_invalidates_samples_as_inspect_does(tmp_path: Path) -> None:
    copy = check_copy("inspect", tmp_path)
    log = json.loads((copy / "log.json").read_text())
    marked = [each for each in log["samples"] if each.get("invalidation")]
    assert log["invalidated"]
    assert marked
    for each in marked:
        assert each["invalidation"]["author"] == "truezero"
        assert all(math.isnan(score["value"]) for score in each["scores"].values())
        assert {score["reason"] for score in each["scores"].values()} == {
            each["invalidation"]["reason"]
        }


def test_a_zip_is_judged_and_marked_as_the_same_log_in_json(tmp_path: Path) -> None:
    samples = [inspect_sample(run) for run in scenarios(2 * len(KINDS))]
    dump(tmp_path / "a" / "log.json", inspect_log(samples))
    (tmp_path / "b").mkdir()
    eval_file(tmp_path / "b" / "log.eval", samples)
    plain, zipped = audit(tmp_path / "a"), audit(tmp_path / "b", write=True)
    assert verdicts(zipped) == verdicts(plain)
    with zipfile.ZipFile(tmp_path / "b.audited" / "log.eval") as archive:
        assert archive.namelist()[-2:] == ["summaries.json", "header.json"]
        header = json.loads(archive.read("header.json"))
        summaries = json.loads(archive.read("summaries.json"))
    assert header["invalidated"]
    values = [score["value"] for each in summaries for score in (each["scores"] or {}).values()]
    unscored = [value for value in values if isinstance(value, float) and math.isnan(value)]
    assert len(unscored) == len([run for run in zipped.runs if run.verdict.health.unhealthy])
    again = audit(tmp_path / "b.audited", write=True, out=tmp_path / "c")
    assert verdicts(again) == verdicts(plain)
    one, two = (tmp_path / name / "log.eval" for name in ("b.audited", "c"))
    assert one.read_bytes() == two.read_bytes()


# --- metrics ---


def with_results(log: dict[str, Any], **metrics: Any) -> dict[str, Any]:
    """A log with one scorer's metrics as they were before: three samples of which all count."""
    told = {name: {"name": name, "value": 0.125, "params": {}, **m} for name, m in metrics.items()}
    score = {"name": "match", "scorer": "match", "scored_samples": 9, "unscored_samples": 0}
    results = {"total_samples": 9, "completed_samples": 9, "scores": [{**score, "metrics": told}]}
    return {**log, "results": results}


def rated(number: int, value: object, **facts: Any) -> dict[str, Any]:
    """A sample that a model answered."""
    return {**inspect_sample(RUN), "id": number, "scores": {"match": {"value": value}}, **facts}


def dead(number: int) -> dict[str, Any]:
    failed = Scenario(kind="k", number=1, calls=(REFUSED,), reward=0.0, failed=True)
    return {**inspect_sample(failed), "id": number, "scores": {"match": {"value": "I"}}}


def recomputed(tmp_path: Path, log: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The one scorer's results after an audit, and what is said of them."""
    dump(tmp_path / "logs" / "log.json", log)
    found = audit(tmp_path / "logs", write=True, out=tmp_path / "copy")
    copy = json.loads((tmp_path / "copy" / "log.json").read_text())
    [score] = copy["results"]["scores"]
    return score, list(found.uncorrected)


def values(score: dict[str, Any]) -> dict[str, float]:
    return {name: metric["value"] for name, metric in score["metrics"].items()}


def test_metrics_are_those_of_the_samples_that_remain(tmp_path: Path) -> None:
    samples = [rated(1, "C"), rated(2, "P"), rated(3, "0.25"), *map(dead, range(4, 10))]
    names = ("accuracy", "mean", "std", "stderr", "var", "inspect_ai/mean")
    log = with_results(inspect_log(samples), **{name: {} for name in names})
    score, said = recomputed(tmp_path, log)
    mean, deviation = 1.75 / 3, statistics.stdev((1, 0.5, 0.25))
    assert values(score) == pytest.approx(
        {
            "accuracy": mean, "mean": mean, "inspect_ai/mean": mean, "std": deviation,
            "stderr": deviation / math.sqrt(3), "var": deviation**2,
        }
    )  # fmt: skip
    assert (score["scored_samples"], score["unscored_samples"], said) == (3, 6, [])


def test_a_zip_has_the_metrics_of_the_same_log_in_json(tmp_path: Path) -> None:
    samples = [rated(1, "C"), rated(2, "I"), dead(3)]
    log = with_results(inspect_log(samples), accuracy={}, stderr={}, f1={})
    plain, _ = recomputed(tmp_path, log)
    path = tmp_path / "zip" / "log.eval"
    path.parent.mkdir()
    entries = [{"sample_id": each["id"], "value": 0.0, "reason": None} for each in samples]
    eval_file(path, samples, log, [{"scorer": "match", "samples": entries}])
    audit(path.parent, write=True, out=tmp_path / "copy-of-zip")
    read = read_members(tmp_path / "copy-of-zip" / "log.eval")
    header, [reduction] = (json.loads(read[n]()) for n in ("header.json", "reductions.json"))
    assert json.dumps(header["results"]["scores"]) == json.dumps([plain])
    assert math.isnan(reduction["samples"][2]["value"])
    assert "HTTP 401" in reduction["samples"][2]["reason"]
    assert read["_journal/summaries/1.json"]() == read["summaries.json"]()


def test_reductions_that_stand_in_the_results_are_reduced_anew(tmp_path: Path) -> None:
    log = with_results(inspect_log([rated(1, "I"), dead(2)]), accuracy={})
    entries = [{"sample_id": number, "value": 0.0} for number in (1, 2)]
    log["results"]["sample_reductions"] = [{"scorer": "match", "samples": entries}]
    recomputed(tmp_path, log)
    copy = json.loads((tmp_path / "copy" / "log.json").read_text())
    assert [math.isnan(each["value"]) for each in copy["reductions"][0]["samples"]] == [False, True]
    assert "sample_reductions" not in copy["results"]


# (metric, what a score's value is)
NOT_KNOWN: tuple[tuple[dict[str, Any], object], ...] = (
    ({"name": "f1"}, "C"),
    ({"name": "own/accuracy"}, "C"),
    ({"name": "stderr", "params": {"cluster": "kind"}}, "C"),
    ({"name": "lower", "group": "ci"}, "C"),
    ({"name": "x", "group": "grouped", "params": {"metric": {"name": "f1"}}}, "C"),
    ({"name": "accuracy"}, ["C", "I"]),
    ({"name": "accuracy"}, {"a": 1.0}),
)


@pytest.mark.parametrize(("metric", "value"), NOT_KNOWN)
def test_a_metric_that_is_not_known_is_nan_and_named(
    tmp_path: Path, metric: dict[str, Any], value: object
) -> None:
    log = with_results(inspect_log([rated(1, value), dead(2)]), it=metric)
    score, [said] = recomputed(tmp_path, log)
    assert math.isnan(score["metrics"]["it"]["value"])
    assert score["metrics"]["it"]["metadata"].keys() == {"truezero"}
    assert said.startswith("log.json: not recomputed and now NaN: it of match.")


@pytest.mark.parametrize(
    "metrics",
    [[{"name": "accuracy"}], {"match": [{"name": "accuracy"}]}, [{"*": [{"name": "accuracy"}]}]],
)
def test_a_tasks_own_metric_of_a_known_name_is_not_taken_for_inspects(
    tmp_path: Path, metrics: Any
) -> None:
    log = with_results(inspect_log([rated(1, "C"), dead(2)]), accuracy={}, mean={})
    log["eval"]["scorers"] = [{"name": "match", "metrics": metrics}]
    score, [said] = recomputed(tmp_path, log)
    assert math.isnan(values(score)["accuracy"])
    assert (values(score)["mean"], "now NaN: accuracy of match." in said) == (1.0, True)
    for each in log["eval"]["scorers"]:
        each["metrics"] = [{"name": "inspect_ai/accuracy"}]
    score, nothing = recomputed(tmp_path, log)
    assert (values(score), nothing) == ({"accuracy": 1.0, "mean": 1.0}, [])


def test_without_a_measured_sample_a_metric_is_nan(tmp_path: Path) -> None:
    score, said = recomputed(
        tmp_path, with_results(inspect_log([dead(1), dead(2)]), accuracy={}, stderr={})
    )
    assert all(map(math.isnan, values(score).values()))
    assert (score["scored_samples"], score["unscored_samples"], said) == (0, 2, [])


def test_metrics_of_a_log_whose_samples_all_count_stand(tmp_path: Path) -> None:
    score, said = recomputed(
        tmp_path, with_results(inspect_log([rated(1, "C"), rated(2, "I")]), accuracy={}, f1={})
    )
    assert (values(score), said) == ({"accuracy": 0.125, "f1": 0.125}, [])


def test_the_score_of_a_dead_judge_is_taken_out(tmp_path: Path) -> None:
    """The model was reached, so the sample is healthy; its zero is none all the same."""
    misjudged = rated(1, "I")
    judge = {**misjudged["events"][1], "role": "grader", "error": "AuthenticationError('bad key')"}
    misjudged["events"].append(judge)
    log = with_results(inspect_log([misjudged, rated(2, "C")]), accuracy={})
    score, _ = recomputed(tmp_path, log)
    assert (values(score), score["unscored_samples"]) == ({"accuracy": 1.0}, 1)


# (value, reward)
VALUES: tuple[tuple[object, float | None], ...] = (
    ("C", 1.0),
    ("I", 0.0),
    ("P", 0.5),
    ("N", 0.0),
    (True, 1.0),
    (0.25, 0.25),
    (math.nan, None),
    ("yes", 1.0),
    ("7.5", 7.5),
    (" 3 ", 3.0),
    ("nan", None),
    ({"a": 1.0, "b": 0.0}, None),
    ([1.0], None),
    ("free text", None),
    (None, None),
)


def test_scores_are_read_as_inspects_own_accuracy_does(tmp_path: Path) -> None:
    samples = [
        {**inspect_sample(RUN), "id": f"{n}", "scores": {"s": {"value": value}}}
        for n, (value, _) in enumerate(VALUES)
    ]
    dump(tmp_path / "log.json", inspect_log(samples))
    runs = [run for run in INSPECT.read(tmp_path) if isinstance(run, FinishedRun)]
    assert [run.reward for run in runs] == [reward for _, reward in VALUES]
    assert [run.unread for run in runs if run.unread] == [
        "a text that is no number",
        "a dictionary of 2 values, and no metric of the log names one",
        "a list that is no number",
        "a text that is no number",
    ]


def test_of_a_dictionary_the_value_counts_that_the_logs_metrics_name(tmp_path: Path) -> None:
    samples = [
        rated(1, {"steps": 3, "solved": "0", "style": 1}),
        rated(2, {"steps": 2, "solved": "C"}),
    ]
    log = with_results(inspect_log(samples), mean={})
    for name, rewards, said in (
        ("solved", [0.0, 1.0], None),
        ("match", [None, None], "own metric mean makes 0.125"),
    ):
        log["results"]["scores"][0]["name"] = name
        dump(tmp_path / "log.json", log)
        runs = audit(tmp_path).runs
        assert [run.reward for run in runs] == rewards
        assert [said in (run.unread or "") for run in runs] == [True, True] if said else not said


def test_a_dead_run_whose_score_cannot_be_read_is_a_false_zero(tmp_path: Path) -> None:
    dump(tmp_path / "log.json", inspect_log([dead(1) | {"scores": {"s": {"value": {"a": 0}}}}]))
    found = audit(tmp_path)
    assert [run.task for run in found.false_zeros] == ["1"]
    assert found.parts[0].score_reported is None


# --- whose runs they are ---


def spec(samples: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    log = inspect_log(samples)
    return log | {"eval": log["eval"] | {"eval_id": facts.get("task_id"), **facts}}


def test_tasks_models_and_settings_are_not_summed(tmp_path: Path) -> None:
    each: tuple[dict[str, Any], ...] = (
        {"task": "sums"},
        {"task": "words"},
        {"model": "openai/gpt-6"},
        {"task_args": {"hints": True}},
        {"model_generate_config": {"max_connections": 9}},  # changes no answer
    )
    for number, facts in enumerate(each):
        log = spec([rated(1, "I" if number else "C")], task_id=f"i{number}", **facts)
        dump(tmp_path / f"{number}.json", log)
    found = audit(tmp_path)
    assert {part.name: part.score_reported for part in found.parts} == {
        "sums · openai/gpt-5": 1.0,
        "words · openai/gpt-5": 0.0,
        "t · openai/gpt-6": 0.0,
        "t · openai/gpt-5 · hints=True": 0.0,
        "t · openai/gpt-5": 0.0,
    }


def test_logs_of_one_task_are_repeats_and_retried_ones_attempts(tmp_path: Path) -> None:
    for name, task_id, value in (("1", "a", "I"), ("2", "b", "C"), ("3", "b", "C")):
        dump(tmp_path / f"{name}.json", spec([rated(1, value)], task_id=task_id, eval_id=name))
    [part] = audit(tmp_path).parts
    assert [(run.repeat, run.attempt) for run in part.runs] == [(0, 0), (1, 0), (1, 1)]
    assert (part.scores.total, part.score_reported) == (2, 0.5)


def test_the_same_log_twice_counts_once_and_is_said(tmp_path: Path) -> None:
    samples = [rated(1, "C"), rated(2, "I")]
    for folder in ("logs", "docs/logs"):
        dump(tmp_path / folder / "x.json", inspect_log(samples))
    eval_file(tmp_path / "converted.eval", samples)
    found = audit(tmp_path)
    assert (len(found.runs), found.parts[0].score_reported) == (2, 0.5)
    said = (
        "the same run twice, counted once: 2 in docs/logs/x of converted, 2 in logs/x of converted"
    )
    assert said in lines(found)
    told: Any = as_json(found)
    assert told["copies"]["logs/x:1#1"] == "converted:1#1"


# --- what is not said ---


def test_a_call_without_an_answer_is_a_call_and_the_runs_error_may_be_its_own(
    tmp_path: Path,
) -> None:
    pending = {**inspect_sample(RUN)["events"][1], "output": {"choices": []}, "pending": True}
    for error, rule, cause in (
        ("Error 502 - Provider returned error", "all_failed", "provider_error:502"),
        ("KeyError('x')", "not_recorded", None),
    ):
        sample = {**inspect_sample(RUN), "events": [pending], "model_usage": {}}
        dump(tmp_path / "log.json", inspect_log([sample | {"error": {"message": error}}]))
        [run] = audit(tmp_path).runs
        assert (run.verdict.rule, run.verdict.fingerprint) == (rule, cause)


def test_a_log_without_events_and_usage_still_shows_its_last_answer(tmp_path: Path) -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "an answer"}}]}
    for output, rule in ((answer, "healthy"), ({"choices": []}, "not_recorded")):
        sample = inspect_sample(RUN) | {"events": [], "model_usage": {}, "output": output}
        dump(tmp_path / "log.json", inspect_log([sample]))
        [run] = audit(tmp_path).runs
        assert run.verdict.rule == rule


def test_a_model_that_only_reasoned_was_reached(tmp_path: Path) -> None:
    thought = {"type": "reasoning", "reasoning": "", "redacted": True}
    for content, usage, rule in (
        ([thought], {}, "healthy"),
        ("", {"reasoning_tokens": 900}, "healthy"),
        ("", {}, "not_recorded"),  # 950 tokens, of what nobody says
        ("", {"output_tokens": 0}, "empty_answers"),
    ):
        event = inspect_sample(RUN)["events"][1]
        event["output"]["choices"][0]["message"]["content"] = content
        event["output"]["usage"] = {"input_tokens": 9, "output_tokens": 950, **usage}
        dump(tmp_path / "log.json", inspect_log([inspect_sample(RUN) | {"events": [event]}]))
        [run] = audit(tmp_path).runs
        assert run.verdict.rule == rule


def test_a_graders_failure_is_not_the_agents(tmp_path: Path) -> None:
    sample = inspect_sample(RUN)
    grader = {**sample["events"][1], "role": "grader", "error": "AuthenticationError('bad key')"}
    sample["events"].append(grader)
    dump(tmp_path / "log.json", inspect_log([sample]))
    run = audit(tmp_path).runs[0]
    assert run.verdict.health.value == "healthy"
    assert run.verdict.roles["grader"].health.value == "api_error"


def test_epochs_are_repeats_of_a_sample(tmp_path: Path) -> None:
    samples = [{**inspect_sample(RUN), "epoch": epoch} for epoch in (1, 2)]
    dump(tmp_path / "log.json", inspect_log(samples))
    assert [(run.task, run.repeat) for run in audit(tmp_path).runs] == [("k-1", 0), ("k-1", 1)]


def test_a_broken_zip_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", "{")
    with pytest.raises(AuditError, match=r"log\.eval"):
        audit(tmp_path)


def filtered(**output: Any) -> dict[str, Any]:
    """An event as Inspect 0.3.285 writes it of a prompt that a filter rejected with a 400."""
    said = "The response was filtered due to the prompt triggering Azure OpenAI's policy."
    choice = {"message": {"role": "assistant", "content": said}, "stop_reason": "content_filter"}
    body = {"message": said, "type": None, "param": "prompt", "code": "content_filter"}
    return {
        "event": "model", "model": "openai/gpt-5", "timestamp": "2026-11-01T00:00:00+00:00",
        "output": {"choices": [choice], "completion": said, "usage": None, **output},
        "call": {"request": {}, "response": body, "error": True},
    }  # fmt: skip


def test_a_prompt_that_was_filtered_is_a_rejected_request_and_no_answer(tmp_path: Path) -> None:
    answered = filtered(usage={"input_tokens": 9, "output_tokens": 1}) | {"call": {"response": {}}}
    anthropic = filtered(error="output blocked by content filtering policy") | {"call": None}
    too_long = filtered()
    too_long["output"]["choices"][0]["stop_reason"] = "model_length"
    for event, fingerprint in (
        (filtered(), "rejected_request:400"), (anthropic, "rejected_request:400"),
        (too_long, None), (answered, None),
    ):  # fmt: skip
        sample = {**inspect_sample(RUN), "events": [event]}
        dump(tmp_path / "log.json", inspect_log([sample]))
        (run,) = audit(tmp_path).runs
        assert run.verdict.fingerprint == fingerprint
        assert (run.score is None) is (fingerprint is not None)
    dump(tmp_path / "log.json", inspect_log([{**inspect_sample(RUN), "events": [filtered()]}]))
    (run,) = audit(tmp_path, policy=Policy(content_filter="answer")).runs
    assert (run.verdict.health.value, run.score) == ("healthy", 0.0)


# --- zips -----------------------------------------------------------------------------------------

CONTENT = b'{"a": "' + b"word " * 500 + b'"}'


def zstandard_zip(path: Path, frames: int = 1) -> None:
    """A zip whose one member is compressed as Inspect's are; its method is patched in."""
    size = -(-len(CONTENT) // frames)
    parts = [CONTENT[n : n + size] for n in range(0, len(CONTENT), size)]
    raw = b"".join(zstandard.ZstdCompressor().compress(part) for part in parts)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/a.json", raw)
        info = archive.getinfo("samples/a.json")
        info.compress_type, info.file_size, info.CRC = 93, len(CONTENT), zlib.crc32(CONTENT)
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, info.header_offset + 8, 93)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("frames", [1, 3])
def test_zstandard_is_read_in_one_frame_or_several(tmp_path: Path, frames: int) -> None:
    zstandard_zip(tmp_path / "x.eval", frames)
    assert {n: read() for n, read in read_members(tmp_path / "x.eval").items()} == {
        "samples/a.json": CONTENT
    }


def test_without_zstandard_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstandard_zip(tmp_path / "x.eval")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ZipError, match="pip install zstandard"):
        read_members(tmp_path / "x.eval")["samples/a.json"]()


def test_what_is_no_zip_or_broken_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PK no zip")
    with pytest.raises(ZipError):
        read_members(tmp_path / "x")
    zstandard_zip(tmp_path / "y")
    data = bytearray((tmp_path / "y").read_bytes())
    data[44:60] = b"\0" * 16
    (tmp_path / "y").write_bytes(bytes(data))
    with pytest.raises(ZipError):
        read_members(tmp_path / "y")["samples/a.json"]()


def test_a_damaged_member_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        file = tmp_path / f"{method}"
        with zipfile.ZipFile(file, "w", method) as archive:
            archive.writestr("a", CONTENT)
        assert read_members(file)["a"]() == CONTENT
        data = bytearray(file.read_bytes())
        data[40] ^= 1
        file.write_bytes(bytes(data))
        with pytest.raises(ZipError):
            read_members(file)["a"]()
    with zipfile.ZipFile(tmp_path / "x", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", CONTENT)
    with pytest.raises(ZipError, match="method 12"):
        read_members(tmp_path / "x")["a"]()


def test_rewriting_changes_what_is_named_and_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("header.json", "a", "b"):
            archive.writestr(name, name)
    rewrite(file, {"a": bytes.upper}, last=("header.json",))
    with zipfile.ZipFile(file) as archive:
        assert {n: archive.read(n) for n in archive.namelist()} == {
            "a": b"A", "b": b"b", "header.json": b"header.json",
        }  # fmt: skip
        assert archive.namelist()[-1] == "header.json"
    once = file.read_bytes()
    rewrite(file, {"a": bytes.upper}, last=("header.json",))
    assert file.read_bytes() == once
