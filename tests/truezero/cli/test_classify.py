"""`truezero classify`: exports and archives judged offline, and by the operator's own rows."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.features.exports import archive
from proxy.store.database import Database
from tests.fakes import answers
from tests.proxy.api.test_routes import Service, serving
from truezero.cli import app

ROWS = """
[[causes]]
name = "broke"
code = "E1042"
cause = "quota"

[[causes]]
name = "said"
words = "flat broke"
cause = "quota"
"""
ERROR = {"message": "Something is off.", "type": "strange_error"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that judged three rollouts without rows: by code, by words, and healthy."""
    with serving(tmp_path_factory.mktemp("judging")) as running:
        play(running, "by-code", answers.whole({"error": {**ERROR, "code": "E1042"}}, 400))
        play(running, "by-words", answers.whole({"error": {**ERROR, "message": "flat broke"}}, 400))
        play(running, "healthy", answers.chat())
        running.provider.plays(answers.whole({"error": {**ERROR, "code": "E1042"}}, 400))
        running.http.post("/openai/v1/chat/completions", json={"model": "gpt-5", "messages": []})
        yield running


def play(service: Service, name: str, answer: Any) -> None:
    service.http.post("/rollouts", json={"id": name, "batch": "b", "task": name})
    service.provider.plays(answer)
    for _ in range(2):
        service.call(name)
    seen = {"status": "success", "prompts_executed": 1, "rewards": {"reward": 0.0}}
    service.http.post(f"/rollouts/{name}/outcome", json=seen).raise_for_status()


@pytest.fixture
def folder(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: the rows, an archive and an export."""
    monkeypatch.chdir(tmp_path)
    Path("truezero.toml").write_text(ROWS, encoding="utf-8")
    with archive.export_records(service.database) as records:
        archive.write_file(records, Path("full.jsonl"))
    Path("some.jsonl").write_bytes(service.http.get("/rollouts/export").content)
    return tmp_path


def classify(*words: str, given: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["classify", *words], input=given)


def judged(*words: str, given: bytes | None = None) -> dict[str, Any]:
    said = classify(*words, given=given)
    assert said.exit_code == 0, said.output
    verdicts = map(json.loads, said.stdout.splitlines())
    return {each["rollout_id"]: each for each in verdicts}


def test_an_archive_is_judged_as_the_service_did(service: Service, folder: Path) -> None:
    by_archive, by_export = judged("full.jsonl"), judged("some.jsonl")
    assert by_archive == judged("-", given=Path("full.jsonl").read_bytes())
    for verdict in by_export.values():  # where the service adds what calls cost
        of_archive = by_archive[verdict["rollout_id"]]
        verdict |= {name: of_archive[name] for name in ("cost_usd", "cost_unknown_calls")}
    assert by_archive == by_export
    assert set(by_archive) == {"by-code", "by-words", "healthy"}
    for name, verdict in by_archive.items():
        said = service.get(f"/rollouts/{name}/verdict")
        for key in ("health", "subcategory", "cause", "scoreable", "evidence"):
            assert verdict[key] == said[key], (name, key)


@pytest.mark.parametrize(("file", "failed"), [("full.jsonl", 5), ("some.jsonl", 4)])
def test_rows_by_code_are_applied_and_the_change_is_told(
    folder: Path, file: str, failed: int
) -> None:
    said = classify(file, "--causes", "truezero.toml")
    assert said.exit_code == 0, said.output
    before = "api_error rejected_request (all_failed, not scoreable)"
    after = "api_error quota (all_failed, not scoreable)"
    assert said.stdout.splitlines() == [
        f"{failed} failed calls, {failed - 2} with another cause",
        f"  status.400 → operator:broke: {failed - 2} calls",
        "3 rollouts, 1 with another verdict",
        f"  by-code: {before} → {after}",
    ]
    told = json.loads(classify(file, "--causes", "truezero.toml", "--json").stdout)
    assert (told["failed_calls"], told["changed_calls"], told["rollouts"]) == (
        failed,
        failed - 2,
        3,
    )
    (change,) = told["verdicts"]
    found = change["before"]["subcategory"], change["after"]["subcategory"]
    assert found == ("rejected_request", "quota")
    assert "operator:" not in classify(file).stdout, "nothing was written"


def test_a_copied_archive_is_imported_with_the_new_causes(folder: Path) -> None:
    original = Path("full.jsonl").read_bytes()
    said = classify("full.jsonl", "--causes", "truezero.toml", "--write", "copy.jsonl")
    assert said.exit_code == 0, said.output
    assert Path("full.jsonl").read_bytes() == original
    nouns = [name for name, _ in archive.read(io.BytesIO(Path("copy.jsonl").read_bytes()))]
    assert (nouns.count("rollout"), nouns.count("verdict")) == (3, 2)
    assert judged("copy.jsonl")["by-code"]["subcategory"] == "quota"
    with Path("copy.jsonl").open("rb") as file:
        taken = archive.import_records("other.db", archive.read(file))
    assert not taken.refused
    with archive.export_records("other.db") as records:
        archive.write_file(records, Path("again.jsonl"))
    assert Path("again.jsonl").read_bytes() == Path("copy.jsonl").read_bytes()
    again = classify("copy.jsonl", "--causes", "truezero.toml", "--write", "twice.jsonl")
    assert "5 failed calls, 0 with another cause\n" in again.stdout
    assert Path("twice.jsonl").read_bytes() == Path("copy.jsonl").read_bytes()


def test_a_service_on_the_imported_copy_gives_the_verdict_anew(folder: Path) -> None:
    classify("full.jsonl", "--causes", "truezero.toml", "--write", "copy.jsonl")
    with Path("copy.jsonl").open("rb") as file:
        archive.import_records("other.db", archive.read(file))
    with serving(folder, DATABASE_URL="other.db") as other:
        verdict = other.get("/rollouts/by-code/verdict")
        assert (verdict["health"], verdict["subcategory"]) == ("api_error", "quota")
        assert verdict["provisional"] is False
        assert other.get("/rollouts/by-words/verdict")["subcategory"] == "rejected_request"
        assert other.get("/batches/b")["subcategory"] == {"quota": 1, "rejected_request": 1}


def test_an_export_is_copied_line_by_line(folder: Path) -> None:
    said = classify("some.jsonl", "--causes", "truezero.toml", "--write", "copy.jsonl")
    assert said.exit_code == 0, said.output
    assert judged("copy.jsonl")["by-code"]["subcategory"] == "quota"
    lines = [Path(name).read_text("utf-8").splitlines() for name in ("some.jsonl", "copy.jsonl")]
    differing = [json.loads(new) for old, new in zip(*lines, strict=True) if old != new]
    assert [each["rule"] for each in differing] == ["operator:broke"] * 2


def test_calls_that_words_explained_keep_their_cause(folder: Path) -> None:
    with serving(folder, CONFIG="truezero.toml") as service:
        play(service, "r", answers.whole({"error": {**ERROR, "message": "flat broke"}}, 400))
        with archive.export_records(service.database) as records:
            archive.write_file(records, Path("said.jsonl"))
    assert "0 with another cause" in classify("said.jsonl", "--causes", "truezero.toml").stdout
    assert judged("said.jsonl")["r"]["subcategory"] == "quota"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["some.jsonl", "--write", "copy.jsonl"], "--write requires --causes"),
        (["none.jsonl"], "cannot read none.jsonl: No such file"),
        (["none.jsonl", "--causes", "truezero.toml"], "cannot read none.jsonl: No such file"),
        (["some.jsonl", "--causes", "none.toml"], "cannot read none.toml: No such file"),
        (["some.jsonl", "--causes", "some.jsonl"], "some.jsonl: invalid TOML"),
        (["some.jsonl", "--causes", "empty.toml"], "empty.toml: no [[causes]] in it"),
        (["some.jsonl", "--causes", "bad.toml"], "bad.toml: causes: row 1: cause is needed"),
        (["cut.jsonl"], "unexpected end of data"),
        (["cut.jsonl", "--causes", "truezero.toml"], "unexpected end of data"),
        (["bad.toml"], "bad.toml: line 1: "),
        (["some.jsonl", "--policy", "none"], "none"),
        (["some.jsonl", "--causes", "truezero.toml", "--write", "no/copy"], "cannot write no/copy"),
    ],
)
def test_what_cannot_be_read_or_written_is_said_with_exit_code_2(
    folder: Path, words: list[str], said: str
) -> None:
    Path("empty.toml").write_text("port = 1", encoding="utf-8")
    Path("bad.toml").write_text("[[causes]]\nstatus = 400\n", encoding="utf-8")
    Path("cut.jsonl").write_bytes(Path("full.jsonl").read_bytes()[:-200])
    done = classify(*words)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output
    assert "Traceback" not in done.output


def test_no_copy_stands_where_it_could_not_be_written_whole(folder: Path) -> None:
    Path("cut.jsonl").write_bytes(Path("full.jsonl").read_bytes()[:-200])
    assert classify("cut.jsonl", "--causes", "truezero.toml", "--write", "copy").exit_code == 2
    assert not Path("copy").exists()
    with closing(Database("other.db")):
        pass
