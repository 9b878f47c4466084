"""Instructions by callgrind: what is made of what it wrote, without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.instructions import dumped
from benchmarks.subjects import Subject


def dumping(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    def run(command: list[str], **_: object) -> None:
        assert command == ["callgrind_control", "--dump", "42"]
        (folder / "42.2").write_text(text)

    monkeypatch.setattr("subprocess.run", run)


def test_what_was_dumped_last_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "42.1").write_text("totals: 7\n")
    dumping(monkeypatch, tmp_path, "events: Ir\nsummary: 1\ntotals: 900\n")
    assert dumped(Subject(name="truezero", port=1, pid=42), tmp_path) == 900
