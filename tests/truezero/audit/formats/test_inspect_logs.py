"""Inspect's zips: judged and marked as the same log in JSON, read and rewritten."""

from __future__ import annotations

import json
import math
import struct
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.truezero.audit.copies import verdicts
from tests.truezero.audit.harnesses import dump, inspect_log, inspect_sample
from tests.truezero.audit.scenarios import KINDS, Raised, Scenario, scenarios
from truezero.audit.report import as_json, audit, lines
from truezero.audit.runs import AuditError
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


def test_a_broken_zip_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", "{")
    with pytest.raises(AuditError, match=r"log\.eval"):
        audit(tmp_path)


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
