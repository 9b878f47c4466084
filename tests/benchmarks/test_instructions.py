"""Instructions by callgrind: what is made of what it wrote, without running it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import subjects
from benchmarks.instructions import instructions
from benchmarks.load import Bench
from benchmarks.subjects import Stage, Subject


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Load that a subject answers with 1,000 instructions each; 7 to start."""
    spent: dict[str, int] = {}

    @contextlib.contextmanager
    def stand(name: str, stage: Stage) -> Iterator[Subject]:
        spent[name] = 7
        yield Subject(name=name, port=1)
        folder = Path(stage.under[-1].partition("=")[2]).parent
        (folder / "1").write_text(f"events: Ir\nsummary: 1\ntotals: {spent[name]}\n")

    def ask(_: Bench, subject: Subject, *options: str) -> dict[str, object]:
        spent[subject.name] += int(options[options.index("-n") + 1]) * 1000
        return {}

    def missing(_: Stage) -> contextlib.AbstractContextManager[Subject]:
        raise FileNotFoundError("compiled")

    stands = {name: lambda stage, name=name: stand(name, stage) for name in ("truezero", "nginx")}
    monkeypatch.setattr(subjects, "STANDS", {**stands, "compiled": missing})
    monkeypatch.setattr(Bench, "ask", ask)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    return Bench(load=Path("load"), stage=Stage(provider_port=1), seconds=1, load_core=None)


def test_start_and_warming_up_are_taken_off_and_who_is_missing_is_left_out(bench: Bench) -> None:
    assert instructions(bench) == {"truezero": {"exchange": 1000.0}, "nginx": {"exchange": 1000.0}}


def test_without_valgrind_it_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(RuntimeError, match="apt-get install valgrind"):
        instructions(bench)
