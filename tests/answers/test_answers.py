"""Each labelled answer, heard whole, in pieces, compressed and cut, and by the scorer of others."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from classifier.__main__ import causes_of
from classifier.records import Cause, Ending
from tests.answers import score
from tests.answers.table import (
    DOCUMENTED,
    ENVELOPES,
    FOLDER,
    LANGUAGES,
    LOOKALIKES,
    STREAMS,
    WORDED,
    Answer,
)
from tests.tables import each

EVERY = (*DOCUMENTED, *ENVELOPES, *STREAMS, *WORDED, *LANGUAGES, *LOOKALIKES)
SETS = tuple(dict.fromkeys((answer.set, answer.language) for answer in EVERY))


def named(answer: Answer) -> str:
    return f"{answer.upstream} {answer.status} {answer.fact or answer.message}"


def same(heard: Cause | None, whole: Cause | None) -> bool:
    if heard is None or whole is None:
        return heard is whole
    return (heard.subcategory, heard.rule) == (whole.subcategory, whole.rule)


def one_of(quick: int, slow: int = 1) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("step", [quick, pytest.param(slow, marks=pytest.mark.slow)])


@pytest.mark.parametrize("of", dict.fromkeys((row.set, row.language) for row in EVERY), ids=str)
def test_an_answer_means_what_its_label_says(of: tuple[str, str]) -> None:
    @each("answer", [row for row in EVERY if (row.set, row.language) == of], ids=named)
    def labelled(answer: Answer) -> None:
        cause = answer.observed().cause
        assert (cause and cause.subcategory) == answer.cause, cause
        assert (cause is not None and cause.transient) is answer.is_transient
        for field in ("reason", "rule", "code", "retry_after_s"):
            label = getattr(answer, field)
            assert label is None or getattr(cause, field) == label, field

    labelled()


@one_of(31)
def test_no_framing_changes_what_it_means(step: int) -> None:
    @each("answer", [*STREAMS, *EVERY[::step]], ids=named)
    def framed(answer: Answer) -> None:
        body, whole = answer.sent(), answer.observed().cause
        for size in (1, 2, 7, 64):
            pieces = [body[i : i + size] for i in range(0, len(body), size)]
            assert same(answer.observed(pieces).cause, whole), size
        packed = answer.observed([gzip.compress(body)], headers={"content-encoding": "gzip"})
        assert same(packed.cause, whole)
        if not isinstance(answer.body, str):
            assert same(answer.observed([json.dumps(answer.body, indent=1).encode()]).cause, whole)

    framed()


@one_of(61, 11)
def test_a_failed_status_is_a_failure_wherever_its_answer_is_cut(step: int) -> None:
    for answer in EVERY[::step]:
        body = answer.sent()
        for place in range(0, len(body), 5):
            cut = answer.observed([body[:place]], ending=Ending.CUT_UPSTREAM)
            assert cut.cause is not None or (answer.status < 400 and answer.cause is None), answer


def test_each_says_where_it_is_from_and_no_two_are_one() -> None:
    for name, rows in ROWS.items():
        asked = [json.dumps(score.unlabelled(row)) for row in rows]
        assert len(set(asked)) == len(asked), name
        assert all(row["source"].strip() for row in rows), name


# --- by another judge ---------------------------------------------------------------------------


ROWS = score.rows(FOLDER)


def scored(causes: Iterable[score.Row], step: int = 1) -> list[str]:
    return score.table({name: rows[::step] for name, rows in ROWS.items()}, causes)


def unlabelled(step: int = 1) -> list[score.Row]:
    return [score.unlabelled(row) for rows in ROWS.values() for row in rows[::step]]


@one_of(20)
def test_what_is_printed_for_a_judge_holds_no_label_and_this_one_is_right(step: int) -> None:
    rows = unlabelled(step)
    assert not any(label in row for row in rows for label in ("cause", "reason", "rule", "set"))
    assert scored(causes_of(map(json.dumps, rows)), step)[-1].split() == [
        "all", str(len(rows)), "100.0", "%", "100.0", "%", "0", "0",
    ]  # fmt: skip


def test_a_judge_that_never_sees_a_failure_misses_them_all_and_one_that_does_misreads() -> None:
    blind = scored({"cause": None} for _ in unlabelled())[-1].split()
    eager = scored({"cause": "auth", "transient": False} for _ in unlabelled())[-1].split()
    failed = sum(row["cause"] is not None for rows in ROWS.values() for row in rows)
    assert (int(blind[-2]), int(blind[-1])) == (failed, 0)
    assert (int(eager[-2]), int(eager[-1])) == (0, len(unlabelled()) - failed)


@pytest.mark.parametrize(("change", "said"), [(-1, "fewer"), (1, "more")])
def test_as_many_causes_are_wanted_as_answers(change: int, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said} causes"):
        scored([{"cause": None}] * (len(unlabelled()) + change))


def test_the_folder_is_enough_to_score_a_judge(tmp_path: Path) -> None:
    """Its page's commands, in a copy of the folder, by a Python without truezero."""
    folder = shutil.copytree(FOLDER, tmp_path / "answers")
    command = [sys.executable, "-I", "-S", str(folder / "score.py")]

    def run(*more: str, given: str = "") -> str:
        done = subprocess.run(
            [*command, *more], input=given, capture_output=True, text=True, check=True
        )
        return str(done.stdout)

    asked = run("--answers").splitlines()
    assert [json.loads(line) for line in asked] == unlabelled()
    told = run(given='{"cause": "quota"}\n' * len(asked))
    assert told.splitlines() == scored([{"cause": "quota"}] * len(asked))
